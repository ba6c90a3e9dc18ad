/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's state in JSON. Names are stable, as programs read them. */
#include "show/show.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ceiling.h"
#include "control/session_state.h"
#include "device_host.h"
#include "objects/qp_object.h"

/* Every function here returns a value that its caller owns. Jansson passes NULL on when memory runs
 * out, and json_dumps of NULL is NULL, so only the end is checked. */

json_t *show_gids(const struct device *d, unsigned from)
{
    static const char *const type[] = {
        [GID_TYPE_IB] = "IB", [GID_TYPE_ROCE_V1] = "RoCE v1", [GID_TYPE_ROCE_V2] = "RoCE v2"};
    json_t *list = json_array();

    for (unsigned i = 0; i < d->gids.len && json_array_size(list) < SHOW_BATCH; i++) {
        const struct gid_entry *e = &d->gids.entry[i];
        json_t *o;

        if (!e->valid)
            continue;
        if (from && from--)
            continue;
        o = json_pack("{s:i, s:o, s:s, s:i}", "index", i, "address", show_gid(&e->gid), "type",
                      type[e->type], "prefix", d->prefix[i]);
        if (e->vlan != VLAN_NONE)
            json_object_set_new(o, "vlan", show_number(e->vlan));
        if (e->ifindex)
            json_object_set_new(o, "ifindex", show_number(e->ifindex));
        show_address_state(o, d, &e->gid, e->vlan);
        json_array_append_new(list, o);
    }
    return list;
}

/* A counter of a port's engines, which lies `offset` bytes into their counters: the sum. */
static uint64_t engines_sum(const struct device *d, size_t offset)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < d->parts; i++) {
        const uint8_t *ec = (const uint8_t *)engine_counters(d->port[i]->engine);

        total += counter_get((const counter_t *)(ec + offset));
    }
    return total;
}

#define ENGINES(d, counter) engines_sum(d, offsetof(struct engine_counters, counter))

static json_t *show_drops(const struct device *d)
{
    json_t *drops = json_object();

    for (unsigned i = 1; i < DROP_COUNT; i++) {
        uint64_t n = ENGINES(d, drop[i]);

        if (n)
            json_object_set_new(drops, drop_name((enum drop)i), show_number(n));
    }
    return drops;
}

/* A counter by priority: the sum over priorities. */
static json_t *priorities_sum(const struct device *d, size_t offset)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < QOS_PRIORITIES; i++)
        total += engines_sum(d, offset + i * sizeof(counter_t));
    return show_number(total);
}

#define PRIORITIES(d, counter) priorities_sum(d, offsetof(struct engine_counters, counter))

static json_t *show_priorities(const struct device *d)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < QOS_PRIORITIES; i++) {
        json_t *o = json_pack("{s:i}", "priority", (int)i);

        json_object_set_new(o, "rx_packets", show_number(ENGINES(d, rx_packets[i])));
        json_object_set_new(o, "rx_bytes", show_number(ENGINES(d, rx_bytes[i])));
        json_object_set_new(o, "tx_packets", show_number(ENGINES(d, tx_packets[i])));
        json_object_set_new(o, "tx_bytes", show_number(ENGINES(d, tx_bytes[i])));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *show_table(const uint8_t *value, unsigned n)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, show_number(value[i]));
    return list;
}

/* In the order in which they are served. */
static json_t *show_classes(const struct qos_classes *c)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < c->count; i++) {
        json_t *o =
            json_pack("{s:i, s:s}", "class", (int)i, "selection", c->percent[i] ? "ets" : "strict");
        json_t *priorities = json_array();

        if (c->percent[i])
            json_object_set_new(o, "percent", show_number(c->percent[i]));
        for (unsigned p = 0; p < QOS_PRIORITIES; p++)
            if (c->of_priority[p] == i)
                json_array_append_new(priorities, show_number(p));
        json_object_set_new(o, "priorities", priorities);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *show_qos(const struct device *d)
{
    json_t *o = json_object();

    json_object_set_new(o, "sl_to_pcp", show_table(d->qos.sl_to_pcp, ARRAY_SIZE(d->qos.sl_to_pcp)));
    json_object_set_new(o, "dscp", show_table(d->qos.dscp, ARRAY_SIZE(d->qos.dscp)));
    json_object_set_new(o, "priority_to_sl",
                        show_table(d->qos.priority_to_sl, ARRAY_SIZE(d->qos.priority_to_sl)));
    json_object_set_new(o, "classes", show_classes(&d->classes));
    json_object_set_new(o, "priorities", show_priorities(d));
    return o;
}

/* A counter of a port's queues: the sum. */
static uint64_t queues_sum(const struct device *d, size_t offset)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < d->parts; i++) {
        const struct pktio_counters *c = d->io->ops->counters(d->io, i);

        if (c)
            total += counter_get((const counter_t *)((const uint8_t *)c + offset));
    }
    return total;
}

#define QUEUES(d, counter) show_number(queues_sum(d, offsetof(struct pktio_counters, counter)))

uint64_t show_refused(const struct device *d)
{
    return d->io->ops->counters ? queues_sum(d, offsetof(struct pktio_counters, tx_refused)) : 0;
}

static json_t *show_counters(const struct device *d)
{
    json_t *o = json_object();

    json_object_set_new(o, "rx_packets", PRIORITIES(d, rx_packets));
    json_object_set_new(o, "rx_bytes", PRIORITIES(d, rx_bytes));
    json_object_set_new(o, "rx_punted", show_number(ENGINES(d, rx_punted)));
    json_object_set_new(o, "rx_delivered", show_number(ENGINES(d, rx_delivered)));
    json_object_set_new(o, "tx_packets", PRIORITIES(d, tx_packets));
    json_object_set_new(o, "tx_bytes", PRIORITIES(d, tx_bytes));
    json_object_set_new(o, "rx_forwarded_out", show_number(ENGINES(d, rx_forwarded_out)));
    json_object_set_new(o, "late_copies", show_number(ENGINES(d, late_copies)));
    if (d->io->ops->counters) {
        json_object_set_new(o, "tx_refused", QUEUES(d, tx_refused));
        json_object_set_new(o, "rx_unusable", QUEUES(d, rx_unusable));
        json_object_set_new(o, "rx_bad_checksum", QUEUES(d, rx_bad_checksum));
        json_object_set_new(o, "rx_overflow", QUEUES(d, rx_overflow));
        json_object_set_new(o, "local", QUEUES(d, local));
        json_object_set_new(o, "rss_mismatch", QUEUES(d, rss_mismatch));
    }
    if (d->pauses) {
        struct tx_pauses p = tx_ceiling_pauses(d->ceiling, d->rnic->config.clock());

        json_object_set_new(o, "rx_pause_frames", show_number(p.frames));
        json_object_set_new(o, "rx_pfc_frames", show_number(p.priority_frames));
        json_object_set_new(o, "tx_paused_ms", show_number(p.ns / NS_PER_MS));
    }
    json_object_set_new(o, "drops", show_drops(d));
    return o;
}

static json_t *show_control_params(const struct congestion_config *c)
{
    uint64_t params[CC_PARAMS_MAX];
    json_t *o = json_object();

    if (!c->control)
        return o;
    cc_default_params(c->control, params);
    for (unsigned i = 0; i < cc_param_count(c->control); i++) {
        const struct cc_param *p = &c->control->param[i];

        json_object_set_new(o, p->name,
                            show_number((c->own_params ? c->params : params)[i] / p->unit));
    }
    return o;
}

static json_t *show_congestion(const struct congestion_config *c)
{
    json_t *cnp = c->cnp_interval ? json_pack("{s:i, s:i, s:i}", "interval_us",
                                              (int)(c->cnp_interval / NS_PER_US), "dscp",
                                              c->cnp_dscp, "priority", c->cnp_pcp)
                                  : json_null();

    return json_pack("{s:b, s:o, s:s, s:o, s:I}", "ect", c->ect, "cnp", cnp, "control",
                     c->control ? c->control->name : "none", "parameters", show_control_params(c),
                     "line_mbps", (json_int_t)(c->line / 1000000));
}

/* Nothing, where nothing was configured. */
static void show_flow_control(json_t *port, const struct device *d)
{
    static const char *const name[] = {[PKTIO_PAUSE_OFF] = "off",
                                       [PKTIO_PAUSE_RX] = "rx",
                                       [PKTIO_PAUSE_TX] = "tx",
                                       [PKTIO_PAUSE_BOTH] = "both"};

    if (d->flow_control == PKTIO_PAUSE_DEFAULT)
        return;
    json_object_set_new(port, "flow_control", json_string(name[d->flow_control]));
    if (d->flow_control != PKTIO_PAUSE_OFF)
        json_object_set_new(port, "flow_control_by", json_string(d->pauses ? "uroced" : "port"));
}

json_t *show_port(const struct device *d)
{
    struct pktio_info info;
    json_t *port;

    d->io->ops->info(d->io, &info);
    port = json_pack("{s:i, s:s, s:o, s:s, s:o, s:i, s:i, s:o, s:i, s:i, s:o, s:o}", "port", 1,
                     "driver", d->io->ops->driver, "name", show_name(info.name), "state",
                     net_link_is_up(d, &info) ? "active" : "down", "mac", show_mac(info.mac), "mtu",
                     (int)info.mtu, "path_mtu", 128 << device_mtu_code(d->info.mtu), "netdev",
                     show_name(net_interface(d, &info)), "speed_mbps", (int)info.speed_mbps,
                     "worker", (int)worker_index(d->workers[0]), "counters", show_counters(d),
                     "qos", show_qos(d));
    json_object_set_new(port, "entropy", show_entropy(&d->entropy));
    json_object_set_new(port, "repath", show_number(d->repath));
    if (d->trim_dscp)
        json_object_set_new(port, "trim_dscp", json_integer(d->trim_dscp));
    json_object_set_new(port, "congestion", show_congestion(&d->congestion));
    show_flow_control(port, d);
    if (d->max_rate)
        json_object_set_new(port, "max_rate", json_integer((json_int_t)d->max_rate));
    json_object_set_new(port, "icrc", json_string(info.no_icrc ? "left out" : "always"));
    show_steering(port, d);
    json_object_set_new(port, "network", show_net_counters(d));
    return port;
}

json_t *show_worker(const struct worker *w)
{
    const struct worker_stats *s = worker_stats(w);
    json_t *o = json_object();

    json_object_set_new(o, "index", show_number(worker_index(w)));
    json_object_set_new(o, "mode", json_string(worker_mode(w)));
    json_object_set_new(o, "cpu_ms", show_number(worker_cpu_time(w) / NS_PER_MS));
#define STAT(name) json_object_set_new(o, #name, show_number(counter_get(&s->name)))
    STAT(loops);
    STAT(busy);
    STAT(yields);
    STAT(sleeps);
    STAT(wakes);
    STAT(ticks);
    STAT(contended);
    STAT(calls);
    STAT(borrowed);
    STAT(cq_events);
    STAT(cq_events_late);
    STAT(doorbells_forwarded);
    STAT(taken_away);
    STAT(given_up);
    STAT(memory_faults);
    STAT(forwarded_out);
    STAT(forwarded_in);
#undef STAT
    return o;
}

json_t *show_session(const struct session *sn)
{
    json_t *o = json_pack("{s:i, s:i, s:o}", "pid", (int)sn->peer.pid, "uid", (int)sn->peer.uid,
                          "comm", show_name(sn->comm));

    show_account(o, sn);
    if (sn->count[OBJ_CM_ID])
        json_object_set_new(o, "cm_ids", show_number(sn->count[OBJ_CM_ID]));
    if (!sn->device)
        return o;
    json_object_set_new(o, "device", json_string(sn->device->name));
    json_object_set_new(o, "context", show_number(sn->context));
    json_object_set_new(o, "pds", show_number(sn->count[OBJ_PD]));
    json_object_set_new(o, "copy", json_string(sn->copy->name));
    json_object_set_new(o, "mrs_copied", show_number(sn->count[OBJ_MR] - sn->mrs_mapped));
    json_object_set_new(o, "mrs_mapped", show_number(sn->mrs_mapped));
    show_mr_reasons(o, sn);
    json_object_set_new(o, "channels", show_number(sn->count[OBJ_CHANNEL]));
    json_object_set_new(o, "cqs", show_number(sn->count[OBJ_CQ]));
    json_object_set_new(o, "srqs", show_number(sn->count[OBJ_SRQ]));
    json_object_set_new(o, "qps", show_number(sn->count[OBJ_QP]));
    json_object_set_new(o, "ahs", show_number(sn->count[OBJ_AH]));
    json_object_set_new(o, "wqs", show_number(sn->count[OBJ_WQ]));
    json_object_set_new(o, "rwq_tables", show_number(sn->count[OBJ_RWQ_IND]));
    json_object_set_new(o, "dms", show_number(sn->count[OBJ_DM]));
    json_object_set_new(o, "counters", show_number(sn->count[OBJ_COUNTER]));
    json_object_set_new(o, "flows", show_number(sn->count[OBJ_FLOW]));
    return o;
}

json_t *show_daemon(const struct rnic *r)
{
    json_t *o = json_object();

    json_object_set_new(o, "version", json_string(r->config.version));
    json_object_set_new(o, "pid", show_number((uint64_t)getpid()));
    json_object_set_new(o, "uptime_s", show_number((r->config.clock() - r->started) / NS_PER_SEC));
    json_object_set_new(o, "cpus", show_number(atomic_load(&r->group.cpus)));
    return o;
}
