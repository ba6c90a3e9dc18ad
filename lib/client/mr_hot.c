/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread for each context that has copied regions which could be mapped: it sleeps until the
 * daemon says that some of them are used much, and has these adopted. Not the program's own
 * threads: those of a program whose peers do all the work never call us, nor do those that poll
 * memory.
 *
 * To the program the thread is invisible: it takes no signals, runs none of the program's code, and
 * holds nothing while it sleeps but its stack. It does nothing without the regions' lock, which is
 * held while regions come and go and while the process forks; the child has no such thread. Names
 * of regions carry a generation, so one that went before its turn is not found.
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

static void adopt_hot(struct client *c, uint32_t uidx)
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
            adopt_hot(c, m.hot.uidx[i]);
    } while (m.hot.more && !atomic_load(&c->hot.stop));
}

static void *watch(void *arg)
{
    struct client *c = arg;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_setname_np(pthread_self(), "uroce-mr");
    while (!atomic_load(&c->hot.stop)) {
        if (atomic_exchange(&c->shared->mr_hot, 0))
            adopt_all_hot(c);
        else if (syscall(SYS_futex, &c->shared->mr_hot, FUTEX_WAIT, 0, NULL, NULL, 0) &&
                 errno != EAGAIN && errno != EINTR)
            break; /* forbidden: regions stay as they are */
    }
    return NULL;
}

/* A program's thread-local memory may not fit the small stack. */
static int create(struct client *c)
{
    pthread_attr_t attr;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    err = pthread_create(&c->hot.thread, &attr, watch, c);
    pthread_attr_destroy(&attr);
    return err ? pthread_create(&c->hot.thread, NULL, watch, c) : 0;
}

bool mr_hot_watch(struct client *c)
{
    sigset_t all, old;

    if (c->hot.runs || atomic_load(&c->hot.stop))
        return c->hot.runs;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    c->hot.runs = !create(c);
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
    runs = c->hot.runs && c->conn.pid == getpid(); /* not the parent's */
    pthread_mutex_unlock(&mr_mutex);
    if (runs) {
        shutdown(c->conn.sock, SHUT_RDWR); /* it may wait for a daemon that does not answer */
        atomic_store(&c->shared->mr_hot, 1);
        syscall(SYS_futex, &c->shared->mr_hot, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        pthread_join(c->hot.thread, NULL);
    }
    pthread_setcancelstate(cancel, NULL);
}
