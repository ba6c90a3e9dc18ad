/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entry points of the first ABI, IBVERBS_1.0, which had other structures. Its programs find no
 * device: the device list fails, so they have no arguments for the other functions.
 */
#include "shim.h"

/* The arguments and types differ from the header's, so the functions have other names. */
#define REFUSED(name)                                   \
    EXPORT void *old_##name(void);                      \
    __attribute__((used)) EXPORT void *old_##name(void) \
    {                                                   \
        return refuse(-EOPNOTSUPP);                     \
    }                                                   \
    __asm__(".symver old_" #name "," #name "@IBVERBS_1.0")

/* For functions that return an error code. */
#define REFUSED_CODE(name)                            \
    EXPORT int old_##name(void);                      \
    __attribute__((used)) EXPORT int old_##name(void) \
    {                                                 \
        errno = EOPNOTSUPP;                           \
        return -1;                                    \
    }                                                 \
    __asm__(".symver old_" #name "," #name "@IBVERBS_1.0")

REFUSED(ibv_ack_async_event);
REFUSED(ibv_ack_cq_events);
REFUSED(ibv_alloc_pd);
REFUSED_CODE(ibv_attach_mcast);
REFUSED_CODE(ibv_close_device);
REFUSED(ibv_create_ah);
REFUSED(ibv_create_cq);
REFUSED(ibv_create_qp);
REFUSED(ibv_create_srq);
REFUSED_CODE(ibv_dealloc_pd);
REFUSED_CODE(ibv_dereg_mr);
REFUSED_CODE(ibv_destroy_ah);
REFUSED_CODE(ibv_destroy_cq);
REFUSED_CODE(ibv_destroy_qp);
REFUSED_CODE(ibv_destroy_srq);
REFUSED_CODE(ibv_detach_mcast);
REFUSED(ibv_free_device_list);
REFUSED_CODE(ibv_get_async_event);
REFUSED_CODE(ibv_get_cq_event);
REFUSED(ibv_get_device_guid);
REFUSED(ibv_get_device_list);
REFUSED(ibv_get_device_name);
REFUSED_CODE(ibv_modify_qp);
REFUSED_CODE(ibv_modify_srq);
REFUSED(ibv_open_device);
REFUSED_CODE(ibv_query_device);
REFUSED_CODE(ibv_query_gid);
REFUSED_CODE(ibv_query_pkey);
REFUSED_CODE(ibv_query_port);
REFUSED_CODE(ibv_query_qp);
REFUSED_CODE(ibv_query_srq);
REFUSED(ibv_reg_mr);
REFUSED_CODE(ibv_resize_cq);

/* Provider libraries of that time registered themselves here. None of them drives our device. */
EXPORT void old_ibv_register_driver(void);
__attribute__((used)) EXPORT void old_ibv_register_driver(void)
{
}
__asm__(".symver old_ibv_register_driver,ibv_register_driver@IBVERBS_1.1");
