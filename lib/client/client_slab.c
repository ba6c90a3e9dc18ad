/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of slabs, and the replies that change it. */
#include "client_slab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

/* ---- the table ---- */

/* The index of the first slab whose id is not below this one. */
static size_t find_slab(const struct client_slabs *t, uint64_t id)
{
    size_t low = 0, high = t->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (t->slab[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int insert_slab(struct client_slabs *t, uint64_t id, int fd)
{
    size_t at = find_slab(t, id);

    if (at < t->count && t->slab[at].id == id)
        return -EPROTO;
    if (t->count == t->room) {
        size_t room = t->room ? t->room * 2 : 8;
        struct client_slab *slab = realloc(t->slab, room * sizeof(*slab));

        if (!slab)
            return -ENOMEM;
        t->slab = slab;
        t->room = room;
    }
    memmove(&t->slab[at + 1], &t->slab[at], (t->count - at) * sizeof(*t->slab));
    t->slab[at] = (struct client_slab){.id = id, .fd = fd};
    t->count++;
    return 0;
}

static void unmap_slab(struct client_slab *s)
{
    if (s->base)
        munmap(s->base, s->bytes);
    else
        close(s->fd);
}

static void remove_slab(struct client_slabs *t, uint64_t id)
{
    size_t at = find_slab(t, id);

    if (at == t->count || t->slab[at].id != id)
        return;
    unmap_slab(&t->slab[at]);
    t->count--;
    memmove(&t->slab[at], &t->slab[at + 1], (t->count - at) * sizeof(*t->slab));
}

void client_slabs_fini(struct client_slabs *t)
{
    for (size_t i = 0; i < t->count; i++)
        unmap_slab(&t->slab[i]);
    free(t->slab);
    *t = (struct client_slabs){0};
}

/* The daemon sends the descriptor once: a mapping that fails is tried again with the next piece. */
static void map_slab(struct client_slab *s)
{
    struct stat st;
    void *p;

    if (s->base || fstat(s->fd, &st) || st.st_size <= 0)
        return;
    p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (p == MAP_FAILED)
        return;
    s->base = p;
    s->bytes = (size_t)st.st_size;
    close(s->fd);
}

/* ---- replies ---- */

struct created {
    struct client_slabs *slabs;
    const struct ctl_place *place;
    struct client_piece *piece;
};

static int on_created(void *arg, const int *fd, unsigned fds)
{
    const struct created *r = arg;
    const struct ctl_place *place = r->place;
    struct client_slab *s;
    size_t at;

    if (fds > 1)
        return -EPROTO;
    if (fds && insert_slab(r->slabs, place->slab, fd[0]))
        return -EPROTO;
    at = find_slab(r->slabs, place->slab);
    if (at == r->slabs->count || r->slabs->slab[at].id != place->slab)
        return -EPROTO;
    s = &r->slabs->slab[at];
    map_slab(s);
    if (!s->base || place->offset >= s->bytes || place->offset % CACHE_LINE)
        return 0;
    *r->piece = (struct client_piece){(uint8_t *)s->base + place->offset, s->bytes - place->offset};
    /* Only now: the queue has left its old slab. */
    if (place->gone)
        remove_slab(r->slabs, place->gone);
    return 0;
}

int client_slab_create(struct conn *c, struct client_slabs *slabs, enum ctl_type type,
                       struct ctl_msg *m, const struct ctl_place *place, struct client_piece *piece)
{
    struct created r = {slabs, place, piece};

    *piece = (struct client_piece){0};
    return conn_call_then(c, type, m, on_created, &r);
}

struct destroyed {
    struct client_slabs *slabs;
    const struct ctl_destroy *reply;
};

static int on_destroyed(void *arg, const int *fd, unsigned fds)
{
    const struct destroyed *r = arg;

    if (fds)
        return -EPROTO;
    if (r->reply->slab_gone)
        remove_slab(r->slabs, r->reply->slab_gone);
    return 0;
}

int client_slab_destroy(struct conn *c, struct client_slabs *slabs, enum ctl_type type,
                        uint32_t handle)
{
    struct ctl_msg m = {.destroy.handle = handle};
    struct destroyed r = {slabs, &m.destroy};

    return conn_call_then(c, type, &m, on_destroyed, &r);
}

int client_queue_create(struct conn *c, struct client_slabs *slabs,
                        const struct client_queue_kind *kind, struct ctl_msg *m,
                        struct client_piece *piece)
{
    const struct ctl_place *place = (const void *)((const char *)m + kind->place);
    const uint32_t *handle = (const void *)((const char *)m + kind->handle);
    int err = client_slab_create(c, slabs, kind->create, m, place, piece);

    if (err || kind->reply_fits(m, piece))
        return err;
    client_slab_destroy(c, slabs, kind->destroy, *handle);
    return -EIO;
}
