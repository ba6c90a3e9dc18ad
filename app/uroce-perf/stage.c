/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single stages of a packet's path, and the bare port: frames without an engine. The stage that a
 * mode measures is timed burst by burst. Its surroundings are not timed, such as the sender of the
 * frames that rx-only receives.
 */
#include "meter.h"

#include <net/ethernet.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"
#include "pkt.h"

#define HEAD  96 /* bytes at the start of each frame that are written: all its headers */
#define TURNS 16 /* between two looks at the clock */

struct stage {
    struct perf_thread *t;
    unsigned mode;
    bool sends, receives; /* of two threads each has one of these roles */
    struct pktio *out, *in;
    unsigned queue;
    const struct encap_port *port; /* the port that frames arrive at */
    struct encap_template template;
    struct pkt pkt;
    uint32_t payload, len; /* of a frame */
    uint8_t frame[LOOP_ROOM];
    uint8_t *frames; /* a burst of frames, for ICRCs */
    uint8_t *buffer; /* payloads */
    uint64_t at;
    uint64_t busy; /* TSC */
};

/* ---- the frame ---- */

/* Makes the frame of a one-packet WRITE from the first port to queue pair 0x11 on the last. */
static void make_packet(struct stage *s, const struct perf *p, const uint8_t dmac[6])
{
    unsigned last = p->ports->count - 1;
    struct address_vector av = {.sgid = perf_ports_address(p->ports, 0),
                                .dgid = perf_ports_address(p->ports, last),
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = VLAN_NONE,
                                .hop_limit = 64,
                                .udp_sport = 0xC000};
    size_t off, bth_len;

    memcpy(av.smac, p->ports->info[0].mac, 6);
    memcpy(av.dmac, dmac, 6);
    encap_template_make(&s->template, &av);
    s->pkt = (struct pkt){.opcode = OPCODE(PKT_RC, OP_WRITE_ONLY),
                          .pkey = PKEY_DEFAULT,
                          .dest_qpn = 0x11,
                          .reth = {.va = 4096, .rkey = 1, .len = s->payload},
                          .payload_len = s->payload};
    bth_len = pkt_len(s->pkt.opcode, s->payload);
    off = encap_tx(s->frame, &s->template, bth_len, 0);
    off += pkt_build_headers(s->frame + off, &s->pkt);
    pkt_build_pad(s->frame + off, s->payload);
    s->len = (uint32_t)encap_seal(s->frame, &s->template, bth_len);
}

/* Makes a frame of p->size bytes that is neither RoCE nor addressed to its sender; a port would
 * keep the latter inside. */
static void make_frame(struct stage *s, const struct perf *p)
{
    static const uint8_t unused_mac[6] = {2, 0, 0, 0, 0xFF, 0xFF};
    bool to_peer = p->ports->count > 1 && s->mode != MODE_IO;
    struct ether_header eth = {.ether_type = htons(0x88B5)}; /* for local experiments */

    memcpy(eth.ether_dhost, to_peer ? p->ports->info[1].mac : unused_mac, ETH_ALEN);
    memcpy(eth.ether_shost, p->ports->info[0].mac, ETH_ALEN);
    memcpy(s->frame, &eth, sizeof(eth));
    s->len = (uint32_t)p->size;
}

/* ---- the steps; each returns its number of frames ---- */

static unsigned send_burst(struct stage *s)
{
    struct frame f[FRAME_BURST];
    unsigned n = s->out->ops->tx_lend(s->out, s->queue, f, FRAME_BURST);

    for (unsigned i = 0; i < n; i++) {
        memcpy(f[i].data, s->frame, min_of(s->len, (uint32_t)HEAD));
        f[i].len = s->len;
    }
    if (n)
        pktio_send(s->out, s->queue, f, n, n);
    return n;
}

static void parse_frame(struct stage *s, const struct frame *f)
{
    struct encap_view v;
    struct pkt p;

    if (encap_rx(&v, f->data, f->len, s->port) == DROP_NONE &&
        pkt_parse(&p, v.bth, v.bth_len) == DROP_NONE)
        counter_inc(&s->t->stats.received);
}

static unsigned receive_burst(struct stage *s)
{
    struct frame f[FRAME_BURST];
    unsigned n = s->in->ops->rx_burst(s->in, s->queue, f, FRAME_BURST);

    for (unsigned i = 0; i < n && s->mode == MODE_PARSE; i++)
        parse_frame(s, &f[i]);
    if (n)
        s->in->ops->rx_release(s->in, s->queue, f, n);
    if (s->mode != MODE_PARSE)
        counter_add(&s->t->stats.received, n);
    return n;
}

/* Sends received frames as copies: a frame belongs to its port. */
static unsigned forward_burst(struct stage *s)
{
    struct frame in[FRAME_BURST], out[FRAME_BURST];
    unsigned n = s->in->ops->rx_burst(s->in, s->queue, in, FRAME_BURST), lent, used = 0;

    if (!n)
        return 0;
    lent = s->out->ops->tx_lend(s->out, s->queue, out, n);
    for (unsigned i = 0; i < lent; i++) {
        if (in[i].len > out[used].room)
            continue;
        memcpy(out[used].data, in[i].data, in[i].len);
        out[used++].len = in[i].len;
    }
    if (lent)
        pktio_send(s->out, s->queue, out, lent, used);
    s->in->ops->rx_release(s->in, s->queue, in, n);
    counter_add(&s->t->stats.received, n);
    return used;
}

static unsigned icrc_burst(struct stage *s)
{
    size_t l3_len = s->len - s->template.l3_off;

    for (unsigned i = 0; i < FRAME_BURST; i++) {
        uint8_t *l3 = s->frames + i * LOOP_ROOM + s->template.l3_off;

        icrc_seal((enum icrc_l3)s->template.l3_kind, l3, l3_len - ICRC_LEN);
    }
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        const uint8_t *l3 = s->frames + i * LOOP_ROOM + s->template.l3_off;

        if (!icrc_verify((enum icrc_l3)s->template.l3_kind, l3, l3_len))
            run_fail(s->t->perf, "an ICRC that was just computed does not match");
    }
    return FRAME_BURST;
}

static void build_packet(struct stage *s, struct frame *f)
{
    size_t bth_len = pkt_len(s->pkt.opcode, s->payload);
    size_t off = encap_tx(f->data, &s->template, bth_len, (uint16_t)s->pkt.psn.v);

    s->pkt.psn = psn_add(s->pkt.psn, 1);
    off += pkt_build_headers(f->data + off, &s->pkt);
    memcpy(f->data + off, s->buffer + s->at, s->payload);
    pkt_build_pad(f->data + off, s->payload);
    f->len = s->len;
    s->at += round_up(s->payload, CACHE_LINE);
    if (s->at + s->payload > s->t->perf->opt.buffer)
        s->at = 0;
}

static unsigned build_burst(struct stage *s)
{
    struct frame f[FRAME_BURST];
    unsigned n = s->out->ops->tx_lend(s->out, s->queue, f, FRAME_BURST);

    for (unsigned i = 0; i < n; i++)
        build_packet(s, &f[i]);
    if (n)
        s->out->ops->tx_burst(s->out, s->queue, f, n, 0);
    return n;
}

/* ---- timing ---- */

static void timed(struct stage *s, unsigned (*step)(struct stage *s))
{
    uint64_t began = ticks_now();
    unsigned n = step(s);

    if (!n)
        return;
    s->busy += ticks_now() - began;
    counter_add(&s->t->stats.messages, n);
    counter_add(&s->t->stats.bytes, n * s->t->perf->size);
}

/* Both halves are timed. A frame counts when it arrives. */
static unsigned round_trip(struct stage *s)
{
    if (s->sends)
        send_burst(s);
    return s->receives ? receive_burst(s) : 0;
}

static void run_step(struct stage *s)
{
    switch (s->mode) {
    case MODE_TX_ONLY:
        if (s->sends)
            timed(s, send_burst);
        if (s->receives)
            receive_burst(s);
        break;
    case MODE_RX_ONLY:
    case MODE_PARSE:
        if (s->sends)
            send_burst(s);
        if (s->receives)
            timed(s, receive_burst);
        break;
    case MODE_LOOP:
        timed(s, round_trip);
        break;
    case MODE_IO:
        timed(s, forward_burst);
        break;
    case MODE_ICRC:
        timed(s, icrc_burst);
        break;
    default:
        timed(s, build_burst);
    }
}

/* ---- running ---- */

/* Of two ports the first sends to the second: both on one thread, or each on its own. */
static void choose_roles(struct stage *s, const struct perf *p)
{
    const struct perf_ports *ports = p->ports;
    bool pair = ports->count == 2, split = pair && p->threads == 2;
    unsigned index = s->t->index, back = split && index && s->mode == MODE_IO;

    s->out = perf_ports_io(ports, back);
    s->in = perf_ports_io(ports, pair && !back);
    if (s->mode == MODE_IO && pair) { /* each port sends what the other receives */
        s->out = perf_ports_io(ports, !back);
        s->in = perf_ports_io(ports, back);
    }
    s->queue = pair ? 0 : index;
    s->sends = !split || !index || s->mode == MODE_IO;
    s->receives = !split || index || s->mode == MODE_IO;
    /* A single port with a peer elsewhere: the peer sends the frames. */
    if (ports->devices == 1 && s->mode == MODE_RX_ONLY)
        s->sends = false;
}

static int prepare_stage(struct stage *s)
{
    const struct perf *p = s->t->perf;
    const struct perf_ports *ports = p->ports;
    bool packets = mode_has_packets(s->mode);

    choose_roles(s, p);
    s->port = rnic_device_encap(ports->rnic, ports->count - 1);
    s->payload = packets ? (uint32_t)p->size : 0;
    s->frames = calloc(FRAME_BURST, LOOP_ROOM);
    s->buffer = calloc(1, p->opt.buffer + p->size);
    if (!s->frames || !s->buffer)
        return -1;
    if (packets)
        make_packet(s, p, ports->info[ports->count - 1].mac);
    else
        make_frame(s, p);
    for (unsigned i = 0; i < FRAME_BURST; i++)
        memcpy(s->frames + i * LOOP_ROOM, s->frame, s->len);
    /* The frames that circulate. */
    for (uint64_t sent = 0; s->mode == MODE_IO && sent < p->opt.depth;) {
        unsigned n = send_burst(s);

        if (!n)
            break;
        sent += n;
    }
    return 0;
}

static void account_time(struct stage *s, ns_t *last, uint64_t *busy)
{
    ns_t now = worker_time();
    uint64_t ns = (uint64_t)((double)(s->busy - *busy) * 1e9 / tsc_hz());
    bool solo = s->sends != s->receives || s->mode == MODE_IO || s->mode == MODE_LOOP;

    counter_add(&s->t->stats.active_cpu_ns, ns);
    counter_add(&s->t->stats.active_ns, solo ? now - *last : ns);
    *busy = s->busy;
    *last = now;
}

static void receive_rest(struct stage *s)
{
    for (unsigned i = 0; i < 64 && s->receives; i++)
        receive_burst(s);
}

/* Whether this thread's frames count; else it only serves another thread. */
static bool is_measured(const struct stage *s)
{
    return s->mode == MODE_TX_ONLY ? s->sends : s->receives;
}

/* The number of frames for this thread. The first threads get one more. */
static uint64_t frame_quota(const struct stage *s)
{
    const struct perf *p = s->t->perf;
    uint64_t threads = s->sends && s->receives ? p->threads : 1;

    if (!p->opt.messages || !is_measured(s))
        return UINT64_MAX;
    return p->opt.messages / threads + (s->t->index < p->opt.messages % threads);
}

static void run_measurement(struct stage *s)
{
    const struct perf *p = s->t->perf;
    uint64_t left = frame_quota(s), busy = 0, progress = 0;
    ns_t last = worker_time(), progressed = last;

    do {
        meter_check_clear(s->t);
        for (unsigned i = 0; i < TURNS; i++)
            run_step(s);
        account_time(s, &last, &busy);
        if (progress != counter_get(&s->t->stats.messages)) {
            progress = counter_get(&s->t->stats.messages);
            progressed = last;
            continue;
        }
        sched_yield();
        if (left != UINT64_MAX && last - progressed > STALL)
            run_fail(s->t->perf, "no frame for %u s", (unsigned)(STALL / NS_PER_SEC));
    } while (!atomic_load_explicit(&p->stop, memory_order_relaxed) &&
             counter_get(&s->t->stats.messages) < left);
}

void stage_run(struct perf_thread *t)
{
    struct stage *s = calloc(1, sizeof(*s));

    t->closed = true;
    if (s) {
        s->t = t;
        s->mode = t->perf->opt.mode;
    }
    if (!s || prepare_stage(s)) {
        run_fail(t->perf, "out of memory");
    } else {
        if (!is_measured(s))
            atomic_fetch_add(&t->perf->finished, 1);
        thread_ready(t);
        run_measurement(s);
        receive_rest(s);
        if (is_measured(s))
            atomic_fetch_add(&t->perf->finished, 1);
    }
    if (s) {
        free(s->frames);
        free(s->buffer);
    }
    free(s);
}
