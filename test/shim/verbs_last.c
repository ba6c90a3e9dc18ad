/* SPDX-License-Identifier: BSD-3-Clause */
/* A program may end a queue pair as soon as it has the completion of the last message. The sender
 * of that message gets its acknowledgement all the same: NICs send it before they complete. There
 * are more queue pairs than a burst of packets has room for, so that some acknowledgements wait. */
#include "verbs_last.h"

#include "unit.h"
#include "verbs_pair.h"

#define PAIRS  64
#define ROUNDS 30

struct crowd {
    struct pair first; /* its context, domain and memory */
    struct ibv_cq *send_cq, *recv_cq;
    struct side from[PAIRS], to[PAIRS];
};

static void open_crowd(struct crowd *c)
{
    pair_open(&c->first);
    c->send_cq = ibv_create_cq(c->first.ctx, 2 * PAIRS, NULL, NULL, 0);
    c->recv_cq = ibv_create_cq(c->first.ctx, 2 * PAIRS, NULL, NULL, 0);
    assert_non_null(c->send_cq);
    assert_non_null(c->recv_cq);
}

static void close_crowd(struct crowd *c)
{
    assert_int_equal(ibv_destroy_cq(c->send_cq), 0);
    assert_int_equal(ibv_destroy_cq(c->recv_cq), 0);
    pair_close(&c->first);
}

static void connect_crowd(struct crowd *c)
{
    for (int i = 0; i < PAIRS; i++) {
        c->from[i] = c->first.a;
        c->to[i] = c->first.b;
        c->from[i].qp = make_qp(&c->first, c->send_cq);
        c->to[i].qp = make_qp(&c->first, c->recv_cq);
        connect_qp(c->from[i].qp, c->to[i].qp->qp_num);
        connect_qp(c->to[i].qp, c->from[i].qp->qp_num);
        assert_int_equal(post_recv(&c->to[i], 0, 64, (uint64_t)i), 0);
    }
}

static void destroy(struct ibv_qp *qp)
{
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void reset(struct ibv_qp *qp)
{
    modify_state(qp, IBV_QPS_RESET);
}

static void stop(struct ibv_qp *qp)
{
    modify_state(qp, IBV_QPS_ERR);
}

static void one_round(struct crowd *c, void (*end)(struct ibv_qp *qp))
{
    struct ibv_wc wc[PAIRS];
    int left = PAIRS;

    connect_crowd(c);
    for (int i = 0; i < PAIRS; i++)
        assert_int_equal(post_send(&c->from[i], IBV_WR_SEND, &c->to[i], 0, 64, (uint64_t)i), 0);
    while (left) {
        await(c->recv_cq, wc, 1);
        assert_int_equal(wc->status, IBV_WC_SUCCESS);
        end(c->to[wc->wr_id].qp);
        left--;
    }
    await(c->send_cq, wc, PAIRS);
    for (int i = 0; i < PAIRS; i++)
        assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
    for (int i = 0; i < PAIRS; i++) {
        destroy(c->from[i].qp);
        if (end != destroy)
            destroy(c->to[i].qp);
    }
}

static void rounds(void (*end)(struct ibv_qp *qp))
{
    struct crowd c;

    open_crowd(&c);
    for (int i = 0; i < ROUNDS; i++)
        one_round(&c, end);
    close_crowd(&c);
}

void destroyed_once_it_has_received(void **state)
{
    rounds(destroy);
}

void reset_once_it_has_received(void **state)
{
    rounds(reset);
}

void failed_once_it_has_received(void **state)
{
    rounds(stop);
}

/* ---- datagrams ---- */

#define DATAGRAMS 1000

static void post_datagrams(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t to, const struct side *s)
{
    struct ibv_sge sge = {(uintptr_t)s->buffer, 64, s->mr->lkey};
    struct ibv_send_wr wr[DATAGRAMS], *bad;

    for (int i = 0; i < DATAGRAMS; i++)
        wr[i] = (struct ibv_send_wr){.next = i + 1 < DATAGRAMS ? &wr[i + 1] : NULL,
                                     .sg_list = &sge,
                                     .num_sge = 1,
                                     .opcode = IBV_WR_SEND,
                                     .wr.ud = {ah, to, PAIR_QKEY}};
    assert_int_equal(ibv_post_send(qp, wr, &bad), 0);
}

/* NICs copy the address when the work request is posted, and have sent before the destruction of
 * anything comes to them: programs such as mckey post, and end. */
void address_destroyed_once_posted(void **state)
{
    struct ibv_wc wc[DATAGRAMS];
    struct ibv_qp *from, *to;
    struct side s;
    struct ibv_cq *cq;
    struct ibv_ah *ah;
    struct pair p;

    pair_open(&p);
    cq = ibv_create_cq(p.ctx, 2 * DATAGRAMS, NULL, NULL, 0);
    assert_non_null(cq);
    to = make_datagram_qp(&p, cq, DATAGRAMS);
    s = p.b;
    s.qp = to;
    for (int round = 0; round < ROUNDS; round++) {
        ah = make_own_ah(&p);
        from = make_datagram_qp(&p, cq, DATAGRAMS);
        for (int i = 0; i < DATAGRAMS; i++)
            assert_int_equal(post_recv(&s, 0, 256, 0), 0);
        post_datagrams(from, ah, to->qp_num, &p.a);
        assert_int_equal(ibv_destroy_ah(ah), 0);
        destroy(from);
        await(cq, wc, DATAGRAMS);
        for (int i = 0; i < DATAGRAMS; i++) {
            assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
            assert_int_equal(wc[i].opcode, IBV_WC_RECV);
        }
    }
    destroy(to);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    pair_close(&p);
}
