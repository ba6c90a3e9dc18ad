/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of ids. A communication ID is a secret permutation of a slot and of how many times that
 * was used: it is found without a search, and tells who guesses nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm_state.h"
#include "permute.h"

#define FIRST_SLOTS 64u
#define NO_SLOT     UINT32_MAX
#define ID_HALF     16 /* communication IDs have 32 bits */

int cm_ids_init(struct cm *cm)
{
    cm->slot_bits = (uint32_t)__builtin_ctz(pow2_at_least(cm->config.max_ids));
    cm->first_free = NO_SLOT;
    TAILQ_INIT(&cm->lingering);
    return 0;
}

void cm_ids_destroy(struct cm *cm)
{
    for (uint32_t i = 0; i < cm->slots_used; i++)
        if (cm->slot[i].id)
            cm_ids_free(cm->slot[i].id);
    free(cm->slot);
    cm_timers_free(&cm->timers);
}

static int grow(struct cm *cm)
{
    uint32_t slots = cm->slots ? min_of(cm->slots * 2, cm->config.max_ids) : FIRST_SLOTS;
    struct cm_slot *slot;

    if (cm->slots_used < cm->slots)
        return 0;
    slots = min_of(slots, cm->config.max_ids);
    slot = realloc(cm->slot, slots * sizeof(*slot));
    if (!slot)
        return -ENOMEM;
    memset(slot + cm->slots, 0, (slots - cm->slots) * sizeof(*slot));
    cm->slot = slot;
    cm->slots = slots;
    return 0;
}

/* Frees the id that has lingered longest. */
static bool reclaim(struct cm *cm)
{
    struct cm_id *id = TAILQ_FIRST(&cm->lingering);

    if (!id)
        return false;
    cm->counters.reclaimed++;
    cm_ids_free(id);
    return true;
}

static int take_slot(struct cm *cm, uint32_t *slot)
{
    if (cm->first_free != NO_SLOT) {
        *slot = cm->first_free;
        cm->first_free = cm->slot[*slot].next_free;
        return 0;
    }
    if (grow(cm))
        return -ENOMEM;
    *slot = cm->slots_used++;
    return 0;
}

static void give_slot(struct cm *cm, uint32_t slot)
{
    cm->slot[slot].id = NULL;
    cm->slot[slot].next_free = cm->first_free;
    cm->first_free = slot;
}

void cm_ids_renumber(struct cm_id *id)
{
    struct cm *cm = id->cm;

    do
        id->local_comm_id =
            permute_bits(cm->config.secret, ID_HALF,
                         ++cm->slot[id->slot].generation << cm->slot_bits | id->slot);
    while (!id->local_comm_id); /* 0 means that there is none */
}

struct cm_id *cm_ids_new(struct cm *cm, int *err)
{
    struct cm_id *id;

    if (cm->ids == cm->config.max_ids && !reclaim(cm)) {
        *err = -ENOSPC;
        return NULL;
    }
    id = calloc(1, sizeof(*id));
    *err = -ENOMEM;
    if (!id || cm_timers_reserve(&cm->timers, cm->ids + 1) || take_slot(cm, &id->slot)) {
        free(id);
        return NULL;
    }
    *err = 0;
    id->cm = cm;
    LIST_INIT(&id->requests);
    cm->slot[id->slot].id = id;
    cm_ids_renumber(id);
    cm->ids++;
    return id;
}

void cm_ids_free(struct cm_id *id)
{
    struct cm *cm = id->cm;
    struct cm_id *request;

    while ((request = LIST_FIRST(&id->requests))) {
        LIST_REMOVE(request, in_requests);
        request->listener = NULL;
    }
    cm_linger_end(id);
    cm_enter(id, CM_IDLE, 0);
    cm_ports_unbind(id);
    cm_user_leave(id);
    give_slot(cm, id->slot);
    cm->ids--;
    free(id);
}

bool cm_ids_give_up(struct cm_id *id)
{
    if (!id->lingers)
        return false;
    id->cm->counters.reclaimed++;
    cm_ids_free(id);
    return true;
}

struct cm_id *cm_ids_find(const struct cm *cm, uint32_t local_comm_id)
{
    uint32_t number = unpermute_bits(cm->config.secret, ID_HALF, local_comm_id);
    uint32_t slot = number & ((UINT32_C(1) << cm->slot_bits) - 1);
    struct cm_id *id = slot < cm->slots_used ? cm->slot[slot].id : NULL;

    return id && id->local_comm_id == local_comm_id ? id : NULL;
}
