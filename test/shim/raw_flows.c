/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow rules: refusals, and the frames that each kind of specification matches. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "raw_kit.h"
#include "raw_tests.h"
#include "unit.h"
#include "verbs_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct ibv_flow_spec_eth eth = {
    .type = IBV_FLOW_SPEC_ETH,
    .size = sizeof(eth),
};
static const struct ibv_flow_spec_ipv4 any_ipv4 = {.type = IBV_FLOW_SPEC_IPV4,
                                                   .size = sizeof(any_ipv4)};
static const struct ibv_flow_spec_ipv6 any_ipv6 = {.type = IBV_FLOW_SPEC_IPV6,
                                                   .size = sizeof(any_ipv6)};
static const struct ibv_flow_spec_tcp_udp any_udp = {.type = IBV_FLOW_SPEC_UDP,
                                                     .size = sizeof(any_udp)};
static const struct ibv_flow_spec_tcp_udp any_tcp = {.type = IBV_FLOW_SPEC_TCP,
                                                     .size = sizeof(any_tcp)};
static const struct ibv_flow_spec_action_tag tag = {
    .type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(tag), .tag_id = 0xABCD};
static const struct ibv_flow_spec_action_drop drop = {.type = IBV_FLOW_SPEC_ACTION_DROP,
                                                      .size = sizeof(drop)};

static struct ibv_flow *rule(struct raw *r, const void *a, const void *b)
{
    const void *spec[2] = {a, b};

    return raw_rule(r->sender, IBV_FLOW_ATTR_NORMAL, 0, (a != NULL) + (b != NULL), spec);
}

void rules_refused(void **state)
{
    static const struct ibv_flow_spec_counter_action count = {.type = IBV_FLOW_SPEC_ACTION_COUNT,
                                                              .size = sizeof(count)};
    static const struct ibv_flow_spec_action_handle handle = {.type = IBV_FLOW_SPEC_ACTION_HANDLE,
                                                              .size = sizeof(handle)};
    static const struct ibv_flow_spec_eth unknown = {.type = 0x77, .size = sizeof(unknown)};
    static const struct {
        const void *spec[2];
        int err;
    } row[] = {
        {{&count}, EINVAL},     {{&handle}, EOPNOTSUPP},          {{&unknown}, EINVAL},
        {{&eth, &eth}, EINVAL}, {{&any_ipv4, &any_ipv6}, EINVAL}, {{&any_udp, &any_tcp}, EINVAL},
        {{&tag, &tag}, EINVAL}, {{&tag, &drop}, EINVAL},
    };
    struct raw *r = *state;
    struct ibv_flow_attr a;
    struct ibv_qp *rc;
    struct ibv_qp_init_attr init = {
        .send_cq = r->cq, .recv_cq = r->cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

    for (unsigned i = 0; i < COUNT(row); i++) {
        assert_null(rule(r, row[i].spec[0], row[i].spec[1]));
        assert_int_equal(errno, row[i].err);
    }
#define REFUSED(err, ...)                                         \
    do {                                                          \
        a = (struct ibv_flow_attr){.size = sizeof(a), .port = 1}; \
        __VA_ARGS__;                                              \
        assert_null(ibv_create_flow(r->sender, &a));              \
        assert_int_equal(errno, err);                             \
    } while (0)
    REFUSED(EINVAL, a.port = 0);
    REFUSED(EINVAL, a.port = 2);
    REFUSED(EINVAL, a.type = 4);
    REFUSED(EINVAL, a.comp_mask = 1);
    REFUSED(EINVAL, a.size = sizeof(a) - 1);
    REFUSED(EINVAL, a.flags = 1);
    REFUSED(EINVAL, a.flags = 8);
    REFUSED(EOPNOTSUPP, a.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
    REFUSED(EOPNOTSUPP, a.flags = IBV_FLOW_ATTR_FLAGS_EGRESS);
#undef REFUSED
    for (unsigned type = IBV_FLOW_ATTR_ALL_DEFAULT; type <= IBV_FLOW_ATTR_SNIFFER; type++) {
        assert_null(raw_rule(r->sender, type, 0, 1, (const void *[]){&any_udp}));
        assert_int_equal(errno, EINVAL);
        assert_null(raw_rule(r->sender, type, 0, 1, (const void *[]){&drop}));
        assert_int_equal(errno, EINVAL);
    }
    rc = ibv_create_qp(r->pd, &init);
    assert_null(raw_rule(rc, IBV_FLOW_ATTR_NORMAL, 0, 0, NULL));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_destroy_qp(rc), 0);
}

/* Lists that are shorter than their headers say, at the end of readable memory. */
void rules_end_where_they_say(void **state)
{
    struct raw *r = *state;
    size_t page = (size_t)getpagesize();
    uint8_t *memory =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_flow_attr a = {.port = 1, .num_of_specs = 2};
    struct ibv_flow *flow;

    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    for (unsigned room = sizeof(a) + 1; room <= sizeof(a) + sizeof(eth) + sizeof(any_udp); room++) {
        uint8_t *at = memory + page - room, all[256];

        a.size = (uint16_t)room;
        memcpy(all, &a, sizeof(a));
        memcpy(all + sizeof(a), &eth, sizeof(eth));
        memcpy(all + sizeof(a) + sizeof(eth), &any_udp, sizeof(any_udp));
        memcpy(at, all, room);
        /* Not aligned in most cases, which the compiler must not take for granted. */
        if (room % _Alignof(struct ibv_flow_attr))
            continue;
        flow = ibv_create_flow(r->sender, (struct ibv_flow_attr *)at);
        if (room == sizeof(a) + sizeof(eth) + sizeof(any_udp)) {
            assert_non_null(flow);
            assert_int_equal(ibv_destroy_flow(flow), 0);
        } else {
            assert_null(flow);
            assert_int_equal(errno, EINVAL);
        }
    }
    munmap(memory, 2 * page);
}

/* ---- which frames a rule takes ---- */

static struct raw_frame ipv6_flow(uint8_t protocol)
{
    struct raw_frame f = raw_flow(77);

    f.ether_type = RAW_IPV6;
    f.protocol = protocol;
    memcpy(f.src, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    memcpy(f.dst, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\2", 16);
    return f;
}

static struct raw_frame tcp_flow(void)
{
    struct raw_frame f = raw_flow(78);

    f.protocol = RAW_TCP;
    return f;
}

static struct raw_frame tagged_flow(void)
{
    struct raw_frame f = raw_flow(79);

    f.vlan = 3 << 13 | 5;
    return f;
}

/* All frames of the kind must arrive; frames with one field changed must not. */
static void take_only(struct raw *r, const void *a, const void *b, struct raw_frame good,
                      void (*change)(struct raw_frame *f))
{
    struct ibv_flow *flow = rule(r, a, b);
    struct raw_frame other = good;

    assert_non_null(flow);
    change(&other);
    other.id = good.id + 1000;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(raw_post_qp(r, r->sender), 0);
    raw_expect_only(r, &good);
    raw_send(r, &other);
    raw_expect_only(r, &good);
    assert_int_equal(ibv_destroy_flow(flow), 0);
}

#define CHANGE(name, ...)                          \
    static void change_##name(struct raw_frame *f) \
    {                                              \
        __VA_ARGS__;                               \
    }
CHANGE(dmac, f->dmac[0] |= 1)
CHANGE(smac, f->smac[5]++)
CHANGE(type, f->ether_type = 0x88B5)
CHANGE(vlan, f->vlan++)
CHANGE(tag, f->vlan = 0)
CHANGE(src, f->src[15]++)
CHANGE(dst, f->dst[15]++)
CHANGE(net, f->dst[13]++)
CHANGE(version, uint32_t id = f->id; *f = ipv6_flow(RAW_UDP); f->id = id)
CHANGE(version4, uint32_t id = f->id; *f = raw_flow(5); f->id = id)
CHANGE(protocol, f->protocol = f->protocol == RAW_UDP ? RAW_TCP : RAW_UDP)
CHANGE(tos, f->tos ^= 4)
CHANGE(ttl, f->ttl--)
CHANGE(sport, f->sport++)
CHANGE(dport, f->dport++)

void rules_take_what_they_match(void **state)
{
    struct raw *r = *state;
    struct raw_frame v4 = raw_flow(7), v6 = ipv6_flow(RAW_UDP);
    struct ibv_flow_spec_eth e = eth;
    struct ibv_flow_spec_ipv4 ip = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(ip)};
    struct ibv_flow_spec_ipv4_ext ext = {.type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof(ext)};
    struct ibv_flow_spec_ipv6 ip6 = {.type = IBV_FLOW_SPEC_IPV6, .size = sizeof(ip6)};
    struct ibv_flow_spec_tcp_udp ports = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(ports)};

    memcpy(e.val.dst_mac, v4.dmac, 6);
    memset(e.mask.dst_mac, 0xFF, 6);
    take_only(r, &e, NULL, v4, change_dmac);
    memcpy(e.val.src_mac, v4.smac, 6);
    memset(e.mask.src_mac, 0xFF, 6);
    take_only(r, &e, NULL, v4, change_smac);
    e.val.ether_type = htons(RAW_IPV4);
    e.mask.ether_type = 0xFFFF;
    take_only(r, &e, NULL, v4, change_type);
    /* The type is the one behind the tag. */
    e.val.vlan_tag = htons(5);
    e.mask.vlan_tag = htons(0x0FFF);
    take_only(r, &e, NULL, tagged_flow(), change_vlan);
    take_only(r, &e, NULL, tagged_flow(), change_tag);

    take_only(r, &any_ipv4, NULL, v4, change_version);
    memcpy(&ip.val.dst_ip, v4.dst + 12, 4);
    ip.mask.dst_ip = htonl(0xFFFF0000);
    take_only(r, &ip, NULL, v4, change_net);
    memcpy(&ip.val.src_ip, v4.src + 12, 4);
    ip.mask.src_ip = UINT32_MAX;
    take_only(r, &eth, &ip, v4, change_src);

    ext.val.proto = RAW_UDP;
    ext.mask.proto = 0xFF;
    take_only(r, &ext, NULL, v4, change_protocol);
    ext.val.ttl = 64;
    ext.mask.ttl = 0xFF;
    take_only(r, &ext, NULL, v4, change_ttl);
    ext.mask.tos = 0xFC;
    take_only(r, &ext, NULL, v4, change_tos);
    memcpy(&ext.val.src_ip, v4.src + 12, 4);
    ext.mask.src_ip = UINT32_MAX;
    ext.val.flags = ext.mask.flags = 2; /* don't fragment */
    take_only(r, &ext, NULL, v4, change_src);

    take_only(r, &any_ipv6, NULL, v6, change_version4);
    memcpy(ip6.val.dst_ip, v6.dst, 16);
    memset(ip6.mask.dst_ip, 0xFF, 16);
    take_only(r, &ip6, NULL, v6, change_dst);
    ip6.val.next_hdr = RAW_UDP;
    ip6.mask.next_hdr = 0xFF;
    take_only(r, &ip6, NULL, v6, change_protocol);
    ip6.val.hop_limit = 64;
    ip6.mask.hop_limit = 0xFF;
    take_only(r, &ip6, NULL, v6, change_ttl);
    ip6.mask.traffic_class = 0xFF;
    take_only(r, &ip6, NULL, v6, change_tos);

    take_only(r, &any_udp, NULL, v4, change_protocol);
    take_only(r, &any_tcp, NULL, tcp_flow(), change_protocol);
    take_only(r, &any_ipv6, &any_udp, v6, change_version4);
    ports.val.dst_port = htons(7777);
    ports.mask.dst_port = 0xFFFF;
    take_only(r, &ports, NULL, v6, change_dport);
    ports.val.src_port = htons(1001);
    ports.mask.src_port = 0xFFFF;
    take_only(r, &any_ipv4, &ports, v4, change_sport);
}

/* ---- which rule takes it, and what becomes of it ---- */

static struct ibv_flow *rule_of(struct ibv_qp *qp, uint16_t priority, const void *spec,
                                const void *action)
{
    const void *list[2] = {spec, action};
    struct ibv_flow *flow = raw_rule(qp, IBV_FLOW_ATTR_NORMAL, priority, action ? 2 : 1, list);

    assert_non_null(flow);
    return flow;
}

/* The smaller priority number first; of equal ones the earlier rule; the next one when a rule is
 * removed. */
void rules_by_priority(void **state)
{
    struct raw *r = *state;
    struct ibv_qp *qp[4];
    struct ibv_flow *flow[4];
    static const uint16_t priority[4] = {7, 3, 3, 0xFFFF};
    static const unsigned order[4] = {1, 2, 0, 3};
    struct raw_frame f = raw_flow(7);

    for (unsigned i = 0; i < 4; i++) {
        qp[i] = raw_qp(r, r->cq);
        assert_int_equal(raw_post_qp(r, qp[i]), 0);
        flow[i] = rule_of(qp[i], priority[i], &any_udp, NULL);
    }
    for (unsigned i = 0; i < 4; i++) {
        struct ibv_wc wc;

        raw_send(r, &f);
        wc = raw_await(r->cq);
        assert_int_equal(wc.qp_num, qp[order[i]]->qp_num);
        assert_int_equal(wc.opcode, IBV_WC_RECV);
        assert_int_equal(ibv_destroy_flow(flow[order[i]]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ibv_destroy_qp(qp[i]), 0);
}

/* The values of counters whose points are: none, bytes, packets. */
static void expect_counts(struct ibv_counters *c, uint64_t packets, uint64_t bytes)
{
    uint64_t value[3] = {7, 7, 7};

    assert_int_equal(ibv_read_counters(c, value, 3, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
    assert_int_equal(value[0], 0);
    assert_int_equal(value[1], bytes);
    assert_int_equal(value[2], packets);
}

static void attach(struct ibv_counters *c, struct ibv_flow *flow)
{
    struct ibv_counter_attach_attr point[2] = {{IBV_COUNTER_BYTES, 1, 0},
                                               {IBV_COUNTER_PACKETS, 2, 0}};

    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(ibv_attach_counters_point_flow(c, &point[i], flow), 0);
}

static void counters_refused(struct raw *r, struct ibv_counters *c)
{
    struct ibv_counter_attach_attr unknown = {IBV_COUNTER_BYTES + 1, 0, 0},
                                   far = {IBV_COUNTER_BYTES, 32, 0},
                                   extended = {IBV_COUNTER_BYTES, 0, 1};
    uint64_t value[33];

    assert_null(ibv_create_counters(r->ctx, &(struct ibv_counters_init_attr){1}));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_attach_counters_point_flow(c, &unknown, NULL), EINVAL);
    assert_int_equal(ibv_attach_counters_point_flow(c, &far, NULL), EINVAL);
    assert_int_equal(ibv_attach_counters_point_flow(c, &extended, NULL), EINVAL);
    assert_int_equal(ibv_read_counters(c, value, 33, 0), EINVAL);
    assert_int_equal(ibv_read_counters(c, value, 1, 2), EINVAL);
}

/* By a specification from the rule's creation on, and by a call from then on; what a rule has taken
 * counts also when it is gone, and other rules' creation changes nothing. */
void rules_count(void **state)
{
    struct raw *r = *state;
    struct ibv_counters_init_attr init = {0};
    struct ibv_counters *c = ibv_create_counters(r->ctx, &init),
                        *late = ibv_create_counters(r->ctx, &init);
    struct ibv_counter_attach_attr bytes = {IBV_COUNTER_BYTES, 0, 0};
    struct ibv_flow_spec_counter_action count = {
        .type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(count), .counters = c};
    struct ibv_qp *qp = raw_qp(r, r->cq);
    const void *spec[2] = {&any_udp, &count};
    struct raw_frame f = raw_flow(7);
    uint8_t built[RAW_ROOM];
    unsigned len = raw_build(built, &f);
    struct ibv_flow *flow, *other = NULL;

    assert_non_null(c);
    counters_refused(r, c);
    attach(c, NULL);
    expect_counts(c, 0, 0);
    flow = raw_rule(qp, IBV_FLOW_ATTR_NORMAL, 0, 2, spec);
    assert_non_null(flow);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(raw_post_qp(r, qp), 0);
        raw_expect_only(r, &f);
        expect_counts(c, i + 1, (i + 1) * len);
        if (!i)
            other = rule(r, &any_tcp, &drop);
    }
    assert_int_equal(ibv_destroy_flow(flow), 0);
    expect_counts(c, 3, 3 * len);

    flow = raw_rule(qp, IBV_FLOW_ATTR_NORMAL, 0, 1, spec);
    assert_int_equal(raw_post_qp(r, qp), 0);
    raw_expect_only(r, &f); /* before it is bound */
    attach(late, flow);
    assert_int_equal(ibv_attach_counters_point_flow(c, &bytes, flow), EBUSY);
    assert_int_equal(ibv_destroy_counters(late), EBUSY);
    assert_int_equal(raw_post_qp(r, qp), 0);
    raw_expect_only(r, &f);
    expect_counts(late, 1, len);
    assert_int_equal(ibv_destroy_flow(flow), 0);
    expect_counts(late, 1, len);
    expect_counts(c, 3, 3 * len);
    assert_int_equal(ibv_destroy_flow(other), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_counters(late), 0);
    assert_int_equal(ibv_destroy_counters(c), 0);
}

struct binding {
    pthread_barrier_t *together;
    struct ibv_counters *counters;
    struct ibv_flow *flow;
    int err;
};

static void *bind_rule(void *arg)
{
    struct ibv_counter_attach_attr packets = {IBV_COUNTER_PACKETS, 0, 0};
    struct binding *b = arg;

    pthread_barrier_wait(b->together);
    b->err = ibv_attach_counters_point_flow(b->counters, &packets, b->flow);
    return NULL;
}

/* To one of two objects, although two threads ask at once. */
void rules_are_bound_once(void **state)
{
    struct raw *r = *state;
    struct ibv_counters_init_attr init = {0};
    struct binding b[2] = {{0}};
    pthread_barrier_t together;

    pthread_barrier_init(&together, NULL, 2);
    for (unsigned round = 0; round < 50; round++) {
        struct ibv_flow *flow = rule(r, &any_tcp, &drop);
        pthread_t thread;

        assert_non_null(flow);
        for (unsigned i = 0; i < 2; i++)
            b[i] = (struct binding){.together = &together,
                                    .counters = ibv_create_counters(r->ctx, &init),
                                    .flow = flow};
        assert_int_equal(pthread_create(&thread, NULL, bind_rule, &b[0]), 0);
        bind_rule(&b[1]);
        pthread_join(thread, NULL);
        assert_int_equal(b[0].err + b[1].err, EBUSY);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(ibv_destroy_counters(b[i].counters), b[i].err ? 0 : EBUSY);
        assert_int_equal(ibv_destroy_flow(flow), 0);
        assert_int_equal(ibv_destroy_counters(b[b[0].err ? 1 : 0].counters), 0);
    }
    pthread_barrier_destroy(&together);
}

static int start_poll(struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr none = {0};
    time_t end = time(NULL) + 10;
    int err;

    do
        err = ibv_start_poll(cq, &none);
    while (err == ENOENT && time(NULL) < end);
    return err;
}

void rules_drop_and_tag(void **state)
{
    struct raw *r = *state;
    struct ibv_cq_init_attr_ex init = {.cqe = 16,
                                       .wc_flags = IBV_WC_EX_WITH_FLOW_TAG |
                                                   IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(r->ctx, &init);
    struct ibv_qp *qp = raw_qp(r, ibv_cq_ex_to_cq(cq));
    struct ibv_flow *tagged, *dropped;
    struct raw_frame f = raw_flow(7);

    assert_non_null(cq);
    tagged = rule_of(qp, 2, &any_udp, &tag);
    dropped = rule_of(r->sender, 1, &any_ipv4, &drop);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(raw_post_qp(r, qp), 0);
    raw_send(r, &f); /* dropped */
    f = ipv6_flow(RAW_UDP);
    raw_send(r, &f);
    assert_int_equal(start_poll(cq), 0);
    assert_int_equal(cq->status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_wc_read_flow_tag(cq), 0xABCD);
    assert_int_equal(ibv_wc_read_qp_num(cq), qp->qp_num);
    assert_int_equal(ibv_wc_read_byte_len(cq), 70);
    assert_int_equal(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    assert_int_equal(ibv_destroy_flow(dropped), 0);
    assert_int_equal(ibv_destroy_flow(tagged), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* The queue pairs that got a frame, as a bit mask. */
static unsigned who_gets(struct raw *r, struct ibv_qp *const *qp, unsigned qps, unsigned copies,
                         const struct raw_frame *f)
{
    unsigned who = 0;

    raw_send(r, f);
    for (unsigned n = 0; n < copies; n++) {
        struct ibv_wc wc = raw_await(r->cq);

        for (unsigned i = 0; i < qps; i++)
            who |= (unsigned)(qp[i]->qp_num == wc.qp_num) << i;
    }
    return who;
}

void default_rules_and_sniffers(void **state)
{
    enum { NORMAL, ALL, MULTICAST, SNIFFER, QPS };
    static const enum ibv_flow_attr_type type[QPS] = {
        IBV_FLOW_ATTR_NORMAL, IBV_FLOW_ATTR_ALL_DEFAULT, IBV_FLOW_ATTR_MC_DEFAULT,
        IBV_FLOW_ATTR_SNIFFER};
    struct raw *r = *state;
    struct ibv_qp *qp[QPS];
    struct ibv_flow *flow[QPS];
    struct raw_frame udp = raw_flow(7), tcp = tcp_flow(), group = tcp;
    const void *only_udp[] = {&any_udp};

    group.dmac[0] = 1;
    for (unsigned i = 0; i < QPS; i++) {
        qp[i] = raw_qp(r, r->cq);
        for (unsigned n = 0; n < 8; n++)
            assert_int_equal(raw_post_qp(r, qp[i]), 0);
        flow[i] = raw_rule(qp[i], type[i], 0, i == NORMAL, only_udp);
        assert_non_null(flow[i]);
    }
    assert_int_equal(who_gets(r, qp, QPS, 2, &udp), 1 << NORMAL | 1 << SNIFFER);
    assert_int_equal(who_gets(r, qp, QPS, 2, &tcp), 1 << ALL | 1 << SNIFFER);
    assert_int_equal(who_gets(r, qp, QPS, 2, &group), 1 << MULTICAST | 1 << SNIFFER);
    assert_int_equal(ibv_destroy_flow(flow[SNIFFER]), 0);
    assert_int_equal(who_gets(r, qp, QPS, 1, &group), 1 << MULTICAST);
    assert_int_equal(ibv_destroy_flow(flow[MULTICAST]), 0);
    assert_int_equal(who_gets(r, qp, QPS, 1, &group), 1 << ALL);
    assert_int_equal(ibv_destroy_flow(flow[ALL]), 0);
    assert_int_equal(ibv_destroy_flow(flow[NORMAL]), 0);
    for (unsigned i = 0; i < QPS; i++)
        assert_int_equal(ibv_destroy_qp(qp[i]), 0);
}

/* A raw queue pair supports one of the ibv_wr_* calls. */
void new_post_calls(void **state)
{
    struct raw *r = *state;
    struct ibv_qp_init_attr_ex init = {
        .send_cq = r->send_cq,
        .recv_cq = r->cq,
        .cap = {16, 16, 1, 1, 128},
        .qp_type = IBV_QPT_RAW_PACKET,
        .sq_sig_all = 1,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = r->pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct raw_frame f = raw_flow(9);
    struct ibv_flow *flow;
    struct ibv_qp_ex *ex;
    struct ibv_qp *qp;
    struct ibv_wc wc;
    uint8_t frame[RAW_ROOM];
    unsigned len = raw_build(frame, &f);

    assert_null(ibv_create_qp_ex(r->ctx, &init));
    assert_int_equal(errno, EOPNOTSUPP);
    init.send_ops_flags = IBV_QP_EX_WITH_SEND;
    qp = ibv_create_qp_ex(r->ctx, &init);
    assert_non_null(qp);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
    modify_state(qp, IBV_QPS_RTR);
    modify_state(qp, IBV_QPS_RTS);
    flow = rule_of(qp, 0, &any_udp, NULL);
    assert_int_equal(raw_post_qp(r, qp), 0);
    ex = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(ex);
    ex->wr_id = 5;
    ex->wr_flags = IBV_SEND_INLINE;
    ibv_wr_send(ex);
    ibv_wr_set_inline_data(ex, frame, len);
    assert_int_equal(ibv_wr_complete(ex), 0);
    wc = raw_await(r->send_cq);
    assert_int_equal(wc.wr_id, 5);
    wc = raw_await(r->cq);
    assert_int_equal(raw_id(r, &wc), 9);
    assert_int_equal(ibv_destroy_flow(flow), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}
