/* SPDX-License-Identifier: BSD-3-Clause */
/* Adopting regions that the daemon copies so far. Under the regions' lock. */
#include "mr.h"

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
static void adopt_one(struct client_mr *mr, unsigned how)
{
    unsigned flags = mr_writes(mr->access) | ADOPT_MOVE | ADOPT_AGAIN | how;
    struct adopt_lease old = mr->lease, new;
    enum ctl_mr_why why = adopt_acquire(&new, mr->addr, mr->length, flags);

    if (why == CTL_MR_ADOPTED) {
        if (!remap(mr, &new))
            adopt_refused(&new);
        adopt_release(&old);
        mr->lease = new;
        return;
    }
    /* It stays as it is, copied; what has become a private view meanwhile is one until it ends. */
    mr->lease.views |= new.views;
    new.views = false;
    adopt_release(&new);
    mr->lease.thawed = false;
    tell(mr, why);
}

/* Whether there is another region for atomics over some of the same bytes, reached in that way. */
static bool is_atomic_beside(const struct client_mr *mr, enum adopt_lease_kind kind)
{
    const struct client_mr *other;

    if (!(mr->access & ACCESS_ATOMIC))
        return false;
    LIST_FOREACH(other, &mr_all, link)
    if (other != mr && other->lease.kind == kind && (other->access & ACCESS_ATOMIC) &&
        other->addr < mr->addr + mr->length && mr->addr < other->addr + other->length)
        return true;
    return false;
}

/*
 * Atomics through two regions over the same bytes are atomic if both are mapped, or both copied;
 * and they cannot both become mapped in one moment.
 */
void mr_adopt(struct client_mr *mr, unsigned how)
{
    if (is_atomic_beside(mr, LEASE_COPIED))
        tell(mr, CTL_MR_OVERLAPS);
    else
        adopt_one(mr, how);
}

bool mr_joins_mapped(const struct client_mr *mr)
{
    return is_atomic_beside(mr, LEASE_HELD);
}
