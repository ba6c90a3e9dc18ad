/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the functions of librdmacm say when they cannot do as they are told, over a loopback daemon:
 * a table of calls at an id that was only made, and the errno of each.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "unit.h"

#define PORT 7100

struct fresh {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
};

static struct sockaddr *at(const char *text, uint16_t port)
{
    static struct sockaddr_in a;

    a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
    return (struct sockaddr *)&a;
}

static int bind_twice(struct fresh *f)
{
    assert_int_equal(rdma_bind_addr(f->id, at("127.0.0.1", 0)), 0);
    return rdma_bind_addr(f->id, at("127.0.0.1", 0));
}

static int bind_foreign(struct fresh *f)
{
    return rdma_bind_addr(f->id, at("198.51.100.77", 0));
}

static int resolve_foreign(struct fresh *f)
{
    struct sockaddr_storage src;

    memcpy(&src, at("198.51.100.77", 0), sizeof(struct sockaddr_in));
    return rdma_resolve_addr(f->id, (struct sockaddr *)&src, at("127.0.0.1", 7001), 1000);
}

static int bind_taken(struct fresh *f)
{
    struct rdma_cm_id *other;
    int rc;

    assert_int_equal(rdma_create_id(f->channel, &other, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(other, at("127.0.0.1", PORT)), 0);
    assert_int_equal(rdma_listen(other, 1), 0);
    rc = rdma_bind_addr(f->id, at("127.0.0.1", PORT));
    rc = rc ? rc : rdma_listen(f->id, 1);
    {
        int err = errno;

        rdma_destroy_id(other);
        errno = err;
    }
    return rc;
}

static int bind_family(struct fresh *f)
{
    struct sockaddr a = {.sa_family = AF_UNIX};

    return rdma_bind_addr(f->id, &a);
}

static int bind_unspecified(struct fresh *f)
{
    struct sockaddr a = {.sa_family = AF_UNSPEC};

    return rdma_bind_addr(f->id, &a);
}

static int bind_ib(struct fresh *f)
{
    struct sockaddr_storage a = {.ss_family = AF_IB};

    return rdma_bind_addr(f->id, (struct sockaddr *)&a);
}

static int resolve_unspecified(struct fresh *f)
{
    struct sockaddr a = {.sa_family = AF_UNSPEC};

    return rdma_resolve_addr(f->id, NULL, &a, 1000);
}

static int resolve_from_unspecified(struct fresh *f)
{
    struct sockaddr a = {.sa_family = AF_UNSPEC};

    return rdma_resolve_addr(f->id, &a, at("127.0.0.1", 7001), 1000);
}

static int port_space(struct fresh *f)
{
    struct rdma_cm_id *other;

    return rdma_create_id(f->channel, &other, NULL, (enum rdma_port_space)0x1234);
}

static int route_first(struct fresh *f)
{
    return rdma_resolve_route(f->id, 100);
}

static int connect_first(struct fresh *f)
{
    struct rdma_conn_param p = {.qp_num = 7};

    return rdma_connect(f->id, &p);
}

static int accept_idle(struct fresh *f)
{
    struct rdma_conn_param p = {.qp_num = 7};

    return rdma_accept(f->id, &p);
}

static int reject_idle(struct fresh *f)
{
    return rdma_reject(f->id, NULL, 0);
}

static int disconnect_idle(struct fresh *f)
{
    return rdma_disconnect(f->id);
}

static int establish_idle(struct fresh *f)
{
    return rdma_establish(f->id);
}

static int no_event(struct fresh *f)
{
    struct rdma_cm_event *event;

    assert_int_equal(fcntl(f->channel->fd, F_SETFL, O_NONBLOCK), 0);
    return rdma_get_cm_event(f->channel, &event);
}

static int option_level(struct fresh *f)
{
    int value = 1;

    return rdma_set_option(f->id, 77, RDMA_OPTION_ID_REUSEADDR, &value, sizeof(value));
}

static int option_name(struct fresh *f)
{
    int value = 1;

    return rdma_set_option(f->id, RDMA_OPTION_ID, 77, &value, sizeof(value));
}

static int option_length(struct fresh *f)
{
    int value = 1;

    return rdma_set_option(f->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &value, 1);
}

static int qp_first(struct fresh *f)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};

    return rdma_create_qp(f->id, NULL, &attr);
}

static int join_first(struct fresh *f)
{
    return rdma_join_multicast(f->id, at("239.1.2.3", 0), NULL);
}

/* Groups are of datagrams, and the id is for connections. */
static int join_connected(struct fresh *f)
{
    int rc = rdma_bind_addr(f->id, at("127.0.0.1", 0));

    return rc ? rc : rdma_join_multicast(f->id, at("239.1.2.3", 0), NULL);
}

static int leave_none(struct fresh *f)
{
    return rdma_leave_multicast(f->id, at("239.1.2.3", 0));
}

static int request_of_none(struct fresh *f)
{
    struct rdma_cm_id *id;

    return rdma_get_request(f->id, &id);
}

static int attr_first(struct fresh *f)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask;

    return rdma_init_qp_attr(f->id, &attr, &mask);
}

static const struct {
    const char *name;
    int (*call)(struct fresh *f);
    int err;
} rows[] = {
    {"rdma_bind_addr, twice", bind_twice, EINVAL},
    {"rdma_bind_addr, an address of another host", bind_foreign, EADDRNOTAVAIL},
    {"rdma_resolve_addr from an address of another host", resolve_foreign, EADDRNOTAVAIL},
    {"rdma_bind_addr and rdma_listen, a port number that is taken", bind_taken, EADDRINUSE},
    {"rdma_bind_addr, a family without RDMA", bind_family, EINVAL},
    {"rdma_bind_addr, an address of no family", bind_unspecified, EINVAL},
    {"rdma_bind_addr, an address of InfiniBand", bind_ib, ENODEV},
    {"rdma_resolve_addr, an address of no family", resolve_unspecified, EINVAL},
    {"rdma_resolve_addr from an address of no family", resolve_from_unspecified, EINVAL},
    {"rdma_create_id, no such port space", port_space, EINVAL},
    {"rdma_resolve_route before rdma_resolve_addr", route_first, EINVAL},
    {"rdma_connect before rdma_resolve_route", connect_first, EINVAL},
    {"rdma_accept without a request", accept_idle, EINVAL},
    {"rdma_reject without a request", reject_idle, EINVAL},
    {"rdma_disconnect without a connection", disconnect_idle, EINVAL},
    {"rdma_establish without a response", establish_idle, EINVAL},
    {"rdma_get_cm_event, none there", no_event, EAGAIN},
    {"rdma_set_option, no such level", option_level, ENOSYS},
    {"rdma_set_option, no such option", option_name, ENOSYS},
    {"rdma_set_option, another length", option_length, EINVAL},
    {"rdma_create_qp before there is a device", qp_first, EINVAL},
    {"rdma_join_multicast before there is a device", join_first, EINVAL},
    {"rdma_join_multicast of an id for connections", join_connected, EINVAL},
    {"rdma_leave_multicast, never joined", leave_none, EADDRNOTAVAIL},
    {"rdma_get_request with a channel", request_of_none, EINVAL},
    {"rdma_init_qp_attr without a connection", attr_first, EINVAL},
};

static void test_errnos(void **state)
{
    unsigned wrong = 0;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fresh f = {.channel = rdma_create_event_channel()};
        int rc;

        assert_non_null(f.channel);
        assert_int_equal(rdma_create_id(f.channel, &f.id, NULL, RDMA_PS_TCP), 0);
        errno = 0;
        rc = rows[i].call(&f);
        if (rc != -1 || errno != rows[i].err) {
            print_message("%s: %d, %s, not %s\n", rows[i].name, rc, strerror(errno),
                          strerror(rows[i].err));
            wrong++;
        }
        rdma_destroy_id(f.id);
        rdma_destroy_event_channel(f.channel);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errnos)};

    return cmocka_run_group_tests_name("cm_errno", tests, NULL, NULL);
}
