/* SPDX-License-Identifier: BSD-3-Clause */
/* What all objects of applications have in common: an owner, a handle, a count of the objects that
 * use them. */
#ifndef UROCE_DEVICE_OBJECT_H
#define UROCE_DEVICE_OBJECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common.h"
#include "control/account.h"
#include "control/slice.h"

struct ctl_call;
struct ctl_place;
struct segment;
struct session;
struct slab_pool;

enum object_kind {
    OBJ_PD,
    OBJ_MR,
    OBJ_MW,
    OBJ_CHANNEL,
    OBJ_CQ,
    OBJ_SRQ,
    OBJ_XRCD,
    OBJ_QP,
    OBJ_AH,
    OBJ_WQ,
    OBJ_RWQ_IND,
    OBJ_FLOW,
    OBJ_DM,
    OBJ_QP_HANDLE,
    OBJ_COUNTER,
    OBJ_DEVICE_KINDS,
    /* Of the connection manager, whether or not the session has a device. */
    OBJ_CM_CHANNEL = OBJ_DEVICE_KINDS,
    OBJ_CM_ID,
    OBJ_KINDS
};

/* First in each object. The handle of a queue pair, SRQ or WQ is its number. */
struct object {
    TAILQ_ENTRY(object) link; /* in its session's list of the kind */
    struct session *session;
    uint32_t handle;
    uint32_t refs; /* objects that use this one */
    enum object_kind kind;
};

/* What an object of that kind is charged for. */
struct quota_cost object_cost(enum object_kind kind);
/* Makes o one of the session's objects, charges the session for it, and gives it a handle (except
 * queue pairs, SRQs and WQs, which have numbers). 0; -ENOMEM: also when a quota is used up. */
int object_add(struct session *sn, struct object *o, enum object_kind kind);
void object_remove(struct object *o);

/* A zeroed object of `size` bytes that begins with a struct object, and is added as above; NULL:
 * out of memory. */
void *object_create(struct session *sn, enum object_kind kind, size_t size);
/* Removes and frees an object. */
void object_destroy(struct object *o);

/* The session's object of that kind and handle, or NULL. */
struct object *object_get(struct session *sn, enum object_kind kind, uint32_t handle);
/* The same, for its destruction. 0 and *o; -EINVAL: there is none; -EBUSY: others use it. */
int object_get_unused(struct session *sn, enum object_kind kind, uint32_t handle,
                      struct object **o);
/*
 * Calls free_one for the session's objects of that kind until the slice is over; free_one must
 * remove the object. Returns whether there are more.
 */
bool object_free_some(struct session *sn, enum object_kind kind, const struct slice *s,
                      void (*free_one)(struct object *o));
/* The same for objects that workers find: unpublish is called for several, then all workers pass a
 * quiet point, then free_one is called for them. */
bool object_free_batches(struct session *sn, enum object_kind kind, const struct slice *s,
                         void (*unpublish)(struct object *o), void (*free_one)(struct object *o));

/* Shared memory from a pool of the session, which the reply describes. 0 or a negative errno. */
int object_piece(struct slab_pool *pool, struct ctl_call *call, size_t bytes, struct segment *s,
                 struct ctl_place *place);
/* The same for one of its queues. */
int object_segment(struct session *sn, struct ctl_call *call, size_t bytes, struct segment *s,
                   struct ctl_place *place);

#endif
