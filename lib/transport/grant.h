/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory under a key that is looked up once for many packets. */
#ifndef UROCE_GRANT_H
#define UROCE_GRANT_H

#include "transport.h"

/* Memory under a key, as it is until the call into the engine returns: a region that is removed
 * meanwhile is freed later. Zeroed it is none: key 0 is never issued. */
struct grant {
    uint32_t key;
    uint64_t iova, len;
    uint8_t *direct; /* NULL: none, or not that simple; and len is 0 */
};

/* What qp's domain may access so by the key. hint: of such accesses. */
struct grant grant_find(struct engine *e, const struct qp *qp, struct mr_hint *hint, uint32_t key,
                        uint32_t access);

/* Where [va, va + len) is; NULL: somebody else must find out, or refuse. */
ALWAYS_INLINE uint8_t *grant_place(const struct grant *g, uint64_t va, uint32_t len)
{
    uint64_t off = va - g->iova; /* the region does not wrap around, so neither does this inside */

    /* Of no memory nothing fits but nothing, at NULL, to which C would not add even that. */
    return off <= g->len && len <= g->len - off ? (uint8_t *)((uintptr_t)g->direct + off) : NULL;
}

#endif
