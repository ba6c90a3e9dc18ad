/* SPDX-License-Identifier: BSD-3-Clause */
#include "objects/object.h"

#include <errno.h>
#include <stdlib.h>

#include "control/session_state.h"
#include "objects/walk.h"

/* Objects that are freed after one quiet point. */
#define FREE_BATCH 128

/* Packets name these by number, which the transport's tables assign. */
static bool has_own_number(enum object_kind kind)
{
    return kind == OBJ_QP || kind == OBJ_SRQ || kind == OBJ_WQ;
}

/* What an object takes; bytes are those of the daemon's heap and tables, and the kernel's. What
 * depends on the object's size is charged where it is allocated. */
static const struct {
    enum quota_kind kind;
    uint32_t descriptors, bytes;
} costs[OBJ_KINDS] = {
    [OBJ_PD] = {QUOTA_PD, 0, 128},
    [OBJ_MR] = {QUOTA_MR, 0, 512},
    [OBJ_MW] = {QUOTA_MW, 0, 384},
    [OBJ_CHANNEL] = {QUOTA_CHANNEL, 1, SOCKET_MEMORY},
    [OBJ_CQ] = {QUOTA_CQ, 0, 1536},
    [OBJ_SRQ] = {QUOTA_SRQ, 0, 1024},
    [OBJ_XRCD] = {QUOTA_XRCD, 1, 512},
    [OBJ_QP] = {QUOTA_QP, 0, 512},
    [OBJ_AH] = {QUOTA_AH, 0, 512},
    [OBJ_WQ] = {QUOTA_WQ, 0, 1536},
    [OBJ_RWQ_IND] = {QUOTA_RWQ_IND, 0, 3072},
    [OBJ_FLOW] = {QUOTA_FLOW, 0, 3072},
    [OBJ_DM] = {QUOTA_DM, 0, 256},
    [OBJ_QP_HANDLE] = {QUOTA_MEMORY, 0, 256}, /* and what qp_open.c charges */
    [OBJ_COUNTER] = {QUOTA_COUNTER, 0, 256},
    [OBJ_CM_CHANNEL] = {QUOTA_DESCRIPTOR, 0, SOCKET_MEMORY},
    [OBJ_CM_ID] = {QUOTA_CM_ID, 0, CM_ID_MEMORY},
};

static struct handle_table *table_of(struct session *sn, enum object_kind kind)
{
    if (kind == OBJ_CM_CHANNEL)
        return &sn->rnic->cm.channels;
    return kind == OBJ_CM_ID ? &sn->rnic->cm.ids : &sn->device->handles[kind];
}

struct quota_cost object_cost(enum object_kind kind)
{
    struct quota_cost cost = {
        {[QUOTA_MEMORY] = costs[kind].bytes, [QUOTA_DESCRIPTOR] = costs[kind].descriptors}};

    cost.n[costs[kind].kind]++;
    return cost;
}

int object_add(struct session *sn, struct object *o, enum object_kind kind)
{
    struct quota_cost cost = object_cost(kind);
    int err = quota_charge(&sn->account, &cost);

    if (err)
        return err;
    if (!has_own_number(kind)) {
        o->handle = handle_add(table_of(sn, kind), o);
        if (!o->handle) {
            quota_uncharge(&sn->account, &cost);
            return -ENOMEM;
        }
    }
    o->kind = kind;
    o->session = sn;
    TAILQ_INSERT_TAIL(&sn->objects[kind], o, link);
    sn->count[kind]++;
    return 0;
}

void object_remove(struct object *o)
{
    struct quota_cost cost = object_cost(o->kind);
    struct session *sn = o->session;

    quota_uncharge(&sn->account, &cost);
    if (!has_own_number(o->kind))
        handle_remove(table_of(sn, o->kind), o->handle);
    walks_pass_object(sn->rnic, o);
    TAILQ_REMOVE(&sn->objects[o->kind], o, link);
    sn->count[o->kind]--;
}

void *object_create(struct session *sn, enum object_kind kind, size_t size)
{
    struct object *o = calloc(1, size);

    if (o && object_add(sn, o, kind)) {
        free(o);
        o = NULL;
    }
    return o;
}

void object_destroy(struct object *o)
{
    object_remove(o);
    free(o);
}

struct object *object_get(struct session *sn, enum object_kind kind, uint32_t handle)
{
    struct object *o = handle_get(table_of(sn, kind), handle);

    return o && o->session == sn ? o : NULL;
}

int object_get_unused(struct session *sn, enum object_kind kind, uint32_t handle, struct object **o)
{
    *o = object_get(sn, kind, handle);
    if (!*o)
        return -ENOENT;
    return (*o)->refs ? -EBUSY : 0;
}

bool object_free_some(struct session *sn, enum object_kind kind, const struct slice *s,
                      void (*free_one)(struct object *o))
{
    struct object *o;

    while ((o = TAILQ_FIRST(&sn->objects[kind]))) {
        free_one(o);
        if (slice_over(s))
            break;
    }
    return !TAILQ_EMPTY(&sn->objects[kind]);
}

bool object_free_batches(struct session *sn, enum object_kind kind, const struct slice *s,
                         void (*unpublish)(struct object *o), void (*free_one)(struct object *o))
{
    struct object *o;

    while (!TAILQ_EMPTY(&sn->objects[kind])) {
        unsigned n = 0;

        TAILQ_FOREACH (o, &sn->objects[kind], link) {
            if (n == FREE_BATCH)
                break;
            unpublish(o);
            n++;
        }
        device_quiesce(sn->device);
        while (n--)
            free_one(TAILQ_FIRST(&sn->objects[kind]));
        if (slice_over(s))
            break;
    }
    return !TAILQ_EMPTY(&sn->objects[kind]);
}

int object_piece(struct slab_pool *pool, struct ctl_call *call, size_t bytes, struct segment *s,
                 struct ctl_place *place)
{
    struct slab_place in;
    int err = slab_alloc(pool, bytes, s, &in);

    if (err)
        return err;
    *place = (struct ctl_place){.slab = in.slab, .offset = in.offset};
    if (in.fd >= 0)
        call->out_fd[call->out_fds++] = in.fd;
    return 0;
}

int object_segment(struct session *sn, struct ctl_call *call, size_t bytes, struct segment *s,
                   struct ctl_place *place)
{
    return object_piece(&sn->slabs, call, bytes, s, place);
}
