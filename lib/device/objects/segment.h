/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory shared with an application: a memfd that the daemon creates and neither side can resize.
 */
#ifndef UROCE_SEGMENT_H
#define UROCE_SEGMENT_H

#include <stddef.h>

struct slab;

struct segment {
    void *base;
    size_t bytes;
    struct slab *slab; /* the slab that it is a piece of; NULL: it has a memfd of its own */
};

/*
 * Makes a zeroed segment, maps it and stores its descriptor, which the caller closes, in *fd.
 * 0 or a negative errno.
 */
int segment_create(struct segment *s, const char *name, size_t bytes, int *fd);
/* Not for pieces of slabs. */
void segment_destroy(struct segment *s);

#endif
