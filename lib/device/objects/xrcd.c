/* SPDX-License-Identifier: BSD-3-Clause */
/* XRC domains are named by an inode, across applications, as with ibv_open_xrcd; or have no name.
 */
#include "objects/xrcd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "control/session_state.h"

/* Without a question to the file system, which may not answer. */
static int identify_file(int fd, struct stat *st)
{
    struct statx x;

    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &x))
        return -errno;
    st->st_dev = makedev(x.stx_dev_major, x.stx_dev_minor);
    st->st_ino = x.stx_ino;
    return 0;
}

static struct xrc_domain *find_domain(struct device *d, const struct stat *st)
{
    struct xrc_domain *x;

    LIST_FOREACH(x, &d->xrc_domains, link)
    if (x->named && x->dev == st->st_dev && x->ino == st->st_ino)
        return x;
    return NULL;
}

static struct xrc_domain *create_domain(struct device *d, const struct stat *st)
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

static void release_domain(struct xrc_domain *x)
{
    if (x->opens)
        return;
    LIST_REMOVE(x, link);
    free(x);
}

/* The domain of the request: an existing one, or a new one if O_CREAT allows it. */
static int open_domain(struct session *sn, const struct ctl_call *call, struct xrc_domain **out)
{
    uint32_t oflags = call->request->open_xrcd.oflags;
    struct stat st = {0};
    int err;

    if (oflags & ~(uint32_t)(O_CREAT | O_EXCL))
        return -EINVAL;
    if (!call->in_fds) {
        *out = create_domain(sn->device, NULL);
        return *out ? 0 : -ENOMEM;
    }
    err = identify_file(call->in_fd[0], &st);
    if (err)
        return err;
    *out = find_domain(sn->device, &st);
    if (*out)
        return oflags & O_EXCL ? -EEXIST : 0;
    if (!(oflags & O_CREAT))
        return -ENOENT;
    *out = create_domain(sn->device, &st);
    return *out ? 0 : -ENOMEM;
}

int xrcd_open(struct session *sn, struct ctl_call *call)
{
    struct xrc_domain *domain = NULL;
    struct xrcd *x;
    int err = open_domain(sn, call, &domain);

    if (err)
        return err;
    x = object_create(sn, OBJ_XRCD, sizeof(*x));
    if (!x) {
        release_domain(domain);
        return -ENOMEM;
    }
    x->domain = domain;
    domain->opens++;
    call->reply.open_xrcd.handle = x->o.handle;
    return 0;
}

static void xrcd_free(struct object *o)
{
    struct xrcd *x = container_of(o, struct xrcd, o);

    x->domain->opens--;
    release_domain(x->domain);
    object_destroy(o);
}

int xrcd_close(struct session *sn, struct ctl_call *call)
{
    struct object *o;
    int err = object_get_unused(sn, OBJ_XRCD, call->request->handle, &o);

    if (!err)
        xrcd_free(o);
    return err;
}

void xrcd_free_all(struct session *sn)
{
    object_free_all(sn, OBJ_XRCD, xrcd_free);
}
