/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams to the multicast groups of a port that has many. */
#include <time.h>

#include "kit.h"
#include "unit.h"

#define GROUPS  256u
#define LEN     64
#define QKEY    0x1234
#define PACKETS 2000u
#define ROUNDS  20u

struct fixture {
    struct kit *k;
    struct kit_qp *from, *to;
    struct kit_mr *mr;
    uint8_t bytes[KIT_FRAME_ROOM];
    uint32_t len;
};

/* ---- frames ---- */

static enum kit_verdict capture(void *ctx, unsigned index, uint8_t *data, uint32_t *len,
                                const struct kit_seen *seen)
{
    struct fixture *f = ctx;

    memcpy(f->bytes, data, *len);
    f->len = *len;
    return KIT_DROP;
}

/* In an order that is not that of their addresses. */
static union gid group(unsigned i)
{
    return gid_from_ipv4((const uint8_t[]){224, 1, 3, (uint8_t)(i * 167)});
}

/* A datagram to the group, as the other node sends it, is in f->bytes then. */
static void send_to(struct fixture *f, unsigned i)
{
    const union gid gid = group(i);
    const struct kit_send wr = {
        .op = SQE_SEND,
        .flags = SQE_INLINE | SQE_SIGNALED,
        .inline_data = &i,
        .inline_len = sizeof(i),
        .ud = {kit_ah_to_group(&f->k->node[1], &gid, KIT_GID_V4), QPN_MULTICAST, QKEY}};
    struct cqe done;

    f->len = 0;
    assert_int_equal(kit_post_send(f->from, &wr), 0);
    kit_ring(f->from);
    kit_settle(f->k);
    assert_int_equal(kit_poll(f->from->send_cq, &done, 1), 1);
    assert_int_not_equal(f->len, 0);
}

static void receive(struct fixture *f)
{
    struct frame frame = {.data = f->bytes, .len = f->len};

    engine_rx(f->k->node[0].engine, &frame, 1, f->k->now);
}

static uint64_t delivered(const struct fixture *f)
{
    return counter_get(&engine_counters(f->k->node[0].engine)->rx_delivered);
}

/* ---- fixture ---- */

static struct fixture *begin(void)
{
    static struct fixture f;

    f = (struct fixture){.k = kit_create(&(struct kit_config){.seed = 1})};
    f.to = kit_qp_create(&f.k->node[0], &(struct kit_qp_config){.type = QPT_UD});
    f.from = kit_qp_create(&f.k->node[1], &(struct kit_qp_config){.type = QPT_UD});
    kit_start_ud(f.to, QKEY, 1);
    kit_start_ud(f.from, QKEY, 1);
    f.mr = kit_mr_create(&f.k->node[0], LEN, MEM_LOCAL_WRITE, KIT_MR_DIRECT);
    f.k->link[1].hook = capture;
    f.k->link[1].hook_ctx = &f;
    return &f;
}

static void join(struct fixture *f, unsigned i)
{
    const union gid gid = group(i);

    assert_int_equal(kit_join(f->to, &gid), 0);
}

static void leave(struct fixture *f, unsigned i)
{
    const union gid gid = group(i);

    assert_int_equal(kit_leave(f->to, &gid), 0);
}

/* ---- tests ---- */

/* Each group is found, whichever others come and go. */
static void test_each_is_found(void **state)
{
    struct fixture *f = begin();

    for (unsigned i = 0; i < GROUPS; i++)
        join(f, i);
    for (unsigned i = 0; i < GROUPS; i += 3)
        leave(f, i);
    for (unsigned i = 0; i < GROUPS; i++) {
        uint64_t before = delivered(f);
        struct cqe c;

        if (i % 3)
            kit_recv(f->to, i, f->mr, 0, LEN);
        send_to(f, i);
        receive(f);
        assert_int_equal(delivered(f) - before, i % 3 != 0);
        assert_int_equal(kit_poll(f->to->recv_cq, &c, 1), i % 3 != 0);
        if (i % 3)
            assert_memory_equal(f->mr->bytes + ENCAP_GRH_LEN, &i, sizeof(i));
    }
    for (unsigned i = 0; i < GROUPS; i++)
        if (i % 3)
            leave(f, i);
    send_to(f, 1);
    receive(f);
    assert_int_equal(kit_drops(&f->k->node[0]), GROUPS / 3 + 2);
    kit_destroy(f->k);
}

static uint64_t cpu_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* Of packets to the group that was joined first; no receive waits for them. */
static uint64_t least_time(unsigned groups)
{
    struct fixture *f = begin();
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < groups; i++)
        join(f, i);
    send_to(f, 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t began = cpu_time();

        for (unsigned i = 0; i < PACKETS; i++)
            receive(f);
        least = min_of(least, cpu_time() - began);
    }
    assert_int_equal(delivered(f), ROUNDS * PACKETS);
    kit_destroy(f->k);
    return least;
}

/* Programs that join many groups do not slow down what others get. */
static void test_many_take_no_longer(void **state)
{
    uint64_t one = least_time(1), many = least_time(GROUPS);

    assert_true(many < 4 * one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_found),
        cmocka_unit_test(test_many_take_no_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
