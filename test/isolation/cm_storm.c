/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections in masses, by one program: cm_storm connects N WINDOW BACKLOG, cm_storm ids N, or
 * cm_storm unread N. The last two stay until standard input ends. Connections have no queue pairs:
 * these are tested elsewhere.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "program_kit.h"

#define RESOLVE_MS 5000

/* Each connection names another queue pair, as the manager takes a number that it knows for a stale
 * connection's. */
static struct rdma_conn_param param(void)
{
    static _Atomic uint32_t last;
    uint32_t qpn = ((uint32_t)getpid() & 0xFF) << 16 | ++last;

    return (struct rdma_conn_param){.responder_resources = 1,
                                    .initiator_depth = 1,
                                    .retry_count = 7,
                                    .rnr_retry_count = 7,
                                    .qp_num = qpn};
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* ---- the passive side ---- */

struct server {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    unsigned wanted, established, ended;
};

static void listen_on(struct server *s, int backlog)
{
    struct sockaddr_in any = loopback(0);

    s->channel = must(rdma_create_event_channel(), "rdma_create_event_channel");
    check(rdma_create_id(s->channel, &s->listener, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(rdma_bind_addr(s->listener, (struct sockaddr *)&any), "rdma_bind_addr");
    check(rdma_listen(s->listener, backlog), "rdma_listen");
}

static void serve_event(struct server *s)
{
    struct rdma_cm_event *e;
    struct rdma_cm_id *id, *done = NULL;
    struct rdma_conn_param p = param();

    check(rdma_get_cm_event(s->channel, &e), "rdma_get_cm_event");
    id = e->id;
    switch (e->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        check(rdma_accept(id, &p), "rdma_accept");
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        s->established++;
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        rdma_disconnect(id);
        s->ended++;
        done = id;
        break;
    default:
        fprintf(stderr, "server: %s, status %d\n", rdma_event_str(e->event), e->status);
        exit(1);
    }
    rdma_ack_cm_event(e);
    if (done)
        rdma_destroy_id(done);
}

static void *serve(void *arg)
{
    struct server *s = arg;

    while (s->ended < s->wanted)
        serve_event(s);
    return NULL;
}

/* ---- the active side ---- */

struct client {
    struct rdma_event_channel *channel;
    struct sockaddr_in to;
    unsigned wanted, begun, established, over;
};

static void begin_one(struct client *c)
{
    struct rdma_cm_id *id;

    check(rdma_create_id(c->channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(rdma_resolve_addr(id, NULL, (struct sockaddr *)&c->to, RESOLVE_MS), "rdma_resolve_addr");
    c->begun++;
}

static void client_event(struct client *c)
{
    struct rdma_cm_event *e;
    struct rdma_cm_id *id, *done = NULL;
    struct rdma_conn_param p = param();

    check(rdma_get_cm_event(c->channel, &e), "rdma_get_cm_event");
    id = e->id;
    switch (e->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        check(rdma_resolve_route(id, RESOLVE_MS), "rdma_resolve_route");
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        check(rdma_connect(id, &p), "rdma_connect");
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        check(rdma_establish(id), "rdma_establish");
        c->established++;
        check(rdma_disconnect(id), "rdma_disconnect");
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        c->over++;
        done = id;
        break;
    default:
        fprintf(stderr, "client: %s, status %d\n", rdma_event_str(e->event), e->status);
        exit(1);
    }
    rdma_ack_cm_event(e);
    if (done)
        rdma_destroy_id(done);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int connects(unsigned n, unsigned window, int backlog)
{
    struct server s = {.wanted = n};
    struct client c = {.wanted = n};
    double begin = seconds();
    pthread_t thread;

    listen_on(&s, backlog);
    check(pthread_create(&thread, NULL, serve, &s), "pthread_create");
    c.channel = must(rdma_create_event_channel(), "rdma_create_event_channel");
    c.to = loopback(rdma_get_src_port(s.listener));
    while (c.over < n) {
        while (c.begun < n && c.begun - c.over < window)
            begin_one(&c);
        client_event(&c);
    }
    pthread_join(thread, NULL);
    printf("%u established, %u at the other end, %.0f a second\n", c.established, s.established,
           n / (seconds() - begin));
    return 0;
}

/* ---- what stays ---- */

static void stay(void)
{
    char byte;

    say_ready();
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

static int ids(unsigned n)
{
    struct rdma_event_channel *channel =
        must(rdma_create_event_channel(), "rdma_create_event_channel");
    struct rdma_cm_id *id;

    for (unsigned i = 0; i < n; i++)
        check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    stay();
    return 0;
}

static void request_one(struct rdma_cm_id *id, unsigned *requested)
{
    struct rdma_conn_param p = param();

    check(rdma_connect(id, &p), "rdma_connect");
    ++*requested;
}

/* Requests that a program never looks at. */
static int unread(unsigned n)
{
    struct client c = {.wanted = n};
    struct rdma_cm_event *e;
    struct server s = {0};
    unsigned requested = 0;

    listen_on(&s, 0);
    c.channel = must(rdma_create_event_channel(), "rdma_create_event_channel");
    c.to = loopback(rdma_get_src_port(s.listener));
    for (unsigned i = 0; i < n; i++)
        begin_one(&c);
    while (requested < n) {
        check(rdma_get_cm_event(c.channel, &e), "rdma_get_cm_event");
        if (e->event == RDMA_CM_EVENT_ADDR_RESOLVED)
            check(rdma_resolve_route(e->id, RESOLVE_MS), "rdma_resolve_route");
        else if (e->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
            request_one(e->id, &requested);
        rdma_ack_cm_event(e);
    }
    stay();
    return 0;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0;

    if (argc == 5 && !strcmp(argv[1], "connects"))
        return connects(n, (unsigned)atoi(argv[3]), atoi(argv[4]));
    if (argc == 3 && !strcmp(argv[1], "ids"))
        return ids(n);
    if (argc == 3 && !strcmp(argv[1], "unread"))
        return unread(n);
    fprintf(stderr, "usage: cm_storm connects N WINDOW BACKLOG | ids N | unread N\n");
    return 2;
}
