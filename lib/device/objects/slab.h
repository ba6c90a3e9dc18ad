/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments for an application's objects, cut from slabs: memfds that hold many pieces of one size
 * class each, so that many objects need few mappings. A pool belongs to one application, and so
 * does each of its slabs: two never share memory. Control thread.
 */
#ifndef UROCE_SLAB_H
#define UROCE_SLAB_H

#include <stdint.h>
#include <sys/queue.h>

#include "objects/segment.h"

/* A new slab is as large as all slabs of its class together, within these bounds. */
#define SLAB_MIN (64u << 10)
#define SLAB_MAX (2u << 20)
/* Larger pieces have a slab of their own. */
#define SLAB_PIECE_MAX (SLAB_MAX / 8)
#define SLAB_CLASSES   44u

struct quota_account;
struct slab;

struct slab_class {
    LIST_HEAD(, slab) room; /* slabs with a free piece */
    size_t bytes;           /* of all its slabs */
};

struct slab_pool {
    struct slab_class class[SLAB_CLASSES];
    struct quota_account *account; /* is charged for the slabs; NULL: no account is */
    struct session *owner;         /* whose slabs end by segment_end; NULL: at once */
    bool keep;   /* without an owner: freed slabs keep their contents (segment_destroy) */
    bool shares; /* its slabs' descriptors are kept, for slab_share */
    LIST_HEAD(, slab) slabs;
    unsigned count;
    uint64_t last_id;
};

/* A zeroed pool is an empty one. Frees all slabs; the pool can be used again. */
void slab_pool_fini(struct slab_pool *p);

/* The location of a piece, as replies describe it. */
struct slab_place {
    uint64_t slab; /* never 0, never used again in this pool */
    uint64_t offset;
    int fd; /* the slab's, if the application does not have it yet; the caller closes it; or -1 */
};

/*
 * Allocates a zeroed piece of `bytes` (more than 0), on a cache line of its own. It may not stay
 * zero: an application can write to all of its slabs at any time. 0; -ENOMEM (also: the account is
 * refused a slab); or another negative errno.
 */
int slab_alloc(struct slab_pool *p, size_t bytes, struct segment *out, struct slab_place *place);

/*
 * Frees a piece, which then is empty. The last piece frees its slab, too, unless the class has no
 * other room: returns the id of the slab that was freed, or 0.
 */
uint64_t slab_free(struct slab_pool *p, struct segment *s);

/* The slab of this id, if the pool has it, is not kept when it becomes empty: its application does
 * not have its descriptor. */
void slab_unkeep(struct slab_pool *p, uint64_t id);

/* Undoes slab_alloc when the reply is not sent: frees the slab if it was created for this piece. An
 * empty segment is ignored. */
void slab_cancel(struct slab_pool *p, struct segment *s);

/* A descriptor of the slab that a piece of a pool that shares is in: the caller's. Or a negative
 * errno. */
int slab_share(const struct segment *s);

/* All of the memory that the application reaches with this piece. */
const struct segment *slab_memory(const struct segment *s);

#endif
