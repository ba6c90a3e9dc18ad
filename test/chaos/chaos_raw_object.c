/* SPDX-License-Identifier: BSD-3-Clause */
/* The raw application's objects, and the disturbances of them. Control thread. */
#include <string.h>

#include "chaos_raw.h"

#define SEND_ENTRIES 32
#define STEPS        12 /* of a phase */

/* enum ibv_rx_hash_function_flags */
#define HASH_TOEPLITZ 1

uint64_t raw_forward_full(struct dataplane *dp)
{
    struct device *d = dp->rnic->device[0];
    uint64_t n = 0;

    for (unsigned i = 0; i < d->parts; i++)
        n += counter_get(&engine_counters(d->port[i]->engine)->drop[DROP_forward_full]);
    return n;
}

/* ---- objects ---- */

static void modify_sender(struct raw_app *a, enum qp_state state, uint32_t mask)
{
    struct ctl_msg m = {.modify_qp = {.qpn = a->sender.layout.qpn,
                                      .mask = mask | QPA_STATE,
                                      .attr = {.state = state, .port_num = 1}}};

    program_call(&a->program, CTL_MODIFY_QP, m);
}

static void open_sender(struct raw_app *a)
{
    struct program *p = &a->program;
    struct ctl_msg m = {.create_qp = {.pd = p->pd,
                                      .send_cq = p->cq.handle,
                                      .recv_cq = p->cq.handle,
                                      .type = QPT_RAW_PACKET,
                                      .caps = {SEND_ENTRIES, 1, 1, 1, 0}}};

    m = program_call(p, CTL_CREATE_QP, m);
    a->sender = (struct test_qp){.d = p->dp, .session = p->session, .layout = m.create_qp};
    a->sender.shared = qp_object_get(p->session, m.create_qp.qpn)->segment.base;
    modify_sender(a, QPS_INIT, QPA_PORT);
    modify_sender(a, QPS_RTR, 0);
    modify_sender(a, QPS_RTS, 0);
}

static void modify_wq(struct raw_app *a, unsigned i, enum wq_state to)
{
    struct ctl_msg m = {.modify_wq = {.handle = a->wq[i].handle, .state = to}};

    require(program_call(&a->program, CTL_MODIFY_WQ, m).modify_wq.state == to);
}

static void open_wq(struct raw_app *a, unsigned i)
{
    struct program *p = &a->program;
    struct ctl_msg m = {.create_wq = {.pd = p->pd,
                                      .cq = p->cq.handle,
                                      .type = CTL_WQ_RQ,
                                      .max_wr = RAW_ENTRIES,
                                      .max_sge = 1,
                                      .uidx = i}};
    struct ctl_create_wq *w = &m.create_wq;

    m = program_call(p, CTL_CREATE_WQ, m);
    a->wq[i].handle = w->handle;
    a->wq[i].ring = (struct test_qp){
        .d = p->dp,
        .session = p->session,
        .shared = wq_object_get(p->session, w->handle)->segment.base,
        .layout = {.rq_size = w->size, .rq_stride = w->stride, .rq_off = w->rq_off}};
}

static struct ctl_msg table_message(struct raw_app *a)
{
    struct ctl_msg m = {.rwq_ind = {.handle = a->ind, .size = a->entries}};

    for (unsigned i = 0; i < RAW_WQS; i++)
        a->wq[i].uses = 0;
    for (unsigned i = 0; i < a->entries; i++) {
        m.rwq_ind.wq[i] = (uint16_t)a->wq[a->entry[i]].handle;
        a->wq[a->entry[i]].uses++;
    }
    return m;
}

static void open_rss(struct raw_app *a)
{
    struct ctl_msg m = {
        .create_qp = {.pd = a->program.pd,
                      .type = QPT_RAW_PACKET,
                      .rx_hash = {.function = HASH_TOEPLITZ,
                                  .fields = RX_HASH_SRC_IPV4 | RX_HASH_DST_IPV4 |
                                            RX_HASH_SRC_PORT_UDP | RX_HASH_DST_PORT_UDP,
                                  .ind = a->ind,
                                  .key_len = TOEPLITZ_KEY_LEN}}};

    memcpy(m.create_qp.rx_hash.key, toeplitz_key_microsoft, TOEPLITZ_KEY_LEN);
    a->rss_qp = program_call(&a->program, CTL_CREATE_QP, m).create_qp.qpn;
    rss_init_toeplitz(&a->rss, toeplitz_key_microsoft, RSS_ALL);
}

static void toggle_rule(struct raw_app *a)
{
    struct ctl_msg m = {.create_flow = {.qpn = a->rss_qp,
                                        .type = FLOW_NORMAL,
                                        .priority = 2,
                                        .port = 1,
                                        .match.headers = FLOW_HAS_IPV4 | FLOW_HAS_UDP,
                                        .match.value = {.dport = htobe16(a->port)},
                                        .match.mask = {.dport = 0xFFFF}}};

    if (a->rule) {
        require(!kit_call_handle(a->program.session, CTL_DESTROY_FLOW, a->rule));
        a->rule = 0;
    } else {
        a->rule = program_call(&a->program, CTL_CREATE_FLOW, m).create_flow.handle;
    }
    atomic_fetch_add(&raw_tally.rules, 1);
}

void raw_open(void *arg)
{
    struct raw_app *a = arg;

    watch_steal(-1); /* the one before may have been killed in a rough phase */
    program_open(&a->program);
    a->memory = (struct raw_memory *)a->program.memory;
    open_sender(a);
    for (unsigned i = 0; i < RAW_WQS; i++) {
        open_wq(a, i);
        modify_wq(a, i, WQS_RDY);
        a->entry[i] = (uint8_t)i;
    }
    a->entries = RAW_WQS;
    a->ind = program_call(&a->program, CTL_CREATE_RWQ_IND, table_message(a)).rwq_ind.handle;
    open_rss(a);
    toggle_rule(a);
    a->open = true;
}

void raw_close(void *arg)
{
    struct raw_app *a = arg;

    a->open = false;
    program_close(&a->program);
}

/* ---- work queues stop and start ---- */

static bool is_phase(const struct raw_app *a, enum raw_phase phase)
{
    return atomic_load(&a->wanted) == (int)phase && atomic_load(&a->phase) == (int)phase;
}

void raw_stop_wq(void *arg)
{
    struct raw_stop *s = arg;
    struct raw_app *a = s->app;
    unsigned i = random_below(&a->random, RAW_WQS);

    s->wq = -1;
    if (a->wq[i].uses && !is_phase(a, RAW_ROUGH))
        return;
    s->wq = (int)i;
    s->remake = s->remake && !a->wq[i].uses;
    atomic_store(&a->wq[i].usable, false);
    modify_wq(a, i, s->to_error ? WQS_ERR : WQS_RESET);
    atomic_fetch_add(s->to_error ? &raw_tally.flushed : &raw_tally.resets, 1);
}

void raw_reset_wq(void *arg)
{
    struct raw_stop *s = arg;

    modify_wq(s->app, (unsigned)s->wq, WQS_RESET);
}

void raw_ready_wq(void *arg)
{
    struct raw_stop *s = arg;
    unsigned i = (unsigned)s->wq;

    if (s->remake) {
        require(!kit_call_handle(s->app->program.session, CTL_DESTROY_WQ, s->app->wq[i].handle));
        open_wq(s->app, i);
        atomic_fetch_add(&raw_tally.remade, 1);
    }
    modify_wq(s->app, i, WQS_RDY);
}

/* ---- disturbances ---- */

/* Any size, and any of the queues that receive. */
static void change_table(struct raw_app *a, struct random *r)
{
    unsigned usable[RAW_WQS], n = 0, few;

    for (unsigned i = 0; i < RAW_WQS; i++)
        if (atomic_load(&a->wq[i].usable))
            usable[n++] = i;
    if (!n)
        return;
    a->entries = 1u << random_below(r, 8);
    few = random_below(r, n) + 1; /* so that some are in no table */
    for (unsigned i = 0, first = random_below(r, n); i < a->entries; i++)
        a->entry[i] = (uint8_t)usable[(first + random_below(r, few)) % n];
    program_call(&a->program, CTL_MODIFY_RWQ_IND, table_message(a));
    atomic_fetch_add(&raw_tally.tables, 1);
}

static void be_rough(struct raw_app *a, struct random *r)
{
    switch (random_below(r, 4)) {
    case 0:
        toggle_rule(a);
        break;
    case 1:
        watch_steal((int)random_below(r, RAW_FLOWS));
        break;
    default:
        change_table(a, r);
    }
}

static void next_phase(struct raw_app *a, struct random *r)
{
    if (!a->rule)
        toggle_rule(a);
    watch_steal(-1);
    a->steps = 0;
    atomic_store(&a->wanted, (atomic_load(&a->phase) + 1 + (int)random_below(r, 2)) % RAW_PHASES);
}

void raw_disturb(struct raw_app *a, struct random *r)
{
    int phase = atomic_load(&a->phase);

    if (!a->open || phase != atomic_load(&a->wanted) || raw_tally.finished < a->steady)
        return;
    a->steady = raw_tally.finished + random_below(r, RAW_WINDOW);
    if (++a->steps == STEPS)
        next_phase(a, r);
    else if (phase == RAW_TABLE)
        change_table(a, r);
    else if (phase == RAW_ROUGH)
        be_rough(a, r);
}

bool raw_may_move(const struct raw_app *a, const struct qp_object *q)
{
    return q->o.session != a->program.session || is_phase(a, RAW_TABLE) || is_phase(a, RAW_ROUGH);
}
