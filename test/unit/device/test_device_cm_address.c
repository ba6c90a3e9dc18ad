/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of connections: which port has them, how they are reached, and what happens when they
 * go. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "net/gids.h"
#include "sides.h"
#include "sim.h"
#include "unit.h"

/* ---- addresses ---- */

static union gid gid_of(const char *text)
{
    union gid gid;

    assert_int_equal(gid_parse(&gid, text), 0);
    return gid;
}

static void on_retry(void *ctx)
{
}

/* One more port, at a network with other hosts. */
static struct pktio *add_port_at(struct sides *t, const char *text, uint16_t vlan)
{
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}};
    struct port_address a = {.prefix = 24, .vlan = vlan};
    struct port_config pc = {.address = &a, .addresses = 1};
    struct pktio *end[2];

    assert_int_equal(gid_parse(&a.gid, text), 0);
    assert_int_equal(pktio_sim_pair(end, &sc), 0);
    pc.io = end[0];
    assert_int_equal(rnic_add_port(t->r, &pc), 0);
    rnic_on_retry(t->r, on_retry, NULL); /* as a server does */
    return end[1];
}

static struct pktio *add_port(struct sides *t)
{
    return add_port_at(t, "10.0.1.1", VLAN_NONE);
}

/* Ids that wait for ARP are looked at in slices. */
static void test_many_wait(void **state)
{
    struct sides *t = *state;
    struct pktio *far = add_port(t);

    for (unsigned i = 0; i < 20000; i++) {
        struct ctl_msg m = {
            .cm_resolve = {.timeout_ms = 60000, .dst = side_address("10.0.1.2", SIDES_PORT)}};
        struct ctl_call k = {0};

        m.cm_resolve.id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
        assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    }
    assert_false(TAILQ_EMPTY(&t->r->cm.resolving));
    cm_host_resolved(t->r);
    assert_true(t->r->cm.looking);
    assert_ptr_not_equal(t->r->cm.next, TAILQ_FIRST(&t->r->cm.resolving));
    side_destroy(&t->a, t->r->cm.next->o.handle); /* while the rest waits for its turn */
    while (t->r->cm.looking)
        event_loop_step(t->loop, 0);
    assert_true(t->r->cm.first > t->r->config.clock() && t->r->cm.first < NS_NEVER);
    cm_host_resolved(t->r); /* and the end during it */
    side_close(&t->a);
    t->a.sn = NULL;
    assert_true(TAILQ_EMPTY(&t->r->cm.resolving));
    far->ops->close(far);
}

static void test_addresses(void **state)
{
    struct sides *t = *state;
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    struct ctl_msg m = {.cm_resolve = {.id = id, .dst = side_address("192.0.2.1", SIDES_PORT)}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;

    assert_int_equal(side_bind(&t->a, id, side_address("192.0.2.1", 0), &info), -ENODEV);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_ERROR).status, -ENETUNREACH);
    assert_int_equal(side_bind(&t->a, id, side_address("127.0.0.1", 0), &info), 0);
    assert_true(info.has_device && info.src.number >= 1024);
    assert_int_equal(side_bind(&t->a, id, side_address("127.0.0.1", 0), &info), -EINVAL);
    m.cm_resolve.dst = side_address("::1", SIDES_PORT); /* another family */
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), -EINVAL);
    m.cm_resolve.dst = side_address("0.0.0.0", SIDES_PORT); /* this host */
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    assert_memory_equal(k.reply.cm_info.dst.gid, k.reply.cm_info.src.gid, 16);
    side_event(&t->a, CTL_CM_ADDR_RESOLVED);
    /* as the kernel: once */
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), -EINVAL);
    side_no_event(&t->a);
}

static struct ctl_cm_addr mapped(const char *text, uint16_t number)
{
    struct ctl_cm_addr a = side_address(text, number);

    a.family = AF_INET6;
    return a;
}

/* An IPv4 address of AF_INET6 is one of IPv4: it goes with those of AF_INET, and not with others of
 * AF_INET6. */
static void test_mapped_addresses(void **state)
{
    struct sides *t = *state;
    struct pktio *far = add_port(t);
    struct ctl_msg m = {.cm_resolve = {.timeout_ms = 1, .dst = mapped("10.0.1.2", SIDES_PORT)}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;
    uint32_t id = m.cm_resolve.id = side_make_id(&t->a, IP_CM_PS_TCP, 1);

    for (unsigned i = 0; i < 2; i++) { /* again, with the address that it has got */
        assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
        assert_int_equal(k.reply.cm_info.src.family, AF_INET6);
        assert_int_equal(k.reply.cm_info.dst.family, AF_INET6);
        while (!side_has_event(&t->a))
            event_loop_step(t->loop, -1);
        side_event(&t->a, CTL_CM_ADDR_ERROR);
    }
    m.cm_resolve.dst = side_address("fd00::1", SIDES_PORT);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), -EINVAL);
    m.cm_resolve.dst.family = AF_INET; /* as no library says it */
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), -EINVAL);
    m.cm_resolve.dst = side_address("10.0.1.2", SIDES_PORT);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    side_destroy(&t->a, id);
    /* This host has the wildcard of either form. */
    m.cm_resolve.id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    m.cm_resolve.dst = mapped("0.0.0.0", SIDES_PORT);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    assert_int_equal(k.reply.cm_info.src.gid[11], 0xff);
    side_event(&t->a, CTL_CM_ADDR_RESOLVED);
    m.cm_resolve.id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    assert_int_equal(side_bind(&t->a, m.cm_resolve.id, mapped("127.0.0.1", 0), &info), 0);
    assert_int_equal(info.src.family, AF_INET6);
    m.cm_resolve.dst = side_address("127.0.0.1", SIDES_PORT);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    side_event(&t->a, CTL_CM_ADDR_RESOLVED);
    far->ops->close(far);
}

static struct ctl_cm_info resolve(const struct side *s, enum ctl_type type, uint32_t id,
                                  const char *dst, uint32_t at_once, uint32_t got)
{
    struct ctl_msg m = {
        .cm_resolve = {.id = id, .timeout_ms = 60000, .at_once = at_once, .got = got}};
    struct ctl_call k = {0};

    if (dst)
        m.cm_resolve.dst = side_address(dst, SIDES_PORT);
    assert_int_equal(kit_call(s->sn, type, &m, &k, false), 0);
    return k.reply.cm_info;
}

static struct ctl_cm_info resolve_in_vain(struct sides *t, uint32_t id, const char *dst)
{
    struct ctl_msg m = {
        .cm_resolve = {.id = id, .timeout_ms = 1, .dst = side_address(dst, SIDES_PORT)}};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    while (!side_has_event(&t->a))
        event_loop_step(t->loop, 100);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_ERROR).status, -ETIMEDOUT);
    return k.reply.cm_info;
}

/* An id that could not reach a destination finds the port for the next one. Which port that is, a
 * program knows when the address is resolved, as with the kernel. */
static void test_next_destination(void **state)
{
    struct sides *t = *state;
    struct pktio *one = add_port_at(t, "10.0.1.1", 5), *two = add_port_at(t, "10.0.2.1", VLAN_NONE);
    struct ctl_cm_addr own = side_address("10.0.2.1", 0);
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    struct ctl_cm_info info, before;

    before = resolve_in_vain(t, id, "10.0.1.2");
    assert_false(before.has_device);
    assert_false(side_query(&t->a, id).has_device);
    assert_false(resolve_in_vain(t, id, "10.0.2.2").has_device);
    info = side_query(&t->a, id);
    assert_memory_equal(info.src.gid, own.gid, sizeof(own.gid));
    assert_int_equal(info.src.number, before.src.number);
    own = side_address("10.0.1.1", 0); /* but not if the program has said where it is */
    id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    assert_int_equal(side_bind(&t->a, id, own, &info), 0);
    assert_int_equal(info.device, 1);
    assert_true(resolve_in_vain(t, id, "10.0.1.2").has_device);
    info = side_query(&t->a, id);
    assert_true(info.has_device && info.device == 1);
    id = side_make_id(&t->a, IP_CM_PS_TCP, 1); /* also after another port was looked for in vain */
    resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "192.0.2.1", 1, 0);
    side_event(&t->a, CTL_CM_ADDR_ERROR);
    assert_int_equal(side_bind(&t->a, id, own, &info), 0);
    assert_true(resolve_in_vain(t, id, "10.0.1.2").has_device);
    /* At last it is reached. */
    id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    resolve_in_vain(t, id, "10.0.1.2");
    info = resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "10.0.2.1", 1, 1);
    assert_true(info.at_once && info.has_device && info.has_path);
    assert_int_equal(info.device, 2);
    one->ops->close(one);
    two->ops->close(two);
}

static void add_route(struct sides *t, unsigned device, const char *dst, unsigned bits,
                      const char *via)
{
    struct net_route r = {.prefix = (uint8_t)bits, .vlan = VLAN_NONE};

    assert_int_equal(gid_parse(&r.dst, dst), 0);
    assert_int_equal(gid_parse(&r.via, via), 0);
    assert_int_equal(rnic_add_route(t->r, device, &r), 0);
}

/* Of the ports that lead to a destination, the one with the longest prefix is taken, as by the
 * kernel's routes; of two as long, the one whose network it is. */
static void test_most_specific_route(void **state)
{
    static const struct {
        const char *dst, *src;
    } cases[] = {{"10.2.0.9", "10.0.2.1"}, {"10.0.1.9", "10.0.1.1"}, {"10.0.2.9", "10.0.2.1"},
                 {"10.3.3.9", "10.0.3.1"}, {"11.1.1.1", "10.0.1.1"}, {"10.0.9.9", "10.0.3.1"},
                 {"10.0.1.7", "10.0.1.1"}};
    struct sides *t = *state;
    union gid set = gid_of("10.0.1.7");
    struct pktio *far[] = {add_port_at(t, "10.0.1.1", VLAN_NONE),
                           add_port_at(t, "10.0.2.1", VLAN_NONE),
                           add_port_at(t, "10.0.3.1", VLAN_NONE)};

    add_route(t, 1, "0.0.0.0", 0, "10.0.1.254");
    add_route(t, 1, "10.0.2.0", 24, "10.0.1.254");
    add_route(t, 2, "10.2.0.0", 16, "10.0.2.254");
    add_route(t, 2, "10.0.0.0", 8, "10.0.2.254");
    add_route(t, 3, "10.3.0.0", 16, "10.0.3.254");
    add_route(t, 3, "10.0.0.0", 9, "10.0.3.254");
    for (unsigned i = 1; i <= ARRAY_SIZE(far); i++) /* a MAC that is set is no route */
        assert_int_equal(net_host_add_neighbour(t->r->device[i]->net.host, &set, VLAN_NONE,
                                                (const uint8_t[6]){2, 0, 0, 0, 0, 7}),
                         0);
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ctl_cm_addr src = side_address(cases[i].src, 0);
        struct ctl_cm_info info = resolve(&t->a, CTL_CM_RESOLVE_ADDR,
                                          side_make_id(&t->a, IP_CM_PS_TCP, 1), cases[i].dst, 1, 0);

        assert_memory_equal(info.src.gid, src.gid, sizeof(src.gid));
    }
    for (unsigned i = 0; i < ARRAY_SIZE(far); i++)
        far[i]->ops->close(far[i]);
}

/* A gateway that has just not answered is no missing route: the destination cannot be reached. */
static void test_silent_gateway(void **state)
{
    struct sides *t = *state;
    struct pktio *far = add_port(t);
    struct device *d = t->r->device[1];
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);

    add_route(t, 1, "0.0.0.0", 0, "10.0.1.254");
    resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "192.0.2.1", 1, 0);
    side_no_event(&t->a);
    while (!side_has_event(&t->a)) { /* three requests, and no answer */
        net_host_timers(d->net.host, net_host_next_timer(d->net.host));
        net_apply_changes(d);
    }
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_ERROR).status, -EHOSTUNREACH);
    resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "192.0.2.1", 1, 1);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_ERROR).status, -EHOSTUNREACH);
    far->ops->close(far);
}

/* ---- what a reply says, without an event ---- */

static void test_at_once(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_info info;
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);

    info = resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "127.0.0.1", 1, 0);
    assert_int_equal(info.at_once, 1);
    assert_true(info.has_device && info.has_path);
    side_no_event(&t->a);
    info = resolve(&t->a, CTL_CM_RESOLVE_ROUTE, id, NULL, 1, 0);
    assert_int_equal(info.at_once, 1);
    assert_int_equal(info.id, id);
    assert_true(info.has_device && info.has_path);
    side_no_event(&t->a);
    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    side_requested(t, id);
}

/* The path came with the address: the library says with the connection that the program has asked
 * for it. */
static void test_route_with_address(void **state)
{
    struct sides *t = *state;
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    struct ctl_msg m = {
        .cm_call = {.id = id, .routed = 1, .conn = {.qpn = 0x111, .qp_type = CM_QP_RC}}};
    struct ctl_call k = {0};

    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_CONNECT, &m, &k, false), -EINVAL);
    assert_true(resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "127.0.0.1", 1, 0).has_path);
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 0x111, ""), -EINVAL);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_CONNECT, &m, &k, false), 0);
    sides_run(t);
    side_event(&t->b, CTL_CM_CONNECT_REQUEST);
}

/* The id's events stay in their order. */
static void test_not_at_once(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_info info;
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);

    info = resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "127.0.0.1", 0, 0);
    assert_true(info.has_device && !info.at_once);
    info = resolve(&t->a, CTL_CM_RESOLVE_ROUTE, id, NULL, 1, 0);
    assert_int_equal(info.at_once, 0);
    side_event(&t->a, CTL_CM_ADDR_RESOLVED);
    side_event(&t->a, CTL_CM_ROUTE_RESOLVED);
    side_no_event(&t->a);
    id = side_make_id(&t->a, IP_CM_PS_TCP, 2);
    info = resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "192.0.2.1", 1, 0);
    assert_int_equal(info.at_once, 0);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_ERROR).status, -ENETUNREACH);
    info = resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "127.0.0.1", 1, 1);
    assert_int_equal(info.at_once, 1);
    info = resolve(&t->a, CTL_CM_RESOLVE_ROUTE, id, NULL, 0, 1);
    assert_int_equal(info.at_once, 0);
    side_event(&t->a, CTL_CM_ROUTE_RESOLVED);
    side_no_event(&t->a);
}

/* What has to be asked for on the network has its event, whatever comes of it. */
static void test_later(void **state)
{
    struct sides *t = *state;
    struct pktio *far = add_port(t);
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    struct ctl_cm_info info = resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "10.0.1.2", 1, 0);

    assert_true(info.src.family && !info.has_device && !info.at_once);
    side_no_event(&t->a);
    t->r->cm.resolving.tqh_first->deadline = 0;
    cm_resolve_again(t->r);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_ERROR).status, -ETIMEDOUT);
    side_close(&t->a);
    t->a.sn = NULL;
    far->ops->close(far);
}

/* An id whose address is of no device has none, whatever it tries. */
static void test_no_device(void **state)
{
    struct port_address own = {.prefix = 8, .vlan = VLAN_NONE};
    struct port_config pc = {.address = &own, .addresses = 1};
    struct ctl_msg m = {.cm_resolve.dst = side_address("::", SIDES_PORT)};
    struct sides t = {0};
    struct ctl_call k = {0};
    struct ctl_cm_info info;
    uint32_t id;

    assert_int_equal(gid_parse(&own.gid, "127.0.0.1"), 0);
    t.r = kit_rnic_with(NULL, NULL, pc);
    side_open(&t, &t.a);
    id = side_make_id(&t.a, IP_CM_PS_UDP, 1);
    assert_int_equal(side_bind(&t.a, id, side_address("::", 0), &info), 0);
    m.cm_resolve.id = id;
    assert_int_equal(kit_call(t.a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), -ENODEV);
    assert_false(side_query(&t.a, id).has_device);
    m.cm_mcast = (struct ctl_cm_mcast){.id = id, .addr = side_address("ff0e::1", 0)};
    assert_int_equal(kit_call(t.a.sn, CTL_CM_JOIN, &m, &k, false), -EINVAL);
    side_close(&t.a);
    rnic_destroy(t.r);
}

/* An address leaves the port, and another one gets its place in the GID table. */
static void test_address_goes(void **state)
{
    struct sides *t = *state;
    struct port_address own = {.prefix = 8, .vlan = VLAN_NONE}, next = own;
    struct device *d = t->r->device[0];
    struct ctl_cm_info info;
    uint32_t id;

    assert_int_equal(gid_parse(&own.gid, "127.0.0.9"), 0);
    assert_int_equal(gid_parse(&next.gid, "127.0.0.10"), 0);
    assert_int_equal(rnic_add_address(t->r, 0, &own), 0);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.9");
    info = side_query(&t->a, id);
    assert_true(info.has_path);
    assert_int_equal(device_gids_remove(d, &own.gid, VLAN_NONE), 0);
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 1, ""), -EADDRNOTAVAIL);
    assert_int_equal(rnic_add_address(t->r, 0, &next), 0);
    assert_true(gid_eq(&d->gids.entry[info.sgid_index].gid, &next.gid));
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 1, ""), -EADDRNOTAVAIL);
    info = side_query(&t->a, id);
    assert_false(info.has_path);
}

static void change_address(struct sides *t, const char *text, bool add)
{
    struct port_address own = {.gid = gid_of(text), .prefix = 8, .vlan = VLAN_NONE};

    assert_int_equal(add ? rnic_add_address(t->r, 0, &own)
                         : rnic_remove_address(t->r, 0, &own.gid, VLAN_NONE),
                     0);
    sides_run(t);
}

/* Ids whose address goes are told once: a listener, the ends of a connection, one that is bound. */
static void test_address_change(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_info info;
    struct ctl_cm_event e;
    uint32_t id, l, bound, waits;

    change_address(t, "127.0.0.9", true);
    l = side_listener(&t->b, IP_CM_PS_TCP, "127.0.0.9", 5);
    side_bind(&t->b, side_make_id(&t->b, IP_CM_PS_TCP, 1), side_address("127.0.0.1", 0), &info);
    side_bind(&t->b, side_make_id(&t->b, IP_CM_PS_TCP, 1), side_address("0.0.0.0", 0), &info);
    side_make_id(&t->b, IP_CM_PS_TCP, 1);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.9");
    bound = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    assert_int_equal(side_bind(&t->a, bound, side_address("127.0.0.9", 0), &info), 0);
    waits = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.9");
    e = side_requested(t, id);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, e.id, 0x222, ""), 0);
    sides_run(t);
    side_event(&t->a, CTL_CM_CONNECT_RESPONSE);
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, waits, 0x333, ""), 0);
    sides_run(t);
    side_event(&t->b, CTL_CM_CONNECT_REQUEST); /* and it is not accepted */
    change_address(t, "127.0.0.10", true);
    side_no_event(&t->a);
    side_no_event(&t->b);
    change_address(t, "127.0.0.9", false);
    change_address(t, "127.0.0.10", false);
    assert_int_equal(side_event(&t->b, CTL_CM_ADDR_CHANGE).id, l);
    assert_int_equal(side_event(&t->b, CTL_CM_ADDR_CHANGE).id, e.id);
    side_no_event(&t->b);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_CHANGE).id, id);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_CHANGE).id, bound);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_CHANGE).id, waits);
    side_no_event(&t->a);
}

/* An address that comes back, at another place of the GID table, serves as before; as long as the
 * program has not read that it had gone, it is told no more. */
static void test_address_returns(void **state)
{
    struct sides *t = *state;
    uint32_t id;

    change_address(t, "127.0.0.9", true);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.9");
    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    change_address(t, "127.0.0.9", false);
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 1, ""), -EADDRNOTAVAIL);
    change_address(t, "127.0.0.10", true); /* takes its place */
    change_address(t, "127.0.0.9", true);
    change_address(t, "127.0.0.9", false);
    change_address(t, "127.0.0.9", true);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_CHANGE).id, id);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_CHANGE).id, id);
    side_no_event(&t->a);
    side_requested(t, id);
    change_address(t, "127.0.0.9", false);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_CHANGE).id, id);
}

/* A connection goes on when its address comes back at another place of the GID table: its messages
 * still leave from that address, and not at all while it is gone. */
static void test_connection_survives(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_event e;
    uint32_t id;

    change_address(t, "127.0.0.9", true);
    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.9");
    e = side_requested(t, id);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, e.id, 0x222, ""), 0);
    sides_run(t);
    side_event(&t->a, CTL_CM_CONNECT_RESPONSE);
    assert_int_equal(side_call(&t->a, CTL_CM_ESTABLISH, id, 0, ""), 0);
    sides_run(t);
    side_event(&t->b, CTL_CM_ESTABLISHED);
    change_address(t, "127.0.0.9", false);
    change_address(t, "127.0.0.10", true); /* takes its place */
    side_event(&t->a, CTL_CM_ADDR_CHANGE);
    side_event(&t->b, CTL_CM_ADDR_CHANGE);
    assert_int_equal(side_call(&t->a, CTL_CM_DISCONNECT, id, 0, "bye"), 0);
    sides_run(t);
    side_no_event(&t->b);
    change_address(t, "127.0.0.9", true);
    assert_int_equal(side_call(&t->b, CTL_CM_DISCONNECT, e.id, 0, "bye"), 0);
    sides_run(t);
    side_event(&t->a, CTL_CM_DISCONNECTED);
    side_event(&t->b, CTL_CM_DISCONNECTED);
}

/* A queue pair that is to be connected after that sends from the address, wherever it is now. */
static void test_place_of_a_connection(void **state)
{
    struct sides *t = *state;
    struct device *d = t->r->device[0];
    struct ctl_cm_event e;
    struct ctl_cm_told told;
    union gid own = gid_of("127.0.0.9");
    uint32_t id;
    int place;

    change_address(t, "127.0.0.9", true);
    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.9");
    e = side_requested(t, id);
    change_address(t, "127.0.0.9", false);
    change_address(t, "127.0.0.10", true); /* takes its place */
    change_address(t, "127.0.0.9", true);
    side_event(&t->a, CTL_CM_ADDR_CHANGE);
    place = gid_table_find(&d->gids, &own, GID_TYPE_ROCE_V2, VLAN_NONE);
    assert_int_equal(side_qp_attr(&t->b, e.id, QPS_RTR, 0).attr.ah.sgid_index, place);
    assert_int_equal(side_qp_attr(&t->b, e.id, QPS_RTS, 0).attr.ah.sgid_index, 0);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, e.id, 0x222, ""), 0);
    sides_run(t);
    told = side_told(&t->a, CTL_CM_CONNECT_RESPONSE);
    assert_int_equal(told.steps.attr.ah.sgid_index, place);
}

/* While the address that an id is bound to is gone, another one that has its place in the GID table
 * does not become the id's; when it is back, the id reaches its peer from there. */
static void test_bound_address_returns(void **state)
{
    struct sides *t = *state;
    struct ctl_msg m = {
        .cm_resolve = {.timeout_ms = 2000, .dst = side_address("127.0.0.1", SIDES_PORT)}};
    struct ctl_cm_addr own = side_address("127.0.0.9", 0);
    struct ctl_call k = {0};
    struct ctl_cm_info info;
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);

    change_address(t, "127.0.0.9", true);
    assert_int_equal(side_bind(&t->a, id, own, &info), 0);
    change_address(t, "127.0.0.9", false);
    side_event(&t->a, CTL_CM_ADDR_CHANGE);
    change_address(t, "127.0.0.10", true);
    m.cm_resolve.id = id;
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_ERROR).status, -EADDRNOTAVAIL);
    change_address(t, "127.0.0.9", true);
    info = resolve(&t->a, CTL_CM_RESOLVE_ADDR, id, "127.0.0.1", 1, 2);
    assert_int_equal(info.at_once, 1);
    assert_memory_equal(info.src.gid, own.gid, sizeof(own.gid));
    assert_memory_equal(info.sgid, own.gid, sizeof(own.gid));
    side_no_event(&t->a);
}

/* A group is joined from the id's address, or not at all. */
static void test_place_of_a_join(void **state)
{
    struct sides *t = *state;
    struct device *d = t->r->device[0];
    struct ctl_msg m = {.cm_mcast = {.addr = side_address("239.1.1.1", 0)}};
    union gid own = gid_of("127.0.0.9");
    struct ctl_call k = {0};
    struct ctl_cm_info info;

    change_address(t, "127.0.0.9", true);
    m.cm_mcast.id = side_make_id(&t->a, IP_CM_PS_UDP, 1);
    assert_int_equal(side_bind(&t->a, m.cm_mcast.id, side_address("127.0.0.9", 0), &info), 0);
    change_address(t, "127.0.0.9", false);
    change_address(t, "127.0.0.10", true); /* takes its place */
    side_event(&t->a, CTL_CM_ADDR_CHANGE);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), -EADDRNOTAVAIL);
    side_no_event(&t->a);
    change_address(t, "127.0.0.9", true);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), 0);
    assert_int_equal(side_event(&t->a, CTL_CM_MULTICAST_JOIN).ah.sgid_index,
                     gid_table_find(&d->gids, &own, GID_TYPE_ROCE_V2, VLAN_NONE));
}

/* The same address in another VLAN is another network's. */
static void test_address_of_another_vlan(void **state)
{
    struct port_address own = {.gid = gid_of("127.0.0.9"), .prefix = 8, .vlan = 5};
    struct ctl_cm_info info;
    struct sides *t = *state;
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);

    assert_int_equal(rnic_add_address(t->r, 0, &own), 0);
    assert_int_equal(side_bind(&t->a, id, side_address("127.0.0.9", 0), &info), 0);
    assert_int_equal(info.vlan, 5);
    assert_int_equal(rnic_remove_address(t->r, 0, &own.gid, 5), 0);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_CHANGE).id, id);
    own.vlan = 6;
    assert_int_equal(rnic_add_address(t->r, 0, &own), 0);
    side_no_event(&t->a);
    own.vlan = 5;
    assert_int_equal(rnic_add_address(t->r, 0, &own), 0);
    assert_int_equal(side_query(&t->a, id).vlan, 5);
    assert_int_equal(rnic_remove_address(t->r, 0, &own.gid, 5), 0);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_CHANGE).id, id);
}

/* While the peer's address is being resolved, the end of that says it. */
static void test_address_goes_while_resolving(void **state)
{
    struct sides *t = *state;
    struct pktio *far = add_port(t);
    struct ctl_msg m = {
        .cm_resolve = {.timeout_ms = 60000, .dst = side_address("10.0.1.2", SIDES_PORT)}};
    union gid gid = gid_of("10.0.1.1");
    struct ctl_call k = {0};

    m.cm_resolve.id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    side_no_event(&t->a);
    assert_int_equal(rnic_remove_address(t->r, 1, &gid, VLAN_NONE), 0);
    assert_int_equal(side_event(&t->a, CTL_CM_ADDR_ERROR).status, -EADDRNOTAVAIL);
    side_no_event(&t->a);
    far->ops->close(far);
}

/* Many ids are looked at in slices; their program's end and another change come during it. */
static void test_many_follow(void **state)
{
    struct sides *t = *state;
    struct cm_follow *f = &t->r->cm.follow;
    union gid gid = gid_of("127.0.0.9");
    struct ctl_cm_info info;
    unsigned told = 0;

    change_address(t, "127.0.0.9", true);
    for (unsigned i = 0; i < 20000; i++)
        assert_int_equal(side_bind(&t->a, side_make_id(&t->a, IP_CM_PS_TCP, 1),
                                   side_address("127.0.0.9", 0), &info),
                         0);
    assert_int_equal(rnic_remove_address(t->r, 0, &gid, VLAN_NONE), 0);
    assert_true(f->active);
    side_destroy(&t->a, f->walk.next->handle);
    cm_host_addresses_changed(t->r);
    while (f->active)
        event_loop_step(t->loop, 0);
    for (; side_has_event(&t->a); told++) {
        side_event(&t->a, CTL_CM_ADDR_CHANGE);
        event_loop_step(t->loop, 0);
    }
    assert_int_equal(told, 20000 - 1);
}

/* Of a port and the loopback device with the same address, the port is meant: others can be
 * reached from there. */
static void test_ports_before_loopback(void **state)
{
    struct sides *t = *state;
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}};
    struct port_address a = {.prefix = 8, .vlan = VLAN_NONE};
    struct port_config pc = {.address = &a, .addresses = 1};
    struct pktio *end[2];
    struct ctl_cm_info info;

    assert_int_equal(gid_parse(&a.gid, "127.0.0.1"), 0);
    assert_int_equal(pktio_sim_pair(end, &sc), 0);
    pc.io = end[0];
    assert_int_equal(rnic_add_port(t->r, &pc), 0);
    assert_int_equal(
        side_bind(&t->a, side_make_id(&t->a, IP_CM_PS_TCP, 1), side_address("127.0.0.1", 0), &info),
        0);
    assert_int_equal(info.device, 1);
    assert_int_equal(
        side_bind(&t->a, side_make_id(&t->a, IP_CM_PS_TCP, 2), side_address("::1", 0), &info), 0);
    assert_int_equal(info.device, 0);
    end[1]->ops->close(end[1]);
}

static int give_route(const struct side *s, uint32_t id, const struct ctl_cm_route *r)
{
    struct ctl_msg m = {.cm_option = {.id = id, .level = 1, .name = 1, .length = sizeof(*r)}};
    struct ctl_call k = {0};

    memcpy(m.cm_option.value, r, sizeof(*r));
    return kit_call(s->sn, CTL_CM_SET_OPTION, &m, &k, false);
}

/* An id whose address is resolved, and a route that fits. */
static uint32_t at_address(struct sides *t, struct ctl_cm_route *r)
{
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    struct ctl_msg m = {
        .cm_resolve = {.id = id, .timeout_ms = 2000, .dst = side_address("127.0.0.1", SIDES_PORT)}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;

    assert_int_equal(give_route(&t->a, id, r), -EINVAL); /* nothing is resolved */
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    sides_run(t);
    side_event(&t->a, CTL_CM_ADDR_RESOLVED);
    info = side_query(&t->a, id);
    memcpy(r->sgid, info.sgid, sizeof(r->sgid));
    memcpy(r->dgid, info.dgid, sizeof(r->dgid));
    return id;
}

/* A route that the program gives. */
static void test_given_route(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_route r = {.flow_label = 0xABCDE,
                             .pkey = 0xFFFF,
                             .hop_limit = 7,
                             .traffic_class = 0x68,
                             .sl = 3,
                             .mtu = 2,
                             .rate = 3,
                             .packet_life_time = 12};
    uint32_t id = at_address(t, &r);
    struct ctl_msg m = {.cm_option = {.id = id, .level = 1, .name = 1, .length = sizeof(r) - 1}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;

    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), -EINVAL);
    m.cm_option.name = 2;
    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), -ENOSYS);
    assert_int_equal(give_route(&t->a, id, &r), 0);
    assert_int_equal(side_event(&t->a, CTL_CM_ROUTE_RESOLVED).id, id);
    info = side_query(&t->a, id);
    assert_true(info.has_path);
    assert_int_equal(info.flow_label, 0xABCDE);
    assert_int_equal(info.hop_limit, 7);
    assert_int_equal(info.traffic_class, 0x68);
    assert_int_equal(info.sl, 3);
    assert_int_equal(info.mtu, 2);
    assert_int_equal(info.rate, 3);
    assert_int_equal(info.packet_life_time, 12);
    assert_int_equal(give_route(&t->a, id, &r), -EINVAL); /* there is a route */
    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    info = side_query(&t->b, side_requested(t, id).id);
    assert_int_equal(info.mtu, 2);
    assert_int_equal(info.flow_label, 0xABCDE);
}

/* What the program leaves open is the port's; what does not fit is refused. */
static void test_open_route(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_route r = {.pkey = 0x7FFF, .mtu = 5, .packet_life_time = 9}, wrong[9];
    uint32_t id = at_address(t, &r);
    struct ctl_cm_info info, usual;

    for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
        wrong[i] = r;
    wrong[0].sgid[15]++;
    wrong[1].dgid[15]++;
    wrong[2].pkey = 0x8001;
    wrong[3].mtu = 0;
    wrong[4].mtu = 6;
    wrong[5].packet_life_time = 32;
    wrong[6].sl = 16;
    wrong[7].rate = 64;
    wrong[8].flow_label = 1u << 20;
    for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
        assert_int_equal(give_route(&t->a, id, &wrong[i]), -EINVAL);
    side_no_event(&t->a);
    assert_int_equal(give_route(&t->a, id, &r), 0);
    side_event(&t->a, CTL_CM_ROUTE_RESOLVED);
    info = side_query(&t->a, id);
    usual = side_query(&t->a, side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1"));
    assert_int_equal(info.mtu, usual.mtu); /* no more than the port's */
    assert_int_equal(info.hop_limit, usual.hop_limit);
    assert_int_equal(info.rate, usual.rate);
    assert_int_not_equal(info.flow_label, 0);
    assert_int_equal(info.packet_life_time, 9);
}

static void no_retry(void *ctx)
{
}

/* The next hop is forgotten between rdma_resolve_addr and rdma_connect: the request waits for it.
 */
static void test_stale_route(void **state)
{
    struct sides *t = *state;
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}};
    struct port_address a = {.prefix = 24, .vlan = VLAN_NONE};
    struct port_config pc = {.address = &a, .addresses = 1};
    struct ctl_msg m = {
        .cm_resolve = {.timeout_ms = 2000, .dst = side_address("10.9.9.2", SIDES_PORT)}};
    struct ctl_call k = {0};
    struct cm_object *o;
    struct pktio *end[2];

    rnic_on_retry(t->r, no_retry, NULL);
    assert_int_equal(gid_parse(&a.gid, "10.9.9.1"), 0);
    assert_int_equal(pktio_sim_pair(end, &sc), 0);
    pc.io = end[0];
    assert_int_equal(rnic_add_port(t->r, &pc), 0);
    m.cm_resolve.id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    o = cm_object_get(t->a.sn, m.cm_resolve.id);
    assert_int_equal(o->progress, CM_AT_QUERY);
    TAILQ_REMOVE(&t->r->cm.resolving, o, resolving);
    o->progress = CM_AT_ROUTE;
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, o->o.handle, 1, ""), -EINPROGRESS);
    end[1]->ops->close(end[1]);
}

/* Link-local addresses of interfaces of the host, on its loopback device. */
static void test_scopes_on_the_loopback_device(void **state)
{
    struct sides *t = *state;
    struct port_address own = {.prefix = 64, .vlan = VLAN_NONE, .ifindex = 7};
    struct ctl_cm_addr a = side_address("fe80::77", SIDES_PORT + 1);
    struct ctl_cm_info info;
    uint32_t id;

    t->r->device[0]->info.ifindex = 1;
    assert_int_equal(gid_parse(&own.gid, "fe80::77"), 0);
    assert_int_equal(rnic_add_address(t->r, 0, &own), 0);
    a.scope = 7;
    assert_int_equal(side_bind(&t->a, side_make_id(&t->a, IP_CM_PS_TCP, 1), a, &info), 0);
    assert_int_equal(info.src.scope, 7);
    a.scope = 8; /* an interface with the same address */
    a.number++;
    assert_int_equal(side_bind(&t->a, side_make_id(&t->a, IP_CM_PS_TCP, 1), a, &info), 0);
    a = side_address("fe80::78", SIDES_PORT);
    assert_int_equal(side_bind(&t->a, side_make_id(&t->a, IP_CM_PS_TCP, 1), a, &info), -ENODEV);
    side_listener(&t->b, IP_CM_PS_TCP, "::", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "fe80::77");
    assert_int_equal(side_query(&t->a, id).dst.scope, 0); /* as the program named it */
    info = side_query(&t->b, side_requested(t, id).id);
    assert_int_equal(info.src.scope, 7);
    assert_int_equal(info.dst.scope, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_at_once, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_route_with_address, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_not_at_once, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_later, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_many_wait, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_addresses, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_mapped_addresses, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_next_destination, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_most_specific_route, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_silent_gateway, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_scopes_on_the_loopback_device, sides_setup,
                                        sides_teardown),
        cmocka_unit_test_setup_teardown(test_ports_before_loopback, sides_setup, sides_teardown),
        cmocka_unit_test(test_no_device),
        cmocka_unit_test_setup_teardown(test_address_goes, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_address_change, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_address_returns, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_bound_address_returns, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_connection_survives, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_place_of_a_connection, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_place_of_a_join, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_address_of_another_vlan, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_address_goes_while_resolving, sides_setup,
                                        sides_teardown),
        cmocka_unit_test_setup_teardown(test_many_follow, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_given_route, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_open_route, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_stale_route, sides_setup, sides_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
