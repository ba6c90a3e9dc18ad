/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See server.h. One thread, which sleeps unless there is something to do: WRITEs, READs and atomics
 * need nothing of it, and for messages that take a receive WQE it posts another one.
 */
#include "peer/server.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common.h"
#include "peer/hello.h"
#include "peer/verbs_calls.h"

#define PEERS_MAX 1024
#define POLL      32
/* 10 us. rdma_cm leaves 0, which is 0.66 s: too long for a receive that is about to be posted. */
#define RNR_TIMER 1

struct server {
    const struct verbs_calls *calls;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    int epoll;
    LIST_HEAD(, peer) peers;
    unsigned count;
};

/* A queue pair of a client. */
struct peer {
    LIST_ENTRY(peer) link;
    struct server *server;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    uint8_t *memory;
    uint64_t size, length;
    uint32_t receive;
    uint64_t next; /* where the next message is received, in the memory */
};

/* ---- messages that are received ---- */

static int post_receive(struct peer *p)
{
    struct ibv_sge sge = {(uint64_t)(uintptr_t)p->memory + p->next, (uint32_t)p->size, p->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = p->size > 0};

    p->next += p->size;
    if (p->next + p->size > p->length)
        p->next = 0;
    return ibv_post_recv(p->id->qp, &wr, &bad);
}

/* All that has come. Of more than the queue holds some came after the request for an event: there
 * is one, and others have their turn before it. */
static void take_completions(struct peer *p)
{
    struct ibv_wc wc[POLL];
    uint32_t taken = 0;
    int n;

    do {
        n = ibv_poll_cq(p->cq, POLL, wc);
        for (int i = 0; i < n; i++)
            if (wc[i].status == IBV_WC_SUCCESS) /* others: the connection ends */
                post_receive(p);
        taken += n > 0 ? (uint32_t)n : 0;
    } while (n > 0 && taken <= p->receive + 1);
}

static void on_messages(struct peer *p)
{
    struct ibv_cq *cq;
    void *context;

    if (p->server->calls->ibv_get_cq_event(p->channel, &cq, &context))
        return;
    p->server->calls->ibv_ack_cq_events(cq, 1);
    ibv_req_notify_cq(p->cq, 0);
    take_completions(p);
}

/* ---- clients ---- */

static void peer_end(struct peer *p)
{
    const struct verbs_calls *calls = p->server->calls;

    LIST_REMOVE(p, link);
    p->server->count--;
    if (p->id->qp)
        calls->rdma_destroy_qp(p->id);
    calls->rdma_destroy_id(p->id);
    if (p->mr)
        calls->ibv_dereg_mr(p->mr);
    if (p->cq)
        calls->ibv_destroy_cq(p->cq);
    if (p->channel) {
        epoll_ctl(p->server->epoll, EPOLL_CTL_DEL, p->channel->fd, NULL);
        calls->ibv_destroy_comp_channel(p->channel);
    }
    if (p->pd)
        calls->ibv_dealloc_pd(p->pd);
    free(p->memory);
    free(p);
}

/* NULL, or why the client is refused. */
static const char *take_hello(struct peer *p, const struct rdma_conn_param *param)
{
    struct hello hello;

    if (param->private_data_len < sizeof(hello))
        return "no uroce-perf";
    memcpy(&hello, param->private_data, sizeof(hello));
    if (ntohl(hello.magic) != HELLO_MAGIC || ntohl(hello.version) != HELLO_VERSION)
        return "another version";
    p->receive = ntohl(hello.receive);
    p->size = be64toh(hello.size);
    p->length = be64toh(hello.memory);
    if (p->receive > HELLO_RECEIVE_MAX || !p->length || p->length > HELLO_MEMORY_MAX ||
        p->size > p->length)
        return "too much";
    return NULL;
}

/* What makes it readable may be gone when it is read. */
static bool never_waits(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && !fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static bool open_receiver(struct peer *p)
{
    const struct verbs_calls *calls = p->server->calls;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};

    p->channel = calls->ibv_create_comp_channel(p->id->verbs);
    if (!p->channel || !never_waits(p->channel->fd))
        return false;
    p->cq = calls->ibv_create_cq(p->id->verbs, (int)p->receive + 1, NULL, p->channel, 0);
    return p->cq && !ibv_req_notify_cq(p->cq, 0) &&
           !epoll_ctl(p->server->epoll, EPOLL_CTL_ADD, p->channel->fd, &ev);
}

static bool open_memory(struct peer *p)
{
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_ATOMIC;

    p->memory = aligned_alloc(4096, round_up(p->length, 4096));
    if (!p->memory)
        return false;
    memset(p->memory, 0, p->length);
    p->mr = p->server->calls->ibv_reg_mr(p->pd, p->memory, p->length, access);
    return p->mr;
}

static bool open_qp(struct peer *p)
{
    struct ibv_qp_init_attr attr = {.send_cq = p->cq,
                                    .recv_cq = p->cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 1,
                                            .max_recv_wr = max_of(p->receive, 1u),
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};

    if (p->server->calls->rdma_create_qp(p->id, p->pd, &attr))
        return false;
    for (uint32_t i = 0; i < p->receive; i++)
        if (post_receive(p))
            return false;
    return true;
}

static bool set_rnr_timer(struct peer *p)
{
    struct ibv_qp_attr attr = {.min_rnr_timer = RNR_TIMER};
    int err = p->server->calls->ibv_modify_qp(p->id->qp, &attr, IBV_QP_MIN_RNR_TIMER);

    errno = err;
    return !err;
}

static bool accept_peer(struct peer *p)
{
    const struct verbs_calls *calls = p->server->calls;
    struct hello_answer answer = {.magic = htonl(HELLO_MAGIC), .version = htonl(HELLO_VERSION)};
    struct rdma_conn_param param = {.private_data = &answer,
                                    .private_data_len = sizeof(answer),
                                    .responder_resources = RDMA_MAX_RESP_RES,
                                    .initiator_depth = RDMA_MAX_INIT_DEPTH,
                                    .rnr_retry_count = 7};

    p->pd = calls->ibv_alloc_pd(p->id->verbs);
    if (!p->pd || !open_receiver(p) || !open_memory(p) || !open_qp(p))
        return false;
    answer.rkey = htonl(p->mr->rkey);
    answer.address = htobe64((uint64_t)(uintptr_t)p->memory);
    return !calls->rdma_accept(p->id, &param) && set_rnr_timer(p);
}

static void refuse(struct server *s, struct rdma_cm_id *id, const char *why)
{
    fprintf(stderr, "uroce-perf: a client is refused: %s\n", why);
    s->calls->rdma_reject(id, why, (uint8_t)strlen(why));
}

static void on_request(struct server *s, struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
    struct peer *p = s->count < PEERS_MAX ? calloc(1, sizeof(*p)) : NULL;
    const char *why;

    if (!p) {
        refuse(s, id, "no room");
        s->calls->rdma_destroy_id(id);
        return;
    }
    p->server = s;
    p->id = id;
    id->context = p;
    LIST_INSERT_HEAD(&s->peers, p, link);
    s->count++;
    why = take_hello(p, param);
    errno = 0;
    if (!why && !accept_peer(p))
        why = errno ? strerror(errno) : "no queue pair";
    if (!why)
        return;
    refuse(s, id, why);
    peer_end(p);
}

/* False: the device is gone. */
static bool on_event(struct server *s)
{
    struct rdma_cm_event *event, copy;
    uint8_t private[64];

    if (s->calls->rdma_get_cm_event(s->channel, &event))
        return true;
    copy = *event;
    copy.param.conn.private_data_len =
        (uint8_t)min_of((size_t)event->param.conn.private_data_len, sizeof(private));
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && copy.param.conn.private_data_len)
        memcpy(private, event->param.conn.private_data, copy.param.conn.private_data_len);
    copy.param.conn.private_data = private;
    /* An id with an event that is not acknowledged cannot be destroyed. */
    s->calls->rdma_ack_cm_event(event);
    switch (copy.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        on_request(s, copy.id, &copy.param.conn);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        if (copy.id == s->listener)
            return false;
        peer_end(copy.id->context);
        break;
    default:
        break;
    }
    return true;
}

/* ---- the server ---- */

static int complain(const char *what)
{
    fprintf(stderr, "uroce-perf: %s: %s\n", what, strerror(errno));
    return -1;
}

/* All addresses of all devices, IPv4's as well. */
static int listen_at(struct server *s, uint64_t port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};

    s->channel = s->calls->rdma_create_event_channel();
    if (!s->channel || !never_waits(s->channel->fd))
        return complain("no RDMA device");
    if (s->calls->rdma_create_id(s->channel, &s->listener, NULL, RDMA_PS_TCP))
        return complain("rdma_create_id");
    if (!s->calls->rdma_bind_addr(s->listener, (struct sockaddr *)&any) &&
        !s->calls->rdma_listen(s->listener, 128))
        return 0;
    /* librdmacm's word for a port that is taken at all addresses: there is no other reason here. */
    if (errno == EADDRNOTAVAIL)
        errno = EADDRINUSE;
    return complain("the server cannot listen");
}

static int watch(struct server *s, int fd, void *what)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = what};

    return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) ? complain("epoll") : 0;
}

/* Returns the exit status. One event at a time: the next may be of a peer that this one ends. */
static int serve(struct server *s, int *signal_fd)
{
    struct epoll_event ev;

    for (;;) {
        if (epoll_wait(s->epoll, &ev, 1, -1) < 1)
            continue;
        if (ev.data.ptr == signal_fd)
            return EXIT_SUCCESS;
        if (ev.data.ptr != s) {
            on_messages(ev.data.ptr);
        } else if (!on_event(s)) {
            fprintf(stderr, "uroce-perf: the device is gone\n");
            return EXIT_FAILURE;
        }
    }
}

static void server_close(struct server *s)
{
    struct peer *p;

    while ((p = LIST_FIRST(&s->peers))) {
        s->calls->rdma_disconnect(p->id);
        peer_end(p);
    }
    if (s->listener)
        s->calls->rdma_destroy_id(s->listener);
    if (s->channel)
        s->calls->rdma_destroy_event_channel(s->channel);
    if (s->epoll >= 0)
        close(s->epoll);
}

int server_run(const struct perf_options *o, int signal_fd)
{
    struct server s = {.epoll = epoll_create1(EPOLL_CLOEXEC)};
    int status = EXIT_FAILURE;
    const char *error;

    LIST_INIT(&s.peers);
    s.calls = verbs_calls_load(&error);
    if (!s.calls) {
        fprintf(stderr, "uroce-perf: %s\n", error);
    } else if (!listen_at(&s, o->port) && !watch(&s, s.channel->fd, &s) &&
               !watch(&s, signal_fd, &signal_fd)) {
        printf("uroce-perf: serving at port %u\n", (unsigned)o->port);
        fflush(stdout);
        status = serve(&s, &signal_fd);
    }
    if (s.calls)
        server_close(&s);
    return status;
}
