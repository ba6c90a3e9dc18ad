/* SPDX-License-Identifier: BSD-3-Clause */
/* See meter.h. */
#include "meter.h"

#include <string.h>

static void clear_statistics(struct perf_thread *t, unsigned request)
{
    memset(&t->stats, 0, sizeof(t->stats));
    memset(&t->latency, 0, sizeof(t->latency));
    t->ratios = 0;
    atomic_store(&t->cleared, request);
}

void meter_clear(struct perf_thread *t)
{
    clear_statistics(t, atomic_load(&t->cleared));
}

bool meter_check_clear(struct perf_thread *t)
{
    unsigned request = atomic_load_explicit(&t->perf->clear, memory_order_relaxed);

    if (likely(request == atomic_load_explicit(&t->cleared, memory_order_relaxed)))
        return false;
    clear_statistics(t, request);
    return true;
}

void meter_begin(struct meter *m)
{
    *m = (struct meter){.last = worker_time(), .cpu = thread_cpu_time()};
    m->cpu_read = m->last;
}

static void account_cpu(struct perf_thread *t, struct meter *m)
{
    ns_t cpu = thread_cpu_time();

    counter_add(&t->stats.active_cpu_ns, cpu - m->cpu);
    m->cpu = cpu;
    m->cpu_read = m->last;
}

static void count_pause(struct perf_thread *t, ns_t pause)
{
    ns_t longest = counter_get(&t->stats.pause_longest);

    counter_inc(&t->stats.pauses);
    counter_add(&t->stats.pause_ns, pause);
    counter_set(&t->stats.pause_longest, max_of(longest, pause));
}

/* Reading the CPU time is a system call, so it is read once per millisecond. */
void meter_turn(struct perf_thread *t, struct meter *m, ns_t now)
{
    if (unlikely(meter_check_clear(t))) {
        m->last = m->cpu_read = now;
        m->cpu = thread_cpu_time();
    }
    if (unlikely(now - m->last > PAUSE))
        count_pause(t, now - m->last);
    counter_add(&t->stats.active_ns, now - m->last);
    m->last = now;
    if (unlikely(now - m->cpu_read > NS_PER_MS))
        account_cpu(t, m);
}

void meter_end(struct perf_thread *t, struct meter *m)
{
    meter_turn(t, m, worker_time());
    account_cpu(t, m);
}
