/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The version nodes of the names that libibverbs has for its provider libraries. rdma-core makes a
 * new node whenever it changes what providers see: 34 until version 56, then 57, 59, 64 and 65. A
 * name is in all of them, as the providers of each version ask for it in theirs.
 */
#ifndef UROCE_VERBS_PRIVATE_H
#define UROCE_VERBS_PRIVATE_H

/* `name` in a node is a second symbol for private_name, as one symbol has one version. at: @@ or @.
 */
#define PRIVATE_IN(name, at, node)                                             \
    extern __typeof__(private_##name) name##_in_##node                         \
        __attribute__((alias("private_" #name), visibility("default"), used)); \
    __asm__(".symver " #name "_in_" #node "," #name at "IBVERBS_PRIVATE_" #node)

/* For programs that are linked with this library, 34 is the one. */
#define PRIVATE(name)           \
    PRIVATE_IN(name, "@@", 34); \
    PRIVATE_LATER(name)

/* A name that rdma-core has added after version 56. */
#define PRIVATE_LATER(name)    \
    PRIVATE_IN(name, "@", 57); \
    PRIVATE_IN(name, "@", 59); \
    PRIVATE_IN(name, "@", 64); \
    PRIVATE_IN(name, "@", 65)

#endif
