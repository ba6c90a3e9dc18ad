/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn_objects.h"

int conn_object_change(enum ctl_type type)
{
    switch (type) {
    case CTL_ALLOC_PD:
    case CTL_REG_MR:
    case CTL_CREATE_CHANNEL:
    case CTL_CREATE_CQ:
    case CTL_CREATE_QP:
    case CTL_CREATE_QP_IN:
    case CTL_OPEN_QP:
    case CTL_CREATE_AH:
    case CTL_CREATE_SRQ:
    case CTL_OPEN_XRCD:
    case CTL_ALLOC_MW:
    case CTL_CREATE_WQ:
    case CTL_CREATE_RWQ_IND:
    case CTL_CREATE_FLOW:
    case CTL_ALLOC_DM:
    case CTL_CREATE_COUNTER:
    case CTL_IMPORT:
        return 1;
    case CTL_DEALLOC_PD:
    case CTL_DEREG_MR:
    case CTL_DESTROY_CHANNEL:
    case CTL_DESTROY_CQ:
    case CTL_DESTROY_QP:
    case CTL_DESTROY_AH:
    case CTL_DESTROY_SRQ:
    case CTL_CLOSE_XRCD:
    case CTL_DEALLOC_MW:
    case CTL_DESTROY_WQ:
    case CTL_DESTROY_RWQ_IND:
    case CTL_DESTROY_FLOW:
    case CTL_FREE_DM:
    case CTL_DESTROY_COUNTER:
    case CTL_UNIMPORT:
        return -1;
    default:
        return 0;
    }
}

bool conn_destroys(enum ctl_type type)
{
    return conn_object_change(type) < 0 || type == CTL_DETACH_MCAST || type == CTL_RESIZE_CQ_DONE;
}
