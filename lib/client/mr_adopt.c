/* SPDX-License-Identifier: BSD-3-Clause */
/* Adopting regions that the daemon has copied so far. Under the regions' lock. */
#include "mr.h"

/* If a later attempt may succeed, the thread that waits for hot regions makes it. */
static void report_copied(struct client_mr *mr, enum ctl_mr_why why)
{
    struct ctl_msg m = {.remap = {.handle = mr->handle, .why = why}};

    if (ctl_mr_may_change(why))
        mr_hot_watch(mr->client);
    conn_call(&mr->client->conn, CTL_REMAP_MR, &m, NULL, 0, NULL, 0);
}

static bool remap_at_daemon(struct client_mr *mr, const struct adopt_lease *l)
{
    struct ctl_msg m = {.remap = {.handle = mr->handle, .why = CTL_MR_ADOPTED}};
    int fd = adopt_memfd();

    m.remap.pieces = mr_pieces(mr, l, m.remap.piece);
    return !conn_call(&mr->client->conn, CTL_REMAP_MR, &m, &fd, 1, NULL, 0) && m.remap.mapped;
}

/* The old lease is kept until the new one has replaced it: the daemon copies its pages until then.
 */
static void adopt_copied(struct client_mr *mr, unsigned how)
{
    unsigned flags = mr_writes(mr->access) | ADOPT_MOVE | ADOPT_AGAIN | how;
    struct adopt_lease old = mr->lease, new;
    enum ctl_mr_why why = adopt_acquire(&new, mr->addr, mr->length, flags);

    if (why == CTL_MR_ADOPTED) {
        if (!remap_at_daemon(mr, &new))
            adopt_refused(&new);
        adopt_release(&old);
        mr->lease = new;
        return;
    }
    /* The region stays copied. What the attempt has made a private view is one until the lease
     * ends.
     */
    mr->lease.views |= new.views;
    new.views = false;
    adopt_release(&new);
    mr->lease.thawed = false;
    report_copied(mr, why);
}

/* Whether another region for atomics, with a lease of that kind, has some of the same bytes. */
static bool shares_atomics_with(const struct client_mr *mr, enum adopt_lease_kind kind)
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
 * Operations through two regions over the same bytes are atomic only if both are mapped or both are
 * copied. Two regions cannot become mapped in the same moment.
 */
void mr_adopt(struct client_mr *mr, unsigned how)
{
    if (shares_atomics_with(mr, LEASE_COPIED))
        report_copied(mr, CTL_MR_OVERLAPS);
    else
        adopt_copied(mr, how);
}

bool mr_joins_mapped(const struct client_mr *mr)
{
    return shares_atomics_with(mr, LEASE_HELD);
}
