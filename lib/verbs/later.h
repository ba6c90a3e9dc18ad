/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the interface that rdma-core has since version 50, for this library to be the same
 * whichever version's headers it is compiled with. The structures and constants have names of their
 * own here, as newer headers have them too; LATER() gives a function its name for programs.
 */
#ifndef UROCE_VERBS_LATER_H
#define UROCE_VERBS_LATER_H

#include "shim.h"

/* The function `later_name`, which the program knows as name@@IBVERBS_version. */
#define LATER(name, version) __asm__(".symver later_" #name "," #name "@@IBVERBS_" version)

/* ---- ibv_alloc_parent_domain ---- */

/* A confidential guest may be given memory that it shares with devices. */
#define LATER_PARENT_DOMAIN_CC_UNPROTECTED (UINT32_C(1) << 2)

/* ---- ibv_query_device_ex: device_cap_flags_ex ---- */

#define LATER_DEVICE_FLUSH_GLOBAL (UINT64_C(1) << 38)
#define LATER_DEVICE_ATOMIC_WRITE (UINT64_C(1) << 40)

/* odp_caps. */
#define LATER_ODP_FLUSH        (UINT32_C(1) << 6)
#define LATER_ODP_ATOMIC_WRITE (UINT32_C(1) << 7)

/* ---- FLUSH, whose function ibv_wr_flush is the later part of struct later_qp_ex ---- */

enum {
    LATER_ACCESS_FLUSH_GLOBAL = 1 << 8,
    LATER_ACCESS_FLUSH_PERSISTENT = 1 << 9,
    LATER_QP_EX_WITH_FLUSH = 1 << 11,
    LATER_WR_FLUSH = 14,
    LATER_WC_FLUSH = 8,
};

#define LATER_FLUSH_TYPES     3u /* global, persistent */
#define LATER_FLUSH_LEVEL_MAX 1  /* range, region */

/* ---- ibv_alloc_dmah ---- */

enum {
    LATER_DMAH_CPU_ID = 1 << 0,
    LATER_DMAH_PH = 1 << 1,
    LATER_DMAH_MEM_TYPE = 1 << 2,
    LATER_DMAH_KNOWN = LATER_DMAH_CPU_ID | LATER_DMAH_PH | LATER_DMAH_MEM_TYPE,
};

#define LATER_PH_MAX       3
#define LATER_MEM_TYPE_MAX 1 /* volatile, persistent */

struct later_dmah {
    struct ibv_context *context;
};

struct later_dmah_init_attr {
    uint32_t comp_mask, cpu_id;
    uint8_t ph, tph_mem_type;
};

/* ---- ibv_alloc_buf ---- */

struct later_buf {
    struct ibv_pd *pd;
    uint8_t *addr;
    size_t size; /* whole pages */
    int memfd;
};

/* ---- ibv_reg_mr_ex ---- */

enum {
    LATER_MR_IOVA = 1 << 0,
    LATER_MR_ADDR = 1 << 1,
    LATER_MR_FD = 1 << 2,
    LATER_MR_FD_OFFSET = 1 << 3,
    LATER_MR_DMAH = 1 << 4,
    LATER_MR_BUF = 1 << 5,
    LATER_MR_KNOWN = LATER_MR_IOVA | LATER_MR_ADDR | LATER_MR_FD | LATER_MR_FD_OFFSET |
                     LATER_MR_DMAH | LATER_MR_BUF,
};

struct later_mr_init_attr {
    size_t length;
    int access;
    uint64_t comp_mask, iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    struct later_dmah *dmah;
    struct later_buf *buf;
};

/* ibv_reg_mr_ex. */
struct ibv_mr *later_ibv_reg_mr_ex(struct ibv_pd *pd, struct later_mr_init_attr *attr);

/* Whether [addr, addr + length) lies in the buffer. */
bool later_buf_has(const struct later_buf *buf, const void *addr, size_t length);

#endif
