/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of cm_states.def. */
#include "cm_state.h"

const struct cm_state_row cm_states[CM_STATE_COUNT] = {
#define CM_STATE(name, timer, waits, half_open, about) \
    [CM_##name] = {#name, CM_TIMER_##timer, waits, half_open},
#include "cm_states.def"
#undef CM_STATE
};

const struct cm_outcome_row cm_outcomes[CM_OUTCOME_COUNT] = {
#define CM_OUTCOME(name, next, sends, reports, about) \
    [CM_DO_##name] = {#name, CM_##next, CM_SEND_##sends, CM_EVENT_##reports},
#include "cm_states.def"
#undef CM_OUTCOME
};

const struct cm_input_row cm_inputs[CM_INPUT_COUNT] = {
#define CM_INPUT(name, kind, about, ...) [CM_IN_##name] = {#name, CM_##kind},
#include "cm_states.def"
#undef CM_INPUT
};

/* An input with an outcome too few or too many does not compile. */
#define CELLS(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                      \
    {                                                                                              \
        CM_DO_##a, CM_DO_##b, CM_DO_##c, CM_DO_##d, CM_DO_##e, CM_DO_##f, CM_DO_##g, CM_DO_##h,    \
            CM_DO_##i, CM_DO_##j, CM_DO_##k, CM_DO_##l, CM_DO_##m, CM_DO_##n, CM_DO_##o, CM_DO_##p \
    }
_Static_assert(CM_STATE_COUNT == 16, "a cell for each state");

const uint8_t cm_cells[CM_INPUT_COUNT][CM_STATE_COUNT] = {
#define CM_INPUT(name, kind, about, ...) [CM_IN_##name] = CELLS(__VA_ARGS__),
#include "cm_states.def"
#undef CM_INPUT
};

const char *cm_state_name(enum cm_state state)
{
    return state < CM_STATE_COUNT ? cm_states[state].name : "?";
}
