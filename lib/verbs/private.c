/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions that libibverbs has for its provider libraries. Programs such as perftest load
 * libmlx5 and libefa beside this library, and the loader must find all of these functions. The
 * providers have no device here to call them for, so nearly all of them fail.
 *
 * Node 34 has what libmlx5 and libefa of rdma-core 44 to 56 ask for, and each later node what those
 * of all later versions ask for. verbs_init_cq and ibv_query_gid_type are elsewhere: programs use
 * them.
 *
 * No public header declares these functions, and their arguments do not matter.
 */
#include <stdarg.h>

#include "private.h"
#include "shim.h"

/* nodes: PRIVATE or PRIVATE_LATER. */
#define DEFINED(nodes, type, name, body) \
    static type private_##name(void)     \
    {                                    \
        body;                            \
    }                                    \
    nodes(name)

#define REFUSED(name)         DEFINED(PRIVATE, int, name, return failed(EOPNOTSUPP))
#define REFUSED_POINTER(name) DEFINED(PRIVATE, void *, name, return refuse(-EOPNOTSUPP))
#define IGNORED(name)         DEFINED(PRIVATE, void, name, return )

#define LATER_REFUSED(name)         DEFINED(PRIVATE_LATER, int, name, return failed(EOPNOTSUPP))
#define LATER_REFUSED_POINTER(name) DEFINED(PRIVATE_LATER, void *, name, return refuse(-EOPNOTSUPP))
#define LATER_IGNORED(name)         DEFINED(PRIVATE_LATER, void, name, return )

static bool private_verbs_allow_disassociate_destroy;
PRIVATE(verbs_allow_disassociate_destroy);

/* Providers search for their hardware with it; this device is in no provider's table. */
static int private_ibv_read_ibdev_sysfs_file(char *buf, size_t size, void *sysfs_dev,
                                             const char *format, ...)
{
    errno = ENOENT;
    return -1;
}
PRIVATE(ibv_read_ibdev_sysfs_file);

static unsigned int private___ioctl_final_num_attrs(unsigned int num_attrs, void *link)
{
    return num_attrs;
}
PRIVATE(__ioctl_final_num_attrs);

/* Its name has the number of its node. */
static void register_driver(void)
{
}
#define REGISTER_DRIVER(node)                                                   \
    extern __typeof__(register_driver) register_driver_in_##node                \
        __attribute__((alias("register_driver"), visibility("default"), used)); \
    __asm__(".symver register_driver_in_" #node ",verbs_register_driver_" #node \
            "@@IBVERBS_PRIVATE_" #node)
REGISTER_DRIVER(34);
REGISTER_DRIVER(57);
REGISTER_DRIVER(59);
REGISTER_DRIVER(64);
REGISTER_DRIVER(65);

IGNORED(__verbs_log);
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

/* Since rdma-core 57, and not in node 34. */
LATER_REFUSED(ibv_cmd_alloc_dmah);
LATER_REFUSED(ibv_cmd_create_comp_cntr);
LATER_REFUSED(ibv_cmd_destroy_comp_cntr);
LATER_REFUSED(ibv_cmd_export_dmabuf_fd);
LATER_REFUSED(ibv_cmd_free_dmah);
LATER_REFUSED(ibv_cmd_inc_comp_cntr);
LATER_REFUSED(ibv_cmd_inc_err_comp_cntr);
LATER_REFUSED(ibv_cmd_qp_attach_comp_cntr);
LATER_REFUSED(ibv_cmd_query_comp_cntr_caps);
LATER_REFUSED(ibv_cmd_query_port_speed);
LATER_REFUSED(ibv_cmd_read_comp_cntr);
LATER_REFUSED(ibv_cmd_read_err_comp_cntr);
LATER_REFUSED(ibv_cmd_reg_mr_ex);
LATER_REFUSED(ibv_cmd_set_comp_cntr);
LATER_REFUSED(ibv_cmd_set_err_comp_cntr);
LATER_REFUSED_POINTER(ibv_dmabuf_heap_alloc);
LATER_REFUSED(ibv_dmabuf_heap_cc_shared_init);
LATER_IGNORED(ibv_dmabuf_heap_destroy);
LATER_IGNORED(ibv_dmabuf_heap_free);
