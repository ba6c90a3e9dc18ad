/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory shared with an application: a memfd that the daemon creates and neither side can resize.
 */
#ifndef UROCE_SEGMENT_H
#define UROCE_SEGMENT_H

#include <stdbool.h>
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
/*
 * Unmaps it; not for pieces of slabs. An application may keep the file. Its pages are freed even
 * then, as the daemon is charged for those that it touched first, unless keep: an application whose
 * daemon ends reads there what it posted.
 */
void segment_destroy(struct segment *s, bool keep);

#endif
