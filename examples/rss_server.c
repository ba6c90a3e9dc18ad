/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw packets spread over four queues: receive-side scaling (RSS) with the verbs API.
 *
 *   rss_server [-d DEVICE] [-p UDP-PORT] [-n PACKETS]
 *
 * takes all UDP packets over IPv4 to UDP-PORT (7777) from the device's port, before the kernel or
 * another program gets them. The device hashes the addresses and ports of each packet and chooses a
 * queue by the hash. Packets of one flow stay together and in order, and flows are spread. A real
 * server has a thread on each queue; this one prints the queue of each packet, and after PACKETS
 * packets the number for each queue.
 *
 * Raw packets need CAP_NET_RAW. hello_rc.c explains the steps that are the same there.
 *
 *       flow rule            hash          indirection table          work queues
 *   frames ------> queue pair ----> number ----------------> one of 4 ----> buffers, completions
 */
#include <arpa/inet.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define QUEUES      4 /* a power of two, as required for tables */
#define BUFFERS     64
#define FRAME_BYTES 2048

#define CHECK(condition, what)           \
    do {                                 \
        if (!(condition)) {              \
            perror("rss_server: " what); \
            exit(1);                     \
        }                                \
    } while (0)

/* Each queue has its own buffers and completion queue, so that its thread shares nothing. */
struct queue {
    struct ibv_cq *cq;
    struct ibv_wq *wq;
    struct ibv_mr *mr;
    uint8_t *buffers;
    unsigned long packets;
};

/* The default key of most NICs. With the key, a program can compute the queue of a packet. */
static uint8_t toeplitz_key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                   0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                   0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                   0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

static const char *device_name;
static struct queue queues[QUEUES];

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
        fprintf(stderr, "rss_server: there is no RDMA device %s\n", device_name ? device_name : "");
        exit(1);
    }
    ibv_free_device_list(list);
    return context;
}

/* The buffer gets a raw packet as it was on the wire, starting with the Ethernet header. */
static void post_buffer(struct queue *q, uint64_t number)
{
    struct ibv_sge sge = {.addr = (uintptr_t)(q->buffers + number * FRAME_BYTES),
                          .length = FRAME_BYTES,
                          .lkey = q->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;

    CHECK(!ibv_post_wq_recv(q->wq, &wr, &bad), "ibv_post_wq_recv");
}

static void create_queue(struct queue *q, struct ibv_pd *pd, struct ibv_comp_channel *channel)
{
    struct ibv_wq_init_attr attr = {
        .wq_type = IBV_WQT_RQ, .max_wr = BUFFERS, .max_sge = 1, .pd = pd};
    struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};

    q->buffers = malloc(BUFFERS * FRAME_BYTES);
    CHECK(q->buffers, "memory");
    q->mr = ibv_reg_mr(pd, q->buffers, BUFFERS * FRAME_BYTES, IBV_ACCESS_LOCAL_WRITE);
    CHECK(q->mr, "ibv_reg_mr");
    /* Events carry q, which names the queue with completions. */
    q->cq = ibv_create_cq(pd->context, BUFFERS, q, channel, 0);
    CHECK(q->cq, "ibv_create_cq");
    attr.cq = q->cq;
    q->wq = ibv_create_wq(pd->context, &attr);
    CHECK(q->wq, "ibv_create_wq");
    CHECK(!ibv_modify_wq(q->wq, &ready), "ibv_modify_wq");
    for (unsigned i = 0; i < BUFFERS; i++)
        post_buffer(q, i);
    CHECK(!ibv_req_notify_cq(q->cq, 0), "ibv_req_notify_cq");
}

/* Entry `hash mod 4` of the table names the queue of a packet. A larger table could give one queue
 * a larger share. */
static struct ibv_rwq_ind_table *create_table(struct ibv_context *context)
{
    struct ibv_wq *wq[QUEUES];
    struct ibv_rwq_ind_table_init_attr attr = {.ind_tbl = wq};
    struct ibv_rwq_ind_table *table;

    for (unsigned i = 0; i < QUEUES; i++)
        wq[i] = queues[i].wq;
    while (1u << attr.log_ind_tbl_size < QUEUES)
        attr.log_ind_tbl_size++;
    table = ibv_create_rwq_ind_table(context, &attr);
    CHECK(table, "ibv_create_rwq_ind_table");
    return table;
}

/* This queue pair only hashes: it has no queues, and so neither completion queues nor a state. */
static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_rwq_ind_table *table)
{
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_RAW_PACKET,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
        .pd = pd,
        .rwq_ind_tbl = table,
        .rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                         .rx_hash_key_len = sizeof(toeplitz_key),
                         .rx_hash_key = toeplitz_key,
                         .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
                                                IBV_RX_HASH_SRC_PORT_UDP |
                                                IBV_RX_HASH_DST_PORT_UDP}};
    struct ibv_qp *qp = ibv_create_qp_ex(pd->context, &attr);

    CHECK(qp, "ibv_create_qp_ex");
    return qp;
}

/* The rule that selects the queue pair's frames. Fields without a mask may have any value: here the
 * addresses. The headers follow the attributes in memory. */
static struct ibv_flow *take_udp(struct ibv_qp *qp, uint16_t port)
{
    struct {
        struct ibv_flow_attr attr;
        struct ibv_flow_spec_eth eth;
        struct ibv_flow_spec_ipv4 ipv4;
        struct ibv_flow_spec_tcp_udp udp;
    } rule = {
        .attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 3, .port = 1},
        .eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth)},
        .ipv4 = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(rule.ipv4)},
        .udp = {.type = IBV_FLOW_SPEC_UDP,
                .size = sizeof(rule.udp),
                .val.dst_port = htons(port),
                .mask.dst_port = 0xffff}};
    struct ibv_flow *flow = ibv_create_flow(qp, &rule.attr);

    CHECK(flow, "ibv_create_flow");
    return flow;
}

/* The rule says nothing of VLANs, so frames may have tags, between the addresses and the type. */
static const uint8_t *find_ip(const uint8_t *frame)
{
    const uint8_t *type = frame + 12;

    while ((type[0] == 0x81 && type[1] == 0x00) || (type[0] == 0x88 && type[1] == 0xa8))
        type += 4;
    return type + 2;
}

static void print_packet(unsigned queue, const uint8_t *frame, uint32_t bytes)
{
    const uint8_t *ip = find_ip(frame), *udp = ip + (ip[0] & 15) * 4;
    char from[INET_ADDRSTRLEN], to[INET_ADDRSTRLEN];

    inet_ntop(AF_INET, ip + 12, from, sizeof(from));
    inet_ntop(AF_INET, ip + 16, to, sizeof(to));
    printf("queue %u: %s:%u > %s:%u, %u bytes\n", queue, from, udp[0] << 8 | udp[1], to,
           udp[2] << 8 | udp[3], bytes);
}

/* Processes at most `most` packets and returns their number. */
static unsigned long take_packets(struct queue *q, unsigned long most)
{
    unsigned long taken = 0;
    struct ibv_wc wc;
    int n;

    while (taken < most && (n = ibv_poll_cq(q->cq, 1, &wc)) != 0) {
        CHECK(n > 0, "ibv_poll_cq");
        if (wc.status != IBV_WC_SUCCESS) {
            fprintf(stderr, "rss_server: %s\n", ibv_wc_status_str(wc.status));
            exit(1);
        }
        print_packet((unsigned)(q - queues), q->buffers + wc.wr_id * FRAME_BYTES, wc.byte_len);
        post_buffer(q, wc.wr_id);
        taken++;
    }
    q->packets += taken;
    return taken;
}

static void serve(struct ibv_comp_channel *channel, unsigned long packets)
{
    while (packets) {
        struct ibv_cq *cq;
        void *queue;

        CHECK(!ibv_get_cq_event(channel, &cq, &queue), "ibv_get_cq_event");
        ibv_ack_cq_events(cq, 1);
        /* Arm first, then poll: a packet that comes in between raises an event. */
        CHECK(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
        packets -= take_packets(queue, packets);
    }
}

static void destroy_queue(struct queue *q)
{
    CHECK(!ibv_destroy_wq(q->wq), "ibv_destroy_wq");
    CHECK(!ibv_destroy_cq(q->cq), "ibv_destroy_cq");
    CHECK(!ibv_dereg_mr(q->mr), "ibv_dereg_mr");
    free(q->buffers);
}

static void usage(void)
{
    fputs("usage: rss_server [-d DEVICE] [-p UDP-PORT] [-n PACKETS]\n", stderr);
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
    unsigned long packets = (unsigned long)-1;
    struct ibv_comp_channel *channel;
    struct ibv_rwq_ind_table *table;
    struct ibv_context *context;
    uint16_t port = 7777;
    struct ibv_flow *flow;
    struct ibv_pd *pd;
    struct ibv_qp *qp;
    int c;

    while ((c = getopt(argc, argv, "d:p:n:")) != -1) {
        if (c == 'd')
            device_name = optarg;
        else if (c == 'p')
            port = (uint16_t)number(optarg, UINT16_MAX);
        else if (c == 'n')
            packets = number(optarg, ULONG_MAX);
        else
            usage();
    }
    if (argc > optind)
        usage();
    setvbuf(stdout, NULL, _IOLBF, 0);
    context = open_device();
    pd = ibv_alloc_pd(context);
    CHECK(pd, "ibv_alloc_pd");
    channel = ibv_create_comp_channel(context);
    CHECK(channel, "ibv_create_comp_channel");
    for (unsigned i = 0; i < QUEUES; i++)
        create_queue(&queues[i], pd, channel);
    table = create_table(context);
    qp = create_qp(pd, table);
    flow = take_udp(qp, port);
    printf("waiting for packets to UDP port %u\n", port);

    serve(channel, packets);

    for (unsigned i = 0; i < QUEUES; i++)
        printf("queue %u: %lu packets\n", i, queues[i].packets);
    CHECK(!ibv_destroy_flow(flow), "ibv_destroy_flow");
    CHECK(!ibv_destroy_qp(qp), "ibv_destroy_qp");
    CHECK(!ibv_destroy_rwq_ind_table(table), "ibv_destroy_rwq_ind_table");
    for (unsigned i = 0; i < QUEUES; i++)
        destroy_queue(&queues[i]);
    CHECK(!ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
    CHECK(!ibv_dealloc_pd(pd), "ibv_dealloc_pd");
    CHECK(!ibv_close_device(context), "ibv_close_device");
    return 0;
}
