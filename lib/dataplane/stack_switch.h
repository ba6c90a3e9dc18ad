/* SPDX-License-Identifier: BSD-3-Clause */
/* Stacks that go from thread to thread: stack_switch.S, and what the sanitizers have to be told. */
#ifndef UROCE_STACK_SWITCH_H
#define UROCE_STACK_SWITCH_H

#include <stdint.h>
#include <string.h>

/* Goes on where the stack at `load` was left by stack_switch, which returns `value` there. *save:
 * where to come back to this stack. */
uintptr_t stack_switch(void **save, void *load, uintptr_t value);
void stack_begin(void);

#ifdef __x86_64__
#define STACK_WORDS 7 /* that stack_switch stores: r15 r14 r13 r12 rbx rbp, return address */
#define STACK_ARG   3
#define STACK_FN    2
#define STACK_PC    6
#else
#define STACK_WORDS 20 /* x19 to x30, d8 to d15 */
#define STACK_ARG   0
#define STACK_FN    1
#define STACK_PC    11
#endif

/* This thread's shadow stack, which stack_switch does not know; 0: it has none. */
uintptr_t stack_shadow(void);

/* A stack that ends at `top` (16-byte aligned): the first switch to it calls fn(arg), which must
 * not return. */
static inline void *stack_prepare(void *top, void (*fn)(void *), void *arg)
{
    uintptr_t *sp = (uintptr_t *)top - STACK_WORDS - 2;

    memset(sp, 0, STACK_WORDS * sizeof(*sp));
    sp[STACK_ARG] = (uintptr_t)arg;
    sp[STACK_FN] = (uintptr_t)fn;
    sp[STACK_PC] = (uintptr_t)stack_begin;
    return sp;
}

#ifdef __SANITIZE_THREAD__
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#define stack_own_fiber()        __tsan_get_current_fiber()
#define stack_new_fiber()        __tsan_create_fiber(0)
#define stack_free_fiber(fiber)  __tsan_destroy_fiber(fiber)
#define stack_enter_fiber(fiber) __tsan_switch_to_fiber(fiber, 0)
#else
#define stack_own_fiber()        NULL
#define stack_new_fiber()        NULL
#define stack_free_fiber(fiber)  ((void)(fiber))
#define stack_enter_fiber(fiber) ((void)(fiber))
#endif

#endif
