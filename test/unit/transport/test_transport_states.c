/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pair states: every pair of states with every single attribute left out or added, against
 * the rows of table 91 (volume 1, 11.2.5.2) written down here once more, by letters.
 */

#include "unit.h"
#include <errno.h>
#include <stdlib.h>

#include "engine.h"
#include "fault.h"

/* One letter per attribute. */
static const struct {
    char letter;
    uint32_t mask;
} attrs[] = {
    {'k', QPA_PKEY_INDEX},
    {'p', QPA_PORT},
    {'a', QPA_ACCESS_FLAGS},
    {'v', QPA_AV},
    {'m', QPA_PATH_MTU},
    {'d', QPA_DEST_QPN},
    {'r', QPA_RQ_PSN},
    {'x', QPA_MAX_DEST_RD_ATOMIC},
    {'n', QPA_MIN_RNR_TIMER},
    {'t', QPA_TIMEOUT},
    {'c', QPA_RETRY_CNT},
    {'w', QPA_RNR_RETRY},
    {'s', QPA_SQ_PSN},
    {'o', QPA_MAX_RD_ATOMIC},
    {'u', QPA_CUR_STATE},
    {'g', QPA_PATH_MIG_STATE},
    {'e', QPA_EN_SQD_ASYNC_NOTIFY},
    {'q', QPA_QKEY},
};

static const struct {
    uint8_t from, to;
    const char *required, *optional;
} rows[] = {
    {QPS_RESET, QPS_INIT, "kpa", ""},    {QPS_INIT, QPS_INIT, "", "kpa"},
    {QPS_INIT, QPS_RTR, "vmdrxn", "ka"}, {QPS_RTR, QPS_RTS, "tcwso", "uang"},
    {QPS_RTS, QPS_RTS, "", "uang"},      {QPS_RTS, QPS_SQD, "", "e"},
    {QPS_SQD, QPS_RTS, "", "uang"},      {QPS_SQD, QPS_SQD, "", "kvoxtcwang"},
};

struct fixture {
    struct engine *e;
    struct qp *qp;
    struct qp_table *qps;
    struct mr_table mrs;
    struct encap_port port;
    struct gid_table gids;
    struct qp_shared shared;
    uint8_t sq[64 * 256], rq[64 * 256];
    struct comp_queue cq;
    struct cq_shared *cq_mem;
    struct address_vector av;
    unsigned events;
};

static void on_cq(void *ctx, struct comp_queue *cq)
{
    (void)ctx, (void)cq;
}

static void on_async(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
    struct fixture *f = ctx;

    (void)qp, (void)cq, (void)event;
    f->events++;
}

static int setup(void **state)
{
    static const uint64_t secret[2] = {1, 2};
    struct fixture *f = aligned_alloc(64, (sizeof(*f) + 63) / 64 * 64);
    struct engine_config c;
    struct qp_init init;
    int err;

    memset(f, 0, sizeof(*f));
    f->qps = qp_table_create(NULL);
    mr_table_init(&f->mrs, 16, secret);
    f->port.gids = &f->gids;
    c = (struct engine_config){.port = &f->port,
                               .mrs = &f->mrs,
                               .qps = f->qps,
                               .host = {.ctx = f, .cq_event = on_cq, .async_event = on_async}};
    f->e = engine_create(&c);
    f->cq_mem = aligned_alloc(64, cq_segment_bytes(64, 1));
    memset(f->cq_mem, 0, cq_segment_bytes(64, 1));
    comp_queue_init(&f->cq, f->cq_mem, 64, 1);
    init = (struct qp_init){.type = QPT_RC,
                            .send_cq = &f->cq,
                            .recv_cq = &f->cq,
                            .shared = &f->shared,
                            .sq = {.ring = f->sq,
                                   .prod = &f->shared.sq_prod,
                                   .size = 64,
                                   .stride = sqe_stride(1, 0),
                                   .max_sge = 1},
                            .rq = {.ring = f->rq,
                                   .prod = &f->shared.rq_prod,
                                   .size = 64,
                                   .stride = rqe_stride(1),
                                   .max_sge = 1}};
    f->qp = qp_create(f->qps, &init, &err);
    assert_non_null(f->qp);
    engine_qp_attach(f->e, f->qp);
    f->av.gid_type = GID_TYPE_ROCE_V2;
    f->av.sgid = f->av.dgid = gid_from_ipv4((const uint8_t[]){127, 0, 0, 1});
    f->av.vlan = VLAN_NONE;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    engine_qp_detach(f->e, f->qp);
    qp_free(f->qp);
    engine_destroy(f->e);
    mr_table_fini(&f->mrs);
    qp_table_destroy(f->qps);
    free(f->cq_mem);
    free(f);
    return 0;
}

static const struct qp_attr good = {.path_mtu = 3,
                                    .port_num = 1,
                                    .max_rd_atomic = 1,
                                    .max_dest_rd_atomic = 1,
                                    .timeout = 14,
                                    .retry_cnt = 7,
                                    .rnr_retry = 7,
                                    .min_rnr_timer = 12,
                                    .dest_qpn = 17};

static int modify(struct fixture *f, uint8_t to, uint32_t mask, struct qp_attr attr)
{
    attr.state = to;
    attr.cur_state = qp_current_state(f->qp);
    return engine_qp_modify(f->e, f->qp, &attr, mask | QPA_STATE, mask & QPA_AV ? &f->av : NULL, 5,
                            1000);
}

static uint32_t mask_of(const char *letters)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++)
        if (strchr(letters, attrs[i].letter))
            mask |= attrs[i].mask;
    return mask;
}

/* Brings the queue pair from RESET to a state by the shortest path. */
static void bring_to(struct fixture *f, uint8_t state)
{
    static const uint8_t path[] = {QPS_INIT, QPS_RTR, QPS_RTS, QPS_SQD};
    static const char *with[] = {"kpa", "vmdrxn", "tcwso", ""};

    assert_int_equal(modify(f, QPS_RESET, 0, good), 0);
    if (state == QPS_ERR)
        assert_int_equal(modify(f, QPS_ERR, 0, good), 0);
    for (unsigned i = 0; i < 4 && state != QPS_RESET && state != QPS_ERR; i++) {
        assert_int_equal(modify(f, path[i], mask_of(with[i]), good), 0);
        if (path[i] == state)
            break;
    }
    assert_int_equal(qp_current_state(f->qp), state);
}

static void every_transition(void **state)
{
    static const uint8_t states[] = {QPS_RESET, QPS_INIT, QPS_RTR, QPS_RTS, QPS_SQD, QPS_ERR};
    struct fixture *f = *state;
    unsigned legal = 0;

    for (unsigned a = 0; a < sizeof(states); a++)
        for (unsigned b = 0; b < sizeof(states); b++) {
            const char *required = NULL, *optional = "";
            uint8_t from = states[a], to = states[b];

            for (unsigned r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
                if (rows[r].from == from && rows[r].to == to)
                    required = rows[r].required, optional = rows[r].optional;
            if (to == QPS_RESET || to == QPS_ERR)
                required = "", optional = "u";
            bring_to(f, from);
            if (!required) {
                assert_int_equal(modify(f, to, 0, good), -EINVAL);
                assert_int_equal(modify(f, to, mask_of("kpa"), good), -EINVAL);
                assert_int_equal(qp_current_state(f->qp), from);
                continue;
            }
            legal++;
            for (unsigned i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
                uint32_t full = mask_of(required);
                bool needed = strchr(required, attrs[i].letter);
                bool allowed = needed || strchr(optional, attrs[i].letter);

                bring_to(f, from);
                assert_int_equal(modify(f, to, full ^ attrs[i].mask, good),
                                 needed || !allowed ? -EINVAL : 0);
                bring_to(f, from);
                assert_int_equal(modify(f, to, full, good), 0);
                assert_int_equal(qp_current_state(f->qp), to);
            }
        }
    assert_int_equal(legal, 8 + 12);
}

static void values_out_of_range(void **state)
{
    struct fixture *f = *state;
    struct qp_attr a;

#define REFUSED(from, to, letters, field, v)                           \
    do {                                                               \
        bring_to(f, from);                                             \
        a = good;                                                      \
        a.field = v;                                                   \
        assert_int_equal(modify(f, to, mask_of(letters), a), -EINVAL); \
        assert_int_equal(qp_current_state(f->qp), from);               \
    } while (0)
    REFUSED(QPS_RESET, QPS_INIT, "kpa", port_num, 0);
    REFUSED(QPS_RESET, QPS_INIT, "kpa", port_num, 2);
    REFUSED(QPS_RESET, QPS_INIT, "kpa", pkey_index, 1);
    REFUSED(QPS_RESET, QPS_INIT, "kpa", access_flags, 1u << 15);
    REFUSED(QPS_INIT, QPS_RTR, "vmdrxn", path_mtu, 0);
    REFUSED(QPS_INIT, QPS_RTR, "vmdrxn", path_mtu, 6);
    REFUSED(QPS_INIT, QPS_RTR, "vmdrxn", dest_qpn, 1u << 24);
    REFUSED(QPS_INIT, QPS_RTR, "vmdrxn", max_dest_rd_atomic, 129);
    REFUSED(QPS_INIT, QPS_RTR, "vmdrxn", min_rnr_timer, 32);
    REFUSED(QPS_RTR, QPS_RTS, "tcwso", timeout, 32);
    REFUSED(QPS_RTR, QPS_RTS, "tcwso", retry_cnt, 8);
    REFUSED(QPS_RTR, QPS_RTS, "tcwso", rnr_retry, 8);
    REFUSED(QPS_RTR, QPS_RTS, "tcwso", max_rd_atomic, 129);
    bring_to(f, QPS_RTR);
    a = good;
    a.state = QPS_RTS;
    a.cur_state = QPS_INIT; /* not its own state */
    assert_int_equal(engine_qp_modify(f->e, f->qp, &a, mask_of("tcwsou") | QPA_STATE, NULL, 5, 1),
                     -EINVAL);
    assert_int_equal(modify(f, QPS_RTS, mask_of("tcwso") | QPA_ALT_PATH, good), -EOPNOTSUPP);
}

static void query_returns_what_was_set(void **state)
{
    struct fixture *f = *state;
    struct qp_attr a = good, b;

    a.rq_psn = 0xABCDEF;
    a.sq_psn = 0x123456;
    bring_to(f, QPS_INIT);
    assert_int_equal(modify(f, QPS_RTR, mask_of("vmdrxn"), a), 0);
    assert_int_equal(modify(f, QPS_RTS, mask_of("tcwso"), a), 0);
    engine_qp_query(f->qp, &b);
    assert_int_equal(b.state, QPS_RTS);
    assert_int_equal(b.path_mtu, a.path_mtu);
    assert_int_equal(b.dest_qpn, a.dest_qpn);
    assert_int_equal(b.rq_psn, a.rq_psn);
    assert_int_equal(b.sq_psn, a.sq_psn);
    assert_int_equal(b.timeout, a.timeout);
    assert_int_equal(b.retry_cnt, a.retry_cnt);
    assert_int_equal(b.rnr_retry, a.rnr_retry);
    assert_int_equal(b.min_rnr_timer, a.min_rnr_timer);
    assert_int_equal(b.max_rd_atomic, a.max_rd_atomic);
    assert_int_equal(b.max_dest_rd_atomic, a.max_dest_rd_atomic);
}

/* Every fault has a consequence: a NAK or RNR NAK is sent, or the queue pair fails. */
static void fault_table_is_complete(void **state)
{
    (void)state;
    for (unsigned i = FAULT_NONE + 1; i < FAULT_SUSPENDED; i++) {
        const struct fault_rule *r = &fault_rules[i];

        assert_true(r->fatal || r->syndrome != FAULT_SILENT);
        assert_true(r->syndrome == FAULT_SILENT || (r->syndrome & 0x60) == 0x60 ||
                    r->syndrome == 0x20);
        assert_true(r->fatal == (r->recv_status != WC_SUCCESS));
        assert_true(r->counter < sizeof(struct qp_counters));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_transition, setup, teardown),
        cmocka_unit_test_setup_teardown(values_out_of_range, setup, teardown),
        cmocka_unit_test_setup_teardown(query_returns_what_was_set, setup, teardown),
        cmocka_unit_test(fault_table_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
