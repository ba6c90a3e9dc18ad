/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest useful RDMA program: the client sends a string to the server through a reliable
 * connection (RC). RC is to RDMA what TCP is to sockets, but it carries messages.
 *
 *   hello_rc [-d DEVICE] [-g GID-INDEX] [-p PORT] [HOST [TEXT]]
 *
 * Without HOST it is the server. The steps are numbered; read main() first.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define TEXT_BYTES 256
#define SECONDS    60 /* limit for the whole program */
#define TRIES      30 /* to connect, a tenth of a second apart */

/* A real program cleans up and continues; this one prints what failed and ends. */
#define CHECK(condition, what)         \
    do {                               \
        if (!(condition)) {            \
            perror("hello_rc: " what); \
            exit(1);                   \
        }                              \
    } while (0)

static const char *device_name, *port = "18516";
static int gid_index;

/* Step 1. Opening a device returns a context, from which all other objects are created. */
static struct ibv_context *open_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;

    for (int i = 0; list && list[i] && !context; i++) {
        if (device_name && strcmp(ibv_get_device_name(list[i]), device_name))
            continue;
        context = ibv_open_device(list[i]);
        CHECK(context, "ibv_open_device");
    }
    if (!context) {
        fprintf(stderr, "hello_rc: there is no RDMA device %s\n", device_name ? device_name : "");
        exit(1);
    }
    ibv_free_device_list(list);
    return context;
}

/* Step 2. Before two queue pairs can connect, each side needs the other's queue pair number, the
 * sequence number of its first packet, and the address (GID) of its port. Most programs exchange
 * them over TCP, as here, or use the connection manager (librdmacm). */
struct address {
    uint32_t qpn, psn; /* in network byte order */
    union ibv_gid gid;
};

static int connect_tcp(const char *host)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *a;
    int fd, listener, on = 1, err;

    hints.ai_flags = host ? 0 : AI_PASSIVE;
    err = getaddrinfo(host, port, &hints, &a);
    if (err) {
        fprintf(stderr, "hello_rc: %s: %s\n", host ? host : port, gai_strerror(err));
        exit(1);
    }
    fd = socket(a->ai_family, a->ai_socktype, 0);
    CHECK(fd >= 0, "socket");
    if (host) {
        /* A server that was started just now may not listen yet. */
        for (int tries = 0; connect(fd, a->ai_addr, a->ai_addrlen); tries++) {
            CHECK(errno == ECONNREFUSED && tries < TRIES, "connect");
            usleep(100000);
        }
    } else {
        listener = fd;
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        CHECK(!bind(listener, a->ai_addr, a->ai_addrlen) && !listen(listener, 1), "listen");
        fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0, "accept");
        close(listener);
    }
    freeaddrinfo(a);
    return fd;
}

static void exchange(int fd, const void *mine, void *theirs, size_t length)
{
    CHECK(send(fd, mine, length, MSG_NOSIGNAL) == (ssize_t)length, "send");
    CHECK(recv(fd, theirs, length, MSG_WAITALL) == (ssize_t)length, "recv");
}

/* Step 3. A queue pair is a send queue and a receive queue. Each posted work request completes some
 * time later, with an entry in a completion queue; here one completion queue serves both. */
static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);

    CHECK(qp, "ibv_create_qp");
    return qp;
}

/* Step 4. A queue pair gets ready in three steps: INIT, in which the program may post receives;
 * RTR, ready to receive, which needs the peer's address; RTS, ready to send, which needs our own
 * numbers.
 */
static void connect_qp(struct ibv_qp *qp, const struct address *mine, const struct address *peer)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024, /* longer messages are split into packets of 1024 bytes */
        .dest_qp_num = ntohl(peer->qpn),
        .rq_psn = ntohl(peer->psn),
        .min_rnr_timer = 12,        /* a sender that finds no receive tries again after 0.64 ms */
        .ah_attr = {.is_global = 1, /* RoCE always uses GIDs: the port's IP addresses */
                    .port_num = 1,
                    .grh = {.dgid = peer->gid, .sgid_index = gid_index, .hop_limit = 64}}};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .sq_psn = ntohl(mine->psn),
                              .timeout = 14, /* 67 ms without acknowledge: send again */
                              .retry_cnt = 7,
                              .rnr_retry = 7 /* without limit */};

    CHECK(!ibv_modify_qp(qp, &init,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
          "to INIT");
    CHECK(!ibv_modify_qp(qp, &rtr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          "to RTR");
    CHECK(!ibv_modify_qp(qp, &rts,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
          "to RTS");
}

/* Step 6a. A receive names the buffer for a message. It must be posted before the message comes. */
static void post_receive(struct ibv_qp *qp, struct ibv_mr *mr)
{
    struct ibv_sge buffer = {.addr = (uintptr_t)mr->addr, .length = TEXT_BYTES, .lkey = mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &buffer, .num_sge = 1}, *bad;

    CHECK(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

/* Step 6b. A send names the buffer with the message. The library copies nothing: the device reads
 * the buffer when it sends, perhaps several times. The program must not change the buffer until the
 * send has completed. */
static void post_send(struct ibv_qp *qp, struct ibv_mr *mr, size_t length)
{
    struct ibv_sge text = {.addr = (uintptr_t)mr->addr, .length = length, .lkey = mr->lkey};
    struct ibv_send_wr *bad,
        wr = {
            .sg_list = &text, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

    CHECK(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/* Step 7. Sleeping until there is a completion. The program requests the event beforehand; see
 * main(). (Programs for which latency matters poll in a loop instead, which keeps a CPU busy.) */
static struct ibv_wc wait_for_completion(struct ibv_comp_channel *channel)
{
    struct ibv_wc wc;
    struct ibv_cq *cq;
    void *context;

    CHECK(!ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    CHECK(ibv_poll_cq(cq, 1, &wc) == 1, "ibv_poll_cq");
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "hello_rc: %s\n", ibv_wc_status_str(wc.status));
        exit(1);
    }
    return wc;
}

static void usage(void)
{
    fputs("usage: hello_rc [-d DEVICE] [-g GID-INDEX] [-p PORT] [HOST [TEXT]]\n", stderr);
    exit(2);
}

/* A number from 0 to max. */
static unsigned long number(const char *text, unsigned long max)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end || n > max)
        usage();
    return n;
}

static void options(int argc, char **argv)
{
    int c;

    while ((c = getopt(argc, argv, "d:g:p:")) != -1) {
        if (c == 'd')
            device_name = optarg;
        else if (c == 'g')
            gid_index = (int)number(optarg, INT_MAX);
        else if (c == 'p')
            number(port = optarg, UINT16_MAX);
        else
            usage();
    }
    if (argc > optind + 2)
        usage();
}

int main(int argc, char **argv)
{
    static char text[TEXT_BYTES];
    struct address mine = {.psn = htonl(getpid() & 0xffffff)}, peer;
    char other;

    alarm(SECONDS); /* neither side waits without limit */
    options(argc, argv);
    const char *host = argc > optind ? argv[optind] : NULL;
    const char *hello = argc > optind + 1 ? argv[optind + 1] : "Hello, RDMA";
    struct ibv_context *context = open_device();
    CHECK(!ibv_query_gid(context, 1, gid_index, &mine.gid), "ibv_query_gid");
    int fd = connect_tcp(host);
    struct ibv_pd *pd =
        ibv_alloc_pd(context); /* objects of one protection domain may be combined */
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = channel ? ibv_create_cq(context, 2, NULL, channel, 0) : NULL;
    CHECK(pd && cq, "ibv_create_cq");
    struct ibv_qp *qp = create_qp(pd, cq);

    /* Step 5. The program registers the memory that the device has to reach, and gets a key. */
    struct ibv_mr *mr = ibv_reg_mr(pd, text, sizeof(text), IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr, "ibv_reg_mr");

    mine.qpn = htonl(qp->qp_num);
    exchange(fd, &mine, &peer, sizeof(mine));
    connect_qp(qp, &mine, &peer);
    CHECK(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq"); /* one event for the next completion */
    if (!host)
        post_receive(qp, mr);
    exchange(fd, "r", &other, 1); /* both sides are ready; now the client may send */

    if (host) {
        snprintf(text, sizeof(text), "%s", hello);
        post_send(qp, mr, strlen(text) + 1);
        wait_for_completion(channel); /* acknowledged: the text is in the server's memory */
        printf("sent: %s\n", text);
    } else {
        struct ibv_wc wc = wait_for_completion(channel);

        printf("received %u bytes: %.*s\n", wc.byte_len, (int)wc.byte_len, text);
    }
    exchange(fd, "d", &other, 1); /* both are done: a destroyed queue pair acknowledges nothing */

    /* Step 8. Objects are destroyed in the reverse order. */
    CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel) &&
              !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context),
          "closing");
    close(fd);
    return 0;
}
