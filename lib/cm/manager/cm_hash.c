/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_hash.h"

#include <errno.h>
#include <stdlib.h>

#include "invariant.h"

#define FIRST_BUCKETS 64u

/* The finalizer of SplitMix64, between words that the secret hides. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t cm_hash_of(const uint64_t secret[2], const uint64_t *key, size_t n)
{
    uint64_t h = secret[0];

    for (size_t i = 0; i < n; i++)
        h = mix(h ^ key[i]) + secret[1];
    return mix(h ^ secret[0]);
}

int cm_hash_init(struct cm_hash *h)
{
    *h = (struct cm_hash){.buckets = FIRST_BUCKETS};
    h->bucket = calloc(h->buckets, sizeof(h->bucket[0]));
    return h->bucket ? 0 : -ENOMEM;
}

void cm_hash_destroy(struct cm_hash *h)
{
    free(h->bucket);
    *h = (struct cm_hash){0};
}

static struct cm_hash_node **bucket_of(const struct cm_hash *h, uint64_t hash)
{
    return &h->bucket[hash & (h->buckets - 1)];
}

static void grow(struct cm_hash *h)
{
    struct cm_hash larger = {.buckets = h->buckets * 2, .count = h->count};

    larger.bucket = calloc(larger.buckets, sizeof(larger.bucket[0]));
    if (!larger.bucket)
        return;
    for (uint32_t i = 0; i < h->buckets; i++)
        for (struct cm_hash_node *node = h->bucket[i], *next; node; node = next) {
            struct cm_hash_node **head = bucket_of(&larger, node->hash);

            next = node->next;
            node->next = *head;
            *head = node;
        }
    free(h->bucket);
    *h = larger;
}

void cm_hash_add(struct cm_hash *h, struct cm_hash_node *node, uint64_t hash)
{
    struct cm_hash_node **head;

    invariant(!node->linked);
    if (h->count >= h->buckets)
        grow(h);
    head = bucket_of(h, hash);
    *node = (struct cm_hash_node){.next = *head, .hash = hash, .linked = true};
    *head = node;
    h->count++;
}

void cm_hash_remove(struct cm_hash *h, struct cm_hash_node *node)
{
    struct cm_hash_node **at;

    if (!node->linked)
        return;
    for (at = bucket_of(h, node->hash); *at != node; at = &(*at)->next)
        ;
    *at = node->next;
    *node = (struct cm_hash_node){0};
    h->count--;
}

static struct cm_hash_node *from(struct cm_hash_node *node, uint64_t hash)
{
    while (node && node->hash != hash)
        node = node->next;
    return node;
}

struct cm_hash_node *cm_hash_first(const struct cm_hash *h, uint64_t hash)
{
    return from(*bucket_of(h, hash), hash);
}

struct cm_hash_node *cm_hash_next(const struct cm_hash_node *node)
{
    return from(node->next, node->hash);
}
