/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hash tables of objects that have their node inside. The keys are the callers'; peers choose parts
 * of them, so that the hash has a secret. Pure; one thread at a time.
 */
#ifndef UROCE_CM_HASH_H
#define UROCE_CM_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cm_hash_node {
    struct cm_hash_node *next;
    uint64_t hash;
    bool linked;
};

struct cm_hash {
    struct cm_hash_node **bucket;
    uint32_t buckets, count; /* buckets: a power of 2 */
};

/* The hash of a key of n words. */
uint64_t cm_hash_of(const uint64_t secret[2], const uint64_t *key, size_t n);

int cm_hash_init(struct cm_hash *h); /* -ENOMEM */
void cm_hash_destroy(struct cm_hash *h);

/* Adds a node that is in no table. Grows the table; without memory, chains become longer. */
void cm_hash_add(struct cm_hash *h, struct cm_hash_node *node, uint64_t hash);

/* Takes a node out; one that is in no table stays so. */
void cm_hash_remove(struct cm_hash *h, struct cm_hash_node *node);

/* The first node with this hash, and the next one behind it; NULL: none. The caller compares the
 * keys. */
struct cm_hash_node *cm_hash_first(const struct cm_hash *h, uint64_t hash);
struct cm_hash_node *cm_hash_next(const struct cm_hash_node *node);

#endif
