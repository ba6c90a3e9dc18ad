/* SPDX-License-Identifier: BSD-3-Clause */
/* Futexes, and waking a worker. */
#include "worker_internal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

bool futex_wait(_Atomic uint32_t *word, uint32_t value, ns_t timeout)
{
    struct timespec ts = {.tv_sec = (time_t)(timeout / NS_PER_SEC),
                          .tv_nsec = (long)(timeout % NS_PER_SEC)};

    return syscall(SYS_futex, word, FUTEX_WAIT, value, timeout == NS_NEVER ? NULL : &ts, NULL, 0) ==
               0 ||
           atomic_load(word) != value;
}

void worker_kick(struct worker *w)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&w->armed, memory_order_relaxed) && atomic_exchange(&w->armed, 0)) {
        atomic_fetch_add(w->wake_word, 1);
        futex_wake(w->wake_word, 1);
    }
}

void watch_wake(struct worker_group *g)
{
    if (likely(!atomic_load_explicit(&g->watch_asleep, memory_order_relaxed)))
        return;
    atomic_store(&g->watch_asleep, 0);
    futex_wake(&g->watch_asleep, 1);
}
