/* SPDX-License-Identifier: BSD-3-Clause */
/* A host: its engine between the network and its flows. */
#include <errno.h>
#include <string.h>

#include "lab_internal.h"

/* More turns than this at one instant are a livelock. */
#define MAX_TURNS 1000000u

/* ---- what the engine tells ---- */

void site_list(struct end *e)
{
    if (e->listed)
        return;
    e->listed = true;
    e->next = e->site->ends;
    e->site->ends = e;
}

static void on_cq_posted(void *ctx, struct comp_queue *cq)
{
    site_list(cq->owner);
}

static void on_cq_event(void *ctx, struct comp_queue *cq)
{
    site_list(cq->owner);
}

static void on_async_event(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
}

/* ---- what rules tell ---- */

static void receive(struct site *s, struct fabric_frame *frame)
{
    struct frame f = {.data = frame->data, .len = frame->len, .icrc_omitted = frame->icrc_omitted};

    engine_rx(s->engine, &f, 1, lab_engine_time(s->lab));
    fabric_frame_free(s->lab->fabric, frame);
}

static void pass(void *host, enum inject_direction way, struct fabric_frame *frame)
{
    struct site *s = host;

    if (way == INJECT_RX)
        receive(s, frame);
    else
        fabric_send(s->lab->fabric, s->number, frame);
}

/* One that is on its way out is gone as if a network had lost it. */
static void drop(void *host, enum inject_direction way, struct fabric_frame *frame, uint32_t qpn)
{
    struct site *s = host;
    struct frame f = {.data = frame->data, .len = frame->len};

    if (way == INJECT_RX)
        engine_rx_dropped(s->engine, &f, DROP_fault_rule, qpn, lab_engine_time(s->lab));
    fabric_frame_free(s->lab->fabric, frame);
}

static void released(void *host)
{
    site_serve(host);
}

/* 0 or -ENOMEM */
static int set_rules(struct site *s)
{
    static const struct site_inject_ops ops = {pass, drop, released};
    const struct lab_spec *spec = s->lab->spec;
    struct inject_live *rule[LAB_RULES_MAX];
    unsigned n = 0;

    for (unsigned i = 0; i < spec->rules; i++)
        if (lab_name_matches(s->node->name, spec->rule[i].hosts))
            rule[n++] = &s->lab->rule[i];
    if (!n)
        return 0;
    s->inject = site_inject_create(s->lab->fabric, &ops, s, rule, n);
    return s->inject ? 0 : -ENOMEM;
}

/* ---- its life ---- */

static uint64_t line_of(const struct lab *lab, const struct lab_node *node)
{
    for (unsigned i = 0; i < lab->spec->links; i++) {
        const struct lab_link *l = &lab->spec->link[i];

        if (&lab->spec->node[l->a] == node || &lab->spec->node[l->b] == node)
            return l->config.bps;
    }
    return LAB_HOST_RATE; /* it has no link */
}

static void set_address(struct site *s)
{
    const uint8_t ip[4] = {10, 0, (uint8_t)((s->number + 1) >> 8), (uint8_t)(s->number + 1)};
    struct gid_entry e = {
        .gid = gid_from_ipv4(ip), .type = GID_TYPE_ROCE_V2, .vlan = VLAN_NONE, .valid = true};

    fabric_host_mac(s->number, s->port.mac);
    memcpy(e.mac, s->port.mac, sizeof(e.mac));
    gid_table_add(&s->gids, &e);
    s->port.gids = &s->gids;
}

int site_init(struct lab *lab, struct site *s, const struct lab_node *node)
{
    const struct lab_host *h = &node->host;
    struct engine_config config = {
        .port = &s->port,
        .mrs = &lab->mrs,
        .qps = lab->qps,
        .host = {s, on_cq_event, on_cq_posted, on_async_event},
        .max_inflight = h->window,
        .entropy = h->entropy,
        .repath = h->repath,
        .reorder = h->reorder,
        .trim_dscp = h->trim == LAB_TRIM_AUTO ? lab->trim : h->trim,
        .congestion = {.ect = h->ecn,
                       .cnp_interval = h->cnp,
                       .cnp_dscp = 48,
                       .cnp_pcp = 6,
                       .control = h->control,
                       .own_params = true,
                       .line = line_of(lab, node)},
    };

    memcpy(config.congestion.params, h->params, sizeof(h->params));
    s->lab = lab;
    s->node = node;
    s->number = node->number;
    s->timer = NS_NEVER;
    set_address(s);
    s->engine = engine_create(&config);
    return s->engine ? set_rules(s) : -ENOMEM;
}

void site_fini(struct site *s)
{
    site_inject_free(s->inject);
    if (s->engine)
        engine_destroy(s->engine);
}

/* ---- its turns ---- */

static void timer_fires(void *object, uint64_t value)
{
    struct site *s = object;

    if (s->timer != value) /* a later or an earlier one has taken its place */
        return;
    s->timer = NS_NEVER;
    engine_timers(s->engine, lab_engine_time(s->lab));
    site_serve(s);
}

static void plan_timer(struct site *s)
{
    ns_t next = engine_next_timer(s->engine);

    if (next >= s->timer)
        return;
    s->timer = next;
    fabric_at(s->lab->fabric, next > LAB_EPOCH ? next - LAB_EPOCH : 0, timer_fires, s, next);
}

/* Gives the port what it takes; false: nothing. */
static bool send_frames(struct site *s)
{
    struct lab *lab = s->lab;
    bool sent = false;

    while (engine_wants_tx(s->engine) && fabric_room(lab->fabric, s->number)) {
        struct fabric_frame *buffer = fabric_frame_get(lab->fabric);
        struct frame f = {.room = FABRIC_FRAME_ROOM, .icrc_omitted = !lab->hooks.frame};

        if (!buffer)
            return false;
        f.data = buffer->data;
        if (!engine_tx(s->engine, &f, 1, lab_engine_time(lab))) {
            fabric_frame_free(lab->fabric, buffer);
            return sent;
        }
        buffer->len = f.len;
        buffer->icrc_omitted = f.icrc_omitted;
        if (s->inject)
            site_inject_frame(s->inject, INJECT_TX, buffer);
        else
            fabric_send(lab->fabric, s->number, buffer);
        sent = true;
    }
    return sent;
}

static bool is_stuck(struct lab *lab)
{
    ns_t now = fabric_now(lab->fabric);

    lab->turns = lab->turn_at == now ? lab->turns + 1 : 0;
    lab->turn_at = now;
    lab->stuck |= lab->turns > MAX_TURNS;
    return lab->stuck;
}

/* Completions lead to new requests, and these to frames. */
void site_serve(struct site *s)
{
    bool busy = true;

    if (s->serving)
        return;
    s->serving = true;
    while (busy && !is_stuck(s->lab)) {
        busy = s->ends;
        while (s->ends) {
            struct end *e = s->ends;

            s->ends = e->next;
            e->listed = false;
            run_completions(e);
        }
        busy |= send_frames(s) && s->ends;
    }
    plan_timer(s);
    s->serving = false;
}

void site_deliver(void *ctx, unsigned host, struct fabric_frame *frame)
{
    struct lab *lab = ctx;
    struct site *s = &lab->site[host];

    if (s->inject)
        site_inject_frame(s->inject, INJECT_RX, frame);
    else
        receive(s, frame);
    site_serve(s);
}

void site_ready(void *ctx, unsigned host)
{
    struct lab *lab = ctx;

    if (engine_wants_tx(lab->site[host].engine))
        site_serve(&lab->site[host]);
}
