/* SPDX-License-Identifier: BSD-3-Clause */
/* Connecting a client's queue pairs, and their end. See client.h. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "peer/client_state.h"
#include "peer/hello.h"
#include "printable.h"

#define EVENT_MS   10000 /* for an address, a route and an answer */
#define STRIDE_MIN 64
#define MEMORY_MAX (UINT64_C(1) << 30)
/* The reason in a REJ for which the program says more in its private data: table 111 of the IB
 * specification. */
#define CONSUMER_REJECT 28

/* Where to say what went wrong. */
struct sentence {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int fail(const struct sentence *to, const char *format,
                                                      ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(to->text, to->size, format, args);
    va_end(args);
    return -1;
}

static int fail_errno(const struct sentence *to, const char *what)
{
    return fail(to, "%s: %s", what, strerror(errno));
}

/* ---- connecting ---- */

/* The private data of a REJ: text from outside, without an end. */
static int fail_refused(const struct rdma_conn_param *param, const struct sentence *to)
{
    char text[148 + 1] = "", shown[4 * sizeof(text)];
    size_t len = min_of((size_t)param->private_data_len, sizeof(text) - 1);

    if (len)
        memcpy(text, param->private_data, len);
    printable(shown, sizeof(shown), text);
    return fail(to, "the server refuses: %s", shown);
}

/* What a server says that is not uroce-perf, or does not take what it is asked for. */
static int fail_event(const struct client *cl, const struct rdma_cm_event *event,
                      const struct sentence *to)
{
    const char *name = cl->calls->rdma_event_str(event->event);

    if (event->event == RDMA_CM_EVENT_REJECTED && event->status == CONSUMER_REJECT)
        return fail_refused(&event->param.conn, to);
    if (event->event == RDMA_CM_EVENT_REJECTED)
        return fail(to, "no server listens there (%s, status %d)", name, event->status);
    if (event->status < 0)
        return fail(to, "the server cannot be reached: %s (%s)", strerror(-event->status), name);
    return fail(to, "the server cannot be reached (%s, status %d)", name, event->status);
}

static int take_answer(struct client_conn *c, const struct rdma_conn_param *param,
                       const struct sentence *to)
{
    struct hello_answer answer;

    if (param->private_data_len < sizeof(answer))
        return fail(to, "the server is no uroce-perf");
    memcpy(&answer, param->private_data, sizeof(answer));
    if (ntohl(answer.magic) != HELLO_MAGIC || ntohl(answer.version) != HELLO_VERSION)
        return fail(to, "the server is no uroce-perf, or one of another version");
    c->rkey = ntohl(answer.rkey);
    c->remote = be64toh(answer.address);
    return 0;
}

/* Its end may come at any time; what makes the channel readable may be gone when it is read. */
static int next_event(const struct client *cl, struct rdma_cm_event **event,
                      const struct sentence *to)
{
    struct pollfd pfd[] = {{.fd = cl->channel->fd, .events = POLLIN},
                           {.fd = cl->signals, .events = POLLIN}};
    ns_t until = worker_time() + EVENT_MS * NS_PER_MS, now;

    while ((now = worker_time()) < until) {
        if (poll(pfd, ARRAY_SIZE(pfd), (int)((until - now) / NS_PER_MS) + 1) < 0 && errno != EINTR)
            break;
        if (pfd[1].revents)
            return fail(to, "a signal came before the server has answered");
        if (!cl->calls->rdma_get_cm_event(cl->channel, event))
            return 0;
        if (errno != EAGAIN)
            return fail_errno(to, "rdma_get_cm_event");
    }
    return fail(to, "the server does not answer");
}

/* Waits for the event that must be next. c: who takes the answer that it has; or NULL. */
static int await(struct client *cl, enum rdma_cm_event_type type, struct client_conn *c,
                 const struct sentence *to)
{
    struct rdma_cm_event *event;
    int err = next_event(cl, &event, to);

    if (err)
        return err;
    if (event->event != type)
        err = fail_event(cl, event, to);
    else if (c)
        err = take_answer(c, &event->param.conn, to);
    cl->calls->rdma_ack_cm_event(event);
    return err;
}

static int resolve(struct client *cl, struct client_conn *c, const struct perf_options *o,
                   const struct sentence *to)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
    char port[8];
    int err;

    snprintf(port, sizeof(port), "%u", (unsigned)o->port);
    if (cl->calls->rdma_getaddrinfo(o->client, port, &hints, &found))
        return fail(to, "client: \"%s\" is no address", o->client);
    err = cl->calls->rdma_resolve_addr(c->id, NULL, found->ai_dst_addr, EVENT_MS);
    cl->calls->rdma_freeaddrinfo(found);
    if (err)
        return fail_errno(to, "there is no device for this address");
    if (await(cl, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, to))
        return -1;
    if (cl->calls->rdma_resolve_route(c->id, EVENT_MS))
        return fail_errno(to, "rdma_resolve_route");
    return await(cl, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, to);
}

static int make_qp(const struct perf *p, struct client_conn *c, const struct sentence *to)
{
    struct client *cl = p->client;
    struct ibv_qp_init_attr attr = {.send_cq = cl->cq,
                                    .recv_cq = cl->cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = (uint32_t)p->opt.depth,
                                            .max_recv_wr = 1,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = (uint32_t)p->opt.inline_max}};

    if (c->id->verbs != cl->device)
        return fail(to, "the queue pairs are on different devices");
    if (cl->calls->rdma_create_qp(c->id, cl->pd, &attr))
        return fail_errno(to, "no queue pair");
    return 0;
}

/* A receiver posts a receive again after its message was acknowledged. */
static uint32_t receives_of(const struct perf_options *o)
{
    return mode_receives(o->mode) ? (uint32_t)min_of(4 * o->depth, (uint64_t)HELLO_RECEIVE_MAX) : 0;
}

static int connect_qp(const struct perf *p, struct client_conn *c, const struct sentence *to)
{
    struct client *cl = p->client;
    struct hello hello = {.magic = htonl(HELLO_MAGIC),
                          .version = htonl(HELLO_VERSION),
                          .mode = htonl(p->opt.mode),
                          .receive = htonl(receives_of(&p->opt)),
                          .size = htobe64(p->size),
                          .memory = htobe64(cl->part)};
    struct rdma_conn_param param = {.private_data = &hello,
                                    .private_data_len = sizeof(hello),
                                    .responder_resources = RDMA_MAX_RESP_RES,
                                    .initiator_depth = RDMA_MAX_INIT_DEPTH,
                                    .retry_count = 7,
                                    .rnr_retry_count = 7};

    if (cl->calls->rdma_connect(c->id, &param))
        return fail_errno(to, "rdma_connect");
    return await(cl, RDMA_CM_EVENT_ESTABLISHED, c, to);
}

/* ---- what all connections share ---- */

static int open_memory(struct perf *p, const struct sentence *to)
{
    struct client *cl = p->client;
    uint64_t slots, size = max_of(p->size, (uint64_t)1);

    cl->stride = (uint32_t)round_up(size, STRIDE_MIN);
    slots = max_of(p->opt.buffer / p->opt.qps / cl->stride, (uint64_t)1);
    slots = min_of(slots, HELLO_MEMORY_MAX / cl->stride);
    cl->part = slots * cl->stride;
    if (cl->part * cl->conns > MEMORY_MAX)
        return fail(to, "size, qps: more than 1 GB of memory");
    cl->memory = aligned_alloc(4096, round_up(cl->part * cl->conns, 4096));
    if (!cl->memory)
        return fail(to, "out of memory");
    memset(cl->memory, 0, cl->part * cl->conns);
    cl->mr =
        cl->calls->ibv_reg_mr(cl->pd, cl->memory, cl->part * cl->conns, IBV_ACCESS_LOCAL_WRITE);
    if (!cl->mr)
        return fail_errno(to, "the memory cannot be registered");
    for (unsigned i = 0; i < cl->conns; i++) {
        cl->conn[i].local = (uint64_t)(uintptr_t)cl->memory + i * cl->part;
        cl->conn[i].out.end = (uint32_t)slots;
    }
    return 0;
}

/* On the device of the first connection. */
static int open_device(struct perf *p, const struct sentence *to)
{
    struct client *cl = p->client;

    cl->device = cl->conn[0].id->verbs;
    cl->pd = cl->calls->ibv_alloc_pd(cl->device);
    if (!cl->pd)
        return fail_errno(to, "no protection domain");
    cl->cq = cl->calls->ibv_create_cq(cl->device, (int)(p->opt.depth * p->opt.qps), NULL, NULL, 0);
    if (!cl->cq)
        return fail_errno(to, "no completion queue");
    return open_memory(p, to);
}

static void divide_messages(struct perf *p)
{
    struct client *cl = p->client;
    uint64_t left = p->opt.messages % cl->conns;

    for (unsigned i = 0; i < cl->conns; i++) {
        cl->conn[i].quota = p->opt.messages ? p->opt.messages / cl->conns + (i < left) : UINT64_MAX;
        cl->conn[i].posted = cl->posted + (size_t)i * cl->ring;
    }
}

/* Those that end a run, which main() has blocked: they are seen, and stay pending. */
static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static struct client *client_new(const struct perf_options *o, const struct sentence *to)
{
    unsigned conns = (unsigned)o->qps;
    struct client *cl = calloc(1, sizeof(*cl) + conns * sizeof(cl->conn[0]));
    const char *error;

    if (!cl) {
        fail(to, "out of memory");
        return NULL;
    }
    cl->conns = conns;
    cl->signals = -1;
    cl->ring = (uint32_t)o->depth;
    while (!is_pow2(cl->ring))
        cl->ring++;
    cl->posted = calloc((size_t)conns * cl->ring, sizeof(*cl->posted));
    cl->calls = verbs_calls_load(&error);
    if (cl->posted && cl->calls)
        return cl;
    fail(to, "%s", cl->posted ? error : "out of memory");
    free(cl->posted);
    free(cl);
    return NULL;
}

/* What the connection has, which no option can choose. */
static int note_mtu(struct perf *p, const struct client_conn *c, const struct sentence *to)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (p->client->calls->ibv_query_qp(c->id->qp, &attr, IBV_QP_PATH_MTU, &init))
        return fail_errno(to, "ibv_query_qp");
    p->opt.mtu = UINT64_C(128) << attr.path_mtu;
    return 0;
}

static int open_conn(struct perf *p, unsigned i, const struct sentence *to)
{
    struct client *cl = p->client;
    struct client_conn *c = &cl->conn[i];

    if (cl->calls->rdma_create_id(cl->channel, &c->id, c, RDMA_PS_TCP))
        return fail_errno(to, "rdma_create_id");
    if (resolve(cl, c, &p->opt, to) || (!i && open_device(p, to)) || make_qp(p, c, to))
        return -1;
    if (connect_qp(p, c, to))
        return -1;
    return i ? 0 : note_mtu(p, c, to);
}

int client_open(struct perf *p, char *error, size_t size)
{
    const struct sentence to = {error, size};
    struct client *cl = client_new(&p->opt, &to);

    p->client = cl;
    if (!cl)
        return -1;
    cl->channel = cl->calls->rdma_create_event_channel();
    if (!cl->channel || fcntl(cl->channel->fd, F_SETFL, O_NONBLOCK))
        return fail_errno(&to, "no RDMA device");
    cl->signals = open_signals();
    if (cl->signals < 0)
        return fail_errno(&to, "signalfd");
    for (unsigned i = 0; i < cl->conns; i++)
        if (open_conn(p, i, &to))
            return -1;
    divide_messages(p);
    return 0;
}

static void close_conn(const struct client *cl, struct client_conn *c)
{
    if (!c->id)
        return;
    if (c->id->qp) {
        cl->calls->rdma_disconnect(c->id);
        cl->calls->rdma_destroy_qp(c->id);
    }
    cl->calls->rdma_destroy_id(c->id);
}

void client_close(struct perf *p)
{
    struct client *cl = p->client;

    if (!cl)
        return;
    for (unsigned i = 0; i < cl->conns; i++)
        close_conn(cl, &cl->conn[i]);
    if (cl->mr)
        cl->calls->ibv_dereg_mr(cl->mr);
    if (cl->cq)
        cl->calls->ibv_destroy_cq(cl->cq);
    if (cl->pd)
        cl->calls->ibv_dealloc_pd(cl->pd);
    if (cl->channel)
        cl->calls->rdma_destroy_event_channel(cl->channel);
    if (cl->signals >= 0)
        close(cl->signals);
    free(cl->memory);
    free(cl->posted);
    free(cl);
    p->client = NULL;
}
