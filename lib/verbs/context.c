/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a device. */
#include <unistd.h>

#include "modify_by.h"
#include "shim.h"
#include "watch.h"

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
    v->alloc_dm = shim_alloc_dm;
    v->free_dm = shim_free_dm;
    v->reg_dm_mr = shim_reg_dm_mr;
    v->alloc_null_mr = shim_alloc_null_mr;
    v->alloc_td = shim_alloc_td;
    v->dealloc_td = shim_dealloc_td;
    v->alloc_parent_domain = shim_alloc_parent_domain;
    v->create_cq_ex = shim_create_cq_ex;
    v->modify_cq = shim_modify_cq;
    v->modify_qp_rate_limit = shim_modify_qp_rate_limit;
    v->create_qp_ex = shim_create_qp_ex;
    v->open_qp = shim_open_qp;
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
    v->create_counters = shim_create_counters;
    v->destroy_counters = shim_destroy_counters;
    v->attach_counters_point_flow = shim_attach_counters_point_flow;
    v->read_counters = shim_read_counters;
    /* Where older programs find them. */
    v->ABI_placeholder1 = (void (*)(void))shim_create_flow;
    v->ABI_placeholder2 = (void (*)(void))shim_destroy_flow;
    v->sz = sizeof(*v);
}

static void init_context(struct shim_context *ctx, struct ibv_device *device)
{
    struct ibv_context *c = &ctx->vctx.context;

    fill_ops(&ctx->vctx);
    c->device = device;
    c->cmd_fd = ctx->client.shared_fd;
    c->async_fd = ctx->client.async_fd;
    c->num_comp_vectors = (int)ctx->client.workers;
    c->abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&c->mutex, NULL);
}

/* A context whose client is not open. NULL: errno. */
static struct shim_context *alloc_context(void)
{
    struct shim_context *ctx = calloc(1, sizeof(*ctx));
    int err;

    if (!ctx)
        return NULL;
    ctx->imported_fd = -1;
    err = shim_entropy_default(&ctx->entropy);
    if (err) {
        free(ctx);
        return refuse(err);
    }
    return ctx;
}

/* What follows when the client is open, or (err) is not. device NULL: it is still to be found. */
static struct ibv_context *finish_open(struct shim_context *ctx, struct ibv_device *device,
                                       uint32_t index, int err)
{
    if (!err) {
        err = client_query_device(&ctx->client.conn, index, &ctx->info);
        if (!err)
            err = shim_part_id_chosen(&ctx->info);
        if (!err && !device)
            device = shim_device_of(index, &ctx->info);
        if (!err && !device)
            err = -ENOMEM;
        if (err)
            client_close(&ctx->client);
    }
    if (err) {
        free(ctx);
        return refuse(err);
    }
    init_context(ctx, device);
    ctx->client.watch_changed = watch_changed;
    watch_changed(&ctx->client);
    return &ctx->vctx.context;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    uint32_t index = ((struct shim_device *)device)->index;
    struct shim_context *ctx = alloc_context();

    return ctx ? finish_open(ctx, device, index, client_open(&ctx->client, index)) : NULL;
}

/* The descriptor is the context's from now on; it leads to the same context as before. */
EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
    struct shim_context *ctx = alloc_context();
    struct ibv_context *c;
    uint32_t index = 0;
    int err;

    if (!ctx)
        return NULL;
    err = client_join(&ctx->client, cmd_fd, &index);
    c = finish_open(ctx, NULL, index, err);
    if (c)
        ctx->imported_fd = c->cmd_fd = cmd_fd;
    return c;
}

/* Without cancellation: close() is a cancellation point, and there are several descriptors. */
EXPORT int ibv_close_device(struct ibv_context *context)
{
    struct shim_context *ctx = to_context(context);
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    watch_end(&ctx->client);
    client_close(&ctx->client);
    if (ctx->imported_fd >= 0)
        close(ctx->imported_fd);
    pthread_mutex_destroy(&context->mutex);
    free(ctx);
    pthread_setcancelstate(cancel, NULL);
    return 0;
}

EXPORT bool uroce_is_over(const struct ibv_context *context)
{
    const struct conn *conn = &to_context((struct ibv_context *)context)->client.conn;

    return !conn->objects && conn_hung_up(conn);
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
