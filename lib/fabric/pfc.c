/* SPDX-License-Identifier: BSD-3-Clause */
/* Priority flow control (IEEE 802.1Q, 36): when a switch sends pause frames, and what these hold.
 */
#include <string.h>

#include "bytes.h"
#include "fabric_internal.h"

/* A MAC control frame (IEEE 802.3, 31 and annex 31D). */
#define PAUSE_TYPE    0x8808
#define PAUSE_OPCODE  0x0101
#define PAUSE_TYPE_AT 12
#define PAUSE_OP_AT   14
#define PAUSE_BITS_AT 16
#define PAUSE_TIME_AT 18
#define PAUSE_LEN     60

uint64_t pfc_limit(const struct node *s)
{
    const struct fabric_switch *c = &s->config;

    return c->xoff ? c->xoff : (c->buffer - min_of(s->shared, c->buffer)) / 8;
}

/* The pause frame waits for a whole frame before it, and reaches a sender that has just begun one;
 * between them lies the link, twice. */
uint64_t pfc_headroom(const struct port *in)
{
    uint64_t flight = (uint64_t)((unsigned __int128)in->bps * 2 * in->delay / (8 * NS_PER_SEC));

    return flight + 3 * (FABRIC_FRAME_ROOM + FABRIC_GAP);
}

static void send_pause(struct port *in, uint8_t priorities, uint16_t quanta)
{
    static const uint8_t group[6] = {0x01, 0x80, 0xC2, 0x00, 0x00, 0x01};
    struct fabric_frame *frame = fabric_frame_get(in->fabric);

    if (!frame)
        return;
    memset(frame->data, 0, PAUSE_LEN);
    memcpy(frame->data, group, sizeof(group));
    fabric_host_mac(in->node->number, frame->data + sizeof(group));
    put_be16(frame->data + PAUSE_TYPE_AT, PAUSE_TYPE);
    put_be16(frame->data + PAUSE_OP_AT, PAUSE_OPCODE);
    put_be16(frame->data + PAUSE_BITS_AT, priorities);
    for (unsigned i = 0; i < FABRIC_PRIORITIES; i++)
        if (priorities >> i & 1)
            put_be16(frame->data + PAUSE_TIME_AT + 2 * i, quanta);
    frame->len = PAUSE_LEN;
    frame->is_pause = true;
    frames_append(&in->control, frame);
    port_transmit(in);
}

/* A pause ends by itself unless it is renewed. */
static void refresh(void *object, uint64_t value)
{
    struct port *in = object;
    ns_t half = PAUSE_QUANTA * 512 * NS_PER_SEC / in->bps / 2;

    in->refresh_due = false;
    if (!in->pausing)
        return;
    if (value)
        send_pause(in, in->pausing, PAUSE_QUANTA);
    in->refresh_due = true;
    fabric_at(in->fabric, in->fabric->now + half, refresh, in, 1);
}

void pfc_pause(struct port *in, uint8_t priority)
{
    if (in->pausing >> priority & 1)
        return;
    in->pausing |= (uint8_t)(1 << priority);
    send_pause(in, (uint8_t)(1 << priority), PAUSE_QUANTA);
    if (!in->refresh_due)
        refresh(in, 0);
}

void pfc_resume(struct port *in, uint8_t priority)
{
    if (!(in->pausing >> priority & 1))
        return;
    in->pausing &= (uint8_t) ~(1 << priority);
    send_pause(in, (uint8_t)(1 << priority), 0);
}

void pfc_receive(struct port *p, struct fabric_frame *frame)
{
    uint16_t quanta[FABRIC_PRIORITIES];
    uint8_t priorities = (uint8_t)get_be16(frame->data + PAUSE_BITS_AT);

    for (unsigned i = 0; i < FABRIC_PRIORITIES; i++)
        quanta[i] = get_be16(frame->data + PAUSE_TIME_AT + 2 * i);
    fabric_frame_free(p->fabric, frame);
    port_pause(p, priorities, quanta);
}
