/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP connection over which the two programs exchange the parameters that RDMA needs (queue
 * pair numbers, keys, addresses), and keep in step. A message is a header of three 32-bit words in
 * network byte order (kind, number of the test, length) and a payload.
 */
#include "verify.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ACCEPT_MS  120000
#define CONNECT_MS 10000
#define PAYLOAD    256

enum kind { KIND_DATA = 1, KIND_END, KIND_TEST };

struct message {
    uint32_t kind, test, length;
    uint8_t payload[PAYLOAD];
};
#define HEADER offsetof(struct message, payload)

int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- connecting ---- */

static int try_connect(const struct addrinfo *list)
{
    int fd = -1;

    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
            int err = errno;

            close(fd);
            errno = err;
            fd = -1;
        }
    }
    return fd;
}

/* The server may not have started yet. */
static int connect_to(const struct addrinfo *list)
{
    int64_t end = now_ms() + CONNECT_MS;
    int fd;

    while ((fd = try_connect(list)) < 0 && errno == ECONNREFUSED && now_ms() < end)
        poll(NULL, 0, 100);
    return fd;
}

static int listen_on(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol), on = 1, off = 0;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a->ai_family == AF_INET6) /* IPv4 too */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 1))
        return fd;
    close(fd);
    return -1;
}

static int accept_one(const struct addrinfo *list)
{
    static const int families[] = {AF_INET6, AF_INET};
    struct pollfd wait = {.fd = -1, .events = POLLIN};
    int fd = -1;

    for (unsigned f = 0; f < 2; f++) {
        for (const struct addrinfo *a = list; a && wait.fd < 0; a = a->ai_next) {
            if (a->ai_family == families[f])
                wait.fd = listen_on(a);
        }
    }
    if (wait.fd < 0)
        return -1;
    if (poll(&wait, 1, ACCEPT_MS) == 1)
        fd = accept4(wait.fd, NULL, NULL, SOCK_CLOEXEC);
    else
        errno = ETIMEDOUT;
    close(wait.fd);
    return fd;
}

bool peer_open(struct session *s)
{
    const struct options *o = &s->opt;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = o->host ? 0 : AI_PASSIVE};
    struct addrinfo *list;
    int on = 1, err = getaddrinfo(o->host, o->port, &hints, &list);

    if (err) {
        fprintf(stderr, "verify: %s port %s: %s\n", o->host ? o->host : "any address", o->port,
                gai_strerror(err));
        return false;
    }
    s->peer.fd = o->host ? connect_to(list) : accept_one(list);
    err = errno;
    freeaddrinfo(list);
    if (s->peer.fd < 0) {
        fprintf(stderr, "verify: %s %s port %s: %s\n", o->host ? "connecting to" : "waiting on",
                o->host ? o->host : "any address", o->port, strerror(err));
        return false;
    }
    setsockopt(s->peer.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return true;
}

void peer_close(struct session *s)
{
    close(s->peer.fd);
}

/* ---- messages ---- */

static bool transfer(int fd, void *bytes, size_t length, bool sending)
{
    int64_t end = now_ms() + 2 * WAIT_MS; /* longer than the peer may wait for a completion */
    uint8_t *at = bytes;

    while (length) {
        struct pollfd wait = {.fd = fd, .events = sending ? POLLOUT : POLLIN};
        int64_t left = end - now_ms();
        ssize_t n;

        errno = ETIMEDOUT;
        if (left <= 0 || poll(&wait, 1, left) == 0)
            return false;
        n = sending ? send(fd, at, length, MSG_NOSIGNAL) : recv(fd, at, length, 0);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0) {
            if (!n)
                errno = ECONNRESET;
            return false;
        }
        at += n;
        length -= n;
    }
    return true;
}

/* The connection is broken: this test fails, and so will all others. */
static enum outcome broken(struct session *s)
{
    s->peer.ended = true;
    s->peer.result = FAILED;
    snprintf(s->peer.why, sizeof(s->peer.why), "it does not answer: %s", strerror(errno));
    return fail(s, "the connection to the peer: %s", strerror(errno));
}

static enum outcome send_message(struct session *s, enum kind kind, const void *payload,
                                 size_t length)
{
    struct message m = {htonl(kind), htonl(s->peer.test), htonl(length), {0}};

    if (length)
        memcpy(m.payload, payload, length);
    return transfer(s->peer.fd, &m, HEADER + length, true) ? PASSED : broken(s);
}

static enum outcome receive_message(struct session *s, struct message *m)
{
    if (!transfer(s->peer.fd, m, HEADER, false))
        return broken(s);
    m->kind = ntohl(m->kind);
    m->test = ntohl(m->test);
    m->length = ntohl(m->length);
    errno = EPROTO;
    if (m->length > PAYLOAD)
        return broken(s);
    return transfer(s->peer.fd, m->payload, m->length, false) ? PASSED : broken(s);
}

static void note_end(struct session *s, const struct message *m)
{
    bool sound = m->length > 0 && m->payload[0] <= FAILED;

    s->peer.ended = true;
    s->peer.result = sound ? m->payload[0] : FAILED;
    snprintf(s->peer.why, sizeof(s->peer.why), "%.*s", m->length ? (int)m->length - 1 : 0,
             (const char *)m->payload + 1);
}

enum outcome peer_tell(struct session *s, const void *data, size_t length)
{
    return send_message(s, KIND_DATA, data, length);
}

enum outcome peer_hear(struct session *s, void *data, size_t length)
{
    struct message m;

    if (!s->peer.ended)
        TRY(receive_message(s, &m));
    if (!s->peer.ended && m.kind == KIND_END)
        note_end(s, &m);
    if (s->peer.ended) { /* it gave up: that is our result too */
        snprintf(s->why, sizeof(s->why), "peer: %s", s->peer.why);
        return s->peer.result == PASSED ? FAILED : (enum outcome)s->peer.result;
    }
    errno = EPROTO;
    if (m.kind != KIND_DATA || m.length != length)
        return broken(s);
    if (length)
        memcpy(data, m.payload, length);
    return PASSED;
}

enum outcome peer_exchange(struct session *s, const void *mine, void *theirs, size_t length)
{
    TRY(peer_tell(s, mine, length));
    return peer_hear(s, theirs, length);
}

bool peer_next_test(struct session *s, char name[64])
{
    struct message m = {0};

    s->peer.test++;
    s->peer.ended = false;
    if (s->opt.host)
        return send_message(s, KIND_TEST, name, strlen(name)) == PASSED;
    if (receive_message(s, &m) != PASSED || m.kind != KIND_TEST || m.length >= 64)
        return false;
    snprintf(name, 64, "%.*s", (int)m.length, (const char *)m.payload);
    return true;
}

enum outcome peer_end_test(struct session *s, enum outcome mine)
{
    struct message m;
    char end[1 + sizeof(s->peer.why)] = {mine};

    snprintf(end + 1, sizeof(end) - 1, "%.*s", (int)sizeof(end) - 2, mine == PASSED ? "" : s->why);
    if (send_message(s, KIND_END, end, 1 + strlen(end + 1)) != PASSED)
        return FAILED;
    while (!s->peer.ended) { /* messages that it sent before it noticed do not matter */
        if (receive_message(s, &m) != PASSED)
            return FAILED;
        if (m.kind == KIND_END)
            note_end(s, &m);
    }
    if (mine == PASSED && s->peer.result != PASSED)
        snprintf(s->why, sizeof(s->why), "peer: %s", s->peer.why);
    return mine != PASSED ? mine : (enum outcome)s->peer.result;
}
