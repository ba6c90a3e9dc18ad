/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Edges of registered memory: what it may consist of, and what programs do to it afterwards. A NIC
 * pins pages: it still has those that the program has unmapped or protected. So has the daemon
 * where it maps memory. Copied memory is what its addresses mean at the time of each access. Where
 * they mean nothing, the responder cannot do what its keys allow: a remote operational error, and a
 * local protection error at the end that has the memory. Run by run_memory.py.
 *
 * usage: test_memory [many REGIONS]
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

#define PAGE  4096u
#define BYTES (64 * PAGE) /* adopted at once, unless UROCE_MR is copy */
#define HUGE  (2u << 20)
#define LEN   3000u
#define ACCESS                                                                   \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

static struct pair p, bystander;

/* ---- traffic ---- */

static void fill(uint8_t *to, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

static void pair_again(void)
{
    modify_state(p.a.qp, IBV_QPS_RESET);
    modify_state(p.b.qp, IBV_QPS_RESET);
    connect_qp(p.a.qp, p.b.qp->qp_num);
    connect_qp(p.b.qp, p.a.qp->qp_num);
}

/* A request between the pair's buffers or m, and a second one that an error flushes. */
static enum ibv_wc_status status_of(enum ibv_wr_opcode op, struct side *from, struct side *to,
                                    uint32_t offset)
{
    struct ibv_wc wc[2];

    assert_int_equal(post_send(from, op, to, offset, LEN, 1), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 8, 2), 0);
    await(p.cq, wc, 2);
    assert_int_equal(wc[0].wr_id, 1);
    assert_int_equal(wc[1].wr_id, 2);
    assert_int_equal(wc[1].status, wc[0].status ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
    if (wc[0].status)
        pair_again();
    return wc[0].status;
}

/* A SEND to m: the receiver's status, and the sender's in *sent. */
static enum ibv_wc_status receive_in(struct side *m, uint32_t offset, enum ibv_wc_status *sent)
{
    struct ibv_wc wc[2];
    unsigned received;

    assert_int_equal(post_recv(m, offset, LEN, 3), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_SEND, &p.b, offset, LEN, 4), 0);
    await(p.cq, wc, 2);
    received = wc[0].wr_id == 3 ? 0 : 1;
    assert_int_equal(wc[received].wr_id, 3);
    *sent = wc[1 - received].status;
    if (*sent)
        pair_again();
    return wc[received].status;
}

static struct side side_of(const struct side *of, uint8_t *buffer, struct ibv_mr *mr)
{
    return (struct side){.qp = of->qp, .buffer = buffer, .mr = mr};
}

/* The pair's buffers are smaller than regions: the same part of them for each offset. */
static uint8_t *other_end(uint8_t *buffer, uint32_t offset)
{
    return buffer - offset;
}

/* All ways of a peer and of the program itself to the bytes at an offset. Those that are not
 * readable, or not writable, fail as they would with a NIC. */
static void check(uint8_t *at, struct ibv_mr *mr, uint32_t offset, bool readable, bool writable)
{
    struct side local = side_of(&p.a, at, mr), remote = side_of(&p.b, at, mr);
    struct side a = side_of(&p.a, other_end(p.a.buffer, offset), p.a.mr);
    struct side b = side_of(&p.b, other_end(p.b.buffer, offset), p.b.mr);
    enum ibv_wc_status sent;

    assert_int_equal(status_of(IBV_WR_RDMA_WRITE, &local, &b, offset),
                     readable ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
    assert_int_equal(status_of(IBV_WR_RDMA_READ, &a, &remote, offset),
                     readable ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
    assert_int_equal(status_of(IBV_WR_RDMA_READ, &local, &b, offset),
                     writable ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
    assert_int_equal(status_of(IBV_WR_RDMA_WRITE, &a, &remote, offset),
                     writable ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
    p.a.buffer -= offset;
    assert_int_equal(receive_in(&remote, offset, &sent),
                     writable ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
    p.a.buffer += offset;
    assert_int_equal(sent, writable ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
}

/* Bytes go both ways, and are the program's. */
static void check_bytes(uint8_t *at, struct ibv_mr *mr, uint32_t offset)
{
    struct side remote = side_of(&p.b, at, mr);
    struct side a = side_of(&p.a, other_end(p.a.buffer, offset), p.a.mr);

    fill(p.a.buffer, LEN, offset);
    assert_int_equal(status_of(IBV_WR_RDMA_WRITE, &a, &remote, offset), IBV_WC_SUCCESS);
    assert_memory_equal(at + offset, p.a.buffer, LEN);
    fill(at + offset, LEN, offset + 1);
    assert_int_equal(status_of(IBV_WR_RDMA_READ, &a, &remote, offset), IBV_WC_SUCCESS);
    assert_memory_equal(at + offset, p.a.buffer, LEN);
    check(at, mr, offset, true, true);
}

static struct ibv_mr *registered(void *at, size_t len)
{
    struct ibv_mr *mr = ibv_reg_mr(p.pd, at, len, ACCESS);

    assert_non_null(mr);
    return mr;
}

static uint8_t *map(void *at, size_t len, int prot, int flags, int fd)
{
    uint8_t *m = mmap(at, len, prot, flags | (at ? MAP_FIXED : 0), fd, 0);

    assert_true(m != MAP_FAILED);
    return m;
}

static uint8_t *map_private(size_t len)
{
    return memset(map(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), 1, len);
}

/* Whether the daemon maps the memory: the library has moved it into a memfd. */
static bool is_adopted(const void *at)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long start, end;
    bool found = false;
    char line[512];

    assert_non_null(f);
    while (!found && fgets(line, sizeof(line), f))
        found = strstr(line, "/memfd:uroce-mr") && sscanf(line, "%lx-%lx", &start, &end) == 2 &&
                (uintptr_t)at >= start && (uintptr_t)at < end;
    fclose(f);
    return found;
}

static int open_both(void **state)
{
    pair_open(&p);
    return 0;
}

/* Another context of the program works as before. */
static int close_both(void **state)
{
    struct ibv_wc wc;

    fill(bystander.a.buffer, LEN, 9);
    memset(bystander.b.buffer, 0, LEN);
    assert_int_equal(post_send(&bystander.a, IBV_WR_RDMA_WRITE, &bystander.b, 0, LEN, 1), 0);
    await(bystander.cq, &wc, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_memory_equal(bystander.a.buffer, bystander.b.buffer, LEN);
    pair_close(&p);
    return 0;
}

/* ---- what a region may consist of ---- */

/* at: BYTES in two halves. */
static void check_halves(uint8_t *at)
{
    struct ibv_mr *mr = registered(at, BYTES);

    check_bytes(at, mr, 0);
    check_bytes(at, mr, BYTES / 2 - 100); /* across the border */
    check_bytes(at, mr, BYTES - LEN);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(at, BYTES);
}

static void two_mappings(void **state)
{
    int file = memfd_create("file", MFD_CLOEXEC);
    int flags[] = {MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED,
                   MAP_PRIVATE};

    assert_int_equal(ftruncate(file, BYTES), 0);
    for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        uint8_t *at = map_private(BYTES);

        map(at + BYTES / 2, BYTES / 2, PROT_READ | PROT_WRITE, flags[i],
            flags[i] & MAP_ANONYMOUS ? -1 : file);
        check_halves(at);
    }
    close(file);
}

static void refused(void *at, size_t len, int access)
{
    errno = 0;
    assert_null(ibv_reg_mr(p.pd, at, len, access));
    assert_int_equal(errno, EFAULT);
}

/* Peers may read it, and it can be sent. */
static void check_read_only(uint8_t *at, size_t len, uint32_t offset)
{
    struct ibv_mr *mr = ibv_reg_mr(p.pd, at, len, IBV_ACCESS_REMOTE_READ);
    struct side local, b;

    assert_non_null(mr);
    local = side_of(&p.a, at, mr);
    b = side_of(&p.b, other_end(p.b.buffer, offset), p.b.mr);
    assert_int_equal(status_of(IBV_WR_RDMA_WRITE, &local, &b, offset), IBV_WC_SUCCESS);
    assert_memory_equal(at + offset + 8, p.b.buffer + 8, LEN - 8); /* status_of() wrote 8 more */
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* A driver finds no pages to pin in a hole, and none to write where the program may not write. */
static void holes_and_rights(void **state)
{
    uint8_t *at = map_private(BYTES);
    struct ibv_mr *mr;

    munmap(at + BYTES / 2, PAGE);
    for (unsigned i = 0; i < 3; i++) /* in the middle, at the end, at the beginning */
        refused(at + i / 2 * BYTES / 2, i == 1 ? BYTES / 2 + 1 : BYTES / 2 + PAGE, ACCESS);
    refused(at + BYTES / 2 - PAGE, 3 * PAGE, ACCESS); /* a small one */
    mr = registered(at, BYTES / 2);
    check_bytes(at, mr, BYTES / 2 - LEN);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    map(at + BYTES / 2, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    refused(at, BYTES, ACCESS);
    refused(at, BYTES, IBV_ACCESS_LOCAL_WRITE);
    refused(at + BYTES / 2 + 8, LEN, ACCESS); /* a small one */
    check_read_only(at, BYTES, BYTES / 2 + 8);
    map(at + BYTES / 2, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    refused(at, BYTES, ACCESS);
    refused(at, BYTES, 0);
    refused(at + BYTES / 2, BYTES / 2, ACCESS);
    munmap(at, BYTES);
}

/* Of each kind of memory, also where the program has a descriptor of the file that may write. */
static void read_only_mappings(void **state)
{
    int file = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int flags[] = {MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED,
                   MAP_PRIVATE};

    assert_int_equal(ftruncate(file, BYTES), 0);
    assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        uint8_t *at = map(NULL, BYTES, PROT_READ, flags[i], flags[i] & MAP_ANONYMOUS ? -1 : file);

        refused(at, BYTES, ACCESS);
        refused(at, LEN, ACCESS);
        check_read_only(at, BYTES, 0);
        check_read_only(at, LEN, 0);
        munmap(at, BYTES);
    }
    close(file);
}

static void *on_a_stack(void *arg)
{
    uint8_t buffer[BYTES];
    struct ibv_mr *mr;

    memset(buffer, 1, sizeof(buffer));
    mr = registered(buffer, sizeof(buffer));
    check_bytes(buffer, mr, 0);
    check_bytes(buffer, mr, BYTES - LEN);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    return NULL;
}

static void stacks(void **state)
{
    on_a_stack(NULL);
}

static void large_pages(void **state)
{
    uint8_t *at = map(NULL, 3 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    uint8_t *first = (uint8_t *)(((uintptr_t)at + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    struct ibv_mr *mr;

    madvise(first, 2 * HUGE, MADV_HUGEPAGE); /* without effect where the kernel has none */
    memset(first, 1, 2 * HUGE);
    mr = registered(first + PAGE, 2 * HUGE - PAGE);
    check_bytes(first + PAGE, mr, HUGE - PAGE - 100);
    check_bytes(first + PAGE, mr, 2 * HUGE - PAGE - LEN);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(at, 3 * HUGE);
}

static void pages_of_hugetlbfs(void **state)
{
    uint8_t *at =
        mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    struct ibv_mr *mr;

    if (at == MAP_FAILED)
        skip();
    mr = registered(at, HUGE);
    check_bytes(at, mr, HUGE - LEN);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(at, HUGE);
}

/* Both mappings are the same memory, whichever of them is registered. */
static void shared_memory(void **state)
{
    static const bool sealed[] = {false, true};

    for (unsigned i = 0; i < sizeof(sealed) / sizeof(sealed[0]); i++) {
        int fd = memfd_create("shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        uint8_t *at, *second;
        struct ibv_mr *mr;

        assert_int_equal(ftruncate(fd, BYTES), 0);
        if (sealed[i])
            assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        at = map(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
        second = map(NULL, BYTES, PROT_READ, MAP_SHARED, fd);
        mr = registered(at, BYTES);
        check_bytes(at, mr, 0);
        check_bytes(at, mr, BYTES - LEN);
        assert_memory_equal(at, second, BYTES);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        munmap(at, BYTES);
        munmap(second, BYTES);
        close(fd);
    }
}

/* ---- what happens to it afterwards ---- */

/* The daemon, like a NIC, has the pages, or it meets the addresses. */
static void protected_memory(void **state)
{
    uint8_t *at = map_private(BYTES);
    struct ibv_mr *mr = registered(at, BYTES);
    bool has_pages = is_adopted(at);

    assert_int_equal(mprotect(at, BYTES / 2, PROT_READ), 0);
    check(at, mr, 100, true, has_pages);
    assert_int_equal(mprotect(at, BYTES / 2, PROT_NONE), 0);
    check(at, mr, 100, has_pages, has_pages);
    check(at, mr, BYTES / 2 - 100, has_pages, has_pages);
    check(at, mr, BYTES / 2, true, true);
    assert_int_equal(mprotect(at, BYTES / 2, PROT_READ | PROT_WRITE), 0);
    check_bytes(at, mr, BYTES / 2 - 100);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(at, BYTES);
}

static void unmapped_memory(void **state)
{
    uint8_t *at = map_private(BYTES);
    struct ibv_mr *mr = registered(at, BYTES);
    bool has_pages = is_adopted(at);

    munmap(at + BYTES / 2, BYTES / 2);
    check_bytes(at, mr, 0);
    check(at, mr, BYTES / 2, has_pages, has_pages);
    check(at, mr, BYTES / 2 - 100, has_pages, has_pages);
    check(at, mr, BYTES - LEN, has_pages, has_pages);
    munmap(at, BYTES / 2);
    check(at, mr, 0, has_pages, has_pages);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* A file that the program maps is never the daemon's to map: it would get SIGBUS. */
static void truncated_file(void **state)
{
    int fd = open(".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    struct ibv_mr *mr;
    uint8_t *at;

    if (fd < 0 || fcntl(fd, F_GET_SEALS) >= 0) /* it is in memory, and would be mapped */
        skip();
    assert_int_equal(ftruncate(fd, BYTES), 0);
    at = map(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    mr = registered(at, BYTES);
    check_bytes(at, mr, BYTES - LEN);
    assert_int_equal(ftruncate(fd, BYTES / 2), 0);
    check_bytes(at, mr, BYTES / 2 - LEN);
    check(at, mr, BYTES / 2, false, false);
    check(at, mr, BYTES / 2 - 100, false, false);
    assert_int_equal(ftruncate(fd, 0), 0);
    check(at, mr, 0, false, false);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    check_bytes(at, mr, BYTES - LEN);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(at, BYTES);
    close(fd);
}

/* ---- while requests are under way ---- */

/* Posts as many WRITEs to m as there is room for. */
static void post_burst(struct side *m)
{
    for (unsigned i = 0; i < PAIR_WR; i++)
        assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, m, 0, 60000, i), 0);
}

/* They succeed up to one that may have this error, and the rest is flushed. */
static bool burst_succeeds(enum ibv_wc_status error)
{
    struct ibv_wc wc[PAIR_WR];
    unsigned i = 0;

    await(p.cq, wc, PAIR_WR);
    while (i < PAIR_WR && wc[i].status == IBV_WC_SUCCESS)
        i++;
    if (i == PAIR_WR)
        return true;
    assert_int_equal(wc[i].status, error);
    while (++i < PAIR_WR)
        assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
    pair_again();
    return false;
}

static void ends_in_use(void **state)
{
    for (unsigned round = 0; round < 20; round++) {
        uint8_t *at = map_private(BYTES);
        struct ibv_mr *mr = registered(at, BYTES);
        struct side m = side_of(&p.b, at, mr);
        bool has_pages = is_adopted(at);

        post_burst(&m);
        if (round % 2) {
            munmap(at, BYTES);
            assert_true(burst_succeeds(IBV_WC_REM_OP_ERR) || !has_pages);
            assert_int_equal(ibv_dereg_mr(mr), 0);
        } else {
            assert_int_equal(ibv_dereg_mr(mr), 0);
            burst_succeeds(IBV_WC_REM_ACCESS_ERR);
            munmap(at, BYTES);
        }
    }
}

/* A program may close the device with all that it has there, and free its memory then. */
static void closed_in_use(void **state)
{
    static const uint8_t nothing[BYTES];

    fill(p.a.buffer, 60000, 1);
    for (unsigned round = 0; round < 50; round++) {
        uint8_t *at = map_private(BYTES);
        struct pair guest;
        struct side m;

        pair_open(&guest);
        m = side_of(&guest.b, at, ibv_reg_mr(guest.pd, at, BYTES, ACCESS));
        assert_non_null(m.mr);
        modify_state(guest.b.qp, IBV_QPS_RESET);
        modify_state(p.a.qp, IBV_QPS_RESET);
        connect_qp(guest.b.qp, p.a.qp->qp_num);
        connect_qp(p.a.qp, guest.b.qp->qp_num);
        post_burst(&m);
        assert_int_equal(ibv_close_device(guest.ctx), 0);
        memset(at, 0, BYTES);
        modify_state(p.a.qp, IBV_QPS_RESET);
        assert_memory_equal(at, nothing, BYTES);
        munmap(at, BYTES);
    }
}

static atomic_bool stop;
static atomic_uint made, failed;

/* Registers parts of the memory that is in use. */
static void *registrar(void *arg)
{
    uint8_t *at = arg;
    unsigned seed = 1;

    while (!atomic_load(&stop)) {
        uint32_t first = (uint32_t)rand_r(&seed) % (BYTES - 8);
        uint32_t len = 1 + (uint32_t)rand_r(&seed) % (BYTES - first);
        struct ibv_mr *mr = ibv_reg_mr(p.pd, at + first, len, ACCESS);

        if (!mr || ibv_dereg_mr(mr))
            atomic_fetch_add(&failed, 1);
        atomic_fetch_add(&made, 1);
    }
    return NULL;
}

static void registered_in_use(void **state)
{
    uint8_t *at = map_private(BYTES);
    struct ibv_mr *mr = registered(at, BYTES);
    pthread_t thread;

    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, registrar, at), 0);
    for (unsigned i = 0; i < 60 || atomic_load(&made) < 100; i++)
        check_bytes(at, mr, i * 3001 % (BYTES - LEN));
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&failed), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(at, BYTES);
}

/* ---- fork ---- */

/* In the child: private memory is as it was, shared memory as it is. */
static void child(const uint8_t *private, const uint8_t *shared, const int *go)
{
    uint8_t before[LEN], byte;

    alarm(20);
    memcpy(before, private, LEN);
    if (read(go[0], &byte, 1) != 1)
        _exit(1);
    if (memcmp(private, before, LEN))
        _exit(2);
    _exit(shared[0] == 0x77 && shared[LEN - 1] == 0x77 ? 0 : 3);
}

static void forked(void **state)
{
    uint8_t *private = map_private(BYTES);
    uint8_t *shared = map(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    struct ibv_mr *private_mr = registered(private, BYTES), *shared_mr = registered(shared, BYTES);
    struct side to_private = side_of(&p.b, private, private_mr);
    struct side to_shared = side_of(&p.b, shared, shared_mr);
    int go[2], status;
    pid_t pid;

    assert_int_equal(pipe(go), 0);
    pid = fork();
    if (!pid)
        child(private, shared, go);
    memset(p.a.buffer, 0x77, LEN);
    assert_int_equal(status_of(IBV_WR_RDMA_WRITE, &p.a, &to_private, 0), IBV_WC_SUCCESS);
    assert_int_equal(status_of(IBV_WR_RDMA_WRITE, &p.a, &to_shared, 0), IBV_WC_SUCCESS);
    assert_int_equal(write(go[1], "", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_memory_equal(private, p.a.buffer, LEN);
    check_bytes(private, private_mr, BYTES - LEN);
    check_bytes(shared, shared_mr, BYTES - LEN);
    close(go[0]);
    close(go[1]);
    assert_int_equal(ibv_dereg_mr(private_mr), 0);
    assert_int_equal(ibv_dereg_mr(shared_mr), 0);
    munmap(private, BYTES);
    munmap(shared, BYTES);
}

/* ---- very many ---- */

static unsigned regions;

/* Each has a page of its own; some are used, and all keys are different. */
static void many_regions(void **state)
{
    uint8_t *at = map(NULL, (size_t)regions * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    struct ibv_mr **mr = calloc(regions, sizeof(*mr));

    for (unsigned i = 0; i < regions; i++) {
        mr[i] = registered(at + (size_t)i * PAGE, PAGE);
        assert_true(!i || mr[i]->lkey != mr[i - 1]->lkey);
    }
    for (unsigned i = 0; i < regions; i += regions / 100)
        check_bytes(at + (size_t)i * PAGE, mr[i], i % (PAGE - LEN));
    for (unsigned i = 0; i < regions; i += 2)
        assert_int_equal(ibv_dereg_mr(mr[i]), 0);
    check(at, &(struct ibv_mr){.lkey = mr[1]->lkey, .rkey = mr[1]->rkey}, PAGE, true, true);
    for (unsigned i = 1; i < regions; i += 2)
        assert_int_equal(ibv_dereg_mr(mr[i]), 0);
    free(mr);
    munmap(at, (size_t)regions * PAGE);
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

static int run(void)
{
    const struct CMUnitTest tests[] = {
        T(two_mappings),       T(holes_and_rights),
        T(read_only_mappings), T(stacks),
        T(large_pages),        T(pages_of_hugetlbfs),
        T(shared_memory),      T(protected_memory),
        T(unmapped_memory),    T(truncated_file),
        T(ends_in_use),        T(closed_in_use),
        T(registered_in_use),  T(forked),
    };
    const struct CMUnitTest many[] = {T(many_regions)};

    return regions ? cmocka_run_group_tests(many, NULL, NULL)
                   : cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    int status;

    if (argc == 3 && !strcmp(argv[1], "many"))
        regions = (unsigned)atoi(argv[2]);
    pair_open(&bystander);
    status = run();
    pair_close(&bystander);
    return status;
}
