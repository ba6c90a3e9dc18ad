/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that answers late every other time: what completes is complete. */
#include "rules.h"

#define LEN   5000
#define SEEDS 40

static unsigned late_calls;

struct late {
    struct rules t;
    struct kit_mr *from, *to; /* copied: at a and at b */
};

static void start(struct late *l, uint64_t seed)
{
    struct kit *k = kit_create(&(struct kit_config){.seed = seed, .late = 500, .log = true});

    l->t = rules_start_on(k, NULL);
    l->from = kit_mr_create(&k->node[0], MEM_BYTES, MEM_ALL, KIT_MR_COPY);
    l->to = kit_mr_create(&k->node[1], MEM_BYTES, MEM_ALL, KIT_MR_COPY);
    for (unsigned i = 0; i < MEM_BYTES; i++)
        l->from->bytes[i] = (uint8_t)(i * 7 + 1);
}

static void post(struct late *l, uint8_t op, uint32_t len, uint64_t add)
{
    struct sge sge = kit_sge(l->from, 0, len);
    struct kit_send wr = {.wr_id = 1,
                          .op = op,
                          .flags = SQE_SIGNALED,
                          .sge = &sge,
                          .num_sge = 1,
                          .remote_addr = kit_va(l->to, 0),
                          .rkey = l->to->region.key,
                          .compare_add = add};

    assert_int_equal(kit_post_send(l->t.a, &wr), 0);
    kit_ring(l->t.a);
}

/* A completion of the queue, the moment it is there. */
static bool is_there(void *cq)
{
    return ((struct kit_cq *)cq)->posted != 0;
}

static void await(struct late *l, struct kit_cq *cq, uint64_t wr_id)
{
    cq->posted = 0;
    assert_int_equal(kit_run(l->t.k, is_there, cq, NS_PER_SEC), KIT_DONE);
    completes(cq, wr_id, WC_SUCCESS);
}

static void written_when_acknowledged(uint64_t seed)
{
    struct late l;

    start(&l, seed);
    post(&l, SQE_WRITE, LEN, 0);
    await(&l, l.t.a->send_cq, 1);
    assert_memory_equal(l.to->bytes, l.from->bytes, LEN);
    late_calls += l.t.k->node[1].part[0].late_calls;
    rules_finish(&l.t);
}

static void received_when_completed(uint64_t seed)
{
    struct late l;
    struct sge sge;

    start(&l, seed);
    sge = kit_sge(l.to, 0, LEN);
    assert_int_equal(kit_post_recv(l.t.b, 2, &sge, 1), 0);
    post(&l, SQE_SEND, LEN, 0);
    await(&l, l.t.b->recv_cq, 2);
    assert_memory_equal(l.to->bytes, l.from->bytes, LEN);
    rules_finish(&l.t);
}

static void read_when_completed(uint64_t seed)
{
    struct late l;

    start(&l, seed);
    for (unsigned i = 0; i < LEN; i++)
        l.to->bytes[i] = (uint8_t)(i * 3);
    post(&l, SQE_READ, LEN, 0);
    await(&l, l.t.a->send_cq, 1);
    assert_memory_equal(l.from->bytes, l.to->bytes, LEN);
    rules_finish(&l.t);
}

static void atomics_have_their_value(uint64_t seed)
{
    uint64_t value = 41;
    struct late l;

    start(&l, seed);
    memcpy(l.to->bytes, &value, sizeof(value));
    post(&l, SQE_FETCH_ADD, 8, 1);
    await(&l, l.t.a->send_cq, 1);
    memcpy(&value, l.from->bytes, sizeof(value));
    assert_int_equal(value, 41);
    memcpy(&value, l.to->bytes, sizeof(value));
    assert_int_equal(value, 42);
    rules_finish(&l.t);
}

static void late_memory(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        print_message("seed %u\n", (unsigned)seed);
        written_when_acknowledged(seed);
        received_when_completed(seed);
        read_when_completed(seed);
        atomics_have_their_value(seed);
    }
    assert_true(late_calls > SEEDS / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(late_memory)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
