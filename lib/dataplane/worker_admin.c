/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker as the control thread sees it: creation, ports, start and stop, statistics. */
#include "worker_internal.h"

#include <stdlib.h>
#include <time.h>

struct worker *worker_create(const struct worker_config *config)
{
    struct worker *w = aligned_alloc(CACHE_LINE, round_up(sizeof(*w), CACHE_LINE));

    if (!w)
        return NULL;
    *w = (struct worker){.index = config->index,
                         .group = config->group,
                         .pinned = config->cpu != NULL,
                         .own_cpu = config->cpu ? *config->cpu : 0,
                         .always_poll = config->always_poll,
                         .own_call = worker_mem_call_create(),
                         .caller = {.run = carrier_call, .refuses = copier_refuses}};
    if (!w->own_call || worker_wake_open(w)) {
        worker_mem_call_free(w->own_call);
        free(w);
        return NULL;
    }
    w->caller.call = &w->own_call->call;
    TAILQ_INIT(&w->late_calls);
    poll_policy_init(&w->policy, worker_time());
    w->group->worker[w->index] = w;
    w->group->workers = max_of(w->group->workers, w->index + 1);
    return w;
}

void worker_destroy(struct worker *w)
{
    carrier_free_loop(w);
    worker_wake_close(w);
    worker_mem_call_free(w->own_call);
    free(w->ctx);
    free(w->by_fd);
    free(w);
}

struct worker_port *worker_add_port(struct worker *w, struct pktio *io, unsigned queue,
                                    struct worker_port *first)
{
    struct worker_port *p = &w->port[w->ports];
    int fd = io->ops->wake_fd(io, queue);

    if (w->ports == WORKER_PORTS_MAX)
        return NULL;
    *p = (struct worker_port){.worker = w,
                              .io = io,
                              .queue = queue,
                              .first = first ? first : p,
                              .lend = TX_LEND_MIN,
                              .must_poll = fd == PKTIO_WAKE_POLL};
    if (io->ops->must_poll)
        p->must_poll |= io->ops->must_poll(io, queue);
    if (fd >= 0 && worker_wake_add_port(w, fd))
        return NULL;
    w->ports++;
    return p;
}

void worker_wait_running(struct worker *w)
{
    while (!atomic_load(&w->running))
        futex_wait(&w->running, 0, NS_NEVER);
}

void worker_stop(struct worker *w)
{
    atomic_store(&w->stop, true);
    worker_kick(w);
}

void worker_join(struct worker *w, pthread_t thread)
{
    while (!atomic_load(&w->ended))
        futex_wait(&w->ended, 0, NS_NEVER);
    if (w->joins)
        pthread_join(thread, NULL);
}

unsigned worker_index(const struct worker *w)
{
    return w->index;
}

const struct worker_stats *worker_stats(const struct worker *w)
{
    return &w->stats;
}

bool worker_has_passed(const struct worker *w, uint64_t *seen)
{
    uint64_t before = *seen;

    *seen = counter_get(&w->stats.loops);
    return *seen != before || !atomic_load(&w->running);
}

const char *worker_mode(const struct worker *w)
{
    static const char *const name[] = {
        [WORKER_POLLING] = "polling", [WORKER_ASLEEP] = "asleep", [WORKER_CONTENDED] = "contended"};

    return name[atomic_load(&w->state)];
}

ns_t worker_thread_cpu(pthread_t thread)
{
    struct timespec ts;
    clockid_t clock;

    if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &ts))
        return 0;
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}

ns_t worker_cpu_time(const struct worker *w)
{
    if (!atomic_load(&w->running))
        return 0;
    return atomic_load(&w->cpu_before) + worker_thread_cpu(w->thread);
}
