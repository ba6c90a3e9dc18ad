/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions. */
#include "objects/pd_mr.h"

#include <errno.h>
#include <stdlib.h>

#include "control/session_state.h"
#include "mem_window.h"
#include "objects/dm.h"
#include "objects/mw.h"

#define PAGE          4096u
#define MAPPING_BYTES 256u /* the kernel's for a mapping */

#define ACCESS_HUGETLB (1u << 7) /* IBV_ACCESS_HUGETLB: a hint about the pages, not used here */
#define ACCESS_KNOWN                                                                          \
    (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC | MEM_MW_BIND | \
     MEM_ZERO_BASED | MEM_ON_DEMAND | MEM_FLUSH_GLOBAL | ACCESS_HUGETLB | MEM_ACCESS_OPTIONAL)

/* Volume 1, 11.2.8.2: remote write access requires local write access. */
static int check_access(uint32_t access)
{
    if (access & ~ACCESS_KNOWN)
        return -EINVAL;
    if ((access & (MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)) && !(access & MEM_LOCAL_WRITE))
        return -EINVAL;
    return 0;
}

/* The last byte may have the last address. */
static bool wraps(uint64_t addr, uint64_t len)
{
    return len && addr + (len - 1) < addr;
}

static int check_range(const struct ctl_reg_mr *rq)
{
    /* An implicit on-demand region: all of memory. */
    if ((rq->access & MEM_ON_DEMAND) && !rq->addr && !rq->iova && rq->length == UINT64_MAX)
        return 0;
    if (rq->length > LIMIT_MR_SIZE) /* of length 0: a key under which nothing is accessible */
        return -EINVAL;
    if (wraps(rq->addr, rq->length) || wraps(rq->iova, rq->length))
        return -EINVAL;
    return 0;
}

/* ---- how the daemon reaches a region ---- */

/*
 * An errand. It looks at the application's memfd, whose lock the application may hold, and asks the
 * kernel whether the daemon may access the application's memory. It touches none of this memory:
 * the library checks that it exists, and without the library the first work request fails.
 */
static void run_reach(struct session *sn)
{
    const struct mem_provider *mem = sn->rnic->config.mem;
    struct mr_reach *r = &sn->reach;

    r->mapping = NULL;
    r->err = 0;
    if (r->pieces)
        r->mapping = mem->map(&r->region, r->fd, r->piece, r->pieces, &r->err);
    r->err = 0;
    if (!r->mapping && !sn->reachable && mem->space_reach)
        r->err = mem->space_reach(sn->space);
}

/*
 * The kernel charges the pages to the application that made them. If it punches them out of its
 * file, the daemon's next access makes new ones, for which the daemon is charged: QUOTA_MAPPED
 * limits them. The daemon always pays for the tables of its mappings: 8 bytes for a page.
 */
static struct quota_cost mapping_cost(const struct mem_region *r, uint32_t pieces)
{
    uint64_t bytes = round_up(r->addr % PAGE + r->len, (uint64_t)PAGE);

    return (struct quota_cost){{[QUOTA_MAPPING] = pieces,
                                [QUOTA_MAPPED] = bytes,
                                [QUOTA_MEMORY] = bytes / PAGE * 8 + pieces * MAPPING_BYTES}};
}

int mr_reach(struct session *sn, struct mem_region *region, const struct ctl_call *call,
             const struct ctl_mr_piece *piece, unsigned n, void **mapping)
{
    struct mr_reach *r = &sn->reach;
    int err;

    *mapping = NULL;
    if (sn->away.state == AWAY_NOT) {
        r->region = *region;
        r->err = 0;
        r->pieces = call->in_fds == 1 && n <= CTL_MR_PIECES ? n : 0;
        r->fd = call->in_fds == 1 ? call->in_fd[0] : -1;
        for (unsigned i = 0; i < r->pieces; i++)
            r->piece[i] = (struct mem_piece){piece[i].offset, piece[i].length};
        r->cost = mapping_cost(region, r->pieces);
        if (r->pieces && quota_charge(&sn->account, &r->cost))
            r->pieces = 0;
    }
    /* A region that is copied, as those before it, needs no call. */
    err = r->pieces || !sn->reachable ? session_errand(sn, run_reach) : 0;
    if (err)
        return err;
    *mapping = r->mapping;
    region->direct = r->mapping ? r->region.direct : NULL;
    r->mapping = NULL;
    if (*mapping)
        return 0;
    if (r->pieces)
        quota_uncharge(&sn->account, &r->cost);
    sn->reachable = !r->err;
    return r->err;
}

struct dispose_errand {
    struct errand e;
    void (*dispose)(void *mapping);
    void *mapping;
    struct quota_account account; /* of what the mapping costs until it is gone */
};

static void run_dispose(struct errand *e)
{
    struct dispose_errand *d = container_of(e, struct dispose_errand, e);

    d->dispose(d->mapping);
}

static void dispose_done(struct errand *e)
{
    struct dispose_errand *d = container_of(e, struct dispose_errand, e);

    quota_account_close(&d->account);
    free(d);
}

void mr_unmap(struct session *sn, void *mapping, struct mem_region *region, uint32_t pieces)
{
    const struct mem_provider *mem = sn->rnic->config.mem;
    struct quota_cost cost = mapping_cost(region, pieces);
    struct dispose_errand *d;

    mem->unmap(mapping, region);
    d = mem->dispose ? malloc(sizeof(*d)) : NULL;
    if (!d) {
        if (mem->dispose)
            mem->dispose(mapping);
        quota_uncharge(&sn->account, &cost);
        return;
    }
    *d = (struct dispose_errand){.e = {.run = run_dispose, .done = dispose_done},
                                 .dispose = mem->dispose,
                                 .mapping = mapping};
    quota_move(&sn->account, &cost, &d->account);
    errands_post(sn->rnic->errands, &sn->peer, &d->e);
}

void mr_forget_reach(struct session *sn)
{
    struct mr_reach *r = &sn->reach;

    if (r->mapping)
        mr_unmap(sn, r->mapping, &r->region, r->pieces);
    else if (r->pieces)
        quota_uncharge(&sn->account, &r->cost);
    r->mapping = NULL;
    r->pieces = 0;
}

/* The application cannot rearrange memory that other processes share, or whose backing is unknown.
 */
static void update_movable(struct mr *mr)
{
    bool movable = mr->mapping && mr->why != CTL_MR_SHARED && mr->why != CTL_MR_UNKNOWN;

    if (movable && !mr->is_movable)
        LIST_INSERT_HEAD(&mr->o.session->movable_mrs, mr, movable);
    else if (!movable && mr->is_movable)
        LIST_REMOVE(mr, movable);
    mr->is_movable = movable;
}

void mr_set_mapping(struct mr *mr, void *mapping)
{
    struct session *sn = mr->o.session;

    if (mapping && !mr->mapping)
        sn->mrs_mapped++;
    else if (!mapping && mr->mapping)
        sn->mrs_mapped--;
    mr->mapping = mapping;
    update_movable(mr);
}

void mr_set_why(struct mr *mr, uint32_t why)
{
    struct session *sn = mr->o.session;

    if (mr->has_why)
        sn->mrs_why[mr->why]--;
    mr->has_why = true;
    mr->why = why < CTL_MR_WHYS ? why : CTL_MR_UNKNOWN;
    sn->mrs_why[mr->why]++;
    sn->device->mrs_why[mr->why]++;
    update_movable(mr);
}

static uint32_t map_pieces(const struct ctl_reg_mr *rq)
{
    return max_of(rq->pieces, 1u);
}

/* Maps the region if the application offers a descriptor that can be mapped; otherwise it is
 * copied. */
static int map_or_copy(struct session *sn, struct mem_region *region, const struct ctl_call *call,
                       void **mapping)
{
    const struct ctl_reg_mr *rq = &call->request->reg_mr;
    const struct ctl_mr_piece whole = {rq->fd_offset, rq->length};
    int err = mr_reach(sn, region, call, rq->pieces ? rq->piece : &whole, map_pieces(rq), mapping);

    if (err == -EPERM)
        sn->device->mrs_denied++;
    return err;
}

static int mr_publish(struct session *sn, struct mr *mr)
{
    uint8_t tag;
    int err = random_bytes(&tag, sizeof(tag));

    if (!err)
        err = mr_insert(&sn->device->mrs, &mr->region, tag);
    if (err)
        return err == -ENOSPC ? -ENOMEM : err;
    if (object_add(sn, &mr->o, OBJ_MR)) {
        /* The application does not know the key yet; a peer may have guessed it, hence the quiet
         * point. */
        mr_remove(&sn->device->mrs, &mr->region);
        device_quiesce(sn->device);
        return -ENOMEM;
    }
    return 0;
}

/* The region takes the place of another one, whose keys it gets: no access finds neither. */
static int mr_take_place(struct session *sn, struct mr *mr, struct mr *old)
{
    if (object_add(sn, &mr->o, OBJ_MR))
        return -ENOMEM;
    if (!region_close(&old->region)) {
        object_remove(&mr->o);
        return -EBUSY;
    }
    mr_replace(&sn->device->mrs, &old->region, &mr->region);
    old->closed = true;
    return 0;
}

static int mr_create(struct session *sn, const struct ctl_reg_mr *rq, struct mr *old,
                     const struct mem_region *region, void *mapping, struct mr **out)
{
    struct mr *mr = calloc(1, sizeof(*mr));
    int err;

    if (!mr)
        return -ENOMEM;
    mr->o.session = sn;
    mr->pd = container_of(object_get(sn, OBJ_PD, rq->pd), struct pd, o);
    mr->uidx = rq->uidx;
    mr->region = *region;
    mr->pieces = map_pieces(rq);
    mr_set_mapping(mr, mapping);
    mr_set_why(mr, mapping || !(rq->flags & CTL_MR_FD) ? rq->why : CTL_MR_REFUSED);
    mr_heat_start(mr);
    err = old ? mr_take_place(sn, mr, old) : mr_publish(sn, mr);
    if (err) {
        mr_left(&sn->device->mrs, &mr->region);
        sn->mrs_why[mr->why]--;
        mr_set_mapping(mr, NULL);
        free(mr);
        return err;
    }
    *out = mr;
    return 0;
}

/* Of an application's memory, by a mapping or by copies; or of another kind. */
static int reach(struct session *sn, struct mem_region *region, const struct ctl_call *call,
                 void **mapping, struct dm **dm)
{
    const struct ctl_reg_mr *rq = &call->request->reg_mr;
    int err;

    *mapping = NULL;
    if (rq->flags == CTL_MR_DEVICE_MEMORY)
        return dm_reach(sn, rq, region, dm);
    if (rq->flags == CTL_MR_NULL)
        return null_reach(rq, region);
    if (rq->flags & ~(uint32_t)(CTL_MR_FD | CTL_MR_REPLACES) ||
        !(rq->flags & CTL_MR_FD) != !call->in_fds)
        return -EINVAL;
    err = check_range(rq);
    return err ? err : map_or_copy(sn, region, call, mapping);
}

static int find_replaced(struct session *sn, uint32_t handle, struct mr **old)
{
    struct object *o = object_get(sn, OBJ_MR, handle);

    if (!o)
        return -ENOENT;
    *old = container_of(o, struct mr, o);
    return (*old)->closed ? -EINVAL : 0;
}

int mr_register(struct session *sn, struct ctl_call *call)
{
    const struct ctl_reg_mr *rq = &call->request->reg_mr;
    struct mem_region region = {
        .access = rq->access & ~(MEM_ACCESS_OPTIONAL | ACCESS_HUGETLB),
        .iova = rq->access & MEM_ZERO_BASED ? 0 : rq->iova,
        .addr = rq->addr,
        .len = rq->length,
        .backend = sn->copy,
        .space = sn->space,
    };
    int err = check_access(rq->access);
    void *mapping;
    struct mr *mr = NULL, *old = NULL;
    struct object *pd = object_get(sn, OBJ_PD, rq->pd);
    struct dm *dm = NULL;

    if (pd)
        region.pd = pd_number(container_of(pd, struct pd, o));
    else
        err = -EINVAL;
    if (!err && (rq->flags & CTL_MR_REPLACES))
        err = find_replaced(sn, rq->handle, &old);
    if (!err)
        err = reach(sn, &region, call, &mapping, &dm);
    if (err)
        return err;
    err = mr_create(sn, rq, old, &region, mapping, &mr);
    if (err) {
        if (mapping)
            mr_unmap(sn, mapping, &region, map_pieces(rq));
        return err;
    }
    mr->pd->o.refs++;
    mr->is_null = rq->flags == CTL_MR_NULL;
    if (mr->is_null) {
        LIST_INSERT_HEAD(&mr->pd->null_mrs, mr, null_link);
        mr->pd->nulls++;
    }
    mr->dm = dm;
    if (dm)
        dm->o.refs++;
    call->reply.reg_mr.handle = mr->o.handle;
    call->reply.reg_mr.lkey = call->reply.reg_mr.rkey = mr->region.key;
    call->reply.reg_mr.mapped = mr->region.direct != NULL;
    return 0;
}

void mr_unpublish(struct object *o)
{
    struct mr *mr = container_of(o, struct mr, o);

    if (!mr->closed) {
        mr_note_removal(&o->session->device->mrs, &mr->region, o->session->rnic->config.clock());
        mr_remove(&o->session->device->mrs, &mr->region);
    }
    mr->closed = true;
}

static bool is_of_session(const struct mem_region *r, void *arg)
{
    return container_of(r, const struct mr, region)->o.session == arg;
}

/* Whether both may have the same domains (import.h). */
static bool shares_domains(const struct session *a, const struct session *b)
{
    return (a->joined ? a->joined : a) == (b->joined ? b->joined : b);
}

/*
 * A session that ends takes its regions with it, also those to which windows of other sessions of
 * the same domain are bound. No new ones are bound to this region: its key is gone. Both may be
 * many, so windows of the session's other regions, which end soon, are unbound, too. Those of
 * programs that have nothing to do with it are not looked at.
 */
static void unbind_windows(struct mr *mr)
{
    struct session *sn = mr->o.session, *s;
    struct object *o;

    if (!region_has_windows(&mr->region))
        return;
    TAILQ_FOREACH (s, &sn->rnic->sessions, link) {
        if (!shares_domains(s, sn))
            continue;
        TAILQ_FOREACH (o, &s->objects[OBJ_MW], link)
            window_unbind_if(&container_of(o, struct mw, o)->window, is_of_session, sn);
    }
}

void mr_free(struct object *o)
{
    struct mr *mr = container_of(o, struct mr, o);
    struct session *sn = o->session;

    mr_left(&sn->device->mrs, &mr->region);
    unbind_windows(mr);
    sn->mrs_why[mr->why]--;
    mr_heat_stop(mr);
    if (mr->mapping)
        mr_unmap(sn, mr->mapping, &mr->region, mr->pieces);
    mr_set_mapping(mr, NULL);
    mr_end(&mr->region);
    mr->pd->o.refs--;
    if (mr->is_null) {
        LIST_REMOVE(mr, null_link);
        mr->pd->nulls--;
    }
    if (mr->dm)
        mr->dm->o.refs--;
    object_destroy(o);
}

/* An errand. */
static void run_unmap(struct session *sn)
{
    sn->rnic->config.mem->dispose(sn->reach.mapping);
    sn->reach.mapping = NULL;
}

/* No worker finds the region any more. 0, -EBUSY or -EAGAIN. */
static int end_accesses(struct session *sn, struct mr *mr)
{
    if (!mr->closed && !region_close(&mr->region))
        return -EBUSY;
    mr_unpublish(&mr->o);
    device_quiesce(sn->device);
    /* No access begins any more, but one may not have ended. */
    return mr_waits(&mr->region) ? -EAGAIN : 0;
}

/* The mapping becomes the errand's. */
static void lend_mapping(struct session *sn, struct mr *mr)
{
    struct mr_reach *r = &sn->reach;

    r->region = mr->region;
    r->pieces = mr->pieces;
    r->cost = mapping_cost(&mr->region, mr->pieces);
    r->mapping = mr->mapping;
    sn->rnic->config.mem->unmap(mr->mapping, &mr->region);
    mr_set_mapping(mr, NULL);
}

/* When it is answered the daemon has no mapping: the application may count on its pages, as of huge
 * ones, to be free once it has unmapped them itself. */
int mr_deregister(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_MR, call->request->handle);
    struct mr *mr = o ? container_of(o, struct mr, o) : NULL;
    int err = 0;

    if (!mr)
        return -ENOENT;
    if (sn->away.state == AWAY_NOT) {
        sn->reach.pieces = 0;
        err = end_accesses(sn, mr);
        if (!err && mr->mapping && sn->rnic->config.mem->dispose)
            lend_mapping(sn, mr);
    }
    if (!err && sn->reach.pieces)
        err = session_errand(sn, run_unmap);
    if (err)
        return err;
    mr_forget_reach(sn);
    mr_free(o);
    return 0;
}

bool mr_free_some(struct session *sn, const struct slice *s)
{
    if (sn->away.state == AWAY_DONE) { /* for a request that was not answered */
        sn->away.state = AWAY_NOT;
        mr_forget_reach(sn);
    }
    return object_free_batches(sn, OBJ_MR, s, mr_unpublish, mr_free);
}
