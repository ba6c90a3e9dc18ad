/* SPDX-License-Identifier: BSD-3-Clause */
/* The accounts of quotas: what a connection, its user and all users together may take. */
#include "unit.h"

#include <errno.h>

#include "common.h"
#include "control/account.h"
#include "control/limits.h"
#include "random.h"

#define OWNER 1000
#define ALICE 2001
#define BOB   2002

static struct quota quota;
static const struct quota_limits none;

static void open_account(struct quota_account *a, uid_t uid)
{
    assert_int_equal(quota_account_open(&quota, uid, a), 0);
}

static int take(struct quota_account *a, enum quota_kind kind, uint64_t n)
{
    struct quota_cost cost = {0};

    cost.n[kind] = n;
    return quota_charge(a, &cost);
}

static void give(struct quota_account *a, enum quota_kind kind, uint64_t n)
{
    struct quota_cost cost = {0};

    cost.n[kind] = n;
    quota_uncharge(a, &cost);
}

/* Exactly n, and not one more. */
static void take_all(struct quota_account *a, enum quota_kind kind, uint64_t n)
{
    assert_int_equal(take(a, kind, n + 1), -ENOMEM);
    assert_int_equal(take(a, kind, n), 0);
    assert_int_equal(take(a, kind, 1), -ENOMEM);
}

/* Each table of a device: owners may take all of it, another user a quarter; the limits of one
 * connection are older than those of users. */
static void test_defaults(void **state)
{
    quota_init(&quota, &none, OWNER);
    for (unsigned k = 0; k < QUOTA_DEVICE_KINDS; k++) {
        uint64_t max = quota_kind_max(k), client = quota.limit[k].client;

        assert_true(max > 16 && max != UINT64_MAX);
        assert_int_equal(quota_user_limit(&quota, 0, k), max);
        assert_int_equal(quota_user_limit(&quota, OWNER, k), max);
        assert_int_equal(quota_user_limit(&quota, ALICE, k), max / 4);
        assert_int_equal(quota_limit(&quota, OWNER, k), min_of(max, client));
        assert_int_equal(quota_limit(&quota, ALICE, k), min_of(max / 4, client));
    }
    assert_int_equal(quota_limit(&quota, OWNER, QUOTA_QP), LIMIT_QP);
    assert_int_equal(quota_limit(&quota, OWNER, QUOTA_CHANNEL), LIMIT_SESSION_CHANNEL);
    assert_int_equal(quota_limit(&quota, ALICE, QUOTA_CONNECTION), LIMIT_USER_CONNECTION);
    /* Of these the host knows the total. */
    for (unsigned k = QUOTA_DEVICE_KINDS; k < QUOTA_KINDS; k++) {
        if (k == QUOTA_CM_ID) /* the manager has a table */
            continue;
        assert_int_equal(quota_kind_max(k), UINT64_MAX);
        assert_int_equal(quota_limit(&quota, OWNER, k), UINT64_MAX);
        if (k != QUOTA_CONNECTION)
            assert_int_equal(quota_limit(&quota, ALICE, k), UINT64_MAX);
    }
}

static void test_totals(void **state)
{
    static const struct {
        enum quota_kind kind;
        unsigned share;
    } row[] = {{QUOTA_MAPPING, 8},
               {QUOTA_DESCRIPTOR, 8},
               {QUOTA_MEMORY, 4},
               {QUOTA_MAPPED, 2},
               {QUOTA_PD, 4}};
    struct quota_limits limits = {0};

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++)
        limits.total[row[i].kind] = 4096;
    limits.total[QUOTA_CONNECTION] = 64;
    limits.total[QUOTA_QP] = UINT64_MAX; /* the table is smaller */
    limits.total[QUOTA_FLOW] = 2;
    quota_init(&quota, &limits, OWNER);
    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        assert_int_equal(quota_limit(&quota, 0, row[i].kind), 4096);
        assert_int_equal(quota_limit(&quota, ALICE, row[i].kind), 4096 / row[i].share);
    }
    assert_int_equal(quota_limit(&quota, ALICE, QUOTA_CONNECTION), 60); /* not 256 */
    assert_int_equal(quota_limit(&quota, OWNER, QUOTA_QP), LIMIT_QP);
    assert_int_equal(quota_limit(&quota, ALICE, QUOTA_FLOW), 1); /* not none */
}

static void test_configured(void **state)
{
    struct quota_limits limits = {.user[QUOTA_CQ] = 100,
                                  .client[QUOTA_CQ] = 30,
                                  .client[QUOTA_PD] = 7,
                                  .client[QUOTA_CHANNEL] = 4000,
                                  .user[QUOTA_SRQ] = UINT64_MAX};

    quota_init(&quota, &limits, OWNER);
    assert_int_equal(quota_user_limit(&quota, ALICE, QUOTA_CQ), 100);
    assert_int_equal(quota_limit(&quota, ALICE, QUOTA_CQ), 30);
    assert_int_equal(quota_user_limit(&quota, OWNER, QUOTA_CQ), LIMIT_CQ);
    /* A connection's limit is also for owners' connections. */
    assert_int_equal(quota_limit(&quota, OWNER, QUOTA_CQ), 30);
    assert_int_equal(quota_limit(&quota, OWNER, QUOTA_PD), 7);
    assert_int_equal(quota_limit(&quota, OWNER, QUOTA_CHANNEL), 4000);
    /* Everything, except what owners keep. */
    assert_int_equal(quota_limit(&quota, ALICE, QUOTA_SRQ), LIMIT_SRQ - LIMIT_SRQ / 16);
}

/* Another connection does not get another quota. */
static void test_user_has_one_quota(void **state)
{
    struct quota_account a, b, bob;

    quota_init(&quota, &(struct quota_limits){.user[QUOTA_PD] = 100}, OWNER);
    open_account(&a, ALICE);
    open_account(&b, ALICE);
    open_account(&bob, BOB);
    assert_int_equal(take(&a, QUOTA_PD, 60), 0);
    take_all(&b, QUOTA_PD, 40);
    assert_int_equal(take(&a, QUOTA_PD, 1), -ENOMEM);
    assert_int_equal(a.user->used[QUOTA_PD], 100);
    take_all(&bob, QUOTA_PD, 100);
    give(&a, QUOTA_PD, 5);
    take_all(&b, QUOTA_PD, 5);
    assert_int_equal(a.refused[QUOTA_PD], 1);
    assert_int_equal(b.refused[QUOTA_PD], 4);
    assert_int_equal(b.user->refused[QUOTA_PD], 5);
    assert_int_equal(quota.refused[QUOTA_PD], 7);
    quota_account_close(&a);
    take_all(&b, QUOTA_PD, 55);
    quota_account_close(&b);
    quota_account_close(&bob);
    assert_true(LIST_EMPTY(&quota.users));
    assert_int_equal(quota.used[QUOTA_PD], 0);
    quota_account_close(&a); /* was closed */
}

static void test_connection_limit(void **state)
{
    struct quota_account a, b;

    quota_init(&quota, &(struct quota_limits){.client[QUOTA_QP] = 10}, OWNER);
    open_account(&a, OWNER);
    open_account(&b, OWNER);
    take_all(&a, QUOTA_QP, 10);
    take_all(&b, QUOTA_QP, 10);
    quota_account_close(&a);
    quota_account_close(&b);
}

/* All other users together leave a sixteenth to the owners, who may take more. */
static void test_owners_have_a_share(void **state)
{
    struct quota_limits limits = {.total[QUOTA_MEMORY] = 1600, .user[QUOTA_MEMORY] = 1000};
    struct quota_account alice, bob, root, owner;

    quota_init(&quota, &limits, OWNER);
    open_account(&alice, ALICE);
    open_account(&bob, BOB);
    open_account(&root, 0);
    open_account(&owner, OWNER);
    take_all(&alice, QUOTA_MEMORY, 1000);
    take_all(&bob, QUOTA_MEMORY, 500);
    assert_int_equal(take(&owner, QUOTA_MEMORY, 60), 0);
    take_all(&root, QUOTA_MEMORY, 40);
    assert_int_equal(take(&owner, QUOTA_MEMORY, 1), -ENOMEM);
    /* Now owners have more than the others may have together. */
    quota_account_close(&alice);
    quota_account_close(&bob);
    take_all(&root, QUOTA_MEMORY, 1500);
    open_account(&alice, ALICE);
    assert_int_equal(take(&alice, QUOTA_MEMORY, 1), -ENOMEM);
    give(&root, QUOTA_MEMORY, 200);
    take_all(&alice, QUOTA_MEMORY, 100);
    quota_account_close(&alice);
    quota_account_close(&root);
    quota_account_close(&owner);
}

/* A cost of several kinds is taken whole, or not at all. */
static void test_all_or_nothing(void **state)
{
    struct quota_limits limits = {.total[QUOTA_MEMORY] = 100, .total[QUOTA_PD] = 3};
    const struct quota_cost cost = {{[QUOTA_PD] = 1, [QUOTA_MEMORY] = 40}};
    struct quota_account a;

    quota_init(&quota, &limits, OWNER);
    open_account(&a, OWNER);
    assert_int_equal(quota_charge(&a, &cost), 0);
    assert_int_equal(quota_charge(&a, &cost), 0);
    assert_int_equal(quota_charge(&a, &cost), -ENOMEM);
    assert_int_equal(a.used[QUOTA_PD], 2);
    assert_int_equal(a.used[QUOTA_MEMORY], 80);
    assert_int_equal(a.refused[QUOTA_MEMORY], 1);
    assert_int_equal(a.refused[QUOTA_PD], 0);
    assert_int_equal(take(&a, QUOTA_MEMORY, UINT64_MAX), -ENOMEM); /* no overflow */
    quota_uncharge(&a, &cost);
    assert_int_equal(quota_charge(&a, &cost), 0);
    quota_account_close(&a);
}

/* What is given back later counts until then, also when the connection has ended. */
static void test_moved(void **state)
{
    const struct quota_cost cost = {{[QUOTA_MAPPING] = 4, [QUOTA_MEMORY] = 10}};
    struct quota_account a, late, never = {0};

    quota_init(&quota, &(struct quota_limits){.user[QUOTA_MAPPING] = 10}, OWNER);
    open_account(&a, ALICE);
    a.device = 3;
    assert_int_equal(take(&a, QUOTA_MAPPING, 6), 0);
    assert_int_equal(take(&a, QUOTA_MEMORY, 10), 0);
    quota_move(&a, &cost, &late);
    assert_int_equal(a.used[QUOTA_MAPPING], 2);
    assert_int_equal(a.used[QUOTA_MEMORY], 0);
    take_all(&a, QUOTA_MAPPING, 4);
    quota_account_close(&a);
    open_account(&a, ALICE);
    take_all(&a, QUOTA_MAPPING, 6);
    quota_account_close(&late);
    take_all(&a, QUOTA_MAPPING, 4);
    quota_account_close(&a);
    assert_true(LIST_EMPTY(&quota.users));
    for (unsigned i = 0; i < QUOTA_COUNTS; i++)
        assert_int_equal(quota.used[i], 0);
    quota_move(&never, &cost, &late);
    quota_account_close(&late);
}

/* Each device has tables of its own; the daemon has one memory. */
static void test_devices(void **state)
{
    struct quota_limits limits = {.user[QUOTA_AH] = 10, .user[QUOTA_MEMORY] = 10};
    struct quota_account a[QUOTA_DEVICES];

    quota_init(&quota, &limits, OWNER);
    for (unsigned i = 0; i < QUOTA_DEVICES; i++) {
        open_account(&a[i], ALICE);
        a[i].device = i;
        take_all(&a[i], QUOTA_AH, 10);
    }
    assert_int_equal(take(&a[3], QUOTA_MEMORY, 6), 0);
    take_all(&a[15], QUOTA_MEMORY, 4);
    give(&a[7], QUOTA_AH, 2);
    assert_int_equal(a[7].user->used[quota_count(7, QUOTA_AH)], 8);
    assert_int_equal(a[8].user->used[quota_count(8, QUOTA_AH)], 10);
    for (unsigned i = 0; i < QUOTA_DEVICES; i++)
        quota_account_close(&a[i]);
    for (unsigned i = 0; i < QUOTA_COUNTS; i++)
        assert_int_equal(quota.used[i], 0);
}

/* Against a plain sum over all accounts. */
static void test_random_charges(void **state)
{
    enum { ACCOUNTS = 12, LIMIT = 400 };
    struct quota_account a[ACCOUNTS];
    struct random random = {7};
    uint64_t total = 0;

    quota_init(&quota, &(struct quota_limits){.total[QUOTA_WQ] = LIMIT}, OWNER);
    for (unsigned i = 0; i < ACCOUNTS; i++)
        open_account(&a[i], i % 4 ? ALICE + i % 3 : OWNER);
    for (unsigned i = 0; i < 20000; i++) {
        struct quota_account *x = &a[random_below(&random, ACCOUNTS)];
        uint64_t n = random_below(&random, 50), of_user = 0, others = 0;
        bool owner = x->user->uid == OWNER;

        if (random_below(&random, 2)) {
            n = min_of(n, x->used[QUOTA_WQ]);
            give(x, QUOTA_WQ, n);
            total -= n;
            continue;
        }
        for (unsigned k = 0; k < ACCOUNTS; k++) {
            of_user += a[k].user == x->user ? a[k].used[QUOTA_WQ] : 0;
            others += a[k].used[QUOTA_WQ];
        }
        assert_int_equal(others, total);
        if (take(x, QUOTA_WQ, n)) {
            assert_true(of_user + n > (owner ? LIMIT : LIMIT / 4) ||
                        total + n > (owner ? LIMIT : LIMIT - LIMIT / 16));
        } else {
            assert_true(!n || (of_user + n <= (owner ? LIMIT : LIMIT / 4) &&
                               total + n <= (owner ? LIMIT : LIMIT - LIMIT / 16)));
            total += n;
        }
    }
    for (unsigned i = 0; i < ACCOUNTS; i++)
        quota_account_close(&a[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),         cmocka_unit_test(test_totals),
        cmocka_unit_test(test_configured),       cmocka_unit_test(test_user_has_one_quota),
        cmocka_unit_test(test_connection_limit), cmocka_unit_test(test_owners_have_a_share),
        cmocka_unit_test(test_all_or_nothing),   cmocka_unit_test(test_moved),
        cmocka_unit_test(test_devices),          cmocka_unit_test(test_random_charges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
