/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs that were written for the kernel's rdma_cm rely on, over a loopback daemon, through
 * the public headers alone.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"

#define TIMEOUT_MS 5000

static struct sockaddr *local(uint16_t port)
{
    static struct sockaddr_in a;

    a = (struct sockaddr_in){.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    return (struct sockaddr *)&a;
}

/* The next event must be this one; NULL: it is acknowledged. */
static void expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type, int status,
                   struct rdma_cm_event **out)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(ch, &event), 0);
    if (event->event != type || event->status != status)
        fail_msg("%s (%d) instead of %s (%d)", rdma_event_str(event->event), event->status,
                 rdma_event_str(type), status);
    if (out)
        *out = event;
    else
        assert_int_equal(rdma_ack_cm_event(event), 0);
}

/* ---- two ends, on a channel each ---- */

struct ends {
    struct rdma_event_channel *channel[2]; /* of the active and of the passive side */
    struct rdma_cm_id *active, *listener, *passive;
    struct rdma_cm_event *request;
};

static void begin(struct ends *e, enum rdma_port_space ps)
{
    *e = (struct ends){0};
    for (unsigned i = 0; i < 2; i++) {
        e->channel[i] = rdma_create_event_channel();
        assert_non_null(e->channel[i]);
    }
    assert_int_equal(rdma_create_id(e->channel[1], &e->listener, NULL, ps), 0);
    assert_int_equal(rdma_bind_addr(e->listener, local(0)), 0);
    assert_int_equal(rdma_listen(e->listener, 4), 0);
    assert_int_equal(rdma_create_id(e->channel[0], &e->active, NULL, ps), 0);
    assert_int_equal(rdma_resolve_addr(e->active, NULL,
                                       local(ntohs(rdma_get_src_port(e->listener))), TIMEOUT_MS),
                     0);
    expect(e->channel[0], RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    assert_int_equal(rdma_resolve_route(e->active, TIMEOUT_MS), 0);
    expect(e->channel[0], RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
}

static struct ibv_qp_init_attr qp_attr(enum ibv_qp_type type)
{
    return (struct ibv_qp_init_attr){
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = type};
}

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = qp_attr(id->qp_type);

    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

/* The active side asks; the passive side has e->request and e->passive. */
static void request(struct ends *e, struct rdma_conn_param *param)
{
    assert_int_equal(rdma_connect(e->active, param), 0);
    expect(e->channel[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0, &e->request);
    e->passive = e->request->id;
}

/* Both ends, as far as the active one is told. */
static void establish(struct ends *e)
{
    make_qp(e->active);
    request(e, NULL);
    make_qp(e->passive);
    assert_int_equal(rdma_accept(e->passive, NULL), 0);
    expect(e->channel[0], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
}

static void give_back(struct rdma_cm_id *id)
{
    if (!id)
        return;
    rdma_destroy_qp(id);
    assert_int_equal(rdma_destroy_id(id), 0);
}

static void end(struct ends *e)
{
    if (e->request)
        assert_int_equal(rdma_ack_cm_event(e->request), 0);
    give_back(e->active);
    give_back(e->passive);
    give_back(e->listener);
    rdma_destroy_event_channel(e->channel[0]);
    rdma_destroy_event_channel(e->channel[1]);
}

/* ---- a table of descriptors that is full ---- */

/* Whether a call that needs descriptors has failed because there are none. */
static bool has_run_out(bool made)
{
    if (!made)
        assert_int_equal(errno, EMFILE);
    return !made;
}

/* Returns how many of the calls have failed. */
static unsigned try_all(struct ends *e)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    unsigned failed = has_run_out(channel);
    struct ibv_comp_channel *comp;

    if (channel)
        rdma_destroy_event_channel(channel);
    comp = ibv_create_comp_channel(e->active->verbs);
    failed += has_run_out(comp);
    if (comp)
        assert_int_equal(ibv_destroy_comp_channel(comp), 0);
    failed += has_run_out(!rdma_create_qp(e->active, NULL, &attr));
    if (e->active->qp)
        rdma_destroy_qp(e->active);
    return failed;
}

/* Whichever descriptor a call lacks, it fails alone: what the program has stays in use. */
static void test_no_descriptors(void **state)
{
    struct rlimit limit, few = {.rlim_cur = 64};
    unsigned n = 0, failed = 0;
    int used[64];
    struct ends e;

    begin(&e, RDMA_PS_TCP);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few.rlim_max = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while ((used[n] = dup(STDOUT_FILENO)) >= 0)
        n++;
    for (unsigned i = 0; i < 8; i++) {
        failed += try_all(&e);
        close(used[--n]);
    }
    assert_in_range(failed, 3, 23); /* all without a descriptor, none with enough of them */
    while (n)
        close(used[--n]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    establish(&e);
    end(&e);
}

/* ---- a library that replaces epoll's calls ---- */

/* This program's epoll_ctl is every library's, as libvma's is in the programs that preload it: it
 * refuses sets that were made while libvma begins. */
static bool epoll_is_replaced;

__attribute__((visibility("default"))) int epoll_ctl(int set, int op, int fd,
                                                     struct epoll_event *event)
{
    if (!epoll_is_replaced)
        return (int)syscall(SYS_epoll_ctl, set, op, fd, event);
    errno = EBADF;
    return -1;
}

static void test_replaced_epoll(void **state)
{
    struct ends e;
    int set = epoll_create1(EPOLL_CLOEXEC);

    epoll_is_replaced = true;
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, STDIN_FILENO, NULL), -1);
    begin(&e, RDMA_PS_TCP);
    establish(&e);
    end(&e);
    epoll_is_replaced = false;
    close(set);
}

/* ---- synchronous ids of datagrams ---- */

static struct rdma_cm_id *datagram_ep(int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_UDP}, *res;
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_UD);
    struct rdma_cm_id *id;

    assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7150", &hints, &res), 0);
    assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
    rdma_freeaddrinfo(res);
    return id;
}

/* A protection domain that a program gives is the listener's, and that of its requests. */
static void test_domain_of_endpoints(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_family = AF_INET}, *res;
    struct ibv_context **devices = rdma_get_devices(NULL);
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct ibv_pd *pd = ibv_alloc_pd(devices[0]);
    struct rdma_cm_id *listener;

    assert_non_null(pd);
    assert_int_equal(rdma_getaddrinfo(NULL, "7151", &hints, &res), 0);
    assert_int_equal(rdma_create_ep(&listener, res, pd, &attr), 0);
    assert_ptr_equal(listener->pd, pd);
    rdma_destroy_ep(listener);
    rdma_freeaddrinfo(res);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    rdma_free_devices(devices);
}

/* What a program puts into the address information by itself: the way, and bytes that the peer gets
 * before those of rdma_connect. */
static void complete_info(struct rdma_addrinfo *res, const struct rdma_cm_id *like)
{
    struct ibv_path_data *path = calloc(1, sizeof(*path));

    assert_non_null(path);
    path->flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
    path->path.sgid = like->route.path_rec->sgid;
    path->path.dgid = like->route.path_rec->dgid;
    path->path.pkey = 0xFFFF;
    path->path.mtu = IBV_MTU_512;
    res->ai_route = path;
    res->ai_route_len = sizeof(*path);
    res->ai_connect = strdup("header");
    res->ai_connect_len = 6;
}

static void test_complete_endpoint(void **state)
{
    struct rdma_conn_param param = {.private_data = "text", .private_data_len = 4};
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct rdma_addrinfo *res;
    struct ends e;

    begin(&e, RDMA_PS_TCP);
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, NULL, &res), 0);
    memcpy(res->ai_dst_addr, rdma_get_peer_addr(e.active), res->ai_dst_len);
    complete_info(res, e.active);
    give_back(e.active);
    assert_int_equal(rdma_create_ep(&e.active, res, NULL, &attr), 0);
    assert_int_equal(e.active->route.path_rec->mtu, IBV_MTU_512);
    assert_int_equal(rdma_migrate_id(e.active, e.channel[0]), 0);
    request(&e, &param);
    assert_memory_equal(e.request->param.conn.private_data, "headertext", 11);
    end(&e);

    res->ai_connect = realloc(res->ai_connect, 257);
    res->ai_connect_len = 257;
    assert_int_equal(rdma_create_ep(&e.active, res, NULL, &attr), -1);
    assert_int_equal(errno, EINVAL);
    res->ai_route_len--;
    res->ai_connect_len = 0;
    assert_int_equal(rdma_create_ep(&e.active, res, NULL, &attr), -1);
    assert_int_equal(errno, EINVAL);
    rdma_freeaddrinfo(res);
}

static void *look_up(void *arg)
{
    struct rdma_cm_id *id = datagram_ep(0);

    if (!rdma_connect(id, NULL))
        *(uint32_t *)arg = id->event->param.ud.qp_num;
    rdma_destroy_ep(id);
    return NULL;
}

/*
 * The answer to a request is the last call with its event, as there is none that follows: the
 * listener can end before the id of the request.
 */
static void answer_datagrams(bool accept)
{
    struct rdma_cm_id *listener = datagram_ep(RAI_PASSIVE), *id;
    uint32_t found = 0;
    pthread_t thread;

    assert_int_equal(rdma_listen(listener, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, look_up, &found), 0);
    assert_int_equal(rdma_get_request(listener, &id), 0);
    assert_non_null(id->event);
    assert_int_equal(accept ? rdma_accept(id, NULL) : rdma_reject(id, NULL, 0), 0);
    assert_null(id->event);
    pthread_join(thread, NULL);
    assert_int_equal(found, accept ? id->qp->qp_num : 0);
    alarm(10);
    rdma_destroy_ep(listener);
    alarm(0);
    rdma_destroy_ep(id);
}

static void test_datagram_endpoints(void **state)
{
    answer_datagrams(true);
}

static void test_rejected_endpoint(void **state)
{
    answer_datagrams(false);
}

/* ---- parameters that do not concern a program ---- */

/* What a structure that was not cleared may have, for a queue pair of the id and for one that it
 * does not know. */
static void test_leftover_parameters(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct rdma_conn_param param = {.private_data_len = 9,
                                        .flow_control = 0xA4,
                                        .retry_count = 0xA5,
                                        .rnr_retry_count = 0xA6,
                                        .srq = 0xA6,
                                        .qp_num = 0xA5000123};
        struct rdma_conn_param *got;
        struct ends e;

        begin(&e, RDMA_PS_TCP);
        if (i)
            make_qp(e.active);
        request(&e, &param);
        got = &e.request->param.conn;
        assert_int_equal(got->flow_control, 0);
        assert_int_equal(got->retry_count, 7);
        assert_int_equal(got->rnr_retry_count, 7);
        assert_int_equal(got->srq, !i);
        assert_int_equal(got->qp_num, i ? e.active->qp->qp_num : 0x123);
        param.qp_num++;
        assert_int_equal(rdma_accept(e.passive, &param), 0);
        expect(e.channel[0], i ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE, 0,
               NULL);
        end(&e);
    }
}

/* To look up a service of datagrams a program needs neither a queue pair nor parameters. */
static void test_datagrams_without_parameters(void **state)
{
    struct ends e;

    begin(&e, RDMA_PS_UDP);
    request(&e, NULL);
    assert_int_equal(rdma_reject(e.passive, NULL, 0), 0);
    expect(e.channel[0], RDMA_CM_EVENT_UNREACHABLE, 2, NULL);
    end(&e);
}

/* ---- private data ---- */

static void expect_without_data(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    expect(ch, type, 0, &event);
    assert_int_equal(event->param.conn.private_data_len, 0);
    assert_null(event->param.conn.private_data);
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

/* REQ, REP and REJ have data of the peer's program. Programs take what another event has for some,
 * too. */
static void test_events_without_data(void **state)
{
    struct rdma_cm_event *event;
    struct ends e;

    begin(&e, RDMA_PS_TCP);
    make_qp(e.active);
    request(&e, NULL);
    make_qp(e.passive);
    assert_int_equal(rdma_accept(e.passive, NULL), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ESTABLISHED, 0, &event);
    assert_int_equal(event->param.conn.private_data_len, 196);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    expect_without_data(e.channel[1], RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(rdma_disconnect(e.active), 0);
    expect_without_data(e.channel[1], RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(rdma_disconnect(e.passive), 0);
    expect_without_data(e.channel[0], RDMA_CM_EVENT_DISCONNECTED);
    end(&e);
}

/* A connection survives that a program accepts it twice. */
static void test_accept_twice(void **state)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct ends e;

    begin(&e, RDMA_PS_TCP);
    establish(&e);
    expect(e.channel[1], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    assert_int_equal(rdma_accept(e.passive, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_query_qp(e.passive->qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    end(&e);
}

/* A service that refuses to be looked up may say why. */
static void test_refused_datagrams(void **state)
{
    struct rdma_cm_event *event;
    struct ends e;

    begin(&e, RDMA_PS_UDP);
    request(&e, NULL);
    assert_int_equal(rdma_reject(e.passive, "not today", 9), 0);
    expect(e.channel[0], RDMA_CM_EVENT_UNREACHABLE, 2, &event);
    assert_int_equal(event->param.ud.private_data_len, 136);
    assert_memory_equal(event->param.ud.private_data, "not today", 9);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    end(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_replaced_epoll),
        cmocka_unit_test(test_datagram_endpoints),
        cmocka_unit_test(test_rejected_endpoint),
        cmocka_unit_test(test_domain_of_endpoints),
        cmocka_unit_test(test_complete_endpoint),
        cmocka_unit_test(test_leftover_parameters),
        cmocka_unit_test(test_datagrams_without_parameters),
        cmocka_unit_test(test_events_without_data),
        cmocka_unit_test(test_accept_twice),
        cmocka_unit_test(test_refused_datagrams),
    };

    return cmocka_run_group_tests_name("cm_programs", tests, NULL, NULL);
}
