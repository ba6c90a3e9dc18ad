/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of objects: each once, in a secret order, reused late. */
#include <errno.h>
#include <stdlib.h>

#include "engine.h"
#include "unit.h"

#define COUNT (SRQ_TABLE_SLOTS - 1)

static const uint64_t secret[2] = {UINT64_C(0x452821e638d01377), UINT64_C(0xbe5466cf34e90c6c)};
static struct srq_table *srqs;

static int begin(void **state)
{
    srqs = srq_table_create(secret);
    return srqs ? 0 : -1;
}

static int end(void **state)
{
    srq_table_destroy(srqs);
    return 0;
}

static struct srq *create(void)
{
    static const struct srq_init init;
    int err;
    struct srq *srq = srq_create(srqs, &init, &err);

    assert_non_null(srq);
    assert_true(srq_number(srq) && srq_number(srq) < SRQ_TABLE_SLOTS);
    assert_ptr_equal(srq_table_lookup(srqs, srq_number(srq)), srq);
    return srq;
}

static void test_all_numbers(void **state)
{
    static struct srq *srq[COUNT];
    static uint8_t seen[SRQ_TABLE_SLOTS];
    uint32_t last = 0, before = 0, foreseen = 0, free_one;
    int err;

    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t number;

        srq[i] = create();
        number = srq_number(srq[i]);
        assert_int_equal(seen[number]++, 0);
        foreseen += number == last + 1 || number - last == last - before;
        before = last;
        last = number;
    }
    assert_true(foreseen < 20); /* 2 on average */
    assert_null(srq_create(srqs, &(struct srq_init){0}, &err));
    assert_int_equal(err, -ENOSPC);
    free_one = srq_number(srq[COUNT / 2]);
    srq_free(srq[COUNT / 2]);
    assert_null(srq_table_lookup(srqs, free_one));
    srq[COUNT / 2] = create();
    assert_int_equal(srq_number(srq[COUNT / 2]), free_one);
    for (unsigned i = 0; i < COUNT; i++)
        srq_free(srq[i]);
}

/* After all others, though there is room. */
static void test_late_reuse(void **state)
{
    struct srq *srq = create();
    uint32_t first = srq_number(srq);

    srq_free(srq);
    for (unsigned i = 0; i < COUNT - 1; i++) {
        srq = create();
        assert_int_not_equal(srq_number(srq), first);
        srq_free(srq);
    }
    srq = create();
    assert_int_equal(srq_number(srq), first);
    srq_free(srq);
}

static struct qp *create_qp(struct qp_table *t)
{
    static const struct qp_init init = {.type = QPT_XRC_RECV};
    int err;
    struct qp *qp = qp_create(t, &init, &err);

    assert_non_null(qp);
    return qp;
}

static void test_preferred(void **state)
{
    struct qp_table *t = qp_table_create(secret);
    struct qp *qp[4];

    qp_table_prefer(t, 500);
    qp[0] = create_qp(t);
    assert_int_equal(qp_number(qp[0]), 500);
    qp_table_prefer(t, 500); /* in use */
    qp[1] = create_qp(t);
    assert_int_not_equal(qp_number(qp[1]), 500);
    qp_table_prefer(t, QP_TABLE_SLOTS);
    qp_table_prefer(t, QPN_FIRST - 1);
    qp[2] = create_qp(t);
    assert_true(qp_number(qp[2]) >= QPN_FIRST && qp_number(qp[2]) < QP_TABLE_SLOTS);
    qp_table_prefer(t, 600);
    qp[3] = create_qp(t);
    assert_int_equal(qp_number(qp[3]), 600);
    qp_free(qp[3]);
    qp[3] = create_qp(t); /* once */
    assert_int_not_equal(qp_number(qp[3]), 600);
    for (unsigned i = 0; i < 4; i++)
        qp_free(qp[i]);
    qp_table_destroy(t);
}

static void test_without_secret(void **state)
{
    struct qp_table *t = qp_table_create(NULL);
    struct qp *qp[50];

    for (uint32_t i = 0; i < ARRAY_SIZE(qp); i++) {
        qp[i] = create_qp(t);
        assert_int_equal(qp_number(qp[i]), QPN_FIRST + i);
    }
    for (uint32_t i = 0; i < ARRAY_SIZE(qp); i++)
        qp_free(qp[i]);
    qp_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_numbers, begin, end),
        cmocka_unit_test_setup_teardown(test_late_reuse, begin, end),
        cmocka_unit_test(test_preferred),
        cmocka_unit_test(test_without_secret),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
