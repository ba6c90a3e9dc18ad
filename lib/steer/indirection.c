/* SPDX-License-Identifier: BSD-3-Clause */
/* The indirection table of receive-side scaling: see indirection.h. */
#include "indirection.h"

#include <errno.h>

#include "common.h"

int indirection_init(struct indirection *t, uint32_t size, uint32_t queues)
{
    if (!is_pow2(size) || size > INDIRECTION_MAX || !queues || queues > size)
        return -EINVAL;
    t->size = size;
    for (uint32_t i = 0; i < size; i++)
        t->queue[i] = (uint16_t)(i % queues);
    return 0;
}

int indirection_set(struct indirection *t, uint32_t index, uint16_t queue)
{
    if (index >= t->size)
        return -EINVAL;
    atomic_store_explicit(&t->queue[index], queue, memory_order_relaxed);
    return 0;
}

uint32_t indirection_share(const struct indirection *t, uint16_t queue)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->size; i++)
        n += t->queue[i] == queue;
    return n;
}
