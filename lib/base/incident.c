/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing incidents, and reading them beside their writer: see incident.h. */
#include "incident.h"

#include <string.h>

#include "record_ring.h"

void incident_put(struct incidents *ring, const struct incident *i)
{
    uint64_t n = atomic_load_explicit(&ring->count, memory_order_relaxed);
    _Atomic uint64_t *to = ring->word[n & (INCIDENTS - 1)];
    uint64_t word[INCIDENT_WORDS];

    memcpy(word, i, sizeof(word));
    /* A reader that sees a word of this record also sees the whole record before it. */
    atomic_thread_fence(memory_order_release);
    for (unsigned k = 0; k < INCIDENT_WORDS; k++)
        atomic_store_explicit(&to[k], word[k], memory_order_relaxed);
    atomic_store_explicit(&ring->count, n + 1, memory_order_release);
}

static void read_record(const struct incidents *ring, uint64_t n, struct incident *out)
{
    const _Atomic uint64_t *from = ring->word[n & (INCIDENTS - 1)];
    uint64_t word[INCIDENT_WORDS];

    for (unsigned k = 0; k < INCIDENT_WORDS; k++)
        word[k] = atomic_load_explicit(&from[k], memory_order_relaxed);
    memcpy(out, word, sizeof(word));
}

unsigned incident_read(const struct incidents *ring, struct incident out[INCIDENTS])
{
    struct record_span s = record_ring_begin(&ring->count, INCIDENTS);
    unsigned n = 0;

    for (uint64_t i = s.first; i < s.end; i++)
        read_record(ring, i, &out[i - s.first]);
    for (uint64_t i = record_ring_whole(&ring->count, INCIDENTS, s); i < s.end; i++)
        out[n++] = out[i - s.first];
    return n;
}
