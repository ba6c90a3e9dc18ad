/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw packets in JSON: work queues, indirection tables, flow rules, and the hash of a queue pair.
 */
#include "show/show.h"

#include <arpa/inet.h>
#include <string.h>

#include "control/session_state.h"
#include "objects/flow.h"
#include "objects/qp_object.h"
#include "objects/srq_object.h"
#include "objects/wq_object.h"

/* The first members of every object here. */
static json_t *start_row(const struct object *o, const char *handle)
{
    json_t *row = json_object();

    json_object_set_new(row, "device", json_string(o->session->device->name));
    json_object_set_new(row, handle, show_number(o->handle));
    json_object_set_new(row, "pid", show_number((uint64_t)o->session->peer.pid));
    return row;
}

static json_t *show_wq(const struct wq_object *w)
{
    static const char *const state[] = {
        [WQS_RESET] = "RESET", [WQS_RDY] = "RDY", [WQS_ERR] = "ERR"};
    json_t *row = start_row(&w->o, "wqn");

    json_object_set_new(row, "type", json_string(w->srq ? "SRQ" : "RQ"));
    json_object_set_new(row, "state", json_string(state[wq_current_state(w->wq)]));
    json_object_set_new(row, "worker", show_number(worker_index(w->port->worker)));
    json_object_set_new(row, "references", show_number(w->o.refs));
    if (w->srq)
        json_object_set_new(row, "srqn", show_number(w->srq->o.handle));
    return row;
}

static json_t *show_table(const struct rwq_ind_object *t)
{
    json_t *row = start_row(&t->o, "table"), *wqs = json_array();

    json_object_set_new(row, "size", show_number(t->size));
    json_object_set_new(row, "qps", show_number(t->o.refs));
    for (uint32_t i = 0; i < t->size; i++)
        json_array_append_new(wqs, show_number(t->wq[i]->o.handle));
    json_object_set_new(row, "wqs", wqs);
    return row;
}

/* ---- flow rules: what they match as text, "field=value" or "field=value/mask" ---- */

static void add_text(json_t *match, const char *field, const char *value, const char *mask,
                     bool exact)
{
    json_array_append_new(match, exact ? json_sprintf("%s=%s", field, value)
                                       : json_sprintf("%s=%s/%s", field, value, mask));
}

static void add_bytes(json_t *match, const char *field, const uint8_t *value, const uint8_t *mask,
                      unsigned n)
{
    char text[2][2 * 16 + 1];
    bool any = false, exact = true;

    for (unsigned i = 0; i < n; i++) {
        any |= mask[i] != 0;
        exact &= mask[i] == 0xFF;
        snprintf(text[0] + 2 * i, 3, "%02x", value[i]);
        snprintf(text[1] + 2 * i, 3, "%02x", mask[i]);
    }
    if (any)
        add_text(match, field, text[0], text[1], exact);
}

static void add_number(json_t *match, const char *field, uint32_t value, uint32_t mask,
                       uint32_t all)
{
    char text[2][12];

    if (!mask)
        return;
    snprintf(text[0], sizeof(text[0]), "%u", value);
    snprintf(text[1], sizeof(text[1]), "0x%x", mask);
    add_text(match, field, text[0], text[1], mask == all);
}

static void add_address(json_t *match, const char *field, const uint8_t *value, const uint8_t *mask,
                        bool ipv4)
{
    char text[2][INET6_ADDRSTRLEN];
    unsigned skip = ipv4 ? 12 : 0;
    bool any = false, exact = true;

    for (unsigned i = skip; i < 16; i++) {
        any |= mask[i] != 0;
        exact &= mask[i] == 0xFF;
    }
    if (!any)
        return;
    inet_ntop(ipv4 ? AF_INET : AF_INET6, value + skip, text[0], sizeof(text[0]));
    inet_ntop(ipv4 ? AF_INET : AF_INET6, mask + skip, text[1], sizeof(text[1]));
    add_text(match, field, text[0], text[1], exact);
}

static void add_match(json_t *match, const struct flow_match *m)
{
    static const char *const header[] = {"vlan", "ipv4", "ipv6", "tcp", "udp", "ethernet"};
    bool ipv4 = m->headers & FLOW_HAS_IPV4;

    for (unsigned i = 0; i < ARRAY_SIZE(header); i++) {
        if (m->headers & 1u << i)
            json_array_append_new(match, json_string(header[i]));
    }
    add_bytes(match, "dmac", m->value.dmac, m->mask.dmac, 6);
    add_bytes(match, "smac", m->value.smac, m->mask.smac, 6);
    add_bytes(match, "ether_type", (const uint8_t *)&m->value.ether_type,
              (const uint8_t *)&m->mask.ether_type, 2);
    add_bytes(match, "vlan_tci", (const uint8_t *)&m->value.vlan_tci,
              (const uint8_t *)&m->mask.vlan_tci, 2);
    add_address(match, "src", m->value.src, m->mask.src, ipv4);
    add_address(match, "dst", m->value.dst, m->mask.dst, ipv4);
    add_number(match, "flow_label", ntohl(m->value.flow_label), ntohl(m->mask.flow_label), 0xFFFFF);
    add_number(match, "traffic_class", m->value.traffic_class, m->mask.traffic_class, 0xFF);
    add_number(match, "hop_limit", m->value.hop_limit, m->mask.hop_limit, 0xFF);
    add_number(match, "next_header", m->value.next_header, m->mask.next_header, 0xFF);
    add_number(match, "ipv4_flags", m->value.ipv4_flags, m->mask.ipv4_flags, 7);
    add_number(match, "sport", ntohs(m->value.sport), ntohs(m->mask.sport), 0xFFFF);
    add_number(match, "dport", ntohs(m->value.dport), ntohs(m->mask.dport), 0xFFFF);
}

/* What is inside of the tunnel follows "inner". */
static void add_deep(json_t *match, const struct flow_deep *d)
{
    static const char *const tunnel[] = {"vxlan", "gre", "mpls", "esp"};
    static const struct flow_deep_fields none;
    const struct flow_deep_fields *v = &d->value, *m = &d->mask;
    const struct flow_match inner = {
        .headers = d->inner_headers, .value = v->inner, .mask = m->inner};

    for (unsigned i = 0; i < ARRAY_SIZE(tunnel); i++) {
        if (d->tunnels & 1u << i)
            json_array_append_new(match, json_string(tunnel[i]));
    }
    add_number(match, "vni", ntohl(v->vni), ntohl(m->vni), 0xFFFFFF);
    add_bytes(match, "gre_flags", (const uint8_t *)&v->gre_flags, (const uint8_t *)&m->gre_flags,
              2);
    add_bytes(match, "gre_protocol", (const uint8_t *)&v->gre_protocol,
              (const uint8_t *)&m->gre_protocol, 2);
    add_number(match, "gre_key", ntohl(v->gre_key), ntohl(m->gre_key), UINT32_MAX);
    add_bytes(match, "mpls", (const uint8_t *)&v->mpls, (const uint8_t *)&m->mpls, 4);
    add_number(match, "esp_spi", ntohl(v->esp_spi), ntohl(m->esp_spi), UINT32_MAX);
    add_number(match, "esp_seq", ntohl(v->esp_seq), ntohl(m->esp_seq), UINT32_MAX);
    if (!inner.headers && !memcmp(&m->inner, &none.inner, sizeof(m->inner)))
        return;
    json_array_append_new(match, json_string("inner"));
    add_match(match, &inner);
}

static json_t *show_match(const struct flow_rule *r)
{
    json_t *match = json_array();

    add_match(match, &r->match);
    add_deep(match, &r->deep);
    return match;
}

static json_t *show_flow(const struct flow_object *f)
{
    static const char *const type[] = {[FLOW_NORMAL] = "normal",
                                       [FLOW_ALL_DEFAULT] = "all_default",
                                       [FLOW_MC_DEFAULT] = "mc_default",
                                       [FLOW_SNIFFER] = "sniffer"};
    json_t *row = start_row(&f->o, "flow");

    json_object_set_new(row, "qpn", show_number(f->q->o.handle));
    json_object_set_new(row, "type", json_string(type[f->rule.type]));
    json_object_set_new(row, "priority", show_number(f->rule.priority));
    json_object_set_new(row, "action", json_string(f->rule.drop ? "drop" : "deliver"));
    if (f->rule.tagged)
        json_object_set_new(row, "tag", show_number(f->rule.tag));
    json_object_set_new(row, "match", show_match(&f->rule));
    json_object_set_new(row, "frames", show_number(flow_entry_count(f->entry).frames));
    return row;
}

void show_rx_hash(json_t *qp, const struct qp_object *q)
{
    static const char *const field[] = {"src_ipv4",     "dst_ipv4",     "src_ipv6",
                                        "dst_ipv6",     "src_port_tcp", "dst_port_tcp",
                                        "src_port_udp", "dst_port_udp"};
    json_t *fields = json_array();

    for (unsigned i = 0; i < ARRAY_SIZE(field); i++) {
        if (q->rx_hash.fields & 1u << i)
            json_array_append_new(fields, json_string(field[i]));
    }
    json_object_set_new(qp, "rx_hash",
                        json_pack("{s:s, s:o, s:I}", "function",
                                  q->rx_hash.function == RSS_XOR ? "xor" : "toeplitz", "fields",
                                  fields, "table", (json_int_t)q->ind->o.handle));
}

void show_wqs(const struct viewer *v, struct object *const *o, unsigned n, json_t **out)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = show_wq(container_of(o[i], struct wq_object, o));
}

void show_tables(const struct viewer *v, struct object *const *o, unsigned n, json_t **out)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = show_table(container_of(o[i], struct rwq_ind_object, o));
}

void show_flows(const struct viewer *v, struct object *const *o, unsigned n, json_t **out)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = show_flow(container_of(o[i], struct flow_object, o));
}
