/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and memory regions. */
#include "objects/pd_mr.h"

#include <errno.h>
#include <stdlib.h>

#include "control/session_state.h"

/* ---- protection domains ---- */

int pd_alloc(struct session *sn, struct ctl_call *call)
{
    struct pd *pd = object_create(sn, OBJ_PD, sizeof(*pd));

    if (!pd)
        return -ENOMEM;
    call->reply.handle = pd->o.handle;
    return 0;
}

int pd_dealloc(struct session *sn, struct ctl_call *call)
{
    struct object *o;
    int err = object_get_unused(sn, OBJ_PD, call->request->handle, &o);

    if (!err)
        object_destroy(o);
    return err;
}

void pd_free_all(struct session *sn)
{
    object_free_all(sn, OBJ_PD, object_destroy);
}

/* ---- memory regions ---- */

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

static int check_range(const struct ctl_reg_mr *rq)
{
    /* An implicit on-demand region: all of memory. */
    if ((rq->access & MEM_ON_DEMAND) && !rq->addr && rq->length == UINT64_MAX)
        return -EOPNOTSUPP;
    if (!rq->length || rq->length > LIMIT_MR_SIZE)
        return -EINVAL;
    if (rq->addr + rq->length < rq->addr || rq->iova + rq->length < rq->iova)
        return -EINVAL;
    return 0;
}

static int probe_byte(struct mr *mr, uint64_t addr)
{
    uint8_t byte;
    struct mem_io io = {.mr = &mr->region, .addr = addr, .local = &byte, .len = 1};

    mr->region.backend->copy_in(mr->region.space, &io, 1);
    return io.status;
}

/*
 * Whether the daemon can access the range at all, so that registration fails and not a work
 * request. The kernel refuses processes of another user, and those that the daemon may not trace.
 * On-demand ranges need not exist yet.
 */
static int probe_range(struct mr *mr)
{
    struct mem_region *r = &mr->region;
    int err = probe_byte(mr, r->addr);

    if (!err && r->len > 1)
        err = probe_byte(mr, r->addr + r->len - 1);
    return err == -EFAULT && (r->access & MEM_ON_DEMAND) ? 0 : err;
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

int mr_map(struct mr *mr, struct mem_region *r, const struct ctl_call *call,
           const struct ctl_mr_piece *piece, unsigned n)
{
    struct session *sn = mr->o.session;
    struct quota_cost cost = mapping_cost(r, n);
    struct mem_piece pieces[CTL_MR_PIECES];
    int err;

    if (!n || n > CTL_MR_PIECES || call->in_fds != 1)
        return -EINVAL;
    for (unsigned i = 0; i < n; i++)
        pieces[i] = (struct mem_piece){piece[i].offset, piece[i].length};
    err = quota_charge(&sn->account, &cost);
    if (err)
        return err;
    mr->mapping = sn->rnic->config.mem->map(r, call->in_fd[0], pieces, n, &err);
    mr->pieces = n;
    if (mr->mapping)
        return 0;
    quota_uncharge(&sn->account, &cost);
    return err;
}

void mr_unmap(struct mr *mr)
{
    struct session *sn = mr->o.session;
    struct quota_cost cost = mapping_cost(&mr->region, mr->pieces);

    if (!mr->mapping)
        return;
    sn->rnic->config.mem->unmap(mr->mapping, &mr->region);
    mr->mapping = NULL;
    quota_uncharge(&sn->account, &cost);
}

void mr_set_why(struct mr *mr, uint32_t why)
{
    mr->why = why < CTL_MR_WHYS ? why : CTL_MR_UNKNOWN;
    mr->o.session->device->mrs_why[mr->why]++;
}

/* Maps the region if the application offers a descriptor that can be mapped; otherwise it is
 * copied. */
static int map_or_copy(struct session *sn, struct mr *mr, const struct ctl_call *call)
{
    const struct ctl_reg_mr *rq = &call->request->reg_mr;
    const struct ctl_mr_piece whole = {rq->fd_offset, rq->length};
    int err;

    if (rq->flags & CTL_MR_FD)
        mr_map(mr, &mr->region, call, rq->pieces ? rq->piece : &whole, rq->pieces ? rq->pieces : 1);
    mr_set_why(mr, mr->mapping || !(rq->flags & CTL_MR_FD) ? rq->why : CTL_MR_REFUSED);
    if (mr->mapping)
        return 0;
    err = probe_range(mr);
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

int mr_register(struct session *sn, struct ctl_call *call)
{
    const struct ctl_reg_mr *rq = &call->request->reg_mr;
    struct object *pd = object_get(sn, OBJ_PD, rq->pd);
    int err = check_access(rq->access);
    struct mr *mr;

    if (!err)
        err = check_range(rq);
    if (!pd || (rq->flags & ~(uint32_t)CTL_MR_FD) || !(rq->flags & CTL_MR_FD) != !call->in_fds)
        err = -EINVAL;
    if (err)
        return err;
    mr = calloc(1, sizeof(*mr));
    if (!mr)
        return -ENOMEM;
    mr->o.session = sn;
    mr->pd = container_of(pd, struct pd, o);
    mr->uidx = rq->uidx;
    mr->region = (struct mem_region){
        .pd = rq->pd,
        .access = rq->access & ~(MEM_ACCESS_OPTIONAL | ACCESS_HUGETLB),
        .iova = rq->access & MEM_ZERO_BASED ? 0 : rq->iova,
        .addr = rq->addr,
        .len = rq->length,
        .backend = sn->copy,
        .space = sn->space,
    };
    err = map_or_copy(sn, mr, call);
    if (!err) {
        mr_heat_start(mr);
        err = mr_publish(sn, mr);
    }
    if (err) {
        mr_unmap(mr);
        free(mr);
        return err;
    }
    pd->refs++;
    sn->mrs_mapped += mr->mapping != NULL;
    call->reply.reg_mr.handle = mr->o.handle;
    call->reply.reg_mr.lkey = call->reply.reg_mr.rkey = mr->region.key;
    call->reply.reg_mr.mapped = mr->mapping != NULL;
    return 0;
}

/* After mr_remove and the quiet point. */
static void mr_free(struct object *o)
{
    struct mr *mr = container_of(o, struct mr, o);
    struct session *sn = o->session;

    sn->mrs_mapped -= mr->mapping != NULL;
    mr_heat_stop(mr);
    mr_unmap(mr);
    mr->pd->o.refs--;
    object_destroy(o);
}

int mr_deregister(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_MR, call->request->handle);
    struct mr *mr;

    if (!o)
        return -EINVAL;
    mr = container_of(o, struct mr, o);
    if (!region_close(&mr->region))
        return -EBUSY;
    mr_remove(&sn->device->mrs, &mr->region);
    device_quiesce(sn->device);
    mr_free(o);
    return 0;
}

void mr_free_all(struct session *sn)
{
    struct object *o;

    if (TAILQ_EMPTY(&sn->objects[OBJ_MR]))
        return;
    TAILQ_FOREACH (o, &sn->objects[OBJ_MR], link)
        mr_remove(&sn->device->mrs, &container_of(o, struct mr, o)->region);
    device_quiesce(sn->device);
    object_free_all(sn, OBJ_MR, mr_free);
}
