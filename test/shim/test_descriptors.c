/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that may have no more descriptors: the calls that need one fail with EMFILE, and all
 * works when there is room again. Over a daemon (run_descriptors.py).
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "descriptors.h"
#include "unit.h"
#include "verbs_pair.h"

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct rlimit usual;

/* From now on the process may have that many more: all lower numbers are taken. */
static void leave_room(unsigned n)
{
    int lowest = dup(STDIN_FILENO);
    struct rlimit low;

    close(lowest);
    low = (struct rlimit){(rlim_t)lowest + n, usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
}

static void give_room(void)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
}

static int setup(void **state)
{
    return getrlimit(RLIMIT_NOFILE, &usual);
}

/* ---- objects ---- */

static void *make_channel(void)
{
    return ibv_create_comp_channel(ctx);
}

static int end_channel(void *o)
{
    return ibv_destroy_comp_channel(o);
}

static void *make_cq(void)
{
    return ibv_create_cq(ctx, 1000, NULL, NULL, 0);
}

static int end_cq(void *o)
{
    return ibv_destroy_cq(o);
}

static void *make_queue_pair(void)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {200, 200, 1, 1, 0}};

    return ibv_create_qp(pd, &init);
}

static int end_queue_pair(void *o)
{
    return ibv_destroy_qp(o);
}

static void *make_srq(void)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 500, .max_sge = 1}};

    return ibv_create_srq(pd, &init);
}

static int end_srq(void *o)
{
    return ibv_destroy_srq(o);
}

static void *make_dm(void)
{
    struct ibv_alloc_dm_attr attr = {.length = 4096};

    return ibv_alloc_dm(ctx, &attr);
}

static int end_dm(void *o)
{
    return ibv_free_dm(o);
}

static const struct kind {
    const char *name;
    void *(*make)(void);
    int (*end)(void *o);
} kinds[] = {
    {"channel", make_channel, end_channel},
    {"queue pair", make_queue_pair, end_queue_pair},
    {"SRQ", make_srq, end_srq},
    {"device memory", make_dm, end_dm},
    {"CQ", make_cq, end_cq},
};

static void open_all(void)
{
    ctx = open_first();
    pd = ibv_alloc_pd(ctx);
    cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
    assert_non_null(pd);
    assert_non_null(cq);
}

static void close_all(void)
{
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(ctx), 0);
}

/* The connection with the daemon goes on. */
static void works(void)
{
    struct ibv_pd *other = ibv_alloc_pd(ctx);

    assert_non_null(other);
    assert_int_equal(ibv_dealloc_pd(other), 0);
}

/* Twice: the daemon may not keep memory for the second that the process has not got. */
static void check_kind(const struct kind *k)
{
    void *o[2];

    print_message("# %s\n", k->name);
    open_all();
    leave_room(0);
    for (unsigned i = 0; i < 2; i++) {
        errno = 0;
        assert_null(k->make());
        assert_int_equal(errno, EMFILE);
        works();
    }
    give_room();
    for (unsigned i = 0; i < 2; i++) {
        o[i] = k->make();
        assert_non_null(o[i]);
    }
    assert_int_equal(k->end(o[0]), 0);
    assert_int_equal(k->end(o[1]), 0);
    works();
    close_all();
}

static void test_create(void **state)
{
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        check_kind(&kinds[i]);
}

/* What exists stays as it is. */
static void test_resize(void **state)
{
    struct ibv_srq_attr more = {.max_wr = 4000};
    struct ibv_srq *srq;

    open_all();
    srq = make_srq();
    assert_non_null(srq);
    leave_room(0);
    assert_int_equal(ibv_resize_cq(cq, 5000), EMFILE);
    assert_int_equal(ibv_modify_srq(srq, &more, IBV_SRQ_MAX_WR), EMFILE);
    works();
    give_room();
    assert_int_equal(ibv_resize_cq(cq, 5000), 0);
    assert_int_equal(ibv_modify_srq(srq, &more, IBV_SRQ_MAX_WR), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    close_all();
}

/* A context has several at once, and only some of them arrive. */
static void test_open(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    unsigned before, room;

    assert_non_null(list);
    open_all(); /* what the library keeps is there from now on */
    close_all();
    before = open_descriptors();
    ctx = NULL;
    for (room = 0; !ctx; room++) {
        assert_true(room < 64);
        leave_room(room);
        errno = 0;
        ctx = ibv_open_device(list[0]);
        if (!ctx)
            assert_int_equal(errno, EMFILE);
        give_room();
        if (!ctx)
            assert_int_equal(open_descriptors(), before);
    }
    assert_true(room > 3);
    works();
    assert_int_equal(ibv_close_device(ctx), 0);
    ibv_free_device_list(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_open),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
