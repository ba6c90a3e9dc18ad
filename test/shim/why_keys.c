/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys, receives and memory that do not fit. See why_cases.c. */
#include "why_kit.h"

#include <sys/mman.h>

/* ---- keys ---- */

static void wrong_rkey(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, b.mr->rkey ^ 0x5A00, 64);
}

static void rkey_swapped(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, __builtin_bswap32(b.mr->rkey), 64);
}

static void rkey_of_nothing(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, 0x1000, b.mr->rkey ^ 0x5A00, 64);
}

static void read_wrong_rkey(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_READ, (uintptr_t)b.buffer, b.mr->rkey ^ 0x5A00, 64);
}

static void long_wrong_rkey(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, b.mr->rkey ^ 0x5A00, 5000);
}

static void rkey_deregistered(void)
{
    uint32_t rkey;

    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
    expect_success();
    rkey = b.mr->rkey;
    check(!ibv_dereg_mr(b.mr), "ibv_dereg_mr");
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, rkey, 64);
}

static void rkey_other_domain(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->rkey, 64);
}

static void write_without_right(void)
{
    b.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void read_without_right(void)
{
    b.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    connect_both();
    post_to_b(IBV_WR_RDMA_READ, 64);
}

static void atomic_without_right(void)
{
    b.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    connect_both();
    post_to_b(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
}

static void write_out_of_range(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer + BYTES - 32, b.mr->rkey, 64);
}

static void read_out_of_range(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_READ, (uintptr_t)b.buffer + BYTES - 32, b.mr->rkey, 64);
}

static void post_from(uint32_t lkey, uint64_t at, uint32_t length)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {(uintptr_t)b.buffer, b.mr->rkey}};
    struct ibv_sge sge = {.addr = at, .length = length, .lkey = lkey};

    post(&wr, &sge);
}

static void wrong_lkey(void)
{
    connect_both();
    post_from(a.mr->lkey ^ 0x5A00, (uintptr_t)a.buffer, 64);
}

static void long_wrong_lkey(void)
{
    connect_both();
    post_from(a.mr->lkey ^ 0x5A00, (uintptr_t)a.buffer, 5000);
}

static void lkey_deregistered(void)
{
    uint32_t lkey;

    connect_both();
    lkey = a.mr->lkey;
    check(!ibv_dereg_mr(a.mr), "ibv_dereg_mr");
    post_from(lkey, (uintptr_t)a.buffer, 64);
}

static void lkey_other_domain(void)
{
    connect_both();
    post_from(b.mr->lkey, (uintptr_t)b.buffer, 64);
}

static void lkey_out_of_range(void)
{
    connect_both();
    post_from(a.mr->lkey, (uintptr_t)a.buffer + BYTES - 32, 64);
}

static void read_into_read_only(void)
{
    a.mr_access = IBV_ACCESS_REMOTE_READ;
    connect_both();
    post_to_b(IBV_WR_RDMA_READ, 64);
}

/* ---- receives ---- */

static void receive_queue_empty(void)
{
    connect_both();
    post_message(64);
}

static void receive_too_small(void)
{
    connect_both();
    post_receive(&b, 16, b.mr->lkey);
    post_message(64);
}

static void long_receive_too_small(void)
{
    connect_both();
    post_receive(&b, 16, b.mr->lkey);
    post_message(5000);
}

static void receive_wrong_lkey(void)
{
    connect_both();
    post_receive(&b, 64, b.mr->lkey ^ 0x5A00);
    post_message(64);
}

static void receive_read_only(void)
{
    b.mr_access = IBV_ACCESS_REMOTE_READ;
    connect_both();
    post_receive(&b, 64, b.mr->lkey);
    post_message(64);
}

static void imm_without_receive(void)
{
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE_WITH_IMM, 64);
}

/* ---- memory ---- */

static void peer_memory_gone(void)
{
    connect_both();
    munmap(b.buffer, BYTES);
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void own_memory_gone(void)
{
    connect_both();
    munmap(a.buffer, BYTES);
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void receive_memory_gone(void)
{
    connect_both();
    post_receive(&b, 64, b.mr->lkey);
    munmap(b.buffer, BYTES);
    post_message(64);
}

/* Work requests behind the one that failed are flushed, and say why. */
static void flushed(void)
{
    struct ibv_wc wc;

    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, b.mr->rkey ^ 0x5A00, 64);
    check(take(&wc) && wc.status == IBV_WC_REM_ACCESS_ERR, "remote access error");
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

const struct why_case why_keys[] = {
#define CASE(name)  \
    {               \
#name, name \
    }
    CASE(wrong_rkey),
    CASE(rkey_swapped),
    CASE(rkey_of_nothing),
    CASE(read_wrong_rkey),
    CASE(long_wrong_rkey),
    CASE(rkey_deregistered),
    CASE(rkey_other_domain),
    CASE(write_without_right),
    CASE(read_without_right),
    CASE(atomic_without_right),
    CASE(write_out_of_range),
    CASE(read_out_of_range),
    CASE(wrong_lkey),
    CASE(long_wrong_lkey),
    CASE(lkey_deregistered),
    CASE(lkey_other_domain),
    CASE(lkey_out_of_range),
    CASE(read_into_read_only),
    CASE(receive_queue_empty),
    CASE(receive_too_small),
    CASE(long_receive_too_small),
    CASE(receive_wrong_lkey),
    CASE(receive_read_only),
    CASE(imm_without_receive),
    CASE(peer_memory_gone),
    CASE(own_memory_gone),
    CASE(receive_memory_gone),
    CASE(flushed),
#undef CASE
    {NULL, NULL},
};
