/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains that the sockets of one device share, and memory for buffers. Any thread. */
#ifndef UROCE_RS_DEVICE_H
#define UROCE_RS_DEVICE_H

#include <infiniband/verbs.h>
#include <stddef.h>

struct rs_device {
    struct rs_device *next;
    struct ibv_context *verbs;
    struct ibv_pd *pd;
    unsigned refs;
};

/* NULL with errno: there is no domain. */
struct rs_device *rs_device_get(struct ibv_context *verbs);
void rs_device_put(struct rs_device *device);

/*
 * Zeroed pages that the process shares with the device where it can: a memory file that cannot
 * shrink, which a device that is a process maps without taking the pages from us.
 */
struct rs_memory {
    uint8_t *bytes;
    size_t size;
    int fd; /* or -1 */
};

int rs_memory_create(struct rs_memory *m, size_t size);
void rs_memory_destroy(struct rs_memory *m);

/* A completion channel that does not block, and a queue. Returns a negative errno. */
int rs_cq_create(struct ibv_context *verbs, int entries, struct ibv_comp_channel **comp,
                 struct ibv_cq **cq);
void rs_cq_destroy(struct ibv_comp_channel *comp, struct ibv_cq *cq);
/* Takes the events that are there. 1: there were some, 0: none, or a negative errno. */
int rs_cq_events(struct ibv_comp_channel *comp, struct ibv_cq *cq);

#endif
