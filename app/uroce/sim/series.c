/* SPDX-License-Identifier: BSD-3-Clause */
/* What is written down at each sample. See sim.h. */
#include <errno.h>
#include <stdlib.h>

#include "sim.h"

int series_init(struct series *s, const struct lab_spec *spec)
{
    *s = (struct series){
        .spec = spec,
        .flows = min_of(spec->flows, SIM_SERIES_FLOWS),
        .ports = 2 * spec->links,
        .arrived = calloc(spec->flows, sizeof(*s->arrived)),
    };
    return s->arrived ? 0 : -ENOMEM;
}

void series_fini(struct series *s)
{
    free(s->at);
    free(s->bytes);
    free(s->peak);
    free(s->queue);
    free(s->total);
    free(s->arrived);
}

static bool grow(void *array, size_t n, size_t size)
{
    void *grown = realloc(*(void **)array, max_of(n * size, (size_t)1));

    if (grown)
        *(void **)array = grown;
    return grown;
}

static bool make_room(struct series *s)
{
    unsigned room = max_of(2 * s->room, 64u);

    if (s->n < s->room)
        return true;
    if (!grow(&s->at, room, sizeof(*s->at)) || !grow(&s->total, room, sizeof(*s->total)) ||
        !grow(&s->bytes, (size_t)room * s->flows, sizeof(*s->bytes)) ||
        !grow(&s->peak, (size_t)room * s->ports, sizeof(*s->peak)) ||
        !grow(&s->queue, (size_t)room * s->ports, sizeof(*s->queue)))
        return false;
    s->room = room;
    return true;
}

void series_sample(struct series *s, struct lab *lab, ns_t now)
{
    struct fabric *f = lab_fabric(lab);

    if (s->failed || !make_room(s)) {
        s->failed = true;
        return;
    }
    s->at[s->n] = now;
    s->total[s->n] = 0;
    for (unsigned i = 0; i < s->spec->flows; i++) {
        uint64_t arrived = lab_arrived(lab, i), fresh = arrived - s->arrived[i];

        s->arrived[i] = arrived;
        s->total[s->n] += fresh;
        if (i < s->flows)
            s->bytes[(size_t)s->n * s->flows + i] = (uint32_t)min_of(fresh, (uint64_t)UINT32_MAX);
    }
    for (unsigned i = 0; i < s->ports; i++) {
        uint64_t peak = fabric_queue_peak(f, i), queue = fabric_queue(f, i);

        s->peak[(size_t)s->n * s->ports + i] = (uint32_t)min_of(peak, (uint64_t)UINT32_MAX);
        s->queue[(size_t)s->n * s->ports + i] = (uint32_t)min_of(queue, (uint64_t)UINT32_MAX);
    }
    s->n++;
}

unsigned series_half(const struct series *s)
{
    return s->n / 2;
}
