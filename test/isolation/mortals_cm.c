/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of mortals.c that connects to itself by rdma_cm, with queue pairs. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

#include "mortals_cm.h"
#include "program_kit.h"

#define RESOLVE_MS 5000

static void make_cm_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};

    check(rdma_create_qp(id, NULL, &init), "rdma_create_qp");
}

/* The next event; the one that is expected takes its id. */
static struct rdma_cm_id *take(struct rdma_event_channel *channel, enum rdma_cm_event_type expected)
{
    struct rdma_cm_event *e;
    struct rdma_cm_id *id;

    check(rdma_get_cm_event(channel, &e), "rdma_get_cm_event");
    if (e->event != expected) {
        fprintf(stderr, "%s, status %d\n", rdma_event_str(e->event), e->status);
        exit(1);
    }
    id = e->id;
    rdma_ack_cm_event(e);
    return id;
}

static void end(struct rdma_cm_id *id)
{
    rdma_destroy_qp(id);
    check(rdma_destroy_id(id), "rdma_destroy_id");
}

void connect_by_cm(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    struct rdma_event_channel *active = must(rdma_create_event_channel(), "channel");
    struct rdma_event_channel *passive = must(rdma_create_event_channel(), "channel");
    struct rdma_cm_id *listener, *id, *accepted;

    check(rdma_create_id(passive, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(rdma_bind_addr(listener, (struct sockaddr *)&to), "rdma_bind_addr");
    check(rdma_listen(listener, 1), "rdma_listen");
    to.sin_port = rdma_get_src_port(listener);
    check(rdma_create_id(active, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, RESOLVE_MS), "rdma_resolve_addr");
    take(active, RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(id, RESOLVE_MS), "rdma_resolve_route");
    take(active, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_cm_qp(id);
    check(rdma_connect(id, &param), "rdma_connect");
    accepted = take(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
    make_cm_qp(accepted);
    check(rdma_accept(accepted, &param), "rdma_accept");
    take(active, RDMA_CM_EVENT_ESTABLISHED);
    take(passive, RDMA_CM_EVENT_ESTABLISHED);
    check(rdma_disconnect(id), "rdma_disconnect");
    take(passive, RDMA_CM_EVENT_DISCONNECTED);
    end(accepted);
    end(id);
    check(rdma_destroy_id(listener), "rdma_destroy_id");
    rdma_destroy_event_channel(active);
    rdma_destroy_event_channel(passive);
}
