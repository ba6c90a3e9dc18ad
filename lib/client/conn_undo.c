/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn_undo.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common.h"

/* Calls whose replies may have descriptors; handle, slab: where the reply has them. */
static const struct row {
    enum ctl_type type;
    enum ctl_type undo; /* 0: there is nothing to be undone */
    size_t handle;
    size_t slab; /* 0: none */
} rows[] = {
    {.type = CTL_OPEN},
    {.type = CTL_JOIN},
    {.type = CTL_GET_UFFD},
    {.type = CTL_SHOW},
#define FIELD(field) offsetof(struct ctl_msg, field)
    {CTL_CREATE_CHANNEL, CTL_DESTROY_CHANNEL, FIELD(handle), 0},
    {CTL_CM_CREATE_CHANNEL, CTL_CM_DESTROY_CHANNEL, FIELD(handle), 0},
    {CTL_IMPORT, CTL_FREE_DM, FIELD(import.handle), 0},
    {CTL_CREATE_CQ, CTL_DESTROY_CQ, FIELD(create_cq.handle), FIELD(create_cq.place.slab)},
    {CTL_CREATE_QP, CTL_DESTROY_QP, FIELD(create_qp.qpn), FIELD(create_qp.place.slab)},
    {CTL_CREATE_QP_IN, CTL_DESTROY_QP, FIELD(create_qp_in.create.qpn),
     FIELD(create_qp_in.create.place.slab)},
    {CTL_CREATE_SRQ, CTL_DESTROY_SRQ, FIELD(create_srq.handle), FIELD(create_srq.place.slab)},
    {CTL_CREATE_WQ, CTL_DESTROY_WQ, FIELD(create_wq.handle), FIELD(create_wq.place.slab)},
    {CTL_ALLOC_DM, CTL_FREE_DM, FIELD(alloc_dm.handle), FIELD(alloc_dm.place.slab)},
    {CTL_CREATE_COUNTER, CTL_DESTROY_COUNTER, FIELD(create_counter.handle),
     FIELD(create_counter.place.slab)},
#undef FIELD
};

static const struct row *find(uint16_t type)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].type == type)
            return &rows[i];
    return NULL;
}

enum conn_undo conn_undo_request(const struct ctl_msg *reply, enum ctl_type *type,
                                 struct ctl_msg *m)
{
    const struct row *row = find(reply->type);
    const char *bytes = (const char *)reply;

    if (!row)
        return CONN_UNDO_NEVER;
    if (!row->undo)
        return CONN_UNDO_NOTHING;
    *type = row->undo;
    *m = (struct ctl_msg){0};
    memcpy(&m->destroy.handle, bytes + row->handle, sizeof(m->destroy.handle));
    if (row->slab)
        memcpy(&m->destroy.slab_gone, bytes + row->slab, sizeof(m->destroy.slab_gone));
    return CONN_UNDO_ASK;
}

/* The kernel's answer, not a guess: another thread may take the last one after that. */
int conn_room(void)
{
    int cancel, fd, err;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    fd = eventfd(0, EFD_CLOEXEC);
    err = fd < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    pthread_setcancelstate(cancel, NULL);
    return err;
}
