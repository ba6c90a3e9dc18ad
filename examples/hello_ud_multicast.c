/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One message to many: datagrams (UD) to a multicast group.
 *
 *   hello_ud_multicast [-d DEVICE] [-g GID-INDEX] [-M GROUP]         joins, waits for one message
 *   hello_ud_multicast [-d DEVICE] [-g GID-INDEX] [-M GROUP] TEXT    sends TEXT to the group
 *
 * A datagram needs no connection: every program that knows the group may send, and every member
 * receives. The programs exchange nothing beforehand, since GROUP and Q_Key are fixed here. As with
 * UDP, a message without a listener is lost, and the sender does not learn of it.
 *
 * hello_rc.c explains the steps that are the same there.
 */
#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define TEXT_BYTES    256
#define GRH_BYTES     40       /* the packet's IP header comes before the data of a datagram */
#define MULTICAST_QPN 0xffffff /* all members */
#define QKEY          0x1ee7u  /* members take only packets with the Q_Key of their queue pair */
#define SECONDS       60

#define CHECK(condition, what)                   \
    do {                                         \
        if (!(condition)) {                      \
            perror("hello_ud_multicast: " what); \
            exit(1);                             \
        }                                        \
    } while (0)

static const char *device_name, *group_name;
static int gid_index;

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
        fprintf(stderr, "hello_ud_multicast: there is no RDMA device %s\n",
                device_name ? device_name : "");
        exit(1);
    }
    ibv_free_device_list(list);
    return context;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD};
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR}, rts = {.qp_state = IBV_QPS_RTS};
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);

    CHECK(qp, "ibv_create_qp");
    /* A UD queue pair has no peer, only a Q_Key. */
    CHECK(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
          "to INIT");
    CHECK(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE), "to RTR");
    CHECK(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
    return qp;
}

/* A GID names a group: an IPv6 multicast address, or an IPv4 one written as ::ffff:a.b.c.d. It must
 * have the same version as the GID that we send from. */
static union ibv_gid group_gid(const union ibv_gid *own)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    int ipv4 = !memcmp(own->raw, mapped, sizeof(mapped));
    union ibv_gid gid = {{0}};

    if (!group_name)
        group_name = ipv4 ? "239.1.2.3" : "ff12::102:3";
    if (ipv4)
        memcpy(gid.raw, mapped, sizeof(mapped));
    if (inet_pton(ipv4 ? AF_INET : AF_INET6, group_name, gid.raw + (ipv4 ? 12 : 0)) != 1) {
        fprintf(stderr, "hello_ud_multicast: %s is not an IPv%d address\n", group_name,
                ipv4 ? 4 : 6);
        exit(2);
    }
    return gid;
}

/* main() has requested one event for the next completion. */
static struct ibv_wc wait_for_completion(struct ibv_comp_channel *channel)
{
    struct ibv_wc wc;
    struct ibv_cq *cq;
    void *context;

    CHECK(!ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    CHECK(ibv_poll_cq(cq, 1, &wc) == 1, "ibv_poll_cq");
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "hello_ud_multicast: %s\n", ibv_wc_status_str(wc.status));
        exit(1);
    }
    return wc;
}

/* Attaching to a group only tells the device. Switches learn of members by IGMP and MLD, and
 * Linux's rxe receives only groups that the host's IP stack has joined. So a socket joins the same
 * group, on the interface behind the GID. (The connection manager does this by itself.) A device
 * without an interface of this host, like uroce's, needs no socket. */
static int join_with_socket(struct ibv_context *context, const union ibv_gid *group)
{
    int ipv4 = group->raw[0] != 0xff;
    struct group_req join = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)&join.gr_group;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&join.gr_group;
    struct ibv_gid_entry entry;
    int fd;

    if (ibv_query_gid_ex(context, 1, gid_index, &entry, 0) || !entry.ndev_ifindex)
        return -1;
    join.gr_interface = entry.ndev_ifindex;
    join.gr_group.ss_family = ipv4 ? AF_INET : AF_INET6;
    if (ipv4)
        memcpy(&in->sin_addr, group->raw + 12, 4);
    else
        memcpy(&in6->sin6_addr, group->raw, 16);
    fd = socket(join.gr_group.ss_family, SOCK_DGRAM, 0);
    if (fd >= 0 &&
        setsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, MCAST_JOIN_GROUP, &join, sizeof(join)))
        perror("hello_ud_multicast: joining with a socket (continuing without)");
    return fd; /* the membership ends when the socket is closed */
}

static void receive(struct ibv_qp *qp, struct ibv_mr *mr, struct ibv_comp_channel *channel,
                    const union ibv_gid *group)
{
    struct ibv_sge buffer = {
        .addr = (uintptr_t)mr->addr, .length = GRH_BYTES + TEXT_BYTES, .lkey = mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &buffer, .num_sge = 1}, *bad;
    struct ibv_wc wc;
    int fd = join_with_socket(qp->context, group);

    CHECK(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
    /* From now on the device delivers messages to the group. */
    CHECK(!ibv_attach_mcast(qp, group, 0), "ibv_attach_mcast");
    printf("joined %s\n", group_name);
    fflush(stdout);
    wc = wait_for_completion(channel);
    printf("received %u bytes from queue pair 0x%x: %.*s\n", wc.byte_len - GRH_BYTES, wc.src_qp,
           (int)wc.byte_len - GRH_BYTES, (const char *)mr->addr + GRH_BYTES);
    CHECK(!ibv_detach_mcast(qp, group, 0), "ibv_detach_mcast");
    if (fd >= 0)
        close(fd);
}

static void send_text(struct ibv_qp *qp, struct ibv_mr *mr, struct ibv_comp_channel *channel,
                      const union ibv_gid *group, const char *text)
{
    /* An address handle names a destination; each send request refers to one. */
    struct ibv_ah_attr path = {.is_global = 1,
                               .port_num = 1,
                               .grh = {.dgid = *group, .sgid_index = gid_index, .hop_limit = 1}};
    struct ibv_ah *ah = ibv_create_ah(qp->pd, &path);
    struct ibv_sge data = {.addr = (uintptr_t)mr->addr, .lkey = mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &data,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.ud = {.ah = ah, .remote_qpn = MULTICAST_QPN, .remote_qkey = QKEY}};
    struct ibv_send_wr *bad;

    CHECK(ah, "ibv_create_ah");
    data.length = snprintf(mr->addr, TEXT_BYTES, "%.*s", TEXT_BYTES - 1, text) + 1;
    CHECK(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
    wait_for_completion(channel); /* sent, which does not mean that it arrived */
    printf("sent to %s: %s\n", group_name, text);
    CHECK(!ibv_destroy_ah(ah), "ibv_destroy_ah");
}

static void usage(void)
{
    fputs("usage: hello_ud_multicast [-d DEVICE] [-g GID-INDEX] [-M GROUP] [TEXT]\n", stderr);
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

int main(int argc, char **argv)
{
    static char memory[GRH_BYTES + TEXT_BYTES];
    union ibv_gid own, group;
    int c;

    while ((c = getopt(argc, argv, "d:g:M:")) != -1) {
        if (c == 'd')
            device_name = optarg;
        else if (c == 'g')
            gid_index = (int)number(optarg, INT_MAX);
        else if (c == 'M')
            group_name = optarg;
        else
            usage();
    }
    if (argc > optind + 1)
        usage();
    alarm(SECONDS); /* no wait is without limit */
    struct ibv_context *context = open_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = channel ? ibv_create_cq(context, 2, NULL, channel, 0) : NULL;
    CHECK(pd && cq, "ibv_create_cq");
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr, "ibv_reg_mr");
    struct ibv_qp *qp = create_qp(pd, cq);

    CHECK(!ibv_query_gid(context, 1, gid_index, &own), "ibv_query_gid");
    group = group_gid(&own);
    CHECK(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
    if (optind < argc)
        send_text(qp, mr, channel, &group, argv[optind]);
    else
        receive(qp, mr, channel, &group);
    CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel) &&
              !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context),
          "closing");
    return 0;
}
