/* SPDX-License-Identifier: BSD-3-Clause */
/* How a port's packets and queue pairs are spread over its workers. */
#include "show/show.h"

#include <stdio.h>

#include "control/session_state.h"
#include "objects/steer.h"

static json_t *show_part(const struct device *d, unsigned i)
{
    const struct engine_counters *ec = engine_counters(d->port[i]->engine);
    json_t *o = json_object();

    json_object_set_new(o, "queue", show_number(i));
    json_object_set_new(o, "worker", show_number(worker_index(d->workers[i])));
    json_object_set_new(o, "qps", show_number(d->assigned[i]));
    json_object_set_new(o, "rx_packets", show_number(counter_sum(ec->rx_packets, QOS_PRIORITIES)));
    json_object_set_new(o, "tx_packets", show_number(counter_sum(ec->tx_packets, QOS_PRIORITIES)));
    json_object_set_new(o, "rx_delivered", show_number(counter_get(&ec->rx_delivered)));
    json_object_set_new(o, "rx_forwarded_in", show_number(counter_get(&ec->rx_forwarded_in)));
    json_object_set_new(o, "rx_forwarded_out", show_number(counter_get(&ec->rx_forwarded_out)));
    json_object_set_new(o, "rx_copies", show_number(counter_get(&ec->rx_copies)));
    return o;
}

void show_qp_steering(json_t *qp, const struct qp_object *q)
{
    struct rss_tuple t;

    json_object_set_new(qp, "worker", show_number(worker_index(q->dp.port->worker)));
    json_object_set_new(qp, "queue", show_number(q->dp.port->queue));
    json_object_set_new(qp, "steering", json_string(steer_reason_name(q->reason)));
    if (q->flow)
        json_object_set_new(qp, "flow_rule", json_string(q->flow_sport ? "ports" : "number"));
    if (q->flow_sport)
        json_object_set_new(qp, "flow_rule_sport", show_number(q->flow_sport));
    if (q->o.session->device->parts > 1 && steer_predict(q, &t))
        json_object_set_new(qp, "peer_sport", show_number(t.sport));
}

static json_t *show_fields(unsigned fields)
{
    static const char *const name[] = {"source address", "destination address", "source port",
                                       "destination port"};
    json_t *list = json_array();

    for (unsigned i = 0; i < ARRAY_SIZE(name); i++)
        if (fields & 1u << i)
            json_array_append_new(list, json_string(name[i]));
    return list;
}

/* All that is needed to predict where a flow arrives. */
static json_t *show_rss(const struct rss *rss)
{
    json_t *table = json_array(), *o = json_object();
    char key[2 * TOEPLITZ_KEY_LEN + 1] = "";

    for (unsigned i = 0; i < TOEPLITZ_KEY_LEN; i++)
        snprintf(key + 2 * i, 3, "%02x", rss->toeplitz_key[i]);
    for (unsigned i = 0; i < rss->table.size; i++)
        json_array_append_new(table, show_number(rss->table.queue[i]));
    json_object_set_new(o, "hash", json_string(rss->function == RSS_XOR ? "xor" : "toeplitz"));
    if (rss->function == RSS_TOEPLITZ)
        json_object_set_new(o, "key", json_string(key));
    json_object_set_new(o, "fields", show_fields(rss->fields));
    json_object_set_new(o, "table", table);
    return o;
}

void show_steering(json_t *port, const struct device *d)
{
    json_t *parts = json_array(), *o = json_object();

    for (unsigned i = 0; i < d->parts; i++)
        json_array_append_new(parts, show_part(d, i));
    json_object_set_new(o, "workers", parts);
    json_object_set_new(o, "moved_after_misplaced", show_number(d->moved_after_misplaced));
    if (d->rss[0])
        json_object_set_new(o, "rss_ipv4", show_rss(d->rss[0]));
    if (d->rss[1])
        json_object_set_new(o, "rss_ipv6", show_rss(d->rss[1]));
    json_object_set_new(port, "steering", o);
}
