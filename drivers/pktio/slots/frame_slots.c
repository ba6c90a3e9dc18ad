/* SPDX-License-Identifier: BSD-3-Clause */
/* See frame_slots.h. */
#include "frame_slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pkt.h"

int frame_slots_init(struct frame_slots *s, uint32_t room)
{
    size_t bytes = (size_t)FRAME_SLOTS * room;
    void *memory;

    if (posix_memalign(&memory, 4096, bytes))
        return -ENOMEM;
    madvise(memory, bytes, MADV_DONTDUMP); /* bytes of applications */
    s->memory = memory;
    s->room = room;
    for (unsigned i = 0; i < FRAME_SLOTS; i++)
        frame_slots_free(s, (uint16_t)(FRAME_SLOTS - 1 - i));
    return 0;
}

void frame_slots_fini(struct frame_slots *s)
{
    free(s->memory);
    s->memory = NULL;
}

struct frame frame_slots_frame(const struct frame_slots *s, uint16_t slot)
{
    return (struct frame){.data = frame_slot(s, slot),
                          .len = s->len[slot],
                          .cookie = (void *)(uintptr_t)slot,
                          .icrc_omitted = s->omitted[slot]};
}

unsigned frame_slots_take_local(struct frame_slots *s, struct frame *f, unsigned n)
{
    unsigned count = min_of(n, s->local_tail - s->local_head);

    for (unsigned i = 0; i < count; i++)
        f[i] = frame_slots_frame(s, s->local[s->local_head++ & (FRAME_SLOTS - 1)]);
    return count;
}

unsigned frame_slots_lend(struct frame_slots *s, struct frame *f, unsigned n, bool omitted)
{
    n = min_of(n, s->free_count > FRAME_SLOTS / 2 ? s->free_count - FRAME_SLOTS / 2 : 0);
    for (unsigned i = 0; i < n; i++) {
        uint16_t slot = frame_slots_take(s);

        f[i] = (struct frame){.data = frame_slot(s, slot),
                              .room = s->room,
                              .cookie = (void *)(uintptr_t)slot,
                              .icrc_omitted = omitted};
    }
    return n;
}

void frame_slots_release(struct frame_slots *s, const struct frame *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        frame_slots_free(s, frame_slot_of(&f[i]));
}

bool frame_copy_verified(uint8_t *l3, enum icrc_l3 kind, const uint8_t *bth, uint32_t len)
{
    unsigned n = icrc_headers(kind);

    if (len % 4 || len < BTH_LEN + ICRC_LEN) {
        memcpy(l3 + n, bth, len);
        return false;
    }
    memcpy(l3 + n, bth, BTH_LEN);
    return icrc_verify_copy(kind, l3, n + BTH_LEN, bth + BTH_LEN, len - BTH_LEN);
}
