/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker_kit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "doorbell.h"
#include "env.h"
#include "loop.h"
#include "work_queue.h"

#define ENTRIES 16

void require_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    abort();
}

/* ---- control messages ---- */

static struct ctl_msg call(struct session *c, enum ctl_type type, struct ctl_msg m, int *fd)
{
    struct ctl_call k = {0};

    require(!kit_call(c, type, &m, &k, fd != NULL));
    if (fd)
        *fd = k.out_fd[0];
    return k.reply;
}

static union gid address(unsigned side)
{
    union gid gid;

    require(!gid_parse(&gid, side ? "10.0.0.2" : "10.0.0.1"));
    return gid;
}

/* ---- devices and threads ---- */

static void add_port(struct dataplane *d, unsigned side)
{
    struct port_address own = {.gid = address(side), .prefix = 24, .vlan = VLAN_NONE};
    struct port_neighbour other = {.addr = address(!side)};
    struct port_config pc = {.io = d->wrap ? d->wrap(d->end[side]) : d->end[side],
                             .address = &own,
                             .addresses = 1,
                             .neighbour = &other,
                             .neighbours = 1};
    struct pktio_info info;

    d->end[!side]->ops->info(d->end[!side], &info);
    memcpy(other.mac, info.mac, sizeof(other.mac));
    require(!rnic_add_port(d->rnic, &pc));
}

static void start_threads(struct dataplane *d)
{
    for (unsigned i = 0; i < rnic_workers(d->rnic); i++) {
        struct worker *w = rnic_worker(d->rnic, i);

        require(!env_posix.thread_start(&d->worker[i], "test-worker", worker_run, w));
        worker_wait_running(w);
    }
}

void dataplane_open_context(struct dataplane *d, unsigned side)
{
    struct ctl_msg open = {.open.device = side}, none = {0};

    d->session[side] = session_create(d->rnic, &(struct ucred){.pid = getpid()});
    require(d->session[side]);
    call(d->session[side], CTL_OPEN, open, NULL);
    d->pd[side] = call(d->session[side], CTL_ALLOC_PD, none, NULL).handle;
}

static void create_rnic(struct dataplane *d, unsigned workers, const struct mem_provider *mem)
{
    static const uint64_t in_order[2];
    struct rnic_config rc = {.workers = workers, .mem = mem, .version = "kit", .secret = in_order};
    int err;

    d->loop = rc.loop = event_loop_create(&err);
    require(d->loop);
    d->rnic = rnic_create(&rc, &err);
    require(d->rnic);
}

void dataplane_start_loop(struct dataplane *d, unsigned workers, const struct mem_provider *mem)
{
    struct pktio_loop_config lc = {.name = "kit", .mac = {2, 0, 0, 0, 0, 1}, .queues = workers};
    struct port_address address[] = {{.prefix = 8, .vlan = VLAN_NONE},
                                     {.prefix = 128, .vlan = VLAN_NONE}};
    struct port_config pc = {.address = address, .addresses = ARRAY_SIZE(address)};

    require(!gid_parse(&address[0].gid, "127.0.0.1"));
    require(!gid_parse(&address[1].gid, "::1"));
    create_rnic(d, workers, mem);
    pc.io = pktio_loop_create(&lc);
    require(pc.io);
    require(!rnic_add_port(d->rnic, &pc));
    d->session[0] = d->session[1] = NULL;
    start_threads(d);
}

void dataplane_start(struct dataplane *d, unsigned workers, const struct pktio_sim_config *config)
{
    struct pktio_sim_config sc = *config;

    memcpy(sc.mac[0], (uint8_t[6]){2, 0, 0, 0, 0, 1}, 6);
    memcpy(sc.mac[1], (uint8_t[6]){2, 0, 0, 0, 0, 2}, 6);
    create_rnic(d, workers, &kit_provider);
    require(!pktio_sim_pair(d->end, &sc));
    add_port(d, 0);
    add_port(d, 1);
    start_threads(d);
    dataplane_open_context(d, 0);
    dataplane_open_context(d, 1);
}

void dataplane_control(struct dataplane *d)
{
    while (event_loop_step(d->loop, 0))
        ;
}

void dataplane_stop(struct dataplane *d)
{
    for (unsigned i = 0; i < 2; i++)
        if (d->session[i])
            session_close(d->session[i]);
    for (unsigned i = 0; i < rnic_workers(d->rnic); i++) {
        worker_stop(rnic_worker(d->rnic, i));
        pthread_join(d->worker[i], NULL);
    }
    rnic_destroy(d->rnic);
    event_loop_destroy(d->loop);
}

/* ---- objects ---- */

/* The application uses the dataplane's mapping of the segments, not one of its own: ThreadSanitizer
 * identifies memory by its address. */

void cq_open_for(struct session *c, struct test_cq *cq)
{
    struct ctl_msg none = {0}, m = {.create_cq.cqe = 256};
    struct object *o;

    m.create_cq.channel = call(c, CTL_CREATE_CHANNEL, none, &cq->channel).handle;
    m = call(c, CTL_CREATE_CQ, m, NULL);
    cq->handle = m.create_cq.handle;
    o = object_get(c, OBJ_CQ, cq->handle);
    cq->reader = (struct cq_reader){.shared = container_of(o, struct cq, o)->segment.base,
                                    .size = m.create_cq.cqe,
                                    .lanes = m.create_cq.lanes};
}

void cq_open(struct dataplane *d, unsigned side, struct test_cq *cq)
{
    cq_open_for(d->session[side], cq);
}

void cq_arm(struct test_cq *cq)
{
    cq_reader_arm(&cq->reader, CQ_ARM_NEXT);
}

void cq_close(struct test_cq *cq)
{
    close(cq->channel);
}

struct test_mr mr_open(struct dataplane *d, unsigned side, uint64_t addr, uint32_t len)
{
    struct ctl_msg m = {
        .reg_mr = {.pd = d->pd[side],
                   .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_MW_BIND,
                   .addr = addr,
                   .length = len,
                   .iova = addr}};

    m = call(d->session[side], CTL_REG_MR, m, NULL);
    return (struct test_mr){.handle = m.reg_mr.handle, .key = m.reg_mr.lkey};
}

void mr_close(struct dataplane *d, unsigned side, struct test_mr mr)
{
    require(!kit_call_handle(d->session[side], CTL_DEREG_MR, mr.handle));
}

static void qp_open(struct dataplane *d, struct test_qp *qp, unsigned side, uint32_t cq)
{
    struct ctl_msg m = {.create_qp = {.pd = d->pd[side],
                                      .send_cq = cq,
                                      .recv_cq = cq,
                                      .type = QPT_RC,
                                      .caps = {.max_send_wr = ENTRIES,
                                               .max_recv_wr = ENTRIES,
                                               .max_send_sge = 1,
                                               .max_recv_sge = 1}}};
    struct object *o;

    m = call(d->session[side], CTL_CREATE_QP, m, NULL);
    *qp = (struct test_qp){.d = d, .session = d->session[side], .layout = m.create_qp};
    TAILQ_FOREACH (o, &qp->session->objects[OBJ_QP], link) {
        if (o->handle == m.create_qp.qpn)
            qp->shared = container_of(o, struct qp_object, o)->segment.base;
    }
    require(qp->shared);
}

static void qp_modify(struct test_qp *qp, uint32_t mask, struct qp_attr attr)
{
    struct ctl_msg m = {
        .modify_qp = {.qpn = qp->layout.qpn, .mask = mask | QPA_STATE, .attr = attr}};

    call(qp->session, CTL_MODIFY_QP, m, NULL);
}

/* A long timeout: the machine may be busy with other work for tenths of a second. */
static void qp_connect(struct test_qp *qp, const struct test_qp *peer, union gid gid,
                       uint32_t mtu_code)
{
    struct qp_attr attr = {
        .state = QPS_INIT, .port_num = 1, .access_flags = MEM_REMOTE_WRITE | MEM_REMOTE_READ};

    qp_modify(qp, QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, attr);
    attr = (struct qp_attr){.state = QPS_RTR,
                            .path_mtu = mtu_code,
                            .dest_qpn = peer->layout.qpn,
                            .rq_psn = 0xFFFF00,
                            .max_dest_rd_atomic = 4,
                            .min_rnr_timer = 1,
                            .ah = {.is_global = 1, .port_num = 1}};
    memcpy(attr.ah.dgid, gid.raw, sizeof(attr.ah.dgid));
    qp_modify(qp,
              QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
                  QPA_MIN_RNR_TIMER,
              attr);
    attr = (struct qp_attr){.state = QPS_RTS,
                            .sq_psn = 0xFFFF00,
                            .timeout = 14,
                            .retry_cnt = 7,
                            .rnr_retry = 7,
                            .max_rd_atomic = 4};
    qp_modify(qp, QPA_SQ_PSN | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC,
              attr);
}

void pair_open(struct dataplane *d, struct test_qp pair[2], unsigned first,
               const struct test_cq cq[2])
{
    qp_open(d, &pair[0], first, cq[first].handle);
    qp_open(d, &pair[1], !first, cq[!first].handle);
    qp_connect(&pair[0], &pair[1], address(!first), 1);
    qp_connect(&pair[1], &pair[0], address(first), 1);
}

void loop_pair_open(struct dataplane *d, struct test_qp pair[2], const struct test_cq *cq)
{
    union gid gid;

    require(!gid_parse(&gid, "127.0.0.1"));
    for (unsigned i = 0; i < 2; i++)
        qp_open(d, &pair[i], 0, cq->handle);
    for (unsigned i = 0; i < 2; i++)
        qp_connect(&pair[i], &pair[!i], gid, 5);
}

void qp_close(struct test_qp *qp)
{
    require(!kit_destroy_handle(qp->session, CTL_DESTROY_QP, qp->layout.qpn));
}

/* ---- posting ---- */

void post_wr(struct test_qp *qp, struct sqe wr, struct sge sge)
{
    const struct ctl_create_qp *l = &qp->layout;
    struct sqe *e =
        work_queue_slot((uint8_t *)qp->shared + l->sq_off, l->sq_size, l->sq_stride, qp->sends);

    wr.wr_id = qp->sends;
    wr.num_sge = sge.length != 0;
    *e = wr;
    *(struct sge *)(e + 1) = sge;
    atomic_store_explicit(&qp->shared->sq_prod, ++qp->sends, memory_order_release);
}

void post_send(struct test_qp *qp, const struct test_send *s)
{
    struct sqe wr = {.opcode = (uint8_t)s->op,
                     .flags = s->signaled ? SQE_SIGNALED : 0,
                     .remote_addr = s->remote_addr,
                     .rkey = s->rkey};

    post_wr(qp, wr, (struct sge){.addr = s->addr, .length = s->len, .lkey = s->lkey});
}

void post_bind(struct test_qp *qp, const struct test_bind *b)
{
    struct sqe wr = {.opcode = SQE_BIND_MW,
                     .flags = SQE_SIGNALED,
                     .remote_addr = b->addr,
                     .rkey = b->window_key,
                     .imm = b->new_key,
                     .bind = {.region_key = b->region_key, .length = b->len, .access = b->access}};

    post_wr(qp, wr, (struct sge){0});
}

void post_recv(struct test_qp *qp, uint64_t addr, uint32_t len, uint32_t lkey)
{
    const struct ctl_create_qp *l = &qp->layout;
    struct rqe *e =
        work_queue_slot((uint8_t *)qp->shared + l->rq_off, l->rq_size, l->rq_stride, qp->recvs);

    *e = (struct rqe){.wr_id = qp->recvs, .num_sge = 1};
    *(struct sge *)(e + 1) = (struct sge){.addr = addr, .length = len, .lkey = lkey};
    atomic_store_explicit(&qp->shared->rq_prod, ++qp->recvs, memory_order_release);
}

void ring_bell_on(struct test_qp *qp, uint32_t worker)
{
    const struct worker_ctx *ctx = qp->session->by_worker[worker];

    if (doorbell_ring(&ctx->shared->worker[worker], qp->layout.db_slot))
        require(!eventfd_write(ctx->wake_fd, 1));
}

void ring_bell(struct test_qp *qp)
{
    struct ctx_shared *shared = qp->session->ctx[0].shared;

    ring_bell_on(qp, atomic_load(&shared->slot_worker[qp->layout.db_slot]));
}
