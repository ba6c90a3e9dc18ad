/* SPDX-License-Identifier: BSD-3-Clause */
/* When a queue pair allocates memory, and its behaviour when an allocation fails. Linked with
 * --wrap=calloc and --wrap=aligned_alloc. */
#include "qp_memory.h"
#include "rules.h"

#define FIRST 2
#define MANY  40

void *__wrap_calloc(size_t n, size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);

static bool no_memory;
static unsigned refused;

void *__wrap_calloc(size_t n, size_t bytes)
{
    if (!no_memory || n == 1) /* the kit makes single things, the engine rings */
        return __real_calloc(n, bytes);
    refused++;
    return NULL;
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    if (!no_memory)
        return __real_aligned_alloc(align, bytes);
    refused++;
    return NULL;
}

static uint32_t slots_of(const struct kit_qp *qp)
{
    return qp->qp->req.slot_count;
}

/* Writes of 100 bytes each, one beside the other, n at once. */
static void write_many(struct rules *t, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct sge sge = kit_sge(t->ma, i * 100, 100);
        struct kit_send wr = {.wr_id = i,
                              .op = SQE_WRITE,
                              .flags = SQE_SIGNALED,
                              .sge = &sge,
                              .num_sge = 1,
                              .remote_addr = kit_va(t->mb, i * 100),
                              .rkey = t->mb->region.key};

        assert_int_equal(kit_post_send(t->a, &wr), 0);
    }
    kit_ring(t->a);
    kit_settle(t->k);
    for (unsigned i = 0; i < n; i++)
        completes(t->a->send_cq, i, WC_SUCCESS);
    completes_nothing(t->a->send_cq);
    assert_memory_equal(t->ma->bytes, t->mb->bytes, n * 100);
}

static void slots_come_with_work(void **state)
{
    struct rules t = rules_start(NULL);

    assert_int_equal(slots_of(t.a), FIRST);
    for (unsigned i = 0; i < 3 * FIRST; i++)
        write_many(&t, 1);
    write_many(&t, FIRST);
    assert_int_equal(slots_of(t.a), FIRST);
    kit_link_lose(t.ab, 0x2a5); /* retransmitted requests are in slots that have moved */
    write_many(&t, MANY);
    assert_int_equal(slots_of(t.a), 64);
    assert_int_equal(slots_of(t.b), FIRST);
    write_many(&t, 64);
    assert_int_equal(slots_of(t.a), 64);
    rules_finish(&t);
}

static void no_more_slots_than_entries(void **state)
{
    struct kit *k = kit_create(&(struct kit_config){.seed = 1});
    static const uint32_t size[] = {1, 2, 4, 128, 1024};

    for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
        struct kit_qp *qp = kit_qp_create(&k->node[0], &(struct kit_qp_config){.sq_size = size[i]});

        assert_int_equal(slots_of(qp), min_of(size[i], FIRST));
        assert_int_equal(qp->qp->req.slot_max, min_of(size[i], SEND_SLOTS_MAX));
    }
    kit_destroy(k);
}

/* Work continues in the existing slots. */
static void slots_without_memory(void **state)
{
    struct rules t = rules_start(NULL);

    no_memory = true;
    refused = 0;
    write_many(&t, MANY);
    no_memory = false;
    assert_true(refused > 0);
    assert_int_equal(slots_of(t.a), FIRST);
    write_many(&t, MANY);
    assert_int_equal(slots_of(t.a), 64);
    rules_finish(&t);
}

static void reset_gives_back(void **state)
{
    struct rules t = rules_start(NULL);

    write_many(&t, MANY);
    assert_int_equal(t.a->qp->resp.res_max, 4);
    assert_int_equal(kit_modify(t.a, QPS_RESET), 0);
    assert_int_equal(kit_modify(t.b, QPS_RESET), 0);
    assert_int_equal(slots_of(t.a), FIRST);
    assert_null(t.a->qp->resp.res);
    kit_connect(t.a, t.b, NULL);
    assert_int_equal(t.a->qp->resp.res_max, 4);
    write_many(&t, MANY);
    rules_finish(&t);
}

static void resources_without_memory(void **state)
{
    struct rules t = rules_start(NULL);
    struct qp_attr attr = {.max_dest_rd_atomic = 8};
    const uint32_t mask = QPA_MAX_DEST_RD_ATOMIC;
    struct engine *e = t.k->node[1].engine;

    assert_int_equal(kit_modify(t.b, QPS_SQD), 0);
    no_memory = true;
    assert_int_equal(engine_qp_modify(e, t.b->qp, &attr, mask, NULL, 5, t.k->now), -ENOMEM);
    no_memory = false;
    assert_int_equal(t.b->qp->resp.res_max, 4);
    engine_qp_query(t.b->qp, &attr);
    assert_int_equal(attr.max_dest_rd_atomic, 4);
    kit_do(t.a, SQE_READ, 1, t.ma, 0, 100, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    attr = (struct qp_attr){.max_dest_rd_atomic = 0};
    assert_int_equal(engine_qp_modify(e, t.b->qp, &attr, mask, NULL, 5, t.k->now), 0);
    assert_null(t.b->qp->resp.res);
    kit_do(t.a, SQE_READ, 2, t.ma, 0, 100, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 2, WC_REM_INV_REQ_ERR);
    rules_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_come_with_work),     cmocka_unit_test(no_more_slots_than_entries),
        cmocka_unit_test(slots_without_memory),     cmocka_unit_test(reset_gives_back),
        cmocka_unit_test(resources_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
