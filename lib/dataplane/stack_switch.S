/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stack_switch(void **save, void *load, uintptr_t value): goes on where the stack at `load` was
 * left by stack_switch, which returns `value` there; *save is where to come back to this one.
 *
 * stack_begin: where a new stack starts. It calls the function that stack_prepare (carrier.c) has
 * put there, which does not return.
 *
 * stack_shadow(): the shadow stack of this thread; 0: it has none. These stacks have none either,
 * so carrier_run does not use them then. This file has no SHSTK property: a program that links it
 * gets shadow stacks only if the system gives them to all programs.
 */
        .text
        .globl  stack_switch
        .hidden stack_switch
        .type   stack_switch, %function
        .globl  stack_begin
        .hidden stack_begin
        .type   stack_begin, %function
        .globl  stack_shadow
        .hidden stack_shadow
        .type   stack_shadow, %function

#if defined(__x86_64__)
stack_switch:
        endbr64
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        movq    %rdx, %rax
        ret
        .size   stack_switch, . - stack_switch

stack_begin:
        movq    %r12, %rdi
        callq   *%r13
        ud2
        .size   stack_begin, . - stack_begin

stack_shadow:
        endbr64
        xorl    %eax, %eax
        rdsspq  %rax            /* does nothing without one */
        ret
        .size   stack_shadow, . - stack_shadow

#elif defined(__aarch64__)
stack_switch:
        hint    #34             /* bti c */
        sub     sp, sp, #160
        stp     x19, x20, [sp, #0]
        stp     x21, x22, [sp, #16]
        stp     x23, x24, [sp, #32]
        stp     x25, x26, [sp, #48]
        stp     x27, x28, [sp, #64]
        stp     x29, x30, [sp, #80]
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        mov     x9, sp
        str     x9, [x0]
        mov     sp, x1
        ldp     x19, x20, [sp, #0]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x30, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        add     sp, sp, #160
        mov     x0, x2
        ret
        .size   stack_switch, . - stack_switch

stack_begin:
        hint    #36             /* bti j */
        mov     x0, x19
        blr     x20
        brk     #0
        .size   stack_begin, . - stack_begin

stack_shadow:
        hint    #34
        mov     x0, #0
        ret
        .size   stack_shadow, . - stack_shadow
#else
#error "stack_switch is not written for this processor"
#endif

        .section .note.GNU-stack, "", %progbits
