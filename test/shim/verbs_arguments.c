/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "verbs_pair.h"

/* ---- structures of older programs ---- */

/* Of programs that are older than rate_limit, with which struct ibv_qp_attr ends. */
void queries_fit_older_programs(void **state)
{
    const size_t older = offsetof(struct ibv_qp_attr, rate_limit);
    union {
        struct ibv_qp_attr attr;
        uint8_t byte[sizeof(struct ibv_qp_attr)];
    } u;
    struct ibv_qp_init_attr init;
    struct pair p;

    pair_open(&p);
    memset(&u, 0xA5, sizeof(u));
    assert_int_equal(ibv_query_qp(p.a.qp, &u.attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
    assert_int_equal(u.attr.qp_state, IBV_QPS_RTS);
    for (size_t i = older; i < sizeof(u); i++)
        assert_int_equal(u.byte[i], 0xA5);
    assert_int_equal(ibv_query_qp(p.a.qp, &u.attr, IBV_QP_RATE_LIMIT, &init), 0);
    assert_int_equal(u.attr.rate_limit, 0);
    pair_close(&p);
}

/* Of librdmacm and the like; no public header declares it now. */
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from);

void copies_fit_older_programs(void **state)
{
    struct ib_uverbs_qp_attr from = {.qp_state = IBV_QPS_RTS, .alt_timeout = 5};
    struct ibv_qp_attr to = {.rate_limit = 7};

    ibv_copy_qp_attr_from_kern(&to, &from);
    assert_int_equal(to.qp_state, IBV_QPS_RTS);
    assert_int_equal(to.alt_timeout, 5);
    assert_int_equal(to.rate_limit, 7);
}

/* ---- what only the kernel could answer ---- */

void the_kernel_has_no_index_for_it(void **state)
{
    struct pair p;

    pair_open(&p);
    assert_int_equal(ibv_get_device_index(p.ctx->device), -1);
    pair_close(&p);
}

/* ---- structures that programs use again ---- */

static struct ibv_xrcd *open_domain(struct pair *p)
{
    struct ibv_xrcd_init_attr attr = {.comp_mask =
                                          IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                                      .fd = -1,
                                      .oflags = O_CREAT};
    struct ibv_xrcd *xrcd = ibv_open_xrcd(p->ctx, &attr);

    assert_non_null(xrcd);
    return xrcd;
}

/* Both halves of XRC and another queue pair, by one structure. Of it, only the capabilities are
 * the library's to change. */
void creation_keeps_the_arguments(void **state)
{
    static const enum ibv_qp_type type[] = {IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, IBV_QPT_RC};
    struct ibv_qp_init_attr_ex attr, before;
    struct ibv_qp *qp;
    struct pair p;

    pair_open(&p);
    attr = (struct ibv_qp_init_attr_ex){.send_cq = p.cq,
                                        .recv_cq = p.cq,
                                        .cap = {4, 4, 1, 1, 0},
                                        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD,
                                        .pd = p.pd,
                                        .xrcd = open_domain(&p)};
    for (unsigned i = 0; i < sizeof(type) / sizeof(type[0]); i++) {
        attr.qp_type = type[i];
        before = attr;
        qp = ibv_create_qp_ex(p.ctx, &attr);
        assert_non_null(qp);
        before.cap = attr.cap;
        assert_memory_equal(&attr, &before, sizeof(attr));
        assert_int_equal(ibv_destroy_qp(qp), 0);
    }
    assert_int_equal(ibv_close_xrcd(attr.xrcd), 0);
    pair_close(&p);
}

/* ---- queues that a queue pair does not have ---- */

static int post_empty_receive(struct ibv_qp *qp)
{
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
    int err = ibv_post_recv(qp, &wr, &bad);

    assert_ptr_equal(bad, err ? &wr : NULL);
    return err;
}

/* Also without SGEs: there would never be a completion. */
void receives_go_to_the_shared_queue(void **state)
{
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_qp_init_attr_ex attr;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct pair p;

    pair_open(&p);
    srq = ibv_create_srq(p.pd, &shared);
    assert_non_null(srq);
    attr = (struct ibv_qp_init_attr_ex){.send_cq = p.cq,
                                        .recv_cq = p.cq,
                                        .srq = srq,
                                        .cap = {4, 4, 1, 1, 0},
                                        .qp_type = IBV_QPT_RC,
                                        .comp_mask = IBV_QP_INIT_ATTR_PD,
                                        .pd = p.pd};
    qp = ibv_create_qp_ex(p.ctx, &attr);
    assert_non_null(qp);
    connect_qp(qp, p.b.qp->qp_num);
    assert_int_equal(post_empty_receive(qp), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    attr.qp_type = IBV_QPT_XRC_SEND;
    attr.pd = p.pd;
    qp = ibv_create_qp_ex(p.ctx, &attr);
    assert_non_null(qp);
    connect_qp(qp, p.b.qp->qp_num);
    assert_int_equal(post_empty_receive(qp), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(post_empty_receive(p.a.qp), 0);
    pair_close(&p);
}

/* ---- parent domains ---- */

/* A region goes on when the parent domain that it was registered in is gone. */
void parent_domain_in_use(void **state)
{
    struct ibv_parent_domain_init_attr attr = {0};
    struct ibv_pd *parent;
    struct ibv_mr *mr;
    struct pair p;

    pair_open(&p);
    attr.pd = p.pd;
    parent = ibv_alloc_parent_domain(p.ctx, &attr);
    assert_non_null(parent);
    mr = ibv_reg_mr(parent, p.b.buffer, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(mr);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

#define SIZE_OF(i) (16 * ((i) / FREED_OF_A_SIZE) + 24) /* all that malloc has for that */

void freed_take(struct freed *f, uint8_t byte)
{
    for (unsigned i = 0; i < FREED; i++) {
        f->at[i] = malloc(SIZE_OF(i));
        assert_non_null(f->at[i]);
        memset(f->at[i], byte, SIZE_OF(i));
    }
}

void freed_check(struct freed *f, uint8_t byte)
{
    for (unsigned i = 0; i < FREED; i++) {
        for (unsigned k = 0; k < SIZE_OF(i); k++)
            assert_int_equal(f->at[i][k], byte);
        free(f->at[i]);
    }
}

/* So does a window. */
void window_without_its_parent_domain(void **state)
{
    struct ibv_parent_domain_init_attr attr = {0};
    struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
    struct freed freed;
    struct ibv_pd *parent;
    struct ibv_mw *mw;
    struct ibv_mr *mr;
    struct ibv_wc wc;
    struct pair p;

    pair_open(&p);
    attr.pd = p.pd;
    parent = ibv_alloc_parent_domain(p.ctx, &attr);
    assert_non_null(parent);
    mr = ibv_reg_mr(parent, p.b.buffer, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    mw = ibv_alloc_mw(parent, IBV_MW_TYPE_1);
    assert_non_null(mr);
    assert_non_null(mw);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    freed_take(&freed, 0xA5);
    bind.bind_info = (struct ibv_mw_bind_info){.mr = mr,
                                               .addr = (uintptr_t)p.b.buffer,
                                               .length = 64,
                                               .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    assert_int_equal(ibv_bind_mw(p.a.qp, mw, &bind), 0);
    await(p.cq, &wc, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    freed_check(&freed, 0xA5);
    pair_close(&p);
}

/* A completion queue is to have a parent domain, and none is named; or no parent domain. */
void queue_without_its_parent_domain(void **state)
{
    struct ibv_cq_init_attr_ex attr = {.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
    struct pair p;

    pair_open(&p);
    errno = 0;
    assert_null(ibv_create_cq_ex(p.ctx, &attr));
    assert_int_equal(errno, EINVAL);
    attr.parent_domain = p.pd;
    assert_null(ibv_create_cq_ex(p.ctx, &attr));
    assert_int_equal(errno, EINVAL);
    pair_close(&p);
}
