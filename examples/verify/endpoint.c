/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of one end of a connection. connect.c connects the queue pairs. */
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_DEPTH 64
#define WANT_SGE    MAX_PIECES
#define WANT_INLINE 64

/* Skips if the device lacks the feature, fails on any other error. */
static enum outcome cannot(struct session *s, const char *what)
{
    int err = errno;

    if (unsupported(err))
        return skip(s, "no %s: %s", what, strerror(err));
    return fail(s, "%s: %s", what, strerror(err));
}

static enum outcome make_region(struct session *s, struct ibv_pd *pd, struct region *r, size_t room,
                                int access)
{
    r->length = room;
    r->bytes = aligned_alloc(PAGE, room);
    if (!r->bytes)
        return fail(s, "out of memory");
    memset(r->bytes, 0, room);
    r->mr = ibv_reg_mr(pd, r->bytes, room, access);
    return r->mr ? PASSED : cannot(s, "memory region");
}

static void free_region(struct region *r)
{
    if (r->mr)
        ibv_dereg_mr(r->mr);
    free(r->bytes);
}

static enum outcome make_regions(struct session *s, struct endpoint *ep)
{
    int access = ep->opt.mr_access ? ep->opt.mr_access : IBV_ACCESS_LOCAL_WRITE | REMOTE_RIGHTS;

    if (s->device.device_cap_flags & (IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B))
        access |= IBV_ACCESS_MW_BIND;
    TRY(make_region(s, ep->pd, &ep->local, ep->opt.room, IBV_ACCESS_LOCAL_WRITE));
    return make_region(s, ep->pd, &ep->remote, ep->opt.room, access);
}

/* A channel for each side, so that waiting for one is not disturbed by the other. */
static enum outcome make_queues(struct session *s, struct endpoint *ep)
{
    for (int side = SEND_SIDE; side <= RECV_SIDE; side++) {
        ep->channel[side] = ibv_create_comp_channel(s->ctx);
        if (!ep->channel[side])
            return cannot(s, "completion channel");
        ep->cq[side] = ibv_create_cq(s->ctx, 2 * QUEUE_DEPTH, NULL, ep->channel[side], 0);
        if (!ep->cq[side])
            return cannot(s, "completion queue");
    }
    return PASSED;
}

static enum outcome make_srq(struct session *s, struct endpoint *ep)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = QUEUE_DEPTH, .max_sge = WANT_SGE + 1}};

    if (!s->device.max_srq)
        return skip(s, "the device has no shared receive queues");
    ep->srq = ibv_create_srq(ep->pd, &attr);
    return ep->srq ? PASSED : cannot(s, "shared receive queue");
}

static enum outcome make_xrc(struct session *s, struct endpoint *ep)
{
    struct ibv_xrcd_init_attr domain = {.comp_mask =
                                            IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                                        .fd = -1,
                                        .oflags = O_CREAT};
    struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = QUEUE_DEPTH, .max_sge = WANT_SGE},
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
                                                     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
                                                     IBV_SRQ_INIT_ATTR_PD,
                                        .srq_type = IBV_SRQT_XRC,
                                        .pd = ep->pd,
                                        .cq = ep->cq[RECV_SIDE]};
    struct ibv_qp_init_attr_ex target = {.comp_mask = IBV_QP_INIT_ATTR_XRCD,
                                         .qp_type = IBV_QPT_XRC_RECV};

    if (!(s->device.device_cap_flags & IBV_DEVICE_XRC))
        return skip(s, "the device has no XRC");
    ep->xrcd = ibv_open_xrcd(s->ctx, &domain);
    if (!ep->xrcd)
        return cannot(s, "XRC domain");
    attr.xrcd = target.xrcd = ep->xrcd;
    ep->srq = ibv_create_srq_ex(s->ctx, &attr);
    if (!ep->srq || ibv_get_srq_num(ep->srq, &ep->mine.srqn))
        return cannot(s, "XRC shared receive queue");
    ep->recv_qp = ibv_create_qp_ex(s->ctx, &target);
    return ep->recv_qp ? PASSED : cannot(s, "XRC receive queue pair");
}

static enum outcome make_qp(struct session *s, struct endpoint *ep)
{
    bool xrc = ep->opt.type == IBV_QPT_XRC_SEND;
    struct ibv_qp_init_attr_ex attr = {.send_cq = ep->cq[SEND_SIDE],
                                       .recv_cq = xrc ? NULL : ep->cq[RECV_SIDE],
                                       .srq = xrc ? NULL : ep->srq,
                                       .cap = {.max_send_wr = QUEUE_DEPTH,
                                               .max_send_sge = WANT_SGE,
                                               .max_inline_data = WANT_INLINE},
                                       .qp_type = ep->opt.type,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD,
                                       .pd = ep->pd};

    if (!xrc && !ep->srq) {
        attr.cap.max_recv_wr = QUEUE_DEPTH;
        attr.cap.max_recv_sge = WANT_SGE + 1; /* the GRH has its own */
    }
    ep->qp = ibv_create_qp_ex(s->ctx, &attr);
    if (!ep->qp)
        return cannot(s, "queue pair");
    ep->cap = attr.cap;
    if (!ep->recv_qp)
        ep->recv_qp = ep->qp;
    return PASSED;
}

static enum outcome make_all(struct session *s, struct endpoint *ep)
{
    ep->pd = ibv_alloc_pd(s->ctx);
    if (!ep->pd)
        return cannot(s, "protection domain");
    TRY(make_regions(s, ep));
    TRY(make_queues(s, ep));
    if (ep->opt.srq)
        TRY(make_srq(s, ep));
    if (ep->opt.type == IBV_QPT_XRC_SEND)
        TRY(make_xrc(s, ep));
    TRY(make_qp(s, ep));
    ep->mine.qpn = ep->qp->qp_num;
    ep->mine.recv_qpn = ep->recv_qp->qp_num;
    ep->mine.psn = ep->opt.psn;
    return PASSED;
}

enum outcome endpoint_open(struct session *s, struct endpoint *ep,
                           const struct endpoint_options *opt)
{
    enum outcome result;

    *ep = (struct endpoint){.opt = *opt};
    result = make_all(s, ep);
    if (result == PASSED)
        result = endpoint_connect(s, ep);
    if (result != PASSED)
        endpoint_close(ep);
    return result;
}

enum outcome endpoint_other_pd(struct session *s, struct endpoint *ep)
{
    ep->other_pd = ibv_alloc_pd(s->ctx);
    if (!ep->other_pd)
        return cannot(s, "protection domain");
    ep->other_mr = ibv_reg_mr(ep->other_pd, ep->remote.bytes, ep->remote.length,
                              IBV_ACCESS_LOCAL_WRITE | REMOTE_RIGHTS);
    return ep->other_mr ? PASSED : cannot(s, "memory region");
}

void endpoint_close(struct endpoint *ep)
{
    if (ep->ah)
        ibv_destroy_ah(ep->ah);
    if (ep->recv_qp && ep->recv_qp != ep->qp)
        ibv_destroy_qp(ep->recv_qp);
    if (ep->qp)
        ibv_destroy_qp(ep->qp);
    if (ep->srq)
        ibv_destroy_srq(ep->srq);
    if (ep->xrcd)
        ibv_close_xrcd(ep->xrcd);
    for (int side = SEND_SIDE; side <= RECV_SIDE; side++) {
        if (ep->cq[side])
            ibv_destroy_cq(ep->cq[side]);
        if (ep->channel[side])
            ibv_destroy_comp_channel(ep->channel[side]);
    }
    if (ep->other_mr)
        ibv_dereg_mr(ep->other_mr);
    if (ep->other_pd)
        ibv_dealloc_pd(ep->other_pd);
    free_region(&ep->local);
    free_region(&ep->remote);
    if (ep->pd)
        ibv_dealloc_pd(ep->pd);
    *ep = (struct endpoint){0};
}
