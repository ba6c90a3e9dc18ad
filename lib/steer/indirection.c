/* SPDX-License-Identifier: BSD-3-Clause */
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
    __atomic_store_n(&t->queue[index], queue, __ATOMIC_RELAXED);
    return 0;
}

uint32_t indirection_share(const struct indirection *t, uint16_t queue)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->size; i++)
        n += t->queue[i] == queue;
    return n;
}
