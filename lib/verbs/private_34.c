/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions that libibverbs has for its provider libraries. Programs such as perftest load
 * libmlx5 and libefa beside this library, and the loader must find all of these functions. The
 * providers have no device here to call them for, so nearly all of them fail. verbs_init_cq and
 * ibv_query_gid_type are elsewhere: programs use them.
 *
 * No public header declares these functions, and their arguments do not matter.
 */
#include <stdarg.h>

#include "shim.h"

#define REFUSED(name)              \
    EXPORT int name(void);         \
    EXPORT int name(void)          \
    {                              \
        return failed(EOPNOTSUPP); \
    }                              \
    _Static_assert(1, "takes the semicolon")

#define REFUSED_POINTER(name)       \
    EXPORT void *name(void);        \
    EXPORT void *name(void)         \
    {                               \
        return refuse(-EOPNOTSUPP); \
    }                               \
    _Static_assert(1, "takes the semicolon")

#define IGNORED(name)       \
    EXPORT void name(void); \
    EXPORT void name(void)  \
    {                       \
    }                       \
    _Static_assert(1, "takes the semicolon")

EXPORT extern bool verbs_allow_disassociate_destroy;
EXPORT bool verbs_allow_disassociate_destroy;

EXPORT int ibv_read_ibdev_sysfs_file(char *buf, size_t size, void *sysfs_dev, const char *format,
                                     ...);

/* Providers search for their hardware with it; this device is in no provider's table. */
EXPORT int ibv_read_ibdev_sysfs_file(char *buf, size_t size, void *sysfs_dev, const char *format,
                                     ...)
{
    errno = ENOENT;
    return -1;
}

EXPORT unsigned int __ioctl_final_num_attrs(unsigned int num_attrs, void *link);

EXPORT unsigned int __ioctl_final_num_attrs(unsigned int num_attrs, void *link)
{
    return num_attrs;
}

IGNORED(__verbs_log);
IGNORED(verbs_register_driver_34);
IGNORED(verbs_set_ops);
IGNORED(verbs_uninit_context);
REFUSED_POINTER(verbs_open_device);
REFUSED_POINTER(_verbs_init_and_alloc_context);

REFUSED(execute_ioctl);
REFUSED(ibv_cmd_advise_mr);
REFUSED(ibv_cmd_alloc_dm);
REFUSED(ibv_cmd_alloc_mw);
REFUSED(ibv_cmd_alloc_pd);
REFUSED(ibv_cmd_attach_mcast);
REFUSED(ibv_cmd_close_xrcd);
REFUSED(ibv_cmd_create_ah);
REFUSED(ibv_cmd_create_counters);
REFUSED(ibv_cmd_create_cq);
REFUSED(ibv_cmd_create_cq_ex);
REFUSED(ibv_cmd_create_cq_ex2); /* libmlx5 of rdma-core 56 */
REFUSED(ibv_cmd_create_flow);
REFUSED(ibv_cmd_create_flow_action_esp);
REFUSED(ibv_cmd_create_qp);
REFUSED(ibv_cmd_create_qp_ex2);
REFUSED(ibv_cmd_create_qp_ex);
REFUSED(ibv_cmd_create_rwq_ind_table);
REFUSED(ibv_cmd_create_srq);
REFUSED(ibv_cmd_create_srq_ex);
REFUSED(ibv_cmd_create_wq);
REFUSED(ibv_cmd_dealloc_mw);
REFUSED(ibv_cmd_dealloc_pd);
REFUSED(ibv_cmd_dereg_mr);
REFUSED(ibv_cmd_destroy_ah);
REFUSED(ibv_cmd_destroy_counters);
REFUSED(ibv_cmd_destroy_cq);
REFUSED(ibv_cmd_destroy_flow);
REFUSED(ibv_cmd_destroy_flow_action);
REFUSED(ibv_cmd_destroy_qp);
REFUSED(ibv_cmd_destroy_rwq_ind_table);
REFUSED(ibv_cmd_destroy_srq);
REFUSED(ibv_cmd_destroy_wq);
REFUSED(ibv_cmd_detach_mcast);
REFUSED(ibv_cmd_free_dm);
REFUSED(ibv_cmd_get_context);
REFUSED(ibv_cmd_modify_cq);
REFUSED(ibv_cmd_modify_flow_action_esp);
REFUSED(ibv_cmd_modify_qp);
REFUSED(ibv_cmd_modify_qp_ex);
REFUSED(ibv_cmd_modify_srq);
REFUSED(ibv_cmd_modify_wq);
REFUSED(ibv_cmd_open_qp);
REFUSED(ibv_cmd_open_xrcd);
REFUSED(ibv_cmd_poll_cq);
REFUSED(ibv_cmd_post_recv);
REFUSED(ibv_cmd_post_send);
REFUSED(ibv_cmd_post_srq_recv);
REFUSED(ibv_cmd_query_context);
REFUSED(ibv_cmd_query_device_any);
REFUSED(ibv_cmd_query_mr);
REFUSED(ibv_cmd_query_port);
REFUSED(ibv_cmd_query_qp);
REFUSED(ibv_cmd_query_srq);
REFUSED(ibv_cmd_read_counters);
REFUSED(ibv_cmd_reg_dm_mr);
REFUSED(ibv_cmd_reg_dmabuf_mr);
REFUSED(ibv_cmd_reg_mr);
REFUSED(ibv_cmd_req_notify_cq);
REFUSED(ibv_cmd_rereg_mr);
REFUSED(ibv_cmd_resize_cq);
