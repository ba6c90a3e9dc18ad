/* SPDX-License-Identifier: BSD-3-Clause */
#include "rs_config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rs_flow.h"
#include "rs_stream.h"
#include "rs_wire.h"

#define BUFFER_MIN  4096u
#define BUFFER_MAX  (1u << 28)
#define BUFFER_STEP 128u /* both halves of the ring are aligned to cache lines */
#define QUEUE_MIN   16
/* With those for control messages as many as a queue pair of the device can have. */
#define QUEUE_MAX   (16384 - RS_CONTROL_SLOTS)
#define POLLING_MAX 1000000
#define WAKE_UP_MAX 3600000

static uint32_t bound(uint64_t value, uint32_t min, uint32_t max)
{
    return value < min ? min : value > max ? max : (uint32_t)value;
}

uint32_t rs_bound_buffer(uint64_t bytes)
{
    return (bound(bytes, BUFFER_MIN, BUFFER_MAX) + BUFFER_STEP - 1) / BUFFER_STEP * BUFFER_STEP;
}

uint32_t rs_bound_queue(uint64_t wqes)
{
    return bound(wqes, QUEUE_MIN, QUEUE_MAX);
}

uint32_t rs_bound_inline(uint64_t bytes)
{
    return bound(bytes, 0, RS_INLINE_MAX);
}

/* The number in a file, or otherwise. */
static uint64_t read_number(const char *folder, const char *name, uint64_t otherwise)
{
    char path[256], text[32], *end;
    ssize_t n = -1;
    uint64_t value;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    if (n <= 0 || text[0] == '-')
        return otherwise;
    text[n] = 0;
    value = strtoull(text, &end, 0);
    return end == text ? otherwise : value;
}

void rs_config_read(struct rs_config *c, const char *folder)
{
    c->recv_buffer = rs_bound_buffer(read_number(folder, "mem_default", 1 << 17));
    c->send_buffer = rs_bound_buffer(read_number(folder, "wmem_default", 1 << 17));
    c->send_queue = rs_bound_queue(read_number(folder, "sqsize_default", 384));
    c->recv_queue = rs_bound_queue(read_number(folder, "rqsize_default", 384));
    c->inline_size = rs_bound_inline(read_number(folder, "inline_default", 64));
    c->iomap_entries =
        rs_iomap_entries_round(bound(read_number(folder, "iomap_size", 0), 0, UINT32_MAX));
    c->polling_us = bound(read_number(folder, "polling_time", 10), 0, POLLING_MAX);
    c->wake_up_ms = bound(read_number(folder, "wake_up_interval", 500), 1, WAKE_UP_MAX);
}

static struct rs_config config;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_config(void)
{
    rs_config_read(&config, RS_CONFIG_FOLDER);
}

const struct rs_config *rs_config(void)
{
    pthread_once(&once, read_config);
    return &config;
}
