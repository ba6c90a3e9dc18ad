/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads that carry workers' loops: see carrier.h. */
#include "carrier.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stack_switch.h"
#include "worker_internal.h"

#define LOOP_STACK (512u << 10)

/* What a switch to the loop's stack tells it, and a switch back the carrier. */
enum { LOOP_STARTS, CALL_MADE, CALL_LATE };
enum { MAKE_CALL, LOOP_ENDED };

/* ---- the carrier's side ---- */

/* ---- the worker's CPU ---- */

static void pin_thread(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/* The loop has been taken away: its CPU is no longer that of the thread, which may be waiting. */
static void unpin_carrier(struct carrier *c)
{
    if (c->pinned)
        pthread_setaffinity_np(c->thread, sizeof(c->cpus), &c->cpus);
    c->pinned = false;
}

/* The thread is the carrier's from here on. */
static void begin_thread(struct carrier *c, struct worker *w)
{
    c->tid = (pid_t)syscall(SYS_gettid);
    c->thread = pthread_self();
    c->fiber = stack_own_fiber();
    /* With the default slack a sleep of 50 us takes twice as long. */
    prctl(PR_SET_TIMERSLACK, 1);
    c->worker = w;
    w->boosted = false;
    c->pinned = w->pinned && !pthread_getaffinity_np(c->thread, sizeof(c->cpus), &c->cpus);
    if (c->pinned)
        pin_thread(w->own_cpu);
    atomic_store(&w->thread, c->thread);
}

/* Makes the loop's call. False: the loop has been taken away. */
static bool make_call(struct carrier *c)
{
    uint32_t number = ++c->calls << CARRIER_STATE_BITS, state = number | CARRIER_IN_CALL;
    struct worker_group *group = c->worker->group;

    atomic_exchange(&c->state, state); /* from here on c->worker may end */
    watch_wake(group);
    mem_call_run(&c->call->call);
    return atomic_compare_exchange_strong(&c->state, &state, number | CARRIER_IN_LOOP);
}

/* Carries the loop until it ends (true), or another thread has taken it away (false). */
static bool carry(struct carrier *c, uintptr_t value)
{
    struct worker *w = c->worker;

    for (;;) {
        stack_enter_fiber(w->loop_fiber);
        if (stack_switch(&c->stack, w->loop_stack, value) == LOOP_ENDED)
            return true;
        if (!make_call(c))
            return false;
        value = CALL_MADE;
    }
}

static void carry_on(struct carrier *c, uintptr_t value)
{
    struct worker *w = c->worker;

    if (!carry(c, value)) {
        copier_serve(c);
        return;
    }
    copier_leave_all(w);
    w->joins = c->detach;
    w->last_carrier = c; /* the watch may be looking at it */
    w->carrier = NULL;
    w->caller.call = &w->own_call->call;
    w->loop_ended(w);
}

void *carrier_reserve_run(void *carrier)
{
    struct carrier *c = carrier;
    uint32_t go;

    while ((go = atomic_load(&c->go)) == GO_WAIT)
        futex_wait(&c->go, GO_WAIT, NS_NEVER);
    if (go == GO_AWAY) {
        carrier_destroy(c);
        return NULL;
    }
    begin_thread(c, c->worker);
    carry_on(c, CALL_LATE);
    return NULL;
}

/* ---- the loop's side ---- */

/* Where a new stack begins. */
static void begin_loop(void *worker)
{
    struct worker *w = worker;
    struct carrier *c;

    w->loop(w);
    c = w->carrier; /* perhaps another than at the beginning */
    stack_enter_fiber(c->fiber);
    stack_switch(&w->loop_stack, c->stack, LOOP_ENDED);
    __builtin_unreachable();
}

void carrier_run(struct worker *w, void (*loop)(struct worker *), void (*ended)(struct worker *))
{
    struct carrier *c = carrier_create();
    void *memory = mmap(NULL, LOOP_STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

    if (!c || memory == MAP_FAILED || stack_shadow()) { /* calls are then waited for */
        if (c)
            carrier_destroy(c);
        if (memory != MAP_FAILED)
            munmap(memory, LOOP_STACK);
        w->thread = pthread_self();
        w->joins = true;
        if (w->pinned)
            pin_thread(w->own_cpu);
        loop(w);
        ended(w);
        return;
    }
    mprotect(memory, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE);
    w->loop_memory = memory;
    w->loop_fiber = stack_new_fiber();
    w->loop_stack = stack_prepare((char *)memory + LOOP_STACK, begin_loop, w);
    w->caller.call = &c->call->call;
    w->loop = loop;
    w->loop_ended = ended;
    begin_thread(c, w);
    c->detach = true;
    w->carrier = c;
    carry_on(c, LOOP_STARTS);
}

void carrier_free_loop(struct worker *w)
{
    if (w->last_carrier)
        carrier_destroy(w->last_carrier);
    if (!w->loop_memory)
        return;
    stack_free_fiber(w->loop_fiber);
    munmap(w->loop_memory, LOOP_STACK);
}

/* The call fails as a whole. */
static bool fail_call(struct mem_call *call, int status)
{
    for (unsigned i = 0; i < call->n; i++)
        call->io[i].status = status;
    return true;
}

bool carrier_call(struct mem_caller *caller)
{
    struct worker *w = container_of(caller, struct worker, caller);
    struct carrier *c = w->carrier;
    struct mem_call *call = caller->call;
    int status;

    if (unlikely(!c)) {
        mem_call_run(call);
        return true;
    }
    if (unlikely(w->copiers)) {
        enum copier_choice choice = copier_choose(w, &status);

        if (choice == CHOICE_REFUSED)
            return fail_call(call, status);
        if (choice == CHOICE_COPIER)
            return false;
    }
    if (unlikely(w->frames_leave || w->kept > KEPT_MAX - FRAME_BURST) && !mem_call_own(call))
        return fail_call(call, -ENOMEM);
    stack_enter_fiber(c->fiber);
    if (likely(stack_switch(&w->loop_stack, c->stack, MAKE_CALL) == CALL_MADE))
        return true;
    unpin_carrier(c); /* it does not leave before it knows until when it is to stay */
    copier_begin(w, c);
    return false;
}
