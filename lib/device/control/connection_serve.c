/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests and their replies. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/connection_state.h"
#include "control/session_state.h"

/* Posted requests of a process that are served in a turn of another one of its connections. */
#define POSTS_MAX 8

/* Those of the daemon's own files. */
static void close_fds(int *fd, unsigned *n)
{
    while (*n)
        close(fd[--*n]);
}

/* A posted request has none. 0 or a negative errno. */
static int send_reply(struct connection *cn, const struct ctl_call *call)
{
    if (cn->request.seq)
        return ctl_send(cn->socket.fd, &call->reply, call->out_fd, call->out_fds, MSG_DONTWAIT);
    if (call->reply.status)
        session_post_failed(cn->session, &cn->request, call->reply.status);
    return 0;
}

/* Answers the request in cn, or parks it. Returns 0, or the error for which the connection must
 * end. */
static int answer_request(struct connection *cn)
{
    struct ctl_call call = {
        .request = &cn->request, .in_fd = cn->fd, .in_fds = cn->fds, .again = cn->parked};
    struct event_loop *loop = connection_loop(cn);
    bool was_parked = cn->parked;
    int err;

    /* Also before the first one: librdmacm makes a channel, and then posts. */
    if (cn->turn && (!cn->request.seq || cn->request.type == CTL_CM_CREATE_CHANNEL))
        cn->turn->posting = cn;
    session_dispatch(cn->session, &call);
    cn->parked = call.reply.status == -EINPROGRESS;
    connection_set_waiting(cn, cn->parked);
    if (!call.reply.status && cn->session->inherits)
        connection_take_session(cn, cn->session->inherits);
    if (cn->parked) /* until it is answered, only the end of the connection matters */
        return was_parked ? 0 : event_loop_add(loop, &cn->socket, EPOLLRDHUP);
    err = send_reply(cn, &call);
    close_fds(call.out_fd, &call.out_fds);
    connection_close_passed(cn, cn->fd, &cn->fds);
    if (!err && was_parked)
        err = event_loop_add(loop, &cn->socket, EPOLLIN);
    return err;
}

void connection_answer_again(struct connection *cn)
{
    if (answer_request(cn))
        connection_close(cn);
}

static int receive_request(struct connection *cn)
{
    int err = cn->parked ? -ECONNRESET : connection_receive(cn);

    return err ? err : answer_request(cn);
}

static int serve_one(struct connection *cn)
{
    int err = receive_request(cn);

    if (err == -ECONNRESET)
        connection_left(cn);
    else if (err && err != -EAGAIN)
        connection_close(cn);
    return err;
}

/* What the process has posted on another connection comes before what it asks on this one. False:
 * there is more of it than fits in a turn. What waits is not waited for. */
static bool posts_are_served(const struct connection *cn)
{
    struct connection *posting = cn->turn ? cn->turn->posting : NULL;

    if (!posting || posting == cn)
        return true;
    for (unsigned i = 0; i < POSTS_MAX; i++)
        if (posting->parked || posting->is_dropping || serve_one(posting))
            return true;
    return false;
}

void connection_on_socket(struct event_source *source, uint32_t events)
{
    struct connection *cn = container_of(source, struct connection, socket);

    if (posts_are_served(cn))
        serve_one(cn);
}
