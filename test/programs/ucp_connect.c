/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A listener and a client of UCX that find each other by an IP address, which UCX gives to
 * rdma_cm with UCX_SOCKADDR_TLS_PRIORITY=rdmacm. The client sends messages of three sizes, and the
 * listener answers each by its bytes turned over; then they disconnect, a given number of times.
 *
 * usage: ucp_connect [-p PORT] [-c CONNECTIONS] [ADDRESS]   without an address: listen at all
 */
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define LONGEST (1 << 20)

static const size_t sizes[] = {8, 4096, LONGEST};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static ucp_worker_h worker;
static ucp_conn_request_h asking; /* a listener's: who is next */
static bool gone;                 /* the peer */

static void must(ucs_status_t status, const char *what)
{
    if (status == UCS_OK)
        return;
    fprintf(stderr, "ucp_connect: %s: %s\n", what, ucs_status_string(status));
    exit(1);
}

static void progress(void)
{
    while (ucp_worker_progress(worker))
        ;
}

/* Until the operation is done. */
static ucs_status_t finish(void *request)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (!UCS_PTR_IS_PTR(request))
        return status;
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        progress();
    status = ucp_request_check_status(request);
    ucp_request_free(request);
    return status;
}

static ucp_context_h open_context(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_STREAM};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_context_h context;

    must(ucp_init(&params, NULL, &context), "ucp_init");
    must(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
    return context;
}

/* The peer may have ended the connection already: it is reset. */
static void end(ucp_ep_h ep)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    finish(ucp_ep_close_nbx(ep, &param));
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    gone = true;
}

static void fill(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(seed + i * 7 + (i >> 8));
}

/* A stream belongs to its endpoint, as a tag does not. */
static ucs_status_t send_all(ucp_ep_h ep, const void *bytes, size_t len)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    return finish(ucp_stream_send_nbx(ep, bytes, len, &param));
}

static void receive_all(ucp_ep_h ep, void *bytes, size_t len)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    size_t got = len;

    must(finish(ucp_stream_recv_nbx(ep, bytes, len, &got, &param)), "receive");
}

static void client(const struct addrinfo *to, unsigned connection)
{
    unsigned char *out = malloc(LONGEST), *in = malloc(LONGEST);
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
        .sockaddr = {.addr = to->ai_addr, .addrlen = to->ai_addrlen},
        .err_handler = {on_error, NULL},
        .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    ucp_ep_h ep;

    must(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
    for (unsigned i = 0; i < SIZES; i++) {
        fill(out, sizes[i], connection + i);
        must(send_all(ep, out, sizes[i]), "send");
        receive_all(ep, in, sizes[i]);
        for (size_t n = 0; n < sizes[i]; n++)
            if (in[n] != (unsigned char)~out[n])
                must(UCS_ERR_IO_ERROR, "another answer");
    }
    end(ep);
    free(out);
    free(in);
}

static void on_request(ucp_conn_request_h request, void *arg)
{
    asking = request;
}

static void serve(void)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_handler = {on_error, NULL},
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    unsigned char *bytes = malloc(LONGEST);
    ucs_status_t status;
    ucp_ep_h ep;

    while (!asking)
        progress();
    params.conn_request = asking;
    asking = NULL;
    must(ucp_ep_create(worker, &params, &ep), "ucp_ep_create of a request");
    for (unsigned i = 0; i < SIZES; i++) {
        receive_all(ep, bytes, sizes[i]);
        for (size_t n = 0; n < sizes[i]; n++)
            bytes[n] = (unsigned char)~bytes[n];
        /* A client that has the last answer ends the connection, maybe before this end hears of the
         * acknowledge: UCX then cancels the send. */
        status = send_all(ep, bytes, sizes[i]);
        if (!gone || i < SIZES - 1)
            must(status, "send");
    }
    /* Who ends a connection may overtake the last bytes that the peer has not taken yet: UCX does
     * not look for them when it hears of the end. So it is the client, which has all of them. */
    while (!gone)
        progress();
    gone = false;
    end(ep);
    free(bytes);
}

static ucp_listener_h listen_at(const struct addrinfo *at)
{
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                    .sockaddr = {.addr = at->ai_addr, .addrlen = at->ai_addrlen},
                                    .conn_handler = {on_request, NULL}};
    ucp_listener_h listener;

    must(ucp_listener_create(worker, &params, &listener), "ucp_listener_create");
    return listener;
}

int main(int argc, char **argv)
{
    const char *port = "13337", *address = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    unsigned connections = 1, done = 0;
    ucp_listener_h listener = NULL;
    ucp_context_h context;

    for (int option; (option = getopt(argc, argv, "p:c:")) != -1;) {
        if (option == 'p')
            port = optarg;
        else if (option == 'c')
            connections = (unsigned)strtoul(optarg, NULL, 0);
        else
            return 2;
    }
    address = argv[optind];
    hints.ai_flags = address ? 0 : AI_PASSIVE;
    hints.ai_family = address ? AF_UNSPEC : AF_INET;
    if (getaddrinfo(address, port, &hints, &found)) {
        fprintf(stderr, "ucp_connect: no address\n");
        return 2;
    }
    context = open_context();
    if (!address)
        listener = listen_at(found);
    for (; done < connections; done++) {
        if (address)
            client(found, done);
        else
            serve();
    }
    if (listener)
        ucp_listener_destroy(listener);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    freeaddrinfo(found);
    printf("%u connections, all data right\n", done);
    return 0;
}
