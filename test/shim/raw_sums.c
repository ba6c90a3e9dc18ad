/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums that the device computes and verifies: IBV_SEND_IP_CSUM, IBV_WC_IP_CSUM_OK. */
#include <errno.h>
#include <string.h>

#include "raw_kit.h"
#include "raw_tests.h"
#include "unit.h"
#include "verbs_pair.h"

#define HEADER_SUM 28 /* where they are in the frame */
#define TCP_SUM    58

/* TCP in IPv4 with options, in a VLAN, as scapy has built it. */
static const uint8_t built[] = {
    0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x81, 0x00,
    0x00, 0x05, 0x08, 0x00, 0x46, 0x00, 0x00, 0x33, 0x00, 0x01, 0x00, 0x00, 0x40, 0x06,
    0xAB, 0x16, 0xC0, 0xA8, 0xFF, 0xFE, 0x0A, 0x01, 0x02, 0x04, 0x01, 0x01, 0x01, 0x01,
    0x00, 0x50, 0xEA, 0x60, 0xFE, 0xDC, 0xBA, 0x98, 0x00, 0x00, 0x00, 0x05, 0x50, 0x18,
    0x20, 0x00, 0x65, 0x02, 0x00, 0x00, 0x73, 0x65, 0x76, 0x65, 0x6E, 0x20, 0x62};

static struct ibv_flow *take_all(struct raw *r)
{
    static const struct ibv_flow_spec_tcp_udp tcp = {.type = IBV_FLOW_SPEC_TCP,
                                                     .size = sizeof(tcp)};
    struct ibv_flow *flow = raw_rule(r->sender, IBV_FLOW_ATTR_NORMAL, 0, 1, (const void *[]){&tcp});

    assert_non_null(flow);
    return flow;
}

/* Sends it to the device itself, with these flags, inline or from memory. */
static void post(struct raw *r, const uint8_t *frame, unsigned flags)
{
    uint8_t *slot = r->memory;
    struct ibv_sge sge = {.addr = (uintptr_t)slot, .length = sizeof(built), .lkey = r->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};

    memcpy(slot, frame, sizeof(built));
    assert_int_equal(raw_post_qp(r, r->sender), 0);
    assert_int_equal(ibv_post_send(r->sender, &wr, &bad), 0);
    raw_await(r->send_cq);
}

/* The next one must be `frame`. True: the device found its checksums right. */
static bool arrived(struct raw *r, const uint8_t *frame)
{
    struct ibv_wc wc = raw_await(r->cq);

    assert_int_equal(wc.byte_len, sizeof(built));
    assert_memory_equal(r->memory + (RAW_WR + wc.wr_id) * RAW_ROOM, frame, sizeof(built));
    assert_int_equal(wc.wc_flags & ~(unsigned)IBV_WC_IP_CSUM_OK, 0);
    return wc.wc_flags & IBV_WC_IP_CSUM_OK;
}

void checksums(void **state)
{
    struct raw *r = *state;
    struct raw_frame flow = raw_flow(1);
    struct ibv_flow *rule = take_all(r);
    uint8_t right[sizeof(built)], without[sizeof(built)];

    memcpy(right, built, sizeof(right));
    memcpy(right, flow.dmac, sizeof(flow.dmac));
    memcpy(without, right, sizeof(right));
    memset(without + HEADER_SUM, 0, 2);
    memset(without + TCP_SUM, 0, 2);

    post(r, without, IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM);
    assert_true(arrived(r, right));
    post(r, without, IBV_SEND_SIGNALED);
    assert_false(arrived(r, without));
    post(r, right, IBV_SEND_SIGNALED);
    assert_true(arrived(r, right));
    assert_int_equal(ibv_destroy_flow(rule), 0);
}

/* The same by inline data, and by the calls of ibv_wr_start. */
void checksums_of_new_post_calls(void **state)
{
    struct raw *r = *state;
    struct ibv_qp_init_attr_ex init = {.send_cq = r->send_cq,
                                       .recv_cq = r->cq,
                                       .cap = {16, 16, 1, 1, 128},
                                       .qp_type = IBV_QPT_RAW_PACKET,
                                       .comp_mask =
                                           IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .pd = r->pd,
                                       .send_ops_flags = IBV_QP_EX_WITH_SEND};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp *qp = ibv_create_qp_ex(r->ctx, &init);
    struct raw_frame flow = raw_flow(1);
    struct ibv_flow *rule = take_all(r);
    uint8_t right[sizeof(built)], without[sizeof(built)];
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

    assert_non_null(qp);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
    modify_state(qp, IBV_QPS_RTR);
    modify_state(qp, IBV_QPS_RTS);
    memcpy(right, built, sizeof(right));
    memcpy(right, flow.dmac, sizeof(flow.dmac));
    memcpy(without, right, sizeof(right));
    memset(without + TCP_SUM, 0x55, 2);
    assert_int_equal(raw_post_qp(r, r->sender), 0);
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_IP_CSUM;
    ibv_wr_send(ex);
    ibv_wr_set_inline_data(ex, without, sizeof(without));
    assert_int_equal(ibv_wr_complete(ex), 0);
    raw_await(r->send_cq);
    assert_true(arrived(r, right));
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM << 1; /* no such flag */
    ibv_wr_send(ex);
    ibv_wr_set_inline_data(ex, without, sizeof(without));
    assert_int_equal(ibv_wr_complete(ex), EINVAL);
    assert_int_equal(ibv_destroy_flow(rule), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* A datagram's headers are the device's own. */
void checksums_of_datagrams_refused(void **state)
{
    struct pair p;
    struct ibv_qp *qp;
    struct ibv_ah *ah;
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_IP_CSUM};

    pair_open(&p);
    qp = make_datagram_qp(&p, p.cq, 4);
    ah = make_own_ah(&p);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qp->qp_num;
    wr.wr.ud.remote_qkey = PAIR_QKEY;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
    assert_int_equal(ibv_post_send(p.a.qp, &wr, &bad), EINVAL);
    wr.send_flags = 0;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    pair_close(&p);
}
