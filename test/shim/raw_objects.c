/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues, indirection tables and the queue pairs that use them, as objects. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw_kit.h"
#include "raw_tests.h"
#include "unit.h"
#include "verbs_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define IPV4     (IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4)

void capabilities(void **state)
{
    struct raw *r = *state;
    struct ibv_device_attr_ex attr;

    assert_int_equal(ibv_query_device_ex(r->ctx, NULL, &attr), 0);
    assert_true(attr.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
    assert_true(attr.device_cap_flags_ex & IBV_DEVICE_MANAGED_FLOW_STEERING);
    assert_int_equal(attr.rss_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET);
    assert_int_equal(attr.rss_caps.max_rwq_indirection_table_size, 128);
    assert_int_equal(attr.rss_caps.rx_hash_fields_mask, 0xFF);
    assert_int_equal(attr.rss_caps.rx_hash_function,
                     IBV_RX_HASH_FUNC_TOEPLITZ | UROCE_RX_HASH_FUNC_XOR);
    assert_true(attr.rss_caps.max_rwq_indirection_tables > 0);
    assert_true(attr.max_wq_type_rq > 0);
    assert_true(attr.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM);
    assert_int_equal(attr.raw_packet_caps, IBV_RAW_PACKET_CAP_IP_CSUM); /* no tag is stripped */
}

/* All pairs of states: permitted transitions, and the states in which WQEs may be posted. */
void work_queue_states(void **state)
{
    static const bool may[3][3] = {
        [IBV_WQS_RESET] = {[IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true},
        [IBV_WQS_RDY] = {[IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true, [IBV_WQS_ERR] = true},
        [IBV_WQS_ERR] = {[IBV_WQS_RESET] = true, [IBV_WQS_ERR] = true},
    };
    struct raw *r = *state;

    for (unsigned from = 0; from < 3; from++) {
        for (unsigned to = 0; to < 3; to++) {
            struct ibv_wq *wq = raw_wq(r, from);

            assert_int_equal(raw_wq_state(wq, to), may[from][to] ? 0 : EINVAL);
            assert_int_equal(wq->state, may[from][to] ? to : from);
            errno = 0;
            assert_int_equal(raw_post_wq(r, wq), wq->state == IBV_WQS_RDY ? 0 : EINVAL);
            assert_int_equal(errno, wq->state == IBV_WQS_RDY ? 0 : EINVAL);
            assert_int_equal(ibv_destroy_wq(wq), 0);
        }
    }
}

void work_queue_attributes(void **state)
{
    static const struct {
        struct ibv_wq_attr attr;
        int err;
    } row[] = {
        {{IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE, IBV_WQS_RDY, IBV_WQS_RDY}, 0},
        {{IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE, IBV_WQS_RDY, IBV_WQS_ERR}, EINVAL},
        {{IBV_WQ_ATTR_CURR_STATE, IBV_WQS_RDY, IBV_WQS_RDY}, EINVAL},
        {{0, IBV_WQS_RDY, IBV_WQS_RDY}, EINVAL},
        {{IBV_WQ_ATTR_STATE, IBV_WQS_UNKNOWN}, EINVAL},
        {{IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_RESERVED, IBV_WQS_RDY}, EINVAL},
        {{IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_FLAGS, IBV_WQS_RDY}, 0},
        {{IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_FLAGS, IBV_WQS_RDY, 0, 1, 1}, EOPNOTSUPP},
    };
    struct raw *r = *state;
    struct ibv_wq *wq = raw_wq(r, IBV_WQS_RDY);

    for (unsigned i = 0; i < COUNT(row); i++) {
        struct ibv_wq_attr attr = row[i].attr;

        assert_int_equal(ibv_modify_wq(wq, &attr), row[i].err);
        assert_int_equal(wq->state, IBV_WQS_RDY);
    }
    assert_int_equal(ibv_destroy_wq(wq), 0);
}

void work_queues_refused(void **state)
{
    struct raw *r = *state;
    const struct ibv_wq_init_attr good = {
        .wq_type = IBV_WQT_RQ, .max_wr = 100, .max_sge = 3, .pd = r->pd, .cq = r->cq};
    struct ibv_wq_init_attr a = good;
    struct ibv_wq *wq;

#define REFUSED(err, ...)                       \
    do {                                        \
        a = good;                               \
        __VA_ARGS__;                            \
        assert_null(ibv_create_wq(r->ctx, &a)); \
        assert_int_equal(errno, err);           \
    } while (0)
    REFUSED(EINVAL, a.wq_type = UROCE_WQT_SRQ);
    REFUSED(EINVAL, a.wq_type = 7);
    REFUSED(EINVAL, a.max_wr = 0);
    REFUSED(EINVAL, a.max_wr = 16385);
    REFUSED(EINVAL, a.max_wr = UINT32_MAX);
    REFUSED(EINVAL, a.max_sge = 33);
    REFUSED(EINVAL, a.pd = NULL);
    REFUSED(EINVAL, a.cq = NULL);
    REFUSED(EINVAL, a.comp_mask = IBV_WQ_INIT_ATTR_RESERVED);
    REFUSED(EOPNOTSUPP, a.comp_mask = IBV_WQ_INIT_ATTR_FLAGS,
            a.create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING);
#undef REFUSED
    a = good;
    a.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
    wq = ibv_create_wq(r->ctx, &a);
    assert_non_null(wq);
    assert_int_equal(a.max_wr, 128);
    assert_in_range(a.max_sge, 3, 32);
    assert_in_range(wq->wq_num, 1, 65535);
    assert_int_equal(wq->wq_type, IBV_WQT_RQ);
    assert_int_equal(ibv_destroy_wq(wq), 0);
}

void tables_refused(void **state)
{
    struct raw *r = *state, other;
    struct ibv_wq *wq[256], *foreign;
    struct ibv_rwq_ind_table_init_attr a = {.ind_tbl = wq};
    struct ibv_rwq_ind_table *table;

    raw_open(&other);
    foreign = raw_wq(&other, IBV_WQS_RDY);
    wq[0] = raw_wq(r, IBV_WQS_RESET);
    for (unsigned i = 1; i < COUNT(wq); i++)
        wq[i] = wq[0];
    for (a.log_ind_tbl_size = 0; a.log_ind_tbl_size <= 7; a.log_ind_tbl_size++) {
        table = ibv_create_rwq_ind_table(r->ctx, &a);
        assert_non_null(table);
        assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
    }
    for (; a.log_ind_tbl_size < 70; a.log_ind_tbl_size++) {
        assert_null(ibv_create_rwq_ind_table(r->ctx, &a));
        assert_int_equal(errno, EINVAL);
    }
    a.log_ind_tbl_size = 1;
    table = ibv_create_rwq_ind_table(r->ctx, &a);
    assert_non_null(table);
    for (unsigned i = 0; i < 4; i++) {
        struct ibv_rwq_ind_table_init_attr bad = a;

        wq[1] = i == 0 ? foreign : i == 1 ? NULL : wq[0];
        bad.comp_mask = i == 2;
        bad.ind_tbl = i == 3 ? NULL : wq;
        assert_null(ibv_create_rwq_ind_table(r->ctx, &bad));
        assert_int_equal(errno, EINVAL);
        assert_int_equal(uroce_modify_rwq_ind_table(table, &bad), EINVAL);
    }
    assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
    assert_int_equal(ibv_destroy_wq(wq[0]), 0);
    assert_int_equal(ibv_destroy_wq(foreign), 0);
    raw_close(&other);
}

void spreading_queue_pairs_refused(void **state)
{
    struct raw *r = *state;
    struct ibv_wq *wq = raw_wq(r, IBV_WQS_RDY);
    struct ibv_rwq_ind_table *table = raw_table(r, &wq, 0), unknown = {.ind_tbl_handle = 99999};
    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(r->pd, &srq_init);
    const uint32_t mask =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
    const struct ibv_qp_init_attr_ex good = {
        .qp_type = IBV_QPT_RAW_PACKET,
        .comp_mask = mask,
        .pd = r->pd,
        .rwq_ind_tbl = table,
        .rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, RAW_KEY_LEN, raw_key, IPV4}};
    struct ibv_qp_init_attr_ex a;
    struct ibv_qp *qp;

#define TRIED(err, ...)                              \
    do {                                             \
        a = good;                                    \
        __VA_ARGS__;                                 \
        qp = ibv_create_qp_ex(r->ctx, &a);           \
        if (err) {                                   \
            assert_null(qp);                         \
            assert_int_equal(errno, err);            \
        } else {                                     \
            assert_non_null(qp);                     \
            assert_int_equal(ibv_destroy_qp(qp), 0); \
        }                                            \
    } while (0)
    TRIED(0, (void)0);
    TRIED(0, a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS);
    TRIED(0, a.recv_cq = r->cq); /* the work queues have CQs of their own */
    TRIED(0, a.rx_hash_conf.rx_hash_function = UROCE_RX_HASH_FUNC_XOR);
    TRIED(0, a.rx_hash_conf.rx_hash_function = UROCE_RX_HASH_FUNC_XOR,
          a.rx_hash_conf.rx_hash_key_len = 0);
    TRIED(0, a.rx_hash_conf.rx_hash_fields_mask = 0);
    TRIED(0, a.rx_hash_conf.rx_hash_fields_mask = 0x3F & ~0xC);
    TRIED(0, a.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_DST_IPV6);
    TRIED(0, a.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_SRC_PORT_UDP);

    TRIED(EINVAL, a.qp_type = IBV_QPT_UD);
    TRIED(EINVAL, a.qp_type = IBV_QPT_RC);
    TRIED(EINVAL, a.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_PD);
    TRIED(EINVAL, a.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_RX_HASH);
    TRIED(EINVAL, a.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_IND_TABLE);
    TRIED(EOPNOTSUPP, a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS,
          a.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING);
    TRIED(EINVAL, a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
    TRIED(EINVAL, a.rwq_ind_tbl = NULL);
    TRIED(EINVAL, a.rwq_ind_tbl = &unknown);
    TRIED(EINVAL, a.send_cq = r->send_cq);
    TRIED(EINVAL, a.srq = srq);
    TRIED(EINVAL, a.cap.max_send_wr = 1);
    TRIED(EINVAL, a.cap.max_send_sge = 1);
    TRIED(EINVAL, a.cap.max_inline_data = 1);
    TRIED(EINVAL, a.cap.max_recv_wr = 1);
    TRIED(EINVAL, a.cap.max_recv_sge = 1);
    TRIED(EINVAL, a.rx_hash_conf.rx_hash_function = 0);
    TRIED(EINVAL, a.rx_hash_conf.rx_hash_function = 3);
    TRIED(EINVAL, a.rx_hash_conf.rx_hash_function = 4);
    TRIED(EINVAL, a.rx_hash_conf.rx_hash_key_len = 39);
    TRIED(EINVAL, a.rx_hash_conf.rx_hash_key_len = 41);
    TRIED(EINVAL, a.rx_hash_conf.rx_hash_key_len = 0);
    TRIED(EINVAL, a.rx_hash_conf.rx_hash_key = NULL);
    TRIED(EINVAL, a.rx_hash_conf.rx_hash_fields_mask = IPV4 | IBV_RX_HASH_SRC_IPV6);
    TRIED(EINVAL, a.rx_hash_conf.rx_hash_fields_mask = 0x30 | IBV_RX_HASH_DST_PORT_UDP);
    TRIED(EOPNOTSUPP, a.rx_hash_conf.rx_hash_fields_mask = IPV4 | IBV_RX_HASH_IPSEC_SPI);
    TRIED(EOPNOTSUPP, a.rx_hash_conf.rx_hash_fields_mask = IPV4 | IBV_RX_HASH_INNER);
#undef TRIED
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
    assert_int_equal(ibv_destroy_wq(wq), 0);
}

void spreading_queue_pairs_have_no_state(void **state)
{
    struct raw *r = *state;
    struct ibv_wq *wq = raw_wq(r, IBV_WQS_RDY);
    struct ibv_rwq_ind_table *table = raw_table(r, &wq, 0);
    struct ibv_qp *qp = raw_rss_qp(r, table, IBV_RX_HASH_FUNC_TOEPLITZ, IPV4);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp_init_attr init;
    struct ibv_recv_wr recv = {0}, *bad_recv;
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;

    assert_non_null(qp);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EOPNOTSUPP);
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), EOPNOTSUPP);
    assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
    assert_int_equal(ibv_post_send(qp, &send, &bad_send), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
    assert_int_equal(ibv_destroy_wq(wq), 0);
}

void what_is_used_stays(void **state)
{
    struct raw *r = *state;
    struct ibv_pd *pd = ibv_alloc_pd(r->ctx);
    struct ibv_cq *cq = ibv_create_cq(r->ctx, 16, NULL, NULL, 0);
    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);
    struct uroce_wq_srq_init_attr init = {.pd = pd, .cq = cq, .srq = srq};
    struct ibv_wq *wq[2] = {uroce_create_wq_srq(r->ctx, &init), raw_wq(r, IBV_WQS_RDY)};
    struct ibv_rwq_ind_table_init_attr only = {.ind_tbl = &wq[1]};
    struct ibv_rwq_ind_table *table = raw_table(r, wq, 1);
    struct ibv_qp *qp = raw_rss_qp(r, table, IBV_RX_HASH_FUNC_TOEPLITZ, IPV4);
    struct ibv_flow *flow = raw_rule(qp, IBV_FLOW_ATTR_ALL_DEFAULT, 0, 0, NULL);

    assert_non_null(flow);
    assert_int_equal(ibv_destroy_qp(qp), EBUSY);
    assert_int_equal(ibv_destroy_rwq_ind_table(table), EBUSY);
    assert_int_equal(ibv_destroy_wq(wq[0]), EBUSY);
    assert_int_equal(ibv_destroy_wq(wq[1]), EBUSY);
    assert_int_equal(ibv_destroy_srq(srq), EBUSY);
    assert_int_equal(ibv_destroy_cq(cq), EBUSY);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    /* A table that changes to other work queues releases the first ones, although rules refer to
     * it. */
    assert_int_equal(uroce_modify_rwq_ind_table(table, &only), 0);
    assert_int_equal(ibv_destroy_wq(wq[0]), 0);
    assert_int_equal(ibv_destroy_wq(wq[1]), EBUSY);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_destroy_flow(flow), 0);
    assert_int_equal(ibv_destroy_rwq_ind_table(table), EBUSY);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
    assert_int_equal(ibv_destroy_wq(wq[1]), 0);
}

/* In a process that ends. What a child of it gets from its first call, which takes the context
 * over, is an errno. */
static void leave_to_heir(int report)
{
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
    struct raw own;
    struct ibv_wq *wq;
    int err;

    raw_open(&own);
    wq = raw_wq(&own, IBV_WQS_RDY);
    if (fork())
        _exit(0);
    err = ibv_post_wq_recv(wq, &wr, &bad);
    _exit(write(report, &err, sizeof(err)) != sizeof(err));
}

void heir_posts_to_a_work_queue(void **state)
{
    int report[2], status, err;
    pid_t first;

    assert_int_equal(pipe(report), 0);
    first = fork();
    if (!first)
        leave_to_heir(report[1]);
    close(report[1]);
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_int_equal(status, 0);
    assert_int_equal(read(report[0], &err, sizeof(err)), sizeof(err));
    assert_int_equal(err, 0);
    close(report[0]);
}
