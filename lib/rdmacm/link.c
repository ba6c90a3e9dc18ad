/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection to the daemon that runs now. */
#include <stdatomic.h>

#include "cma.h"

static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cma_link *current; /* with a reference */

/*
 * The child has a connection of its own when it needs one. The parent's stays for the ids that the
 * child has inherited, and may destroy. Another thread of the parent may hold the lock, while it
 * connects: a fork that waited for that would hold conn.c's lock, which that thread may need.
 */
static void after_fork_in_child(void)
{
    current = NULL;
    links_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void register_fork_handlers(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

bool link_is_ours(const struct cma_link *link)
{
    return conn_is_ours(&link->conn);
}

static struct cma_link *link_open(int *err)
{
    struct cma_link *link = calloc(1, sizeof(*link));

    *err = -ENOMEM;
    if (!link)
        return NULL;
    *err = conn_open(&link->conn);
    if (*err) {
        free(link);
        return NULL;
    }
    pthread_mutex_init(&link->lock, NULL);
    SLIST_INIT(&link->devices);
    link->refs = 1;
    return link;
}

/* Under the lock. Devices may stay: see struct cma_device. */
static void put_locked(struct cma_link *link)
{
    if (--link->refs)
        return;
    conn_close(&link->conn);
    devices_leave(link);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

static bool is_usable(const struct cma_link *link)
{
    return link && !link->conn.broken && !conn_hung_up(&link->conn);
}

struct cma_link *link_get(int *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct cma_link *link;

    *err = 0;
    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&links_lock);
    if (!is_usable(current)) {
        if (current)
            put_locked(current);
        current = link_open(err);
    }
    link = current;
    if (link)
        link->refs++;
    pthread_mutex_unlock(&links_lock);
    return link;
}

void link_ref(struct cma_link *link)
{
    pthread_mutex_lock(&links_lock);
    link->refs++;
    pthread_mutex_unlock(&links_lock);
}

void link_put(struct cma_link *link)
{
    pthread_mutex_lock(&links_lock);
    put_locked(link);
    pthread_mutex_unlock(&links_lock);
}

int link_call(struct cma_link *link, enum ctl_type type, struct ctl_msg *m)
{
    return conn_call(&link->conn, type, m, NULL, 0, NULL, 0);
}

uint64_t new_cookie(void)
{
    static _Atomic uint64_t last;

    return atomic_fetch_add(&last, 1) + 1;
}
