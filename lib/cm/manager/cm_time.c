/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of the specification's codes (12.7.4, 12.7.6, 12.7.32), rounded as the kernel rounds them.
 */
#include "cm_state.h"

/* Peers name times up to hours; the manager keeps state of theirs at most that long. */
#define ACK_CODE_MAX     22 /* 17 s */
#define SERVICE_CODE_MAX 26 /* 4.4 minutes */

#define MS_CODE 8 /* 4.096 us * 2^8 is about a millisecond */

ns_t cm_time_of(uint8_t code)
{
    return code <= MS_CODE ? NS_PER_MS * CM_TIME_MIN_MS : NS_PER_MS << (code - MS_CODE);
}

uint8_t cm_ack_timeout(uint8_t ack_delay, uint8_t packet_life_time)
{
    unsigned twice = packet_life_time + 1u, delay = ack_delay, sum;

    /* A code more doubles the time: the larger of both, rounded up if the other is at least half.
     */
    if (twice >= delay)
        sum = twice + (delay + 1 >= twice);
    else
        sum = delay + (twice + 1 >= delay);
    return (uint8_t)min_of(sum, 31u);
}

ns_t cm_time_in_state(const struct cm_id *id)
{
    uint8_t ack = min_of(id->ack_timeout, (uint8_t)ACK_CODE_MAX);

    switch (cm_states[id->state].timer) {
    case CM_TIMER_RESPONSE:
        return cm_time_of(id->response_timeout) +
               (id->state == CM_SIDR_REQ_SENT ? 0 : 2 * cm_time_of(id->path.packet_life_time));
    case CM_TIMER_SERVICE:
        return cm_time_of(min_of(id->service_timeout, (uint8_t)SERVICE_CODE_MAX)) + cm_time_of(ack);
    case CM_TIMER_TIMEWAIT:
        return cm_time_of(ack);
    default:
        return NS_NEVER;
    }
}
