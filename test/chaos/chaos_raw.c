/* SPDX-License-Identifier: BSD-3-Clause */
/* The application that sends and receives raw packets. */
#include "chaos_raw.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "bytes.h"
#include "frame_layout.h"

#define ETH       14
#define IPV4      20
#define UDP       8
#define HEADERS   (ETH + IPV4 + UDP)
#define FRAME_MIN (HEADERS + 16) /* number, flow, seq */

/* A frame that does not arrive counts as lost: soon in phases in which frames may be lost. */
#define GIVE_UP       (1 * NS_PER_SEC)
#define GIVE_UP_ROUGH (20 * NS_PER_MS)

struct raw_tally raw_tally;

/* ---- frames ---- */

static void fill_headers(uint8_t *p, const struct raw_record *r)
{
    static const uint8_t macs[12] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9};

    memset(p, 0, HEADERS);
    memcpy(p, macs, sizeof(macs));
    put_be16(p + ETH_TYPE_OFF, ETHERTYPE_IPV4);
    p[ETH] = 0x45;
    put_be16(p + ETH + IPV4_TOTAL_OFF, (uint16_t)(r->len - ETH));
    p[ETH + IPV4_TTL_OFF] = 64;
    p[ETH + IPV4_PROTO_OFF] = IP_PROTO_UDP;
    put_be32(p + ETH + IPV4_SRC_OFF, 0x0A020000 | r->flow);
    put_be32(p + ETH + IPV4_DST_OFF, 0x0A030001);
    put_be16(p + ETH + IPV4, (uint16_t)(RAW_SOURCE + r->flow));
    put_be16(p + ETH + IPV4 + UDP_DPORT_OFF, r->port);
    put_be16(p + ETH + IPV4 + UDP_LENGTH_OFF, (uint16_t)(r->len - ETH - IPV4));
}

static void fill(uint8_t *p, const struct raw_record *r)
{
    fill_headers(p, r);
    put_be64(p + HEADERS, r->number);
    put_be32(p + HEADERS + 8, r->flow);
    put_be32(p + HEADERS + 12, r->seq);
    for (uint32_t i = FRAME_MIN; i < r->len; i++)
        p[i] = (uint8_t)(r->number * 37 + i * 7 + (i >> 8) * 3);
}

static struct raw_record read_record(const uint8_t *p, uint32_t len)
{
    return (struct raw_record){.number = get_be64(p + HEADERS),
                               .flow = get_be32(p + HEADERS + 8),
                               .seq = get_be32(p + HEADERS + 12),
                               .len = len,
                               .port = get_be16(p + ETH + IPV4 + UDP_DPORT_OFF)};
}

bool raw_is_frame(const uint8_t *p, uint32_t len)
{
    unsigned life = (unsigned)get_be16(p + ETH + IPV4 + UDP_DPORT_OFF) - RAW_PORT;

    return len >= FRAME_MIN && get_be16(p + ETH_TYPE_OFF) == ETHERTYPE_IPV4 &&
           p[ETH + IPV4_PROTO_OFF] == IP_PROTO_UDP && life < RAW_LIVES;
}

bool raw_is_whole(const uint8_t *p, uint32_t len)
{
    struct raw_record r = read_record(p, len);
    uint8_t want[RAW_UNIT];

    if (len > RAW_UNIT)
        return false;
    fill(want, &r);
    return !memcmp(p, want, len);
}

struct rss_tuple raw_tuple(const struct raw_record *r)
{
    const uint8_t src[4] = {10, 2, 0, (uint8_t)r->flow}, dst[4] = {10, 3, 0, 1};

    return (struct rss_tuple){.src = gid_from_ipv4(src),
                              .dst = gid_from_ipv4(dst),
                              .sport = (uint16_t)(RAW_SOURCE + r->flow),
                              .dport = r->port};
}

/* ---- sending ---- */

static enum raw_phase phase(const struct raw_app *a)
{
    return (enum raw_phase)atomic_load(&a->phase);
}

static struct raw_record *record_of(struct raw_app *a, uint64_t number)
{
    return &a->record[number % RAW_RECORDS];
}

static void finish_one(struct raw_app *a)
{
    a->finished++;
    atomic_fetch_add(&raw_tally.finished, 1);
}

/* Whether frames may be lost: by disturbances, or because a ring was full. */
static bool may_lose(const struct raw_app *a)
{
    return phase(a) == RAW_ROUGH || raw_forward_full(a->program.dp) != a->full;
}

static void give_up_one(struct raw_app *a, struct raw_record *r)
{
    r->state = RAW_GIVEN_UP;
    finish_one(a);
    atomic_fetch_add(&raw_tally.lost[phase(a)], 1);
}

static void send_next(struct raw_app *a)
{
    struct raw_record *r = record_of(a, a->sent);
    uint8_t *unit = a->memory->sent[a->sent % RAW_WINDOW];
    uint32_t flow = random_below(&a->random, RAW_FLOWS);

    /* Lost, while enough others arrived to keep the timeout from expiring. */
    if (a->sent >= RAW_RECORDS && r->state == RAW_SENT) {
        require(may_lose(a));
        give_up_one(a, r);
    }
    *r = (struct raw_record){.number = a->sent++,
                             .flow = flow,
                             .seq = a->next_seq[flow]++,
                             .len = FRAME_MIN + random_below(&a->random, RAW_UNIT - FRAME_MIN + 1),
                             .port = a->port};
    fill(unit, r);
    post_wr(
        &a->sender, (struct sqe){.opcode = SQE_SEND, .flags = SQE_SIGNALED},
        (struct sge){.addr = va(&a->program, unit), .length = r->len, .lkey = a->program.mr.key});
    atomic_fetch_add(&raw_tally.sent[phase(a)], 1);
}

static bool has_room(const struct raw_app *a)
{
    return a->sent < a->finished + RAW_WINDOW && a->sent < a->sends_done + RAW_WINDOW;
}

/* Sometimes at the worker that had the queue pair, or will have it. */
static void ring(struct raw_app *a)
{
    if (random_below(&a->random, 8))
        ring_bell(&a->sender);
    else
        ring_bell_on(&a->sender, random_below(&a->random, WORKERS));
}

static bool send_some(struct raw_app *a)
{
    unsigned n = random_below(&a->random, RAW_WINDOW) + 1;
    uint64_t before = a->sent;

    while (n-- && has_room(a))
        send_next(a);
    if (a->sent == before)
        return false;
    a->waits_since = worker_time();
    ring(a);
    return true;
}

/* ---- receiving ---- */

/* No byte was written behind the frame. */
static void check_unit(const uint8_t *unit, uint32_t len)
{
    require(len <= RAW_UNIT && raw_is_frame(unit, len) && raw_is_whole(unit, len));
    for (uint32_t i = len; i < RAW_UNIT; i++)
        require(unit[i] == NOT_WRITTEN);
}

/* Nothing migrates: the flow's frames arrive in order, on the queue that the table selects. */
static void check_still(struct raw_app *a, const struct raw_record *r, unsigned wq)
{
    struct rss_tuple t = raw_tuple(r);

    require(r->seq >= a->came[r->flow]);
    require(a->entry[rss_hash(&a->rss, &t) & (a->entries - 1)] == wq);
}

static void on_arrival(struct raw_app *a, unsigned wq, const uint8_t *unit, uint32_t len)
{
    struct raw_record came, *r;

    check_unit(unit, len);
    came = read_record(unit, len);
    r = record_of(a, came.number);
    if (came.number >= a->sent)
        fprintf(stderr,
                "frame %llu of flow %u arrived on queue %u: %llu were sent, %llu finished\n",
                (unsigned long long)came.number, came.flow, wq, (unsigned long long)a->sent,
                (unsigned long long)a->finished);
    require(came.port == a->port && came.number < a->sent);
    require(r->number == came.number);
    require(r->flow == came.flow && r->seq == came.seq);
    require(r->len == came.len);
    require(r->state == RAW_SENT || r->state == RAW_GIVEN_UP);
    if (phase(a) == RAW_STILL && came.number >= a->phase_began)
        check_still(a, r, wq);
    a->came[r->flow] = max_of(a->came[r->flow], r->seq + 1);
    if (r->state == RAW_SENT)
        finish_one(a);
    else
        atomic_fetch_add(&raw_tally.late, 1);
    r->state = RAW_ARRIVED;
    a->waits_since = worker_time();
}

static void give_entry(struct raw_app *a, unsigned i)
{
    struct raw_wq *w = &a->wq[i];
    uint8_t *unit = a->memory->inbox[i][w->ring.recvs % RAW_ENTRIES];

    memset(unit, NOT_WRITTEN, RAW_UNIT);
    post_recv(&w->ring, va(&a->program, unit), RAW_UNIT, a->program.mr.key);
}

static void give_entries(struct raw_app *a, unsigned i)
{
    for (unsigned n = 0; n < RAW_ENTRIES; n++)
        give_entry(a, i);
}

static void on_received(struct raw_app *a, const struct cqe *e)
{
    unsigned i = 0;
    struct raw_wq *w;

    while (a->wq[i].handle != e->qpn)
        require(++i < RAW_WQS);
    w = &a->wq[i];
    require(e->wr_id == w->taken && w->taken < w->ring.recvs && e->imm == 0);
    if (e->status == WC_SUCCESS)
        on_arrival(a, i, a->memory->inbox[i][w->taken % RAW_ENTRIES], e->byte_len);
    else
        require(w->ending && e->status == WC_WR_FLUSH_ERR);
    w->taken++;
    if (!w->ending)
        give_entry(a, i);
}

static bool poll_all(struct raw_app *a)
{
    struct cq_reader *reader = &a->program.cq.reader;
    const struct cqe *e;
    bool any = false;

    for (; (e = cq_reader_peek(reader)); any = true) {
        if (e->opcode == WC_RECV) {
            on_received(a, e);
        } else {
            require(e->status == WC_SUCCESS && e->opcode == WC_SEND);
            require(e->qpn == a->sender.layout.qpn &&
                    (uint32_t)e->wr_id == (uint32_t)a->sends_done);
            a->sends_done++;
        }
        cq_reader_advance(reader);
    }
    return any;
}

/* ---- what does not come ---- */

static void give_up(struct raw_app *a)
{
    for (uint64_t n = a->phase_began; n < a->sent; n++) {
        struct raw_record *r = record_of(a, n);

        if (r->number == n && r->state == RAW_SENT)
            give_up_one(a, r);
    }
}

static void tell(struct raw_app *a)
{
    fprintf(stderr, "raw packets, phase %d: %lu sent, %lu of them done, %lu finished\n", phase(a),
            a->sent, a->sends_done, a->finished);
    for (uint64_t n = a->sent - min_of(a->sent, 2 * (uint64_t)RAW_WINDOW); n < a->sent; n++)
        fprintf(stderr, "frame %lu of flow %u: state %d\n", n, record_of(a, n)->flow,
                record_of(a, n)->state);
    for (unsigned i = 0; i < RAW_WQS; i++)
        fprintf(stderr, "WQ %u: %u entries of the table, %u posted, %u completed\n", i,
                a->wq[i].uses, a->wq[i].ring.recvs, a->wq[i].taken);
}

/* In phases without loss no frame is lost, except when a ring was full. */
static void lose_patience(struct raw_app *a)
{
    ns_t waits = worker_time() - a->waits_since;

    if (a->finished == a->sent || waits < (phase(a) == RAW_ROUGH ? GIVE_UP_ROUGH : GIVE_UP))
        return;
    if (may_lose(a))
        give_up(a);
    else if (waits > TIMEOUT / 2) {
        tell(a);
        require(!"a frame that comes");
    }
}

/* ---- phases ---- */

/* Whether frames may be sent: not while the phase is changing. */
static bool follow_phase(struct raw_app *a)
{
    int wanted = atomic_load(&a->wanted);

    if (wanted == (int)phase(a))
        return true;
    if (a->finished != a->sent)
        return false;
    a->phase_began = a->sent;
    a->full = raw_forward_full(a->program.dp);
    atomic_fetch_add(&raw_tally.phases[wanted], 1);
    atomic_store(&a->phase, wanted);
    return true;
}

/* A work queue stops, with or without flushing its WQEs, and starts again. */
static void restart_wq(struct raw_app *a)
{
    struct raw_stop s = {
        .app = a, .to_error = random_below(&a->random, 2), .remake = !random_below(&a->random, 3)};
    struct raw_wq *w;

    control_ask(raw_stop_wq, &s);
    if (s.wq < 0)
        return;
    w = &a->wq[s.wq];
    w->ending = true;
    poll_all(a);
    require(!s.to_error || w->taken == w->ring.recvs);
    if (s.to_error)
        control_ask(raw_reset_wq, &s);
    w->ring.recvs = w->taken = 0;
    w->ending = false;
    control_ask(raw_ready_wq, &s);
    give_entries(a, (unsigned)s.wq);
    atomic_store(&w->usable, true);
}

/* ---- its life ---- */

static void wait_for_something(struct raw_app *a)
{
    struct pollfd p[] = {{.fd = a->wake, .events = POLLIN},
                         {.fd = a->program.cq.channel, .events = POLLIN}};
    uint64_t cookie;

    cq_arm(&a->program.cq);
    if (poll_all(a))
        return;
    poll(p, ARRAY_SIZE(p), phase(a) == RAW_ROUGH ? 20 : 100);
    while (recv(p[1].fd, &cookie, sizeof(cookie), MSG_DONTWAIT) > 0)
        ;
}

static void live(struct raw_app *a)
{
    while (!atomic_load(&a->killed)) {
        bool closing = atomic_load(&closing_time), any;

        if (closing && a->finished == a->sent)
            return;
        any = follow_phase(a) && !closing && send_some(a);
        any |= poll_all(a);
        if (!random_below(&a->random, 64))
            restart_wq(a);
        lose_patience(a);
        if (!any)
            wait_for_something(a);
        else if (!random_below(&a->random, 4))
            sched_yield();
    }
}

void *raw_run(void *arg)
{
    struct raw_app *a = arg;

    control_ask(raw_open, a);
    a->waits_since = worker_time();
    a->full = raw_forward_full(a->program.dp);
    for (unsigned i = 0; i < RAW_WQS; i++) {
        give_entries(a, i);
        atomic_store(&a->wq[i].usable, true);
    }
    live(a);
    if (!atomic_load(&a->killed))
        control_ask(raw_close, a);
    atomic_store(&a->ended, true);
    return NULL;
}
