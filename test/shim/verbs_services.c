/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_services.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

/* ---- shared receive queues ---- */

static struct ibv_srq *make_srq(struct pair *p, uint32_t max_wr)
{
    struct ibv_srq_init_attr attr = {.srq_context = p, .attr = {.max_wr = max_wr, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(p->pd, &attr);

    assert_non_null(srq);
    assert_true(attr.attr.max_wr >= max_wr);
    return srq;
}

/* b's queue pair, created again, receiving from srq. */
static void use_srq(struct pair *p, struct ibv_srq *srq)
{
    struct ibv_qp_init_attr attr = {.send_cq = p->cq,
                                    .recv_cq = p->cq,
                                    .srq = srq,
                                    .cap = {.max_send_wr = PAIR_WR, .max_send_sge = 1},
                                    .qp_type = IBV_QPT_RC};

    assert_int_equal(ibv_destroy_qp(p->b.qp), 0);
    p->b.qp = ibv_create_qp(p->pd, &attr);
    assert_non_null(p->b.qp);
    connect_qp(p->b.qp, p->a.qp->qp_num);
    modify_state(p->a.qp, IBV_QPS_RESET);
    connect_qp(p->a.qp, p->b.qp->qp_num);
}

static int post_shared(struct pair *p, struct ibv_srq *srq, uint64_t wr_id)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)p->b.buffer, .length = PAIR_BYTES, .lkey = p->b.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

    return ibv_post_srq_recv(srq, &wr, &bad);
}

/* One message, which must consume the WQE wr_id. */
static void one_message(struct pair *p, uint64_t wr_id)
{
    struct ibv_wc wc[2];
    const struct ibv_wc *received;

    assert_int_equal(post_send(&p->a, IBV_WR_SEND, &p->b, 0, 100, 1000), 0);
    await(p->cq, wc, 2);
    received = wc[0].wr_id == 1000 ? &wc[1] : &wc[0];
    assert_int_equal(received->status, IBV_WC_SUCCESS);
    assert_int_equal(received->opcode, IBV_WC_RECV);
    assert_int_equal(received->wr_id, wr_id);
    assert_int_equal(received->qp_num, p->b.qp->qp_num);
}

static bool limit_event(struct pair *p, struct ibv_srq *srq)
{
    struct ibv_async_event event;
    bool good;

    do { /* COMM_EST of the connecting comes first */
        assert_int_equal(ibv_get_async_event(p->ctx, &event), 0);
        good = event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq;
        ibv_ack_async_event(&event);
    } while (event.event_type == IBV_EVENT_COMM_EST);
    return good;
}

void srq_limit_and_resize(void **state)
{
    static const uint32_t sizes[] = {64, 8, 1024, 4};
    struct pair p;
    struct ibv_srq *srq;
    struct ibv_srq_attr attr = {.srq_limit = 4};
    uint64_t posted = 0, taken = 0;

    pair_open(&p);
    srq = make_srq(&p, 4);
    use_srq(&p, srq);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(post_shared(&p, srq, posted++), 0);
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    assert_int_equal(ibv_query_srq(srq, &attr), 0);
    assert_int_equal(attr.srq_limit, 4);
    one_message(&p, taken++);
    assert_true(limit_event(&p, srq));
    assert_int_equal(ibv_query_srq(srq, &attr), 0);
    assert_int_equal(attr.srq_limit, 0);

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        attr.max_wr = 2; /* three wait */
        assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
        attr.max_wr = sizes[i];
        assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
        for (uint64_t end = posted + 7; posted < end;) { /* and around the ring */
            assert_int_equal(post_shared(&p, srq, posted++), 0);
            one_message(&p, taken++);
        }
    }
    assert_int_equal(ibv_destroy_srq(srq), EBUSY);
    assert_int_equal(ibv_destroy_qp(p.b.qp), 0);
    p.b.qp = make_qp(&p, p.cq);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    pair_close(&p);
}

void srq_overflow_is_refused(void **state)
{
    struct pair p;
    struct ibv_srq *srq;
    struct ibv_srq_attr attr;
    unsigned room = 0;

    pair_open(&p);
    srq = make_srq(&p, 5);
    assert_int_equal(ibv_query_srq(srq, &attr), 0);
    while (!post_shared(&p, srq, room))
        room++;
    assert_int_equal(room, attr.max_wr);
    assert_int_equal(post_shared(&p, srq, room), ENOMEM);
    use_srq(&p, srq);
    one_message(&p, 0);
    assert_int_equal(post_shared(&p, srq, room), 0);
    assert_int_equal(post_shared(&p, srq, room), ENOMEM);
    for (uint64_t i = 1; i <= room; i++)
        one_message(&p, i);
    assert_int_equal(ibv_destroy_qp(p.b.qp), 0);
    p.b.qp = make_qp(&p, p.cq);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    pair_close(&p);
}

/* ---- memory windows ---- */

static int write_at(struct pair *p, uint32_t rkey, uintptr_t addr)
{
    struct ibv_sge sge = {.addr = (uintptr_t)p->a.buffer, .length = 8, .lkey = p->a.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = addr, .rkey = rkey}};
    struct ibv_send_wr *bad;
    struct ibv_wc wc;

    assert_int_equal(ibv_post_send(p->a.qp, &wr, &bad), 0);
    await(p->cq, &wc, 1);
    return wc.status;
}

static int write_through(struct pair *p, uint32_t rkey)
{
    return write_at(p, rkey, (uintptr_t)p->b.buffer);
}

void windows_come_and_go(void **state)
{
    struct pair p;
    struct ibv_mw *mw;
    struct ibv_mr *mr;
    struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
    struct ibv_wc wc;
    uint32_t old;

    pair_open(&p);
    mr = ibv_reg_mr(p.pd, p.b.buffer, PAIR_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_1);
    assert_non_null(mr);
    assert_non_null(mw);
    bind.bind_info = (struct ibv_mw_bind_info){.mr = mr,
                                               .addr = (uintptr_t)p.b.buffer,
                                               .length = 4096,
                                               .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    old = mw->rkey;
    assert_int_equal(ibv_bind_mw(p.b.qp, mw, &bind), 0);
    assert_int_not_equal(mw->rkey, old);
    await(p.cq, &wc, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
    assert_int_equal(write_through(&p, mw->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(mr), EBUSY);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_2);
    assert_int_equal(ibv_bind_mw(p.b.qp, mw, &bind), EINVAL); /* by a work request only */
    assert_int_equal(write_through(&p, mw->rkey), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    pair_close(&p);
}

/* The adapter owns the upper 24 bits of a key: the program may choose any number. */
void windows_take_any_number(void **state)
{
    static const uint32_t numbers[] = {12, 0xFFFFFFFF, 0};
    struct pair p;
    struct ibv_mw *mw;
    struct ibv_mr *mr;
    struct ibv_wc wc;
    struct ibv_send_wr *bad, wr = {.send_flags = IBV_SEND_SIGNALED};

    pair_open(&p);
    mr = ibv_reg_mr(p.pd, p.b.buffer, PAIR_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_2);
    assert_non_null(mr);
    assert_non_null(mw);
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint32_t index = mw->rkey & ~0xFFu;

        wr.opcode = IBV_WR_BIND_MW;
        wr.bind_mw.mw = mw;
        wr.bind_mw.rkey = numbers[i];
        wr.bind_mw.bind_info =
            (struct ibv_mw_bind_info){.mr = mr,
                                      .addr = (uintptr_t)p.b.buffer,
                                      .length = 4096,
                                      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
        assert_int_equal(ibv_post_send(p.b.qp, &wr, &bad), 0);
        await(p.cq, &wc, 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(mw->rkey, index | (numbers[i] & 0xFF));
        assert_int_equal(write_through(&p, mw->rkey), IBV_WC_SUCCESS);
        wr.opcode = IBV_WR_LOCAL_INV;
        wr.invalidate_rkey = mw->rkey;
        assert_int_equal(ibv_post_send(p.b.qp, &wr, &bad), 0);
        await(p.cq, &wc, 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

/* ---- regions, errors ---- */

/* What a call returns is in errno, too: programs print strerror(errno). */
#define FAILS_WITH(call, error)         \
    do {                                \
        errno = 0;                      \
        assert_int_equal(call, error);  \
        assert_int_equal(errno, error); \
    } while (0)

static int advise_as(struct pair *p, enum ibv_advise_mr_advice advice, struct ibv_sge *sge)
{
    return ibv_advise_mr(p->pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, sge, 1);
}

static int advise(struct pair *p, struct ibv_sge *sge)
{
    return advise_as(p, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, sge);
}

/* Nothing is to be made present, and yet the key and the range have to be right. */
static int advise_without_faults(struct pair *p, struct ibv_sge *sge)
{
    return advise_as(p, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, sge);
}

/* A region of length 0 has a key, and covers nothing. */
void empty_region(void **state)
{
    struct pair p;
    struct ibv_mr *mr;

    pair_open(&p);
    mr = ibv_reg_mr(p.pd, p.b.buffer, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(mr);
    assert_int_equal(write_through(&p, mr->rkey), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

/* Peers address a region by any 64-bit numbers, up to the last one. */
void region_at_the_last_addresses(void **state)
{
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    const size_t len = 64;
    const uint64_t first = 0 - (uint64_t)len;
    struct ibv_mr *mr;
    struct pair p;

    pair_open(&p);
    mr = ibv_reg_mr_iova(p.pd, p.b.buffer, len, first, access);
    assert_non_null(mr);
    memset(p.a.buffer, 9, 8);
    memset(p.b.buffer, 0, len);
    assert_int_equal(write_at(&p, mr->rkey, first), IBV_WC_SUCCESS);
    assert_int_equal(write_at(&p, mr->rkey, UINT64_MAX - 7), IBV_WC_SUCCESS);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(p.b.buffer[i], i < 8 || i >= len - 8 ? 9 : 0);
    assert_null(ibv_reg_mr_iova(p.pd, p.b.buffer, len, first + 1, access));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(write_at(&p, mr->rkey, UINT64_MAX - 6), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

/* An on-demand region is what its addresses mean at the time of each access. */
void on_demand_region_follows_the_program(void **state)
{
    const size_t len = 65536;
    struct ibv_sge sge = {.length = 4096};
    struct ibv_pd *other;
    struct pair p;
    struct ibv_mr *mr;
    uint8_t *at;

    pair_open(&p);
    at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    mr = ibv_reg_mr(p.pd, at, len,
                    IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(mr);
    for (unsigned turn = 0; turn < 3; turn++) { /* its pages, others, and none */
        p.a.buffer[0] = (uint8_t)(7 + turn);
        if (turn == 1)
            assert_ptr_equal(mmap(at, len, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                             at);
        else if (turn == 2)
            munmap(at, len);
        assert_int_equal(write_at(&p, mr->rkey, (uintptr_t)at),
                         turn < 2 ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
        if (turn < 2)
            assert_int_equal(at[0], 7 + turn);
    }
    sge.addr = (uintptr_t)at;
    sge.lkey = mr->lkey;
    assert_int_equal(advise(&p, &sge), EFAULT);
    assert_int_equal(advise_without_faults(&p, &sge), 0);
    sge.length = len + 1; /* errors: ibv_advise_mr(3) */
    assert_int_equal(advise(&p, &sge), EFAULT);
    assert_int_equal(advise_without_faults(&p, &sge), EFAULT);
    assert_int_equal(advise_as(&p, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT + 1, &sge), EOPNOTSUPP);
    other = ibv_alloc_pd(p.ctx);
    assert_non_null(other);
    sge.length = 4096;
    assert_int_equal(ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1),
                     EPERM);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    sge.lkey = p.b.mr->lkey;
    assert_int_equal(advise(&p, &sge), EINVAL); /* not on demand */
    sge.lkey++;
    assert_int_equal(advise(&p, &sge), ENOENT);
    assert_int_equal(advise_without_faults(&p, &sge), ENOENT);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

/* A parent domain is its protection domain by another name. */
void parent_domains(void **state)
{
    struct ibv_td_init_attr thread = {0};
    struct ibv_parent_domain_init_attr attr = {0};
    struct ibv_pd *pd, *parent;
    struct ibv_td *td;
    struct ibv_mr *mr;
    struct pair p;

    pair_open(&p);
    td = ibv_alloc_td(p.ctx, &thread);
    pd = ibv_alloc_pd(p.ctx);
    assert_non_null(td);
    assert_non_null(pd);
    assert_null(ibv_alloc_parent_domain(p.ctx, &attr));
    assert_int_equal(errno, EINVAL);
    attr = (struct ibv_parent_domain_init_attr){.pd = p.pd, .td = td};
    parent = ibv_alloc_parent_domain(p.ctx, &attr);
    assert_non_null(parent);
    mr = ibv_reg_mr(parent, p.b.buffer, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(mr);
    assert_int_equal(write_through(&p, mr->rkey), IBV_WC_SUCCESS); /* the queue pair's domain */
    assert_int_equal(ibv_dereg_mr(mr), 0);
    FAILS_WITH(ibv_dealloc_td(td), EBUSY);
    attr.pd = parent;
    assert_null(ibv_alloc_parent_domain(p.ctx, &attr));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_td(td), 0);
    attr = (struct ibv_parent_domain_init_attr){.pd = pd, .comp_mask = 1 << 3};
    assert_null(ibv_alloc_parent_domain(p.ctx, &attr));
    assert_int_equal(errno, EINVAL);
    attr.comp_mask = 1 << 2; /* rdma-core's ALLOW_CC_UNPROTECTED_ALLOC */
    parent = ibv_alloc_parent_domain(p.ctx, &attr);
    assert_non_null(parent);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    attr = (struct ibv_parent_domain_init_attr){.pd = pd};
    parent = ibv_alloc_parent_domain(p.ctx, &attr);
    assert_non_null(parent);
    FAILS_WITH(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    pair_close(&p);
}

void errors_are_in_errno(void **state)
{
    struct ibv_sge sges[64] = {0};
    struct ibv_send_wr *bad_send, send = {.sg_list = sges, .num_sge = 64, .opcode = IBV_WR_SEND};
    struct ibv_recv_wr *bad_recv, recv = {.sg_list = sges, .num_sge = 64};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    struct ibv_port_attr port;
    struct ibv_gid_entry gid;
    struct ibv_srq_attr shared = {.max_wr = 1};
    struct ibv_srq *srq;
    struct pair p;

    pair_open(&p);
    srq = make_srq(&p, 4);
    FAILS_WITH(ibv_dealloc_pd(p.pd), EBUSY);
    FAILS_WITH(ibv_destroy_cq(p.cq), EBUSY);
    FAILS_WITH(ibv_destroy_comp_channel(p.channel), EBUSY);
    FAILS_WITH(ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN), EINVAL);
    FAILS_WITH(ibv_modify_srq(srq, &shared, 0x80), EINVAL);
    FAILS_WITH(ibv_query_port(p.ctx, 9, &port), EINVAL);
    FAILS_WITH(ibv_query_gid_ex(p.ctx, 1, 100000, &gid, 0), EINVAL);
    FAILS_WITH(ibv_post_send(p.a.qp, &send, &bad_send), EINVAL);
    FAILS_WITH(ibv_post_recv(p.a.qp, &recv, &bad_recv), EINVAL);
    FAILS_WITH(ibv_post_srq_recv(srq, &recv, &bad_recv), EINVAL);
    FAILS_WITH(ibv_resize_cq(p.cq, 0), EINVAL);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    pair_close(&p);
}

#define REFUSES_OBJECT(call)                 \
    do {                                     \
        errno = 0;                           \
        assert_null(call);                   \
        assert_int_equal(errno, EOPNOTSUPP); \
    } while (0)

/* doc/verbs.md: refused, and not reported as present. */
void what_is_refused(void **state)
{
    struct ibv_qp_attr attr = {0};
    struct ibv_device_attr_ex device;
    struct pair p;

    pair_open(&p);
    struct ibv_qp_init_attr_ex flags = {.qp_type = IBV_QPT_RC,
                                        .send_cq = p.cq,
                                        .recv_cq = p.cq,
                                        .pd = p.pd,
                                        .cap = {1, 1, 1, 1, 0},
                                        .comp_mask =
                                            IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
                                        .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB};
    struct ibv_cq_init_attr_ex unknown = {
        .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1 << 2};
    struct ibv_srq_init_attr_ex tags = {.attr = {.max_wr = 4, .max_sge = 1},
                                        .pd = p.pd,
                                        .cq = p.cq,
                                        .srq_type = IBV_SRQT_TM,
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                     IBV_SRQ_INIT_ATTR_CQ};

    assert_int_equal(ibv_query_device_ex(p.ctx, NULL, &device), 0);
    assert_int_equal(device.tm_caps.max_num_tags, 0);
    assert_false(device.orig_attr.device_cap_flags &
                 (IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_RESIZE_MAX_WR));
    FAILS_WITH(ibv_modify_qp(p.a.qp, &attr, IBV_QP_ALT_PATH), EOPNOTSUPP);
    FAILS_WITH(ibv_modify_qp(p.a.qp, &attr, IBV_QP_CAP), EOPNOTSUPP);
    REFUSES_OBJECT(ibv_reg_dmabuf_mr(p.pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE));
    REFUSES_OBJECT(ibv_create_qp_ex(p.ctx, &flags));
    REFUSES_OBJECT(ibv_create_cq_ex(p.ctx, &unknown));
    REFUSES_OBJECT(ibv_create_srq_ex(p.ctx, &tags));
    pair_close(&p);
}

/* Completions that do not fit are lost, which the program has allowed; nothing else is. */
void overruns_are_ignored(void **state)
{
    struct ibv_cq_init_attr_ex init = {.cqe = 4,
                                       .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                       .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};
    struct ibv_qp_attr drain = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    struct ibv_async_event event;
    struct ibv_wc wc[16];
    struct pair p;
    struct ibv_cq *cq;
    struct side s;

    pair_open(&p);
    cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(p.ctx, &init));
    assert_non_null(cq);
    s = (struct side){.qp = make_qp(&p, cq), .mr = p.a.mr, .buffer = p.a.buffer};
    connect_qp(s.qp, s.qp->qp_num);
    memset(s.buffer, 1, 12);
    memset(p.b.buffer, 0, 12);
    for (unsigned i = 0; i < 12; i++)
        assert_int_equal(post_send(&s, IBV_WR_RDMA_WRITE, &p.b, i, 1, i), 0);
    while (!((volatile uint8_t *)p.b.buffer)[11]) /* the last one was executed */
        sched_yield();
    assert_int_equal(ibv_modify_qp(s.qp, &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    assert_int_equal(ibv_get_async_event(p.ctx, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
    ibv_ack_async_event(&event);
    assert_int_equal(ibv_poll_cq(cq, 16, wc), cq->cqe);
    assert_int_equal(wc[3].wr_id, 3);
    modify_state(s.qp, IBV_QPS_RTS);
    assert_int_equal(post_send(&s, IBV_WR_RDMA_WRITE, &p.b, 0, 8, 77), 0);
    await(cq, wc, 1);
    assert_int_equal(wc[0].wr_id, 77);
    assert_int_equal(ibv_destroy_qp(s.qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    pair_close(&p);
}

/* The library remembers the state of a query only if the program asked for it. */
void queries_keep_the_state(void **state)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct pair p;

    pair_open(&p);
    p.a.qp->state = IBV_QPS_ERR;
    assert_int_equal(ibv_query_qp(p.a.qp, &attr, IBV_QP_CAP, &init), 0);
    assert_int_equal(p.a.qp->state, IBV_QPS_ERR);
    assert_int_equal(ibv_query_qp(p.a.qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(p.a.qp->state, IBV_QPS_RTS);
    pair_close(&p);
}

/* ---- XRC ---- */

static struct ibv_xrcd *open_domain(struct ibv_context *ctx, int fd, int oflags)
{
    struct ibv_xrcd_init_attr attr = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags};

    return ibv_open_xrcd(ctx, &attr);
}

void xrc_domain_of_two_contexts(void **state)
{
    int file = memfd_create("domain", MFD_CLOEXEC);
    struct pair p;
    struct ibv_context *other = open_first();
    struct ibv_xrcd *one, *two;
    struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 4, .max_sge = 1},
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
                                                     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
                                                     IBV_SRQ_INIT_ATTR_PD,
                                        .srq_type = IBV_SRQT_XRC};
    struct ibv_srq *srq;
    uint32_t number;

    pair_open(&p);
    assert_null(open_domain(other, file, 0));
    assert_int_equal(errno, ENOENT);
    one = open_domain(p.ctx, file, O_CREAT | O_EXCL);
    assert_non_null(one);
    assert_null(open_domain(other, file, O_CREAT | O_EXCL));
    assert_int_equal(errno, EEXIST);
    two = open_domain(other, file, O_CREAT);
    assert_non_null(two);
    attr.pd = p.pd;
    attr.cq = p.cq;
    attr.xrcd = one;
    srq = ibv_create_srq_ex(p.ctx, &attr);
    assert_non_null(srq);
    assert_int_equal(ibv_get_srq_num(srq, &number), 0);
    assert_int_not_equal(number, 0);
    assert_int_equal(ibv_close_xrcd(one), EBUSY);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_close_xrcd(one), 0);
    assert_int_equal(ibv_close_xrcd(two), 0);
    assert_null(open_domain(other, file, 0));
    assert_int_equal(errno, ENOENT);
    pair_close(&p);
    assert_int_equal(ibv_close_device(other), 0);
    close(file);
}

/* ---- multicast ---- */

void attached_queue_pairs_stay(void **state)
{
    struct pair p;
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD};
    union ibv_gid group = {.raw = {0xff, 0x02, [15] = 7}}, unicast = {.raw = {[15] = 1}};
    struct ibv_qp *qp;

    pair_open(&p);
    attr.send_cq = attr.recv_cq = p.cq;
    qp = ibv_create_qp(p.pd, &attr);
    assert_non_null(qp);
    assert_int_equal(ibv_attach_mcast(p.a.qp, &group, 0), EINVAL);
    assert_int_equal(ibv_attach_mcast(qp, &unicast, 0), EINVAL);
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), EINVAL);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), EBUSY);
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    pair_close(&p);
}
