/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory under a key that is looked up once for many packets. */
#ifndef UROCE_MR_GRANT_H
#define UROCE_MR_GRANT_H

#include "engine_private.h"
#include "mem_memcpy.h"

/*
 * Memory under a key, valid until the call into the engine returns: a region that is removed
 * concurrently is freed later. A zeroed grant covers nothing: key 0 is never issued.
 */
struct mr_grant {
    uint32_t key;
    uint64_t iova, len;        /* of what is mapped */
    uint8_t *direct;           /* NULL: the key grants nothing that is mapped, and len is 0 */
    struct mem_region *copied; /* what it grants instead, if that is a region; or NULL */
};

/* What a domain may access under the key. hint: of such accesses by this domain. */
struct mr_grant mr_grant_find(struct engine *e, uint32_t pd, struct mr_hint *hint, uint32_t key,
                              uint32_t access);

/* The address of [va, va + len). NULL: not covered, the general path decides. */
ALWAYS_INLINE uint8_t *mr_grant_address(const struct mr_grant *g, uint64_t va, uint32_t len)
{
    uint64_t off = va - g->iova; /* the region does not wrap around, so neither does this inside */

    /* Without memory only an empty range fits, at NULL: C forbids to add even 0 to NULL. */
    return off <= g->len && len <= g->len - off ? (uint8_t *)((uintptr_t)g->direct + off) : NULL;
}

/* The same after the grant of another key has been replaced. */
ALWAYS_INLINE uint8_t *mr_grant_lookup(struct engine *e, uint32_t pd, struct mr_grant *g,
                                       struct mr_hint *hint, uint32_t key, uint32_t access,
                                       uint64_t va, uint32_t len)
{
    if (unlikely(key != g->key))
        *g = mr_grant_find(e, pd, hint, key, access);
    return mr_grant_address(g, va, len);
}

/* Whether mapped or copied memory covers [va, va + len). */
ALWAYS_INLINE bool mr_grant_covers(const struct mr_grant *g, uint64_t va, uint32_t len)
{
    return mr_grant_address(g, va, len) || (g->copied && mr_covers(g->copied, va, len));
}

/* Copies a payload out of a frame whose ICRC was just computed: the C library's memcpy is faster
 * for that than mem_memcpy_long. */
ALWAYS_INLINE void mr_grant_copy(uint8_t *to, const uint8_t *payload, uint32_t len)
{
    if (mem_memcpy_is_few(len))
        mem_memcpy_few(to, payload, len);
    else
        memcpy(to, payload, len);
}

#endif
