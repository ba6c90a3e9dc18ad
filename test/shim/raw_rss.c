/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive-side scaling: the work queue of each frame, while queues and tables change. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "raw_kit.h"
#include "raw_tests.h"
#include "unit.h"
#include "verbs_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define WQS      4
#define FIELDS                                                                \
    (IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_PORT_UDP | \
     IBV_RX_HASH_DST_PORT_UDP)

/* A queue pair that spreads UDP over a table of four work queues. */
struct spread {
    struct raw *r;
    struct ibv_wq *wq[WQS];
    struct ibv_rwq_ind_table *table;
    struct ibv_qp *qp;
    struct ibv_flow *flow;
};

static const struct ibv_flow_spec_tcp_udp any_udp = {.type = IBV_FLOW_SPEC_UDP,
                                                     .size = sizeof(any_udp)};

static void open_table(struct spread *s, struct ibv_wq **wq, unsigned log_size, uint8_t function)
{
    const void *spec[] = {&any_udp};

    s->table = raw_table(s->r, wq, log_size);
    s->qp = raw_rss_qp(s->r, s->table, function, FIELDS);
    assert_non_null(s->qp);
    s->flow = raw_rule(s->qp, IBV_FLOW_ATTR_NORMAL, 0, 1, spec);
    assert_non_null(s->flow);
}

static void close_table(struct spread *s)
{
    assert_int_equal(ibv_destroy_flow(s->flow), 0);
    assert_int_equal(ibv_destroy_qp(s->qp), 0);
    assert_int_equal(ibv_destroy_rwq_ind_table(s->table), 0);
}

static void spread_open(struct spread *s, struct raw *r, uint8_t function)
{
    s->r = r;
    for (unsigned i = 0; i < WQS; i++)
        s->wq[i] = raw_wq(r, IBV_WQS_RDY);
    open_table(s, s->wq, 2, function);
}

static void spread_close(struct spread *s)
{
    close_table(s);
    for (unsigned i = 0; i < WQS; i++)
        assert_int_equal(ibv_destroy_wq(s->wq[i]), 0);
}

/* ---- the hashes, computed here once more ---- */

/* Source and destination address, source and destination port, as they are in the frame. */
static void input_of(uint8_t in[12], const struct raw_frame *f)
{
    memcpy(in, f->src + 12, 4);
    memcpy(in + 4, f->dst + 12, 4);
    in[8] = (uint8_t)(f->sport >> 8);
    in[9] = (uint8_t)f->sport;
    in[10] = (uint8_t)(f->dport >> 8);
    in[11] = (uint8_t)f->dport;
}

static uint32_t key_bits(unsigned bit)
{
    uint32_t v = 0;

    for (unsigned i = bit; i < bit + 32; i++)
        v = v << 1 | (raw_key[i / 8] >> (7 - i % 8) & 1u);
    return v;
}

static uint32_t toeplitz(const uint8_t in[12])
{
    uint32_t hash = 0;

    for (unsigned i = 0; i < 96; i++)
        if (in[i / 8] >> (7 - i % 8) & 1)
            hash ^= key_bits(i);
    return hash;
}

static uint32_t xor
    (const uint8_t in[12]) {
        uint32_t hash = 0;

        for (unsigned i = 0; i < 12; i += 2)
            hash ^= (uint32_t)(in[i] << 8 | in[i + 1]);
        return hash;
    }

    /* Microsoft's example: from 66.9.149.187 port 2794 to 161.142.100.80 port 1766. */
    static void toeplitz_is_right(void)
{
    static const uint8_t in[12] = {66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6};

    assert_int_equal(toeplitz(in), 0x51ccc178);
}

static void spread_by(struct raw *r, uint8_t function, uint32_t (*hash)(const uint8_t in[12]))
{
    unsigned taken[WQS] = {0};
    struct spread s;

    spread_open(&s, r, function);
    for (unsigned i = 0; i < WQS; i++)
        for (unsigned n = 0; n < RAW_WR / WQS; n++)
            assert_int_equal(raw_post_wq(r, s.wq[i]), 0);
    for (uint32_t i = 0; i < 64; i++) {
        struct raw_frame f = raw_flow(i * 37);
        uint8_t in[12];
        unsigned which;
        struct ibv_wc wc;

        input_of(in, &f);
        which = hash(in) % WQS;
        raw_send(r, &f);
        wc = raw_await(r->cq);
        assert_int_equal(wc.qp_num, s.wq[which]->wq_num);
        assert_int_equal(wc.opcode, IBV_WC_RECV);
        assert_int_equal(raw_id(r, &wc), f.id);
        taken[which]++;
    }
    for (unsigned i = 0; i < WQS; i++)
        assert_true(taken[i] > 0);
    spread_close(&s);
}

void spread_by_toeplitz(void **state)
{
    toeplitz_is_right();
    spread_by(*state, IBV_RX_HASH_FUNC_TOEPLITZ, toeplitz);
}

void spread_by_xor(void **state)
{
    spread_by(*state, UROCE_RX_HASH_FUNC_XOR, xor);
}

/* ---- work queues ---- */

/* Completions make room: more frames than WQEs, in turns. */
void work_queues_wrap_around(void **state)
{
    struct raw *r = *state;
    struct ibv_wq *wq = raw_wq(r, IBV_WQS_RDY);
    struct raw_frame f = raw_flow(1);
    struct spread s = {.r = r};

    open_table(&s, &wq, 0, IBV_RX_HASH_FUNC_TOEPLITZ);
    for (unsigned i = 0; i < RAW_WR; i++)
        assert_int_equal(raw_post_wq(r, wq), 0);
    assert_int_equal(raw_post_wq(r, wq), ENOMEM);
    for (unsigned i = 0; i < 3 * RAW_WR; i++) {
        f.id = i;
        raw_expect_only(r, &f);
        assert_int_equal(raw_post_wq(r, wq), 0);
        assert_int_equal(raw_post_wq(r, wq), ENOMEM);
    }
    close_table(&s);
    assert_int_equal(ibv_destroy_wq(wq), 0);
}

void flushed_and_forgotten(void **state)
{
    struct raw *r = *state;
    struct ibv_wq *wq = raw_wq(r, IBV_WQS_RDY);
    struct raw_frame f = raw_flow(1);
    struct spread s = {.r = r};
    struct ibv_wc wc[8];

    open_table(&s, &wq, 0, IBV_RX_HASH_FUNC_TOEPLITZ);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(raw_post_wq(r, wq), 0);
    raw_expect_only(r, &f);
    assert_int_equal(raw_wq_state(wq, IBV_WQS_ERR), 0);
    await(r->cq, wc, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc[i].qp_num, wq->wq_num);
    }
    f.id = 2;
    raw_send(r, &f); /* to no receiver */
    assert_int_equal(raw_wq_state(wq, IBV_WQS_RESET), 0);
    assert_int_equal(raw_wq_state(wq, IBV_WQS_RDY), 0);
    /* Received frames, and unused WQEs, before it is reset. */
    for (unsigned i = 0; i < RAW_WR; i++)
        assert_int_equal(raw_post_wq(r, wq), 0);
    for (f.id = 3; f.id < 7; f.id++)
        raw_send(r, &f);
    assert_int_equal(raw_wq_state(wq, IBV_WQS_RESET), 0);
    assert_int_equal(ibv_poll_cq(r->cq, 8, wc), 0);
    raw_send(r, &f);
    assert_int_equal(raw_wq_state(wq, IBV_WQS_RDY), 0);
    for (unsigned i = 0; i < RAW_WR; i++)
        assert_int_equal(raw_post_wq(r, wq), 0);
    f.id++;
    raw_expect_last(r, &f, 2);
    close_table(&s);
    assert_int_equal(ibv_destroy_wq(wq), 0);
}

/* Nor does one that replaces another. */
void destroyed_work_queues_leave_nothing(void **state)
{
    struct raw *r = *state;
    struct raw_frame f = raw_flow(1);
    struct ibv_wc wc;

    for (unsigned round = 0; round <= 20; round++) {
        struct ibv_wq *wq = raw_wq(r, IBV_WQS_RDY);
        struct spread s = {.r = r};

        open_table(&s, &wq, 0, IBV_RX_HASH_FUNC_TOEPLITZ);
        assert_int_equal(raw_post_wq(r, wq), 0);
        assert_int_equal(raw_post_wq(r, wq), 0);
        f.id = 2 * round;
        raw_expect_last(r, &f, round ? f.id - 1 : f.id);
        f.id++;
        if (round < 20)      /* the last round leaves none on its way to the next test */
            raw_send(r, &f); /* received, and not polled */
        close_table(&s);
        assert_int_equal(ibv_destroy_wq(wq), 0);
        assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 0);
    }
}

static void next_event(struct raw *r, struct ibv_async_event *event)
{
    struct pollfd fd = {.fd = r->ctx->async_fd, .events = POLLIN};

    assert_int_equal(poll(&fd, 1, 10000), 1);
    assert_int_equal(ibv_get_async_event(r->ctx, event), 0);
}

/* A WQE that cannot be written to fails the work queue, which has another WQE. */
static void break_wq(struct spread *s, struct ibv_wq *wq, const struct raw_frame *f)
{
    struct ibv_sge nowhere = {.addr = 64, .length = RAW_ROOM, .lkey = s->r->mr->lkey};
    struct ibv_recv_wr bad = {.wr_id = 77, .sg_list = &nowhere, .num_sge = 1}, *at;
    struct ibv_wc wc[2];

    assert_int_equal(ibv_post_wq_recv(wq, &bad, &at), 0);
    assert_int_equal(raw_post_wq(s->r, wq), 0);
    raw_send(s->r, f);
    await(s->r->cq, wc, 2);
    assert_int_equal(wc[0].wr_id, 77);
    assert_int_equal(wc[0].status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(wc[1].status, IBV_WC_WR_FLUSH_ERR);
}

static void expect_fatal(struct raw *r, struct ibv_wq *wq)
{
    struct ibv_async_event event;

    next_event(r, &event);
    assert_int_equal(event.event_type, IBV_EVENT_WQ_FATAL);
    assert_ptr_equal(event.element.wq, wq);
    ibv_ack_async_event(&event);
}

void work_queues_fail_with_an_event(void **state)
{
    struct raw *r = *state;
    struct ibv_wq *wq = raw_wq(r, IBV_WQS_RDY);
    struct raw_frame f = raw_flow(1);
    struct spread s = {.r = r};

    open_table(&s, &wq, 0, IBV_RX_HASH_FUNC_TOEPLITZ);
    break_wq(&s, wq, &f);
    expect_fatal(r, wq);
    assert_int_equal(wq->state, IBV_WQS_ERR);
    assert_int_equal(raw_post_wq(r, wq), EINVAL);
    assert_int_equal(raw_wq_state(wq, IBV_WQS_RDY), EINVAL);
    assert_int_equal(raw_wq_state(wq, IBV_WQS_RESET), 0);
    assert_int_equal(raw_wq_state(wq, IBV_WQS_RDY), 0);
    assert_int_equal(raw_post_wq(r, wq), 0);
    raw_expect_only(r, &f);
    close_table(&s);
    assert_int_equal(ibv_destroy_wq(wq), 0);
}

/* A program that follows the completions may have handled the failure before it reads the event. */
void events_of_the_past(void **state)
{
    struct raw *r = *state;
    struct ibv_wq *wq = raw_wq(r, IBV_WQS_RDY);
    struct raw_frame f = raw_flow(1);
    struct spread s = {.r = r};

    open_table(&s, &wq, 0, IBV_RX_HASH_FUNC_TOEPLITZ);
    break_wq(&s, wq, &f);
    assert_int_equal(raw_wq_state(wq, IBV_WQS_RESET), 0);
    assert_int_equal(raw_wq_state(wq, IBV_WQS_RDY), 0);
    expect_fatal(r, wq);
    assert_int_equal(wq->state, IBV_WQS_RDY);
    assert_int_equal(raw_post_wq(r, wq), 0);
    raw_expect_only(r, &f);
    break_wq(&s, wq, &f);
    expect_fatal(r, wq);
    assert_int_equal(wq->state, IBV_WQS_ERR);
    close_table(&s);
    assert_int_equal(ibv_destroy_wq(wq), 0);
}

/* ---- tables that change under traffic ---- */

struct steering {
    struct spread *s;
    _Atomic bool over;
    _Atomic unsigned changes;
    int err;
};

/* Other tables all the time: of every size, each with its own order of work queues. */
static void *steer(void *arg)
{
    struct steering *t = arg;
    struct ibv_wq *wq[8];
    struct ibv_rwq_ind_table_init_attr attr = {.ind_tbl = wq};

    while (!atomic_load(&t->over) && !t->err) {
        unsigned n = t->changes++;

        attr.log_ind_tbl_size = n % 4;
        for (unsigned i = 0; i < COUNT(wq); i++)
            wq[i] = t->s->wq[(i + n) % WQS];
        t->err = uroce_modify_rwq_ind_table(t->s->table, &attr);
    }
    return NULL;
}

#define STEERED_MIN 2000 /* frames */
#define STEERED_MAX 200000
#define CHANGES     20

/* Every frame arrives once, whichever table it met. */
void steered_anew_under_traffic(void **state)
{
    static uint8_t seen[STEERED_MAX];
    struct raw *r = *state;
    struct spread s;
    struct steering t = {.s = &s};
    unsigned used = 0;
    pthread_t thread;
    struct ibv_wc more;
    uint32_t sent;

    memset(seen, 0, sizeof(seen));
    spread_open(&s, r, IBV_RX_HASH_FUNC_TOEPLITZ);
    for (unsigned i = 0; i < WQS; i++)
        for (unsigned n = 0; n < RAW_WR / WQS; n++)
            assert_int_equal(raw_post_wq(r, s.wq[i]), 0);
    assert_int_equal(pthread_create(&thread, NULL, steer, &t), 0);
    for (sent = 0; sent < STEERED_MIN || (atomic_load(&t.changes) < CHANGES && sent < STEERED_MAX);
         sent++) {
        struct raw_frame f = raw_flow(sent);
        struct ibv_wc wc;

        raw_send(r, &f);
        wc = raw_await(r->cq);
        assert_int_equal(raw_id(r, &wc), sent);
        assert_int_equal(seen[sent]++, 0);
        for (unsigned k = 0; k < WQS; k++) {
            if (s.wq[k]->wq_num != wc.qp_num)
                continue;
            used |= 1u << k;
            assert_int_equal(raw_post_wq(r, s.wq[k]), 0);
        }
    }
    atomic_store(&t.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(t.err, 0);
    assert_true(t.changes >= CHANGES);
    assert_int_equal(ibv_poll_cq(r->cq, 1, &more), 0);
    assert_int_equal(used, (1 << WQS) - 1);
    spread_close(&s);
}

/* ---- work queues that share their entries ---- */

void shared_receive_queues(void **state)
{
    struct raw *r = *state;
    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 64, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(r->pd, &srq_init);
    struct uroce_wq_srq_init_attr init = {
        .wq_context = &init, .pd = r->pd, .cq = r->cq, .srq = srq};
    struct ibv_wq *wq[WQS] = {uroce_create_wq_srq(r->ctx, &init),
                              uroce_create_wq_srq(r->ctx, &init), raw_wq(r, IBV_WQS_RDY),
                              raw_wq(r, IBV_WQS_RDY)};
    struct ibv_srq_attr limit = {.srq_limit = 2};
    struct ibv_async_event event;
    struct spread s = {.r = r};
    unsigned used = 0;

    assert_int_equal(wq[0]->wq_type, UROCE_WQT_SRQ);
    assert_ptr_equal(wq[0]->wq_context, &init);
    assert_int_equal(raw_wq_state(wq[0], IBV_WQS_RDY), 0);
    assert_int_equal(raw_wq_state(wq[1], IBV_WQS_RDY), 0);
    assert_int_equal(raw_post_wq(r, wq[0]), EINVAL);
    open_table(&s, wq, 2, IBV_RX_HASH_FUNC_TOEPLITZ);
    for (uint32_t i = 0; i < 200; i++) {
        struct raw_frame f = raw_flow(i);
        uint8_t in[12];
        unsigned which;
        struct ibv_wc wc;

        input_of(in, &f);
        which = toeplitz(in) % WQS;
        assert_int_equal(which < 2 ? raw_post_srq(r, srq) : raw_post_wq(r, wq[which]), 0);
        raw_send(r, &f);
        wc = raw_await(r->cq);
        assert_int_equal(wc.qp_num, wq[which]->wq_num);
        assert_int_equal(raw_id(r, &wc), i);
        used |= 1u << which;
    }
    assert_int_equal(used, (1 << WQS) - 1);
    /* The queue's limit is shared by all users. */
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(raw_post_srq(r, srq), 0);
    assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
    for (uint32_t i = 0, taken = 0; taken < 2; i++) {
        struct raw_frame f = raw_flow(i);
        uint8_t in[12];

        input_of(in, &f);
        if (toeplitz(in) % WQS >= 2)
            continue;
        raw_expect_only(r, &f);
        taken++;
    }
    next_event(r, &event);
    assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(event.element.srq, srq);
    ibv_ack_async_event(&event);
    /* In the error state it takes no WQEs, and returns none. */
    assert_int_equal(raw_wq_state(wq[0], IBV_WQS_ERR), 0);
    assert_int_equal(raw_wq_state(wq[0], IBV_WQS_RESET), 0);
    close_table(&s);
    for (unsigned i = 0; i < WQS; i++)
        assert_int_equal(ibv_destroy_wq(wq[i]), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
}
