/* SPDX-License-Identifier: BSD-3-Clause */
/* The administrator's defaults: files of /etc/rdma/rsocket that hold one number each. */
#ifndef UROCE_RS_CONFIG_H
#define UROCE_RS_CONFIG_H

#include <stdint.h>

#define RS_CONFIG_FOLDER "/etc/rdma/rsocket"

struct rs_config {
    uint32_t recv_buffer, send_buffer; /* mem_default, wmem_default: bytes */
    uint32_t send_queue, recv_queue;   /* sqsize_default, rqsize_default: WQEs */
    uint32_t inline_size;              /* inline_default: bytes */
    uint32_t iomap_entries;            /* iomap_size */
    uint32_t polling_us;               /* polling_time */
    uint32_t wake_up_ms;               /* wake_up_interval */
};

/* Bounds that the program's options keep, too. */
uint32_t rs_bound_buffer(uint64_t bytes);
uint32_t rs_bound_queue(uint64_t wqes);
uint32_t rs_bound_inline(uint64_t bytes);

/* The defaults, with those of the folder that are there and make sense. */
void rs_config_read(struct rs_config *c, const char *folder);

/* Those of RS_CONFIG_FOLDER, which is read once. */
const struct rs_config *rs_config(void);

#endif
