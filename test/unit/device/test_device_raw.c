/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw packets' control messages: the objects they create, the requests they refuse, arbitrary
 * bytes; and rules and work queues of applications that exit. */
#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/capability.h>

#include "device_app.h"

static struct event_loop *loop;
static struct rnic *rnic;
static struct app app, other;
static struct app_cq cq;

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    app_open(&app, rnic);
    app_open(&other, rnic);
    app_cq(&app, &cq, 64);
    kit_status = 0;
    return 0;
}

static int teardown(void **state)
{
    if (app.session)
        app_close(&app);
    app_close(&other);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

/* ---- objects ---- */

static struct ctl_msg wq_request(const struct app *a, uint32_t cq_handle)
{
    return (struct ctl_msg){.create_wq = {.pd = a->pd,
                                          .cq = cq_handle,
                                          .type = CTL_WQ_RQ,
                                          .max_wr = 8,
                                          .max_sge = 1,
                                          .uidx = 4712}};
}

static uint32_t make_wq(struct ctl_create_wq *layout)
{
    struct ctl_msg m = wq_request(&app, cq.handle);

    assert_int_equal(app_call(&app, CTL_CREATE_WQ, &m), 0);
    if (layout)
        *layout = m.create_wq;
    return m.create_wq.handle;
}

static int modify_wq(struct app *a, uint32_t handle, uint32_t to)
{
    struct ctl_msg m = {.modify_wq = {.handle = handle, .state = to}};

    return app_call(a, CTL_MODIFY_WQ, &m);
}

static uint32_t make_table(uint32_t wq, uint32_t size)
{
    struct ctl_msg m = {.rwq_ind.size = size};

    for (uint32_t i = 0; i < size; i++)
        m.rwq_ind.wq[i] = (uint16_t)wq;
    assert_int_equal(app_call(&app, CTL_CREATE_RWQ_IND, &m), 0);
    return m.rwq_ind.handle;
}

static struct ctl_msg rss_request(uint32_t table)
{
    return (struct ctl_msg){
        .create_qp = {
            .pd = app.pd,
            .type = QPT_RAW_PACKET,
            .uidx = 4713,
            .rx_hash = {.function = 1, .fields = RX_HASH_SRC_IPV4, .ind = table, .key_len = 40}}};
}

static uint32_t make_rss_qp(uint32_t table)
{
    struct ctl_msg m = rss_request(table);

    assert_int_equal(app_call(&app, CTL_CREATE_QP, &m), 0);
    return m.create_qp.qpn;
}

static struct ctl_msg flow_request(uint32_t qpn)
{
    return (struct ctl_msg){.create_flow = {.qpn = qpn, .port = 1, .match.headers = FLOW_HAS_UDP}};
}

static uint64_t cpu_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static uint32_t make_flow(struct app *a, uint32_t qpn)
{
    struct ctl_msg m = flow_request(qpn);

    assert_int_equal(app_call(a, CTL_CREATE_FLOW, &m), 0);
    return m.create_flow.handle;
}

/* One with queues of its own, ready to send and receive. */
static void ready_raw_qp(struct app *a, struct app_qp *qp, const struct app_cq *of)
{
    struct qp_attr attr = {.state = QPS_INIT, .port_num = 1};

    assert_int_equal(app_qp(a, qp, QPT_RAW_PACKET, of, 0, 0), 0);
    assert_int_equal(app_modify(qp, QPA_STATE | QPA_PORT, attr), 0);
    attr.state = QPS_RTR;
    assert_int_equal(app_modify(qp, QPA_STATE, attr), 0);
    attr.state = QPS_RTS;
    assert_int_equal(app_modify(qp, QPA_STATE, attr), 0);
}

/* A UDP packet to the port's own MAC. */
#define FRAME_LEN 60
static void send_frame(struct app_qp *qp)
{
    static const uint8_t frame[FRAME_LEN] = {
        2,    0, 0, 0,  0, 1, 2,    0, 0,  0,  0,    9,    8,  0, /* Ethernet */
        0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0x66, 0xc8, 10, 0, 0, 1,
        10,   0, 0, 2,  4, 0, 5,    0, 0,  12, 0,    0,    1,  2, 3, 4};

    memcpy(kit_memory, frame, sizeof(frame));
    app_send(qp, (struct sqe){.opcode = SQE_SEND}, 0, sizeof(frame));
}

static void post_wq(uint32_t handle, const struct ctl_create_wq *layout, struct sge sge)
{
    uint8_t *segment = wq_object_get(app.session, handle)->segment.base;
    struct qp_shared *shared = (struct qp_shared *)segment;
    uint32_t index = atomic_load(&shared->rq_prod);
    struct rqe entry = {.wr_id = index, .num_sge = 1};
    uint8_t *slot = work_queue_slot(segment + layout->rq_off, layout->size, layout->stride, index);

    memcpy(slot, &entry, sizeof(entry));
    memcpy(slot + sizeof(entry), &sge, sizeof(sge));
    atomic_store(&shared->rq_prod, index + 1);
}

/* ---- refusals ---- */

static void test_work_queues(void **state)
{
    static const struct {
        uint32_t pd, cq, type, srq, max_wr, max_sge; /* 1: the application's own; 2: the other's */
        int status;
    } row[] = {
        {1, 1, CTL_WQ_RQ, 0, 8, 1, 0},
        {1, 1, CTL_WQ_RQ, 0, 1, 0, 0},
        {1, 1, CTL_WQ_RQ, 0, QUEUE_MAX_WR, LIMIT_SGE, 0},
        {1, 1, CTL_WQ_SRQ, 1, 0, 0, 0},
        {1, 1, CTL_WQ_SRQ, 1, UINT32_MAX, UINT32_MAX, 0}, /* has no meaning then */
        {0, 1, CTL_WQ_RQ, 0, 8, 1, -EINVAL},
        {2, 1, CTL_WQ_RQ, 0, 8, 1, -EINVAL},
        {1, 0, CTL_WQ_RQ, 0, 8, 1, -EINVAL},
        {1, 2, CTL_WQ_RQ, 0, 8, 1, -EINVAL},
        {1, 1, CTL_WQ_RQ, 1, 8, 1, -EINVAL},
        {1, 1, CTL_WQ_SRQ, 0, 8, 1, -EINVAL},
        {1, 1, CTL_WQ_SRQ, 2, 8, 1, -EINVAL},
        {1, 1, 2, 0, 8, 1, -EINVAL},
        {1, 1, UINT32_MAX, 0, 8, 1, -EINVAL},
        {1, 1, CTL_WQ_RQ, 0, 0, 1, -EINVAL},
        {1, 1, CTL_WQ_RQ, 0, QUEUE_MAX_WR + 1, 1, -EINVAL},
        {1, 1, CTL_WQ_RQ, 0, UINT32_MAX, 1, -EINVAL},
        {1, 1, CTL_WQ_RQ, 0, 8, LIMIT_SGE + 1, -EINVAL},
        {1, 1, CTL_WQ_RQ, 0, 8, UINT32_MAX, -EINVAL},
    };
    struct app_cq other_cq;
    struct app_srq srq, other_srq;

    app_cq(&other, &other_cq, 16);
    assert_int_equal(app_srq(&app, &srq, 8, 0, NULL), 0);
    assert_int_equal(app_srq(&other, &other_srq, 8, 0, NULL), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        const uint32_t pds[] = {0, app.pd, other.pd};
        const uint32_t cqs[] = {0, cq.handle, other_cq.handle};
        const uint32_t srqs[] = {0, srq.layout.handle, other_srq.layout.handle};
        struct ctl_msg m = {.create_wq = {.pd = pds[row[i].pd],
                                          .cq = cqs[row[i].cq],
                                          .type = row[i].type,
                                          .srq = srqs[row[i].srq],
                                          .max_wr = row[i].max_wr,
                                          .max_sge = row[i].max_sge}};
        const struct ctl_create_wq *w = &m.create_wq;

        assert_int_equal(app_call(&app, CTL_CREATE_WQ, &m), row[i].status);
        if (row[i].status)
            continue;
        assert_in_range(w->handle, 1, UINT16_MAX);
        if (row[i].type == CTL_WQ_RQ) {
            assert_in_range(w->max_wr, row[i].max_wr, QUEUE_MAX_WR);
            assert_in_range(w->max_sge, max_of(row[i].max_sge, 1u), LIMIT_SGE);
            assert_int_equal(w->segment_bytes, w->rq_off + (uint64_t)w->size * w->stride);
            assert_true(w->place.slab != 0);
        } else {
            assert_int_equal(w->place.slab, 0);
            assert_int_equal(w->size, 0);
            assert_int_equal(w->segment_bytes, 0);
        }
        assert_int_equal(app_call_handle(&other, CTL_DESTROY_WQ, w->handle), -ENOENT);
        assert_int_equal(modify_wq(&other, w->handle, WQS_RDY), -EINVAL);
        assert_int_equal(app_call_handle(&app, CTL_DESTROY_WQ, w->handle), 0);
        assert_int_equal(app_call_handle(&app, CTL_DESTROY_WQ, w->handle), -ENOENT);
    }
}

static void test_work_queue_states(void **state)
{
    uint32_t wq = make_wq(NULL);
    struct ctl_msg m = {.modify_wq = {.handle = wq, .state = WQS_ERR}};

    assert_int_equal(modify_wq(&app, wq, 3), -EINVAL);
    assert_int_equal(modify_wq(&app, wq, UINT32_MAX), -EINVAL);
    assert_int_equal(modify_wq(&app, 0, WQS_RDY), -EINVAL);
    assert_int_equal(modify_wq(&app, wq + 1, WQS_RDY), -EINVAL);
    assert_int_equal(modify_wq(&app, UINT32_MAX, WQS_RDY), -EINVAL);
    /* A refusal reports the current state. */
    assert_int_equal(app_call(&app, CTL_MODIFY_WQ, &m), -EINVAL);
    assert_int_equal(m.modify_wq.state, WQS_RESET);
    assert_int_equal(modify_wq(&app, wq, WQS_RDY), 0);
    assert_int_equal(modify_wq(&app, wq, WQS_ERR), 0);
    m = (struct ctl_msg){.modify_wq = {.handle = wq, .state = WQS_RDY}};
    assert_int_equal(app_call(&app, CTL_MODIFY_WQ, &m), -EINVAL);
    assert_int_equal(m.modify_wq.state, WQS_ERR);
}

static void test_tables(void **state)
{
    static const uint32_t bad[] = {0, 3, 127, 129, 256, 1u << 31, UINT32_MAX};
    uint32_t wq = make_wq(NULL), table = make_table(wq, CTL_RWQ_IND_MAX);
    struct ctl_msg m;

    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        m = (struct ctl_msg){.rwq_ind = {.handle = table, .size = bad[i]}};
        for (unsigned k = 0; k < CTL_RWQ_IND_MAX; k++)
            m.rwq_ind.wq[k] = (uint16_t)wq;
        assert_int_equal(app_call(&app, CTL_CREATE_RWQ_IND, &m), -EINVAL);
        m.rwq_ind.handle = table;
        m.rwq_ind.size = bad[i];
        assert_int_equal(app_call(&app, CTL_MODIFY_RWQ_IND, &m), -EINVAL);
    }
    m = (struct ctl_msg){.rwq_ind = {.size = 2, .wq = {(uint16_t)wq, 0xFFFF}}};
    assert_int_equal(app_call(&app, CTL_CREATE_RWQ_IND, &m), -EINVAL);
    m = (struct ctl_msg){.rwq_ind = {.size = 1, .wq = {(uint16_t)wq}}};
    assert_int_equal(app_call(&other, CTL_CREATE_RWQ_IND, &m), -EINVAL);
    m = (struct ctl_msg){.rwq_ind = {.handle = table, .size = 1, .wq = {(uint16_t)wq}}};
    assert_int_equal(app_call(&other, CTL_MODIFY_RWQ_IND, &m), -EINVAL);
    m.rwq_ind.handle = 12345;
    assert_int_equal(app_call(&app, CTL_MODIFY_RWQ_IND, &m), -EINVAL);
    assert_int_equal(app_call_handle(&other, CTL_DESTROY_RWQ_IND, table), -ENOENT);
    /* Refused requests have left no references. */
    assert_int_equal(wq_object_get(app.session, wq)->o.refs, CTL_RWQ_IND_MAX);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_RWQ_IND, table), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_RWQ_IND, table), -ENOENT);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_WQ, wq), 0);
}

static void test_spreading_queue_pairs(void **state)
{
    uint32_t wq = make_wq(NULL), table = make_table(wq, 2);
    struct app_srq srq;
    struct ctl_msg m;

    assert_int_equal(app_srq(&app, &srq, 8, 0, NULL), 0);
#define TRIED(status, ...)                                                               \
    do {                                                                                 \
        m = rss_request(table);                                                          \
        __VA_ARGS__;                                                                     \
        assert_int_equal(app_call(&app, CTL_CREATE_QP, &m), status);                     \
        if (!(status))                                                                   \
            assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, m.create_qp.qpn), 0); \
    } while (0)
    TRIED(0, (void)0);
    TRIED(0, m.create_qp.rx_hash.function = 2);
    TRIED(0, m.create_qp.rx_hash.function = 2, m.create_qp.rx_hash.key_len = 0);
    TRIED(0, m.create_qp.rx_hash.fields = 0);
    TRIED(-EINVAL, m.create_qp.pd = 0);
    TRIED(-EINVAL, m.create_qp.type = QPT_RC);
    TRIED(-EINVAL, m.create_qp.type = QPT_XRC_RECV);
    TRIED(-EINVAL, m.create_qp.rx_hash.ind = 4711);
    TRIED(-EINVAL, m.create_qp.rx_hash.function = 0);
    TRIED(-EINVAL, m.create_qp.rx_hash.function = 3);
    TRIED(-EINVAL, m.create_qp.rx_hash.function = UINT32_MAX);
    TRIED(-EINVAL, m.create_qp.rx_hash.key_len = 0);
    TRIED(-EINVAL, m.create_qp.rx_hash.key_len = 39);
    TRIED(-EINVAL, m.create_qp.rx_hash.key_len = UINT32_MAX);
    TRIED(-EINVAL, m.create_qp.rx_hash.function = 2, m.create_qp.rx_hash.key_len = 41);
    TRIED(-EINVAL, m.create_qp.rx_hash.fields = RX_HASH_SRC_IPV4 | RX_HASH_DST_IPV6);
    TRIED(-EINVAL, m.create_qp.rx_hash.fields = RX_HASH_SRC_PORT_TCP | RX_HASH_SRC_PORT_UDP);
    TRIED(-EINVAL, m.create_qp.rx_hash.fields = 1u << 8);
    TRIED(-EINVAL, m.create_qp.rx_hash.fields = 1u << 31);
    TRIED(-EINVAL, m.create_qp.srq = srq.layout.handle);
    TRIED(-EINVAL, m.create_qp.srq = 999);
    TRIED(-EINVAL, m.create_qp.send_cq = cq.handle);
    TRIED(-EINVAL, m.create_qp.recv_cq = cq.handle);
    TRIED(-EINVAL, m.create_qp.caps.max_send_wr = 1);
    TRIED(-EINVAL, m.create_qp.caps.max_recv_wr = 1);
    TRIED(-EINVAL, m.create_qp.caps.max_send_sge = UINT32_MAX);
    TRIED(-EINVAL, m.create_qp.caps.max_recv_sge = 1);
    TRIED(-EINVAL, m.create_qp.caps.max_inline_data = 1);
#undef TRIED
    m = rss_request(table);
    m.create_qp.pd = other.pd;
    assert_int_equal(app_call(&other, CTL_CREATE_QP, &m), -EINVAL);
    assert_int_equal(rwq_ind_get(app.session, table)->o.refs, 0);
}

static void test_no_state(void **state)
{
    uint32_t qpn = make_rss_qp(make_table(make_wq(NULL), 1));
    struct ctl_msg m = {.modify_qp = {.qpn = qpn, .mask = QPA_STATE, .attr.state = QPS_ERR}};
    struct qp_object *q = qp_object_get(app.session, qpn);
    struct qp_shared *shared = q->segment.base;

    assert_int_equal(app_call(&app, CTL_MODIFY_QP, &m), -EOPNOTSUPP);
    assert_int_equal(app_call_handle(&app, CTL_QUERY_QP, qpn), -EOPNOTSUPP);
    m = (struct ctl_msg){.mcast = {.qpn = qpn, .gid = {[10] = 0xFF, 0xFF, 224, 0, 0, 9}}};
    assert_int_equal(app_call(&app, CTL_ATTACH_MCAST, &m), -EINVAL);
    /* Its rings are not read, whatever is written there and rung. */
    atomic_store(&shared->sq_prod, 1);
    atomic_store(&shared->rq_prod, 77);
    app_post(&(struct app_qp){.app = &app,
                              .qpn = qpn,
                              .segment = q->segment.base,
                              .layout = {.sq_off = 256, .sq_size = 1, .sq_stride = 64}},
             (struct sqe){.opcode = SQE_SEND});
    app_run(&app);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, qpn), 0);
}

static void test_flow_rules(void **state)
{
    struct app_qp qp;
    struct app_qp rc;
    struct ctl_msg m;

    assert_int_equal(app_qp(&app, &qp, QPT_RAW_PACKET, &cq, 0, 0), 0);
    assert_int_equal(app_qp(&app, &rc, QPT_RC, &cq, 0, 0), 0);
#define TRIED(status_, ...)                                                                     \
    do {                                                                                        \
        m = flow_request(qp.qpn);                                                               \
        __VA_ARGS__;                                                                            \
        assert_int_equal(app_call(&app, CTL_CREATE_FLOW, &m), status_);                         \
        if (!(status_))                                                                         \
            assert_int_equal(app_call_handle(&app, CTL_DESTROY_FLOW, m.create_flow.handle), 0); \
    } while (0)
    TRIED(0, (void)0);
    TRIED(0, m.create_flow.match.headers = 0);
    TRIED(0, m.create_flow.priority = UINT16_MAX);
    TRIED(0, m.create_flow.drop = 1);
    TRIED(0, memset(&m.create_flow.match.value, 0xFF, 2 * sizeof(struct flow_fields)));
    TRIED(-EINVAL, m.create_flow.qpn = 0);
    TRIED(-EINVAL, m.create_flow.qpn = rc.qpn);
    TRIED(-EINVAL, m.create_flow.qpn = UINT32_MAX);
    TRIED(-EINVAL, m.create_flow.port = 0);
    TRIED(-EINVAL, m.create_flow.port = 2);
    TRIED(-EINVAL, m.create_flow.type = 4);
    TRIED(-EINVAL, m.create_flow.type = UINT32_MAX);
    TRIED(-EINVAL, m.create_flow.priority = UINT16_MAX + 1);
    TRIED(-EINVAL, m.create_flow.match.headers = 1u << 5);
    TRIED(-EINVAL, m.create_flow.match.headers = UINT32_MAX);
    TRIED(-EINVAL, m.create_flow.match.headers = FLOW_HAS_IPV4 | FLOW_HAS_IPV6);
    TRIED(-EINVAL, m.create_flow.match.headers = FLOW_HAS_TCP | FLOW_HAS_UDP);
    TRIED(0, memset(&m.create_flow.deep.value, 0xFF, 2 * sizeof(struct flow_deep_fields)));
    TRIED(0, m.create_flow.deep.tunnels =
                 FLOW_HAS_VXLAN | FLOW_HAS_GRE | FLOW_HAS_MPLS | FLOW_HAS_ESP);
    TRIED(0, m.create_flow.deep.inner_headers = FLOW_HAS_ETHERNET | FLOW_HAS_IPV6 | FLOW_HAS_TCP);
    TRIED(-EINVAL, m.create_flow.deep.tunnels = 1u << 4);
    TRIED(-EINVAL, m.create_flow.deep.tunnels = UINT32_MAX);
    TRIED(-EINVAL, m.create_flow.deep.inner_headers = 1u << 6);
    TRIED(-EINVAL, m.create_flow.deep.inner_headers = UINT32_MAX);
    TRIED(-EINVAL, m.create_flow.deep.inner_headers = FLOW_HAS_IPV4 | FLOW_HAS_IPV6);
    TRIED(-EINVAL, m.create_flow.deep.inner_headers = FLOW_HAS_TCP | FLOW_HAS_UDP);
    for (uint32_t type = FLOW_ALL_DEFAULT; type <= FLOW_SNIFFER; type++) {
        TRIED(0, m.create_flow.type = type, m.create_flow.match.headers = 0);
        TRIED(-EINVAL, m.create_flow.type = type);
        TRIED(-EINVAL, m.create_flow.type = type, m.create_flow.match.headers = 0,
              m.create_flow.drop = 1);
        TRIED(-EINVAL, m.create_flow.type = type, m.create_flow.match.headers = 0,
              m.create_flow.match.mask.dport = 1);
        TRIED(-EINVAL, m.create_flow.type = type, m.create_flow.match.headers = 0,
              m.create_flow.deep.tunnels = FLOW_HAS_GRE);
        TRIED(-EINVAL, m.create_flow.type = type, m.create_flow.match.headers = 0,
              m.create_flow.deep.inner_headers = FLOW_HAS_UDP);
        TRIED(-EINVAL, m.create_flow.type = type, m.create_flow.match.headers = 0,
              m.create_flow.deep.mask.esp_seq = 1);
    }
#undef TRIED
    m = flow_request(qp.qpn);
    assert_int_equal(app_call(&other, CTL_CREATE_FLOW, &m), -EINVAL);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_FLOW, 0), -ENOENT);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_FLOW, 1), -ENOENT);
    m = flow_request(qp.qpn);
    assert_int_equal(app_call(&app, CTL_CREATE_FLOW, &m), 0);
    assert_int_equal(app_call_handle(&app, CTL_QUERY_FLOW, m.create_flow.handle), 0);
    assert_int_equal(app_call_handle(&app, CTL_QUERY_FLOW, 0), -ENOENT);
    assert_int_equal(app_call_handle(&other, CTL_QUERY_FLOW, m.create_flow.handle), -ENOENT);
    assert_int_equal(app_call_handle(&other, CTL_DESTROY_FLOW, m.create_flow.handle), -ENOENT);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, qp.qpn), -EBUSY);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_FLOW, m.create_flow.handle), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, qp.qpn), 0);
}

/* CPU time of a rule that comes and goes, in the fastest of some batches: others on this machine
 * may disturb the rest. */
static uint64_t cost_of_rule(uint32_t qpn)
{
    uint64_t least = UINT64_MAX;

    for (unsigned batch = 0; batch < 20; batch++) {
        uint64_t before = cpu_time();

        for (unsigned i = 0; i < 10; i++)
            assert_int_equal(app_call_handle(&app, CTL_DESTROY_FLOW, make_flow(&app, qpn)), 0);
        least = min_of(least, cpu_time() - before);
    }
    return least;
}

/* A rule costs little more where there are a thousand: all applications wait for it. */
static void test_many_rules(void **state)
{
    uint32_t qpn = make_rss_qp(make_table(make_wq(NULL), 1));
    uint64_t alone;

    make_flow(&app, qpn);
    alone = cost_of_rule(qpn);
    for (unsigned i = 2; i < LIMIT_SESSION_FLOW; i++)
        make_flow(&app, qpn);
    assert_in_range(cost_of_rule(qpn), 0, 30 * alone);
}

static void test_limits(void **state)
{
    uint32_t wq = make_wq(NULL), qpn = make_rss_qp(make_table(wq, 1));
    struct ctl_msg m;

    for (unsigned i = 0; i < LIMIT_SESSION_FLOW; i++)
        make_flow(&app, qpn);
    m = flow_request(qpn);
    assert_int_equal(app_call(&app, CTL_CREATE_FLOW, &m), -ENOMEM);
    for (unsigned i = 1; i < LIMIT_SESSION_RWQ_IND; i++)
        make_table(wq, 1);
    m = (struct ctl_msg){.rwq_ind = {.size = 1, .wq = {(uint16_t)wq}}};
    assert_int_equal(app_call(&app, CTL_CREATE_RWQ_IND, &m), -ENOMEM);
    /* Others are not affected. */
    app_close(&app);
    app_open(&app, rnic);
    app_cq(&app, &cq, 64);
    make_flow(&app, make_rss_qp(make_table(make_wq(NULL), 1)));
}

/* ---- what is used stays; what is closed goes ---- */

static void test_references(void **state)
{
    uint32_t wq[2] = {make_wq(NULL), make_wq(NULL)}, table = make_table(wq[0], 4);
    uint32_t qpn = make_rss_qp(table), flow = make_flow(&app, qpn);
    struct ctl_msg m = {.rwq_ind = {.handle = table, .size = 1, .wq = {(uint16_t)wq[1]}}};

    assert_int_equal(app_call_handle(&app, CTL_DESTROY_CQ, cq.handle), -EBUSY);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_WQ, wq[0]), -EBUSY);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_RWQ_IND, table), -EBUSY);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, qpn), -EBUSY);
    assert_int_equal(app_call(&app, CTL_MODIFY_RWQ_IND, &m), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_WQ, wq[0]), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_WQ, wq[1]), -EBUSY);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_FLOW, flow), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, qpn), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_RWQ_IND, table), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_WQ, wq[1]), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_CQ, cq.handle), 0);
}

static json_t *shown(const char *topic)
{
    char *text = rnic_show(rnic, 0);
    json_t *root = json_loads(text, 0, NULL), *rows = json_incref(json_object_get(root, topic));

    json_decref(root);
    free(text);
    assert_non_null(rows);
    return rows;
}

static unsigned count_shown(const char *topic)
{
    json_t *rows = shown(topic);
    size_t n = json_array_size(rows);

    json_decref(rows);
    return (unsigned)n;
}

/* Rules of others keep working, and their counters stay, when an application exits with frames in
 * flight. */
static void test_closing(void **state)
{
    struct app_cq other_cq;
    struct app_qp mine, theirs;
    struct ctl_create_wq layout;
    uint32_t wq = make_wq(&layout);
    struct sge sge = {.addr = KIT_BASE + 4096, .length = 2048, .lkey = app.key};
    json_t *rows;
    struct cqe e;

    app_cq(&other, &other_cq, 64);
    ready_raw_qp(&app, &mine, &cq);
    ready_raw_qp(&other, &theirs, &other_cq);
    make_flow(&other, theirs.qpn);
    app_recv(&theirs, 1, 8192, 2048);
    app_recv(&theirs, 2, 8192, 2048);
    send_frame(&mine);
    assert_true(app_poll(&other_cq, &e));
    assert_int_equal(e.wr_id, 1);
    assert_int_equal(e.byte_len, FRAME_LEN);

    /* A copy to the other application, which has a table of queues that are ready. */
    assert_int_equal(modify_wq(&app, wq, WQS_RDY), 0);
    post_wq(wq, &layout, sge);
    make_flow(&app, make_rss_qp(make_table(wq, 8)));
    assert_int_equal(count_shown("wqs"), 1);
    assert_int_equal(count_shown("rwq_tables"), 1);
    assert_int_equal(count_shown("flows"), 2);
    send_frame(&mine);
    app_close(&app);
    assert_int_equal(count_shown("wqs"), 0);
    assert_int_equal(count_shown("rwq_tables"), 0);
    rows = shown("flows");
    assert_int_equal(json_array_size(rows), 1);
    assert_in_range(json_integer_value(json_object_get(json_array_get(rows, 0), "frames")), 1, 2);
    json_decref(rows);
    send_frame(&theirs);
    while (app_poll(&other_cq, &e) && e.opcode != WC_RECV)
        ;
    assert_int_equal(e.wr_id, 2);
}

/* ---- hostile memory ---- */

/* An index out of range and an entry that is none: the work queue is in error, and says so. */
static void test_hostile_ring(void **state)
{
    struct ctl_create_wq layout;
    uint32_t wq = make_wq(&layout);
    struct qp_shared *shared = wq_object_get(app.session, wq)->segment.base;
    struct sge nowhere = {.addr = 0, .length = 2048, .lkey = app.key};
    struct ctl_async_event event;
    struct app_qp qp;

    ready_raw_qp(&app, &qp, &cq);
    make_flow(&app, make_rss_qp(make_table(wq, 1)));
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(modify_wq(&app, wq, WQS_RESET), 0);
        assert_int_equal(modify_wq(&app, wq, WQS_RDY), 0);
        assert_int_equal(atomic_load(&shared->rq_prod), 0);
        if (round)
            post_wq(wq, &layout, nowhere);
        else
            atomic_store(&shared->rq_prod, layout.size + 1);
        send_frame(&qp);
        app_run(&app);
        assert_true(app_event(&app, loop, &event));
        assert_int_equal(event.type, QP_EVENT_WQ_FATAL);
        assert_int_equal(event.element, (uint64_t)(round + 1) << 32 | 4712);
        assert_int_equal(wq_current_state(wq_object_get(app.session, wq)->wq), WQS_ERR);
    }
}

/* ---- who may ---- */

static void test_denied(void **state)
{
    /* An unknown client. */
    struct session *c = session_create(rnic, &(struct ucred){.uid = geteuid() + 1});
    struct app a = {.session = c, .pd = 1};
    struct ctl_msg m = {0};

    assert_int_equal(app_call(&a, CTL_OPEN, &m), 0);
    m = (struct ctl_msg){0};
    assert_int_equal(app_call(&a, CTL_QUERY_DEVICE, &m), 0);
    assert_int_equal(m.device.max_wq, 0);
    assert_int_equal(m.device.max_rwq_ind, 0);
    assert_int_equal(m.device.max_rwq_ind_size, 0);
    m = wq_request(&a, 1);
    assert_int_equal(app_call(&a, CTL_CREATE_WQ, &m), -EPERM);
    m = (struct ctl_msg){.rwq_ind.size = 1};
    assert_int_equal(app_call(&a, CTL_CREATE_RWQ_IND, &m), -EPERM);
    m = (struct ctl_msg){.create_qp.type = QPT_RAW_PACKET};
    assert_int_equal(app_call(&a, CTL_CREATE_QP, &m), -EPERM);
    m = flow_request(16);
    assert_int_equal(app_call(&a, CTL_CREATE_FLOW, &m), -EPERM);
    session_close(c);
    m = (struct ctl_msg){0};
    assert_int_equal(app_call(&app, CTL_QUERY_DEVICE, &m), 0);
    assert_int_equal(m.device.max_wq, LIMIT_SESSION_WQ);
    assert_int_equal(m.device.max_rwq_ind_size, CTL_RWQ_IND_MAX);
}

static void test_capability_in_status(void **state)
{
    assert_true(
        permission_of_status("Name:\tx\nCapPrm:\t0\nCapEff:\t0000000000002000\nCapBnd:\t0\n"));
    assert_true(permission_of_status("Name:\tx\nCapEff:\t000001ffffffffff\n"));
    assert_false(permission_of_status("Name:\tx\nCapPrm:\t2000\nCapEff:\t0000000000000000\n"));
    assert_false(permission_of_status("Name:\tx\nCapEff:\t000001ffffffdfff\n"));
    assert_false(permission_of_status("Name:\tx\n"));
    assert_false(permission_of_status("Name:\tCapEff:\t2000\n"));
    assert_false(permission_of_status(""));
}

#define OTHER_USER 65534

enum child_kind { CHILD_PLAIN, CHILD_NET_RAW, CHILD_UNTRACEABLE, CHILD_USER_NAMESPACE };

static int keep_net_raw(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
        {.effective = 1u << CAP_NET_RAW, .permitted = 1u << CAP_NET_RAW}};

    return (int)syscall(SYS_capset, &header, data);
}

/* A process of another user; it reports when it is, and lives until `end` is closed. */
static pid_t start_child(enum child_kind kind, int *end)
{
    int ready[2], stop[2], bad = 0;
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(ready) | pipe(stop), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        close(stop[1]);
        if (kind == CHILD_NET_RAW || kind == CHILD_UNTRACEABLE)
            bad = prctl(PR_SET_KEEPCAPS, 1);
        bad |= setresgid(OTHER_USER, OTHER_USER, OTHER_USER) |
               setresuid(OTHER_USER, OTHER_USER, OTHER_USER);
        if (kind == CHILD_NET_RAW || kind == CHILD_UNTRACEABLE)
            bad |= keep_net_raw();
        bad |= prctl(PR_SET_DUMPABLE, kind != CHILD_UNTRACEABLE);
        if (kind == CHILD_USER_NAMESPACE)
            bad |= unshare(CLONE_NEWUSER);
        byte = (char)(bad != 0);
        if (write(ready[1], &byte, 1) == 1 && read(stop[0], &byte, 1) < 0)
            _exit(1);
        _exit(0);
    }
    close(ready[1]);
    close(stop[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    *end = stop[1];
    return byte ? -pid : pid; /* it could not change its user */
}

static void test_capabilities(void **state)
{
    static const bool may[] = {[CHILD_PLAIN] = false,
                               [CHILD_NET_RAW] = true,
                               [CHILD_UNTRACEABLE] = false,
                               [CHILD_USER_NAMESPACE] = false};

    if (geteuid())
        skip();
    for (unsigned kind = CHILD_PLAIN; kind <= CHILD_USER_NAMESPACE; kind++) {
        int end;
        pid_t pid = start_child(kind, &end);
        struct session c = {.peer = {.pid = abs(pid), .uid = OTHER_USER, .gid = OTHER_USER}};

        if (pid > 0) {
            assert_int_equal(permission_raw(&c), may[kind]);
            c.process_ended = true;
            assert_false(permission_raw(&c));
            c.process_ended = false;
        }
        close(end);
        assert_int_equal(waitpid(abs(pid), NULL, 0), abs(pid));
        assert_false(permission_raw(&c));
    }
}

/* ---- what is shown ---- */

static void test_show(void **state)
{
    static const char text[] =
        "[{\"device\":\"uroce0\",\"flow\":1,\"pid\":%d,\"qpn\":%u,\"type\":\"normal\","
        "\"priority\":3,\"action\":\"deliver\",\"tag\":77,\"match\":[\"ipv4\",\"udp\","
        "\"dmac=020000000001\",\"src=10.1.0.0/255.255.0.0\",\"traffic_class=32/0xfc\","
        "\"dport=4791\"],\"frames\":0}]";
    uint32_t wq = make_wq(NULL), table = make_table(wq, 2), qpn = make_rss_qp(table);
    struct ctl_msg m = {.create_flow = {.qpn = qpn,
                                        .port = 1,
                                        .priority = 3,
                                        .tagged = 1,
                                        .tag = 77,
                                        .match.headers = FLOW_HAS_IPV4 | FLOW_HAS_UDP,
                                        .match.value = {.dmac = {2, 0, 0, 0, 0, 1},
                                                        .src = {[10] = 0xFF, 0xFF, 10, 1},
                                                        .traffic_class = 32,
                                                        .dport = 0xB712},
                                        .match.mask = {.dmac = {255, 255, 255, 255, 255, 255},
                                                       .src = {[12] = 0xFF, 0xFF},
                                                       .traffic_class = 0xFC,
                                                       .dport = 0xFFFF}}};
    char expected[512], *got;
    json_t *rows, *row;

    assert_int_equal(app_call(&app, CTL_CREATE_FLOW, &m), 0);
    rows = shown("flows");
    got = json_dumps(rows, JSON_COMPACT);
    snprintf(expected, sizeof(expected), text, getpid(), qpn);
    assert_string_equal(got, expected);
    free(got);
    json_decref(rows);

    rows = shown("wqs");
    row = json_array_get(rows, 0);
    assert_string_equal(json_string_value(json_object_get(row, "state")), "RESET");
    assert_string_equal(json_string_value(json_object_get(row, "type")), "RQ");
    assert_int_equal(json_integer_value(json_object_get(row, "wqn")), wq);
    assert_int_equal(json_integer_value(json_object_get(row, "references")), 2);
    json_decref(rows);

    rows = shown("rwq_tables");
    row = json_array_get(rows, 0);
    assert_int_equal(json_integer_value(json_object_get(row, "size")), 2);
    assert_int_equal(json_array_size(json_object_get(row, "wqs")), 2);
    json_decref(rows);

    rows = shown("qps");
    row = json_array_get(rows, 0);
    assert_null(json_object_get(row, "state"));
    row = json_object_get(row, "rx_hash");
    assert_string_equal(json_string_value(json_object_get(row, "function")), "toeplitz");
    assert_int_equal(json_integer_value(json_object_get(row, "table")), table);
    json_decref(rows);
}

/* A tunnel, and what is inside of it. */
static void test_show_tunnel(void **state)
{
    uint32_t wq = make_wq(NULL), table = make_table(wq, 2), qpn = make_rss_qp(table);
    struct ctl_msg m = {.create_flow = {.qpn = qpn,
                                        .port = 1,
                                        .deep = {.tunnels = FLOW_HAS_VXLAN | FLOW_HAS_GRE,
                                                 .inner_headers = FLOW_HAS_ETHERNET | FLOW_HAS_TCP,
                                                 .value = {.vni = 0x34120000,
                                                           .gre_protocol = 0x5865,
                                                           .mpls = 0x01,
                                                           .esp_spi = 0x01000000,
                                                           .inner.dport = 0x5000},
                                                 .mask = {.vni = 0xFFFFFF00,
                                                          .gre_protocol = 0xFFFF,
                                                          .mpls = 0xFF,
                                                          .esp_spi = UINT32_MAX,
                                                          .inner.dport = 0xFFFF}}}};
    json_t *rows;
    char *got;

    assert_int_equal(app_call(&app, CTL_CREATE_FLOW, &m), 0);
    rows = shown("flows");
    got = json_dumps(json_object_get(json_array_get(rows, 0), "match"), JSON_COMPACT);
    assert_string_equal(got, "[\"vxlan\",\"gre\",\"vni=4660\",\"gre_protocol=6558\","
                             "\"mpls=01000000/ff000000\",\"esp_spi=1\",\"inner\",\"tcp\","
                             "\"ethernet\",\"dport=80\"]");
    free(got);
    json_decref(rows);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_work_queues),
        T(test_work_queue_states),
        T(test_tables),
        T(test_spreading_queue_pairs),
        T(test_no_state),
        T(test_flow_rules),
        T(test_many_rules),
        T(test_limits),
        T(test_references),
        T(test_closing),
        T(test_hostile_ring),
        T(test_denied),
        T(test_show),
        T(test_show_tunnel),
        cmocka_unit_test(test_capability_in_status),
        cmocka_unit_test(test_capabilities),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
