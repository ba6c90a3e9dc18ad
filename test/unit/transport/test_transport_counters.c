/* SPDX-License-Identifier: BSD-3-Clause */
/* What completion counters count: two engines, whose queue pairs have a counter of each kind of
 * work. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "batch_kit.h"
#include "engine_private.h"

#define LEN   64u
#define LONG  5000u
#define GRH   40u
#define PSN   101u
#define TURNS 40u

static struct side a, b;
static ns_t now;

static void begin(enum batch_counts counts)
{
    batch_counts = counts;
    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    side_init(&b, 2, 128, ALL_RIGHTS, 0);
    batch_counts = BATCH_COUNTS_NOTHING;
    connect_to(&a, &b, ALL_RIGHTS, PSN);
    connect_to(&b, &a, ALL_RIGHTS, PSN);
    now = 1;
}

static void end(void)
{
    side_fini(&a);
    side_fini(&b);
    batch_type = QPT_RC;
}

/* ---- what the application and the network do ---- */

static struct sqe *next_wqe(enum sqe_op op, uint32_t len)
{
    struct sqe *w = work_queue_slot(a.sq, SLOTS, sqe_stride(2, 0), a.prod++);

    memset(w, 0, sqe_stride(2, 0));
    *w = (struct sqe){
        .opcode = (uint8_t)op, .num_sge = len != 0, .remote_addr = IOVA, .rkey = b.mr.key};
    *(struct sge *)(w + 1) =
        (struct sge){.addr = IOVA + MEMORY / 2, .length = len, .lkey = a.mr.key};
    return w;
}

/* Without a completion. */
static struct sqe *post(enum sqe_op op, uint32_t len)
{
    struct sqe *w = next_wqe(op, len);

    atomic_store(&a.shared->sq_prod, a.prod);
    return w;
}

static struct rqe *next_rqe(struct side *s, uint32_t len)
{
    struct rqe *w = work_queue_slot(s->rq, SLOTS, rqe_stride(2), s->recv_prod++);

    *w = (struct rqe){.wr_id = s->recv_prod, .num_sge = 1};
    *(struct sge *)(w + 1) = (struct sge){.addr = IOVA, .length = len, .lkey = s->mr.key};
    return w;
}

static void post_recv(struct side *s, uint32_t len)
{
    next_rqe(s, len);
    atomic_store(&s->shared->rq_prod, s->recv_prod);
}

/* Frames of one side to the other; those of requests arrive `times` times. */
static unsigned move(struct side *from, struct side *to, unsigned times)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct frame f[FRAME_BURST];
    unsigned n;

    make_frames(f, bytes);
    n = engine_tx(from->e, f, FRAME_BURST, now);
    for (unsigned i = 0; i < times && n; i++)
        engine_rx(to->e, f, n, now);
    return n;
}

static void run_again(unsigned times)
{
    engine_doorbell(a.e, a.qp, now);
    engine_doorbell(b.e, b.qp, now);
    for (unsigned i = 0; i < TURNS; i++) {
        now += 1000;
        move(&a, &b, times);
        move(&b, &a, 1);
    }
    drain(&a);
    drain(&b);
}

static void run(void)
{
    run_again(1);
}

/* ---- what was counted ---- */

static void counted(const struct side *s, const uint64_t done[QP_COUNTS],
                    const uint64_t failed[QP_COUNTS])
{
    for (unsigned i = 0; i < QP_COUNTS; i++) {
        assert_int_equal(atomic_load(&s->counted[i].done), done[i]);
        assert_int_equal(atomic_load(&s->counted[i].failed), failed[i]);
    }
}

static const uint64_t none[QP_COUNTS];

static void operations(enum batch_counts counts, bool copied)
{
    static const uint32_t lens[] = {LEN, LONG, 0};
    uint64_t n = 0;

    begin(counts);
    if (copied)
        b.mr.direct = NULL;
    for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
        n += counts == BATCH_COUNTS_WRS ? 1 : lens[i];
        for (unsigned k = 0; k < 3; k++)
            post_recv(&b, MEMORY / 2);
        post(SQE_SEND, lens[i]);
        post(SQE_SEND_IMM, lens[i]);
        post(SQE_WRITE, lens[i]);
        post(SQE_WRITE, lens[i]);
        post(SQE_WRITE_IMM, lens[i]);
        post(SQE_READ, lens[i]);
        run();
        counted(&a, (uint64_t[]){2 * n, 0, n, 0, 3 * n, 0}, none);
        counted(&b, (uint64_t[]){0, 3 * n, 0, n, 0, 3 * n}, none);
        assert_true(works(&a) && works(&b));
    }
    end();
}

static void test_operations(void **state)
{
    operations(BATCH_COUNTS_WRS, false);
    operations(BATCH_COUNTS_WRS, true);
}

static void test_bytes(void **state)
{
    operations(BATCH_COUNTS_BYTES, false);
    operations(BATCH_COUNTS_BYTES, true);
}

static void test_datagrams(void **state)
{
    batch_type = QPT_UD;
    begin(BATCH_COUNTS_BYTES);
    for (unsigned i = 1; i <= 3; i++) {
        struct sqe *w = next_wqe(SQE_SEND, LEN);

        post_recv(&b, 1000);
        w->ud.ah = address_handle_number(a.ah[0]);
        w->ud.remote_qpn = qp_number(b.qp);
        w->ud.remote_qkey = QKEY;
        atomic_store(&a.shared->sq_prod, a.prod);
        run();
        counted(&a, (uint64_t[]){i * LEN, 0, 0, 0, 0, 0}, none);
        counted(&b, (uint64_t[]){0, i * (LEN + GRH), 0, 0, 0, 0}, none);
    }
    end();
}

/* More WRITEs than there is room for in a burst, in memory that is copied. */
static void test_many_writes(void **state)
{
    begin(BATCH_COUNTS_WRS);
    b.mr.direct = NULL;
    for (unsigned i = 0; i < SLOTS; i++)
        post(SQE_WRITE, i % 3 ? LEN : 1500);
    run();
    counted(&b, (uint64_t[]){0, 0, 0, 0, 0, SLOTS}, none);
    end();
}

/* A READ counts with its last response. */
static void test_long_read(void **state)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct frame f[FRAME_BURST];

    begin(BATCH_COUNTS_WRS);
    post(SQE_READ, LEN);
    post(SQE_READ, 8 * 1024);
    engine_doorbell(a.e, a.qp, now);
    move(&a, &b, 1);
    make_frames(f, bytes);
    assert_int_equal(engine_tx(b.e, f, 5, now), 5);
    engine_rx(a.e, f, 5, now);
    counted(&b, (uint64_t[]){0, 0, 0, 1, 0, 0}, none);
    run();
    counted(&b, (uint64_t[]){0, 0, 0, 2, 0, 0}, none);
    counted(&a, (uint64_t[]){0, 0, 2, 0, 0, 0}, none);
    end();
}

/* Requests that arrive twice count once, also READs, which are answered twice. */
static void test_duplicates(void **state)
{
    begin(BATCH_COUNTS_WRS);
    post_recv(&b, LEN);
    for (unsigned i = 0; i < 4; i++)
        post(SQE_READ, i % 2 ? LEN : 3000);
    post(SQE_WRITE, LEN);
    post(SQE_SEND, LEN);
    run_again(2);
    counted(&a, (uint64_t[]){1, 0, 4, 0, 1, 0}, none);
    counted(&b, (uint64_t[]){0, 1, 0, 4, 0, 1}, none);
    assert_true(counter_get(&qp_counters(b.qp)->duplicate_request) >= 4);
    end();
}

/* ---- what fails ---- */

/* The first fails, and the others are flushed. */
static void test_refused_write(void **state)
{
    begin(BATCH_COUNTS_BYTES);
    post_recv(&a, LEN);
    post_recv(&b, LEN);
    post(SQE_WRITE, LEN);
    post(SQE_WRITE, LEN)->rkey ^= 0x100;
    post(SQE_WRITE, LEN);
    post(SQE_READ, LEN);
    post(SQE_SEND, LEN);
    run();
    counted(&a, (uint64_t[]){0, 0, 0, 0, LEN, 0}, (uint64_t[]){1, 1, 1, 0, 2, 0});
    counted(&b, (uint64_t[]){0, 0, 0, 0, 0, LEN}, (uint64_t[]){0, 1, 0, 0, 0, 1});
    end();
}

static void test_refused_read(void **state)
{
    begin(BATCH_COUNTS_WRS);
    post(SQE_READ, LEN);
    post(SQE_READ, LEN)->rkey ^= 0x100;
    run();
    counted(&a, (uint64_t[]){0, 0, 1, 0, 0, 0}, (uint64_t[]){0, 0, 1, 0, 0, 0});
    counted(&b, (uint64_t[]){0, 0, 0, 1, 0, 0}, (uint64_t[]){0, 0, 0, 1, 0, 0});
    end();
}

/* What may come again has not failed. */
static void test_not_ready(void **state)
{
    begin(BATCH_COUNTS_WRS);
    post(SQE_WRITE_IMM, LEN);
    run();
    counted(&b, none, none);
    post_recv(&b, LEN);
    now += NS_PER_SEC;
    engine_timers(a.e, now);
    run();
    counted(&a, (uint64_t[]){0, 0, 0, 0, 1, 0}, none);
    counted(&b, (uint64_t[]){0, 1, 0, 0, 0, 1}, none);
    end();
}

/* Bytes that cannot be written, which is found when the request was accepted. */
static void memory_fails(enum sqe_op op, uint32_t len)
{
    begin(BATCH_COUNTS_WRS);
    post_recv(&b, MEMORY / 2);
    b.mr.direct = NULL;
    b.copied.bad = IOVA;
    b.copied.bad_len = MEMORY;
    post(op, len);
    run();
    assert_int_equal(atomic_load(&a.counted[4].failed), op != SQE_SEND);
    assert_int_equal(atomic_load(&b.counted[5].done), 0);
    assert_int_equal(atomic_load(&b.counted[5].failed), op != SQE_SEND);
    assert_int_equal(atomic_load(&b.counted[1].done), 0);
    assert_int_equal(atomic_load(&b.counted[1].failed), 1); /* flushed, if not by the message */
    end();
}

static void test_memory_fails(void **state)
{
    memory_fails(SQE_WRITE, LEN);
    memory_fails(SQE_WRITE, LONG);
    memory_fails(SQE_WRITE_IMM, LEN);
    memory_fails(SQE_SEND, LEN);
}

/* ---- attaching ---- */

static void test_attach(void **state)
{
    struct comp_counter c = {.line = &a.counted[0]};

    begin(BATCH_COUNTS_NOTHING);
    assert_int_equal(engine_qp_count(a.qp, &c, QP_COUNT_READ), -EINVAL); /* in RTS */
    end();
    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    assert_int_equal(engine_qp_count(a.qp, &c, QP_COUNT_READ | QP_COUNT_RECV), 0);
    assert_int_equal(engine_qp_count(a.qp, &c, QP_COUNT_READ | QP_COUNT_SEND), -EBUSY);
    assert_int_equal(engine_qp_count(a.qp, &c, QP_COUNT_SEND), 0);
    side_fini(&a);
}

/* Of the work requests READs alone are counted, then nothing. */
static void test_reads_alone(void **state)
{
    struct comp_counter c = {.line = &a.counted[0]};

    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    side_init(&b, 2, 128, ALL_RIGHTS, 0);
    c.line = &a.counted[0];
    assert_int_equal(engine_qp_count(a.qp, &c, QP_COUNT_READ), 0);
    connect_to(&a, &b, ALL_RIGHTS, PSN);
    connect_to(&b, &a, ALL_RIGHTS, PSN);
    post(SQE_READ, LEN);
    post(SQE_WRITE, LEN);
    post(SQE_READ, LEN);
    run();
    assert_int_equal(atomic_load(&a.counted[0].done), 2);
    engine_qp_count_none(a.qp);
    post(SQE_READ, LEN);
    run();
    assert_int_equal(atomic_load(&a.counted[0].done), 2);
    end();
}

/* ---- the order of counts and CQEs ---- */

/* A counter in a page that faults when it is written for the first time. */
static struct {
    struct counter_line *line;
    size_t page;
    const struct cq_shared *ring; /* of the queue whose CQEs must not be there before */
    uint32_t size;
    uint32_t next; /* index of the first of them */
    unsigned faults;
    bool cqe_came_first;
} watched;

static void on_count(int signal, siginfo_t *info, void *context)
{
    const struct cq_lane *lane = cq_lane_at((struct cq_shared *)watched.ring, watched.size, 0);

    watched.faults++;
    watched.cqe_came_first = atomic_load(&lane->entry[watched.next].seq) != 0;
    mprotect(watched.line, watched.page, PROT_READ | PROT_WRITE);
}

/* LEN bytes in one piece of memory, or in two. */
static unsigned pieces = 1;

static void messages(enum sqe_op op, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct rqe *w = next_rqe(&b, LEN / pieces);

        w->num_sge = pieces;
        ((struct sge *)(w + 1))[1] = ((struct sge *)(w + 1))[0];
        atomic_store(&b.shared->rq_prod, b.recv_prod);
        post(op, LEN)->flags = SQE_SIGNALED;
    }
    run();
}

/* The first message of a connection establishes it, and is not received in a batch: those before
 * are for that. */
static void count_first(struct side *counted_side, enum qp_count what, enum sqe_op op,
                        unsigned before, unsigned n)
{
    struct sigaction act = {.sa_sigaction = on_count, .sa_flags = SA_SIGINFO}, old;
    struct comp_counter c;

    watched.page = (size_t)sysconf(_SC_PAGESIZE);
    watched.line =
        mmap(NULL, watched.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(watched.line, MAP_FAILED);
    watched.faults = 0;
    watched.next = before;
    c = (struct comp_counter){.line = watched.line};
    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    side_init(&b, 2, 128, ALL_RIGHTS, 0);
    watched.ring = counted_side->ring;
    watched.size = counted_side->cq.size;
    assert_int_equal(engine_qp_count(counted_side->qp, &c, what), 0);
    connect_to(&a, &b, ALL_RIGHTS, PSN);
    connect_to(&b, &a, ALL_RIGHTS, PSN);
    now = 1;
    messages(op, before);
    assert_int_equal(mprotect(watched.line, watched.page, PROT_READ), 0);
    assert_int_equal(sigaction(SIGSEGV, &act, &old), 0);
    messages(op, n);
    assert_int_equal(sigaction(SIGSEGV, &old, NULL), 0);
    assert_int_equal(watched.faults, 1);
    assert_false(watched.cqe_came_first);
    assert_int_equal(atomic_load(&watched.line->done), before + n);
    munmap(watched.line, watched.page);
    end();
}

/* A program that reads a CQE finds it counted. */
static void test_order(void **state)
{
    for (unsigned before = 0; before < 2; before++) {
        for (unsigned n = 1; n <= 3; n += 2) {
            count_first(&a, QP_COUNT_WRITE, SQE_WRITE, before, n);
            count_first(&a, QP_COUNT_READ, SQE_READ, before, n);
            count_first(&b, QP_COUNT_RECV, SQE_SEND, before, n);
            batch_srq_pd = PD;
            count_first(&b, QP_COUNT_RECV, SQE_SEND, before, n);
            pieces = 2;
            count_first(&b, QP_COUNT_RECV, SQE_SEND, before, n);
            batch_srq_pd = 0;
            count_first(&b, QP_COUNT_RECV, SQE_SEND, before, n);
            pieces = 1;
            count_first(&b, QP_COUNT_PEER_WRITE, SQE_WRITE_IMM, before, n);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),    cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_datagrams),     cmocka_unit_test(test_many_writes),
        cmocka_unit_test(test_long_read),     cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_refused_write), cmocka_unit_test(test_refused_read),
        cmocka_unit_test(test_not_ready),     cmocka_unit_test(test_memory_fails),
        cmocka_unit_test(test_attach),        cmocka_unit_test(test_reads_alone),
        cmocka_unit_test(test_order),
    };

    return cmocka_run_group_tests_name("transport_counters", tests, NULL, NULL);
}
