/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is not there: see mem_null_backend. */
#include <string.h>

#include "mem.h"

static void read_zeros(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        memset(io[i].local, 0, io[i].len);
        io[i].status = 0;
    }
}

static void discard(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        io[i].status = 0;
}

static int atomic_on_zero(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                          uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    *old = 0;
    return 0;
}

const struct mem_backend mem_null_backend = {
    .name = "null",
    .copy_in = read_zeros,
    .copy_out = discard,
    .atomic = atomic_on_zero,
};
