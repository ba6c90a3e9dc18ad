/* SPDX-License-Identifier: BSD-3-Clause */
/* XRC domains: by inode, as ibv_open_xrcd names them, across applications; or nameless. */
#include "object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

static struct xrc_domain *find(struct device *d, const struct stat *st)
{
    struct xrc_domain *x;

    LIST_FOREACH(x, &d->xrc_domains, link)
    if (x->named && x->dev == st->st_dev && x->ino == st->st_ino)
        return x;
    return NULL;
}

static struct xrc_domain *make(struct device *d, const struct stat *st)
{
    struct xrc_domain *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    x->id = ++d->next_xrc_domain;
    if (st) {
        x->named = true;
        x->dev = st->st_dev;
        x->ino = st->st_ino;
    }
    LIST_INSERT_HEAD(&d->xrc_domains, x, link);
    return x;
}

static void release(struct xrc_domain *x)
{
    if (x->opens)
        return;
    LIST_REMOVE(x, link);
    free(x);
}

/* The domain that the request means: an existing one, or a new one if O_CREAT allows it. */
static int obtain(struct session *sn, const struct ctl_call *call, struct xrc_domain **out)
{
    uint32_t oflags = call->request->open_xrcd.oflags;
    struct stat st;

    if (oflags & ~(uint32_t)(O_CREAT | O_EXCL))
        return -EINVAL;
    if (!call->in_fds) {
        *out = make(sn->device, NULL);
        return *out ? 0 : -ENOMEM;
    }
    if (fstat(call->in_fd[0], &st))
        return -errno;
    *out = find(sn->device, &st);
    if (*out)
        return oflags & O_EXCL ? -EEXIST : 0;
    if (!(oflags & O_CREAT))
        return -ENOENT;
    *out = make(sn->device, &st);
    return *out ? 0 : -ENOMEM;
}

int xrcd_open(struct session *sn, struct ctl_call *call)
{
    struct xrc_domain *domain = NULL;
    struct xrcd *x;
    int err = obtain(sn, call, &domain);

    if (err)
        return err;
    x = calloc(1, sizeof(*x));
    if (!x || object_add(sn, &x->o, OBJ_XRCD)) {
        free(x);
        release(domain);
        return -ENOMEM;
    }
    x->domain = domain;
    domain->opens++;
    call->reply.open_xrcd.handle = x->o.handle;
    return 0;
}

static void xrcd_free(struct xrcd *x)
{
    x->domain->opens--;
    release(x->domain);
    object_remove(&x->o);
    free(x);
}

int xrcd_close(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_XRCD, call->request->handle);

    if (!o)
        return -EINVAL;
    if (o->refs)
        return -EBUSY;
    xrcd_free(container_of(o, struct xrcd, o));
    return 0;
}

void xrcd_free_all(struct session *sn)
{
    struct object *o;

    while ((o = TAILQ_FIRST(&sn->objects[OBJ_XRCD])))
        xrcd_free(container_of(o, struct xrcd, o));
}
