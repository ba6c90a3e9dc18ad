/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application rearranges the memory behind its regions: the dataplane stands still where it
 * would touch it, and goes on with other mappings, or by copying.
 *
 * Workers serve others too, so a freeze is short, and an application that keeps workers waiting
 * has soon no more time to give away: its freezes then are none, which is its own loss.
 */
#include "object.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define FREEZE_MAX  (20 * NS_PER_MS)  /* one */
#define CREDIT_MAX  (100 * NS_PER_MS) /* workers' time, of an application that used none lately */
#define CREDIT_RATE 10                /* a tenth of the time */

static void settle(struct client *c)
{
    ns_t now = c->rnic->config.clock(), earned = (now - c->freeze.credited) / CREDIT_RATE;

    if (!c->freeze.credited || c->freeze.credit + earned > CREDIT_MAX)
        c->freeze.credit = CREDIT_MAX;
    else
        c->freeze.credit += earned;
    c->freeze.credited = now;
}

static void thaw(struct client *c)
{
    ns_t waited;

    if (!c->freeze.on)
        return;
    c->freeze.on = false;
    waited = c->rnic->config.mem->thaw(c->space);
    c->freeze.credit -= min_of(waited, c->freeze.credit);
}

/* The application cannot rearrange the memory of others, nor what it shares with them itself. */
static bool goes(const struct mr *mr)
{
    return mr->mapping && mr->why != CTL_MR_SHARED && mr->why != CTL_MR_UNKNOWN;
}

struct freeze_call {
    struct client *c;
    ns_t time;
    bool unmap;
};

/* While no worker runs. */
static void freeze_now(struct worker *w, void *arg)
{
    const struct freeze_call *call = arg;
    struct client *c = call->c;
    struct object *o;

    if (call->time) {
        c->rnic->config.mem->freeze(c->space, call->time);
        c->freeze.on = true;
    }
    if (!call->unmap)
        return;
    TAILQ_FOREACH (o, &c->objects[OBJ_MR], link) {
        struct mr *mr = container_of(o, struct mr, o);

        if (goes(mr))
            mr->region.direct = NULL;
    }
}

static void unmap_all(struct client *c)
{
    struct object *o;

    TAILQ_FOREACH (o, &c->objects[OBJ_MR], link) {
        struct mr *mr = container_of(o, struct mr, o);

        if (!goes(mr))
            continue;
        c->rnic->config.mem->unmap(mr->mapping, &mr->region);
        mr->mapping = NULL;
        mr_set_why(mr, CTL_MR_FORKED);
        c->mrs_mapped--;
        mr_heat_start(mr);
    }
}

int mrs_freeze(struct client *c, struct ctl_call *call)
{
    uint32_t flags = call->request->freeze.flags;
    struct freeze_call f = {.c = c, .unmap = flags & CTL_FREEZE_UNMAP};

    if (flags & ~(uint32_t)CTL_FREEZE_UNMAP)
        return -EINVAL;
    thaw(c);
    settle(c);
    f.time = min_of(c->freeze.credit, (ns_t)FREEZE_MAX);
    if (f.time < NS_PER_MS || !c->rnic->config.mem->freeze)
        f.time = 0;
    device_call_all(c->device, freeze_now, &f);
    if (f.unmap)
        unmap_all(c);
    call->reply.freeze.granted_us = (uint32_t)(f.time / 1000);
    return 0;
}

int mrs_thaw(struct client *c, struct ctl_call *call)
{
    thaw(c);
    return 0;
}

struct remap_call {
    struct mr *mr;
    uint8_t *direct;
};

static void remap_now(struct worker *w, void *arg)
{
    const struct remap_call *call = arg;

    call->mr->region.direct = call->direct;
}

/* What cannot be mapped goes on being copied. */
int mr_remap(struct client *c, struct ctl_call *call)
{
    const struct ctl_remap *rq = &call->request->remap;
    struct object *o = object_get(c, OBJ_MR, rq->handle);
    struct remap_call r;
    struct mem_region region;
    int err;

    if (!o || !call->in_fds != !rq->pieces || rq->why >= CTL_MR_WHYS)
        return -EINVAL;
    r.mr = container_of(o, struct mr, o);
    if (r.mr->mapping)
        return -EBUSY;
    call->reply.remap.mapped = 0;
    if (!call->in_fds) {
        mr_set_why(r.mr, rq->why);
        mr_heat_start(r.mr);
        return 0;
    }
    /* The workers must not see it half done. */
    region = r.mr->region;
    r.mr->mapping = mr_map(c, &region, call, rq->piece, rq->pieces, &err);
    mr_set_why(r.mr, r.mr->mapping ? rq->why : CTL_MR_REFUSED);
    if (!r.mr->mapping) {
        mr_heat_start(r.mr);
        return 0;
    }
    r.direct = region.direct;
    device_call_all(c->device, remap_now, &r);
    c->mrs_mapped++;
    call->reply.remap.mapped = 1;
    return 0;
}

int uffd_get(struct client *c, struct ctl_call *call)
{
    const int *device = c->rnic->config.uffd_device;
    int fd;

    if (!device)
        return -EPERM;
    fd = fcntl(*device, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    call->out_fd[call->out_fds++] = fd;
    return 0;
}
