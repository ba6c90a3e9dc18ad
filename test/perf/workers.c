/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the dataplane's speed grows with its workers, and what queue pairs cost: a device over the
 * loopback port in one process, worker threads that are also the applications of their queue pairs,
 * so that no other thread takes a CPU. Connected pairs of queue pairs exchange RDMA WRITEs, every
 * ICRC computed and verified.
 *
 *   build/test/perf/workers --workers 2 --size 65536 --pairs 8 --idle 0 --depth 16 --ms 1000
 *
 * Prints one line of JSON.
 */
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "doorbell.h"
#include "loop.h"
#include "object.h"

#define PAIRS_MAX 60000
#define MEMORY    (1u << 20) /* bytes, of each side of all pairs of a worker */
#define DEPTH_MAX 64

static struct options {
    unsigned workers, pairs, idle, depth, size, ms;
} opt = {.workers = 1, .pairs = 8, .depth = 16, .size = 8, .ms = 1000};

struct end {
    uint32_t qpn, slot, sq_size, sq_stride;
    struct qp_shared *shared;
    uint8_t *sq;
    uint32_t prod;
};

static struct bench {
    struct rnic *rnic;
    struct client *client;
    uint32_t pd, cq, key;
    uint8_t *memory;
    struct cq_shared *lanes;
    uint32_t cq_size;
    struct end sender[PAIRS_MAX]; /* by uidx */
    struct thread {
        pthread_t id;
        uint32_t cons;
        uint64_t messages;
    } CACHE_ALIGNED thread[WORKERS_MAX];
    _Atomic unsigned ready;
    _Atomic bool start, stop;
} b;

_Noreturn static void die(const char *what, int err)
{
    fprintf(stderr, "workers: %s: %s\n", what, strerror(-err));
    exit(1);
}

/* ---- the application's memory is ours ---- */

static void no_copy(void *space, struct mem_io *io, unsigned n)
{
    die("memory is not mapped", -EFAULT);
}

static const struct mem_backend backend = {"none", no_copy, no_copy, NULL};

static void *space_open(const struct ucred *peer, const struct mem_backend **copy, int *err)
{
    *copy = &backend;
    return &b;
}

static void space_nothing(void *space)
{
}

static void *map(struct mem_region *mr, int fd, const struct mem_piece *piece, unsigned n, int *err)
{
    mr->direct = b.memory;
    return &b;
}

static void unmap(void *mapping, struct mem_region *mr)
{
}

static const struct mem_provider provider = {.space_open = space_open,
                                             .space_gone = space_nothing,
                                             .space_close = space_nothing,
                                             .map = map,
                                             .unmap = unmap};

/* ---- setting up ---- */

static struct ctl_msg call(enum ctl_type type, struct ctl_msg m, int fd)
{
    struct ctl_call k = {.request = &m, .in_fd = &fd, .in_fds = fd >= 0};

    m.magic = CTL_MAGIC;
    m.version = CTL_VERSION;
    m.type = (uint16_t)type;
    client_dispatch(b.client, &k);
    if (k.reply.status)
        die("a request failed", k.reply.status);
    while (k.out_fds)
        close(k.out_fd[--k.out_fds]);
    return k.reply;
}

static void open_device(void)
{
    struct pktio_loop_config lc = {
        .name = "loopback", .mac = {2, 0, 0, 0, 0, 1}, .queues = opt.workers};
    struct rnic_config rc = {.workers = opt.workers, .mem = &provider, .version = "bench"};
    struct port_address address = {.prefix = 8, .vlan = VLAN_NONE};
    struct port_config pc = {.address = &address, .addresses = 1};
    int err;

    gid_parse(&address.gid, "127.0.0.1");
    b.rnic = rnic_create(&rc, &err);
    pc.io = pktio_loop_create(&lc);
    if (!b.rnic || !pc.io || rnic_add_port(b.rnic, &pc))
        die("no device", -ENOMEM);
    b.client = client_create(b.rnic, &(struct ucred){.pid = getpid()});
    call(CTL_OPEN, (struct ctl_msg){0}, -1);
    b.pd = call(CTL_ALLOC_PD, (struct ctl_msg){0}, -1).handle;
}

static void open_memory(void)
{
    struct ctl_msg m = {.reg_mr = {.pd = b.pd,
                                   .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE,
                                   .length = 2ul * opt.workers * MEMORY,
                                   .flags = CTL_MR_FD}};
    int fd = memfd_create("bench", 0);

    if (fd < 0 || ftruncate(fd, (off_t)m.reg_mr.length))
        die("memfd", -ENOMEM);
    b.memory =
        mmap(NULL, m.reg_mr.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    m.reg_mr.addr = m.reg_mr.iova = (uintptr_t)b.memory;
    b.key = call(CTL_REG_MR, m, fd).reg_mr.rkey;
    close(fd);
    m = call(CTL_CREATE_CQ, (struct ctl_msg){.create_cq.cqe = QUEUE_MAX_CQE}, -1);
    b.cq = m.create_cq.handle;
    b.cq_size = m.create_cq.cqe;
    b.lanes = container_of(object_get(b.client, OBJ_CQ, b.cq), struct cq, o)->segment.base;
}

static uint32_t open_qp(struct end *e, uint32_t uidx)
{
    struct ctl_msg m = {.create_qp = {.pd = b.pd,
                                      .send_cq = b.cq,
                                      .recv_cq = b.cq,
                                      .type = QPT_RC,
                                      .uidx = uidx,
                                      .caps = {.max_send_wr = opt.depth,
                                               .max_recv_wr = 1,
                                               .max_send_sge = 1,
                                               .max_recv_sge = 1}}};
    uint8_t *base;

    m = call(CTL_CREATE_QP, m, -1);
    base = qp_object_get(b.client, m.create_qp.qpn)->segment.base;
    *e = (struct end){.qpn = m.create_qp.qpn,
                      .slot = m.create_qp.db_slot,
                      .sq_size = m.create_qp.sq_size,
                      .sq_stride = m.create_qp.sq_stride,
                      .shared = (struct qp_shared *)base,
                      .sq = base + m.create_qp.sq_off};
    return e->qpn;
}

static void modify(const struct end *e, enum qp_state state, uint32_t mask, uint32_t dest_qpn)
{
    struct ctl_msg m = {.modify_qp = {.qpn = e->qpn,
                                      .mask = mask | QPA_STATE,
                                      .attr = {.state = state,
                                               .path_mtu = 5,
                                               .port_num = 1,
                                               .max_rd_atomic = 1,
                                               .max_dest_rd_atomic = 1,
                                               .timeout = 18,
                                               .retry_cnt = 7,
                                               .rnr_retry = 7,
                                               .min_rnr_timer = 12,
                                               .dest_qpn = dest_qpn,
                                               .access_flags = MEM_REMOTE_WRITE,
                                               .ah = {.is_global = 1, .hop_limit = 1}}}};
    struct ctl_gid gid = {.port = 1};

    gid = call(CTL_QUERY_GID, (struct ctl_msg){.gid = gid}, -1).gid;
    memcpy(m.modify_qp.attr.ah.dgid, gid.gid, sizeof(gid.gid));
    m.modify_qp.attr.ah.port_num = 1;
    call(CTL_MODIFY_QP, m, -1);
}

static void bring_up(const struct end *e, uint32_t dest_qpn)
{
    modify(e, QPS_INIT, QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, 0);
    modify(e, QPS_RTR,
           QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
               QPA_MIN_RNR_TIMER,
           dest_qpn);
    modify(e, QPS_RTS, QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_SQ_PSN | QPA_MAX_RD_ATOMIC,
           0);
}

static void open_pair(struct end *sender, uint32_t uidx)
{
    struct end receiver;

    open_qp(sender, uidx);
    open_qp(&receiver, PAIRS_MAX + uidx);
    bring_up(sender, receiver.qpn);
    bring_up(&receiver, sender->qpn);
}

/* ---- running ---- */

static unsigned worker_of(const struct end *e)
{
    const struct ctx_shared *shared = b.client->segment.base;

    return atomic_load_explicit(&shared->slot_worker[e->slot], memory_order_relaxed);
}

/* Each message from and to other bytes, as far as there are some. */
static void post(struct end *e, unsigned w)
{
    uint8_t *local = b.memory + 2ul * w * MEMORY, *remote = local + MEMORY;
    uint32_t slots = MEMORY / max_of(opt.size, 64u), at = e->prod % slots * max_of(opt.size, 64u);
    struct sqe *s = work_queue_slot(e->sq, e->sq_size, e->sq_stride, e->prod);

    *s = (struct sqe){.opcode = SQE_WRITE,
                      .flags = SQE_SIGNALED,
                      .num_sge = 1,
                      .remote_addr = (uintptr_t)remote + at,
                      .rkey = b.key};
    *(struct sge *)(s + 1) =
        (struct sge){.addr = (uintptr_t)local + at, .length = opt.size, .lkey = b.key};
    atomic_store_explicit(&e->shared->sq_prod, ++e->prod, memory_order_release);
}

/* Completed messages are followed by as many. The lane of a worker is read by its thread alone. */
static void repost(struct thread *t, unsigned w)
{
    struct cq_lane *lane = cq_lane_at(b.lanes, b.cq_size, w);
    struct doorbells *bells = &((struct ctx_shared *)b.client->segment.base)->worker[w];

    for (unsigned i = 0; i < 256; i++) {
        const struct cqe *c = &lane->entry[t->cons & (b.cq_size - 1)];
        struct end *e;

        if (atomic_load_explicit(&c->seq, memory_order_acquire) != t->cons + 1)
            return;
        if (c->status)
            die("a message failed", -(int)c->status);
        e = &b.sender[c->uidx];
        atomic_store_explicit(&lane->cons, ++t->cons, memory_order_release);
        t->messages++;
        post(e, w);
        doorbell_ring(bells, e->slot);
    }
}

static void first_posts(unsigned w)
{
    struct doorbells *bells = &((struct ctx_shared *)b.client->segment.base)->worker[w];

    for (unsigned i = 0; i < opt.pairs; i++) {
        if (worker_of(&b.sender[i]) != w)
            continue;
        for (unsigned k = 0; k < opt.depth; k++)
            post(&b.sender[i], w);
        doorbell_ring(bells, b.sender[i].slot);
    }
}

static void *run(void *arg)
{
    struct thread *t = arg;
    unsigned w = (unsigned)(t - b.thread);
    struct worker *worker = rnic_worker(b.rnic, w);

    /* Each queue pair that came to RTS is looked at once. */
    while (worker_poll(worker, worker_time()))
        ;
    first_posts(w);
    atomic_fetch_add(&b.ready, 1);
    while (!atomic_load(&b.start))
        ;
    while (!atomic_load_explicit(&b.stop, memory_order_relaxed)) {
        worker_poll(worker, worker_time());
        repost(t, w);
    }
    return NULL;
}

static double seconds(void)
{
    return (double)worker_time() / 1e9;
}

/* Returns messages a second. */
static double measure(void)
{
    struct timespec pause = {.tv_sec = opt.ms / 1000, .tv_nsec = opt.ms % 1000 * 1000000};
    uint64_t messages = 0;
    double began;

    for (unsigned w = 0; w < opt.workers; w++)
        pthread_create(&b.thread[w].id, NULL, run, &b.thread[w]);
    while (atomic_load(&b.ready) < opt.workers)
        ;
    began = seconds();
    atomic_store(&b.start, true);
    nanosleep(&pause, NULL);
    atomic_store(&b.stop, true);
    for (unsigned w = 0; w < opt.workers; w++) {
        pthread_join(b.thread[w].id, NULL);
        messages += b.thread[w].messages;
    }
    return (double)messages / (seconds() - began);
}

static size_t heap(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* ---- the program ---- */

static const struct option options[] = {{"workers", required_argument, NULL, 'w'},
                                        {"pairs", required_argument, NULL, 'p'},
                                        {"idle", required_argument, NULL, 'i'},
                                        {"depth", required_argument, NULL, 'd'},
                                        {"size", required_argument, NULL, 's'},
                                        {"ms", required_argument, NULL, 'm'},
                                        {0}};

static int read_options(int argc, char **argv)
{
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        unsigned *to = o == 'w'   ? &opt.workers
                       : o == 'p' ? &opt.pairs
                       : o == 'i' ? &opt.idle
                       : o == 'd' ? &opt.depth
                       : o == 's' ? &opt.size
                                  : &opt.ms;

        if (o == '?')
            return -1;
        *to = (unsigned)strtoul(optarg, NULL, 0);
    }
    return optind < argc || !opt.workers || opt.workers > WORKERS_MAX || !opt.depth ||
                   opt.depth > DEPTH_MAX || opt.size > MEMORY || opt.pairs > PAIRS_MAX ||
                   opt.idle > PAIRS_MAX || opt.pairs * opt.depth > QUEUE_MAX_CQE
               ? -1
               : 0;
}

int main(int argc, char **argv)
{
    uint64_t handed = 0;
    size_t before;
    double began, rate, opened;
    struct end idle;

    if (read_options(argc, argv)) {
        fprintf(stderr, "usage: workers [--workers N] [--size BYTES] [--pairs N] [--idle PAIRS] "
                        "[--depth N] [--ms N]\n");
        return 2;
    }
    open_device();
    open_memory();
    before = heap();
    began = seconds();
    for (unsigned i = 0; i < opt.pairs; i++)
        open_pair(&b.sender[i], i);
    for (unsigned i = 0; i < opt.idle; i++)
        open_pair(&idle, PAIRS_MAX - 1);
    opened = seconds() - began;
    before = heap() - before;
    rate = measure();
    for (unsigned w = 0; w < opt.workers; w++)
        handed += counter_get(&worker_stats(rnic_worker(b.rnic, w))->handed_out);
    printf("{\"workers\": %u, \"size\": %u, \"pairs\": %u, \"idle_pairs\": %u, \"depth\": %u, "
           "\"messages_per_s\": %.0f, \"gigabytes_per_s\": %.3f, \"handed_over\": %lu, "
           "\"heap_per_qp\": %.0f, \"us_per_qp\": %.1f}\n",
           opt.workers, opt.size, opt.pairs, opt.idle, opt.depth, rate, rate * opt.size / 1e9,
           handed, (double)before / 2 / max_of(opt.pairs + opt.idle, 1u),
           opened * 1e6 / 2 / max_of(opt.pairs + opt.idle, 1u));
    client_close(b.client);
    rnic_destroy(b.rnic);
    return 0;
}
