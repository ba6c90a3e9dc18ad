/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread for each context that has copied regions which could be mapped. It sleeps until the
 * daemon reports that some of them are hot, and adopts these. The program's own threads cannot do
 * that: when the peers do all the work, or a thread polls memory, they never call this library.
 *
 * The program does not see the thread: it takes no signals, runs none of the program's code, and
 * holds only its stack while it sleeps. It works under the regions' lock, which is also held while
 * regions are registered and deregistered and while the process forks; the child has no such
 * thread. Ids of regions have a generation, so the id of a region that was deregistered in the
 * meantime finds none.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mr.h"

#define STACK_BYTES (256u << 10) /* thread-local memory comes out of it */

static void adopt_region(struct client *c, uint32_t uidx)
{
    struct client_mr *mr;

    pthread_mutex_lock(&mr_mutex);
    mr_check_lost();
    mr = slot_table_get(&c->mrs, uidx);
    if (mr && mr->lease.kind == LEASE_COPIED)
        mr_adopt(mr, ADOPT_ANYTIME);
    pthread_mutex_unlock(&mr_mutex);
}

static void adopt_all_hot(struct client *c)
{
    struct ctl_msg m;

    do {
        m = (struct ctl_msg){0};
        if (conn_call(&c->conn, CTL_HOT_MRS, &m, NULL, 0, NULL, 0))
            return;
        for (uint32_t i = 0; i < m.hot.count && i < CTL_HOT_MAX; i++)
            adopt_region(c, m.hot.uidx[i]);
    } while (m.hot.more && !atomic_load(&c->hot.stop));
}

static void *wait_for_hot_regions(void *arg)
{
    struct client *c = arg;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_setname_np(pthread_self(), "uroce-mr");
    while (!atomic_load(&c->hot.stop)) {
        if (atomic_exchange(&c->shared->mr_hot, 0))
            adopt_all_hot(c);
        else if (syscall(SYS_futex, &c->shared->mr_hot, FUTEX_WAIT, 0, NULL, NULL, 0) &&
                 errno != EAGAIN && errno != EINTR)
            break; /* futex calls are forbidden: regions stay copied */
    }
    return NULL;
}

/* With a small stack; with the default one if the program's thread-local storage does not fit. */
static int create_thread(struct client *c)
{
    pthread_attr_t attr;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    err = pthread_create(&c->hot.thread, &attr, wait_for_hot_regions, c);
    pthread_attr_destroy(&attr);
    return err ? pthread_create(&c->hot.thread, NULL, wait_for_hot_regions, c) : 0;
}

bool mr_hot_watch(struct client *c)
{
    sigset_t all, old;

    if (c->hot.runs || atomic_load(&c->hot.stop))
        return c->hot.runs;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    c->hot.runs = !create_thread(c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return c->hot.runs;
}

void mr_hot_end(struct client *c)
{
    int cancel;
    bool runs;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&mr_mutex);
    atomic_store(&c->hot.stop, true);
    runs = c->hot.runs && conn_is_ours(&c->conn); /* not the parent's */
    pthread_mutex_unlock(&mr_mutex);
    if (runs) {
        shutdown(c->conn.sock, SHUT_RDWR); /* it may be waiting for the daemon's reply */
        atomic_store(&c->shared->mr_hot, 1);
        syscall(SYS_futex, &c->shared->mr_hot, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        pthread_join(c->hot.thread, NULL);
    }
    pthread_setcancelstate(cancel, NULL);
}
