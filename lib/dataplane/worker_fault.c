/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGBUS in a worker: memory of a program that the kernel cannot supply, because its page is broken
 * (a memory error), or cannot be read back from swap, or would exceed what the system may commit;
 * or because a program that is trusted has made its file shorter.
 *
 * The worker is in the middle of a copy, which returns nothing, so that it costs nothing. The
 * handler puts an empty page of the daemon's own into the mapping, and the copy goes on. What it
 * copied is worthless. So before the page is there, the handler makes the region's keys invalid for
 * all work to come, and counts the fault; and before any worker lets a frame go that it built in
 * the meantime, it looks at the count. When that has changed, it drops the frames, as if the
 * network had lost them, and puts the program's queue pairs into the error state
 * (worker_fail_programs).
 *
 * A fault elsewhere is an error of the daemon, or the memory of its queues, which it cannot do
 * without. Nothing can be said about the state in which it leaves an engine: the process ends, as
 * without a handler.
 */
#include "worker_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static struct worker_group *_Atomic guarded;
static struct sigaction before; /* worker_guard_memory */

/* ---- in the handler ---- */

static struct worker *this_worker(void)
{
    struct worker_group *g = atomic_load(&guarded);

    for (unsigned i = 0; g && i < g->workers; i++)
        if (worker_is_borrowed_here(g->worker[i]) ||
            (atomic_load(&g->worker[i]->running) &&
             pthread_equal(atomic_load(&g->worker[i]->thread), pthread_self())))
            return g->worker[i];
    return NULL;
}

/* Where to count faults of the program that the region belongs to, or NULL. */
static _Atomic uint32_t *faults_of(const struct worker *w, const struct mem_region *mr)
{
    for (unsigned i = 0; i < w->contexts; i++)
        if (w->ctx[i]->space == mr->space)
            return w->ctx[i]->faults;
    return NULL;
}

static bool map_empty(uintptr_t first, uintptr_t end)
{
    return mmap((void *)first, end - first, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/* The kernel replaces no part of a huge page, so the first size that it takes is the page's. The
 * mapping, unlike the region, consists of whole ones. */
static bool replace_huge_page(uintptr_t at)
{
    for (unsigned bits = 16; bits <= 34; bits++) {
        uintptr_t size = (uintptr_t)1 << bits, first = at & ~(size - 1);

        if (map_empty(first, first + size))
            return true;
        if (errno != EINVAL) /* which is the answer for a part */
            return false;
    }
    return false;
}

/* An empty page, or as many as have failed together, of the region's mapping. */
static bool replace_pages(const struct mem_region *mr, uintptr_t at, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)mr->direct & ~(page - 1);
    uintptr_t end = round_up((uintptr_t)mr->direct + mr->len, page);

    size = max_of(size, page);
    first = max_of(first, at & ~(size - 1));
    end = min_of(end, (at & ~(size - 1)) + size);
    return map_empty(first, end) || (errno == EINVAL && replace_huge_page(at));
}

/* The regions found stay: they are freed after this worker's next quiet point. */
static bool survive(struct worker *w, void *at, size_t size)
{
    for (unsigned i = 0; i < w->ports; i++) {
        struct mr_table *mrs = w->port[i].mrs;
        struct mem_region *mr = mrs ? mr_find_direct(mrs, at) : NULL;
        _Atomic uint32_t *faults = mr ? faults_of(w, mr) : NULL;

        if (!faults)
            continue;
        mr_fail(mrs, mr);
        atomic_fetch_add(faults, 1);
        atomic_fetch_add(&w->group->faults, 1);
        counter_inc(&w->stats.memory_faults);
        return replace_pages(mr, (uintptr_t)at, size);
    }
    return false;
}

static void *instruction_of(const ucontext_t *u)
{
#if defined(__x86_64__)
    return (void *)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (void *)u->uc_mcontext.pc;
#else
    return NULL;
#endif
}

static void report(const struct worker *w, const siginfo_t *info, const ucontext_t *u)
{
    char line[128];
    int n = snprintf(line, sizeof(line), "uroced: SIGBUS at %p, instruction %p, worker %d\n",
                     info->si_addr, instruction_of(u), w ? (int)w->index : -1);
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);

    (void)written;
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
    struct worker *w = this_worker();
    int saved = errno;
    size_t size = 0;

    if (info->si_code == BUS_MCEERR_AR && info->si_addr_lsb < 40)
        size = (size_t)1 << info->si_addr_lsb;
    /* si_code <= 0: another process sent it. */
    if (info->si_code <= 0 || !w || !survive(w, info->si_addr, size)) {
        report(w, info, context);
        sigaction(signal, &before, NULL); /* and the instruction faults again */
        if (info->si_code <= 0)
            raise(signal);
    }
    errno = saved;
}

/* ---- outside ---- */

int worker_guard_memory(struct worker_group *g)
{
    struct sigaction act = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

    if (!atomic_exchange(&guarded, g))
        return sigaction(SIGBUS, &act, &before) ? -errno : 0;
    return 0;
}

void worker_unguard_memory(void)
{
    if (atomic_exchange(&guarded, NULL))
        sigaction(SIGBUS, &before, NULL);
}

static void fail_if_own(struct worker *w, struct dp_qp *dq, ns_t now)
{
    struct worker_port *p = atomic_load_explicit(&dq->port, memory_order_acquire);

    if (p->worker == w)
        worker_fail_qp(p, dq, now);
}

/* Most programs have few queue pairs, and most chunks of their directory do not exist. */
static void fail_program(struct worker *w, const struct worker_ctx *ctx, ns_t now)
{
    for (unsigned i = 0; i < ARRAY_SIZE(ctx->slots->chunk); i++) {
        struct dp_qp *_Atomic *chunk =
            atomic_load_explicit(&ctx->slots->chunk[i], memory_order_acquire);

        for (unsigned k = 0; chunk && k < DP_SLOT_CHUNK; k++) {
            struct dp_qp *dq = atomic_load_explicit(&chunk[k], memory_order_acquire);

            if (dq)
                fail_if_own(w, dq, now);
        }
    }
}

void worker_fail_programs(struct worker *w, ns_t now)
{
    w->faults_seen = atomic_load(&w->group->faults);
    for (unsigned i = 0; i < w->contexts; i++) {
        struct worker_ctx *ctx = w->ctx[i];
        uint32_t faults = atomic_load(ctx->faults);

        if (ctx->faults_seen != faults)
            fail_program(w, ctx, now);
        ctx->faults_seen = faults;
    }
}
