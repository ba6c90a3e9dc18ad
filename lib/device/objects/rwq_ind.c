/* SPDX-License-Identifier: BSD-3-Clause */
/* Indirection tables: the work queues of a queue pair with receive-side scaling. */
#include "objects/wq_object.h"

#include <errno.h>
#include <string.h>

#include "control/permission.h"
#include "control/session_state.h"

_Static_assert(CTL_RWQ_IND_MAX == RWQ_IND_MAX, "the protocol carries whole tables");

struct rwq_ind_object *rwq_ind_get(struct session *sn, uint32_t handle)
{
    struct object *o = object_get(sn, OBJ_RWQ_IND, handle);

    return o ? container_of(o, struct rwq_ind_object, o) : NULL;
}

static void count_wqs(struct wq_object *const *wq, uint32_t size, int n)
{
    for (uint32_t i = 0; i < size; i++)
        wq[i]->o.refs += (uint32_t)n;
}

/* The work queues of a request, and a table of them. NULL and *err. */
static struct rwq_entries *make_entries(struct session *sn, const struct ctl_rwq_ind *rq,
                                        struct wq_object *w[RWQ_IND_MAX], int *err)
{
    struct wq *wq[RWQ_IND_MAX];
    struct rwq_entries *entries;

    *err = -EINVAL;
    if (!is_pow2(rq->size) || rq->size > RWQ_IND_MAX)
        return NULL;
    for (uint32_t i = 0; i < rq->size; i++) {
        w[i] = wq_object_get(sn, rq->wq[i]);
        if (!w[i])
            return NULL;
        wq[i] = w[i]->wq;
    }
    entries = rwq_entries_create(wq, rq->size);
    *err = entries ? 0 : -ENOMEM;
    return entries;
}

int rwq_ind_object_create(struct session *sn, struct ctl_call *call)
{
    const struct ctl_rwq_ind *rq = &call->request->rwq_ind;
    struct rwq_entries *entries;
    struct rwq_ind_object *t;
    int err;

    if (!permission_raw(sn))
        return -EPERM;
    t = object_create(sn, OBJ_RWQ_IND, sizeof(*t));
    if (!t)
        return -ENOMEM;
    entries = make_entries(sn, rq, t->wq, &err);
    if (entries) {
        t->ind = rwq_ind_create(entries);
        err = t->ind ? 0 : -ENOMEM;
    }
    if (err) {
        if (entries)
            rwq_entries_free(entries);
        object_destroy(&t->o);
        return err;
    }
    t->size = rq->size;
    count_wqs(t->wq, t->size, 1);
    call->reply.rwq_ind.handle = t->o.handle;
    return 0;
}

/* The size may change too. Work queues that are no longer in the table may be destroyed afterwards.
 */
int rwq_ind_object_modify(struct session *sn, struct ctl_call *call)
{
    const struct ctl_rwq_ind *rq = &call->request->rwq_ind;
    struct rwq_ind_object *t = rwq_ind_get(sn, rq->handle);
    struct wq_object *w[RWQ_IND_MAX];
    struct rwq_entries *entries;
    int err;

    if (!t)
        return -EINVAL;
    entries = make_entries(sn, rq, w, &err);
    if (!entries)
        return err;
    entries = rwq_ind_replace(t->ind, entries);
    device_quiesce(sn->device);
    rwq_entries_free(entries);
    count_wqs(t->wq, t->size, -1);
    memcpy(t->wq, w, rq->size * sizeof(w[0]));
    t->size = rq->size;
    count_wqs(t->wq, t->size, 1);
    return 0;
}

/* The queue pairs that used it no longer exist, and a quiet point has passed since. */
static void rwq_ind_object_free(struct object *o)
{
    struct rwq_ind_object *t = container_of(o, struct rwq_ind_object, o);

    rwq_ind_free(t->ind);
    count_wqs(t->wq, t->size, -1);
    object_destroy(o);
}

int rwq_ind_object_destroy(struct session *sn, struct ctl_call *call)
{
    struct object *o;
    int err = object_get_unused(sn, OBJ_RWQ_IND, call->request->handle, &o);

    if (!err)
        rwq_ind_object_free(o);
    return err;
}

bool rwq_ind_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_RWQ_IND, s, rwq_ind_object_free);
}
