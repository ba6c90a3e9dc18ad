/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor: the work that any RoCE in software must do. A message is copied into packets and out
 * of them, and a CRC is computed over each packet at both ends. The floor uses the same buffers,
 * path MTU, order of frames and functions as the traffic, and nothing else.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "encap.h"
#include "encap_layout.h"
#include "loop.h"
#include "pkt.h"

#define FRAMES FRAME_BURST
/* The headers before the payload of an RC packet over IPv4, from the network header on. */
#define HEADERS (IPV4_LEN + UDP_LEN + BTH_LEN)

bool floor_applies(const struct perf_options *o)
{
    if (o->client[0])
        return false;
    if (o->rate) /* the worker would be away when messages are due */
        return false;
    return o->floor && mode_has_engine(o->mode) && o->mode != MODE_ATOMIC;
}

ns_t thread_cpu_time(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}

/* The packets of a burst. All are built before the first is received, as when frames pass a port.
 */
struct burst {
    unsigned n;
    struct {
        uint8_t *to;
        uint32_t len;
    } packet[FRAMES];
    uint32_t wrong;
};

static uint8_t *frame_at(struct perf_thread *t, unsigned i)
{
    return t->floor_frames + (size_t)i * LOOP_ROOM;
}

static void receive_packets(struct perf_thread *t, struct burst *b)
{
    struct icrc_span span[FRAMES];

    for (unsigned i = 0; i < b->n; i++) {
        uint32_t len = b->packet[i].len;

        span[i] = (struct icrc_span){.bth = frame_at(t, i) + ETH_LEN + IPV4_LEN + UDP_LEN,
                                     .len = (uint16_t)(HEADERS + len + pkt_pad(len) + ICRC_LEN)};
    }
    if (t->perf->opt.icrc && b->n)
        b->wrong += icrc_verify_batch(ICRC_IPV4, span, b->n) != b->n;
    for (unsigned i = 0; i < b->n; i++)
        memcpy(b->packet[i].to, span[i].bth + BTH_LEN, b->packet[i].len);
    b->n = 0;
}

static void send_packet(struct perf_thread *t, struct burst *b, uint8_t *to, const uint8_t *from,
                        uint32_t len)
{
    uint8_t *l3 = frame_at(t, b->n) + ETH_LEN;

    if (t->perf->opt.icrc)
        icrc_seal_copy(ICRC_IPV4, l3, HEADERS, from, len);
    else
        memcpy(l3 + HEADERS, from, len);
    b->packet[b->n].to = to;
    b->packet[b->n++].len = len;
    if (b->n == FRAMES)
        receive_packets(t, b);
}

static void move_message(struct perf_thread *t, struct burst *b, uint8_t *to, const uint8_t *from)
{
    uint32_t size = (uint32_t)t->perf->size, mtu = (uint32_t)t->perf->opt.mtu;

    for (uint32_t at = 0; at < size || !at; at += mtu)
        send_packet(t, b, to + at, from + at, min_of(size - at, mtu));
}

/* Moves messages through the slots that the traffic uses, in the same order. */
static uint64_t move_messages(struct perf_thread *t, struct burst *b, struct cursor *c)
{
    const struct perf *p = t->perf;
    uint8_t *region = p->memory + 2 * p->half * t->index;
    uint64_t n = max_of(UINT64_C(65536) / max_of(p->size, UINT64_C(64)), UINT64_C(1));

    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t)cursor_next(c) * p->out_stride;
        uint8_t *from = region + at, *to = region + p->half + at;

        if (p->opt.mode == MODE_READ)
            move_message(t, b, from, to);
        else
            move_message(t, b, to, from);
    }
    receive_packets(t, b);
    return n;
}

double floor_measure(struct perf_thread *t, ns_t duration)
{
    const struct perf *p = t->perf;
    struct cursor c = {.end = max_of((uint32_t)min_of(p->out_slots, p->in_slots), 1u)};
    struct burst b = {0};
    ns_t began = thread_cpu_time(), now = began, deadline = worker_time() + 10 * duration;
    uint64_t messages = 0;

    if (!t->floor_frames)
        t->floor_frames = aligned_alloc(CACHE_LINE, round_up(FRAMES * LOOP_ROOM, CACHE_LINE));
    if (!t->floor_frames)
        return 0;
    memset(t->floor_frames, 0, FRAMES * LOOP_ROOM);
    do {
        messages += move_messages(t, &b, &c);
        now = thread_cpu_time();
    } while (now - began < duration && worker_time() < deadline);
    /* Detects a CRC that was not computed. */
    if (b.wrong)
        run_fail(t->perf, "the floor's CRCs do not match");
    return (double)messages * 1e9 / (double)max_of(now - began, UINT64_C(1));
}
