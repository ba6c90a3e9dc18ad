/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways to reach application memory that this daemon offers its devices. */
#include "uroced.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "copy.h"
#include "mapped.h"
#include "pinned.h"

/* What workers get as a space is the union; which of them it is, only this file asks. */
struct space {
    union {
        struct mem_copy_space copy;
        struct mem_pinned_space pinned;
    };
    bool is_pinned;
};

/* Whether the kernel lets us at any process's memory. */
static bool may_trace_all(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, data))
        return true; /* the safe assumption */
    return data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective & CAP_TO_MASK(CAP_SYS_PTRACE);
}

/*
 * Without privilege the kernel checks each copy against the program that the process runs then.
 * With it nothing is checked, so the memory is pinned that the application had when it opened the
 * device; not for root, to whom the daemon can give nothing.
 */
static int open_either(struct space *s, const struct ucred *peer, const struct mem_backend **copy)
{
    s->is_pinned = peer->uid && may_trace_all();
    if (s->is_pinned) {
        *copy = &mem_pinned_backend;
        return mem_pinned_space_open(&s->pinned, peer);
    }
    *copy = &mem_copy_backend;
    return mem_copy_space_init(&s->copy, peer->pid);
}

static void *space_open(const struct ucred *peer, const struct mem_backend **copy, int *err)
{
    struct space *s = malloc(sizeof(*s));

    *err = s ? open_either(s, peer, copy) : -ENOMEM;
    if (*err) {
        free(s);
        return NULL;
    }
    return s;
}

static void space_gone(void *space)
{
    struct space *s = space;

    if (s->is_pinned)
        mem_pinned_space_mark_gone(&s->pinned);
    else
        mem_copy_space_mark_gone(&s->copy);
}

static void space_close(void *space)
{
    struct space *s = space;

    if (s->is_pinned)
        mem_pinned_space_close(&s->pinned);
    free(s);
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
    .space_open = space_open,
    .space_gone = space_gone,
    .space_close = space_close,
    .map = map,
    .unmap = unmap,
};
