/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: binding, every refusal, access through one, and how they end (volume 1, 10.6.7).
 */
#include <errno.h>

#include "common.h"
#include "mem_batch.h"
#include "mem_window.h"
#include "unit.h"

#define PD       7u
#define OTHER_PD 8u
#define QPN      0x11u
#define BASE     UINT64_C(0x10000) /* the region's address in work requests ... */
#define HOST     UINT64_C(0x70000) /* ... and in the application */
#define LEN      UINT64_C(0x1000)

#define ALL_REMOTE (MEM_REMOTE_READ | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)

static const uint64_t secret[2] = {1, 2};
static uint8_t bytes[LEN];
static struct mr_table table;
static struct mr_cache cache = {.table = &table};
static struct mem_region region, read_only, unbindable, foreign;
static struct mem_region one, two;

static struct mem_region a_region(uint32_t pd, uint32_t access)
{
    return (struct mem_region){
        .pd = pd, .access = access, .iova = BASE, .addr = HOST, .len = LEN, .direct = bytes};
}

static void refuse(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(one.gate, 1); /* held still */
        io[i].status = -EFAULT;
    }
}
static const struct mem_backend never = {.copy_in = refuse, .copy_out = refuse};

static int setup(void **state)
{
    region = a_region(PD, MEM_LOCAL_WRITE | MEM_MW_BIND);
    read_only = a_region(PD, MEM_MW_BIND);
    unbindable = a_region(PD, MEM_LOCAL_WRITE | ALL_REMOTE);
    foreign = a_region(OTHER_PD, MEM_LOCAL_WRITE | MEM_MW_BIND);
    one = (struct mem_region){.kind = MEM_WINDOW_1, .pd = PD};
    two = (struct mem_region){.kind = MEM_WINDOW_2, .pd = PD};
    return mr_table_init(&table, 16, secret) || mr_insert(&table, &region, 1) ||
           mr_insert(&table, &read_only, 2) || mr_insert(&table, &unbindable, 3) ||
           mr_insert(&table, &foreign, 4) || mr_insert(&table, &one, 5) ||
           mr_insert(&table, &two, 6);
}

static int teardown(void **state)
{
    mr_table_fini(&table);
    return 0;
}

/* The whole region, with all rights, under the next key. */
static struct window_bind whole(const struct mem_region *w)
{
    return (struct window_bind){.window_key = w->key,
                                .new_key = (w->key & ~0xFFu) | ((w->key + 1) & 0xFF),
                                .region_key = region.key,
                                .pd = PD,
                                .qpn = QPN,
                                .va = BASE,
                                .len = LEN,
                                .access = ALL_REMOTE};
}

static enum mr_fault bind(struct mem_region *w)
{
    struct window_bind b = whole(w);

    return window_bind(&table, &b);
}

static enum mr_fault check(uint32_t key, uint64_t va, uint64_t len, uint32_t access)
{
    struct mr_span span = {0};
    enum mr_fault f = mr_check_remote(&cache, key, PD, QPN, va, len, access, &span);

    mr_span_end(&span);
    return f;
}

/* The address of a byte under the key. */
static struct mr_span reach(uint32_t key, uint64_t va)
{
    struct mr_span span = {0};

    assert_int_equal(mr_check_remote(&cache, key, PD, QPN, va, 1, 0, &span), MR_OK);
    mr_span_end(&span);
    return span;
}

static void test_born_unbound(void **state)
{
    assert_int_equal(check(one.key, BASE, 1, 0), MR_BAD_KEY);
    assert_int_equal(check(two.key, 0, 0, 0), MR_BAD_KEY);
    assert_ptr_equal(mr_lookup(&table, one.key), &one);
}

static void test_bind(void **state)
{
    struct mem_region *const window[] = {&one, &two};

    for (unsigned i = 0; i < ARRAY_SIZE(window); i++) {
        struct mem_region *w = window[i];
        struct window_bind b = whole(w);

        b.va += 16;
        b.len = 100;
        assert_int_equal(window_bind(&table, &b), MR_OK);
        assert_int_equal(w->key, b.new_key);
        assert_null(mr_lookup(&table, b.window_key)); /* the old key */
        assert_int_equal(check(w->key, BASE + 16, 100, ALL_REMOTE), MR_OK);
        assert_ptr_equal(reach(w->key, BASE + 20).mr, &region);
        assert_int_equal(reach(w->key, BASE + 20).addr, HOST + 20);
        assert_int_equal(check(w->key, BASE + 15, 1, 0), MR_BAD_RANGE);
        assert_int_equal(check(w->key, BASE + 16, 101, 0), MR_BAD_RANGE);
        assert_int_equal(check(w->key, BASE + 116, 1, 0), MR_BAD_RANGE);
        assert_int_equal(region.windows, i + 1);
    }
}

/* A window grants peers rights that the region itself does not, and no more than it was
 * bound with. */
static void test_rights(void **state)
{
    static const struct {
        uint32_t bound, asked;
        enum mr_fault fault;
    } rows[] = {
        {MEM_REMOTE_READ, MEM_REMOTE_READ, MR_OK},
        {MEM_REMOTE_READ, MEM_REMOTE_WRITE, MR_BAD_ACCESS},
        {MEM_REMOTE_READ, MEM_REMOTE_ATOMIC, MR_BAD_ACCESS},
        {MEM_REMOTE_WRITE, MEM_REMOTE_WRITE, MR_OK},
        {MEM_REMOTE_WRITE, MEM_REMOTE_READ, MR_BAD_ACCESS},
        {MEM_REMOTE_ATOMIC, MEM_REMOTE_ATOMIC, MR_OK},
        {0, 0, MR_OK},
        {0, MEM_REMOTE_READ, MR_BAD_ACCESS},
        /* A window's key is never an L_Key. */
        {MEM_REMOTE_WRITE | MEM_LOCAL_WRITE, MEM_LOCAL_WRITE, MR_BAD_ACCESS},
        {MEM_REMOTE_READ | MEM_ACCESS_OPTIONAL, MEM_REMOTE_READ, MR_OK},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
        struct window_bind b = whole(&one);

        b.access = rows[i].bound;
        assert_int_equal(window_bind(&table, &b), MR_OK);
        assert_int_equal(check(one.key, BASE, 8, rows[i].asked), rows[i].fault);
    }
    assert_int_equal(check(region.key, BASE, 8, MEM_REMOTE_READ), MR_BAD_ACCESS);
}

/* A refused bind changes nothing: the old binding and key stay valid. */
static void refused(struct mem_region *w, struct window_bind b, enum mr_fault fault)
{
    struct mem_region before = *w;
    uint32_t windows = region.windows;

    assert_int_equal(window_bind(&table, &b), fault);
    assert_memory_equal(w, &before, sizeof(before));
    assert_int_equal(region.windows, windows);
}

static void test_refusals(void **state)
{
    struct mem_region *const window[] = {&one, &two};

    for (unsigned i = 0; i < ARRAY_SIZE(window); i++) {
        struct mem_region *w = window[i];
        struct window_bind b;

#define REFUSED(change, fault) (b = whole(w), change, refused(w, b, fault))
        REFUSED(b.window_key ^= 1, MR_BAD_KEY);
        REFUSED(b.window_key = region.key, MR_BAD_KEY);
        REFUSED(b.new_key ^= 0x100, MR_BAD_KEY);
        REFUSED(b.new_key ^= 0x80000000, MR_BAD_KEY);
        REFUSED(b.pd = OTHER_PD, MR_BAD_PD);
        REFUSED(b.region_key = foreign.key, MR_BAD_PD);
        REFUSED(b.region_key ^= 1, MR_BAD_KEY);
        REFUSED(b.region_key = 0, MR_BAD_KEY);
        REFUSED(b.region_key = w->key, MR_BAD_KEY);
        REFUSED(b.region_key = unbindable.key, MR_BAD_ACCESS);
        REFUSED((b.region_key = read_only.key, b.access = MEM_REMOTE_WRITE), MR_BAD_ACCESS);
        REFUSED((b.region_key = read_only.key, b.access = MEM_REMOTE_ATOMIC), MR_BAD_ACCESS);
        REFUSED(b.access |= MEM_MW_BIND, MR_BAD_ACCESS);
        REFUSED(b.access |= MEM_FLUSH_GLOBAL, MR_BAD_ACCESS);
        REFUSED(b.access |= 1u << 31, MR_BAD_ACCESS);
        REFUSED(b.va -= 1, MR_BAD_RANGE);
        REFUSED(b.va += 1, MR_BAD_RANGE);
        REFUSED(b.len += 1, MR_BAD_RANGE);
        REFUSED(b.len = UINT64_MAX, MR_BAD_RANGE);
        REFUSED((b.va = UINT64_MAX, b.len = 2), MR_BAD_RANGE);
#undef REFUSED
        b = whole(w);
        b.region_key = read_only.key;
        b.access = MEM_REMOTE_READ;
        assert_int_equal(window_bind(&table, &b), MR_OK);
    }
}

/* A bound window is no region that another window could be bound to. */
static void test_window_on_window(void **state)
{
    struct window_bind b = whole(&two);

    assert_int_equal(bind(&one), MR_OK);
    one.access |= MEM_MW_BIND; /* even then */
    b.region_key = one.key;
    refused(&two, b, MR_BAD_KEY);
}

static void test_rebind_type_1(void **state)
{
    struct window_bind b;
    uint32_t old;

    assert_int_equal(bind(&one), MR_OK);
    old = one.key;
    b = whole(&one);
    b.va += 8;
    b.len = 8;
    b.qpn++; /* any queue pair of the domain */
    assert_int_equal(window_bind(&table, &b), MR_OK);
    assert_int_equal(check(old, BASE, 1, 0), MR_BAD_KEY);
    assert_int_equal(check(one.key, BASE, 1, 0), MR_BAD_RANGE);
    assert_int_equal(check(one.key, BASE + 8, 8, ALL_REMOTE), MR_OK);
    assert_int_equal(region.windows, 1);

    /* To another region: the first is free. */
    b = whole(&one);
    b.region_key = read_only.key;
    b.access = MEM_REMOTE_READ;
    assert_int_equal(window_bind(&table, &b), MR_OK);
    assert_int_equal(region.windows, 0);
    assert_int_equal(read_only.windows, 1);
}

/* Length 0 takes a type 1 window off its region; no region is looked at. */
static void test_unbind_type_1(void **state)
{
    struct window_bind b;

    assert_int_equal(bind(&one), MR_OK);
    b = whole(&one);
    b.len = 0;
    b.region_key = 0;
    assert_int_equal(window_bind(&table, &b), MR_OK);
    assert_int_equal(one.key, b.new_key);
    assert_int_equal(check(one.key, BASE, 0, 0), MR_BAD_KEY);
    assert_int_equal(check(b.window_key, BASE, 1, 0), MR_BAD_KEY);
    assert_int_equal(region.windows, 0);
    assert_int_equal(bind(&one), MR_OK);
    assert_int_equal(check(one.key, BASE, 1, 0), MR_OK);
}

static void test_type_2_binds_once(void **state)
{
    struct window_bind b = whole(&two);

    b.len = 0;
    refused(&two, b, MR_BAD_ACCESS);
    assert_int_equal(bind(&two), MR_OK);
    refused(&two, whole(&two), MR_BAD_ACCESS);
    b = whole(&two);
    b.len = 0;
    refused(&two, b, MR_BAD_ACCESS);
}

static void test_invalidate(void **state)
{
    uint32_t key;

    assert_int_equal(window_invalidate(&table, two.key, PD, QPN), MR_BAD_KEY); /* not bound */
    assert_int_equal(bind(&two), MR_OK);
    assert_int_equal(bind(&one), MR_OK);
    key = two.key;
    assert_int_equal(window_invalidate(&table, key ^ 1, PD, QPN), MR_BAD_KEY);
    assert_int_equal(window_invalidate(&table, 0, PD, QPN), MR_BAD_KEY);
    assert_int_equal(window_invalidate(&table, key, OTHER_PD, QPN), MR_BAD_PD);
    assert_int_equal(window_invalidate(&table, key, PD, QPN + 1), MR_BAD_PD);
    assert_int_equal(window_invalidate(&table, one.key, PD, QPN), MR_BAD_ACCESS);
    assert_int_equal(window_invalidate(&table, region.key, PD, QPN), MR_BAD_ACCESS);
    assert_int_equal(check(key, BASE, 1, MEM_REMOTE_WRITE), MR_OK);
    assert_int_equal(region.windows, 2);

    assert_int_equal(window_invalidate(&table, key, PD, QPN), MR_OK);
    assert_int_equal(check(key, BASE, 1, 0), MR_BAD_KEY);
    assert_int_equal(window_invalidate(&table, key, PD, QPN), MR_BAD_KEY);
    assert_int_equal(region.windows, 1);
    /* It can be bound again, from the key that it had. */
    assert_int_equal(bind(&two), MR_OK);
    assert_int_not_equal(two.key, key);
    assert_int_equal(check(two.key, BASE, 1, MEM_REMOTE_WRITE), MR_OK);
}

static enum mr_fault check_for(uint32_t key, uint32_t pd, uint32_t qpn)
{
    struct mr_span span = {0};
    enum mr_fault f = mr_check_remote(&cache, key, pd, qpn, BASE, 1, 0, &span);

    mr_span_end(&span);
    return f;
}

static void test_whom_it_serves(void **state)
{
    assert_int_equal(bind(&one), MR_OK);
    assert_int_equal(bind(&two), MR_OK);
    assert_int_equal(check_for(two.key, PD, QPN), MR_OK);
    assert_int_equal(check_for(two.key, PD, QPN + 1), MR_BAD_PD);
    assert_int_equal(check_for(one.key, PD, QPN + 1), MR_OK);
    assert_int_equal(check_for(region.key, PD, QPN + 1), MR_OK);
    assert_int_equal(check_for(one.key, OTHER_PD, QPN), MR_BAD_PD);
    assert_int_equal(check_for(two.key, OTHER_PD, QPN), MR_BAD_PD);
}

/* The application itself cannot use it: not even to read, which takes no right. */
static void test_no_local_key(void **state)
{
    struct mem_region *found;

    assert_int_equal(bind(&one), MR_OK);
    assert_int_equal(bind(&two), MR_OK);
    assert_int_equal(mr_check(&cache, one.key, PD, BASE, 1, MEM_LOCAL_READ, &found), MR_BAD_KEY);
    assert_int_equal(mr_check(&cache, two.key, PD, BASE, 1, MEM_LOCAL_READ, &found), MR_BAD_KEY);
}

/* A transfer that waits in a batch completes before the flush releases the window. */
static void test_batch_holds(void **state)
{
    struct mem_batch batch = {0};
    struct mr_span span;
    uint8_t byte = 1;

    assert_int_equal(bind(&one), MR_OK);
    assert_int_equal(mr_check_remote(&cache, one.key, PD, QPN, BASE, 1, 0, &span), MR_OK);
    assert_int_equal(one.gate, 1);
    assert_true(mem_batch_out_span(&batch, &span, &byte, 1, 0)); /* mapped: at once */
    assert_int_equal(one.gate, 0);

    region.direct = NULL;
    region.backend = &never;
    assert_int_equal(mr_check_remote(&cache, one.key, PD, QPN, BASE, 1, 0, &span), MR_OK);
    assert_false(mem_batch_in_span(&batch, &span, &byte, 1, 0));
    mr_span_end(&span); /* the batch has it */
    assert_int_equal(one.gate, 1);
    assert_int_equal(mem_batch_flush_in(&batch), 1);
    assert_int_equal(one.gate, 0);
}

/* No window can be bound to a region that is being removed, and a region is not removed while one
 * is bound. */
static void test_close_region(void **state)
{
    assert_int_equal(bind(&one), MR_OK);
    assert_false(region_close(&region));
    assert_int_equal(bind(&two), MR_OK); /* the check reserves nothing */
    assert_int_equal(window_invalidate(&table, two.key, PD, QPN), MR_OK);
    window_unbind(&one);
    assert_true(region_close(&region));
    assert_int_equal(bind(&one), MR_BAD_KEY);
    assert_int_equal(bind(&two), MR_BAD_KEY);
    assert_int_equal(check(region.key, BASE, 1, 0), MR_OK); /* it is still there */
}

static void test_zero_based(void **state)
{
    struct window_bind b = whole(&one);

    b.va += 64;
    b.len = 32;
    b.access |= MEM_ZERO_BASED;
    assert_int_equal(window_bind(&table, &b), MR_OK);
    assert_int_equal(check(one.key, 0, 32, ALL_REMOTE), MR_OK);
    assert_int_equal(check(one.key, 32, 1, 0), MR_BAD_RANGE);
    assert_int_equal(check(one.key, BASE + 64, 1, 0), MR_BAD_RANGE);
    assert_int_equal(reach(one.key, 3).addr, HOST + 67);
}

static void test_same_key_again(void **state)
{
    struct window_bind b = whole(&one);

    b.new_key = b.window_key; /* the program chooses it */
    assert_int_equal(window_bind(&table, &b), MR_OK);
    assert_int_equal(check(one.key, BASE, LEN, ALL_REMOTE), MR_OK);
}

/* Deallocated while bound: out of the table, off the region; its slot can serve another. */
static void test_end_while_bound(void **state)
{
    uint32_t key;

    assert_int_equal(bind(&one), MR_OK);
    key = one.key;
    mr_remove(&table, &one);
    window_unbind(&one);
    window_unbind(&one);
    assert_int_equal(region.windows, 0);
    assert_null(mr_lookup(&table, key));
    assert_int_equal(bind(&one), MR_BAD_KEY);
}

/* A region whose memory is gone takes no window with it. */
static void test_region_fails(void **state)
{
    struct mem_region other = a_region(PD, MEM_LOCAL_WRITE | MEM_MW_BIND);
    struct window_bind b;

    assert_int_equal(mr_insert(&table, &other, 7), 0);
    assert_int_equal(bind(&one), MR_OK);
    assert_int_equal(bind(&two), MR_OK);
    mr_fail(&table, &region);
    assert_int_equal(check(one.key, BASE, 1, MEM_REMOTE_READ), MR_BAD_PD);
    assert_int_equal(check(two.key, BASE, 1, MEM_REMOTE_READ), MR_BAD_PD);
    assert_int_equal(window_invalidate(&table, two.key, PD, QPN), MR_OK);
    assert_int_equal(bind(&two), MR_BAD_PD);
    b = whole(&one);
    b.region_key = other.key;
    assert_int_equal(window_bind(&table, &b), MR_OK);
    assert_int_equal(check(one.key, BASE, 1, MEM_REMOTE_READ), MR_OK);
    assert_false(region_has_windows(&region));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_born_unbound),     T(test_bind),
        T(test_rights),           T(test_refusals),
        T(test_window_on_window), T(test_rebind_type_1),
        T(test_unbind_type_1),    T(test_type_2_binds_once),
        T(test_invalidate),       T(test_whom_it_serves),
        T(test_no_local_key),     T(test_batch_holds),
        T(test_close_region),     T(test_zero_based),
        T(test_same_key_again),   T(test_end_while_bound),
        T(test_region_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
