/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows. */
#include "shim.h"

#define KEY_USER_BITS 0xFFu

struct ibv_mw *shim_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct shim_mw *mw = calloc(1, sizeof(*mw));
    struct ctl_msg m = {.alloc_mw = {.pd = pd->handle, .type = type}};
    int err;

    if (!mw)
        return NULL;
    err = shim_call(pd->context, CTL_ALLOC_MW, &m);
    if (err) {
        free(mw);
        return refuse(-err);
    }
    mw->base = (struct ibv_mw){.context = pd->context,
                               .pd = pd,
                               .rkey = m.alloc_mw.rkey,
                               .handle = m.alloc_mw.handle,
                               .type = type};
    mw->pd = pd->handle;
    return &mw->base;
}

int shim_dealloc_mw(struct ibv_mw *mw)
{
    struct ctl_msg m = {.handle = mw->handle};
    int err = shim_call(mw->context, CTL_DEALLOC_MW, &m);

    if (is_destroyed(err))
        free(to_mw(mw));
    return err;
}

/*
 * 10.6.7.2: the adapter owns the key's index, the program its lowest eight bits. So these alone are
 * taken of `key`, as NICs do: programs pass any number. The window has its next key at once, for
 * the next bind names it.
 */
void build_bind(struct sqe *s, struct ibv_mw *mw, uint32_t key, const struct ibv_mw_bind_info *info)
{
    s->rkey = mw->rkey;
    mw->rkey = (mw->rkey & ~KEY_USER_BITS) | (key & KEY_USER_BITS);
    s->imm = mw->rkey;
    s->remote_addr = info->addr;
    s->bind.length = info->length;
    s->bind.region_key = info->mr ? info->mr->lkey : 0;
    s->bind.access = info->mw_access_flags;
}

/* Type 1: the library posts the bind request. */
int shim_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct ibv_send_wr *bad,
        wr = {
            .wr_id = bind->wr_id,
            .opcode = IBV_WR_BIND_MW,
            .send_flags = bind->send_flags,
            .bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info},
        };

    if (mw->type != IBV_MW_TYPE_1 || (bind->bind_info.length && !bind->bind_info.mr) ||
        !qp->pd) /* an XRC target sends nothing */
        return failed(EINVAL);
    if (bind->bind_info.mr &&
        (shim_mr_pd(bind->bind_info.mr) != to_mw(mw)->pd || to_qp(qp)->pd != to_mw(mw)->pd))
        return failed(EPERM);
    return shim_post_send(qp, &wr, &bad);
}
