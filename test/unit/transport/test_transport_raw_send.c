/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames sent by raw queue pairs: unchanged, or not at all. */
#include <stdlib.h>

#include "unit.h"

#include "raw_kit.h"

struct fixture {
    struct raw_kit *k;
    struct raw_cq *cq;
    struct raw_queue *qp;
};

static int setup_memory(void **state, bool mapped)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->k = raw_kit_create(mapped);
    f->cq = raw_cq_create(256);
    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_memory(state, false);
}

static int setup_mapped(void **state)
{
    return setup_memory(state, true);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    raw_queue_destroy(f->qp);
    raw_cq_destroy(f->cq);
    raw_kit_destroy(f->k);
    free(f);
    return 0;
}

static void expect(struct fixture *f, uint64_t wr_id, uint8_t status)
{
    struct cqe c;

    assert_true(raw_poll(f->cq, &c));
    assert_int_equal(c.wr_id, wr_id);
    assert_int_equal(c.status, status);
}

static void to_rts(struct fixture *f)
{
    static const enum qp_state way[] = {QPS_RESET, QPS_INIT, QPS_RTR, QPS_RTS};

    for (unsigned i = 0; i < ARRAY_SIZE(way); i++) {
        const struct qp_attr attr = {.state = way[i], .port_num = 1};

        assert_int_equal(engine_qp_modify(f->k->node[0].engine, f->qp->qp, &attr,
                                          QPA_STATE | (way[i] == QPS_INIT ? QPA_PORT : 0), NULL, 5,
                                          ++f->k->now),
                         0);
    }
}

static void post_send(struct fixture *f, const struct sqe *header, const void *body, size_t len)
{
    struct sqe *e = work_queue_slot(f->qp->sq, RAW_QUEUE, sqe_stride(RAW_SGE, 64),
                                    atomic_load(&f->qp->shared->sq_prod));

    *e = *header;
    memcpy(e + 1, body, len);
    atomic_fetch_add(&f->qp->shared->sq_prod, 1);
    engine_doorbell(f->k->node[0].engine, f->qp->qp, ++f->k->now);
}

static unsigned send_len(struct fixture *f, uint32_t first, uint32_t second, uint8_t room[],
                         uint32_t room_len, uint32_t *len)
{
    const struct sge sge[2] = {raw_sge(f->k, 50, 0, first), raw_sge(f->k, 51, 5, second)};
    struct frame lent = {.data = room, .room = room_len};
    unsigned n;

    post_send(f, &(struct sqe){.wr_id = 5, .opcode = SQE_SEND, .flags = SQE_SIGNALED, .num_sge = 2},
              sge, sizeof(sge));
    n = engine_tx(f->k->node[0].engine, &lent, 1, ++f->k->now);
    *len = lent.len;
    return n;
}

/* Unchanged: no byte is added. */
static void frames_are_sent_as_they_are(void **state)
{
    static const uint32_t lens[] = {14, 15, 59, 60, 61, 1514, 2000};
    struct fixture *f = *state;
    uint8_t room[RAW_FRAME_MAX + 8];
    struct frame lent = {.data = room, .room = RAW_FRAME_MAX};
    uint64_t bytes = 0;
    uint32_t len;

    for (unsigned i = 0; i < 2 * RAW_SLOT; i++)
        f->k->arena[50 * RAW_SLOT + i] = (uint8_t)(i * 3);
    for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
        memset(room, 0x77, sizeof(room));
        assert_int_equal(send_len(f, 9, lens[i] - 9, room, lens[i], &len), 1);
        assert_int_equal(len, lens[i]);
        assert_memory_equal(room, f->k->arena + 50 * RAW_SLOT, 9);
        assert_memory_equal(room + 9, f->k->arena + 51 * RAW_SLOT + 5, lens[i] - 9);
        assert_int_equal(room[lens[i]], 0x77);
        expect(f, 5, WC_SUCCESS);
        bytes += lens[i];
    }
    post_send(
        f,
        &(struct sqe){
            .wr_id = 6, .opcode = SQE_SEND, .flags = SQE_SIGNALED | SQE_INLINE, .inline_len = 40},
        f->k->arena + 50 * RAW_SLOT, 40);
    lent.icrc_omitted = true;
    assert_int_equal(engine_tx(f->k->node[0].engine, &lent, 1, ++f->k->now), 1);
    assert_false(
        lent.icrc_omitted); /* the bytes are the program's: the receiver parses and verifies them */
    assert_int_equal(lent.len, 40);
    assert_memory_equal(room, f->k->arena + 50 * RAW_SLOT, 40);
    expect(f, 6, WC_SUCCESS);
    assert_int_equal(counter_get(&qp_counters(f->qp->qp)->tx_bytes), bytes + 40);
    assert_int_equal(counter_sum(engine_counters(f->k->node[0].engine)->tx_bytes, QOS_PRIORITIES),
                     bytes + 40);
}

/* UDP in IPv4, as scapy has built it. */
static const uint8_t built[] = {
    0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0x45,
    0x00, 0x00, 0x1F, 0x00, 0x07, 0x00, 0x00, 0x40, 0x11, 0x62, 0xBF, 0x0A, 0x01, 0x02, 0x03,
    0x0A, 0x01, 0x02, 0x04, 0x03, 0xE8, 0x07, 0xD0, 0x00, 0x0B, 0x08, 0xB3, 0x6F, 0x64, 0x64};
#define HEADER_SUM 24
#define UDP_SUM    40

static void send_frame(struct fixture *f, const uint8_t *frame, uint8_t flags, struct frame *out)
{
    const struct sge sge[2] = {raw_sge(f->k, 50, 0, 31), raw_sge(f->k, 51, 1, sizeof(built) - 31)};

    memcpy(f->k->arena + 50 * RAW_SLOT, frame, 31);
    memcpy(f->k->arena + 51 * RAW_SLOT + 1, frame + 31, sizeof(built) - 31);
    post_send(f, &(struct sqe){.opcode = SQE_SEND, .flags = SQE_SIGNALED | flags, .num_sge = 2},
              sge, sizeof(sge));
    assert_int_equal(engine_tx(f->k->node[0].engine, out, 1, ++f->k->now), 1);
    assert_int_equal(out->len, sizeof(built));
    expect(f, 0, WC_SUCCESS);
}

/* Checksums are written where they are asked for, and a receiver learns that they are right. */
static void checksums(void **state)
{
    struct fixture *f = *state;
    struct flow_rule rule = {.type = FLOW_NORMAL, .qp = f->qp->qp};
    uint8_t without[sizeof(built)], room[RAW_FRAME_MAX];
    struct frame frame = {.data = room, .room = sizeof(room)};

    memcpy(without, built, sizeof(built));
    memset(without + HEADER_SUM, 0x55, 2);
    memset(without + UDP_SUM, 0x55, 2);
    raw_rules(f->k, &rule, 1);
    for (unsigned asked = 0; asked < 2; asked++) {
        struct cqe c;

        send_frame(f, without, asked ? SQE_IP_CSUM : 0, &frame);
        assert_memory_equal(room, asked ? built : without, sizeof(built));
        raw_post(f->qp, 60);
        raw_arrive(f->k, 0, &frame, 1);
        assert_true(raw_poll(f->cq, &c));
        assert_int_equal(c.status, WC_SUCCESS);
        assert_int_equal(c.wc_flags, asked ? WC_IP_CSUM_OK : 0);
    }
}

/* A limit counts the bytes of the frames, also of those whose copies are still to be made. */
static void limited_rate(void **state)
{
    const struct qp_attr attr = {.rate_limit = 8}; /* a byte in a millisecond */
    struct fixture *f = *state;
    struct engine *e = f->k->node[0].engine;
    const struct sge sge = raw_sge(f->k, 50, 0, 100);
    uint8_t room[2][RAW_FRAME_MAX];
    struct frame lent[2] = {{.data = room[0], .room = RAW_FRAME_MAX},
                            {.data = room[1], .room = RAW_FRAME_MAX}};

    assert_int_equal(engine_qp_modify(e, f->qp->qp, &attr, QPA_RATE_LIMIT, NULL, 5, ++f->k->now),
                     0);
    for (unsigned i = 0; i < 2; i++)
        post_send(
            f, &(struct sqe){.wr_id = i, .opcode = SQE_SEND, .flags = SQE_SIGNALED, .num_sge = 1},
            &sge, sizeof(sge));
    assert_int_equal(engine_tx(e, lent, 2, ++f->k->now), 1);
    assert_int_equal(engine_tx(e, lent, 2, ++f->k->now), 0);
    f->k->now += 99 * NS_PER_MS;
    engine_timers(e, f->k->now);
    assert_int_equal(engine_tx(e, lent, 2, f->k->now), 0);
    f->k->now += 2 * NS_PER_MS;
    engine_timers(e, f->k->now);
    assert_int_equal(engine_tx(e, lent, 2, f->k->now), 1);
    expect(f, 0, WC_SUCCESS);
    expect(f, 1, WC_SUCCESS);
}

static void bad_sends(void **state)
{
    static const struct {
        uint32_t first, second, room;
        uint16_t max_frame;
        uint8_t status;
    } cases[] = {
        {9, 4, 2000, 0, WC_LOC_LEN_ERR},          /* no Ethernet header */
        {0, 0, 2000, 0, WC_LOC_LEN_ERR},          /* nothing at all */
        {1000, 1001, 2000, 0, WC_LOC_LEN_ERR},    /* longer than the lent frame */
        {1000, 1000, 2000, 1999, WC_LOC_LEN_ERR}, /* longer than the port's */
        {1000, 1000, 2000, 2000, WC_SUCCESS},
    };
    struct fixture *f = *state;
    uint8_t room[RAW_FRAME_MAX];
    uint32_t len;

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        bool ok = cases[i].status == WC_SUCCESS;

        f->k->port.max_frame = cases[i].max_frame;
        assert_int_equal(send_len(f, cases[i].first, cases[i].second, room, cases[i].room, &len),
                         ok);
        expect(f, 5, cases[i].status);
        assert_int_equal(qp_current_state(f->qp->qp), ok ? QPS_RTS : QPS_SQE);
        to_rts(f);
    }
    for (unsigned i = 0; i < 2; i++) { /* memory that fails, a key that does not exist */
        struct sge sge = raw_sge(f->k, 50, 0, 100);
        struct frame lent = {.data = room, .room = sizeof(room)};

        f->k->fail_from = 50;
        f->k->fail_to = i ? 50 : 51;
        sge.lkey ^= i;
        post_send(f, &(struct sqe){.wr_id = 7, .opcode = SQE_SEND, .num_sge = 1}, &sge,
                  sizeof(sge));
        assert_int_equal(engine_tx(f->k->node[0].engine, &lent, 1, ++f->k->now), 0);
        expect(f, 7, WC_LOC_PROT_ERR);
        assert_int_equal(qp_current_state(f->qp->qp), QPS_SQE);
        to_rts(f);
    }
    for (uint8_t op = 0; op < 16; op++) {
        struct sge sge = raw_sge(f->k, 60, 0, 100);
        struct frame lent = {.data = room, .room = sizeof(room)};

        post_send(f, &(struct sqe){.wr_id = op, .opcode = op, .flags = SQE_SIGNALED, .num_sge = 1},
                  &sge, sizeof(sge));
        assert_int_equal(engine_tx(f->k->node[0].engine, &lent, 1, ++f->k->now), op == SQE_SEND);
        expect(f, op, op == SQE_SEND ? WC_SUCCESS : WC_LOC_QP_OP_ERR);
        to_rts(f);
    }
}

/* Counted by the priority in the frame itself. */
static void sent_priority(void **state)
{
    static const struct {
        struct raw_spec spec;
        unsigned priority;
    } cases[] = {
        {{.version = 4, .traffic_class = 0xA0}, 5},
        {{.version = 6, .traffic_class = 0x60}, 3},
        {{.version = 4, .traffic_class = 0xA0, .tags = 1, .tci = 0x4005}, 2},
        {{.ether_type = 0x88B5, .payload = 40}, 0},
    };
    struct fixture *f = *state;
    uint8_t room[RAW_FRAME_MAX];

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct engine_counters *c = engine_counters(f->k->node[0].engine);
        uint64_t before = counter_get(&c->tx_packets[cases[i].priority]);
        struct frame lent = {.data = room, .room = sizeof(room)};
        struct raw_bytes b;
        struct sge sge;

        raw_build(&b, &cases[i].spec);
        memcpy(f->k->arena + 60 * RAW_SLOT, b.data, b.len);
        sge = raw_sge(f->k, 60, 0, b.len);
        post_send(f, &(struct sqe){.opcode = SQE_SEND, .num_sge = 1}, &sge, sizeof(sge));
        assert_int_equal(engine_tx(f->k->node[0].engine, &lent, 1, ++f->k->now), 1);
        assert_int_equal(counter_get(&c->tx_packets[cases[i].priority]), before + 1);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define CASE_MAPPED(name)                                     \
    {                                                         \
#name " (mapped)", name, setup_mapped, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(frames_are_sent_as_they_are),
        CASE_MAPPED(frames_are_sent_as_they_are),
        CASE(checksums),
        CASE_MAPPED(checksums),
        CASE(limited_rate),
        CASE_MAPPED(limited_rate),
        CASE(bad_sends),
        CASE(sent_priority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
