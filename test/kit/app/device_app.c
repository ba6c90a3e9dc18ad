/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_app.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doorbell.h"
#include "unit.h"

int app_call_fd(struct app *a, enum ctl_type type, struct ctl_msg *m, int fd)
{
    struct ctl_call k = {.in_fd = &fd, .in_fds = fd >= 0};
    int status = kit_call(a->session, type, m, &k, false);

    *m = k.reply;
    return status;
}

int app_call(struct app *a, enum ctl_type type, struct ctl_msg *m)
{
    return app_call_fd(a, type, m, -1);
}

int app_call_handle(struct app *a, enum ctl_type type, uint32_t handle)
{
    return kit_call_handle(a->session, type, handle);
}

void app_open_as(struct app *a, struct rnic *r, uid_t uid)
{
    struct ctl_msg m = {0};
    struct ctl_call k = {0};

    a->session = session_create(r, &(struct ucred){.pid = getpid(), .uid = uid});
    assert_non_null(a->session);
    assert_int_equal(kit_call(a->session, CTL_OPEN, &m, &k, true), 0);
    a->async_fd = k.out_fd[1];
    close(k.out_fd[0]);
    while (k.out_fds > 2)
        close(k.out_fd[--k.out_fds]);
    m = (struct ctl_msg){0};
    assert_int_equal(app_call(a, CTL_ALLOC_PD, &m), 0);
    a->pd = m.handle;
    m = (struct ctl_msg){.reg_mr = {.pd = a->pd,
                                    .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ |
                                              MEM_REMOTE_ATOMIC | MEM_MW_BIND,
                                    .addr = KIT_BASE,
                                    .length = KIT_BYTES,
                                    .iova = KIT_BASE}};
    assert_int_equal(app_call(a, CTL_REG_MR, &m), 0);
    a->mr = m.reg_mr.handle;
    a->key = m.reg_mr.lkey;
}

void app_open(struct app *a, struct rnic *r)
{
    app_open_as(a, r, 0);
}

void app_close(struct app *a)
{
    session_close(a->session);
    a->session = NULL;
    close(a->async_fd);
}

static struct worker *worker_of(struct app *a)
{
    return a->session->device->workers[0];
}

void app_run(struct app *a)
{
    for (unsigned idle = 0; idle < 3;)
        idle = worker_poll(worker_of(a), worker_time()) ? 0 : idle + 1;
}

void app_cq(struct app *a, struct app_cq *cq, uint32_t size)
{
    struct ctl_msg m = {.create_cq = {.cqe = size, .cookie = 77}};
    struct object *o;

    assert_int_equal(app_call(a, CTL_CREATE_CQ, &m), 0);
    o = object_get(a->session, OBJ_CQ, m.create_cq.handle);
    *cq = (struct app_cq){.app = a, .handle = m.create_cq.handle};
    cq->reader = (struct cq_reader){.shared = container_of(o, struct cq, o)->segment.base,
                                    .size = m.create_cq.cqe,
                                    .lanes = m.create_cq.lanes};
}

bool app_poll(struct app_cq *cq, struct cqe *out)
{
    const struct cqe *e;

    for (unsigned i = 0; i < 50; i++) {
        e = cq_reader_peek(&cq->reader);
        if (e) {
            *out = *e;
            cq_reader_advance(&cq->reader);
            return true;
        }
        worker_poll(worker_of(cq->app), worker_time());
    }
    return false;
}

int app_qp(struct app *a, struct app_qp *qp, uint32_t type, const struct app_cq *cq, uint32_t srq,
           uint32_t xrcd)
{
    struct ctl_msg m = {.create_qp = {.pd = type == QPT_XRC_RECV ? 0 : a->pd,
                                      .send_cq = cq ? cq->handle : 0,
                                      .recv_cq = cq && type != QPT_XRC_SEND ? cq->handle : 0,
                                      .type = type,
                                      .srq = srq,
                                      .xrcd = xrcd,
                                      .uidx = 4711,
                                      .caps = {16, 16, 2, 2, 0}}};
    int status = app_call(a, CTL_CREATE_QP, &m);

    if (status)
        return status;
    *qp = (struct app_qp){.app = a, .qpn = m.create_qp.qpn, .layout = m.create_qp};
    qp->segment = qp_object_get(a->session, qp->qpn)->segment.base;
    return 0;
}

int app_modify(struct app_qp *qp, uint32_t mask, struct qp_attr attr)
{
    struct ctl_msg m = {.modify_qp = {.qpn = qp->qpn, .mask = mask, .attr = attr}};

    return app_call(qp->app, CTL_MODIFY_QP, &m);
}

struct ah_attr app_address(const char *dgid)
{
    struct ah_attr a = {.is_global = 1, .port_num = 1};
    union gid gid;

    assert_int_equal(gid_parse(&gid, dgid), 0);
    memcpy(a.dgid, gid.raw, sizeof(a.dgid));
    return a;
}

void app_ready(struct app_qp *qp, uint32_t dest, uint32_t mtu_code)
{
    app_ready_by(qp, dest, mtu_code, app_address("127.0.0.1"));
}

void app_ready_by(struct app_qp *qp, uint32_t dest, uint32_t mtu_code, struct ah_attr ah)
{
    uint32_t type = qp->layout.type;
    uint32_t first = QPA_STATE | QPA_PKEY_INDEX | QPA_PORT, second = QPA_STATE, third = QPA_STATE;
    struct qp_attr attr = {.state = QPS_INIT,
                           .port_num = 1,
                           .qkey = APP_QKEY,
                           .access_flags = MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC};

    first |= type == QPT_UD ? QPA_QKEY : QPA_ACCESS_FLAGS;
    if (type != QPT_UD)
        second |= QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN;
    if (type == QPT_RC || type == QPT_XRC_RECV)
        second |= QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
    third |= QPA_SQ_PSN;
    if (type == QPT_RC || type == QPT_XRC_SEND)
        third |= QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC;
    else if (type == QPT_XRC_RECV)
        third |= QPA_TIMEOUT;
    assert_int_equal(app_modify(qp, first, attr), 0);
    attr = (struct qp_attr){.state = QPS_RTR,
                            .path_mtu = mtu_code,
                            .dest_qpn = dest,
                            .max_dest_rd_atomic = 1,
                            .min_rnr_timer = 1,
                            .ah = ah};
    assert_int_equal(app_modify(qp, second, attr), 0);
    attr = (struct qp_attr){
        .state = QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    assert_int_equal(app_modify(qp, third, attr), 0);
}

void app_post(struct app_qp *qp, struct sqe wr)
{
    struct qp_shared *shared = (struct qp_shared *)qp->segment;
    struct qp_object *q = qp_object_get(qp->app->session, qp->qpn);
    uint32_t index = atomic_load(&shared->sq_prod);

    wr.flags |= SQE_SIGNALED;
    memcpy(work_queue_slot(qp->segment + qp->layout.sq_off, qp->layout.sq_size,
                           qp->layout.sq_stride, index),
           &wr, sizeof(wr));
    atomic_store(&shared->sq_prod, index + 1);
    doorbell_ring(qp->app->session->ctx[0].doorbells, q->dp.slot);
}

void app_send(struct app_qp *qp, struct sqe wr, uint64_t off, uint32_t len)
{
    struct qp_shared *shared = (struct qp_shared *)qp->segment;
    struct sge sge = {.addr = KIT_BASE + off, .length = len, .lkey = qp->app->key};
    uint8_t *slot = work_queue_slot(qp->segment + qp->layout.sq_off, qp->layout.sq_size,
                                    qp->layout.sq_stride, atomic_load(&shared->sq_prod));

    wr.num_sge = len != 0;
    memcpy(slot + sizeof(wr), &sge, sizeof(sge));
    app_post(qp, wr);
}

static void put_recv(uint8_t *slot, const struct app *a, uint64_t wr_id, uint64_t off, uint32_t len)
{
    struct rqe r = {.wr_id = wr_id, .num_sge = 1};
    struct sge sge = {.addr = KIT_BASE + off, .length = len, .lkey = a->key};

    memcpy(slot, &r, sizeof(r));
    memcpy(slot + sizeof(r), &sge, sizeof(sge));
}

void app_recv(struct app_qp *qp, uint64_t wr_id, uint64_t off, uint32_t len)
{
    struct qp_shared *shared = (struct qp_shared *)qp->segment;
    uint32_t index = atomic_load(&shared->rq_prod);

    put_recv(work_queue_slot(qp->segment + qp->layout.rq_off, qp->layout.rq_size,
                             qp->layout.rq_stride, index),
             qp->app, wr_id, off, len);
    atomic_store(&shared->rq_prod, index + 1);
}

int app_srq(struct app *a, struct app_srq *srq, uint32_t max_wr, uint32_t xrcd,
            const struct app_cq *cq)
{
    struct ctl_msg m = {.create_srq = {.pd = a->pd,
                                       .type = cq ? CTL_SRQ_XRC : CTL_SRQ_BASIC,
                                       .xrcd = xrcd,
                                       .cq = cq ? cq->handle : 0,
                                       .max_wr = max_wr,
                                       .max_sge = 1,
                                       .uidx = 815}};
    int status = app_call(a, CTL_CREATE_SRQ, &m);

    *srq = (struct app_srq){.app = a, .layout = m.create_srq};
    return status;
}

void app_srq_recv(struct app_srq *srq, uint64_t wr_id, uint64_t off, uint32_t len)
{
    uint8_t *segment = srq_object_get(srq->app->session, srq->layout.handle)->segment.base;
    struct srq_shared *shared = (struct srq_shared *)segment;
    uint32_t index = atomic_load(&shared->prod);

    assert_true(index - atomic_load(&shared->taken) < srq->layout.size);
    put_recv(work_queue_slot(segment + srq->layout.ring_off, srq->layout.size, srq->layout.stride,
                             index),
             srq->app, wr_id, off, len);
    atomic_store(&shared->prod, index + 1);
}

int app_srq_modify(struct app_srq *srq, uint32_t mask, uint32_t max_wr, uint32_t limit)
{
    struct ctl_msg m = {
        .modify_srq = {
            .handle = srq->layout.handle, .mask = mask, .max_wr = max_wr, .limit = limit}};
    int status = app_call(srq->app, CTL_MODIFY_SRQ, &m);

    if (!status)
        srq->layout = m.create_srq;
    return status;
}

uint32_t app_ah(struct app *a, uint32_t pd, const char *dgid, uint32_t *number)
{
    return app_ah_by(a, pd, app_address(dgid), number);
}

uint32_t app_ah_by(struct app *a, uint32_t pd, struct ah_attr attr, uint32_t *number)
{
    struct ctl_msg m = {.create_ah = {.pd = pd, .attr = attr}};

    assert_int_equal(app_call(a, CTL_CREATE_AH, &m), 0);
    *number = m.create_ah.number;
    return m.create_ah.handle;
}

bool app_event(struct app *a, struct event_loop *loop, struct ctl_async_event *event)
{
    while (event_loop_step(loop, 0))
        ;
    return recv(a->async_fd, event, sizeof(*event), MSG_DONTWAIT) == sizeof(*event);
}
