/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting and ending the threads of a run. */
#include "perf.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu_list.h"
#include "peer/client.h"

double tsc_hz(void)
{
    static double hz;
    ns_t began, now;
    uint64_t ticks;

    if (hz != 0)
        return hz;
    began = worker_time();
    ticks = ticks_now();
    do
        now = worker_time();
    while (now - began < 5 * NS_PER_MS);
    hz = (double)(ticks_now() - ticks) * 1e9 / (double)(now - began);
    return hz;
}

void run_fail(struct perf *p, const char *format, ...)
{
    va_list args;

    if (!atomic_exchange(&p->failed, true)) {
        va_start(args, format);
        vsnprintf(p->error, sizeof(p->error), format, args);
        va_end(args);
    }
    atomic_store(&p->stop, true);
}

/* ---- CPUs ---- */

static int pin_thread(struct perf *p, unsigned index, char *error, size_t size)
{
    int cpu = cpu_list_at(p->opt.cpus, index);
    cpu_set_t set;

    if (!p->opt.cpus[0])
        return 0;
    CPU_ZERO(&set);
    if (cpu >= 0)
        CPU_SET(cpu, &set);
    if (!pthread_setaffinity_np(p->thread[index].id, sizeof(set), &set))
        return 0;
    snprintf(error, size, "cpus: CPU %d cannot be used", cpu);
    return -1;
}

/* ---- threads ---- */

static int start_threads(struct perf *p, char *error, size_t size)
{
    const struct env_ops *env = p->ports ? p->ports->env : &env_posix;
    char name[32];
    int err = 0;

    for (unsigned i = 0; i < p->threads && !err; i++) {
        struct perf_thread *t = &p->thread[i];

        snprintf(name, sizeof(name), "perf-w%u", i);
        err = env->thread_start(&t->id, name, thread_run, t);
        if (err) {
            snprintf(error, size, "no thread: %s", strerror(-err));
            break;
        }
        p->started++;
        err = pin_thread(p, i, error, size);
    }
    if (err)
        atomic_store(&p->stop, true);
    atomic_store(&p->start, true);
    return err ? -1 : 0;
}

static int make_threads(struct perf *p)
{
    size_t bytes = p->threads * sizeof(*p->thread);

    p->thread = aligned_alloc(CACHE_LINE, round_up(bytes, CACHE_LINE));
    if (!p->thread)
        return -ENOMEM;
    memset(p->thread, 0, bytes);
    for (unsigned i = 0; i < p->threads; i++) {
        p->thread[i].perf = p;
        p->thread[i].index = i;
        p->thread[i].worker = p->ports ? rnic_worker(p->ports->rnic, i) : NULL;
    }
    return 0;
}

/* Fails if a stage has more threads than it has queues or roles. */
static int check_stage(const struct perf *p, char *error, size_t size)
{
    unsigned most = p->ports->count == 2 ? 2 : p->ports->info[0].queues;

    if (p->threads <= most)
        return 0;
    snprintf(error, size, "workers: mode %s has work for %u here", mode_name(p->opt.mode), most);
    return -1;
}

static int open_traffic(struct perf *p, char *error, size_t size)
{
    if (!p->ports)
        return client_open(p, error, size);
    return mode_has_engine(p->opt.mode) ? objects_open(p, error, size)
                                        : check_stage(p, error, size);
}

int run_start(struct perf *p, const struct perf_options *o, struct perf_ports *ports, char *error,
              size_t size)
{
    int err;

    memset(p, 0, sizeof(*p));
    p->opt = *o;
    p->size = options_size(o);
    p->ports = ports;
    p->threads = ports ? ports->workers : 1;
    tsc_hz();
    if (o->rate)
        arrivals_prepare();
    if (make_threads(p)) {
        snprintf(error, size, "out of memory");
        return -1;
    }
    err = open_traffic(p, error, size);
    if (!err)
        err = start_threads(p, error, size);
    p->running = true;
    if (err)
        run_close(p);
    return err;
}

void run_stop(struct perf *p)
{
    atomic_store(&p->stop, true);
    for (unsigned i = 0; i < p->started; i++)
        pthread_join(p->thread[i].id, NULL);
    if (p->running)
        p->ended = worker_time();
    p->started = 0;
    p->running = false;
}

void run_close(struct perf *p)
{
    run_stop(p);
    client_close(p);
    objects_close(p);
    for (unsigned i = 0; i < p->threads && p->thread; i++) {
        free(p->thread[i].sender);
        free(p->thread[i].floor_frames);
    }
    free(p->thread);
    p->thread = NULL;
    p->threads = 0;
}

bool run_is_over(const struct perf *p)
{
    return atomic_load(&p->failed) || atomic_load(&p->finished) == p->threads;
}

static bool all_cleared(const struct perf *p, unsigned request)
{
    for (unsigned i = 0; i < p->threads; i++)
        if (atomic_load(&p->thread[i].cleared) != request)
            return false;
    return true;
}

void run_clear(struct perf *p)
{
    unsigned request = atomic_fetch_add(&p->clear, 1) + 1;
    ns_t deadline = worker_time() + NS_PER_SEC;

    /* A running thread checks several times per millisecond; a finished thread does not check. */
    while (!all_cleared(p, request) && !atomic_load(&p->finished) && worker_time() < deadline)
        sched_yield();
}
