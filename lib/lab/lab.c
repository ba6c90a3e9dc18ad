/* SPDX-License-Identifier: BSD-3-Clause */
/* A laboratory is built, runs, and is looked at. See lab.h. */
#include "lab.h"

#include <errno.h>
#include <stdlib.h>

#include "encap_layout.h"
#include "lab_internal.h"
#include "pkt.h"

const char *const lab_counter_name[LAB_COUNTERS] = {
#define X(name) #name,
    QP_COUNTERS(X)
#undef X
};

/* ---- building ---- */

static int add_node(struct lab *lab, const struct lab_node *n)
{
    int number =
        n->is_switch ? fabric_add_switch(lab->fabric, &n->sw) : fabric_add_host(lab->fabric);

    return number < 0 ? number : 0;
}

static unsigned fabric_number(const struct lab_node *n)
{
    return n->is_switch ? FABRIC_HOSTS_MAX + n->number : n->number;
}

static void tap(void *ctx, unsigned port, const uint8_t *data, uint32_t len)
{
    struct lab *lab = ctx;

    lab->hooks.frame(lab->hooks.ctx, port, data, len, fabric_now(lab->fabric));
}

static int build_network(struct lab *lab)
{
    const struct lab_spec *spec = lab->spec;
    struct fabric_hooks hooks = {lab, site_deliver, site_ready, NULL};
    int err = 0;

    if (lab->hooks.frame)
        hooks.tap = tap;
    lab->fabric = fabric_create(spec->seed, spec->converge, &hooks);
    if (!lab->fabric)
        return -ENOMEM;
    for (unsigned i = 0; i < spec->nodes && !err; i++)
        err = add_node(lab, &spec->node[i]);
    for (unsigned i = 0; i < spec->links && err >= 0; i++) {
        const struct lab_link *l = &spec->link[i];

        err = fabric_add_link(lab->fabric, fabric_number(&spec->node[l->a]),
                              fabric_number(&spec->node[l->b]), &l->config);
    }
    return err < 0 ? err : 0;
}

/* All hosts share the bytes: what is written is not read. */
static int build_memory(struct lab *lab)
{
    const struct lab_spec *spec = lab->spec;
    uint64_t secret[2] = {spec->seed, ~spec->seed};
    uint32_t most = 1;

    for (unsigned i = 0; i < spec->flows; i++)
        most = max_of(most, (uint32_t)min_of(spec->flow[i].size, (uint64_t)spec->flow[i].message));
    lab->bytes = calloc(2, most);
    lab->qps = qp_table_create(secret);
    if (!lab->bytes || !lab->qps || mr_table_init(&lab->mrs, 16, secret))
        return -ENOMEM;
    for (unsigned i = 0; i < 2; i++) {
        struct mem_region *mr = i ? &lab->sink : &lab->source;

        *mr = (struct mem_region){
            .bound = true,
            .pd = LAB_PD,
            .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ,
            .iova = (uint64_t)(i + 1) << 32,
            .addr = (uintptr_t)lab->bytes + i * most,
            .len = most,
            .direct = lab->bytes + i * most,
            .backend = &mem_null_backend,
        };
        if (mr_insert(&lab->mrs, mr, (uint8_t)i))
            return -ENOMEM;
    }
    return 0;
}

static int build_rules(struct lab *lab)
{
    const struct lab_spec *spec = lab->spec;

    lab->rule = calloc(spec->rules + 1, sizeof(*lab->rule));
    for (unsigned i = 0; lab->rule && i < spec->rules; i++)
        lab->rule[i].rule = spec->rule[i].rule;
    return lab->rule ? 0 : -ENOMEM;
}

static int build_hosts(struct lab *lab)
{
    const struct lab_spec *spec = lab->spec;
    int err = build_rules(lab);

    for (unsigned i = 0; i < spec->nodes && !lab->trim; i++)
        if (spec->node[i].is_switch)
            lab->trim = spec->node[i].sw.trim;
    lab->site = calloc(spec->hosts + 1, sizeof(*lab->site));
    if (!lab->site)
        return -ENOMEM;
    for (unsigned i = 0; i < spec->nodes && !err; i++)
        if (!spec->node[i].is_switch)
            err = site_init(lab, &lab->site[spec->node[i].number], &spec->node[i]);
    return err;
}

static uint64_t frames_of(uint64_t bytes, uint32_t mtu)
{
    return (bytes + mtu - 1) / mtu;
}

/* The least that a flow takes in an empty network: its bytes on the slowest link, the last frame on
 * the others, and the acknowledge's way back. */
static ns_t ideal_time(struct lab *lab, const struct lab_flow *f)
{
    const struct lab_node *from = &lab->spec->node[f->from], *to = &lab->spec->node[f->to];
    uint32_t mtu = min_of(from->host.mtu, to->host.mtu);
    uint32_t head = ETH_LEN + IPV4_LEN + UDP_LEN + BTH_LEN + ICRC_LEN;
    uint64_t messages = (f->size - 1) / f->message, rest = f->size - messages * f->message;
    uint64_t frames = messages * frames_of(f->message, mtu) + frames_of(rest, mtu);
    uint32_t last = (uint32_t)((rest - 1) % mtu + 1);
    struct fabric_path path;
    uint64_t before; /* bytes of the other frames */

    if (f->size == LAB_ENDLESS ||
        !fabric_path(lab->fabric, from->number, to->number, last + head, &path))
        return 0;
    before = f->size - last + (frames - 1) * (head + FABRIC_GAP);
    return (ns_t)((unsigned __int128)before * 8 * NS_PER_SEC / path.bps) + path.frame +
           2 * path.delay;
}

static void change_link(void *object, uint64_t value)
{
    static const enum fabric_state states[] = {
        [LAB_DOWN] = FABRIC_DOWN, [LAB_BLACK] = FABRIC_BLACK, [LAB_UP] = FABRIC_UP};
    struct lab *lab = object;
    const struct lab_change *c = &lab->spec->change[value];

    switch (c->kind) {
    case LAB_MARK:
        fabric_mark_next(lab->fabric, c->port, c->frames);
        break;
    case LAB_LOSE:
        fabric_lose_next(lab->fabric, c->port, c->frames);
        break;
    case LAB_DOWN:
    case LAB_BLACK:
    case LAB_UP:
        fabric_set_link(lab->fabric, c->port / 2, states[c->kind]);
        break;
    }
}

static void take_sample(void *object, uint64_t value)
{
    struct lab *lab = object;
    ns_t now = fabric_now(lab->fabric);

    lab->hooks.sample(lab->hooks.ctx, lab, now);
    fabric_at(lab->fabric, now + lab->spec->sample, take_sample, lab, 0);
}

static int plan(struct lab *lab)
{
    const struct lab_spec *spec = lab->spec;
    int err = 0;

    lab->run = calloc(spec->flows + 1, sizeof(*lab->run));
    if (!lab->run)
        return -ENOMEM;
    for (unsigned i = 0; i < spec->flows && !err; i++) {
        struct lab_run *r = &lab->run[i];

        *r = (struct lab_run){.lab = lab, .spec = &spec->flow[i]};
        r->result.ideal = ideal_time(lab, r->spec);
        lab->left++;
        err = fabric_at(lab->fabric, r->spec->start, run_start, r, 0);
    }
    for (unsigned i = 0; i < spec->changes && !err; i++)
        err = fabric_at(lab->fabric, spec->change[i].at, change_link, lab, i);
    if (!err && lab->hooks.sample)
        err = fabric_at(lab->fabric, spec->sample, take_sample, lab, 0);
    return err;
}

struct lab *lab_create(const struct lab_spec *spec, const struct lab_hooks *hooks)
{
    struct lab *lab = calloc(1, sizeof(*lab));

    if (!lab)
        return NULL;
    lab->spec = spec;
    lab->hooks = *hooks;
    if (build_network(lab) || build_memory(lab) || build_hosts(lab) || plan(lab)) {
        lab_destroy(lab);
        return NULL;
    }
    return lab;
}

void lab_destroy(struct lab *lab)
{
    for (unsigned i = 0; lab->run && i < lab->spec->flows; i++)
        run_free(&lab->run[i]);
    for (unsigned i = 0; lab->site && i < lab->spec->hosts; i++)
        site_fini(&lab->site[i]);
    if (lab->fabric)
        fabric_destroy(lab->fabric);
    if (lab->source.key)
        mr_remove(&lab->mrs, &lab->source);
    if (lab->sink.key)
        mr_remove(&lab->mrs, &lab->sink);
    mr_table_fini(&lab->mrs);
    if (lab->qps)
        qp_table_destroy(lab->qps);
    free(lab->bytes);
    free(lab->site);
    free(lab->rule);
    free(lab->run);
    free(lab);
}

/* ---- running ---- */

int lab_run(struct lab *lab)
{
    while (lab->left && !lab->stuck && !lab->out_of_memory &&
           fabric_step(lab->fabric, lab->spec->until))
        if (lab->over)
            run_reap(lab);
    run_reap(lab);
    if (lab->left)
        lab->ended = fabric_now(lab->fabric);
    if (lab->out_of_memory || fabric_failed(lab->fabric))
        return -ENOMEM;
    return lab->stuck ? -EDEADLK : 0;
}

/* ---- looking ---- */

ns_t lab_ended(const struct lab *lab)
{
    return lab->ended;
}

struct fabric *lab_fabric(struct lab *lab)
{
    return lab->fabric;
}

void lab_result(const struct lab *lab, unsigned flow, struct lab_result *result)
{
    *result = lab->run[flow].result;
    run_count(&lab->run[flow], result);
}

uint64_t lab_arrived(const struct lab *lab, unsigned flow)
{
    return run_arrived(&lab->run[flow]);
}

void lab_rule_hits(const struct lab *lab, unsigned rule, struct lab_hits *hits)
{
    const struct inject_hits *h = &lab->rule[rule].hits;

    *hits = (struct lab_hits){h->matched, h->acted, h->missed};
}

void lab_drops(const struct lab *lab, uint64_t drop[DROP_COUNT])
{
    for (unsigned i = 0; i < DROP_COUNT; i++) {
        drop[i] = 0;
        for (unsigned s = 0; s < lab->spec->hosts; s++)
            drop[i] += counter_get(&engine_counters(lab->site[s].engine)->drop[i]);
    }
}
