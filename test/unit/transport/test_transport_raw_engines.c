/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw packets of a device with two engines: queues of the other engine, indirection tables over
 * both, sniffers, and frames in flight while queues and rules change.
 */
#include <errno.h>
#include <stdlib.h>

#include "unit.h"

#include "bytes.h"
#include "encap.h"
#include "pkt.h"
#include "raw_kit.h"

#define WQS  4 /* WQ i is of engine i % 2 */
#define QKEY 0x1234

struct fixture {
    struct raw_kit *k;
    struct raw_cq *cq;
    struct raw_queue *wq[WQS], *qp[RAW_ENGINES]; /* qp[i] is of engine i */
    struct wq *handle[WQS];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->k = raw_kit_create(false);
    f->cq = raw_cq_create(256);
    for (unsigned i = 0; i < WQS; i++) {
        f->wq[i] = raw_wq_create(f->k, i % 2, f->cq, NULL);
        f->handle[i] = f->wq[i]->wq;
        assert_int_equal(engine_wq_modify(f->k->node[i % 2].engine, f->handle[i], WQS_RDY, 0), 0);
    }
    for (unsigned i = 0; i < RAW_ENGINES; i++)
        f->qp[i] = raw_qp_create(f->k, i, f->cq, NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    bool adds_up = raw_adds_up(f->k);

    raw_rules(f->k, NULL, 0);
    for (unsigned i = 0; i < WQS; i++)
        raw_queue_destroy(f->wq[i]);
    for (unsigned i = 0; i < RAW_ENGINES; i++)
        raw_queue_destroy(f->qp[i]);
    raw_cq_destroy(f->cq);
    raw_kit_destroy(f->k);
    free(f);
    return adds_up ? 0 : -1;
}

static const struct raw_spec plain = {.payload = 100};

static void arrive_at(struct fixture *f, unsigned at, const struct raw_spec *s)
{
    struct raw_bytes b;
    struct frame frame;

    raw_build(&b, s);
    frame = raw_frame(&b);
    raw_arrive_only(f->k, at, &frame, 1);
}

static unsigned completions(struct fixture *f, uint32_t qpn)
{
    struct cqe c;
    unsigned n = 0;

    while (raw_poll(f->cq, &c)) {
        assert_int_equal(c.status, WC_SUCCESS);
        n += c.qpn == qpn;
    }
    return n;
}

static void rule_for(struct fixture *f, enum flow_type type, unsigned i)
{
    const struct flow_rule rule = {.type = type, .qp = f->qp[i]->qp};

    raw_rules(f->k, &rule, 1);
}

/* ---- one taker ---- */

static void frames_find_their_engine(void **state)
{
    struct fixture *f = *state;

    for (unsigned owner = 0; owner < 2; owner++)
        for (unsigned at = 0; at < 2; at++) {
            unsigned before = f->k->forwards;

            rule_for(f, FLOW_NORMAL, owner);
            raw_post(f->qp[owner], 1);
            arrive_at(f, at, &plain);
            assert_int_equal(f->k->forwards - before, at != owner);
            raw_pass_on(f->k);
            assert_int_equal(completions(f, qp_number(f->qp[owner]->qp)), 1);
            assert_int_equal(f->k->forwards - before, at != owner);
            assert_int_equal(flow_entry_count(f->k->flows.entry[0]).frames, 1);
        }
}

static void full_ring_drops(void **state)
{
    struct fixture *f = *state;

    rule_for(f, FLOW_NORMAL, 1);
    raw_post(f->qp[1], 1);
    f->k->node[1].refuse = true;
    arrive_at(f, 0, &plain);
    assert_int_equal(raw_drops(f->k, DROP_forward_full), 1);
    assert_int_equal(completions(f, qp_number(f->qp[1]->qp)), 0);
}

/* A frame of a default rule goes to the host once, where it arrived. */
static void host_gets_one(void **state)
{
    struct fixture *f = *state;

    f->k->host_takes = true;
    rule_for(f, FLOW_ALL_DEFAULT, 1);
    raw_post(f->qp[1], 1);
    arrive_at(f, 0, &plain);
    raw_pass_on(f->k);
    assert_int_equal(f->k->node[0].others, 1);
    assert_int_equal(f->k->node[1].others, 0);
    assert_int_equal(completions(f, qp_number(f->qp[1]->qp)), 1);
}

/* While a frame is in flight its rule is removed, or its queue pair migrates again. */
static void changes_on_the_way(void **state)
{
    struct fixture *f = *state;

    rule_for(f, FLOW_NORMAL, 1);
    raw_post(f->qp[1], 1);
    arrive_at(f, 0, &plain);
    raw_rules(f->k, NULL, 0);
    f->k->host_takes = true;
    raw_pass_on(f->k);
    assert_int_equal(raw_drops(f->k, DROP_raw_no_recv), 1);
    assert_int_equal(f->k->node[1].others, 0);

    rule_for(f, FLOW_NORMAL, 1);
    arrive_at(f, 0, &plain);
    engine_qp_release(f->k->node[1].engine, f->qp[1]->qp, f->k->node[0].engine);
    engine_qp_adopt(f->k->node[0].engine, f->qp[1]->qp, ++f->k->now);
    f->qp[1]->at = 0;
    raw_pass_on(f->k);
    assert_int_equal(completions(f, qp_number(f->qp[1]->qp)), 1);
    assert_int_equal(f->k->forwards, 3);
}

/* A queue pair or WQ without an owner receives nothing. */
static void detached_takes_nothing(void **state)
{
    struct fixture *f = *state;

    rule_for(f, FLOW_NORMAL, 0);
    raw_post(f->qp[0], 1);
    engine_qp_detach(f->k->node[0].engine, f->qp[0]->qp);
    arrive_at(f, 0, &plain);
    assert_int_equal(raw_drops(f->k, DROP_raw_no_recv), 1);
    assert_int_equal(f->k->forwards, 0);
}

/* ---- indirection ---- */

static struct raw_spec flow(unsigned i)
{
    return (struct raw_spec){.version = 4,
                             .proto = 6,
                             .sport = (uint16_t)(1000 + i * 7),
                             .dport = (uint16_t)(80 + i / 4),
                             .payload = 20};
}

static const struct rx_hash by_ports = {.function = RSS_XOR,
                                        .fields = RX_HASH_SRC_PORT_TCP | RX_HASH_DST_PORT_TCP};

/* The low bits of the hash select the table's element, whichever engine owns the WQ in it. */
static void indirection_over_both_engines(void **state)
{
    struct fixture *f = *state;
    struct rwq_ind *ind = rwq_ind_create(rwq_entries_create(f->handle, WQS));
    struct raw_queue *rss = raw_rss_create(f->k, &by_ports, ind);
    const struct flow_rule rule = {.type = FLOW_NORMAL, .qp = rss->qp};
    unsigned used = 0;

    raw_rules(f->k, &rule, 1);
    for (unsigned i = 0; i < 64; i++) {
        struct raw_spec s = flow(i);
        unsigned entry = (s.sport ^ s.dport) % WQS;

        raw_post(f->wq[entry], i);
        arrive_at(f, i % 3 == 0, &s);
        raw_pass_on(f->k);
        assert_int_equal(completions(f, wq_number(f->handle[entry])), 1);
        used |= 1u << entry;
    }
    assert_int_equal(used, (1u << WQS) - 1);
    assert_true(f->k->forwards > 10);
    raw_rules(f->k, NULL, 0);
    raw_queue_destroy(rss);
    rwq_ind_free(ind);
}

/* The table is replaced by others of other sizes and owners while frames arrive and are in flight:
 * each frame goes to a WQ of the old table or of the new one. */
static void replaced_under_traffic(void **state)
{
    struct fixture *f = *state;
    struct rwq_ind *ind = rwq_ind_create(rwq_entries_create(f->handle, WQS));
    struct raw_queue *rss = raw_rss_create(f->k, &by_ports, ind);
    const struct flow_rule rule = {.type = FLOW_NORMAL, .qp = rss->qp};
    struct rwq_entries *old[16];
    unsigned got = 0, per_wq[WQS] = {0};
    struct cqe c;

    raw_rules(f->k, &rule, 1);
    for (unsigned round = 0; round < 16; round++) {
        struct wq *wq[RWQ_IND_MAX];
        uint32_t size = 1u << round % 8;

        for (unsigned i = 0; i < WQS; i++)
            while (raw_posted(f->wq[i]) - per_wq[i] < 16)
                raw_post(f->wq[i], i);
        for (unsigned i = 0; i < size; i++)
            wq[i] = f->handle[(i + round) % WQS];
        for (unsigned i = 0; i < 8; i++) {
            struct raw_spec s = flow(round * 8 + i);

            arrive_at(f, i % 2, &s);
            if (i == 3)
                old[round] = rwq_ind_replace(ind, rwq_entries_create(wq, size));
        }
        raw_pass_on(f->k);
        while (raw_poll(f->cq, &c)) {
            assert_int_equal(c.status, WC_SUCCESS);
            per_wq[c.wr_id]++;
            got++;
        }
    }
    assert_int_equal(got, 16 * 8);
    assert_int_equal(raw_delivered(f->k), 16 * 8);
    raw_rules(f->k, NULL, 0);
    for (unsigned i = 0; i < 16; i++)
        rwq_entries_free(old[i]);
    raw_queue_destroy(rss);
    rwq_ind_free(ind);
}

/* ---- sniffers ---- */

/* A datagram to a queue pair, or to a group. */
static void roce_build(struct raw_bytes *out, const struct raw_kit *k, uint32_t qpn,
                       const union gid *group)
{
    struct address_vector av = {.sgid = gid_from_ipv4((const uint8_t[]){10, 0, 0, 9}),
                                .dgid = group ? *group : k->gids.entry[0].gid,
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = VLAN_NONE,
                                .hop_limit = 64,
                                .udp_sport = 0xC000};
    struct pkt p = {.opcode = OPCODE(PKT_UD, OP_SEND_ONLY),
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = group ? QPN_MULTICAST : qpn,
                    .payload_len = 8};
    struct encap_template t;
    size_t len = pkt_len(p.opcode, p.payload_len), at;

    memcpy(av.dmac, k->port.mac, 6);
    if (group)
        gid_multicast_mac(group, av.dmac);
    p.deth.qkey = QKEY;
    assert_int_equal(encap_template_make(&t, &av), 0);
    at = encap_tx(out->data, &t, len, 0);
    at += pkt_build_headers(out->data + at, &p);
    memset(out->data + at, 0x42, p.payload_len);
    out->len = (uint32_t)encap_seal(out->data, &t, len);
}

static struct raw_queue *ud_create(struct fixture *f, unsigned at)
{
    struct raw_queue *model = raw_qp_create(f->k, at, f->cq, NULL);
    struct engine *e = f->k->node[at].engine;
    struct qp_init init = {.type = QPT_UD,
                           .pd = RAW_PD,
                           .send_cq = &f->cq->cq,
                           .recv_cq = &f->cq->cq,
                           .shared = model->shared,
                           .sq = {.ring = model->sq,
                                  .prod = &model->shared->sq_prod,
                                  .size = RAW_QUEUE,
                                  .stride = sqe_stride(RAW_SGE, 64),
                                  .max_sge = RAW_SGE,
                                  .max_inline = 64},
                           .rq = {.ring = model->rq,
                                  .prod = &model->shared->rq_prod,
                                  .size = RAW_QUEUE,
                                  .stride = rqe_stride(RAW_SGE),
                                  .max_sge = RAW_SGE},
                           .owner = model};
    struct qp_attr a = {.state = QPS_INIT, .port_num = 1, .qkey = QKEY};
    int err;

    engine_qp_detach(e, model->qp);
    qp_free(model->qp);
    model->qp = qp_create(f->k->qps, &init, &err);
    assert_non_null(model->qp);
    engine_qp_attach(e, model->qp);
    assert_int_equal(engine_qp_modify(e, model->qp, &a,
                                      QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY, NULL, 5, 0),
                     0);
    a.state = QPS_RTR;
    assert_int_equal(engine_qp_modify(e, model->qp, &a, QPA_STATE, NULL, 5, 0), 0);
    return model;
}

/* For every owner and every engine of arrival, also for frames without their ICRC: each sniffer and
 * the queue pair get one copy, with the ICRC, and the frame is forwarded at most once. */
static void sniffers_of_roce(void **state)
{
    struct fixture *f = *state;

    for (unsigned c = 0; c < 64; c++) {
        unsigned at = c & 1, owner = c >> 1 & 1, sniffers = c >> 2 & 3;
        bool group = c & 16, inside = c & 32;
        const union gid g = gid_from_ipv4((const uint8_t[]){224, 0, 0, 77});
        struct raw_queue *ud = ud_create(f, owner);
        struct flow_rule rule[2] = {{.type = FLOW_SNIFFER, .qp = f->qp[0]->qp},
                                    {.type = FLOW_SNIFFER, .qp = f->qp[1]->qp}};
        unsigned n = (sniffers & 1) + (sniffers >> 1), before = f->k->forwards, got[3] = {0};
        struct raw_bytes b, whole;
        struct frame frame;
        struct cqe e;

        if (group)
            for (unsigned i = 0; i < 2; i++)
                assert_int_equal(engine_mcast_join(f->k->node[i].engine, ud->qp, &g), 0);
        raw_rules(f->k, sniffers == 2 ? rule + 1 : rule, n);
        for (unsigned i = 0; i < 2; i++) {
            raw_post(f->qp[i], 10 + i);
            raw_post(f->qp[i], 10 + i);
        }
        raw_post(ud, 12);
        raw_post(ud, 12);
        roce_build(&b, f->k, qp_number(ud->qp), group ? &g : NULL);
        whole = b;
        if (inside)
            memset(b.data + b.len - ICRC_LEN, 0, ICRC_LEN);
        frame = raw_frame(&b);
        frame.icrc_omitted = inside;
        raw_arrive(f->k, at, &frame, 1);
        while (raw_poll(f->cq, &e)) {
            got[e.wr_id - 10]++;
            if (e.wr_id < 12) {
                assert_int_equal(e.byte_len, whole.len);
                assert_memory_equal(f->k->arena + e.wr_id * RAW_SLOT, whole.data, whole.len);
            }
        }
        assert_int_equal(got[0], sniffers & 1);
        assert_int_equal(got[1], sniffers >> 1);
        assert_int_equal(got[2], 1);
        assert_int_equal(f->k->forwards - before, owner != at || (sniffers >> !at & 1));
        assert_true(raw_adds_up(f->k));
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(flow_entry_count(f->k->flows.entry[i]).frames, 1);
        if (group)
            for (unsigned i = 0; i < 2; i++)
                assert_int_equal(engine_mcast_leave(f->k->node[i].engine, ud->qp, &g), 0);
        raw_queue_destroy(ud);
        /* Entries that were left over. */
        for (unsigned i = 0; i < 2; i++) {
            raw_queue_destroy(f->qp[i]);
            f->qp[i] = raw_qp_create(f->k, i, f->cq, NULL);
        }
        raw_rules(f->k, NULL, 0);
    }
}

/* The same for frames that a rule, or the host, takes. */
static void sniffers_of_raw_frames(void **state)
{
    struct fixture *f = *state;

    f->k->host_takes = true;
    for (unsigned c = 0; c < 24; c++) {
        unsigned at = c & 1, sniffers = c >> 1 & 3, taker = c >> 3; /* 2: the host */
        struct flow_rule rule[3] = {{.type = FLOW_SNIFFER, .qp = f->qp[0]->qp},
                                    {.type = FLOW_SNIFFER, .qp = f->qp[1]->qp}};
        struct flow_rule chosen[3];
        unsigned n = 0, others = f->k->node[0].others + f->k->node[1].others;
        unsigned before = f->k->forwards, got[2] = {0}, want[2] = {sniffers & 1, sniffers >> 1};
        struct cqe e;

        for (unsigned i = 0; i < 2; i++) {
            if (sniffers >> i & 1)
                chosen[n++] = rule[i];
            raw_post(f->qp[i], i);
            raw_post(f->qp[i], i);
        }
        if (taker < 2) {
            chosen[n++] = (struct flow_rule){.type = FLOW_NORMAL, .qp = f->qp[taker]->qp};
            want[taker]++;
        }
        raw_rules(f->k, chosen, n);
        arrive_at(f, at, &plain);
        raw_pass_on(f->k);
        while (raw_poll(f->cq, &e))
            got[e.wr_id]++;
        assert_int_equal(got[0], want[0]);
        assert_int_equal(got[1], want[1]);
        assert_int_equal(f->k->forwards - before, want[!at] != 0);
        assert_int_equal(f->k->node[0].others + f->k->node[1].others - others, taker == 2);
        assert_true(raw_adds_up(f->k));
        for (unsigned i = 0; i < 2; i++) {
            raw_queue_destroy(f->qp[i]);
            f->qp[i] = raw_qp_create(f->k, i, f->cq, NULL);
        }
        raw_rules(f->k, NULL, 0);
    }
}

/* Sniffers get dropped frames too; each is counted as dropped once. */
static void sniffers_see_what_is_dropped(void **state)
{
    static const uint8_t foreign[6] = {4, 4, 4, 4, 4, 4};
    struct fixture *f = *state;
    const struct raw_spec dropped[] = {
        {.dmac = foreign, .payload = 100},                              /* not our MAC */
        {.version = 4, .proto = 17, .dport = 4791},                     /* not our address */
        {.version = 4, .proto = 17, .fragment = 0x2000, .dport = 4791}, /* a fragment */
        {.payload = 100},                                               /* without a queue pair */
    };
    const enum drop reason[] = {DROP_not_our_mac, DROP_wrong_destination, DROP_ip_fragment,
                                DROP_not_roce};

    for (unsigned owner = 0; owner < 2; owner++)
        for (unsigned i = 0; i < ARRAY_SIZE(dropped); i++) {
            uint64_t before = raw_drops(f->k, reason[i]);

            rule_for(f, FLOW_SNIFFER, owner);
            raw_post(f->qp[owner], 1);
            arrive_at(f, 0, &dropped[i]);
            raw_pass_on(f->k);
            assert_int_equal(completions(f, qp_number(f->qp[owner]->qp)), 1);
            assert_int_equal(raw_drops(f->k, reason[i]), before + 1);
            assert_int_equal(raw_drops(f->k, DROP_raw_no_recv), 0);
        }
    f->k->node[1].refuse = true; /* only the copy is lost */
    arrive_at(f, 0, &plain);
    assert_int_equal(raw_drops(f->k, DROP_forward_full), 1);
}

/* A frame to another MAC address: for rules that match it, neither for default rules nor the host.
 */
static void rules_of_other_macs(void **state)
{
    static const uint8_t foreign[6] = {4, 4, 4, 4, 4, 4};
    static const enum flow_type type[] = {FLOW_NORMAL, FLOW_ALL_DEFAULT};
    const struct raw_spec frame = {.dmac = foreign, .payload = 100};
    struct fixture *f = *state;

    f->k->host_takes = true;
    for (unsigned owner = 0; owner < 2; owner++)
        for (unsigned i = 0; i < ARRAY_SIZE(type); i++) {
            uint64_t before = raw_drops(f->k, DROP_not_our_mac);

            rule_for(f, type[i], owner);
            raw_post(f->qp[owner], 1);
            arrive_at(f, 0, &frame);
            raw_pass_on(f->k);
            assert_int_equal(completions(f, qp_number(f->qp[owner]->qp)), type[i] == FLOW_NORMAL);
            assert_int_equal(raw_drops(f->k, DROP_not_our_mac) - before, type[i] != FLOW_NORMAL);
        }
    raw_rules(f->k, NULL, 0);
    arrive_at(f, 0, &frame);
    assert_int_equal(f->k->node[0].others + f->k->node[1].others, 0);
    assert_true(raw_adds_up(f->k));
}

/* A copy for a sniffer is for that sniffer alone, also when the sniffer is gone before the copy
 * arrives: the frame's receiver already has it. */
static void copies_outlive_their_sniffer(void **state)
{
    struct fixture *f = *state;
    struct raw_queue *ud = ud_create(f, 0);
    const struct flow_rule rule[2] = {{.type = FLOW_SNIFFER, .qp = f->qp[1]->qp},
                                      {.type = FLOW_NORMAL, .qp = f->qp[0]->qp}};
    uint32_t qpn = qp_number(ud->qp);
    struct raw_bytes b;
    struct frame frame;

    raw_rules(f->k, rule, 1);
    raw_post(ud, 1);
    raw_post(ud, 2);
    roce_build(&b, f->k, qpn, NULL);
    frame = raw_frame(&b);
    raw_arrive_only(f->k, 0, &frame, 1);
    raw_rules(f->k, NULL, 0);
    raw_pass_on(f->k);
    assert_int_equal(completions(f, qpn), 1);
    assert_int_equal(f->k->forwards, 1);
    assert_int_equal(raw_drops(f->k, DROP_raw_no_recv), 1);
    assert_true(raw_adds_up(f->k));

    raw_rules(f->k, rule, 2);
    raw_post(f->qp[0], 3);
    raw_post(f->qp[0], 4);
    arrive_at(f, 0, &plain);
    raw_rules(f->k, rule + 1, 1);
    raw_pass_on(f->k);
    assert_int_equal(completions(f, qp_number(f->qp[0]->qp)), 1);
    assert_int_equal(f->k->forwards, 2);
    assert_int_equal(raw_drops(f->k, DROP_raw_no_recv), 2);
    raw_queue_destroy(ud);
}

/* A frame for a queue pair that has migrated is not mistaken for a sniffer's copy. */
static void moved_behind_a_sniffer(void **state)
{
    struct fixture *f = *state;
    struct raw_queue *ud = ud_create(f, 1);
    const struct flow_rule rule = {.type = FLOW_SNIFFER, .qp = f->qp[1]->qp};
    uint32_t qpn = qp_number(ud->qp);
    struct raw_bytes b;
    struct frame frame;

    raw_rules(f->k, &rule, 1);
    raw_post(f->qp[1], 1);
    raw_post(ud, 2);
    roce_build(&b, f->k, qpn, NULL);
    frame = raw_frame(&b);
    raw_arrive_only(f->k, 0, &frame, 1);
    engine_qp_release(f->k->node[1].engine, ud->qp, f->k->node[0].engine);
    engine_qp_adopt(f->k->node[0].engine, ud->qp, ++f->k->now);
    ud->at = 0;
    raw_pass_on(f->k);
    assert_int_equal(completions(f, qpn), 1);
    raw_queue_destroy(ud);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(frames_find_their_engine),
        CASE(full_ring_drops),
        CASE(host_gets_one),
        CASE(changes_on_the_way),
        CASE(detached_takes_nothing),
        CASE(indirection_over_both_engines),
        CASE(replaced_under_traffic),
        CASE(sniffers_of_roce),
        CASE(sniffers_of_raw_frames),
        CASE(sniffers_see_what_is_dropped),
        CASE(rules_of_other_macs),
        CASE(copies_outlive_their_sniffer),
        CASE(moved_behind_a_sniffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
