/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reaching application memory by mapping it: the range is (part of) a file in memory that the
 * application passes to the daemon. Nothing that the application does with the file afterwards may
 * make an access by the dataplane raise a signal; hence the checks.
 */
#ifndef UROCE_MEM_MAPPED_H
#define UROCE_MEM_MAPPED_H

#include <stddef.h>

#include "mem.h"

struct mem_mapping {
    void *base; /* NULL: nothing is mapped */
    size_t len;
};

enum mem_map_flag {
    /*
     * The application could end this process anyway. Accept files that are not sealed, and huge
     * page files. An application that shortens one, or punches a hole into one of huge pages while
     * their pool is empty, makes the dataplane's next access there raise SIGBUS.
     */
    MEM_MAP_TRUSTED = 1 << 0,
};

/*
 * Maps the n pieces of fd that, in this order, back the mr->len bytes at mr->addr; they are
 * adjacent in the dataplane as they are in the application. Sets mr->direct; mr's addr, len and
 * access must be set. The mapping is read-only if fd is not writable and mr->access grants no kind
 * of writing. The caller keeps fd, and may close it. Control thread, before mr_insert.
 *
 * Returns 0, or why the range cannot be mapped (*map and mr are then unchanged):
 *
 *  -EBADF       fd is no open file
 *
 *  -EINVAL      not a file in memory; the lengths of the pieces do not add up to mr->len, a piece
 *               is empty, or a piece other than the last does not end at the end of a page; or an
 *               address and its offset in the file differ in the offset in a page
 *
 *  -EPERM       the file is not sealed against shrinking (F_SEAL_SHRINK), without MEM_MAP_TRUSTED
 *
 *  -EOVERFLOW   a piece's end is beyond the largest file offset
 *
 *  -ERANGE      the file is shorter than a piece's end
 *
 *  -EACCES      mr->access grants writing, but fd is not writable or the file is sealed against
 *               it; or fd is not readable
 *
 *  -EOPNOTSUPP  a huge page file, without MEM_MAP_TRUSTED or in several pieces
 *
 *  -ENOMEM      no address space, or no huge pages
 */
int mem_map(struct mem_mapping *map, struct mem_region *mr, int fd, const struct mem_piece *piece,
            unsigned n, unsigned flags);

/*
 * Undoes mem_map, after mr_remove and the workers' quiet point. mr may be NULL if it is gone
 * already. Does nothing if nothing is mapped. Control thread.
 */
void mem_unmap(struct mem_mapping *map, struct mem_region *mr);

#endif
