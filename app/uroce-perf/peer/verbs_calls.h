/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs and librdmacm, loaded when a client or a server starts: the in-process benchmark needs
 * neither. Which libraries they are, uroce's or the system's, is the loader's choice
 * (LD_LIBRARY_PATH, as `uroce run` sets it).
 */
#ifndef UROCE_PERF_VERBS_CALLS_H
#define UROCE_PERF_VERBS_CALLS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#undef ibv_reg_mr /* the function, and not the macro */

#define VERBS_CALLS(X)          \
    X(ibv_alloc_pd)             \
    X(ibv_dealloc_pd)           \
    X(ibv_create_comp_channel)  \
    X(ibv_destroy_comp_channel) \
    X(ibv_create_cq)            \
    X(ibv_destroy_cq)           \
    X(ibv_get_cq_event)         \
    X(ibv_ack_cq_events)        \
    X(ibv_reg_mr)               \
    X(ibv_dereg_mr)             \
    X(ibv_modify_qp)            \
    X(ibv_query_qp)             \
    X(ibv_wc_status_str)

#define RDMACM_CALLS(X)           \
    X(rdma_create_event_channel)  \
    X(rdma_destroy_event_channel) \
    X(rdma_create_id)             \
    X(rdma_destroy_id)            \
    X(rdma_getaddrinfo)           \
    X(rdma_freeaddrinfo)          \
    X(rdma_bind_addr)             \
    X(rdma_listen)                \
    X(rdma_resolve_addr)          \
    X(rdma_resolve_route)         \
    X(rdma_create_qp)             \
    X(rdma_destroy_qp)            \
    X(rdma_connect)               \
    X(rdma_accept)                \
    X(rdma_reject)                \
    X(rdma_disconnect)            \
    X(rdma_get_cm_event)          \
    X(rdma_ack_cm_event)          \
    X(rdma_event_str)

struct verbs_calls {
#define X(name) __typeof__(name) *name;
    VERBS_CALLS(X)
    RDMACM_CALLS(X)
#undef X
};

/* The libraries' functions; they stay loaded. NULL, with the loader's text in *error. */
const struct verbs_calls *verbs_calls_load(const char **error);

#endif
