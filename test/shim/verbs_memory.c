/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

#define LOCAL  (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE)
#define ALL    (LOCAL | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define LENGTH 8192

static struct ibv_dm *alloc_dm(struct pair *p, size_t length, uint32_t log_align)
{
    struct ibv_alloc_dm_attr attr = {.length = length, .log_align_req = log_align};

    return ibv_alloc_dm(p->ctx, &attr);
}

/* A SEND, WRITE or READ of `length` bytes between [local, lkey] and [remote, rkey]. */
static enum ibv_wc_status transfer(struct pair *p, enum ibv_wr_opcode op, uint64_t local,
                                   uint32_t lkey, uint64_t remote, uint32_t rkey, uint32_t length)
{
    struct ibv_sge sge = {.addr = local, .length = length, .lkey = lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = op,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = remote, .rkey = rkey}};
    struct ibv_send_wr *bad;
    struct ibv_wc wc;

    assert_int_equal(ibv_post_send(p->a.qp, &wr, &bad), 0);
    await(p->cq, &wc, 1);
    return wc.status;
}

static void connect_again(struct pair *p)
{
    modify_state(p->a.qp, IBV_QPS_RESET);
    modify_state(p->b.qp, IBV_QPS_RESET);
    connect_qp(p->a.qp, p->b.qp->qp_num);
    connect_qp(p->b.qp, p->a.qp->qp_num);
}

static void fill(uint8_t *to, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

void dm_is_read_and_written(void **state)
{
    uint8_t data[LENGTH], got[LENGTH] = {0};
    struct ibv_dm *near, *far;
    struct ibv_mr *mr, *part;
    struct pair p;

    pair_open(&p);
    near = alloc_dm(&p, LENGTH, 0);
    far = alloc_dm(&p, 1 << 20, 12);
    assert_non_null(near);
    assert_non_null(far);
    assert_int_equal(ibv_memcpy_from_dm(got, far, (1 << 20) - LENGTH, LENGTH), 0);
    for (unsigned i = 0; i < LENGTH; i++)
        assert_int_equal(got[i], 0);
    mr = ibv_reg_dm_mr(p.pd, near, 0, LENGTH, LOCAL);
    part = ibv_reg_dm_mr(p.pd, far, 4096, 2 * LENGTH, ALL);
    assert_non_null(mr);
    assert_non_null(part);
    fill(data, LENGTH, 1);
    assert_int_equal(ibv_memcpy_to_dm(near, 0, data, LENGTH), 0);
    assert_int_equal(transfer(&p, IBV_WR_RDMA_WRITE, 0, mr->lkey, 100, part->rkey, LENGTH),
                     IBV_WC_SUCCESS);
    assert_int_equal(ibv_memcpy_from_dm(got, far, 4096 + 100, LENGTH), 0);
    assert_memory_equal(got, data, LENGTH);
    fill(data, LENGTH, 2);
    assert_int_equal(ibv_memcpy_to_dm(far, 4096 + 4, data, LENGTH), 0);
    assert_int_equal(
        transfer(&p, IBV_WR_RDMA_READ, (uintptr_t)p.a.buffer, p.a.mr->lkey, 4, part->rkey, LENGTH),
        IBV_WC_SUCCESS);
    assert_memory_equal(p.a.buffer, data, LENGTH);
    assert_int_equal(transfer(&p, IBV_WR_RDMA_WRITE, 0, mr->lkey, 2 * LENGTH - 8, part->rkey, 16),
                     IBV_WC_REM_ACCESS_ERR); /* past the region, inside the memory */
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dereg_mr(part), 0);
    assert_int_equal(ibv_free_dm(near), 0);
    assert_int_equal(ibv_free_dm(far), 0);
    pair_close(&p);
}

void dm_has_its_limits(void **state)
{
    struct ibv_alloc_dm_attr attr = {.length = 64, .comp_mask = 1};
    struct ibv_device_attr_ex device;
    uint32_t word = 5;
    struct ibv_dm *dm;
    struct pair p;

    pair_open(&p);
    assert_int_equal(ibv_query_device_ex(p.ctx, NULL, &device), 0);
    assert_true(device.max_dm_size >= 1 << 20);
    assert_null(ibv_alloc_dm(p.ctx, &attr));
    assert_int_equal(errno, EINVAL);
    assert_null(alloc_dm(&p, 0, 0));
    assert_int_equal(errno, EINVAL);
    assert_null(alloc_dm(&p, device.max_dm_size + 1, 0));
    assert_int_equal(errno, EINVAL);
    assert_null(alloc_dm(&p, 64, 13));
    assert_int_equal(errno, EINVAL);
    dm = alloc_dm(&p, device.max_dm_size, 12);
    assert_non_null(dm);
    assert_int_equal(ibv_free_dm(dm), 0);
    dm = alloc_dm(&p, 100, 6);
    assert_non_null(dm);
    assert_int_equal(ibv_memcpy_to_dm(dm, 96, &word, 4), 0);
    assert_int_equal(ibv_memcpy_to_dm(dm, 100, &word, 0), 0);
    assert_int_equal(ibv_memcpy_to_dm(dm, 100, &word, 4), EFAULT);
    assert_int_equal(ibv_memcpy_to_dm(dm, UINT64_MAX - 3, &word, 4), EFAULT);
    assert_int_equal(ibv_memcpy_to_dm(dm, 2, &word, 4), EINVAL);
    assert_int_equal(ibv_memcpy_from_dm(&word, dm, 0, 2), EINVAL);
    assert_null(ibv_reg_dm_mr(p.pd, dm, 0, 104, LOCAL));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_reg_dm_mr(p.pd, dm, UINT64_MAX - 7, 16, LOCAL));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_reg_dm_mr(p.pd, dm, 0, 100, IBV_ACCESS_LOCAL_WRITE));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_reg_dm_mr(p.pd, dm, 0, 100, LOCAL | IBV_ACCESS_ON_DEMAND));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_free_dm(dm), 0);
    pair_close(&p);
}

void dm_of_atomics(void **state)
{
    uint64_t word = 41, old = 0;
    struct ibv_dm *dm;
    struct ibv_mr *mr;
    struct pair p;

    pair_open(&p);
    dm = alloc_dm(&p, 64, 3);
    mr = ibv_reg_dm_mr(p.pd, dm, 0, 64, ALL);
    assert_non_null(mr);
    assert_int_equal(ibv_memcpy_to_dm(dm, 8, &word, 8), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct ibv_sge sge = {
            .addr = (uintptr_t)p.a.buffer, .length = sizeof(old), .lkey = p.a.mr->lkey};
        struct ibv_send_wr wr = {
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.atomic = {.remote_addr = 8, .compare_add = 2, .rkey = mr->rkey}};
        struct ibv_send_wr *bad;
        struct ibv_wc wc;

        assert_int_equal(ibv_post_send(p.a.qp, &wr, &bad), 0);
        await(p.cq, &wc, 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        memcpy(&old, p.a.buffer, sizeof(old));
        assert_int_equal(old, 41 + 2 * i);
    }
    assert_int_equal(ibv_memcpy_from_dm(&word, dm, 8, 8), 0);
    assert_int_equal(word, 47);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
    pair_close(&p);
}

void dm_rights(void **state)
{
    struct ibv_pd *other;
    struct ibv_dm *dm;
    struct ibv_mr *mr;
    struct pair p;
    uint64_t buffer;

    pair_open(&p);
    buffer = (uintptr_t)p.a.buffer;
    dm = alloc_dm(&p, 64, 0);
    mr = ibv_reg_dm_mr(p.pd, dm, 0, 64, LOCAL | IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    assert_int_equal(transfer(&p, IBV_WR_RDMA_READ, buffer, p.a.mr->lkey, 0, mr->rkey, 64),
                     IBV_WC_SUCCESS);
    assert_int_equal(transfer(&p, IBV_WR_RDMA_WRITE, buffer, p.a.mr->lkey, 0, mr->rkey, 64),
                     IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    connect_again(&p);
    other = ibv_alloc_pd(p.ctx);
    mr = ibv_reg_dm_mr(other, dm, 0, 64, ALL);
    assert_non_null(mr);
    assert_int_equal(transfer(&p, IBV_WR_RDMA_READ, buffer, p.a.mr->lkey, 0, mr->rkey, 64),
                     IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dealloc_pd(other), EBUSY);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
    pair_close(&p);
}

/* A region keeps its memory; a child cannot use its parent's; what is not freed ends with the
 * context. */
void dm_outlives_nothing(void **state)
{
    struct ibv_dm *dm, *second;
    struct ibv_mr *mr;
    uint32_t word = 0;
    struct pair p;
    pid_t child;
    int status;

    pair_open(&p);
    dm = alloc_dm(&p, LENGTH, 0);
    second = alloc_dm(&p, LENGTH, 0);
    mr = ibv_reg_dm_mr(p.pd, dm, 0, LENGTH, ALL);
    assert_non_null(mr);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LOCAL),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_free_dm(dm), EBUSY);
    child = fork();
    if (!child)
        _exit(alloc_dm(&p, 64, 0) || errno != EIO);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(ibv_memcpy_to_dm(dm, 0, &word, 4), 0);
    assert_int_equal(ibv_free_dm(second), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

void null_region_is_empty(void **state)
{
    uint64_t somewhere = UINT64_MAX - 4096;
    struct ibv_mr *null;
    struct ibv_wc wc[2];
    struct pair p;

    pair_open(&p);
    null = ibv_alloc_null_mr(p.pd);
    assert_non_null(null);
    assert_int_equal(null->rkey, null->lkey);
    memset(p.b.buffer, 0x55, LENGTH);
    assert_int_equal(transfer(&p, IBV_WR_RDMA_WRITE, somewhere, null->lkey, (uintptr_t)p.b.buffer,
                              p.b.mr->rkey, 4000),
                     IBV_WC_SUCCESS);
    for (unsigned i = 0; i < LENGTH; i++)
        assert_int_equal(p.b.buffer[i], i < 4000 ? 0 : 0x55);
    assert_int_equal(
        transfer(&p, IBV_WR_RDMA_READ, 0, null->lkey, (uintptr_t)p.b.buffer, p.b.mr->rkey, LENGTH),
        IBV_WC_SUCCESS);
    {
        struct ibv_sge sge = {.addr = 77, .length = LENGTH, .lkey = null->lkey};
        struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;

        assert_int_equal(ibv_post_recv(p.b.qp, &wr, &bad), 0);
        assert_int_equal(post_send(&p.a, IBV_WR_SEND, &p.b, 0, 100, 1), 0);
        await(p.cq, wc, 2);
        assert_int_equal(wc[0].status | wc[1].status, IBV_WC_SUCCESS);
    }
    /* The peer's WRITEs are discarded, and it reads zeros. */
    memset(p.a.buffer, 0x55, LENGTH);
    assert_int_equal(transfer(&p, IBV_WR_RDMA_WRITE, (uintptr_t)p.a.buffer, p.a.mr->lkey, somewhere,
                              null->rkey, 4000),
                     IBV_WC_SUCCESS);
    assert_int_equal(
        transfer(&p, IBV_WR_RDMA_READ, (uintptr_t)p.a.buffer, p.a.mr->lkey, 0, null->rkey, 4000),
        IBV_WC_SUCCESS);
    for (unsigned i = 0; i < LENGTH; i++)
        assert_int_equal(p.a.buffer[i], i < 4000 ? 0 : 0x55);
    assert_int_equal(ibv_dereg_mr(null), 0);
    pair_close(&p);
}

/* ---- many READs and atomics at a time ---- */

#define DEPTH 128

static struct ibv_qp *deep_qp(struct pair *p, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .cap = {.max_send_wr = 4 * DEPTH, .max_send_sge = 1},
                                    .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp(p->pd, &attr);

    assert_non_null(qp);
    return qp;
}

/* READs of one and of several packets, and atomics, four times as many as there may be at once. */
static void post_many(struct pair *p, struct ibv_qp *qp)
{
    for (unsigned i = 0; i < 4 * DEPTH; i++) {
        bool atomic = i % 5 == 4;
        uint32_t length = atomic ? 8 : i % 3 ? 100 : 3000;
        uint64_t at = 8192 + (uint64_t)(i % 16) * 3008;
        struct ibv_sge sge = {
            .addr = (uintptr_t)p->a.buffer + at, .length = length, .lkey = p->a.mr->lkey};
        struct ibv_send_wr wr = {.wr_id = i,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = atomic ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_READ,
                                 .send_flags = IBV_SEND_SIGNALED};
        struct ibv_send_wr *bad;

        if (atomic) {
            wr.wr.atomic.remote_addr = (uintptr_t)p->b.buffer;
            wr.wr.atomic.rkey = p->b.mr->rkey;
            wr.wr.atomic.compare_add = 1;
        } else {
            wr.wr.rdma.remote_addr = (uintptr_t)p->b.buffer + at;
            wr.wr.rdma.rkey = p->b.mr->rkey;
        }
        assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    }
}

void many_reads(void **state)
{
    struct ibv_device_attr device;
    struct ibv_qp *one, *other;
    struct ibv_cq *cq;
    uint64_t count;
    struct pair p;

    pair_open(&p);
    assert_int_equal(ibv_query_device(p.ctx, &device), 0);
    assert_int_equal(device.max_qp_rd_atom, DEPTH);
    assert_int_equal(device.max_qp_init_rd_atom, DEPTH);
    cq = ibv_create_cq(p.ctx, 8 * DEPTH, NULL, NULL, 0);
    one = deep_qp(&p, cq);
    other = deep_qp(&p, cq);
    assert_int_equal(try_connect_qp(one, other->qp_num, DEPTH + 1), EINVAL);
    modify_state(one, IBV_QPS_RESET);
    assert_int_equal(try_connect_qp(one, other->qp_num, DEPTH), 0);
    assert_int_equal(try_connect_qp(other, one->qp_num, DEPTH), 0);
    fill(p.b.buffer + 8, PAIR_BYTES - 8, 3);
    post_many(&p, one);
    for (unsigned i = 0; i < 4 * DEPTH; i++) {
        struct ibv_wc wc;

        await(cq, &wc, 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, i);
    }
    memcpy(&count, p.b.buffer, sizeof(count));
    assert_int_equal(count, 4 * DEPTH / 5);
    assert_memory_equal(p.a.buffer + 8192 + 3008 + 8, p.b.buffer + 8192 + 3008 + 8, 2900);
    assert_int_equal(ibv_destroy_qp(one), 0);
    assert_int_equal(ibv_destroy_qp(other), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    pair_close(&p);
}
