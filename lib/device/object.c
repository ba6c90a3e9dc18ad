/* SPDX-License-Identifier: BSD-3-Clause */
#include "object.h"

#include <errno.h>
#include <sys/random.h>

/* Packets name these by number: the transport's tables give it. */
static bool has_own_number(enum object_kind kind)
{
    return kind == OBJ_QP || kind == OBJ_SRQ || kind == OBJ_WQ;
}

int object_add(struct session *sn, struct object *o, enum object_kind kind)
{
    if (!has_own_number(kind)) {
        o->handle = handle_add(&sn->device->handles[kind], o);
        if (!o->handle)
            return -ENOMEM;
    }
    o->kind = kind;
    o->session = sn;
    TAILQ_INSERT_TAIL(&sn->objects[kind], o, link);
    sn->count[kind]++;
    return 0;
}

void object_remove(struct object *o)
{
    struct session *sn = o->session;

    if (!has_own_number(o->kind))
        handle_remove(&sn->device->handles[o->kind], o->handle);
    TAILQ_REMOVE(&sn->objects[o->kind], o, link);
    sn->count[o->kind]--;
}

struct object *object_get(struct session *sn, enum object_kind kind, uint32_t handle)
{
    struct object *o = handle_get(&sn->device->handles[kind], handle);

    return o && o->session == sn ? o : NULL;
}

int object_segment(struct session *sn, struct ctl_call *call, size_t bytes, struct segment *s,
                   struct ctl_place *place)
{
    struct slab_place in;
    int err = slab_alloc(&sn->slabs, bytes, s, &in);

    if (err)
        return err;
    *place = (struct ctl_place){.slab = in.slab, .offset = in.offset};
    if (in.fd >= 0)
        call->out_fd[call->out_fds++] = in.fd;
    return 0;
}

int random_bytes(void *out, size_t n)
{
    ssize_t got;

    do
        got = getrandom(out, n, 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)n ? 0 : -EIO;
}
