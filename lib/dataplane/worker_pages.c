/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Page faults of a worker. A program may take pages of its mapped memory away (fallocate(), or the
 * kernel swaps them out), and a worker that reads them gets them back: that takes up to a hundred
 * times what the copy takes. While a worker has many page faults, its engines charge their time to
 * the programs (share.h). The kernel tells their number, by a system call; so they are counted
 * once in a while, and where time has passed.
 */
#include "worker_internal.h"

#include <sys/resource.h>

#define FAULTS_MANY 4 /* between two samples, which are a millisecond apart, or more */
#define CHARGE_NS   (100 * NS_PER_MS)
/* A thread that waits for a processor has no page faults in that time; one that has a few may have
 * waited too. */
#define FAULT_NS_MAX (50 * NS_PER_US)
/* In less time a page fault is not looked for. */
#define TURN_NS_MIN (2 * NS_PER_US)

static uint64_t count_faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

/* The loop may have moved to a thread that has had fewer. */
static uint64_t new_faults(uint64_t *seen)
{
    uint64_t now = count_faults(), before = *seen;

    *seen = now;
    return now > before ? now - before : 0;
}

void worker_sample_faults(struct worker *w, ns_t now)
{
    if (new_faults(&w->pages.sampled) > FAULTS_MANY)
        w->pages.charge_until = now + CHARGE_NS;
    for (unsigned i = 0; i < w->ports; i++)
        engine_charge_faults(w->port[i].engine, now < w->pages.charge_until);
}

ns_t worker_fault_time(void *port)
{
    struct worker_pages *pages = &((struct worker_port *)port)->worker->pages;
    ns_t passed = worker_time() - pages->measured, most;

    if (passed < TURN_NS_MIN) {
        pages->measured += passed;
        return 0;
    }
    most = new_faults(&pages->seen) * FAULT_NS_MAX;
    pages->measured = worker_time();
    return min_of(passed, most);
}
