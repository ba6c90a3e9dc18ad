/* SPDX-License-Identifier: BSD-3-Clause */
/* The nodes and the loop that moves the one clock from event to event. */
#include <stdlib.h>
#include <string.h>

#include "kit_internal.h"

/* More turns than this at one instant are a livelock. */
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
    struct kit_node *n = ((struct kit_engine *)ctx)->node;

    if (n->events < KIT_EVENTS)
        n->event[n->events++] = (struct kit_event){
            .qp = qp ? qp_owner(qp) : NULL, .cq = cq ? cq->owner : NULL, .event = event};
}

static void on_srq_event(void *ctx, struct srq *srq, enum qp_event event)
{
    struct kit_node *n = ((struct kit_engine *)ctx)->node;

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

static void start_engine(struct kit_node *n, unsigned index)
{
    const struct kit_config *c = &n->kit->config;
    struct kit_engine *p = &n->part[index];
    struct engine_config config = {
        .port = &n->port,
        .mrs = &n->mrs,
        .qps = n->qps,
        .srqs = n->srqs,
        .ahs = n->ahs,
        .host = {p, on_cq_event, on_cq_posted, on_async_event, on_srq_event},
        .lane = n->engines > 1 ? index : n->index % 2, /* so that both lanes are used */
        .max_inflight = c->max_inflight,
        .any_icrc = c->any_icrc,
        .entropy = c->entropy,
        .repath = c->repath,
        .congestion = c->congestion,
        .reorder = c->reorder,
        .trim_dscp = c->trim,
        .classes = c->classes,
    };

    if (n->engines > 1) {
        config.host.forward = kit_forward;
        config.host.misplaced = kit_misplaced;
    }
    *p = (struct kit_engine){.node = n, .index = index, .lane = config.lane};
    if (c->late || c->slow_nodes)
        kit_late_init(p, &config);
    p->engine = engine_create(&config);
    if (!p->engine)
        kit_fail("engine_create");
}

void kit_node_init(struct kit *k, unsigned index, struct qp_table *qps)
{
    struct kit_node *n = &k->node[index];
    uint64_t secret[2] = {random_next(&k->random), random_next(&k->random)};

    n->kit = k;
    n->index = index;
    n->qps = qps;
    n->engines = k->config.engines ? k->config.engines : 1;
    address_node(n);
    if (mr_table_init(&n->mrs, MR_SLOTS, secret))
        kit_fail("out of memory");
    for (unsigned i = 0; i < FRAME_BURST; i++)
        n->tx[i] = kit_alloc(KIT_FRAME_ROOM);
    n->srqs = srq_table_create(NULL);
    n->ahs = ah_table_create(NULL);
    if (!n->srqs || !n->ahs)
        kit_fail("out of memory");
    for (unsigned i = 0; i < n->engines; i++)
        start_engine(n, i);
    n->engine = n->part[0].engine;
}

void kit_node_fini(struct kit_node *n)
{
    while (n->qp)
        kit_qp_destroy(n->qp);
    for (unsigned i = 0; i < n->engines; i++) {
        kit_handed_fini(&n->part[i]);
        kit_late_fini(&n->part[i]);
        engine_destroy(n->part[i].engine);
    }
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

    for (unsigned p = 0; p < n->engines; p++)
        for (unsigned i = 0; i < DROP_COUNT; i++)
            sum += counter_get(&engine_counters(n->part[p].engine)->drop[i]);
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
    if (config->engines > KIT_ENGINES)
        kit_fail("nodes of %u engines", config->engines);
    k->engines_random.state = ~config->seed;
    k->late_random.state = config->seed * 31;
    k->wake = NS_NEVER;
    for (unsigned i = 0; i < k->nodes; i++) {
        if (!qps || !config->shared_qp_table)
            qps = qp_table_create(NULL);
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

/* Fetches packets from the engine while the link accepts them; returns how many. */
static unsigned pump(struct kit *k, struct kit_engine *p)
{
    struct kit_node *n = p->node;
    struct kit_link *l = &k->link[n->index];
    unsigned want = l->config.bps ? 1 : 1 + random_below(&k->random, FRAME_BURST), got;
    struct frame frame[FRAME_BURST];
    bool wanted = engine_wants_tx(p->engine);

    if (!kit_link_ready(l, k->now))
        return 0;
    /* The hint is trusted nearly always, else a wrong hint would go unnoticed. */
    if (!wanted && random_below(&k->random, 16))
        return 0;
    for (unsigned i = 0; i < want; i++)
        frame[i] = (struct frame){.data = n->tx[i], .room = KIT_FRAME_ROOM};
    kit_lend(p, frame, want);
    got = engine_tx(p->engine, frame, want, k->now);
    kit_late_check_sent(p, frame, min_of(got, want));
    kit_lend(p, NULL, 0);
    if (got > want)
        kit_fail("engine_tx filled %u of %u frames", got, want);
    if (got && !wanted)
        kit_fail("engine_tx filled %u frames though engine_wants_tx said no", got);
    for (unsigned i = 0; i < got; i++)
        if (!kit_comes_back(p, frame[i].data, frame[i].len))
            kit_link_send(k, l, frame[i].data, frame[i].len);
    return got;
}

static bool run_timers(struct kit *k, struct kit_engine *p)
{
    if (engine_next_timer(p->engine) > k->now)
        return false;
    engine_timers(p->engine, k->now);
    return true;
}

static bool run_engine(struct kit *k, struct kit_engine *p)
{
    bool busy = kit_handed_deliver(k, p) != 0;

    busy |= run_timers(k, p);
    busy |= kit_late_end(k, p);
    return (pump(k, p) != 0) | busy;
}

/* The engines of a node take turns, one of them the first. */
static bool run_node(struct kit *k, struct kit_node *n)
{
    unsigned first = n->engines > 1 ? random_below(&k->engines_random, n->engines) : 0;
    bool busy = kit_adopt_due(k, n) != 0;

    for (unsigned i = 0; i < n->engines; i++)
        busy |= run_engine(k, &n->part[(i + first) % n->engines]);
    return busy;
}

/* One turn at this instant; returns whether anything happened. */
static bool turn(struct kit *k)
{
    unsigned first = random_below(&k->random, k->nodes);
    bool busy = false;

    for (unsigned i = 0; i < k->nodes; i++)
        busy |= kit_link_deliver(k, &k->link[(i + first) % k->nodes]) != 0;
    for (unsigned i = 0; i < k->nodes; i++)
        busy |= run_node(k, &k->node[(i + first) % k->nodes]);
    return busy;
}

static ns_t next_of_node(const struct kit *k, const struct kit_node *n)
{
    const struct kit_link *l = &k->link[n->index];
    ns_t next = min_of(kit_link_next(l), kit_engines_next(n));

    for (unsigned i = 0; i < n->engines; i++) {
        ns_t timer = engine_next_timer(n->part[i].engine);
        ns_t late = kit_late_next(&n->part[i]);

        next = min_of(next, timer);
        next = min_of(next, late);
        if (l->busy_until > k->now && engine_wants_tx(n->part[i].engine))
            next = min_of(next, l->busy_until);
    }
    return next;
}

static ns_t next_event(const struct kit *k)
{
    ns_t next = k->wake;

    for (unsigned i = 0; i < k->nodes; i++) {
        ns_t of_node = next_of_node(k, &k->node[i]);

        next = min_of(next, of_node);
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
