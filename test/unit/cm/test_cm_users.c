/* SPDX-License-Identifier: BSD-3-Clause */
/* What one user of the host may have of what all share: port numbers, and ids that linger. */
#include <errno.h>

#include "cm_internal.h"
#include "cm_kit.h"
#include "unit.h"

#define FIRST 40000
#define PORT  7471

static const struct cm_private none;

static struct cm_id *new_id(struct cm_kit *k, unsigned node, uint32_t user,
                            const struct cm_user_limits *limits)
{
    int err;
    struct cm_id *id = cm_id_create(k->node[node].cm, IP_CM_PS_TCP, k, &err);

    assert_non_null(id);
    if (limits)
        assert_int_equal(cm_id_set_user(id, user, limits), 0);
    return id;
}

static unsigned users(const struct cm_kit *k, unsigned node)
{
    const struct cm_user *u;
    unsigned n = 0;

    LIST_FOREACH(u, &k->node[node].cm->users, link)
    n++;
    return n;
}

/* The range has ten numbers, and each user may have four. */
static void test_numbers(void **state)
{
    struct cm_kit *k = cm_kit_new(&(struct cm_config){.first_port = FIRST, .last_port = FIRST + 9});
    const struct cm_counters *c = cm_counters(k->node[0].cm);
    static const struct cm_user_limits four = {.numbers = 4};
    struct cm_addr a = cm_kit_addr(k, 0, 0), other;
    struct cm_id *id[4], *late;

    for (unsigned i = 0; i < 4; i++) {
        id[i] = new_id(k, 0, 7, &four);
        assert_int_equal(cm_bind(id[i], &a, NULL, 0), 0);
    }
    late = new_id(k, 0, 7, &four);
    assert_int_equal(cm_bind(late, &a, NULL, 0), -EADDRNOTAVAIL);
    assert_int_equal(c->numbers_refused, 1);
    /* Nor one of the range that it names, but any other. */
    for (uint16_t n = FIRST; n < FIRST + 10; n++) {
        other = cm_kit_addr(k, 0, n);
        assert_int_not_equal(cm_bind(late, &other, NULL, 0), 0);
    }
    assert_int_equal(c->numbers_refused, 1 + 6);
    other = cm_kit_addr(k, 0, FIRST + 10);
    assert_int_equal(cm_bind(late, &other, NULL, 0), 0);
    assert_int_equal(cm_bind(new_id(k, 0, 7, &four), &a, NULL, 0), -EADDRNOTAVAIL);
    /* Another user's are its own, and an id of none has no limit. */
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(cm_bind(new_id(k, 0, 8, &four), &a, NULL, 0), 0);
    assert_int_equal(cm_bind(new_id(k, 0, 8, &four), &a, NULL, 0), -EADDRNOTAVAIL);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(cm_bind(new_id(k, 0, 0, NULL), &a, NULL, 0), 0);
    assert_int_equal(c->numbers_refused, 9);
    /* None is left for those who may have more; then one is, again. */
    assert_int_equal(cm_bind(new_id(k, 0, 0, NULL), &a, NULL, 0), -EADDRNOTAVAIL);
    assert_int_equal(c->numbers_refused, 9);
    cm_id_destroy(id[0], k->now);
    assert_int_equal(cm_bind(new_id(k, 0, 7, &four), &a, NULL, 0), 0);
    cm_kit_free(k);
}

/* A number counts once, whatever the number of ids that share it. */
static void test_shared_numbers(void **state)
{
    struct cm_kit *k = cm_kit_new(&(struct cm_config){.first_port = FIRST, .last_port = FIRST + 9});
    const struct cm_counters *c = cm_counters(k->node[0].cm);
    static const struct cm_user_limits two = {.numbers = 2};
    struct cm_addr a = cm_kit_addr(k, 0, 0), elsewhere = cm_kit_addr(k, 1, 99);
    struct cm_id *id[2 * 50], *others[2];

    /* Another user's numbers could be shared, too. */
    for (unsigned i = 0; i < 2; i++) {
        others[i] = new_id(k, 0, 8, &two);
        assert_int_equal(cm_bind(others[i], &a, &elsewhere, 0), 0);
    }
    /* Two go to each destination. */
    for (unsigned i = 0; i < 2 * 50; i++) {
        struct cm_addr to = cm_kit_addr(k, 1, (uint16_t)(100 + i / 2));

        id[i] = new_id(k, 0, 7, &two);
        assert_int_equal(cm_bind(id[i], &a, &to, 0), 0);
        if (i % 2) {
            struct cm_id *third = new_id(k, 0, 7, &two);

            assert_int_equal(cm_bind(third, &a, &to, 0), -EADDRNOTAVAIL);
            cm_id_destroy(third, k->now);
        }
    }
    assert_int_equal(c->numbers_refused, 50);
    assert_int_equal(id[0]->user->numbers, 2);
    for (unsigned i = 0; i < 2 * 50; i++) {
        assert_int_equal(id[2 * 50 - 1]->user->numbers, 2 - (i == 2 * 50 - 1));
        cm_id_destroy(id[i], k->now);
    }
    assert_int_equal(users(k, 0), 1);
    for (unsigned i = 0; i < 2; i++)
        cm_id_destroy(others[i], k->now);
    assert_int_equal(users(k, 0), 0);
    cm_kit_free(k);
}

/* A user is set once, before all else; the limits are those of the last time. */
static void test_whose(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    static const struct cm_user_limits one = {.numbers = 1}, many = {0};
    struct cm_addr a = cm_kit_addr(k, 0, 0);
    struct cm_id *id = new_id(k, 0, 0, NULL);

    assert_int_equal(cm_bind(id, &a, NULL, 0), 0);
    assert_int_equal(cm_id_set_user(id, 1, &one), -EINVAL); /* bound */
    id = new_id(k, 0, 1, &one);
    assert_int_equal(cm_id_set_user(id, 2, &one), -EINVAL);
    assert_int_equal(users(k, 0), 1);
    assert_int_equal(cm_bind(id, &a, NULL, 0), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(cm_bind(new_id(k, 0, 1, &many), &a, NULL, 0), 0);
    cm_kit_free(k);
}

/* ---- ids that linger ---- */

/* Connections of node 1's listener, which belong to its user, end with their program. */
static void test_lingering(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    const struct cm_counters *c = cm_counters(k->node[1].cm);
    static const struct cm_user_limits three = {.lingering = 3};
    struct cm_addr a = cm_kit_addr(k, 1, PORT);
    struct cm_id *passive[6], *strangers[2];
    uint32_t ids;

    for (unsigned user = 8; user >= 7; user--) {
        struct cm_id *listener = new_id(k, 1, user, &three);

        a.number = (uint16_t)(PORT + user);
        assert_int_equal(cm_bind(listener, &a, NULL, 0), 0);
        assert_int_equal(cm_listen(listener, 0), 0);
        for (unsigned i = 0; i < (user == 8 ? 2 : 6); i++) {
            struct cm_connect_param param = cm_kit_param(k, 1, a.number);
            struct cm_path path = cm_kit_path(k, 0, 1);
            struct cm_id *one;

            param.conn.qpn += i + 16 * user;
            one = cm_kit_bound(k, 0, IP_CM_PS_TCP);
            assert_int_equal(cm_connect(one, &path, &param, k->now), 0);
            cm_kit_deliver(k);
            one = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
            assert_int_equal(cm_kit_accept(k, one, 0x222 + i + 16 * user), 0);
            cm_kit_deliver(k);
            assert_int_equal(
                cm_establish(cm_kit_last(k, 0, CM_EVENT_CONNECT_RESPONSE)->id, none, k->now), 0);
            cm_kit_deliver(k);
            if (user == 8)
                strangers[i] = one;
            else
                passive[i] = one;
        }
    }
    assert_int_equal(users(k, 1), 2);
    k->loss = 256;
    ids = k->node[1].cm->ids;
    for (unsigned i = 0; i < 2; i++)
        cm_id_destroy(strangers[i], k->now);
    for (unsigned i = 0; i < 6; i++)
        cm_id_destroy(passive[i], k->now);
    /* The oldest three of its own made room, and the other user's are as they were. */
    assert_int_equal(k->node[1].cm->ids, ids - 3);
    assert_int_equal(c->reclaimed, 3);
    assert_ptr_equal(TAILQ_FIRST(&k->node[1].cm->lingering), strangers[0]);
    assert_ptr_equal(TAILQ_NEXT(strangers[1], lingering), passive[3]);
    /* An id that ends at once takes no other's place. */
    cm_id_destroy(new_id(k, 1, 7, &three), k->now);
    assert_int_equal(c->reclaimed, 3);
    k->flying = 0;
    cm_kit_free(k);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_shared_numbers),
        cmocka_unit_test(test_whose),
        cmocka_unit_test(test_lingering),
    };

    return cmocka_run_group_tests_name("cm_users", tests, NULL, NULL);
}
