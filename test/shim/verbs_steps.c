/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_steps.h"

#include <errno.h>
#include <infiniband/verbs.h>

#include "unit.h"
#include "uroce.h"
#include "verbs_pair.h"

#define TO_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TO_RTR                                                                      \
    (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_RTS                                                                             \
    (IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
     IBV_QP_MAX_QP_RD_ATOMIC)

static const struct uroce_qp_step all[] = {{IBV_QPS_INIT, TO_INIT},
                                           {IBV_QPS_RTR, TO_RTR},
                                           {IBV_QPS_RTS, TO_RTS},
                                           {IBV_QPS_SQD, IBV_QP_STATE}};

static struct ibv_qp_attr attr_towards(const struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR, /* does not count */
                               .port_num = 1,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = qp->qp_num,
                               .max_dest_rd_atomic = 4,
                               .min_rnr_timer = 1,
                               .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1},
                               .timeout = 14,
                               .retry_cnt = 7,
                               .rnr_retry = 7,
                               .max_rd_atomic = 4};

    assert_int_equal(ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid), 0);
    return attr;
}

static void reset(struct pair *p)
{
    modify_state(p->a.qp, IBV_QPS_RESET);
    modify_state(p->b.qp, IBV_QPS_RESET);
}

void three_states_at_once(void **state)
{
    struct ibv_qp_attr a, b;
    struct ibv_wc wc[2];
    struct pair p;

    pair_open(&p);
    a = attr_towards(p.b.qp);
    b = attr_towards(p.a.qp);
    reset(&p);
    assert_int_equal(uroce_modify_qp_steps(p.a.qp, &a, all, 3), 0);
    assert_int_equal(uroce_modify_qp_steps(p.b.qp, &b, all, 1), 0);
    assert_int_equal(p.b.qp->state, IBV_QPS_INIT);
    assert_int_equal(uroce_modify_qp_steps(p.b.qp, &b, all + 1, 2), 0);
    assert_int_equal(p.a.qp->state, IBV_QPS_RTS);
    assert_int_equal(p.b.qp->state, IBV_QPS_RTS);
    assert_int_equal(post_recv(&p.b, 1024, 64, 2), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_SEND, &p.b, 0, 16, 1), 0);
    await(p.cq, wc, 2);
    assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
    assert_int_equal(wc[1].status, IBV_WC_SUCCESS);
    pair_close(&p);
}

void steps_that_fail(void **state)
{
    static const struct uroce_qp_step skips[] = {{IBV_QPS_INIT, TO_INIT}, {IBV_QPS_RTS, TO_RTS}};
    static const struct uroce_qp_step empty[] = {{IBV_QPS_INIT, TO_INIT}, {IBV_QPS_RTR, 0}};
    static const struct uroce_qp_step alternate[] = {{IBV_QPS_INIT, TO_INIT},
                                                     {IBV_QPS_RTR, TO_RTR | IBV_QP_ALT_PATH}};
    struct ibv_qp_attr attr;
    struct pair p;

    pair_open(&p);
    attr = attr_towards(p.b.qp);
    reset(&p);
    assert_int_equal(uroce_modify_qp_steps(p.a.qp, &attr, all, 0), EINVAL);
    assert_int_equal(uroce_modify_qp_steps(p.a.qp, &attr, all, 4), EINVAL);
    assert_int_equal(uroce_modify_qp_steps(p.a.qp, &attr, empty, 2), EINVAL);
    assert_int_equal(uroce_modify_qp_steps(p.a.qp, &attr, alternate, 2), EOPNOTSUPP);
    assert_int_equal(p.a.qp->state, IBV_QPS_RESET);
    assert_int_equal(uroce_modify_qp_steps(p.a.qp, &attr, skips, 2), EINVAL);
    assert_int_equal(p.a.qp->state, IBV_QPS_INIT); /* the first one is done */
    assert_int_equal(uroce_modify_qp_steps(p.a.qp, &attr, all, 3), 0);
    assert_int_equal(p.a.qp->state, IBV_QPS_RTS);
    pair_close(&p);
}

/* For librdmacm alone, so no public header has it. */
struct ibv_qp *uroce_create_qp_in(struct ibv_context *context, struct ibv_qp_init_attr_ex *init,
                                  const struct ibv_qp_attr *attr, const struct uroce_qp_step *step,
                                  unsigned steps);

static struct ibv_qp *create_in(const struct pair *p, const struct uroce_qp_step *step,
                                unsigned steps)
{
    struct ibv_qp_attr attr = {.port_num = 1};
    struct ibv_qp_init_attr_ex init = {.send_cq = p->cq,
                                       .recv_cq = p->cq,
                                       .cap = {4, 4, 1, 1, 0},
                                       .qp_type = IBV_QPT_RC,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD,
                                       .pd = p->a.qp->pd};

    return uroce_create_qp_in(p->a.qp->context, &init, &attr, step, steps);
}

void new_queue_pair_in_a_state(void **state)
{
    static const struct uroce_qp_step skips[] = {{IBV_QPS_INIT, TO_INIT},
                                                 {IBV_QPS_RTS, IBV_QP_STATE}};
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct ibv_qp *qp;
    struct pair p;

    pair_open(&p);
    qp = create_in(&p, all, 1);
    assert_non_null(qp);
    assert_int_equal(qp->state, IBV_QPS_INIT);
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_INIT);
    assert_int_equal(init.cap.max_recv_wr, 4);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_null(create_in(&p, skips, 2)); /* the daemon refuses the second step */
    assert_int_equal(errno, EINVAL);
    assert_null(create_in(&p, all, 4));
    assert_int_equal(errno, EINVAL);
    pair_close(&p); /* and nothing else uses the completion queue */
}
