/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory provider of the daemon's devices: opens spaces, maps and copies application memory. */
#include "uroced.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"
#include "copy.h"
#include "mapped.h"
#include "pinned.h"
#include "populated.h"
#include "trust.h"

/* Workers get the union as their space. Only this file asks which member it is. */
struct space {
    union {
        struct mem_copy_space copy;
        struct mem_pinned_space pinned;
    };
    bool is_pinned;
    bool is_trusted;
};

/* Whether the kernel lets this process access the memory of any process. */
static bool may_trace_all(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, data))
        return true; /* the safe assumption */
    return data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective & CAP_TO_MASK(CAP_SYS_PTRACE);
}

/*
 * Without the privilege the kernel checks each copy against the program that the process runs then.
 * With it nothing is checked, so the daemon pins the memory that the application had when it opened
 * the device. Processes of root need no such protection: the daemon cannot raise their privileges.
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

static struct mem_life *life_of(struct space *s)
{
    return s->is_pinned ? &s->pinned.life : &s->copy.life;
}

/* A call to an application's memory that has waited for longer than the application lived is over,
 * or there was none. */
static void space_end(struct mem_life *life)
{
    struct space *s = life->space;

    if (s->is_pinned)
        mem_pinned_space_close(&s->pinned);
    free(s);
}

static void *space_open(const struct ucred *peer, const struct mem_backend **copy, int *err)
{
    struct space *s = calloc(1, sizeof(*s));

    *err = s ? open_either(s, peer, copy) : -ENOMEM;
    if (*err) {
        free(s);
        return NULL;
    }
    life_of(s)->end = space_end;
    life_of(s)->space = s;
    life_of(s)->user = (int)peer->uid;
    s->is_trusted = trust_user(peer->uid);
    return s;
}

/* A pinned space was checked when it was opened. */
static int space_reach(void *space)
{
    struct space *s = space;

    return s->is_pinned ? 0 : mem_copy_space_reach(&s->copy);
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
    mem_life_release(life_of(space));
}

static int map_into(struct mem_mapping *m, struct mem_region *mr, int fd,
                    const struct mem_piece *piece, unsigned n)
{
    const struct space *s = mr->space;
    int err = mem_map(m, mr, fd, piece, n, s->is_trusted ? MEM_MAP_TRUSTED : 0);

    if (!err && !mem_is_populated(m, fd, piece, n)) {
        mem_unmap(m, mr);
        err = -ENODATA;
    }
    return err;
}

static void *map(struct mem_region *mr, int fd, const struct mem_piece *piece, unsigned n, int *err)
{
    struct mem_mapping *m = calloc(1, sizeof(*m));

    *err = m ? map_into(m, mr, fd, piece, n) : -ENOMEM;
    if (*err) {
        free(m);
        return NULL;
    }
    return m;
}

static void unmap(void *mapping, struct mem_region *mr)
{
    mr->direct = NULL;
}

static void dispose(void *mapping)
{
    mem_unmap(mapping, NULL);
    free(mapping);
}

static struct mem_freeze *freeze_of(struct space *s)
{
    return s->is_pinned ? &s->pinned.freeze : &s->copy.freeze;
}

static void freeze(void *space, uint64_t ns)
{
    mem_freeze_begin(freeze_of(space), ns);
}

static uint64_t thaw(void *space)
{
    return mem_freeze_end(freeze_of(space));
}

static struct mem_heat *heat(void *space)
{
    struct space *s = space;

    return s->is_pinned ? &s->pinned.heat : &s->copy.heat;
}

const struct mem_provider uroced_memory = {
    .space_open = space_open,
    .space_reach = space_reach,
    .space_gone = space_gone,
    .space_close = space_close,
    .map = map,
    .unmap = unmap,
    .dispose = dispose,
    .freeze = freeze,
    .thaw = thaw,
    .heat = heat,
};
