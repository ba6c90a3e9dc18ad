/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the pages of an application's file exist. One that does not would be allocated when the
 * daemon touches it, and charged to the daemon instead of the application.
 */
#ifndef UROCE_MEM_POPULATED_H
#define UROCE_MEM_POPULATED_H

#include "mapped.h"

/* Pages that one call of the kernel looks at: the daemon's other threads wait for it with their
 * mmap and munmap, and some kernels keep the processor for as long. */
#define MEM_POPULATED_PAGES 512u
/* Pages after which others may have the processor: 0.2 ms. */
#define MEM_POPULATED_YIELD 2048u

/*
 * Whether all pages of the n pieces of fd exist, which mem_map has mapped.
 * Without a look at them if the file has as many pages as fit into it: an application that has
 * others beyond its end, and holes, deceives this, and can as well punch the holes later.
 * The application may hold a lease on the file (the call does not wait), or its lock (it waits).
 */
bool mem_is_populated(const struct mem_mapping *map, int fd, const struct mem_piece *piece,
                      unsigned n);

#endif
