/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways to reach application memory that this daemon offers its devices. */
#include "uroced.h"

#include <errno.h>
#include <stdlib.h>

#include "copy.h"
#include "mapped.h"

static void *space_open(pid_t pid, int *err)
{
    struct mem_copy_space *space = malloc(sizeof(*space));

    *err = space ? mem_copy_space_init(space, pid) : -ENOMEM;
    if (*err) {
        free(space);
        return NULL;
    }
    return space;
}

static void space_gone(void *space)
{
    mem_copy_space_mark_gone(space);
}

static void space_close(void *space)
{
    free(space);
}

static void *map(struct mem_region *mr, int fd, uint64_t offset, int *err)
{
    struct mem_mapping *m = malloc(sizeof(*m));

    *err = m ? mem_map(m, mr, fd, offset, 0) : -ENOMEM;
    if (*err) {
        free(m);
        return NULL;
    }
    return m;
}

static void unmap(void *mapping, struct mem_region *mr)
{
    mem_unmap(mapping, mr);
    free(mapping);
}

const struct mem_provider uroced_memory = {
    .copy = &mem_copy_backend,
    .space_open = space_open,
    .space_gone = space_gone,
    .space_close = space_close,
    .map = map,
    .unmap = unmap,
};
