/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of each there may be: what a device advertises, and what one session may have of it. */
#ifndef UROCE_DEVICE_LIMITS_H
#define UROCE_DEVICE_LIMITS_H

#include "engine.h"
#include "mr_table.h"
#include "net_host.h"
#include "raw.h"

#define LIMIT_QP      (QP_TABLE_SLOTS - 16)
#define LIMIT_SGE     ((uint32_t)QUEUE_MAX_SGE) /* as many as rdma_rxe has */
#define LIMIT_RD_ATOM 128u
/* Each queue pair is charged for this many; for more when they are asked for. */
#define RD_ATOM_INCLUDED 16u
#define LIMIT_MR_SIZE    (UINT64_C(1) << 40)
#define LIMIT_PD         65536u
#define LIMIT_CQ         65536u
#ifdef UROCE_FUZZ
#define LIMIT_KEY 4096u /* each input has tables of its own */
#else
#define LIMIT_KEY MR_TABLE_MAX_SLOTS
#endif
/* Regions and windows share a table, in which each has a half. */
#define LIMIT_MR      (LIMIT_KEY / 2)
#define LIMIT_MW      (LIMIT_KEY / 2)
#define LIMIT_AH      (AH_TABLE_SLOTS - 1)
#define LIMIT_CHANNEL 16384u
#define LIMIT_CM_ID   131072u
#define LIMIT_SRQ     (SRQ_TABLE_SLOTS - 1)
#define LIMIT_XRCD    65536u
#define LIMIT_DM      65536u
#define LIMIT_COUNTER 65536u
#define LIMIT_DM_SIZE (UINT64_C(64) << 20)
#define LIMIT_GROUP   NET_GROUP_MAX
#define LIMIT_WQ      (WQ_TABLE_SLOTS - 1)
#define LIMIT_RWQ_IND 16384u
#define LIMIT_JOIN    65536u
#define LIMIT_FLOW    4096u /* each frame that is not RoCE may be compared with all of them */

/* What one session, and one user, may have unless the configuration says otherwise: account.c. */
#define LIMIT_SESSION_CHANNEL 1024u
#define LIMIT_SESSION_WQ      16384u
#define LIMIT_SESSION_RWQ_IND 4096u
#define LIMIT_SESSION_FLOW    1024u
#define LIMIT_USER_CONNECTION 256u

/* Queue pairs that a user who is no owner may have in a multicast group: a worker gives each packet
 * of the group to all of them at once. */
#define LIMIT_USER_GROUP_QPS 256u

/* What the kernel holds for one of the daemon's sockets whose other end is not read: its send
 * buffer (net.core.wmem_default), rounded up. */
#define SOCKET_MEMORY (256u << 10)

/* What an id of rdma_cm takes, with the connection manager's part and its events. */
#define CM_ID_MEMORY (4u << 10)

/* Port numbers of rdma_cm's range that one user may have: half of them. */
#define LIMIT_USER_CM_NUMBER 14116u

#define FRAME_AROUND 18u /* bytes of a frame besides its MTU: Ethernet header and tag */
#define MTU_CODE_MAX 5u  /* IBV_MTU_4096 */

#endif
