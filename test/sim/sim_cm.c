/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two to four communication managers over a network that loses, repeats and reorders, with programs
 * that accept, refuse, hesitate, disconnect and end at random: sim_cm [--first N] [--seeds N].
 *
 * Events come to each program in an order that makes sense, and each is answered by a call that
 * succeeds. When the network is good again every attempt has ended: established at both ends or an
 * error at both. When the programs then disconnect, every end ends, and nothing is left: no id, no
 * timer, no message. A failure prints its seed; one seed always does the same.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm_internal.h"
#include "cm_kit.h"

#define PORT         7471
#define PROGRAMS_MAX 400
#define ATTEMPTS_MAX 24
#define FLOOD        200
#define DREQ_TIME    (150 * SEC) /* longer than all repetitions of a message */

static uint64_t seed;

#define REQUIRE(condition)                                                                        \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "seed %llu: %s:%d: not so: %s\n", (unsigned long long)seed, __FILE__, \
                    __LINE__, #condition);                                                        \
            abort();                                                                              \
        }                                                                                         \
    } while (0)

enum phase {
    ASKED,       /* active: a REQ or SIDR_REQ was sent */
    REQUESTED,   /* passive: one came */
    ACCEPTED,    /* passive: a REP was sent */
    RESPONDED,   /* active: it came */
    ESTABLISHED, /* both */
    ENDED,       /* an event or a call has ended it */
    OVER,        /* nothing of it can come any more */
};

/* What a program does next, and when. */
enum deed {
    NOTHING,
    ACCEPT,
    DELAY,
    ESTABLISH,
    REJECT,
    DISCONNECT,
    REPLY,
    DESTROY,
};

struct program {
    struct cm_id *id; /* NULL: destroyed */
    unsigned node;
    enum phase phase;
    bool active, datagram, peer, failed;
    bool asked_to_end; /* the peer's DREQ awaits an answer */
    enum deed deed;
    ns_t at;
};

struct world {
    struct cm_kit *k;
    struct random rng;
    struct program program[PROGRAMS_MAX];
    unsigned programs, attempts, managers;
    bool few_qpns; /* queue pairs come again: connections become stale */
    bool quiet;    /* the programs have no ideas of their own any more */
    unsigned next_qpn;
};

static struct world w;
static struct {
    unsigned long long attempts, established, failed, one_sided, mads, events;
} total;

static unsigned chance(unsigned percent)
{
    return random_below(&w.rng, 100) < percent;
}

/* Mostly milliseconds, sometimes as long as repetitions and MRAs take. */
static ns_t a_while(void)
{
    ns_t longest = MS << random_below(&w.rng, 18);

    return random_next(&w.rng) % longest;
}

static void plan(struct program *p, enum deed deed)
{
    p->deed = deed;
    p->at = w.k->now + a_while();
}

static struct program *find(const struct cm_id *id)
{
    for (unsigned i = 0; i < w.programs; i++)
        if (w.program[i].id == id)
            return &w.program[i];
    return NULL;
}

static struct program *new_program(unsigned node, struct cm_id *id, enum phase phase)
{
    struct program *p = &w.program[w.programs++];

    REQUIRE(w.programs < PROGRAMS_MAX);
    *p = (struct program){.id = id, .node = node, .phase = phase};
    cm_id_set_owner(id, p);
    return p;
}

/* ---- what programs do ---- */

static uint32_t a_qpn(void)
{
    return w.few_qpns ? 0x100 + random_below(&w.rng, 4) : 0x100 + w.next_qpn++;
}

/* The manager's and the program's view agree: what the phase allows succeeds. With few queue pairs
 * the manager may have begun to end a stale connection. */
static void must(int err)
{
    REQUIRE(!err || w.few_qpns);
}

static void accept_request(struct program *p)
{
    struct cm_conn_param conn = {.qpn = a_qpn()};

    if (p->phase != REQUESTED)
        return;
    must(cm_accept(p->id, &conn, NULL, (struct cm_private){"reply", 5}, w.k->now));
    p->phase = ACCEPTED;
}

static void establish(struct program *p)
{
    if (p->phase != RESPONDED)
        return;
    must(cm_establish(p->id, (struct cm_private){0}, w.k->now));
    p->phase = ESTABLISHED;
    total.established++;
}

static void reject(struct program *p)
{
    static const struct cm_private none = {0};

    if (p->phase > RESPONDED)
        return;
    must(cm_reject(p->id, CM_REJ_CONSUMER, none, none, w.k->now));
    p->phase = ENDED;
    p->failed = true;
}

static void disconnect(struct program *p)
{
    if (p->phase != ESTABLISHED && !p->asked_to_end)
        return;
    must(cm_disconnect(p->id, (struct cm_private){"bye", 3}, w.k->now));
    p->asked_to_end = false;
}

static void reply(struct program *p)
{
    struct cm_sidr_answer answer = {.status = (uint8_t)random_below(&w.rng, 4), .qpn = 7};

    if (p->phase != REQUESTED)
        return;
    must(cm_sidr_reply(p->id, &answer, w.k->now));
    p->phase = OVER;
}

static void destroy(struct program *p)
{
    struct cm_id *id = p->id;

    p->id = NULL;
    p->phase = OVER;
    cm_id_destroy(id, w.k->now);
}

static void act(struct program *p)
{
    enum deed deed = p->deed;

    p->deed = NOTHING;
    if (!p->id)
        return;
    switch (deed) {
    case ACCEPT:
        accept_request(p);
        break;
    case DELAY:
        cm_delay(p->id, (uint8_t)random_below(&w.rng, 26), w.k->now);
        plan(p, p->active ? ESTABLISH : ACCEPT);
        break;
    case ESTABLISH:
        establish(p);
        if (p->phase == ESTABLISHED && !w.quiet)
            plan(p, chance(60) ? DISCONNECT : chance(50) ? DESTROY : NOTHING);
        break;
    case REJECT:
        reject(p);
        break;
    case DISCONNECT:
        disconnect(p);
        break;
    case REPLY:
        reply(p);
        break;
    case DESTROY:
        destroy(p);
        break;
    case NOTHING:
        break;
    }
}

/* ---- events ---- */

static enum deed answer_to_request(const struct program *p)
{
    if (p->datagram)
        return chance(80) ? REPLY : DESTROY;
    return chance(70) ? ACCEPT : chance(30) ? DELAY : chance(50) ? REJECT : DESTROY;
}

static void on_request(const struct cm_event *e, unsigned node)
{
    struct program *p = find(e->id);

    if (e->listener) {
        REQUIRE(!p && find(e->listener));
        p = new_program(node, e->id, REQUESTED);
        p->datagram = e->type == CM_EVENT_SIDR_REQUEST;
    } else {
        REQUIRE(p && p->peer && p->phase == ASKED);
        p->phase = REQUESTED;
        p->active = false;
    }
    plan(p, answer_to_request(p));
    if (chance(25)) {
        p->at = w.k->now;
        act(p);
    }
}

static void end(struct program *p, bool failed)
{
    REQUIRE(p->phase < ENDED);
    p->phase = ENDED;
    p->failed = failed;
    total.failed += failed;
}

static void on_event(struct cm_kit_node *n, const struct cm_event *e)
{
    struct program *p = find(e->id);

    total.events++;
    switch (e->type) {
    case CM_EVENT_CONNECT_REQUEST:
    case CM_EVENT_SIDR_REQUEST:
        on_request(e, (unsigned)(n - n->kit->node));
        return;
    case CM_EVENT_CONNECT_RESPONSE:
        REQUIRE(p && p->active && p->phase == ASKED);
        p->phase = RESPONDED;
        plan(p, chance(70) ? ESTABLISH : chance(30) ? DELAY : chance(50) ? REJECT : DESTROY);
        return;
    case CM_EVENT_ESTABLISHED:
        REQUIRE(p && !p->active && p->phase == ACCEPTED);
        p->phase = ESTABLISHED;
        if (!w.quiet)
            plan(p, chance(40) ? DISCONNECT : chance(30) ? DESTROY : NOTHING);
        return;
    case CM_EVENT_REJECTED:
        REQUIRE(p);
        end(p, true);
        return;
    case CM_EVENT_UNREACHABLE:
        REQUIRE(p && (p->phase == ASKED || p->phase == ACCEPTED));
        end(p, true);
        return;
    case CM_EVENT_DISCONNECTED:
        REQUIRE(p && (p->phase == ESTABLISHED || (p->phase == ACCEPTED && e->by_peer)));
        end(p, false);
        p->asked_to_end = e->by_peer;
        if (e->by_peer)
            plan(p, chance(70) ? DISCONNECT : DESTROY);
        return;
    case CM_EVENT_TIMEWAIT_EXIT:
        REQUIRE(p && p->phase == ENDED);
        p->phase = OVER;
        return;
    case CM_EVENT_SIDR_REPLY:
        REQUIRE(p && p->datagram && p->phase == ASKED);
        p->phase = OVER;
        return;
    case CM_EVENT_COUNT:
        REQUIRE(false);
    }
}

/* ---- attempts ---- */

static void ask(unsigned from, unsigned to, bool datagram, bool peer)
{
    enum ip_cm_port_space ps = peer ? IP_CM_PS_NONE : datagram ? IP_CM_PS_UDP : IP_CM_PS_TCP;
    struct cm_id *id = cm_kit_bound(w.k, from, ps);
    struct cm_path path = cm_kit_path(w.k, from, to);
    struct cm_connect_param param = cm_kit_param(w.k, to, PORT);
    struct program *p = new_program(from, id, ASKED);

    p->active = true;
    p->datagram = datagram;
    p->peer = param.peer_to_peer = peer;
    param.conn.qpn = a_qpn();
    if (peer)
        param.service_id = 0x99;
    REQUIRE(!(datagram ? cm_sidr_request(id, &path, &param, w.k->now)
                       : cm_connect(id, &path, &param, w.k->now)));
    if (chance(10))
        plan(p, DESTROY);
    total.attempts++;
}

static void attempt(void)
{
    unsigned from = random_below(&w.rng, w.managers);
    unsigned to = (from + 1 + random_below(&w.rng, w.managers - 1)) % w.managers;

    if (w.attempts == 0 && chance(20)) {
        ask(from, to, false, true);
        cm_kit_run(w.k, chance(50) ? 0 : a_while());
        ask(to, from, false, true);
    } else {
        ask(from, to, chance(25), false);
    }
    w.attempts++;
}

/* REQs that say they come from many hosts: what they leave is bounded, and the others get through.
 */
static void flood(void)
{
    const struct cm_kit_node *n = &w.k->node[0];
    uint8_t mad[MAD_LEN];

    if (!n->sends || cm_kit_sent(w.k, 0, 0).message != CM_REQ)
        return;
    memcpy(mad, n->sent[0].mad, MAD_LEN);
    for (uint32_t i = 0; i < FLOOD; i++) {
        cm_msg_set(mad, CM_REQ_local_comm_id, random_next(&w.rng));
        cm_msg_set(mad, CM_REQ_local_qpn, random_next(&w.rng));
        mad[MAD_HEADER + random_below(&w.rng, CM_MSG_LEN)] ^= (uint8_t)random_next(&w.rng);
        cm_kit_rx(w.k, random_below(&w.rng, 2) * (CM_KIT_NODES - 1), 1, mad);
    }
}

/* ---- time ---- */

static struct program *next_deed(void)
{
    struct program *first = NULL;

    for (unsigned i = 0; i < w.programs; i++)
        if (w.program[i].deed != NOTHING && (!first || w.program[i].at < first->at))
            first = &w.program[i];
    return first;
}

static void run(ns_t time)
{
    ns_t stop = w.k->now + time;

    for (;;) {
        struct program *p = next_deed();
        ns_t next = min_of(p ? max_of(p->at, w.k->now) : NS_NEVER, cm_kit_next(w.k));

        if (next > stop)
            break;
        cm_kit_run(w.k, next > w.k->now ? next - w.k->now : 0);
        if (p && p->deed != NOTHING && p->at <= w.k->now)
            act(p);
    }
    cm_kit_run(w.k, stop - w.k->now);
}

/* Until no program has anything left to do, and all repetitions are over. */
static void run_to_rest(void)
{
    while (next_deed())
        run(100 * SEC);
    run(16 * DREQ_TIME);
}

/* ---- what must be so ---- */

/* Comm ids are their manager's own: those of a third one may be the same. */
static bool is_peer_of(const struct program *p, unsigned node)
{
    union gid gid = cm_kit_gid(w.k, node);

    return gid_eq(&cm_id_path(p->id)->dgid, &gid);
}

static const struct program *other_end(const struct program *p)
{
    for (unsigned i = 0; i < w.programs; i++) {
        const struct program *q = &w.program[i];

        if (q->id && is_peer_of(p, q->node) && q->id->local_comm_id == p->id->remote_comm_id &&
            q->id->remote_comm_id == p->id->local_comm_id)
            return q;
    }
    return NULL;
}

/* An end that gave up, and whose REJ was lost: its peer finds out by its data. */
static bool other_gave_up(const struct program *p)
{
    const struct program *q = other_end(p);

    return w.k->loss && (!q || q->failed);
}

/* Nothing is half done: established at both ends or ended at both. */
static void check_agreement(bool strict)
{
    for (unsigned i = 0; i < w.programs; i++) {
        const struct program *p = &w.program[i], *q;

        if (!p->id || p->phase == OVER || p->id->state == CM_LISTEN)
            continue;
        REQUIRE(p->phase == ESTABLISHED || p->phase == ENDED);
        if (p->phase != ESTABLISHED || !strict)
            continue;
        q = other_end(p);
        REQUIRE((q && q->phase == ESTABLISHED) || other_gave_up(p));
        total.one_sided += !q || q->phase != ESTABLISHED;
    }
}

static void check_nothing_is_left(void)
{
    for (unsigned n = 0; n < w.managers; n++) {
        const struct cm *cm = w.k->node[n].cm;

        REQUIRE(cm->ids == 0);
        REQUIRE(cm_next_timer(cm) == NS_NEVER);
        REQUIRE(!cm->by_remote_id.count && !cm->by_remote_qpn.count && !cm->by_service.count &&
                !cm->ports.count);
    }
    REQUIRE(w.k->flying == 0);
}

/* Programs find by their data that a connection is dead; here they all end it. */
static void disconnect_all(void)
{
    for (unsigned i = 0; i < w.programs; i++)
        if (w.program[i].id && w.program[i].phase == ESTABLISHED)
            disconnect(&w.program[i]);
    run_to_rest();
    for (unsigned i = 0; i < w.programs; i++) {
        const struct program *p = &w.program[i];

        REQUIRE(!p->id || p->phase >= ENDED || p->id->state == CM_LISTEN);
        REQUIRE(!p->id || p->id->state == CM_IDLE || p->id->state == CM_LISTEN);
    }
}

static void destroy_all(void)
{
    for (unsigned i = 0; i < w.programs; i++)
        if (w.program[i].id)
            destroy(&w.program[i]);
    run(16 * DREQ_TIME);
}

/* ---- a seed ---- */

static void listen_everywhere(void)
{
    for (unsigned n = 0; n < w.managers; n++)
        for (unsigned i = 0; i < 2; i++)
            new_program(n,
                        cm_kit_listen(w.k, n, i ? IP_CM_PS_UDP : IP_CM_PS_TCP, PORT,
                                      random_below(&w.rng, 5)),
                        OVER);
}

static void run_seed(void)
{
    bool flooded, strict;
    unsigned attempts;

    memset(&w, 0, sizeof(w));
    w.rng.state = seed * 77 + 5;
    w.managers = 2 + random_below(&w.rng, CM_KIT_NODES - 2);
    w.k = cm_kit_new_of(&(struct cm_config){.secret = {seed, 2, 3, seed}, .half_open = 64},
                        w.managers);
    w.k->rng.state = seed;
    w.k->v6 = chance(50);
    w.k->loss = chance(30) ? 0 : random_below(&w.rng, chance(50) ? 25 : 140);
    w.k->duplicates = random_below(&w.rng, 100);
    w.k->jitter = chance(20) ? 1 : MS << random_below(&w.rng, 14);
    w.few_qpns = chance(15);
    for (unsigned n = 0; n < w.managers; n++)
        w.k->node[n].on_event = on_event;
    flooded = chance(10);
    strict = w.k->loss <= 25 && w.k->jitter <= SEC && !w.few_qpns && !flooded;
    listen_everywhere();
    attempts = 1 + random_below(&w.rng, ATTEMPTS_MAX);
    for (unsigned i = 0; i < attempts; i++) {
        attempt();
        if (flooded && i == attempts / 2)
            flood();
        if (!strict && chance(5)) { /* nothing gets through for a while */
            unsigned loss = w.k->loss;

            w.k->loss = 256;
            run(a_while());
            w.k->loss = loss;
        }
        run(a_while());
    }
    w.quiet = true;
    run_to_rest();
    check_agreement(strict);
    w.k->loss = 0;
    disconnect_all();
    destroy_all();
    check_nothing_is_left();
    total.mads += w.k->sends;
    cm_kit_free(w.k);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"first", required_argument, NULL, 'f'}, {"seeds", required_argument, NULL, 's'}, {0}};
    unsigned long long first = 0, seeds = 100;
    int opt;

    while ((opt = getopt_long(argc, argv, "f:s:", options, NULL)) != -1) {
        if (opt == 'f')
            first = strtoull(optarg, NULL, 0);
        else if (opt == 's')
            seeds = strtoull(optarg, NULL, 0);
        else
            return 2;
    }
    for (seed = first; seed < first + seeds; seed++)
        run_seed();
    printf("%llu seeds passed: %llu attempts, %llu established, %llu failed, %llu one-sided; %llu "
           "MADs, %llu events\n",
           seeds, total.attempts, total.established, total.failed, total.one_sided, total.mads,
           total.events);
    return 0;
}
