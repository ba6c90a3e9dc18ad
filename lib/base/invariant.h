/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * invariant(expression): a condition that this process alone controls, and that therefore holds for
 * every input. What an application or a peer can cause is never an invariant: it is checked in
 * every build, and becomes a fault, an error or a counted drop.
 *
 * Debug, sanitizer and fuzz builds (meson.build defines UROCE_INVARIANTS) evaluate the expression;
 * if it is false they print it with its file and line, and abort. Release builds only compile it:
 * it has no side effects. Any thread.
 */
#ifndef UROCE_INVARIANT_H
#define UROCE_INVARIANT_H

#ifdef UROCE_INVARIANTS
#define invariant(expression)            \
    (__builtin_expect(!!(expression), 1) \
         ? (void)0                       \
         : invariant_failed(#expression, __FILE__, __LINE__, __func__))
#else
#define invariant(expression) ((void)(0 && (expression)))
#endif

_Noreturn void invariant_failed(const char *expression, const char *file, int line,
                                const char *function);

#endif
