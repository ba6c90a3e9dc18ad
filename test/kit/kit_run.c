/* SPDX-License-Identifier: BSD-3-Clause */
/* The nodes and the loop that moves the one clock from event to event. */
#include <stdlib.h>
#include <string.h>

#include "kit_internal.h"

/* So many turns of the loop at one instant are no work any more but a livelock. */
#define MAX_TURNS 100000
#define MR_SLOTS  1024

/* ---- nodes ---- */

static void on_cq_event(void *ctx, struct comp_queue *cq)
{
    ((struct kit_cq *)cq->owner)->events++;
}

static void on_cq_posted(void *ctx, struct comp_queue *cq)
{
    struct kit_cq *c = cq->owner;

    c->posted++;
    c->node->kit->posted = true;
}

static void on_async_event(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
    struct kit_node *n = ctx;

    if (n->events < KIT_EVENTS)
        n->event[n->events++] = (struct kit_event){
            .qp = qp ? qp_owner(qp) : NULL, .cq = cq ? cq->owner : NULL, .event = event};
}

static void on_srq_event(void *ctx, struct srq *srq, enum qp_event event)
{
    struct kit_node *n = ctx;

    if (n->events < KIT_EVENTS)
        n->event[n->events++] = (struct kit_event){.srq = srq_owner(srq), .event = event};
}

static void add_gid(struct kit_node *n, union gid gid, enum gid_type type, uint16_t vlan)
{
    struct gid_entry e = {.gid = gid, .type = (uint8_t)type, .valid = true, .vlan = vlan};

    memcpy(e.mac, n->port.mac, sizeof(e.mac));
    if (gid_table_add(&n->gids, &e) < 0)
        kit_fail("gid_table_add");
}

/* The order of enum kit_gid. */
static void address_node(struct kit_node *n)
{
    uint8_t host = (uint8_t)(n->index + 1);
    union gid v4 = gid_from_ipv4((const uint8_t[]){10, 0, 0, host});
    union gid v6 = {.raw = {0xfd, [15] = host}};

    memcpy(n->port.mac, (const uint8_t[]){2, 0, 0, 0, 0, host}, sizeof(n->port.mac));
    n->port.gids = &n->gids;
    add_gid(n, v4, GID_TYPE_ROCE_V2, VLAN_NONE);
    add_gid(n, v6, GID_TYPE_ROCE_V2, VLAN_NONE);
    add_gid(n, v4, GID_TYPE_ROCE_V1, VLAN_NONE);
    add_gid(n, v6, GID_TYPE_ROCE_V2, 5);
}

void kit_node_init(struct kit *k, unsigned index, struct qp_table *qps)
{
    struct kit_node *n = &k->node[index];
    uint64_t secret[2] = {random_next(&k->random), random_next(&k->random)};
    struct engine_config config;

    n->kit = k;
    n->index = index;
    n->qps = qps;
    n->lane = index % 2; /* so that both lanes are used */
    address_node(n);
    if (mr_table_init(&n->mrs, MR_SLOTS, secret))
        kit_fail("out of memory");
    for (unsigned i = 0; i < FRAME_BURST; i++)
        n->tx[i] = kit_alloc(KIT_FRAME_ROOM);
    n->srqs = srq_table_create();
    n->ahs = ah_table_create();
    if (!n->srqs || !n->ahs)
        kit_fail("out of memory");
    config = (struct engine_config){
        .port = &n->port,
        .mrs = &n->mrs,
        .qps = qps,
        .srqs = n->srqs,
        .ahs = n->ahs,
        .host = {n, on_cq_event, on_cq_posted, on_async_event, on_srq_event},
        .lane = n->lane,
        .max_inflight = k->config.max_inflight,
        .any_icrc = k->config.any_icrc,
        .entropy = k->config.entropy,
        .repath = k->config.repath,
    };
    n->engine = engine_create(&config);
    if (!n->engine)
        kit_fail("engine_create");
}

void kit_node_fini(struct kit_node *n)
{
    while (n->qp) {
        struct kit_qp *qp = n->qp;

        n->qp = qp->next;
        engine_qp_detach(n->engine, qp->qp);
        qp_free(qp->qp);
        free(qp->shared);
        free(qp->sq);
        free(qp->rq);
        free(qp);
    }
    engine_destroy(n->engine);
    kit_srq_fini(n);
    while (n->cq) {
        struct kit_cq *cq = n->cq;

        n->cq = cq->next;
        free(cq->cq.shared);
        free(cq);
    }
    kit_memory_fini(n);
    mr_table_fini(&n->mrs);
    for (unsigned i = 0; i < FRAME_BURST; i++)
        free(n->tx[i]);
}

unsigned kit_events(const struct kit_node *n, enum qp_event event)
{
    unsigned count = 0;

    for (unsigned i = 0; i < n->events; i++)
        count += n->event[i].event == event;
    return count;
}

uint64_t kit_drops(const struct kit_node *n)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < DROP_COUNT; i++)
        sum += counter_get(&engine_counters(n->engine)->drop[i]);
    return sum;
}

/* ---- the kit ---- */

struct kit *kit_create(const struct kit_config *config)
{
    struct kit *k = kit_alloc(sizeof(*k));
    const char *trace = getenv("KIT_TRACE");
    struct qp_table *qps = NULL;

    k->config = *config;
    k->trace = trace && *trace == '1';
    k->random.state = config->seed;
    k->now = k->start = 1 + random_below(&k->random, UINT32_MAX);
    k->nodes = config->nodes ? config->nodes : 2;
    if (k->nodes < 2 || k->nodes > KIT_NODES)
        kit_fail("a kit of %u nodes", k->nodes);
    k->wake = NS_NEVER;
    for (unsigned i = 0; i < k->nodes; i++) {
        if (!qps || !config->shared_qp_table)
            qps = qp_table_create();
        if (!qps)
            kit_fail("out of memory");
        kit_node_init(k, i, qps);
    }
    for (unsigned i = 0; i < k->nodes; i++)
        kit_link_init(k, i);
    return k;
}

void kit_destroy(struct kit *k)
{
    struct qp_table *tables[KIT_NODES] = {0};

    for (unsigned i = 0; i < k->nodes; i++) {
        kit_link_fini(&k->link[i]);
        kit_node_fini(&k->node[i]);
        if (!i || !k->config.shared_qp_table)
            tables[i] = k->node[i].qps;
    }
    for (unsigned i = 0; i < k->nodes; i++)
        if (tables[i])
            qp_table_destroy(tables[i]);
    free(k);
}

/* ---- the loop ---- */

/* Asks the engine for packets while the link takes them; returns how many it got. */
static unsigned pump(struct kit *k, struct kit_node *n)
{
    struct kit_link *l = &k->link[n->index];
    unsigned want = l->config.bps ? 1 : 1 + random_below(&k->random, FRAME_BURST), got;
    struct frame frame[FRAME_BURST];
    bool wanted = engine_wants_tx(n->engine);

    if (!kit_link_ready(l, k->now))
        return 0;
    /* The hint is believed nearly always, else a hint that is wrongly false would not show. */
    if (!wanted && random_below(&k->random, 16))
        return 0;
    for (unsigned i = 0; i < want; i++)
        frame[i] = (struct frame){.data = n->tx[i], .room = KIT_FRAME_ROOM};
    got = engine_tx(n->engine, frame, want, k->now);
    if (got > want)
        kit_fail("engine_tx filled %u of %u frames", got, want);
    if (got && !wanted)
        kit_fail("engine_tx filled %u frames though engine_wants_tx said no", got);
    for (unsigned i = 0; i < got; i++)
        kit_link_send(k, l, frame[i].data, frame[i].len);
    return got;
}

static bool run_timers(struct kit *k, struct kit_node *n)
{
    if (engine_next_timer(n->engine) > k->now)
        return false;
    engine_timers(n->engine, k->now);
    return true;
}

/* One turn at this instant; returns whether anything happened. */
static bool turn(struct kit *k)
{
    unsigned first = random_below(&k->random, k->nodes);
    bool busy = false;

    for (unsigned i = 0; i < k->nodes; i++)
        busy |= kit_link_deliver(k, &k->link[(i + first) % k->nodes]) != 0;
    for (unsigned i = 0; i < k->nodes; i++) {
        busy |= run_timers(k, &k->node[(i + first) % k->nodes]);
        busy |= pump(k, &k->node[(i + first) % k->nodes]) != 0;
    }
    return busy;
}

static ns_t next_event(const struct kit *k)
{
    ns_t next = k->wake;

    for (unsigned i = 0; i < k->nodes; i++) {
        const struct kit_link *l = &k->link[i];
        ns_t timer = engine_next_timer(k->node[i].engine), arrival = kit_link_next(l);

        next = min_of(next, min_of(timer, arrival));
        if (l->busy_until > k->now && engine_wants_tx(k->node[i].engine))
            next = min_of(next, l->busy_until);
    }
    return next;
}

enum kit_end kit_run(struct kit *k, bool (*done)(void *arg), void *arg, ns_t budget)
{
    ns_t deadline = k->now + budget, next;

    for (unsigned turns = 0; turns < MAX_TURNS; turns++) {
        if (k->wake <= k->now)
            k->wake = NS_NEVER;
        k->posted = false;
        if (done && done(arg))
            return KIT_DONE;
        /* Work that sends nothing may complete too. */
        if (turn(k) || k->posted)
            continue;
        next = next_event(k);
        if (next == NS_NEVER)
            return KIT_IDLE;
        if (next > deadline) {
            k->now = deadline;
            return KIT_BUDGET;
        }
        if (next > k->now) {
            k->now = next;
            turns = 0;
        }
    }
    return KIT_LIVELOCK;
}

void kit_settle(struct kit *k)
{
    static const char *const name[] = {"done", "idle", "still busy at the end", "in a livelock"};
    enum kit_end end = kit_run(k, NULL, NULL, 100 * NS_PER_SEC);

    if (end != KIT_IDLE)
        kit_fail("kit_settle: %s", name[end]);
}

void kit_wake_at(struct kit *k, ns_t at)
{
    k->wake = min_of(k->wake, at);
}
