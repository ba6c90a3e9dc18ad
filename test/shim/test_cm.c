/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm's API over a loopback daemon, through the public headers alone: what unmodified
 * programs do not look at. With the argument "end-of-the-daemon" it waits for that.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm_group.h"
#include "unit.h"

#define PORT       7000
#define TIMEOUT_MS 5000

static struct sockaddr_in address(const char *text, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

    assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
    return a;
}

static struct sockaddr *any(struct sockaddr_in *a)
{
    return (struct sockaddr *)a;
}

/* ---- two ends of a connection, on a channel each ---- */

struct ends {
    struct rdma_event_channel *channel[2]; /* of the active and of the passive side */
    struct rdma_cm_id *active, *listener, *passive;
    struct rdma_cm_event *request;
    uint16_t port;
};

static struct ibv_qp_init_attr qp_attr(void)
{
    return (struct ibv_qp_init_attr){
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};
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

static void resolve(struct ends *e, const char *text)
{
    struct sockaddr_in dst = address(text, e->port);

    assert_int_equal(rdma_create_id(e->channel[0], &e->active, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(e->active, NULL, any(&dst), TIMEOUT_MS), 0);
    expect(e->channel[0], RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    assert_int_equal(rdma_resolve_route(e->active, TIMEOUT_MS), 0);
    expect(e->channel[0], RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
}

static void listen_at(struct ends *e, const char *text)
{
    struct sockaddr_in src = address(text, 0);

    assert_int_equal(rdma_create_id(e->channel[1], &e->listener, e, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(e->listener, any(&src)), 0);
    assert_int_equal(rdma_listen(e->listener, 4), 0);
    e->port = ntohs(rdma_get_src_port(e->listener));
    assert_int_not_equal(e->port, 0);
}

static void begin(struct ends *e)
{
    memset(e, 0, sizeof(*e));
    for (unsigned i = 0; i < 2; i++) {
        e->channel[i] = rdma_create_event_channel();
        assert_non_null(e->channel[i]);
    }
    listen_at(e, "127.0.0.1");
    resolve(e, "127.0.0.1");
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

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = qp_attr();

    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

/* The active side asks; the passive side has e->request and e->passive. */
static void request(struct ends *e, struct rdma_conn_param *param)
{
    assert_int_equal(rdma_connect(e->active, param), 0);
    expect(e->channel[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0, &e->request);
    e->passive = e->request->id;
}

static struct ibv_qp_attr query(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    assert_int_equal(ibv_query_qp(id->qp, &attr,
                                  IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_TIMEOUT |
                                      IBV_QP_RNR_RETRY | IBV_QP_RETRY_CNT,
                                  &init),
                     0);
    return attr;
}

/* ---- what does not wait for the daemon ---- */

/* Sends a signal to it; returns when a stopped one has stopped. */
static void signal_daemon(int sig)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct ucred peer;
    socklen_t len = sizeof(peer);

    assert_true(strlen(getenv("UROCE_SOCKET")) < sizeof(a.sun_path));
    strcpy(a.sun_path, getenv("UROCE_SOCKET"));
    assert_int_equal(connect(sock, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len), 0);
    assert_int_equal(kill(peer.pid, sig), 0);
    close(sock);
}

/* A daemon that is stopped answers nothing: a call that waits would wait until the alarm. */
static void test_calls_without_waiting(void **state)
{
    struct sockaddr_in dst;
    struct rdma_conn_param param = {.private_data = "hello", .private_data_len = 6};
    struct ends e = {0};

    for (unsigned i = 0; i < 2; i++)
        assert_non_null(e.channel[i] = rdma_create_event_channel());
    listen_at(&e, "127.0.0.1");
    dst = address("127.0.0.1", e.port);
    assert_int_equal(rdma_create_id(e.channel[0], &e.active, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(e.active, NULL, any(&dst), TIMEOUT_MS), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    make_qp(e.active);
    signal_daemon(SIGSTOP);
    assert_int_equal(e.active->route.num_paths, 0);
    assert_int_equal(rdma_resolve_route(e.active, TIMEOUT_MS), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    assert_int_equal(e.active->route.num_paths, 1);
    assert_int_equal(rdma_connect(e.active, &param), 0);
    signal_daemon(SIGCONT);
    expect(e.channel[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0, &e.request);
    e.passive = e.request->id;
    make_qp(e.passive);
    signal_daemon(SIGSTOP);
    assert_int_equal(rdma_accept(e.passive, &param), 0);
    signal_daemon(SIGCONT);
    expect(e.channel[1], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    signal_daemon(SIGSTOP);
    expect(e.channel[0], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    assert_int_equal(e.active->qp->state, IBV_QPS_RTS);
    signal_daemon(SIGCONT);
    assert_int_equal(query(e.active).qp_state, IBV_QPS_RTS);
    signal_daemon(SIGSTOP);
    assert_int_equal(rdma_disconnect(e.active), 0);
    signal_daemon(SIGCONT);
    expect(e.channel[1], RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    signal_daemon(SIGSTOP);
    assert_int_equal(rdma_disconnect(e.passive), 0);
    signal_daemon(SIGCONT);
    expect(e.channel[0], RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    rdma_destroy_qp(e.active);
    rdma_destroy_qp(e.passive);
    assert_int_equal(rdma_ack_cm_event(e.request), 0);
    e.request = NULL;
    signal_daemon(SIGSTOP);
    assert_int_equal(rdma_destroy_id(e.active), 0);
    assert_int_equal(rdma_destroy_id(e.passive), 0);
    signal_daemon(SIGCONT);
    e.active = e.passive = NULL;
    end(&e);
}

/* What the program says after the address changes the path that came with it. */
static void test_options_after_the_address(void **state)
{
    struct sockaddr_in dst;
    uint8_t tos = 104;
    struct ends e = {0};

    for (unsigned i = 0; i < 2; i++)
        assert_non_null(e.channel[i] = rdma_create_event_channel());
    dst = address("127.0.0.1", PORT);
    assert_int_equal(rdma_create_id(e.channel[0], &e.active, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(e.active, NULL, any(&dst), TIMEOUT_MS), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    assert_int_equal(
        rdma_set_option(e.active, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)), 0);
    assert_int_equal(rdma_resolve_route(e.active, TIMEOUT_MS), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    assert_int_equal(e.active->route.path_rec->traffic_class, 104);
    end(&e);
}

/* The second time it is an error, whether the daemon knows of the first or not. */
static void test_route_twice(void **state)
{
    struct sockaddr_in dst;
    struct ends e;

    begin(&e);
    dst = address("127.0.0.1", e.port);
    assert_int_equal(rdma_resolve_route(e.active, TIMEOUT_MS), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_resolve_addr(e.active, NULL, any(&dst), TIMEOUT_MS), -1);
    assert_int_equal(errno, EINVAL);
    make_qp(e.active);
    request(&e, NULL);
    end(&e);
}

/* ---- what ids say ---- */

static void test_ids(void **state)
{
    struct ibv_context **list;
    struct rdma_addr *addr;
    struct ends e;
    int n;

    begin(&e);
    list = rdma_get_devices(&n);
    assert_true(n >= 1);
    assert_ptr_equal(e.active->verbs, list[0]);
    assert_ptr_equal(e.listener->verbs, list[0]);
    assert_ptr_equal(e.active->pd, e.listener->pd);
    rdma_free_devices(list);
    assert_int_equal(e.active->port_num, 1);
    addr = &e.active->route.addr;
    assert_int_equal(addr->src_addr.sa_family, AF_INET);
    assert_int_not_equal(rdma_get_src_port(e.active), 0);
    assert_int_equal(ntohs(rdma_get_dst_port(e.active)), e.port);
    assert_int_equal(addr->dst_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(addr->addr.ibaddr.pkey, htons(0xffff));
    assert_memory_equal(addr->addr.ibaddr.sgid.raw + 12, &addr->src_sin.sin_addr, 4);
    assert_memory_equal(addr->addr.ibaddr.dgid.raw + 12, &addr->dst_sin.sin_addr, 4);
    assert_int_equal(e.active->route.num_paths, 1);
    assert_memory_equal(&e.active->route.path_rec->dgid, &addr->addr.ibaddr.dgid, 16);
    assert_memory_equal(&e.active->route.path_rec->sgid, &addr->addr.ibaddr.sgid, 16);
    assert_in_range(e.active->route.path_rec->mtu, 1, 5);
    assert_int_equal(e.active->route.path_rec->pkey, htons(0xffff));

    request(&e, &(struct rdma_conn_param){.qp_num = 0x111});
    assert_ptr_equal(e.passive->context, &e);
    assert_ptr_equal(e.passive->verbs, e.listener->verbs);
    assert_ptr_equal(e.passive->pd, e.active->pd);
    assert_int_equal(rdma_get_src_port(e.passive), rdma_get_dst_port(e.active));
    assert_int_equal(rdma_get_dst_port(e.passive), rdma_get_src_port(e.active));
    assert_int_equal(e.passive->route.num_paths, 1);
    end(&e);
}

/* ---- connections ---- */

static void test_parameters(void **state)
{
    struct rdma_conn_param ask = {.private_data = "hello",
                                  .private_data_len = 5,
                                  .responder_resources = 3,
                                  .initiator_depth = 5,
                                  .retry_count = 4,
                                  .rnr_retry_count = 6};
    struct rdma_conn_param answer = {.private_data = "there",
                                     .private_data_len = 5,
                                     .responder_resources = 4,
                                     .initiator_depth = 2,
                                     .rnr_retry_count = 1};
    struct rdma_conn_param *p;
    struct rdma_cm_event *event;
    struct ibv_qp_attr attr;
    struct ends e;

    begin(&e);
    make_qp(e.active);
    request(&e, &ask);
    p = &e.request->param.conn;
    assert_memory_equal(p->private_data, "hello", 5);
    assert_int_equal(p->qp_num, e.active->qp->qp_num);
    assert_int_equal(p->responder_resources, 5); /* what the peer wants to ask for */
    assert_int_equal(p->initiator_depth, 3);
    assert_int_equal(p->retry_count, 4);
    assert_int_equal(p->rnr_retry_count, 6);
    make_qp(e.passive);
    assert_int_equal(rdma_accept(e.passive, &answer), 0);
    attr = query(e.passive);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.max_dest_rd_atomic, 4);
    assert_int_equal(attr.max_rd_atomic, 2);
    assert_int_equal(attr.rnr_retry, 6);
    expect(e.channel[0], RDMA_CM_EVENT_ESTABLISHED, 0, &event);
    assert_memory_equal(event->param.conn.private_data, "there", 5);
    assert_int_equal(event->param.conn.qp_num, e.passive->qp->qp_num);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    attr = query(e.active);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.max_rd_atomic, 4);
    assert_int_equal(attr.max_dest_rd_atomic, 2);
    assert_int_equal(attr.retry_cnt, 4);
    assert_int_equal(attr.rnr_retry, 1);
    expect(e.channel[1], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);

    assert_int_equal(rdma_disconnect(e.active), 0);
    assert_int_equal(query(e.active).qp_state, IBV_QPS_ERR);
    expect(e.channel[1], RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    assert_int_equal(rdma_disconnect(e.passive), 0);
    expect(e.channel[0], RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    /* As the kernel's, it can be called again. */
    assert_int_equal(rdma_disconnect(e.active), 0);
    end(&e);
}

/* Without parameters a program gets as much as the device has. */
static void test_no_parameters(void **state)
{
    struct ibv_device_attr device;
    struct ends e;

    begin(&e);
    assert_int_equal(rdma_connect(e.active, NULL), -1);
    assert_int_equal(errno, EINVAL); /* the queue pair's number is missing */
    make_qp(e.active);
    assert_int_equal(ibv_query_device(e.active->verbs, &device), 0);
    request(&e, NULL);
    assert_int_equal(rdma_accept(e.passive, NULL), -1);
    assert_int_equal(errno, EINVAL); /* here, too */
    make_qp(e.passive);
    assert_int_equal(rdma_accept(e.passive, NULL), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    assert_int_equal(query(e.active).max_dest_rd_atomic, device.max_qp_rd_atom);
    assert_int_equal(query(e.active).rnr_retry, 7);
    assert_int_equal(query(e.passive).max_rd_atomic, device.max_qp_init_rd_atom);
    end(&e);
}

static uint32_t ece_options_of(const struct rdma_cm_id *id)
{
    struct ibv_ece ece;

    assert_int_equal(ibv_query_ece(id->qp, &ece), 0);
    return ece.options;
}

/* Both queue pairs get what both can do, with the request and its answer. */
static void connect_with_ece(bool refused)
{
    struct ibv_ece none = {0};
    struct ends e;
    uint32_t all;

    begin(&e);
    make_qp(e.active);
    all = ece_options_of(e.active);
    assert_int_not_equal(all, 0);
    if (refused)
        assert_int_equal(ibv_set_ece(e.active->qp, &none), 0);
    request(&e, NULL);
    make_qp(e.passive);
    assert_int_equal(rdma_accept(e.passive, NULL), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    assert_int_equal(ece_options_of(e.active), refused ? 0 : all);
    assert_int_equal(ece_options_of(e.passive), refused ? 0 : all);
    end(&e);
}

static void test_ece(void **state)
{
    connect_with_ece(false);
    connect_with_ece(true);
}

static void test_too_much(void **state)
{
    struct ibv_device_attr device;
    struct rdma_conn_param param = {0};
    struct ends e;

    begin(&e);
    make_qp(e.active);
    assert_int_equal(ibv_query_device(e.active->verbs, &device), 0);
    param.responder_resources = (uint8_t)(device.max_qp_rd_atom + 1);
    assert_int_equal(rdma_connect(e.active, &param), -1);
    assert_int_equal(errno, EINVAL);
    param = (struct rdma_conn_param){.initiator_depth = (uint8_t)(device.max_qp_init_rd_atom + 1)};
    assert_int_equal(rdma_connect(e.active, &param), -1);
    assert_int_equal(errno, EINVAL);
    param = (struct rdma_conn_param){.private_data = "", .private_data_len = 57};
    {
        uint8_t data[57] = {0};

        param.private_data = data;
        assert_int_equal(rdma_connect(e.active, &param), -1);
        assert_int_equal(errno, EINVAL);
        param.private_data_len = 56;
        request(&e, &param);
    }
    end(&e);
}

static void test_reject(void **state)
{
    struct rdma_cm_event *event;
    struct ends e;

    begin(&e);
    make_qp(e.active);
    request(&e, NULL);
    assert_int_equal(rdma_reject(e.passive, "no", 2), 0);
    expect(e.channel[0], RDMA_CM_EVENT_REJECTED, 28, &event);
    assert_memory_equal(event->param.conn.private_data, "no", 2);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(query(e.active).qp_state, IBV_QPS_ERR);
    end(&e);
}

/* Queue pairs that the ids do not know: the program modifies them, and says when it is ready. */
static void test_external_qp(void **state)
{
    struct ibv_ece ece = {.vendor_id = 0x123, .options = 0x456}, got;
    struct rdma_conn_param param = {.qp_num = 0x222, .responder_resources = 1, .srq = 1};
    struct rdma_cm_event *event;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .rate_limit = 7};
    struct ends e;
    int mask = 0;

    begin(&e);
    assert_int_equal(rdma_init_qp_attr(e.active, &attr, &mask), -1);
    attr.qp_state = IBV_QPS_INIT;
    assert_int_equal(rdma_init_qp_attr(e.active, &attr, &mask), 0);
    assert_int_equal(attr.port_num, 1);
    assert_int_equal(attr.rate_limit, 7); /* the structure of older programs ends before it */
    assert_true(mask & IBV_QP_PORT);
    assert_int_equal(rdma_set_local_ece(e.active, &ece), 0);
    request(&e, &param);
    assert_int_equal(e.request->param.conn.qp_num, 0x222);
    assert_int_equal(e.request->param.conn.srq, 1);
    assert_int_equal(rdma_get_remote_ece(e.passive, &got), 0);
    assert_int_equal(got.vendor_id, 0x123);
    assert_int_equal(got.options, 0x456);
    param.qp_num = 0x333;
    assert_int_equal(rdma_accept(e.passive, &param), 0);
    expect(e.channel[0], RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &event);
    assert_int_equal(event->param.conn.qp_num, 0x333);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    attr.qp_state = IBV_QPS_RTR;
    assert_int_equal(rdma_init_qp_attr(e.active, &attr, &mask), 0);
    assert_int_equal(attr.dest_qp_num, 0x333);
    assert_int_equal(attr.ah_attr.is_global, 1);
    assert_int_equal(attr.ah_attr.port_num, 1);
    assert_int_equal(rdma_establish(e.active), 0);
    expect(e.channel[1], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    /* A notification after that is too late. */
    assert_int_equal(rdma_notify(e.passive, IBV_EVENT_COMM_EST), -1);
    assert_int_equal(errno, EISCONN);
    end(&e);
}

static void test_establish_needs_no_qp(void **state)
{
    struct ibv_ece ece = {0};
    struct ends e;

    begin(&e);
    make_qp(e.active);
    assert_int_equal(rdma_establish(e.active), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_set_local_ece(e.active, &ece), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_get_remote_ece(e.active, &ece), -1);
    assert_int_equal(errno, EINVAL);
    end(&e);
}

/* ---- queue pairs ---- */

static void test_own_queues(void **state)
{
    struct ibv_qp_init_attr attr = qp_attr();
    struct ends e;

    begin(&e);
    make_qp(e.active);
    assert_non_null(e.active->send_cq);
    assert_non_null(e.active->recv_cq);
    assert_ptr_equal(e.active->qp->send_cq, e.active->send_cq);
    assert_ptr_equal(e.active->send_cq->cq_context, e.active);
    assert_ptr_equal(e.active->send_cq->channel, e.active->send_cq_channel);
    assert_ptr_equal(e.active->qp->pd, e.active->pd);
    assert_int_equal(rdma_create_qp(e.active, NULL, &attr), -1);
    assert_int_equal(errno, EINVAL);
    rdma_destroy_qp(e.active);
    assert_null(e.active->qp);
    assert_null(e.active->send_cq);
    assert_null(e.active->recv_cq_channel);

    /* A shared receive queue is that of the queue pairs that name none. */
    {
        struct ibv_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 1}};

        assert_int_equal(rdma_create_srq(e.active, NULL, &srq), 0);
        assert_non_null(e.active->srq);
        make_qp(e.active);
        assert_ptr_equal(e.active->qp->srq, e.active->srq);
        rdma_destroy_qp(e.active);
        rdma_destroy_srq(e.active);
        assert_null(e.active->srq);
    }
    end(&e);
}

static void test_other_pd(void **state)
{
    struct ibv_qp_init_attr attr = qp_attr();
    struct ibv_context *other;
    struct ibv_pd *pd;
    struct ends e;

    begin(&e);
    other = ibv_open_device(e.active->verbs->device);
    assert_non_null(other);
    pd = ibv_alloc_pd(other);
    assert_int_equal(rdma_create_qp(e.active, pd, &attr), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    pd = ibv_alloc_pd(e.active->verbs);
    assert_int_equal(rdma_create_qp(e.active, pd, &attr), 0);
    assert_ptr_equal(e.active->pd, pd);
    rdma_destroy_qp(e.active);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(other), 0);
    end(&e);
}

/* ---- addresses and options ---- */

static void test_binding(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in here = address("127.0.0.1", PORT), nowhere = address("203.0.113.9", 0);
    struct sockaddr_in wildcard = address("0.0.0.0", 0);
    struct rdma_cm_id *a, *b;
    int yes = 1;

    assert_non_null(channel);
    assert_int_equal(rdma_create_id(channel, &a, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_create_id(channel, &b, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(a, any(&nowhere)), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    assert_int_equal(rdma_bind_addr(a, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_bind_addr(a, any(&here)), 0);
    assert_non_null(a->verbs);
    assert_int_equal(rdma_bind_addr(b, any(&here)), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(rdma_bind_addr(b, any(&wildcard)), 0);
    assert_null(b->verbs);
    assert_int_not_equal(rdma_get_src_port(b), 0);
    assert_int_equal(rdma_destroy_id(a), 0);
    assert_int_equal(rdma_destroy_id(b), 0);

    assert_int_equal(rdma_create_id(channel, &a, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_create_id(channel, &b, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(
        rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), 0);
    assert_int_equal(
        rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), 0);
    assert_int_equal(rdma_bind_addr(a, any(&here)), 0);
    assert_int_equal(rdma_bind_addr(b, any(&here)), 0);
    assert_int_equal(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_set_option(a, RDMA_OPTION_ID, 99, &yes, sizeof(yes)), -1);
    assert_int_equal(errno, ENOSYS);
    assert_int_equal(rdma_set_option(a, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &yes, 4), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_set_option(a, RDMA_OPTION_IB, 99, &yes, 4), -1);
    assert_int_equal(errno, ENOSYS);
    assert_int_equal(rdma_destroy_id(a), 0);
    assert_int_equal(rdma_destroy_id(b), 0);
    rdma_destroy_event_channel(channel);
}

/* The program says the route itself. */
static void test_given_route(void **state)
{
    struct ibv_path_data path[2] = {
        {.flags = IBV_PATH_FLAG_ALTERNATE},
        {.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL}};
    struct sockaddr_in dst;
    struct ends e;

    begin(&e);
    give_back(e.active);
    dst = address("127.0.0.1", e.port);
    assert_int_equal(rdma_create_id(e.channel[0], &e.active, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(e.active, NULL, any(&dst), TIMEOUT_MS), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    path[1].path.sgid = e.active->route.addr.addr.ibaddr.sgid;
    path[1].path.dgid = e.active->route.addr.addr.ibaddr.dgid;
    path[1].path.pkey = 0xFFFF;
    path[1].path.mtu = IBV_MTU_512;
    path[1].path.packetlifetime = 11;
    path[1].path.flowlabel_hoplimit = htonl(0xABCDE << 8 | 7);
    path[1].path.qosclass_sl = htons(3);
    path[1].path.tclass = 0x68;
    assert_int_equal(rdma_set_option(e.active, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, 71), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(
        rdma_set_option(e.active, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, sizeof(path[0])), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(
        rdma_set_option(e.active, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, sizeof(path)), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    assert_int_equal(e.active->route.path_rec->mtu, IBV_MTU_512);
    assert_int_equal(e.active->route.path_rec->packet_life_time, 11);
    assert_int_equal(e.active->route.path_rec->hop_limit, 7);
    assert_int_equal(e.active->route.path_rec->traffic_class, 0x68);
    assert_int_equal(e.active->route.path_rec->sl, 3);
    assert_int_equal(ntohl(e.active->route.path_rec->flow_label), 0xABCDE);
    make_qp(e.active);
    request(&e, NULL);
    make_qp(e.passive);
    assert_int_equal(rdma_accept(e.passive, NULL), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    expect(e.channel[1], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    assert_int_equal(query(e.active).path_mtu, IBV_MTU_512);
    assert_int_equal(query(e.passive).path_mtu, IBV_MTU_512);
    end(&e);
}

static void test_ack_timeout(void **state)
{
    uint8_t timeout = 12;
    struct ends e;

    begin(&e);
    make_qp(e.active);
    assert_int_equal(rdma_set_option(e.active, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                                     sizeof(timeout)),
                     0);
    request(&e, NULL);
    make_qp(e.passive);
    assert_int_equal(rdma_accept(e.passive, NULL), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    assert_int_equal(query(e.active).timeout, 12);
    end(&e);
}

static void test_wrong_calls(void **state)
{
    struct sockaddr other = {.sa_family = AF_UNIX};
    struct ends e;

    begin(&e);
    assert_int_equal(rdma_resolve_addr(e.active, NULL, &other, 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_resolve_addr(e.active, NULL, NULL, 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_resolve_route(e.listener, 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_accept(e.active, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_disconnect(e.active), -1);
    assert_int_equal(errno, EINVAL);
    end(&e);
}

/* ---- endpoints ---- */

static const char *serve_one(struct rdma_cm_id *listener)
{
    struct rdma_cm_id *id;
    static uint8_t buffer[64];
    struct ibv_mr *mr;
    struct ibv_wc wc;

    if (rdma_get_request(listener, &id))
        return "rdma_get_request";
    mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
    if (!mr || rdma_post_recv(id, NULL, buffer, sizeof(buffer), mr))
        return "rdma_post_recv";
    if (rdma_accept(id, NULL))
        return "rdma_accept";
    if (id->event->event != RDMA_CM_EVENT_ESTABLISHED)
        return "the event";
    if (rdma_get_recv_comp(id, &wc) != 1 || wc.status || memcmp(buffer, "message", 7))
        return "the message";
    rdma_disconnect(id);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    return NULL;
}

static void *serve(void *arg)
{
    return (void *)(uintptr_t)serve_one(arg);
}

static struct rdma_cm_id *make_ep(int flags, uint16_t port)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *res;
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_cm_id *id;
    char service[8];

    snprintf(service, sizeof(service), "%u", port);
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", service, &hints, &res), 0);
    if (rdma_create_ep(&id, res, NULL, &attr))
        fail_msg("rdma_create_ep: %s", strerror(errno));
    rdma_freeaddrinfo(res);
    return id;
}

static void test_endpoints(void **state)
{
    struct rdma_cm_id *listener = make_ep(RAI_PASSIVE, PORT), *id;
    static uint8_t buffer[64] = "message";
    struct ibv_mr *mr;
    struct ibv_wc wc;
    pthread_t thread;
    void *wrong;

    assert_int_equal(rdma_listen(listener, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, listener), 0);
    id = make_ep(0, PORT);
    assert_non_null(id->qp);
    assert_int_equal(rdma_connect(id, NULL), 0);
    mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
    assert_non_null(mr);
    assert_int_equal(rdma_post_send(id, NULL, buffer, 8, mr, IBV_SEND_SIGNALED), 0);
    assert_int_equal(rdma_get_send_comp(id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    /* Each side's call waits for the other's. */
    assert_int_equal(rdma_disconnect(id), 0);
    pthread_join(thread, &wrong);
    if (wrong)
        fail_msg("the server: %s", (const char *)wrong);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
}

static void test_endpoint_refused(void **state)
{
    struct rdma_cm_id *id = make_ep(0, PORT);

    assert_int_equal(rdma_connect(id, NULL), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(id->event->event, RDMA_CM_EVENT_REJECTED);
    rdma_destroy_ep(id);
}

/* ---- several threads, several processes ---- */

#define CLIENTS 4
#define ROUNDS  40

static void *connect_rounds(void *arg)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct rdma_cm_id *id = make_ep(0, *(uint16_t *)arg);

        if (rdma_connect(id, NULL))
            fail_msg("rdma_connect: %s", strerror(errno));
        rdma_disconnect(id);
        rdma_destroy_ep(id);
    }
    return NULL;
}

/* Both threads of the server take events of one channel: an id may end in one while the other has
 * an event of it. */
static void *serve_events(void *arg)
{
    struct rdma_event_channel *channel = arg;
    struct ibv_qp_init_attr attr;
    struct rdma_cm_event *event;

    while (!rdma_get_cm_event(channel, &event)) {
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type type = event->event;

        attr = qp_attr();
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST &&
            (rdma_create_qp(id, NULL, &attr) || rdma_accept(id, NULL)))
            type = RDMA_CM_EVENT_DISCONNECTED; /* the peer was faster */
        rdma_ack_cm_event(event);
        if (type != RDMA_CM_EVENT_DISCONNECTED)
            continue;
        give_back(id);
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t server[2], client[CLIENTS];
    struct sockaddr_in src = address("127.0.0.1", 0);
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *listener;
    uint16_t port;

    assert_int_equal(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(listener, any(&src)), 0);
    assert_int_equal(rdma_listen(listener, 0), 0);
    port = ntohs(rdma_get_src_port(listener));
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&server[i], NULL, serve_events, channel), 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&client[i], NULL, connect_rounds, &port), 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        pthread_join(client[i], NULL);
    for (unsigned i = 0; i < 2; i++) {
        pthread_cancel(server[i]);
        pthread_join(server[i], NULL);
    }
    /* Ids that the server did not come to are left behind, with their channel. */
    assert_int_equal(rdma_destroy_id(listener), 0);
}

static void test_child(void **state)
{
    struct ends e;
    int status = -1;
    pid_t pid;

    begin(&e);
    pid = fork();
    if (!pid) {
        struct rdma_cm_id *id = make_ep(0, e.port);
        int err = rdma_connect(id, NULL) == -1 && errno == ECONNREFUSED ? 0 : 1;

        rdma_destroy_ep(id);
        err |= rdma_destroy_id(e.active) ? 2 : 0;
        _exit(err);
    }
    /* The parent's listener is untouched. */
    expect(e.channel[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0, &e.request);
    e.passive = e.request->id;
    assert_int_equal(rdma_reject(e.passive, NULL, 0), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(rdma_ack_cm_event(e.request), 0);
    assert_int_equal(rdma_destroy_id(e.passive), 0);
    make_qp(e.active);
    request(&e, NULL);
    end(&e);
}

/* ---- the daemon ends ---- */

/* With a connection, whose queue pairs are destroyed; then the next daemon serves the channels. */
static int wait_for_the_end(void)
{
    struct ends e;
    char line[8];

    begin(&e);
    make_qp(e.active);
    request(&e, NULL);
    assert_int_equal(rdma_ack_cm_event(e.request), 0);
    e.request = NULL;
    puts("ready");
    fflush(stdout);
    expect(e.channel[0], RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
    expect(e.channel[1], RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
    expect(e.channel[1], RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
    give_back(e.active);
    give_back(e.passive);
    give_back(e.listener);
    e.active = e.passive = e.listener = NULL;
    puts("gone");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    listen_at(&e, "127.0.0.1");
    resolve(&e, "127.0.0.1");
    make_qp(e.active);
    request(&e, NULL);
    make_qp(e.passive);
    assert_int_equal(rdma_accept(e.passive, NULL), 0);
    expect(e.channel[0], RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    end(&e);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_without_waiting),
        cmocka_unit_test(test_options_after_the_address),
        cmocka_unit_test(test_route_twice),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_no_parameters),
        cmocka_unit_test(test_ece),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_reject),
        cmocka_unit_test(test_external_qp),
        cmocka_unit_test(test_establish_needs_no_qp),
        cmocka_unit_test(test_own_queues),
        cmocka_unit_test(test_other_pd),
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_given_route),
        cmocka_unit_test(test_ack_timeout),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_endpoint_refused),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_synchronous_group),
        cmocka_unit_test(test_child),
    };

    alarm(60);
    if (argc > 1 && !strcmp(argv[1], "end-of-the-daemon"))
        return wait_for_the_end();
    return cmocka_run_group_tests_name("cm", tests, NULL, NULL);
}
