/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a slot ring: see slot_ring.h. */
#include "slot_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static int fifo_init(struct slot_fifo *f, uint32_t slots)
{
    uint32_t size = pow2_at_least(slots);

    f->mask = size - 1;
    f->entry = calloc(size, sizeof(*f->entry));
    return f->entry ? 0 : -ENOMEM;
}

int slot_ring_init(struct slot_ring *r, uint32_t slots, uint32_t room)
{
    void *memory;

    r->room = room;
    r->bytes = (size_t)slots * room;
    memory = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    madvise(memory, r->bytes, MADV_DONTDUMP); /* bytes of applications */
    r->memory = memory;
    r->free = calloc(slots, sizeof(*r->free));
    if (!r->free || fifo_init(&r->out, slots) || fifo_init(&r->back, slots))
        return -ENOMEM;
    while (slots)
        slot_ring_free(r, (uint16_t)--slots);
    return 0;
}

void slot_ring_fini(struct slot_ring *r)
{
    if (r->memory)
        munmap(r->memory, r->bytes);
    free(r->free);
    free(r->out.entry);
    free(r->back.entry);
}
