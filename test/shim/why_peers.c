/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are not there, or not those. See why_cases.c. */
#include "why_kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void peer_destroyed(void)
{
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
    expect_success();
    check(!ibv_destroy_qp(b.qp), "ibv_destroy_qp");
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, b.mr->rkey, 64);
}

static void wrong_dest_qpn(void)
{
    a.dest_qpn = 0xABCDE;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void peer_connected_elsewhere(void)
{
    b.dest_qpn = 0xABCDE;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void peer_of_other_type(void)
{
    union ibv_gid gid;

    open_device();
    make_end(&a);
    type = IBV_QPT_UD;
    make_end(&b);
    check(!to_init(&b) && !to_rtr(&b, 0, NULL) && !to_rts(&b), "UD");
    type = IBV_QPT_RC;
    gid = own_gid();
    check(!to_init(&a) && !to_rtr(&a, b.qp->qp_num, &gid) && !to_rts(&a), "RC");
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void peer_of_other_address(void)
{
    a.other_gid = true;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void peer_in_init(void)
{
    b.stays_in_init = true;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void peer_in_error(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    connect_both();
    check(!ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), "ERR");
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

/* What the two processes tell each other. */
struct told {
    union ibv_gid gid;
    uint64_t at;
    uint32_t qpn, rkey;
};

static pid_t peer_process;

static struct told tell(const struct end *e)
{
    return (struct told){
        .gid = own_gid(), .at = (uintptr_t)e->buffer, .qpn = e->qp->qp_num, .rkey = e->mr->rkey};
}

static void connect_told(struct end *e, const struct told *to)
{
    check(!to_init(e), "INIT");
    check(!to_rtr(e, to->qpn, &to->gid), "RTR");
    check(!to_rts(e), "RTS");
}

static _Noreturn void be_peer(int in, int out)
{
    const char *socket = getenv("PEER_SOCKET");
    struct told there, here;

    if (socket)
        setenv("UROCE_SOCKET", socket, 1);
    open_device();
    make_end(&b);
    here = tell(&b);
    check(write(out, &here, sizeof(here)) == sizeof(here), "write");
    check(read(in, &there, sizeof(there)) == sizeof(there), "read");
    connect_told(&b, &there);
    check(write(out, &here, sizeof(here)) == sizeof(here), "write");
    for (;;)
        pause();
}

/* The peer is another process, of the daemon at PEER_SOCKET if that is set. */
static struct told connect_process(void)
{
    struct told there, here;
    int up[2], down[2];

    check(!pipe(up) && !pipe(down), "pipe");
    peer_process = fork();
    check(peer_process >= 0, "fork");
    if (!peer_process)
        be_peer(down[0], up[1]);
    open_device();
    make_end(&a);
    check(read(up[0], &there, sizeof(there)) == sizeof(there), "read");
    here = tell(&a);
    check(write(down[1], &here, sizeof(here)) == sizeof(here), "write");
    check(read(up[0], &there, sizeof(there)) == sizeof(there), "read");
    timeout_code = 14;
    retry_cnt = 3;
    connect_told(&a, &there);
    return there;
}

static void write_to(const struct told *there, uint32_t rkey)
{
    post_remote(IBV_WR_RDMA_WRITE, there->at, rkey, 64);
}

static void end_peer(void)
{
    kill(peer_process, SIGKILL);
    waitpid(peer_process, NULL, 0);
}

/* The daemon may not know yet that the peer's process has ended. */
static void write_until_error(const struct told *there)
{
    struct ibv_wc wc;

    do {
        write_to(there, there->rkey);
        check(take(&wc), "a completion");
    } while (wc.status == IBV_WC_SUCCESS);
    printf("%lu %d %u\n", wc.wr_id, wc.status, wc.vendor_err);
}

/* Killed when one request has succeeded. */
static void peer_killed(void)
{
    struct told there = connect_process();

    write_to(&there, there.rkey);
    expect_success();
    end_peer();
    write_until_error(&there);
}

static void process_wrong_rkey(void)
{
    struct told there = connect_process();

    write_to(&there, there.rkey ^ 0x5A00);
    report();
    end_peer();
}

/* DAEMON is the process of a daemon that this program may kill. */
static void kill_daemon(void)
{
    const char *pid = getenv("DAEMON");

    check(pid && atoi(pid) > 1 && !kill(atoi(pid), SIGKILL), "DAEMON");
}

static void peer_daemon_killed(void)
{
    struct told there = connect_process();

    write_to(&there, there.rkey);
    expect_success();
    kill_daemon();
    write_until_error(&there);
    end_peer();
}

/* Of its own daemon: what was posted is flushed. */
static void daemon_killed(void)
{
    connect_both();
    post_receive(&a, 64, a.mr->lkey);
    kill_daemon();
}

static void no_neighbour(void)
{
    union ibv_gid gid;

    open_device();
    make_end(&a);
    check(!to_init(&a), "INIT");
    gid = own_gid();
    gid.raw[12] = 203;
    gid.raw[13] = 0;
    gid.raw[14] = 113;
    gid.raw[15] = 9;
    check(to_rtr(&a, 17, &gid), "RTR, where no host has the address, fails");
}

static void one_write(void)
{
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

/* The first one's ACK may be late, on a machine that is busy, and must not be too late. */
static void two_writes(void)
{
    timeout_code = 16;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
    expect_success();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void no_retries(void)
{
    retry_cnt = 0;
    two_writes();
}

const struct why_case why_peers[] = {
#define CASE(name)  \
    {               \
#name, name \
    }
    CASE(peer_destroyed),
    CASE(wrong_dest_qpn),
    CASE(peer_connected_elsewhere),
    CASE(peer_of_other_type),
    CASE(peer_of_other_address),
    CASE(peer_in_init),
    CASE(peer_in_error),
    CASE(peer_killed),
    CASE(process_wrong_rkey),
    CASE(peer_daemon_killed),
    CASE(daemon_killed),
    CASE(no_neighbour),
    CASE(one_write),
    CASE(two_writes),
    CASE(no_retries),
#undef CASE
    {NULL, NULL},
};
