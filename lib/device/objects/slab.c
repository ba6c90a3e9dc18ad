/* SPDX-License-Identifier: BSD-3-Clause */
/* See slab.h. */
#include "objects/slab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "control/account.h"
#include "objects/segment_end.h"

#define PAGE 4096u
/* The kernel's: a file, a mapping. */
#define KERNEL_BYTES 2048u
/* So that even the largest pieces share. */
#define PIECES_MIN (SLAB_MAX / SLAB_PIECE_MAX)

struct slab {
    LIST_ENTRY(slab) link;    /* in its pool */
    LIST_ENTRY(slab) room;    /* in its class, while it has room */
    struct slab_class *class; /* NULL: one large piece */
    struct segment memory;
    uint64_t id;
    uint32_t piece, pieces;
    uint32_t used;
    uint32_t fresh; /* pieces from this one on were never allocated, and are still zero */
    uint32_t free_count;
    int fd;          /* of a pool that shares; else -1 */
    bool announced;  /* a reply before the present one carried its descriptor */
    bool lost;       /* the descriptor did not reach the application */
    uint32_t free[]; /* freed pieces, a stack */
};

/* ---- unallocated memory ---- */

/* A queue is followed by another queue, not by an unmapped page, so the address sanitizer would not
 * notice an overrun. Unallocated memory is therefore poisoned. */
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define forbid(base, bytes) ASAN_POISON_MEMORY_REGION(base, bytes)
#define allow(base, bytes)  ASAN_UNPOISON_MEMORY_REGION(base, bytes)
#else
#define forbid(base, bytes) ((void)(base), (void)(bytes))
#define allow(base, bytes)  ((void)(base), (void)(bytes))
#endif

/* ---- size classes ---- */

/* Cache lines: 1 to 4, then four sizes to each doubling, so that at most a fifth is lost. */
static unsigned class_of(size_t bytes, uint32_t *piece)
{
    uint32_t lines = (uint32_t)(round_up(bytes, CACHE_LINE) / CACHE_LINE);
    uint32_t shift, steps;

    if (lines <= 4) {
        *piece = lines * CACHE_LINE;
        return lines - 1;
    }
    shift = 29 - (uint32_t)__builtin_clz(lines - 1);
    steps = (lines + (1u << shift) - 1) >> shift; /* 5 to 8 */
    *piece = (steps << shift) * CACHE_LINE;
    return 4 + shift * 4 + steps - 5;
}

/* ---- slabs ---- */

static size_t header_bytes(uint32_t pieces)
{
    return sizeof(struct slab) + pieces * sizeof(((struct slab *)NULL)->free[0]);
}

/* All of it, whatever is in use: an application can write to all of its slabs. */
static struct quota_cost slab_cost(const struct slab_pool *p, uint32_t pieces, size_t bytes)
{
    return (struct quota_cost){{[QUOTA_MAPPING] = 1,
                                [QUOTA_DESCRIPTOR] = p->shares,
                                [QUOTA_MEMORY] = bytes + header_bytes(pieces) + KERNEL_BYTES}};
}

/* *own: of a pool that shares, another descriptor of the slab. */
static int create_memory(const struct slab_pool *p, struct segment *s, size_t bytes, int *fd,
                         int *own)
{
    int err = segment_create(s, "uroce-slab", bytes, fd);

    *own = -1;
    if (err || !p->shares)
        return err;
    *own = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    if (*own >= 0)
        return 0;
    err = -errno;
    segment_destroy(s, false);
    close(*fd);
    *fd = -1;
    return err;
}

static struct slab *slab_create(struct slab_pool *p, struct slab_class *class, uint32_t piece,
                                size_t bytes, int *fd, int *err)
{
    uint32_t pieces = (uint32_t)(bytes / piece);
    struct quota_cost cost = slab_cost(p, pieces, bytes);
    struct slab *s;
    int own;

    *err = quota_charge(p->account, &cost);
    if (*err)
        return NULL;
    s = malloc(header_bytes(pieces));
    *err = s ? create_memory(p, &s->memory, bytes, fd, &own) : -ENOMEM;
    if (*err) {
        quota_uncharge(p->account, &cost);
        free(s);
        return NULL;
    }
    *s = (struct slab){.class = class,
                       .memory = s->memory,
                       .piece = piece,
                       .pieces = pieces,
                       .fd = own,
                       .id = ++p->last_id};
    forbid(s->memory.base, bytes);
    LIST_INSERT_HEAD(&p->slabs, s, link);
    p->count++;
    if (class) {
        LIST_INSERT_HEAD(&class->room, s, room);
        class->bytes += bytes;
    }
    return s;
}

static void slab_destroy(struct slab_pool *p, struct slab *s)
{
    struct quota_cost cost = slab_cost(p, s->pieces, s->memory.bytes);

    if (s->class) {
        s->class->bytes -= s->memory.bytes;
        if (s->used < s->pieces)
            LIST_REMOVE(s, room);
    }
    LIST_REMOVE(s, link);
    p->count--;
    allow(s->memory.base, s->memory.bytes);
    if (s->fd >= 0)
        close(s->fd);
    if (p->owner) {
        segment_end(p->owner, &s->memory, &cost);
    } else {
        segment_destroy(&s->memory, p->keep);
        quota_uncharge(p->account, &cost);
    }
    free(s);
}

void slab_pool_fini(struct slab_pool *p)
{
    while (!LIST_EMPTY(&p->slabs))
        slab_destroy(p, LIST_FIRST(&p->slabs));
}

static struct slab *slab_with_room(struct slab_pool *p, size_t bytes, int *fd, int *err)
{
    struct slab_class *class;
    uint32_t piece;
    struct slab *s;

    if (bytes > SLAB_PIECE_MAX) {
        bytes = round_up(bytes, PAGE);
        return bytes > UINT32_MAX ? NULL : slab_create(p, NULL, (uint32_t)bytes, bytes, fd, err);
    }
    class = &p->class[class_of(bytes, &piece)];
    s = LIST_FIRST(&class->room);
    if (s) {
        s->announced = true;
        return s;
    }
    bytes = min_of(max_of(class->bytes, (size_t)SLAB_MIN), (size_t)SLAB_MAX);
    bytes = round_up(max_of(bytes, (size_t)piece * PIECES_MIN), PAGE);
    return slab_create(p, class, piece, bytes, fd, err);
}

/* ---- pieces ---- */

static void *piece_at(const struct slab *s, uint32_t index)
{
    return (uint8_t *)s->memory.base + (size_t)index * s->piece;
}

static void *alloc_piece(struct slab *s, size_t bytes)
{
    void *base;

    if (s->free_count) {
        base = piece_at(s, s->free[--s->free_count]);
        allow(base, bytes);
        memset(base, 0, bytes);
    } else {
        base = piece_at(s, s->fresh++);
        allow(base, bytes);
    }
    if (++s->used == s->pieces && s->class)
        LIST_REMOVE(s, room);
    return base;
}

static void free_piece(struct slab *s, struct segment *piece)
{
    size_t offset = (size_t)((uint8_t *)piece->base - (uint8_t *)s->memory.base);

    if (s->used-- == s->pieces && s->class)
        LIST_INSERT_HEAD(&s->class->room, s, room);
    forbid(piece->base, s->piece);
    s->free[s->free_count++] = (uint32_t)(offset / s->piece);
    *piece = (struct segment){0};
}

int slab_alloc(struct slab_pool *p, size_t bytes, struct segment *out, struct slab_place *place)
{
    int fd = -1, err = -ENOMEM;
    struct slab *s = slab_with_room(p, bytes, &fd, &err);

    if (!s)
        return err;
    *out = (struct segment){.base = alloc_piece(s, bytes), .bytes = bytes, .slab = s};
    *place = (struct slab_place){
        .slab = s->id,
        .offset = (uint64_t)((uint8_t *)out->base - (uint8_t *)s->memory.base),
        .fd = fd,
    };
    return 0;
}

/* The slab is the only one of its class with room, so it is kept: an application that creates and
 * destroys one object repeatedly should not create slabs. */
static bool is_kept(const struct slab *s)
{
    return s->class && !s->lost && LIST_FIRST(&s->class->room) == s && !LIST_NEXT(s, room);
}

uint64_t slab_free(struct slab_pool *p, struct segment *piece)
{
    struct slab *s = piece->slab;
    uint64_t id = s->id;

    free_piece(s, piece);
    if (s->used || is_kept(s))
        return 0;
    slab_destroy(p, s);
    return id;
}

void slab_unkeep(struct slab_pool *p, uint64_t id)
{
    struct slab *s;

    LIST_FOREACH(s, &p->slabs, link)
    if (s->id == id)
        s->lost = true;
}

void slab_cancel(struct slab_pool *p, struct segment *piece)
{
    struct slab *s = piece->slab;

    if (!s)
        return;
    free_piece(s, piece);
    if (!s->announced)
        slab_destroy(p, s);
}

int slab_share(const struct segment *piece)
{
    int fd = fcntl(piece->slab->fd, F_DUPFD_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

const struct segment *slab_memory(const struct segment *piece)
{
    return &piece->slab->memory;
}
