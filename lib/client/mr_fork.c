/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What becomes of adopted memory when the process forks. Before: the daemon is told to unmap it and
 * to stand still, all of it becomes private views, the daemon goes on by copying; then the fork
 * happens, of memory that is as private as any. After: the child has no regions; the parent adopts
 * again, at once when that is quick, else when something is registered next.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "mr.h"

#define AT_ONCE      (UINT64_C(1) << 20) /* bytes: about a millisecond */
#define FORK_SECONDS 10                  /* what a fork waits for a daemon that is not there */

static uint64_t frozen_bytes; /* waiting to be adopted again */

/* ---- the daemon stands still ---- */

/* For how many ns, or a negative errno. */
static int64_t freeze(struct client *c, uint32_t flags)
{
    struct ctl_msg m = {.freeze = {.flags = flags}};
    int err = conn_call(&c->conn, CTL_FREEZE_MRS, &m, NULL, 0, NULL, 0);

    return err ? err : (int64_t)m.freeze.granted_us * 1000;
}

static void thaw_all(void)
{
    for (struct client *c = LIST_FIRST(&mr_clients); c; c = LIST_NEXT(c, link)) {
        struct ctl_msg m = {0};

        conn_call(&c->conn, CTL_THAW_MRS, &m, NULL, 0, NULL, 0);
    }
}

/* A context whose daemon has gone copies nothing any more. */
static int64_t stop_all(void)
{
    int64_t shortest = INT64_MAX;

    for (struct client *c = LIST_FIRST(&mr_clients); c; c = LIST_NEXT(c, link)) {
        int64_t ns = freeze(c, 0);

        if (ns >= 0)
            shortest = min_of(shortest, ns);
    }
    if (shortest)
        return shortest;
    thaw_all();
    return -EAGAIN;
}

/* Asked of the context that registers; any daemon's will do. */
static int get_device(void)
{
    for (struct client *c = LIST_FIRST(&mr_clients); c; c = LIST_NEXT(c, link)) {
        struct ctl_msg m = {0};
        int fd;

        if (!conn_call(&c->conn, CTL_GET_UFFD, &m, NULL, 0, &fd, 1))
            return fd;
    }
    return -1;
}

const struct adopt_config mr_adopt_config = {
    .device = get_device, .stop = stop_all, .go = thaw_all};

/* ---- fork ---- */

/* Of a call's answer; threads that wait already are not concerned. */
static void limit_waiting(struct client *c, time_t seconds)
{
    struct timeval limit = {.tv_sec = seconds};

    setsockopt(c->conn.sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

static void let_go(struct client *c)
{
    limit_waiting(c, FORK_SECONDS);
    if (freeze(c, CTL_FREEZE_UNMAP) < 0)
        shutdown(c->conn.sock, SHUT_RDWR);
    limit_waiting(c, CONN_REPLY_SECONDS);
}

/* A daemon that does not answer may go on writing to memory that is nobody's any more: better that
 * the connection ends, and the program sees it. */
void mr_freeze_all(void)
{
    if (!adopt_must_freeze())
        return;
    for (struct client *c = LIST_FIRST(&mr_clients); c; c = LIST_NEXT(c, link))
        let_go(c);
    frozen_bytes += adopt_held_bytes();
    adopt_freeze();
    for (struct client_mr *mr = LIST_FIRST(&mr_all); mr; mr = LIST_NEXT(mr, link))
        adopt_lease_freeze(&mr->lease);
    thaw_all();
}

static void tell(struct client_mr *mr, enum ctl_mr_why why)
{
    struct ctl_msg m = {.remap = {.handle = mr->handle, .why = why}};

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
static void adopt_one_again(struct client_mr *mr)
{
    struct adopt_lease old = mr->lease, new;
    enum ctl_mr_why why;

    why =
        adopt_acquire(&new, mr->addr, mr->length, mr_writes(mr->access) | ADOPT_MOVE | ADOPT_AGAIN);
    if (why == CTL_MR_ADOPTED) {
        if (!remap(mr, &new))
            adopt_refused(&new);
        adopt_release(&old);
        mr->lease = new;
        return;
    }
    /* It stays as it is: private views, copied. */
    new.views = false;
    adopt_release(&new);
    mr->lease.thawed = why == CTL_MR_BUSY; /* another time */
    if (why == CTL_MR_BUSY)
        frozen_bytes += mr->length;
    else
        tell(mr, why);
}

void mr_adopt_again(void)
{
    if (adopt_lost())
        mr_freeze_all();
    if (!frozen_bytes)
        return;
    frozen_bytes = 0;
    for (struct client_mr *mr = LIST_FIRST(&mr_all); mr; mr = LIST_NEXT(mr, link))
        if (mr->lease.kind == LEASE_COPIED && mr->lease.thawed)
            adopt_one_again(mr);
}

static void before_fork(void)
{
    pthread_mutex_lock(&mr_mutex);
    mr_freeze_all();
}

static void after_fork(void)
{
    if (frozen_bytes <= AT_ONCE)
        mr_adopt_again();
    pthread_mutex_unlock(&mr_mutex);
}

static void in_child(void)
{
    struct client_mr *mr;
    struct client *c;

    while ((mr = LIST_FIRST(&mr_all))) {
        LIST_REMOVE(mr, link);
        mr->client = NULL;
        mr->lease.kind = LEASE_NONE;
    }
    while ((c = LIST_FIRST(&mr_clients))) {
        LIST_REMOVE(c, link);
        c->link.le_prev = NULL;
    }
    frozen_bytes = 0;
    adopt_child();
    pthread_mutex_unlock(&mr_mutex);
}

void mr_watch_forks(void)
{
    static bool watched;

    if (!watched)
        watched = !pthread_atfork(before_fork, after_fork, in_child);
}
