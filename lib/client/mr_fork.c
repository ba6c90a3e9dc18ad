/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adopted memory when the process forks. Before the fork the daemon unmaps it and pauses, all of it
 * becomes private views, and the daemon resumes by copying: the memory that is forked is private.
 * After the fork the child has no regions, unless it inherits them (client_inherit.h). The parent
 * adopts its regions again: at once if that is quick, else when they are hot, without the pages
 * that are still private views (mr_hot.c).
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "client_inherit.h"
#include "mr.h"

#define AT_ONCE      (UINT64_C(1) << 20) /* bytes: about a millisecond */
#define FORK_SECONDS 10                  /* how long a fork waits for the daemon's answer */

static uint64_t frozen_bytes; /* waiting to be adopted again */

/* ---- the daemon pauses ---- */

/* Returns for how many ns the daemon pauses, or a negative errno. */
static int64_t pause_daemon(struct client *c, uint32_t flags)
{
    struct ctl_msg m = {.freeze = {.flags = flags}};
    int err = conn_call(&c->conn, CTL_FREEZE_MRS, &m, NULL, 0, NULL, 0);

    return err ? err : (int64_t)m.freeze.granted_us * 1000;
}

/* The contexts that are this process's. */
static struct client *ours(struct client *c)
{
    while (c && !conn_is_ours(&c->conn))
        c = LIST_NEXT(c, link);
    return c;
}

static struct client *first_client(void)
{
    return ours(LIST_FIRST(&mr_clients));
}

static struct client *next_client(struct client *c)
{
    return ours(LIST_NEXT(c, link));
}

static void thaw_all(void)
{
    for (struct client *c = first_client(); c; c = next_client(c)) {
        struct ctl_msg m = {0};

        conn_call(&c->conn, CTL_THAW_MRS, &m, NULL, 0, NULL, 0);
    }
}

/* The shortest pause of all daemons. A daemon that is gone copies no more. */
static int64_t stop_all(void)
{
    int64_t shortest = INT64_MAX;

    for (struct client *c = first_client(); c; c = next_client(c)) {
        int64_t ns = pause_daemon(c, 0);

        if (ns >= 0)
            shortest = min_of(shortest, ns);
    }
    if (shortest)
        return shortest;
    thaw_all();
    return -EAGAIN;
}

/* A userfaultfd device, from any daemon. */
static int get_uffd_device(void)
{
    for (struct client *c = first_client(); c; c = next_client(c)) {
        struct ctl_msg m = {0};
        int fd;

        if (!conn_call(&c->conn, CTL_GET_UFFD, &m, NULL, 0, &fd, 1))
            return fd;
    }
    return -1;
}

const struct adopt_config mr_adopt_config = {
    .device = get_uffd_device, .stop = stop_all, .go = thaw_all};

/* ---- fork ---- */

/* Limits how long later calls wait for a reply, and no call that waits already. */
static void limit_reply_wait(struct client *c, time_t seconds)
{
    struct timeval limit = {.tv_sec = seconds};

    setsockopt(c->conn.sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

static void unmap_at_daemon(struct client *c)
{
    limit_reply_wait(c, FORK_SECONDS);
    if (pause_daemon(c, CTL_FREEZE_UNMAP) < 0)
        shutdown(c->conn.sock, SHUT_RDWR);
    limit_reply_wait(c, CONN_REPLY_SECONDS);
}

/* A daemon that does not answer might keep writing to pages that no process uses any more. So its
 * connection is shut down, and the program sees that. */
static void freeze_all(void)
{
    if (!adopt_must_freeze())
        return;
    for (struct client *c = first_client(); c; c = next_client(c))
        unmap_at_daemon(c);
    frozen_bytes += adopt_held_bytes();
    adopt_freeze();
    for (struct client_mr *mr = LIST_FIRST(&mr_all); mr; mr = LIST_NEXT(mr, link))
        adopt_lease_freeze(&mr->lease);
    thaw_all();
}

/* At once if that is quick. Else regions are adopted when they are hot again, or at once if no
 * thread can wait for that. */
static void readopt_regions(void)
{
    struct client_mr *mr;
    bool later = frozen_bytes > AT_ONCE;

    frozen_bytes = 0;
    LIST_FOREACH(mr, &mr_all, link)
    {
        if (mr->lease.kind != LEASE_COPIED || !mr->lease.thawed)
            continue;
        mr->lease.thawed = false;
        if (!later || !mr_hot_watch(mr->client))
            mr_adopt(mr, 0);
    }
}

void mr_check_lost(void)
{
    if (!adopt_lost())
        return;
    freeze_all();
    readopt_regions();
}

static void before_fork(void)
{
    pthread_mutex_lock(&mr_mutex);
    for (struct client *c = first_client(); c; c = next_client(c))
        atomic_store_explicit(&c->shared->forked, 1, memory_order_relaxed);
    freeze_all();
}

static void after_fork_in_parent(void)
{
    readopt_regions();
    pthread_mutex_unlock(&mr_mutex);
}

static void after_fork_in_child(void)
{
    struct client_mr *mr;
    struct client *c;

    LIST_FOREACH(mr, &mr_all, link)
    mr->lease.kind = LEASE_NONE;
    LIST_FOREACH(c, &mr_clients, link)
    client_in_child(c);
    frozen_bytes = 0;
    adopt_child();
    pthread_mutex_unlock(&mr_mutex);
}

void mr_register_fork_handlers(void)
{
    static bool watched;

    if (!watched)
        watched = !pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
