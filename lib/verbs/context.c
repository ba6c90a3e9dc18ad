/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a device. */
#include "shim.h"

int shim_call(struct ibv_context *c, enum ctl_type type, struct ctl_msg *m)
{
    return failed(-conn_call(&to_context(c)->client.conn, type, m, NULL, 0, NULL, 0));
}

static void fill_ops(struct verbs_context *v)
{
    struct ibv_context_ops *ops = &v->context.ops;

    ops->_compat_query_device = ibv_query_device;
    ops->_compat_query_port = ibv_query_port;
    ops->poll_cq = shim_poll_cq;
    ops->req_notify_cq = shim_req_notify_cq;
    ops->post_send = shim_post_send;
    ops->post_recv = shim_post_recv;
    ops->post_srq_recv = shim_post_srq_recv;
    ops->alloc_mw = shim_alloc_mw;
    ops->dealloc_mw = shim_dealloc_mw;
    ops->bind_mw = shim_bind_mw;
    v->query_port = shim_query_port;
    v->query_device_ex = shim_query_device_ex;
    v->query_rt_values = shim_query_rt_values;
    v->advise_mr = shim_advise_mr;
    v->alloc_td = shim_alloc_td;
    v->dealloc_td = shim_dealloc_td;
    v->alloc_parent_domain = shim_alloc_parent_domain;
    v->create_cq_ex = shim_create_cq_ex;
    v->create_qp_ex = shim_create_qp_ex;
    v->create_srq_ex = shim_create_srq_ex;
    v->get_srq_num = shim_get_srq_num;
    v->open_xrcd = shim_open_xrcd;
    v->close_xrcd = shim_close_xrcd;
    v->create_wq = shim_create_wq;
    v->modify_wq = shim_modify_wq;
    v->destroy_wq = shim_destroy_wq;
    v->create_rwq_ind_table = shim_create_rwq_ind_table;
    v->destroy_rwq_ind_table = shim_destroy_rwq_ind_table;
    v->ibv_create_flow = shim_create_flow;
    v->ibv_destroy_flow = shim_destroy_flow;
    /* Where older programs find them. */
    v->ABI_placeholder1 = (void (*)(void))shim_create_flow;
    v->ABI_placeholder2 = (void (*)(void))shim_destroy_flow;
    v->sz = sizeof(*v);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct shim_device *d = (struct shim_device *)device;
    struct shim_context *ctx = calloc(1, sizeof(*ctx));
    struct ibv_context *c;
    int err;

    if (!ctx)
        return NULL;
    err = shim_entropy_default(&ctx->entropy);
    if (!err)
        err = client_open(&ctx->client, d->index);
    if (!err) {
        err = client_query_device(&ctx->client.conn, d->index, &ctx->info);
        if (err)
            client_close(&ctx->client);
    }
    if (err) {
        free(ctx);
        return refuse(err);
    }
    fill_ops(&ctx->vctx);
    c = &ctx->vctx.context;
    c->device = device;
    c->cmd_fd = ctx->client.conn.sock;
    c->async_fd = ctx->client.async_fd;
    c->num_comp_vectors = (int)ctx->client.workers;
    c->abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&c->mutex, NULL);
    return c;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
    struct shim_context *ctx = to_context(context);

    client_close(&ctx->client);
    pthread_mutex_destroy(&context->mutex);
    free(ctx);
    return 0;
}

/* Programs may fork at any time: the rings are shared mappings, no page is pinned, and adopted
 * memory becomes private before a fork (lib/client/mr_fork.c). */
EXPORT int ibv_fork_init(void)
{
    return 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

/* For provider libraries; no public header declares them. */
EXPORT int ibv_dontfork_range(void *base, size_t size);
EXPORT int ibv_dofork_range(void *base, size_t size);

EXPORT int ibv_dontfork_range(void *base, size_t size)
{
    return 0;
}

EXPORT int ibv_dofork_range(void *base, size_t size)
{
    return 0;
}
