/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared receive queue goes over to another ring while workers take from it. */
#include "srq.h"
#include "unit.h"

#define SIZE   8u
#define STRIDE 64u
#define POSTED 5u

struct ring {
    _Alignas(CACHE_LINE) uint8_t bytes[SIZE * STRIDE];
    _Atomic uint32_t prod, taken;
};

static struct ring old, fresh;
static struct srq *srq;
static unsigned copied;

static struct work_queue queue_of(struct ring *r)
{
    return (struct work_queue){
        .ring = r->bytes, .prod = &r->prod, .size = SIZE, .stride = STRIDE, .max_sge = 1};
}

static uint64_t take(void)
{
    struct recv_wqe wqe;
    bool limit;

    assert_int_equal(srq_take(srq, &wqe, &limit), 0);
    return wqe.h.wr_id;
}

/* A worker is served at once: it does not wait for the copy, which may be of megabytes. */
static void copy(void *ctx, uint32_t first, uint32_t end)
{
    assert_false(atomic_flag_test_and_set(&srq->lock));
    atomic_flag_clear(&srq->lock);
    assert_int_equal(take(), 1);
    for (uint32_t i = first; i != end; i++, copied++)
        memcpy(work_queue_slot(fresh.bytes, SIZE, STRIDE, i),
               work_queue_slot(old.bytes, SIZE, STRIDE, i), STRIDE);
    atomic_store(&fresh.prod, end);
    assert_int_equal(take(), 2);
}

static void test_moves_beside_workers(void **state)
{
    const uint64_t secret[2] = {1, 2};
    struct srq_table *t = srq_table_create(secret);
    struct srq_init init = {.wq = queue_of(&old), .taken = &old.taken};
    struct work_queue to = queue_of(&fresh);
    int err;

    srq = srq_create(t, &init, &err);
    assert_non_null(srq);
    for (uint32_t i = 0; i < POSTED; i++)
        *(struct rqe *)work_queue_slot(old.bytes, SIZE, STRIDE, i) = (struct rqe){.wr_id = i};
    atomic_store(&old.prod, POSTED);
    assert_int_equal(take(), 0);
    srq_move(srq, &to, &fresh.taken, copy, NULL);
    assert_int_equal(copied, POSTED - 1);
    assert_int_equal(atomic_load(&fresh.taken), 3);
    assert_int_equal(srq_waiting(srq), POSTED - 3);
    memset(old.bytes, 0xFF, sizeof(old.bytes));
    assert_int_equal(take(), 3);
    assert_int_equal(take(), 4);
    assert_int_equal(atomic_load(&fresh.taken), POSTED);
    srq_free(srq);
    srq_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves_beside_workers),
    };

    return cmocka_run_group_tests_name("transport_srq", tests, NULL, NULL);
}
