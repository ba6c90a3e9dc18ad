/* SPDX-License-Identifier: BSD-3-Clause */
/* See db_slot.h. */
#include "objects/db_slot.h"

#include <errno.h>
#include <stdlib.h>

#include "control/session_state.h"

int db_slot_alloc(struct session *sn, uint32_t *slot)
{
    uint32_t made = sn->slots_made ? sn->slots_made * 2 : 64;
    uint32_t *stack;

    if (!sn->free_slots) {
        if (made > DB_SLOTS)
            return -ENOMEM;
        stack = realloc(sn->free_slot, made * sizeof(*stack));
        if (!stack)
            return -ENOMEM;
        sn->free_slot = stack;
        for (uint32_t i = made; i > sn->slots_made; i--)
            sn->free_slot[sn->free_slots++] = i - 1;
        sn->slots_made = made;
    }
    *slot = sn->free_slot[--sn->free_slots];
    return 0;
}

void db_slot_free(struct session *sn, uint32_t slot)
{
    sn->free_slot[sn->free_slots++] = slot;
}
