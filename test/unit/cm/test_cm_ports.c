/* SPDX-License-Identifier: BSD-3-Clause */
/* Port numbers and addresses: who may bind and listen where, and whose request it is. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cm_internal.h"
#include "cm_kit.h"
#include "unit.h"

#define PORT 7471

static const char *const addresses[] = {"0.0.0.0", "::", "10.9.0.1", "10.9.0.2", "fd00::1"};
enum address {
    ANY4,
    ANY6,
    A1,
    A2,
    D1,
};

static struct cm_addr addr(enum address a, uint16_t number)
{
    struct cm_addr out = {.number = number, .vlan = CM_VLAN_ANY, .port = CM_PORT_ANY};

    assert_int_equal(gid_parse(&out.gid, addresses[a]), 0);
    return out;
}

static struct cm_id *new_id(struct cm_kit *k, enum ip_cm_port_space ps)
{
    int err;
    struct cm_id *id = cm_id_create(k->node[0].cm, ps, k, &err);

    assert_non_null(id);
    return id;
}

static int bind_one(struct cm_kit *k, const struct cm_addr *a, unsigned flags, struct cm_id **id)
{
    struct cm_id *one = new_id(k, IP_CM_PS_TCP);

    if (id)
        *id = one;
    return cm_bind(one, a, NULL, flags);
}

/* ---- two ids of one number ---- */

/* As the kernel answers rdma_bind_addr for the second one. */
static void test_pairs(void **state)
{
    static const struct {
        enum address first, second;
        unsigned first_flags, second_flags;
        bool listens;
        int err;
    } pairs[] = {
        {A1, A1, 0, 0, false, -EADDRINUSE},
        {A1, A2, 0, 0, false, 0},
        {A1, D1, 0, 0, false, 0},
        {ANY4, A1, 0, 0, false, -EADDRNOTAVAIL},
        {A1, ANY4, 0, 0, false, -EADDRNOTAVAIL},
        {ANY4, ANY4, 0, 0, false, -EADDRNOTAVAIL},
        {ANY6, A1, 0, 0, false, -EADDRNOTAVAIL},
        /* AFONLY parts the IP versions; an IPv4 address is of its own in any case. */
        {ANY6, A1, CM_BIND_AFONLY, 0, false, 0},
        {ANY4, ANY6, 0, CM_BIND_AFONLY, false, 0},
        {ANY4, ANY6, 0, 0, false, -EADDRNOTAVAIL},
        {ANY6, D1, CM_BIND_AFONLY, 0, false, -EADDRNOTAVAIL},
        /* Reuse takes both, and none that listens. */
        {A1, A1, CM_BIND_REUSE, 0, false, -EADDRINUSE},
        {A1, A1, 0, CM_BIND_REUSE, false, -EADDRINUSE},
        {A1, A1, CM_BIND_REUSE, CM_BIND_REUSE, false, 0},
        {ANY4, A1, CM_BIND_REUSE, CM_BIND_REUSE, false, 0},
        {A1, A1, CM_BIND_REUSE, CM_BIND_REUSE, true, -EADDRINUSE},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(pairs); i++) {
        struct cm_kit *k = cm_kit_new(NULL);
        struct cm_addr first = addr(pairs[i].first, PORT), second = addr(pairs[i].second, PORT);
        struct cm_id *id;

        assert_int_equal(bind_one(k, &first, pairs[i].first_flags, &id), 0);
        if (pairs[i].listens)
            assert_int_equal(cm_listen(id, 1), 0);
        assert_int_equal(bind_one(k, &second, pairs[i].second_flags, NULL), pairs[i].err);
        /* Another number, and another port space, are always free. */
        second.number = PORT + 1;
        assert_int_equal(bind_one(k, &second, 0, NULL), 0);
        second.number = PORT;
        assert_int_equal(cm_bind(new_id(k, IP_CM_PS_UDP), &second, NULL, 0), 0);
        /* And the number itself, when its id is gone. */
        cm_id_destroy(id, k->now);
        if (pairs[i].err)
            assert_int_equal(bind_one(k, &second, 0, NULL), 0);
        cm_kit_free(k);
    }
}

/* The same address in other VLANs, or on other ports, is another one. */
static void test_places(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_addr a = addr(A1, PORT);

    a.vlan = 7;
    assert_int_equal(bind_one(k, &a, 0, NULL), 0);
    assert_int_equal(bind_one(k, &a, 0, NULL), -EADDRINUSE);
    a.vlan = VLAN_NONE;
    assert_int_equal(bind_one(k, &a, 0, NULL), 0);
    a.vlan = CM_VLAN_ANY;
    assert_int_equal(bind_one(k, &a, 0, NULL), -EADDRINUSE);
    a.vlan = 8;
    a.port = 1;
    assert_int_equal(bind_one(k, &a, 0, NULL), 0);
    a.port = 2;
    assert_int_equal(bind_one(k, &a, 0, NULL), 0);
    a.port = CM_PORT_ANY;
    assert_int_equal(bind_one(k, &a, 0, NULL), -EADDRINUSE);
    cm_kit_free(k);
}

static void test_reuse_and_listening(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_addr a = addr(A1, PORT);
    struct cm_id *one, *two;

    assert_int_equal(bind_one(k, &a, CM_BIND_REUSE, &one), 0);
    assert_int_equal(bind_one(k, &a, CM_BIND_REUSE, &two), 0);
    assert_int_equal(cm_listen(one, 1), -EADDRINUSE);
    cm_id_destroy(two, k->now);
    assert_int_equal(cm_listen(one, 1), 0);
    assert_int_equal(cm_listen(one, 1), -EINVAL);
    cm_kit_free(k);
}

/* They are not compared with each other: without that this test reaches its limit of time. */
static void test_many_reuse_a_number(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_addr a = addr(A1, PORT);
    struct cm_id *id;

    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal(bind_one(k, &a, CM_BIND_REUSE, &id), 0);
    assert_int_equal(bind_one(k, &a, 0, NULL), -EADDRINUSE);
    assert_int_equal(cm_set_bind_flags(id, 0), 0); /* and one takes it back */
    assert_int_equal(bind_one(k, &a, CM_BIND_REUSE, NULL), -EADDRINUSE);
    assert_int_equal(cm_set_bind_flags(id, CM_BIND_REUSE), 0);
    assert_int_equal(bind_one(k, &a, CM_BIND_REUSE, NULL), 0);
    cm_kit_free(k);
}

static void test_wrong_bindings(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_addr a = addr(A1, 1023);
    struct cm_id *id = new_id(k, IP_CM_PS_TCP), *native = new_id(k, IP_CM_PS_NONE);
    int err;

    assert_int_equal(cm_bind(id, &a, NULL, 0), -EACCES);
    assert_int_equal(cm_bind(id, &a, NULL, CM_BIND_PRIVILEGED), 0);
    assert_int_equal(cm_bind(id, &a, NULL, CM_BIND_PRIVILEGED), -EINVAL);
    assert_int_equal(cm_bind_service(id, 5), -EINVAL);
    assert_int_equal(cm_bind(native, &a, NULL, 0), -EINVAL);
    assert_int_equal(cm_bind_service(native, ip_cm_service_id(IP_CM_PS_TCP, 5)), -EINVAL);
    assert_int_equal(cm_bind_service(native, 5), 0);
    assert_int_equal(cm_bind_service(new_id(k, IP_CM_PS_NONE), 5), -EADDRINUSE);
    assert_null(cm_id_create(k->node[0].cm, (enum ip_cm_port_space)0x107, NULL, &err));
    assert_int_equal(err, -EINVAL);
    cm_kit_free(k);
}

/* ---- numbers that are given ---- */

static void test_free_numbers(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_addr a = addr(A1, 0);
    uint16_t before = 0;
    bool in_order = true;

    for (unsigned i = 0; i < 1000; i++) {
        struct cm_id *id;

        assert_int_equal(bind_one(k, &a, 0, &id), 0);
        assert_in_range(cm_id_src(id)->number, 32768, 60999);
        in_order &= cm_id_src(id)->number > before;
        before = cm_id_src(id)->number;
        cm_id_destroy(id, k->now);
    }
    assert_false(in_order);
    cm_kit_free(k);
}

/* An id that has said of no destination may listen, or does: its number is given to no other one of
 * its address, which would keep it, or the next listener there, from that. */
static void test_number_of_a_listener(void **state)
{
    struct cm_kit *k = cm_kit_new(&(struct cm_config){.first_port = 40000, .last_port = 40000});
    struct cm_addr a1 = addr(A1, 0), a2 = addr(A2, 0), to = addr(A2, 5);
    struct cm_id *listener, *id = new_id(k, IP_CM_PS_TCP);

    assert_int_equal(bind_one(k, &a1, 0, &listener), 0);
    assert_int_equal(cm_bind(id, &a1, &to, 0), -EADDRNOTAVAIL);
    assert_int_equal(cm_listen(listener, 1), 0);
    assert_int_equal(cm_bind(id, &a1, &to, 0), -EADDRNOTAVAIL);
    assert_int_equal(cm_bind(id, &a2, &to, 0), 0);
    cm_id_destroy(listener, k->now);
    assert_int_equal(cm_bind(new_id(k, IP_CM_PS_TCP), &a1, &to, 0), 0);
    cm_kit_free(k);
    k = cm_kit_new(&(struct cm_config){.first_port = 40000, .last_port = 40000});
    a1 = addr(ANY4, 0); /* which is every address */
    assert_int_equal(bind_one(k, &a1, 0, NULL), 0);
    assert_int_equal(cm_bind(new_id(k, IP_CM_PS_TCP), &a2, &to, 0), -EADDRNOTAVAIL);
    cm_kit_free(k);
}

/* A range of four: all are given, none twice in a row when it becomes free, then there is none. */
static void test_numbers_run_out(void **state)
{
    struct cm_kit *k = cm_kit_new(&(struct cm_config){.first_port = 40000, .last_port = 40003});
    struct cm_addr a = addr(A1, 0), to1 = addr(A2, 5), to2 = addr(A2, 6);
    struct cm_id *id[4], *towards[6];
    unsigned seen = 0;

    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(bind_one(k, &a, 0, &id[i]), 0);
        seen |= 1u << (cm_id_src(id[i])->number - 40000);
    }
    assert_int_equal(seen, 15);
    assert_int_equal(bind_one(k, &a, 0, NULL), -EADDRNOTAVAIL);
    for (unsigned i = 1; i < 4; i++)
        cm_id_destroy(id[i], k->now);
    /* To another destination, a number can be given again. */
    for (unsigned i = 0; i < 3; i++) {
        towards[2 * i] = new_id(k, IP_CM_PS_TCP);
        towards[2 * i + 1] = new_id(k, IP_CM_PS_TCP);
        assert_int_equal(cm_bind(towards[2 * i], &a, &to1, 0), 0);
        assert_int_equal(cm_bind(towards[2 * i + 1], &a, &to2, 0), 0);
    }
    assert_int_equal(cm_bind(new_id(k, IP_CM_PS_TCP), &a, &to1, 0), -EADDRNOTAVAIL);
    /* But not to an id that may listen. */
    assert_int_equal(bind_one(k, &a, 0, NULL), -EADDRNOTAVAIL);
    for (unsigned i = 0; i < 6; i++)
        cm_id_destroy(towards[i], k->now);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(bind_one(k, &a, 0, &id[i]), 0);
    /* The number that was given last comes last. */
    for (unsigned round = 0; round < 50; round++) {
        uint16_t last;

        cm_id_destroy(id[0], k->now);
        cm_id_destroy(id[1], k->now);
        assert_int_equal(bind_one(k, &a, 0, &id[0]), 0);
        last = cm_id_src(id[0])->number;
        cm_id_destroy(id[0], k->now);
        assert_int_equal(bind_one(k, &a, 0, &id[0]), 0);
        assert_int_not_equal(cm_id_src(id[0])->number, last);
        assert_int_equal(bind_one(k, &a, 0, &id[1]), 0);
    }
    cm_kit_free(k);
}

static ns_t cpu_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (ns_t)t.tv_sec * SEC + (ns_t)t.tv_nsec;
}

/* A call that finds no number does not look at all that there are: it would keep all programs
 * waiting. Asking for each of them by itself takes many times longer. */
static void test_time_without_a_number(void **state)
{
    enum { FIRST = 32768, LAST = 60999, TIMES = 16 };
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_addr a = addr(A1, 0), to = addr(A2, 5);
    struct cm_id *id = new_id(k, IP_CM_PS_TCP);
    ns_t none, each;

    for (unsigned i = FIRST; i <= LAST; i++) /* each of them is found, to the last one */
        assert_int_equal(cm_bind(new_id(k, IP_CM_PS_TCP), &a, &to, 0), 0);
    none = cpu_time();
    for (unsigned i = 0; i < TIMES; i++)
        assert_int_equal(cm_bind(id, &a, &to, 0), -EADDRNOTAVAIL);
    each = cpu_time();
    for (unsigned i = 0; i < TIMES; i++)
        for (unsigned n = FIRST; n <= LAST; n++) {
            a.number = (uint16_t)n;
            assert_int_equal(cm_bind(id, &a, &to, 0), -EADDRINUSE);
        }
    assert_in_range(16 * (each - none), 1, cpu_time() - each);
    a.number = 0;
    to.number = 6; /* which can share each */
    assert_int_equal(cm_bind(id, &a, &to, 0), 0);
    cm_kit_free(k);
}

/* A listener that is not bound gets a number of its own. */
static void test_listen_without_binding(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *id = new_id(k, IP_CM_PS_TCP);

    assert_int_equal(cm_listen(id, 1), 0);
    assert_in_range(cm_id_src(id)->number, 32768, 60999);
    assert_int_equal(cm_listen(new_id(k, IP_CM_PS_NONE), 1), -EINVAL);
    cm_kit_free(k);
}

/* ---- whose request it is ---- */

struct place {
    enum address at;
    unsigned flags;
    uint16_t vlan;
    uint32_t port;
};

static struct cm_id *listen_at(struct cm_kit *k, struct place p)
{
    struct cm_addr a = addr(p.at, PORT);
    struct cm_id *id;

    a.vlan = p.vlan;
    a.port = p.port;
    assert_int_equal(bind_one(k, &a, p.flags | CM_BIND_REUSE, &id), 0);
    return id;
}

static struct cm_id *find(struct cm_kit *k, enum address at, uint16_t vlan, uint32_t port)
{
    struct cm_addr a = addr(at, PORT);
    struct cm_path way = {.sgid = a.gid, .vlan = vlan, .port = port};

    return cm_ports_find(k->node[0].cm, ip_cm_service_id(IP_CM_PS_TCP, PORT), &a.gid, &way);
}

/* Each listener alone. */
static void test_what_a_listener_takes(void **state)
{
    static const struct {
        struct place p;
        bool a1, a2, d1, vlan7, port1;
    } cases[] = {
        {{A1, 0, CM_VLAN_ANY, CM_PORT_ANY}, true, false, false, true, true},
        {{ANY4, 0, CM_VLAN_ANY, CM_PORT_ANY}, true, true, false, true, true},
        {{ANY6, 0, CM_VLAN_ANY, CM_PORT_ANY}, true, true, true, true, true},
        {{ANY6, CM_BIND_AFONLY, CM_VLAN_ANY, CM_PORT_ANY}, false, false, true, false, false},
        {{A1, 0, VLAN_NONE, CM_PORT_ANY}, true, false, false, false, true},
        {{A1, 0, 7, CM_PORT_ANY}, false, false, false, true, false},
        {{A1, 0, CM_VLAN_ANY, 0}, true, false, false, true, false},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        struct cm_kit *k = cm_kit_new(NULL);
        struct cm_id *id = listen_at(k, cases[i].p);

        assert_null(find(k, A1, VLAN_NONE, 0)); /* it does not listen yet */
        assert_int_equal(cm_listen(id, 1), 0);
        assert_int_equal(find(k, A1, VLAN_NONE, 0) == id, cases[i].a1);
        assert_int_equal(find(k, A2, VLAN_NONE, 0) == id, cases[i].a2);
        assert_int_equal(find(k, D1, VLAN_NONE, 0) == id, cases[i].d1);
        assert_int_equal(find(k, A1, 7, 0) == id, cases[i].vlan7);
        assert_int_equal(find(k, A1, VLAN_NONE, 1) == id, cases[i].port1);
        cm_id_destroy(id, k->now);
        assert_null(find(k, A1, VLAN_NONE, 0));
        cm_kit_free(k);
    }
}

/* Ids of the number that do not listen do not stand in a listener's way. */
static void test_a_listener_among_others(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_addr a1 = addr(A1, PORT), a2 = addr(A2, PORT);
    struct cm_path way = {.vlan = VLAN_NONE};
    uint64_t service = ip_cm_service_id(IP_CM_PS_TCP, PORT);
    struct cm *cm = k->node[0].cm;
    struct cm_id *listener, *other;

    assert_int_equal(bind_one(k, &a2, CM_BIND_REUSE, &other), 0);
    assert_int_equal(bind_one(k, &a1, 0, &listener), 0);
    assert_null(cm_ports_find(cm, service, &a1.gid, &way));
    assert_int_equal(cm_listen(listener, 1), 0);
    assert_int_equal(cm_listen(listener, 1), -EINVAL);
    assert_int_equal(bind_one(k, &a2, CM_BIND_REUSE, NULL), 0);
    assert_ptr_equal(cm_ports_find(cm, service, &a1.gid, &way), listener);
    assert_null(cm_ports_find(cm, service, &a2.gid, &way));
    cm_id_destroy(listener, k->now);
    assert_null(cm_ports_find(cm, service, &a1.gid, &way));
    cm_id_destroy(other, k->now);
    cm_kit_free(k);
}

/* Of several, the one with its own VLAN before the one of any. */
static void test_the_nearest_listener(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *v7 = listen_at(k, (struct place){A1, 0, 7, CM_PORT_ANY});
    struct cm_id *none = listen_at(k, (struct place){A1, 0, VLAN_NONE, CM_PORT_ANY});
    struct cm_id *six =
        listen_at(k, (struct place){ANY6, CM_BIND_AFONLY, CM_VLAN_ANY, CM_PORT_ANY});

    assert_int_equal(cm_listen(v7, 1), 0);
    assert_int_equal(cm_listen(none, 1), 0);
    assert_int_equal(cm_listen(six, 1), 0);
    assert_ptr_equal(find(k, A1, 7, 0), v7);
    assert_ptr_equal(find(k, A1, VLAN_NONE, 0), none);
    assert_ptr_equal(find(k, D1, VLAN_NONE, 0), six);
    assert_null(find(k, A2, VLAN_NONE, 0));
    assert_null(find(k, A1, 9, 0));
    cm_kit_free(k);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_reuse_and_listening),
        cmocka_unit_test(test_many_reuse_a_number),
        cmocka_unit_test(test_wrong_bindings),
        cmocka_unit_test(test_free_numbers),
        cmocka_unit_test(test_number_of_a_listener),
        cmocka_unit_test(test_numbers_run_out),
        cmocka_unit_test(test_time_without_a_number),
        cmocka_unit_test(test_listen_without_binding),
        cmocka_unit_test(test_what_a_listener_takes),
        cmocka_unit_test(test_a_listener_among_others),
        cmocka_unit_test(test_the_nearest_listener),
    };

    return cmocka_run_group_tests_name("cm_ports", tests, NULL, NULL);
}
