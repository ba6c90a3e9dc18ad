/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What one user, and one connection, may take of what all programs share: the tables of a device,
 * and the daemon's mappings, descriptors and memory.
 *
 * Root and the user that runs the daemon are its owners. They may take everything, and have a
 * sixteenth of it for themselves.
 *
 * Threads: these functions have no state, and may be called from any thread.
 */
#ifndef UROCE_QUOTA_H
#define UROCE_QUOTA_H

#include <stdint.h>

/** What is counted. */
enum quota_kind {
    /* Of each device. */
    QUOTA_PD,
    QUOTA_MR,
    QUOTA_MW,
    QUOTA_CHANNEL,
    QUOTA_CQ,
    QUOTA_SRQ,
    QUOTA_XRCD,
    QUOTA_QP,
    QUOTA_AH,
    QUOTA_WQ,
    QUOTA_RWQ_IND,
    QUOTA_FLOW,
    QUOTA_DM,
    QUOTA_COUNTER, /**< a completion counter */
    QUOTA_GROUP,   /**< a multicast group that queue pairs of a connection are in */
    QUOTA_JOIN,    /**< a queue pair's membership in a multicast group */
    QUOTA_DEVICE_KINDS,
    /* Of the daemon. */
    QUOTA_CONNECTION = QUOTA_DEVICE_KINDS,
    QUOTA_CM_ID,      /**< connections that are made or accepted by rdma_cm, and listeners */
    QUOTA_MAPPING,    /**< slabs, contexts, and the pieces of mapped regions */
    QUOTA_DESCRIPTOR, /**< open file descriptors */
    QUOTA_MEMORY,     /**< bytes: slabs, contexts, the daemon's and the kernel's objects */
    QUOTA_MAPPED,     /**< bytes of applications' memory in mapped regions */
    QUOTA_KINDS
};

/** Limits as configured; 0: the default. */
struct quota_limits {
    uint64_t total[QUOTA_KINDS];  /**< all programs together; of a device, for its kinds */
    uint64_t user[QUOTA_KINDS];   /**< all programs of one user who is no owner */
    uint64_t client[QUOTA_KINDS]; /**< one connection, of any user */
};

/**
 * Get the name of a kind, in the configuration and in `uroce show`.
 *
 * @param kind  The kind.
 * @return  The name, such as "qps".
 */
const char *quota_kind_name(enum quota_kind kind);
/**
 * Get the most that there can be of a kind: the size of the device's table.
 *
 * @param kind  The kind.
 * @return  The number; UINT64_MAX: only the machine limits it.
 */
uint64_t quota_kind_max(enum quota_kind kind);

#endif
