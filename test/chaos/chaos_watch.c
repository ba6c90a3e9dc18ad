/* SPDX-License-Identifier: BSD-3-Clause */
/* The watcher of the port: its sniffers and flow rules, and the watcher itself, are created and
 * destroyed. Control thread. */
#include <string.h>

#include "chaos_raw.h"

#define ENTRIES 32
#define UNIT_   4608 /* any frame of the port */
#define RULES   4

/* At the start of the program's memory. */
struct watch_memory {
    uint8_t inbox[ENTRIES][UNIT_];
};
_Static_assert(sizeof(struct watch_memory) <= offsetof(struct memory, pool), "memory for it");

static struct watcher {
    struct program program;
    struct watch_memory *memory;
    struct test_qp qp;
    unsigned taken;
    uint32_t rule[RULES], theft; /* handles, or 0 */
} watcher;

static void give_entry(void)
{
    uint8_t *unit = watcher.memory->inbox[watcher.qp.recvs % ENTRIES];

    post_recv(&watcher.qp, va(&watcher.program, unit), UNIT_, watcher.program.mr.key);
}

static void modify(enum qp_state state, uint32_t mask)
{
    struct ctl_msg m = {.modify_qp = {.qpn = watcher.qp.layout.qpn,
                                      .mask = mask | QPA_STATE,
                                      .attr = {.state = state, .port_num = 1}}};

    program_call(&watcher.program, CTL_MODIFY_QP, m);
}

void watch_open(struct dataplane *dp)
{
    struct program *p = &watcher.program;
    struct ctl_msg m = {.create_qp = {.type = QPT_RAW_PACKET, .caps = {1, ENTRIES, 1, 1, 0}}};

    watcher = (struct watcher){.program.dp = dp};
    program_open(p);
    watcher.memory = (struct watch_memory *)p->memory;
    m.create_qp.pd = p->pd;
    m.create_qp.send_cq = m.create_qp.recv_cq = p->cq.handle;
    m = program_call(p, CTL_CREATE_QP, m);
    watcher.qp = (struct test_qp){.d = dp, .session = p->session, .layout = m.create_qp};
    watcher.qp.shared = qp_object_get(p->session, m.create_qp.qpn)->segment.base;
    modify(QPS_INIT, QPA_PORT);
    modify(QPS_RTR, 0);
    for (unsigned i = 0; i < ENTRIES; i++)
        give_entry();
}

void watch_close(void)
{
    watch_poll();
    program_close(&watcher.program);
}

void watch_poll(void)
{
    struct cq_reader *reader = &watcher.program.cq.reader;
    const struct cqe *e;

    for (; (e = cq_reader_peek(reader)); cq_reader_advance(reader)) {
        const uint8_t *unit = watcher.memory->inbox[watcher.taken % ENTRIES];

        require(e->status == WC_SUCCESS && e->opcode == WC_RECV);
        require(e->wr_id == watcher.taken++ && e->byte_len <= UNIT_);
        if (raw_is_frame(unit, e->byte_len)) {
            require(raw_is_whole(unit, e->byte_len));
            atomic_fetch_add(&raw_tally.watched, 1);
        }
        give_entry();
    }
}

static uint32_t add_rule(struct ctl_create_flow flow)
{
    struct ctl_msg m = {.create_flow = flow};

    m.create_flow.qpn = watcher.qp.layout.qpn;
    m.create_flow.port = 1;
    return program_call(&watcher.program, CTL_CREATE_FLOW, m).create_flow.handle;
}

static void remove_rule(uint32_t *rule)
{
    require(!kit_call_handle(watcher.program.session, CTL_DESTROY_FLOW, *rule));
    *rule = 0;
}

/* Two sniffers, and rules for unused ports before and behind the one that matters. */
static void change_rule(unsigned i)
{
    static const struct ctl_create_flow flow[RULES] = {
        {.type = FLOW_SNIFFER},
        {.type = FLOW_SNIFFER},
        {.match.headers = FLOW_HAS_UDP,
         .match.value = {.dport = 1},
         .match.mask = {.dport = 0xFFFF}},
        {.priority = 3, .drop = 1, .match.value = {.sport = 1}, .match.mask = {.sport = 0xFFFF}},
    };

    if (watcher.rule[i])
        remove_rule(&watcher.rule[i]);
    else
        watcher.rule[i] = add_rule(flow[i]);
    atomic_fetch_add(&raw_tally.watch_changes, 1);
}

void watch_steal(int flow)
{
    if (watcher.theft)
        remove_rule(&watcher.theft);
    else if (flow >= 0)
        watcher.theft =
            add_rule((struct ctl_create_flow){.priority = 1,
                                              .match.value = {.sport = htobe16(RAW_SOURCE + flow)},
                                              .match.mask = {.sport = 0xFFFF}});
    atomic_fetch_add(&raw_tally.thefts, flow >= 0);
}

void watch_disturb(struct random *r)
{
    struct dataplane *dp = watcher.program.dp;
    unsigned n = random_below(r, 40);

    if (n) {
        change_rule(n % RULES);
        return;
    }
    watch_close();
    watch_open(dp);
    atomic_fetch_add(&raw_tally.watch_ends, 1);
}
