/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reaching application memory by mapping it: the range is (part of) a memfd that the application
 * hands over. Whatever the application does with the file afterwards, an access by the dataplane
 * must not raise a signal; hence the checks.
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
     * Accept huge page files. An application that punches a hole into one while the huge page
     * pool is empty makes the dataplane's next access there raise SIGBUS: for trusted applications
     * only.
     */
    MEM_MAP_HUGE = 1 << 0,
};

/*
 * Maps the n pieces of fd that, in this order, back the mr->len bytes at mr->addr: side by side in
 * the dataplane as they are in the application. Sets mr->direct; mr's addr, len and access must be
 * set. Read-only if fd is not writable and mr->access grants no kind of writing. fd stays the
 * caller's and may be closed. Control thread, before mr_insert.
 *
 * Returns 0, or what keeps the range from being mapped (*map and mr are then unchanged):
 *
 *  -EBADF       fd is no open file
 *
 *  -EINVAL      not a file in memory; the pieces are not mr->len bytes together, one is empty, or
 *               one but the last does not end with a page; or an address and its offset in the
 *               file differ in the offset in a page
 *
 *  -EPERM       the file is not sealed against shrinking (F_SEAL_SHRINK)
 *
 *  -EOVERFLOW   a piece's end is no file offset
 *
 *  -ERANGE      the file is shorter than a piece's end
 *
 *  -EACCES      mr->access grants writing, but fd is not writable or the file is sealed against
 *               it; or fd is not readable
 *
 *  -EOPNOTSUPP  a huge page file, without MEM_MAP_HUGE or in several pieces
 *
 *  -ENOMEM      address space, or huge pages
 */
int mem_map(struct mem_mapping *map, struct mem_region *mr, int fd, const struct mem_piece *piece,
            unsigned n, unsigned flags);

/*
 * Undoes mem_map; no worker may use the region any more (mr_remove and the workers' quiet point
 * came before). mr may be NULL if it is gone already. Does nothing when nothing is mapped. Control
 * thread.
 */
void mem_unmap(struct mem_mapping *map, struct mem_region *mr);

#endif
