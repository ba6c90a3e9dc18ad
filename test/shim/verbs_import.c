/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_import.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_arguments.h"
#include "verbs_pair.h"

#define DM_BYTES 4096

static void write_by(struct pair *q, struct ibv_mr *mr, uint64_t from, uint64_t to, uint32_t length)
{
    struct ibv_sge sge = {.addr = from, .length = length, .lkey = mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = to, .rkey = mr->rkey}};
    struct ibv_send_wr *bad;
    struct ibv_wc wc;

    assert_int_equal(ibv_post_send(q->a.qp, &wr, &bad), 0);
    await(q->cq, &wc, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* A pair of queue pairs in the imported context and domain. */
static void open_imported(struct pair *q, int cmd_fd, uint32_t pd)
{
    *q = (struct pair){.ctx = ibv_import_device(cmd_fd)};
    assert_non_null(q->ctx);
    assert_int_equal(q->ctx->cmd_fd, cmd_fd);
    q->pd = ibv_import_pd(q->ctx, pd);
    assert_non_null(q->pd);
    q->cq = ibv_create_cq(q->ctx, PAIR_WR, NULL, NULL, 0);
    assert_non_null(q->cq);
    q->a.qp = make_qp(q, q->cq);
    q->b.qp = make_qp(q, q->cq);
    connect_qp(q->a.qp, q->b.qp->qp_num);
    connect_qp(q->b.qp, q->a.qp->qp_num);
}

static void close_imported(struct pair *q)
{
    assert_int_equal(ibv_destroy_qp(q->a.qp), 0);
    assert_int_equal(ibv_destroy_qp(q->b.qp), 0);
    assert_int_equal(ibv_destroy_cq(q->cq), 0);
    assert_int_equal(ibv_close_device(q->ctx), 0);
}

/* The first half of the parent's buffer into the second, which only the parent sees. */
static int copy_for_parent(const struct pair *p)
{
    struct pair q;
    struct ibv_mr *mr;

    open_imported(&q, dup(p->ctx->cmd_fd), p->pd->handle);
    mr = ibv_import_mr(q.pd, p->a.mr->handle);
    assert_non_null(mr);
    assert_int_equal(mr->length, PAIR_BYTES);
    write_by(&q, mr, (uintptr_t)p->a.buffer, (uintptr_t)p->a.buffer + PAIR_BYTES / 2,
             PAIR_BYTES / 2);
    assert_int_equal(ibv_dereg_mr(mr), EINVAL);
    ibv_unimport_mr(mr);
    ibv_unimport_pd(q.pd);
    close_imported(&q);
    return 0;
}

static void await_child(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

void child_uses_its_parents_region(void **state)
{
    struct pair p;
    pid_t child;

    pair_open(&p);
    for (unsigned i = 0; i < PAIR_BYTES / 2; i++)
        p.a.buffer[i] = (uint8_t)(i * 5 + i / 300);
    memset(p.a.buffer + PAIR_BYTES / 2, 0, PAIR_BYTES / 2);
    child = fork();
    if (!child)
        _exit(copy_for_parent(&p));
    await_child(child);
    assert_memory_equal(p.a.buffer, p.a.buffer + PAIR_BYTES / 2, PAIR_BYTES / 2);
    pair_close(&p);
}

/* ---- the other way round, by a socket ---- */

struct given {
    uint32_t pd, dm;
};

static void send_fd(int sock, int fd, struct given *g)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } c = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                    .cmsg_level = SOL_SOCKET,
                    .cmsg_type = SCM_RIGHTS}};
    struct iovec io = {g, sizeof(*g)};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};

    memcpy(CMSG_DATA(&c.head), &fd, sizeof(fd));
    assert_int_equal(sendmsg(sock, &m, 0), sizeof(*g));
}

static int recv_fd(int sock, struct given *g)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } c;
    struct iovec io = {g, sizeof(*g)};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};
    int fd;

    assert_int_equal(recvmsg(sock, &m, 0), sizeof(*g));
    memcpy(&fd, CMSG_DATA(&c.head), sizeof(fd));
    return fd;
}

static int give_objects(int sock)
{
    struct ibv_alloc_dm_attr attr = {.length = DM_BYTES};
    struct ibv_context *ctx = open_first();
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    struct ibv_dm *dm = ibv_alloc_dm(ctx, &attr);
    struct given g = {pd->handle, dm->handle};
    uint8_t data[DM_BYTES];
    char go;

    memset(data, 0xAB, sizeof(data));
    assert_int_equal(ibv_memcpy_to_dm(dm, 0, data, DM_BYTES), 0);
    send_fd(sock, ctx->cmd_fd, &g);
    return read(sock, &go, 1) == 1 ? 0 : 1; /* and ends with everything open */
}

void objects_outlive_their_process(void **state)
{
    uint8_t buffer[256], want[256];
    struct ibv_dm *dm;
    struct ibv_mr *mr, *memory;
    struct given g;
    struct pair q;
    int sock[2], fd;
    pid_t child;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sock), 0);
    child = fork();
    if (!child)
        _exit(give_objects(sock[1]));
    fd = recv_fd(sock[0], &g);
    open_imported(&q, fd, g.pd);
    dm = ibv_import_dm(q.ctx, g.dm);
    assert_non_null(dm);
    assert_int_equal(write(sock[0], "", 1), 1);
    await_child(child);

    memset(want, 0xAB, sizeof(want));
    assert_int_equal(ibv_memcpy_from_dm(buffer, dm, 0, sizeof(buffer)), 0);
    assert_memory_equal(buffer, want, sizeof(want));
    mr = ibv_reg_mr(q.pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    memory = ibv_reg_dm_mr(q.pd, dm, 0, DM_BYTES, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    assert_non_null(memory);
    memset(buffer, 1, 128);
    memset(want, 1, 128);
    write_by(&q, mr, (uintptr_t)buffer, (uintptr_t)buffer + 128, 128);
    assert_memory_equal(buffer + 128, want, 128);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    ibv_unimport_dm(dm); /* its region is still there */
    assert_int_equal(ibv_dereg_mr(memory), 0);
    ibv_unimport_pd(q.pd);
    close_imported(&q);
    close(sock[0]);
    close(sock[1]);
}

/* A parent domain of it may be deallocated after that. */
void unimported_before_its_parent_domain(void **state)
{
    struct ibv_parent_domain_init_attr attr = {0};
    struct ibv_pd *parent;
    struct freed freed;
    struct ibv_context *ctx;
    struct pair p;

    pair_open(&p);
    assert_non_null(ctx = ibv_import_device(dup(p.ctx->cmd_fd)));
    assert_non_null(attr.pd = ibv_import_pd(ctx, p.pd->handle));
    assert_non_null(parent = ibv_alloc_parent_domain(ctx, &attr));
    ibv_unimport_pd(attr.pd);
    freed_take(&freed, 0);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    freed_check(&freed, 0);
    assert_int_equal(ibv_close_device(ctx), 0);
    pair_close(&p);
}

void import_is_refused(void **state)
{
    struct ibv_context *ctx = open_first(), *other;
    int fd = dup(ctx->cmd_fd), file = open("/dev/zero", O_RDONLY), pipes[2];

    assert_null(ibv_import_pd(ctx, 1)); /* it was opened, not imported */
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_import_device(-1));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(pipe(pipes), 0);
    assert_null(ibv_import_device(pipes[0]));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_import_device(file));
    assert_int_equal(errno, EACCES);
    assert_int_equal(fcntl(file, F_GETFD), 0); /* still the caller's */
    close(pipes[0]);
    close(pipes[1]);
    close(file);
    assert_non_null(other = ibv_import_device(dup(fd)));
    assert_null(ibv_import_pd(other, 12345));
    assert_int_equal(errno, ENOENT);
    assert_null(ibv_import_dm(other, 12345));
    assert_int_equal(ibv_close_device(other), 0);
    assert_int_equal(ibv_close_device(ctx), 0);
    close(fd);
}
