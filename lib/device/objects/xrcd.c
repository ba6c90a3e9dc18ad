/* SPDX-License-Identifier: BSD-3-Clause */
/* XRC domains are named by an inode, across applications, as with ibv_open_xrcd; or have no name.
 */
#include "objects/xrcd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "control/errand.h"
#include "control/session_state.h"

/* What names a domain. */
struct file_name {
    dev_t dev;
    ino_t ino;
};

/* The file of a descriptor that an application has opened. O_PATH opens no file: it asks for no
 * permission to read or write, and so must not do here (the kernel refuses it in the same way). The
 * file server, if there is one, is not asked: the application may have its own. 0 or a negative
 * errno. */
static int name_of(int fd, struct file_name *name)
{
    int flags = fcntl(fd, F_GETFL);
    struct statx st;

    if (flags < 0 || (flags & O_PATH))
        return -EBADF;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st))
        return -errno;
    if (!(st.stx_mask & STATX_INO))
        return -EOPNOTSUPP;
    *name =
        (struct file_name){.dev = makedev(st.stx_dev_major, st.stx_dev_minor), .ino = st.stx_ino};
    return 0;
}

static struct xrc_domain *find_domain(struct device *d, const struct file_name *name)
{
    struct xrc_domain *x;

    LIST_FOREACH(x, &d->xrc_domains, link)
    if (x->fd >= 0 && x->dev == name->dev && x->ino == name->ino)
        return x;
    return NULL;
}

static bool has_id(const struct device *d, uint32_t id)
{
    const struct xrc_domain *x;

    LIST_FOREACH(x, &d->xrc_domains, link)
    if (x->id == id)
        return true;
    return false;
}

/* Packets are compared with it. The ids count up; after the first round some may be in use. 0 is
 * that of queues without a domain. */
static uint32_t free_id(struct device *d)
{
    uint32_t id;

    do {
        d->xrc_domains_made++;
        id = (uint32_t)d->xrc_domains_made;
    } while (!id || (d->xrc_domains_made > UINT32_MAX && has_id(d, id)));
    return id;
}

/* A file that is open keeps its inode number, also when it has no name any more. */
static struct xrc_domain *create_domain(struct device *d, int fd, const struct file_name *name)
{
    struct xrc_domain *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    x->fd = -1;
    if (name) {
        x->dev = name->dev;
        x->ino = name->ino;
        x->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (x->fd < 0) {
            free(x);
            return NULL;
        }
    }
    x->id = free_id(d);
    LIST_INSERT_HEAD(&d->xrc_domains, x, link);
    return x;
}

/* sn: the last that had it. */
static void release_domain(struct session *sn, struct xrc_domain *x)
{
    if (x->opens)
        return;
    LIST_REMOVE(x, link);
    if (x->fd >= 0)
        errands_close(sn->rnic->errands, &sn->peer, x->fd);
    free(x);
}

/* The domain of the request: an existing one, or a new one if O_CREAT allows it. */
static int open_domain(struct session *sn, const struct ctl_call *call, struct xrc_domain **out)
{
    uint32_t oflags = call->request->open_xrcd.oflags;
    struct file_name name;
    int err;

    if (oflags & ~(uint32_t)(O_CREAT | O_EXCL))
        return -EINVAL;
    if (!call->in_fds) {
        *out = create_domain(sn->device, -1, NULL);
        return *out ? 0 : -ENOMEM;
    }
    err = name_of(call->in_fd[0], &name);
    if (err)
        return err;
    *out = find_domain(sn->device, &name);
    if (*out)
        return oflags & O_EXCL ? -EEXIST : 0;
    if (!(oflags & O_CREAT))
        return -ENOENT;
    *out = create_domain(sn->device, call->in_fd[0], &name);
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
        release_domain(sn, domain);
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
    release_domain(o->session, x->domain);
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

bool xrcd_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_XRCD, s, xrcd_free);
}
