/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow rules: a list of specifications in the API, one record in the control protocol. */
#include "counters.h"
#include "shim.h"

/* Each kind of specification may occur once. */
enum seen {
    SEEN_ETH = 1 << 0,
    SEEN_IP = 1 << 1,
    SEEN_PORTS = 1 << 2,
    SEEN_TAG = 1 << 3,
    SEEN_DROP = 1 << 4,
    SEEN_COUNT = 1 << 5,
    SEEN_VXLAN = 1 << 6,
    SEEN_GRE = 1 << 7,
    SEEN_MPLS = 1 << 8,
    SEEN_ESP = 1 << 9,
    SEEN_INNER = 16, /* bits above those of the outer headers */
};

/* What can be inside of a tunnel. */
#define INNER_KINDS (SEEN_ETH | SEEN_IP | SEEN_PORTS)

static void set_eth(struct flow_fields *to, const struct ibv_flow_eth_filter *from)
{
    memcpy(to->dmac, from->dst_mac, sizeof(to->dmac));
    memcpy(to->smac, from->src_mac, sizeof(to->smac));
    to->ether_type = from->ether_type;
    to->vlan_tci = from->vlan_tag;
}

/* IPv4 addresses and masks are the end of IPv4-mapped IPv6 ones. */
static void set_ipv4(struct flow_fields *to, uint32_t src, uint32_t dst, uint8_t prefix)
{
    to->src[10] = to->src[11] = to->dst[10] = to->dst[11] = prefix;
    memcpy(to->src + 12, &src, sizeof(src));
    memcpy(to->dst + 12, &dst, sizeof(dst));
}

static void set_ipv4_ext(struct flow_fields *to, const struct ibv_flow_ipv4_ext_filter *from,
                         uint8_t prefix)
{
    set_ipv4(to, from->src_ip, from->dst_ip, prefix);
    to->next_header = from->proto;
    to->traffic_class = from->tos;
    to->hop_limit = from->ttl;
    to->ipv4_flags = from->flags;
}

static void set_ipv6(struct flow_fields *to, const struct ibv_flow_ipv6_filter *from)
{
    memcpy(to->src, from->src_ip, sizeof(to->src));
    memcpy(to->dst, from->dst_ip, sizeof(to->dst));
    to->flow_label = from->flow_label;
    to->next_header = from->next_hdr;
    to->traffic_class = from->traffic_class;
    to->hop_limit = from->hop_limit;
}

static void set_ports(struct flow_fields *to, const struct ibv_flow_tcp_udp_filter *from)
{
    to->sport = from->src_port;
    to->dport = from->dst_port;
}

static const struct spec_kind {
    uint32_t type;
    uint32_t seen;    /* 0: the device does not support it */
    uint32_t headers; /* enum flow_header; of a tunnel: enum flow_tunnel */
    size_t size;
} kinds[] = {
    {IBV_FLOW_SPEC_ETH, SEEN_ETH, FLOW_HAS_ETHERNET, sizeof(struct ibv_flow_spec_eth)},
    {IBV_FLOW_SPEC_IPV4, SEEN_IP, FLOW_HAS_IPV4, sizeof(struct ibv_flow_spec_ipv4)},
    {IBV_FLOW_SPEC_IPV4_EXT, SEEN_IP, FLOW_HAS_IPV4, sizeof(struct ibv_flow_spec_ipv4_ext)},
    {IBV_FLOW_SPEC_IPV6, SEEN_IP, FLOW_HAS_IPV6, sizeof(struct ibv_flow_spec_ipv6)},
    {IBV_FLOW_SPEC_TCP, SEEN_PORTS, FLOW_HAS_TCP, sizeof(struct ibv_flow_spec_tcp_udp)},
    {IBV_FLOW_SPEC_UDP, SEEN_PORTS, FLOW_HAS_UDP, sizeof(struct ibv_flow_spec_tcp_udp)},
    {IBV_FLOW_SPEC_ACTION_TAG, SEEN_TAG, 0, sizeof(struct ibv_flow_spec_action_tag)},
    {IBV_FLOW_SPEC_ACTION_DROP, SEEN_DROP, 0, sizeof(struct ibv_flow_spec_action_drop)},
    {IBV_FLOW_SPEC_ESP, SEEN_ESP, FLOW_HAS_ESP, sizeof(struct ibv_flow_spec_esp)},
    {IBV_FLOW_SPEC_VXLAN_TUNNEL, SEEN_VXLAN, FLOW_HAS_VXLAN, sizeof(struct ibv_flow_spec_tunnel)},
    {IBV_FLOW_SPEC_GRE, SEEN_GRE, FLOW_HAS_GRE, sizeof(struct ibv_flow_spec_gre)},
    {IBV_FLOW_SPEC_MPLS, SEEN_MPLS, FLOW_HAS_MPLS, sizeof(struct ibv_flow_spec_mpls)},
    {IBV_FLOW_SPEC_ACTION_HANDLE, 0, 0, sizeof(struct ibv_flow_spec_action_handle)},
    {IBV_FLOW_SPEC_ACTION_COUNT, SEEN_COUNT, 0, sizeof(struct ibv_flow_spec_counter_action)},
};

/* The kind of a specification, also of one for inner headers; NULL: unknown. */
static const struct spec_kind *find_kind(uint32_t type)
{
    for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (kinds[i].type == (type & ~(uint32_t)IBV_FLOW_SPEC_INNER))
            return &kinds[i];
    }
    return NULL;
}

/* Of the outer headers, or of those inside. */
static void set_headers(struct flow_fields *value, struct flow_fields *mask,
                        const struct ibv_flow_spec *s)
{
    switch (s->hdr.type & ~(uint32_t)IBV_FLOW_SPEC_INNER) {
    case IBV_FLOW_SPEC_ETH:
        set_eth(value, &s->eth.val);
        set_eth(mask, &s->eth.mask);
        break;
    case IBV_FLOW_SPEC_IPV4:
        set_ipv4(value, s->ipv4.val.src_ip, s->ipv4.val.dst_ip, 0xFF);
        set_ipv4(mask, s->ipv4.mask.src_ip, s->ipv4.mask.dst_ip, 0);
        break;
    case IBV_FLOW_SPEC_IPV4_EXT:
        set_ipv4_ext(value, &s->ipv4_ext.val, 0xFF);
        set_ipv4_ext(mask, &s->ipv4_ext.mask, 0);
        break;
    case IBV_FLOW_SPEC_IPV6:
        set_ipv6(value, &s->ipv6.val);
        set_ipv6(mask, &s->ipv6.mask);
        break;
    default: /* TCP, UDP */
        set_ports(value, &s->tcp_udp.val);
        set_ports(mask, &s->tcp_udp.mask);
    }
}

static void set_gre(struct flow_deep_fields *to, const struct ibv_flow_gre_filter *from)
{
    to->gre_flags = from->c_ks_res0_ver;
    to->gre_protocol = from->protocol;
    to->gre_key = from->key;
}

/* Of a tunnel, or an action. */
static void set_fields(struct ctl_create_flow *r, const struct ibv_flow_spec *s)
{
    struct flow_deep_fields *value = &r->deep.value, *mask = &r->deep.mask;

    switch (s->hdr.type) {
    case IBV_FLOW_SPEC_VXLAN_TUNNEL:
        value->vni = s->tunnel.val.tunnel_id;
        mask->vni = s->tunnel.mask.tunnel_id;
        break;
    case IBV_FLOW_SPEC_GRE:
        set_gre(value, &s->gre.val);
        set_gre(mask, &s->gre.mask);
        break;
    case IBV_FLOW_SPEC_MPLS:
        value->mpls = s->mpls.val.label;
        mask->mpls = s->mpls.mask.label;
        break;
    case IBV_FLOW_SPEC_ESP:
        value->esp_spi = s->esp.val.spi;
        value->esp_seq = s->esp.val.seq;
        mask->esp_spi = s->esp.mask.spi;
        mask->esp_seq = s->esp.mask.seq;
        break;
    case IBV_FLOW_SPEC_ACTION_TAG:
        r->tagged = 1;
        r->tag = s->flow_tag.tag_id;
        break;
    case IBV_FLOW_SPEC_ACTION_DROP:
        r->drop = 1;
        break;
    default: /* parse_specs acts on it */
        break;
    }
}

/* What the rule matches, or does, by a specification of this kind. */
static void add_spec(struct ctl_create_flow *r, const struct spec_kind *kind,
                     const struct ibv_flow_spec *s)
{
    if (s->hdr.type & IBV_FLOW_SPEC_INNER) {
        r->deep.inner_headers |= kind->headers;
        set_headers(&r->deep.value.inner, &r->deep.mask.inner, s);
    } else if (kind->seen & INNER_KINDS) {
        r->match.headers |= kind->headers & ~(uint32_t)FLOW_HAS_ETHERNET; /* each frame has it */
        set_headers(&r->match.value, &r->match.mask, s);
    } else {
        r->deep.tunnels |= kind->headers;
        set_fields(r, s);
    }
}

/*
 * The specifications follow the attributes, each with its own size; they need not be aligned. Bytes
 * behind attr->size are not read, except when that is the size of the attributes alone: rdma-core
 * uses only the number of specifications, and some programs (pyverbs) set no more. Bytes behind the
 * last specification are ignored, as rdma-core does. *counters stays as it is without one for them.
 */
static int parse_specs(struct ctl_create_flow *r, const struct ibv_flow_attr *attr,
                       struct ibv_counters **counters)
{
    const uint8_t *at = (const uint8_t *)(attr + 1);
    size_t left = attr->size == sizeof(*attr) ? SIZE_MAX : attr->size - sizeof(*attr);
    uint32_t seen = 0;

    for (unsigned i = 0; i < attr->num_of_specs; i++) {
        const struct spec_kind *kind;
        struct ibv_flow_spec s = {0};
        bool inner;

        if (left < sizeof(s.hdr))
            return EINVAL;
        memcpy(&s.hdr, at, sizeof(s.hdr));
        kind = find_kind(s.hdr.type);
        if (!kind || s.hdr.size != kind->size || s.hdr.size > left)
            return EINVAL;
        inner = s.hdr.type & IBV_FLOW_SPEC_INNER;
        if (!kind->seen || (inner && !(kind->seen & INNER_KINDS)))
            return EOPNOTSUPP;
        if (seen & kind->seen << (inner ? SEEN_INNER : 0))
            return EINVAL;
        seen |= kind->seen << (inner ? SEEN_INNER : 0);
        memcpy(&s, at, kind->size);
        add_spec(r, kind, &s);
        if (kind->seen == SEEN_COUNT) {
            *counters = s.flow_count.counters;
            if (!*counters)
                return EINVAL;
        }
        at += kind->size;
        left -= kind->size;
    }
    /* No completion reports the tag of a packet that is dropped. */
    return (seen & SEEN_TAG) && (seen & SEEN_DROP) ? EINVAL : 0;
}

static int check_attr(const struct ibv_flow_attr *attr)
{
    const uint32_t unsupported = IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS;

    if (attr->comp_mask || attr->flags & ~unsupported || attr->size < sizeof(*attr) ||
        attr->type > IBV_FLOW_ATTR_SNIFFER)
        return EINVAL;
    return attr->flags ? EOPNOTSUPP : 0;
}

struct ibv_flow *shim_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
    struct ctl_msg m = {
        .create_flow = {
            .qpn = qp->qp_num, .type = attr->type, .priority = attr->priority, .port = attr->port}};
    struct ibv_counters *counters = NULL;
    struct shim_flow *flow;
    int err = check_attr(attr);

    if (!err)
        err = parse_specs(&m.create_flow, attr, &counters);
    if (!err && counters && counters->context != qp->context)
        err = EINVAL;
    if (err)
        return refuse(-err);
    flow = calloc(1, sizeof(*flow));
    if (!flow)
        return NULL;
    err = shim_call(qp->context, CTL_CREATE_FLOW, &m);
    if (err) {
        free(flow);
        return refuse(-err);
    }
    flow->base.context = qp->context;
    flow->base.handle = m.create_flow.handle;
    if (counters)
        counters_bind(to_counters(counters), flow);
    return &flow->base;
}

int shim_destroy_flow(struct ibv_flow *flow)
{
    int err = counters_destroy_flow((struct shim_flow *)flow);

    if (is_destroyed(err))
        free(flow);
    return failed(err);
}
