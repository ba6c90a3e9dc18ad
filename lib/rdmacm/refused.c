/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce has no connection management: its calls fail with EOPNOTSUPP. The library exists so that
 * programs that are linked with librdmacm start, and work when they exchange addresses themselves.
 *
 * The headers are not included on purpose: one body serves functions of many types.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

#define REFUSED_AS(type, value, name) \
    EXPORT type name(void);           \
    EXPORT type name(void)            \
    {                                 \
        errno = EOPNOTSUPP;           \
        return value;                 \
    }                                 \
    _Static_assert(1, "takes the semicolon")

/* Wide enough for int, ssize_t and off_t. */
#define REFUSED(name)         REFUSED_AS(long, -1, name)
#define REFUSED_POINTER(name) REFUSED_AS(void *, NULL, name)

#define IGNORED(name)       \
    EXPORT void name(void); \
    EXPORT void name(void)  \
    {                       \
    }                       \
    _Static_assert(1, "takes the semicolon")

REFUSED(raccept);
REFUSED(rbind);
REFUSED(rclose);
REFUSED(rconnect);
REFUSED(rdma_accept);
REFUSED(rdma_ack_cm_event);
REFUSED(rdma_bind_addr);
REFUSED(rdma_connect);
REFUSED(rdma_create_ep);
REFUSED_POINTER(rdma_create_event_channel);
REFUSED(rdma_create_id);
REFUSED(rdma_create_qp);
REFUSED(rdma_create_qp_ex);
REFUSED(rdma_create_srq);
REFUSED(rdma_create_srq_ex);
IGNORED(rdma_destroy_ep);
IGNORED(rdma_destroy_event_channel);
REFUSED(rdma_destroy_id);
IGNORED(rdma_destroy_qp);
IGNORED(rdma_destroy_srq);
REFUSED(rdma_disconnect);
REFUSED(rdma_establish);
IGNORED(rdma_freeaddrinfo);
REFUSED(rdma_get_cm_event);
REFUSED_AS(uint16_t, 0, rdma_get_dst_port);
REFUSED(rdma_get_remote_ece);
REFUSED(rdma_get_request);
REFUSED_AS(uint16_t, 0, rdma_get_src_port);
REFUSED(rdma_getaddrinfo);
REFUSED(rdma_init_qp_attr);
REFUSED(rdma_join_multicast);
REFUSED(rdma_join_multicast_ex);
REFUSED(rdma_leave_multicast);
REFUSED(rdma_listen);
REFUSED(rdma_migrate_id);
REFUSED(rdma_notify);
REFUSED(rdma_reject);
REFUSED(rdma_reject_ece);
REFUSED(rdma_resolve_addr);
REFUSED(rdma_resolve_route);
REFUSED(rdma_set_local_ece);
REFUSED(rdma_set_option);
REFUSED(rfcntl);
REFUSED(rgetpeername);
REFUSED(rgetsockname);
REFUSED(rgetsockopt);
REFUSED(riomap);
REFUSED(riounmap);
REFUSED(riowrite);
REFUSED(rlisten);
REFUSED(rpoll);
REFUSED(rread);
REFUSED(rreadv);
REFUSED(rrecv);
REFUSED(rrecvfrom);
REFUSED(rrecvmsg);
REFUSED(rselect);
REFUSED(rsend);
REFUSED(rsendmsg);
REFUSED(rsendto);
REFUSED(rsetsockopt);
REFUSED(rshutdown);
REFUSED(rsocket);
REFUSED(rwrite);
REFUSED(rwritev);
