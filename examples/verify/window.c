/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows: a key for a part of a region. Work requests create and invalidate it, which is
 * cheaper than registering. For type 1 ibv_bind_mw chooses the key; for type 2 the program does.
 */
#include "verify.h"

#include <errno.h>
#include <string.h>

#define BIND_ID 0xb14d

static enum outcome make(struct session *s, struct endpoint *ep, struct window *w,
                         enum ibv_mw_type type)
{
    unsigned need = type == IBV_MW_TYPE_1 ? IBV_DEVICE_MEM_WINDOW : IBV_DEVICE_MEM_WINDOW_TYPE_2B;

    if (w->mw)
        return PASSED;
    if (!(s->device.device_cap_flags & need))
        return skip(s, "the device has no memory windows of type %s",
                    type == IBV_MW_TYPE_1 ? "1" : "2B");
    w->mw = ibv_alloc_mw(ep->pd, type);
    if (!w->mw && unsupported(errno))
        return skip(s, "ibv_alloc_mw: %s", strerror(errno));
    return w->mw ? PASSED : fail(s, "ibv_alloc_mw: %s", strerror(errno));
}

static enum outcome bind_type_1(struct session *s, struct endpoint *ep, struct window *w,
                                const struct ibv_mw_bind_info *info)
{
    struct ibv_mw_bind bind = {
        .wr_id = BIND_ID, .send_flags = IBV_SEND_SIGNALED, .bind_info = *info};
    int err = ibv_bind_mw(ep->qp, w->mw, &bind);

    if (err && unsupported(err))
        return skip(s, "ibv_bind_mw: %s", strerror(err));
    return err ? fail(s, "ibv_bind_mw: %s", strerror(err)) : PASSED;
}

static enum outcome bind_type_2(struct session *s, struct endpoint *ep, struct window *w,
                                const struct ibv_mw_bind_info *info)
{
    struct ibv_send_wr wr = {
        .wr_id = BIND_ID,
        .opcode = IBV_WR_BIND_MW,
        .send_flags = IBV_SEND_SIGNALED,
        .bind_mw = {.mw = w->mw, .rkey = ibv_inc_rkey(w->mw->rkey), .bind_info = *info}};

    TRY(post_send(s, ep, &wr));
    w->mw->rkey = wr.bind_mw.rkey;
    return PASSED;
}

enum outcome window_bind(struct session *s, struct endpoint *ep, struct window *w,
                         enum ibv_mw_type type, uint64_t addr, uint64_t length)
{
    struct ibv_mw_bind_info info = {
        .mr = ep->remote.mr, .addr = addr, .length = length, .mw_access_flags = REMOTE_RIGHTS};
    struct ibv_wc wc;

    TRY(make(s, ep, w, type));
    TRY(type == IBV_MW_TYPE_1 ? bind_type_1(s, ep, w, &info) : bind_type_2(s, ep, w, &info));
    TRY(await_success(s, ep, SEND_SIDE, BIND_ID, IBV_WC_BIND_MW, &wc));
    w->bound = true;
    return PASSED;
}

/* Type 1 is bound to nothing, type 2 invalidated. The region has no part in the former, but
 * rdma-core's driver for rxe wants one. */
enum outcome window_unbind(struct session *s, struct endpoint *ep, struct window *w)
{
    const struct ibv_mw_bind_info nothing = {.mr = ep->remote.mr,
                                             .addr = (uintptr_t)ep->remote.bytes};
    struct ibv_send_wr wr = {.wr_id = BIND_ID,
                             .opcode = IBV_WR_LOCAL_INV,
                             .send_flags = IBV_SEND_SIGNALED,
                             .invalidate_rkey = w->mw->rkey};
    bool type_1 = w->mw->type == IBV_MW_TYPE_1;
    struct ibv_wc wc;

    TRY(type_1 ? bind_type_1(s, ep, w, &nothing) : post_send(s, ep, &wr));
    w->bound = false;
    return await_success(s, ep, SEND_SIDE, BIND_ID, type_1 ? IBV_WC_BIND_MW : IBV_WC_LOCAL_INV,
                         &wc);
}

void window_close(struct window *w)
{
    if (w->mw)
        ibv_dealloc_mw(w->mw);
    *w = (struct window){0};
}
