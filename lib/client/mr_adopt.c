/* SPDX-License-Identifier: BSD-3-Clause */
/* Adopting regions that the daemon copies so far. Under the regions' lock. */
#include "mr.h"

#define ACCESS_ATOMIC (1u << 3) /* IBV_ACCESS_REMOTE_ATOMIC */

/* Whoever may do better one day has somebody to hear of that. */
static void tell(struct client_mr *mr, enum ctl_mr_why why)
{
    struct ctl_msg m = {.remap = {.handle = mr->handle, .why = why}};

    if (ctl_mr_may_change(why))
        mr_hot_watch(mr->client);
    conn_call(&mr->client->conn, CTL_REMAP_MR, &m, NULL, 0, NULL, 0);
}

static bool remap(struct client_mr *mr, const struct adopt_lease *l)
{
    struct ctl_msg m = {.remap = {.handle = mr->handle, .why = CTL_MR_ADOPTED}};
    int fd = adopt_memfd();

    m.remap.pieces = mr_pieces(mr, l, m.remap.piece);
    return !conn_call(&mr->client->conn, CTL_REMAP_MR, &m, &fd, 1, NULL, 0) && m.remap.mapped;
}

/* The old lease is kept until the new one has taken its place: its pages are copied till then. */
static bool adopt_one(struct client_mr *mr)
{
    unsigned flags = mr_writes(mr->access) | ADOPT_MOVE | ADOPT_AGAIN;
    struct adopt_lease old = mr->lease, new;
    enum ctl_mr_why why = adopt_acquire(&new, mr->addr, mr->length, flags);

    if (why == CTL_MR_ADOPTED) {
        if (!remap(mr, &new))
            adopt_refused(&new);
        adopt_release(&old);
        mr->lease = new;
        return mr->lease.kind == LEASE_HELD;
    }
    /* It stays as it is, copied; what has become a private view meanwhile is one until it ends. */
    mr->lease.views |= new.views;
    new.views = false;
    adopt_release(&new);
    mr->lease.thawed = false;
    tell(mr, why);
    return false;
}

static bool overlaps(const struct client_mr *mr, uint64_t start, uint64_t end)
{
    return mr->addr < end && mr->addr + mr->length > start;
}

/*
 * Atomics through two regions over the same bytes are atomic if both are mapped, or both copied. So
 * one does not leave the others behind, nor those that these have bytes with.
 */
void mr_adopt(struct client_mr *mr)
{
    uint64_t start = mr->addr, end = mr->addr + mr->length;
    struct client_mr *other;
    bool more = adopt_one(mr) && (mr->access & ACCESS_ATOMIC);

    while (more) {
        more = false;
        LIST_FOREACH (other, &mr_all, link) {
            if (other->lease.kind != LEASE_COPIED || !(other->access & ACCESS_ATOMIC) ||
                !overlaps(other, start, end) || !adopt_one(other))
                continue;
            start = min_of(start, other->addr);
            end = max_of(end, other->addr + other->length);
            more = true;
        }
    }
}

void mr_adopt_with_others(struct client_mr *mr)
{
    struct client_mr *other;

    if (!(mr->access & ACCESS_ATOMIC))
        return;
    LIST_FOREACH (other, &mr_all, link) {
        if (other->lease.kind == LEASE_HELD && (other->access & ACCESS_ATOMIC) &&
            overlaps(other, mr->addr, mr->addr + mr->length)) {
            mr_adopt(mr);
            return;
        }
    }
}
