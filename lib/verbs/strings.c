/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of codes, and of rates. */
#include "later.h"
#include "private.h"
#include "shim.h"
#include "static_rate.h"

static const char *name_of(const char *const *names, size_t n, int code)
{
    return code >= 0 && (size_t)code < n && names[code] ? names[code] : "unknown";
}

#define NAME_OF(names, code) name_of(names, ARRAY_SIZE(names), (int)(code))

EXPORT const char *ibv_node_type_str(enum ibv_node_type node_type)
{
    static const char *const names[] = {
        [IBV_NODE_CA] = "InfiniBand channel adapter",
        [IBV_NODE_SWITCH] = "InfiniBand switch",
        [IBV_NODE_ROUTER] = "InfiniBand router",
        [IBV_NODE_RNIC] = "iWARP NIC",
        [IBV_NODE_USNIC] = "usNIC",
        [IBV_NODE_USNIC_UDP] = "usNIC UDP",
        [IBV_NODE_UNSPECIFIED] = "unspecified",
    };

    return NAME_OF(names, node_type);
}

EXPORT const char *ibv_port_state_str(enum ibv_port_state port_state)
{
    static const char *const names[] = {
        [IBV_PORT_NOP] = "no state change (NOP)",
        [IBV_PORT_DOWN] = "down",
        [IBV_PORT_INIT] = "init",
        [IBV_PORT_ARMED] = "armed",
        [IBV_PORT_ACTIVE] = "active",
        [IBV_PORT_ACTIVE_DEFER] = "active defer",
    };

    return NAME_OF(names, port_state);
}

EXPORT const char *ibv_event_type_str(enum ibv_event_type event)
{
    static const char *const names[] = {
        [IBV_EVENT_CQ_ERR] = "CQ error",
        [IBV_EVENT_QP_FATAL] = "local work queue catastrophic error",
        [IBV_EVENT_QP_REQ_ERR] = "invalid request local work queue error",
        [IBV_EVENT_QP_ACCESS_ERR] = "local access violation work queue error",
        [IBV_EVENT_COMM_EST] = "communication established",
        [IBV_EVENT_SQ_DRAINED] = "send queue drained",
        [IBV_EVENT_PATH_MIG] = "path migrated",
        [IBV_EVENT_PATH_MIG_ERR] = "path migration request error",
        [IBV_EVENT_DEVICE_FATAL] = "local catastrophic error",
        [IBV_EVENT_PORT_ACTIVE] = "port active",
        [IBV_EVENT_PORT_ERR] = "port error",
        [IBV_EVENT_LID_CHANGE] = "LID change",
        [IBV_EVENT_PKEY_CHANGE] = "P_Key change",
        [IBV_EVENT_SM_CHANGE] = "SM change",
        [IBV_EVENT_SRQ_ERR] = "SRQ catastrophic error",
        [IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ limit reached",
        [IBV_EVENT_QP_LAST_WQE_REACHED] = "last WQE reached",
        [IBV_EVENT_CLIENT_REREGISTER] = "client reregistration",
        [IBV_EVENT_GID_CHANGE] = "GID table change",
        [IBV_EVENT_WQ_FATAL] = "WQ fatal",
        [20] = "device speed change", /* since rdma-core 62 */
    };

    return NAME_OF(names, event);
}

const char *shim_wr_opcode_str(unsigned opcode)
{
    static const char *const names[] = {
        [IBV_WR_RDMA_WRITE] = "RDMA write",
        [IBV_WR_RDMA_WRITE_WITH_IMM] = "RDMA write with immediate",
        [IBV_WR_SEND] = "send",
        [IBV_WR_SEND_WITH_IMM] = "send with immediate",
        [IBV_WR_RDMA_READ] = "RDMA read",
        [IBV_WR_ATOMIC_CMP_AND_SWP] = "atomic compare and swap",
        [IBV_WR_ATOMIC_FETCH_AND_ADD] = "atomic fetch and add",
        [IBV_WR_LOCAL_INV] = "local invalidate",
        [IBV_WR_BIND_MW] = "bind memory window",
        [IBV_WR_SEND_WITH_INV] = "send with invalidate",
        [IBV_WR_TSO] = "TCP segmentation",
        [IBV_WR_DRIVER1] = "driver's own",
        [LATER_WR_FLUSH] = "flush",
        [IBV_WR_ATOMIC_WRITE] = "atomic write",
    };

    return NAME_OF(names, opcode);
}

static const char *private_ibv_wr_opcode_str(enum ibv_wr_opcode opcode)
{
    return shim_wr_opcode_str(opcode);
}
PRIVATE(ibv_wr_opcode_str);

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    static const char *const names[] = {
        [IBV_WC_SUCCESS] = "success",
        [IBV_WC_LOC_LEN_ERR] = "local length error",
        [IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
        [IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
        [IBV_WC_LOC_PROT_ERR] = "local protection error",
        [IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
        [IBV_WC_MW_BIND_ERR] = "memory management operation error",
        [IBV_WC_BAD_RESP_ERR] = "bad response error",
        [IBV_WC_LOC_ACCESS_ERR] = "local access error",
        [IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
        [IBV_WC_REM_ACCESS_ERR] = "remote access error",
        [IBV_WC_REM_OP_ERR] = "remote operation error",
        [IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
        [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
        [IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation error",
        [IBV_WC_REM_INV_RD_REQ_ERR] = "remote invalid RD request",
        [IBV_WC_REM_ABORT_ERR] = "aborted error",
        [IBV_WC_INV_EECN_ERR] = "invalid EE context number",
        [IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state",
        [IBV_WC_FATAL_ERR] = "fatal error",
        [IBV_WC_RESP_TIMEOUT_ERR] = "response timeout error",
        [IBV_WC_GENERAL_ERR] = "general error",
        [IBV_WC_TM_ERR] = "tag matching error",
        [IBV_WC_TM_RNDV_INCOMPLETE] = "tag matching rendezvous incomplete",
    };

    return NAME_OF(names, status);
}

/* In units of 2.5 Gbit/s, where that is a whole number. */
static const uint16_t mults[] = {
    [IBV_RATE_2_5_GBPS] = 1,   [IBV_RATE_5_GBPS] = 2,     [IBV_RATE_10_GBPS] = 4,
    [IBV_RATE_20_GBPS] = 8,    [IBV_RATE_30_GBPS] = 12,   [IBV_RATE_40_GBPS] = 16,
    [IBV_RATE_60_GBPS] = 24,   [IBV_RATE_80_GBPS] = 32,   [IBV_RATE_120_GBPS] = 48,
    [IBV_RATE_25_GBPS] = 10,   [IBV_RATE_100_GBPS] = 40,  [IBV_RATE_200_GBPS] = 80,
    [IBV_RATE_300_GBPS] = 120, [IBV_RATE_50_GBPS] = 20,   [IBV_RATE_400_GBPS] = 160,
    [IBV_RATE_600_GBPS] = 240, [IBV_RATE_800_GBPS] = 320, [IBV_RATE_1200_GBPS] = 480,
};

#define RATES (IBV_RATE_1200_GBPS + 1)

EXPORT int ibv_rate_to_mult(enum ibv_rate rate)
{
    return (unsigned)rate < ARRAY_SIZE(mults) && mults[rate] ? mults[rate] : -1;
}

EXPORT enum ibv_rate mult_to_ibv_rate(int mult)
{
    for (unsigned i = 0; mult && i < ARRAY_SIZE(mults); i++)
        if (mults[i] == mult)
            return (enum ibv_rate)i;
    return IBV_RATE_MAX;
}

EXPORT int ibv_rate_to_mbps(enum ibv_rate rate)
{
    uint32_t mbps = static_rate_mbps(rate);

    return mbps ? (int)mbps : -1;
}

EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps)
{
    for (unsigned i = 0; mbps && i < RATES; i++)
        if (static_rate_mbps(i) == (uint32_t)mbps)
            return (enum ibv_rate)i;
    return IBV_RATE_MAX;
}
