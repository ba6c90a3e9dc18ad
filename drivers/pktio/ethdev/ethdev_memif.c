/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A relay between net_memif and its peer. The driver unmaps the memory that it shares with its
 * peer, and closes its eventfds, as soon as the peer disconnects: in DPDK's interrupt thread, while
 * a worker may be in the middle of a burst. The worker would then get SIGSEGV, or write to another
 * file that has got the descriptor's number. The driver does not announce that moment. Therefore
 * its control socket is a private one, and a thread here relays its messages to the peer's socket.
 * The relay thread learns first that the peer has left: it excludes the worker, passes the hangup
 * on to the driver, and waits until the driver has cleaned up.
 *
 * The relay then restarts a client port, which the driver does not: the port connects again when
 * its server is available. The server may also start after the port is opened.
 */
#include "ethdev_internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rte_eal.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_SOCKET "/run/memif.sock"
#define MESSAGE_BYTES  128
#define MESSAGE_FDS    1
#define RETRY_MS       200  /* no event reports that a server has started to listen */
#define POLL_DRIVER_MS 2    /* nor that the client's driver has finished connecting */
#define HANDSHAKE_MS   5000 /* for a peer that connects and then sends nothing */

/* Message types: of a client, which introduces itself, gives regions and rings with a descriptor
 * each, and wants to share them; and of a server, which then does. */
enum {
    MEMIF_INIT = 3,
    MEMIF_ADD_REGION = 4,
    MEMIF_ADD_RING = 5,
    MEMIF_CONNECT = 6,
    MEMIF_CONNECTED = 7
};

/* Where these have numbers of 16 bits behind their type. */
#define REGION_INDEX_AT 2
#define RING_FLAGS_AT   2
#define RING_INDEX_AT   4
#define RING_TO_SERVER  1 /* a flag */

struct memif_address {
    struct sockaddr_un un;
    socklen_t len;
    bool file;
};

struct ethdev_memif {
    struct ethdev *ethdev;
    bool server;
    struct memif_address public, private;
    int listener; /* the public address of a server, the private one of a client */
    int driver;   /* connection with the driver, or -1 */
    int peer;     /* connection with the peer, or -1 */
    int stop_fd;
    bool shared;      /* a message was relayed after which the driver shares memory with the peer */
    bool introduced;  /* the client of this connection is */
    uint16_t regions; /* that it has given */
    uint8_t rings;    /* that it has given: a bit for each direction */
    uint64_t deadline; /* of the next try, or of the handshake; ms */
    pthread_t thread;
    bool running;
    _Atomic bool open;    /* there is shared memory, and the worker may use it */
    pthread_mutex_t gate; /* held by the worker during a burst */
};

bool ethdev_memif_enter(struct ethdev_memif *m)
{
    if (!atomic_load_explicit(&m->open, memory_order_relaxed) || pthread_mutex_trylock(&m->gate))
        return false;
    /* Again, now that the mutex is held. */
    if (atomic_load_explicit(&m->open, memory_order_relaxed))
        return true;
    pthread_mutex_unlock(&m->gate);
    return false;
}

bool ethdev_memif_is_open(const struct ethdev_memif *m)
{
    return atomic_load_explicit(&m->open, memory_order_relaxed);
}

void ethdev_memif_leave(struct ethdev_memif *m)
{
    pthread_mutex_unlock(&m->gate);
}

/* Excludes the worker. On return it has left its last burst. */
static void close_gate(struct ethdev_memif *m)
{
    atomic_store(&m->open, false);
    pthread_mutex_lock(&m->gate);
    pthread_mutex_unlock(&m->gate);
}

static void open_gate(struct ethdev_memif *m)
{
    atomic_store(&m->open, true);
    ethdev_link_changed(m->ethdev);
}

/* ---- sockets ---- */

/* Forms the address as the driver does. Returns -1 if the name is too long. */
static int make_address(struct memif_address *a, const char *name, bool file)
{
    size_t len = strlen(name);

    *a = (struct memif_address){.un.sun_family = AF_UNIX, .file = file};
    if (!len || len + 1 >= sizeof(a->un.sun_path))
        return -1;
    memcpy(a->un.sun_path + !file, name, len);
    a->len = file ? sizeof(a->un) : (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    return 0;
}

static int connect_to(const struct memif_address *a)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&a->un, a->len)) {
        int err = errno;

        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

static int listen_on(const struct memif_address *a)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (a->file)
        ethdev_remove_stale(a->un.sun_path, SOCK_SEQPACKET);
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)&a->un, a->len) || listen(fd, 1))) {
        int err = errno;

        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

static void close_both(struct ethdev_memif *m)
{
    if (m->driver >= 0)
        close(m->driver);
    if (m->peer >= 0)
        close(m->peer);
    m->driver = m->peer = -1;
    m->shared = m->introduced = false;
    m->regions = m->rings = 0;
}

/* ---- relaying ---- */

static uint16_t number_at(const uint8_t *message, unsigned at)
{
    uint16_t number;

    memcpy(&number, message + at, sizeof(number));
    return number;
}

/* Whether the driver will keep the descriptor of a message. With one that it does not expect it
 * hangs up, and leaves the descriptor open: regions come in order, and there is one ring in each
 * direction. */
static bool takes_descriptor(struct ethdev_memif *m, const uint8_t *message)
{
    uint8_t ring = number_at(message, RING_FLAGS_AT) & RING_TO_SERVER ? 1 : 2;

    if (!m->introduced)
        return false;
    switch (number_at(message, 0)) {
    case MEMIF_ADD_REGION:
        return number_at(message, REGION_INDEX_AT) == m->regions++;
    case MEMIF_ADD_RING:
        if (number_at(message, RING_INDEX_AT) || m->rings & ring)
            return false;
        m->rings |= ring;
        return true;
    default:
        return false;
    }
}

/* Whether a received message of len bytes is one to relay. */
static bool is_sound(struct ethdev_memif *m, const struct msghdr *mh, const uint8_t *message,
                     ssize_t len, bool of_client)
{
    if (len != MESSAGE_BYTES || mh->msg_flags & MSG_CTRUNC ||
        (CMSG_FIRSTHDR(mh) && !(of_client && takes_descriptor(m, message))))
        return false;
    m->introduced |= of_client && number_at(message, 0) == MEMIF_INIT;
    return true;
}

/* Relays one message with its descriptor. Returns its type, or -1: the sender has hung up, the
 * message is not sound, or the receiver does not accept it. */
static int relay_message(struct ethdev_memif *m, int from, int to)
{
    uint8_t bytes[MESSAGE_BYTES + 1];
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * MESSAGE_FDS)];
    } control;
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    /* CMSG_SPACE is rounded up: the kernel would fill the rest with another descriptor. */
    struct msghdr mh = {.msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = CMSG_LEN(sizeof(int) * MESSAGE_FDS)};
    ssize_t n = recvmsg(from, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC), sent;
    bool of_client = from == (m->server ? m->peer : m->driver);
    struct cmsghdr *c;

    if (n < 0)
        return errno == EAGAIN ? 0 : -1;
    iov.iov_len = (size_t)n;
    c = CMSG_FIRSTHDR(&mh);
    if (!c)
        mh.msg_control = NULL;
    sent =
        is_sound(m, &mh, bytes, n, of_client) ? sendmsg(to, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        int fd;

        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        close(fd);
    }
    return sent == MESSAGE_BYTES ? number_at(bytes, 0) : -1;
}

/* Waits until the driver hangs up, which it does when it has cleaned up. Its messages are dropped.
 */
static void await_hangup(struct ethdev_memif *m)
{
    uint8_t byte;

    shutdown(m->driver, SHUT_WR);
    while (recv(m->driver, &byte, sizeof(byte), 0) > 0)
        ;
}

/* The driver of a client connects only when its port starts. */
static void restart_port(struct ethdev_memif *m)
{
    rte_eth_dev_stop(m->ethdev->port);
    rte_eth_dev_start(m->ethdev->port);
}

/* Ends the connection: the peer has hung up, or has failed. again: the port stays in use. */
static void disconnect(struct ethdev_memif *m, bool again)
{
    bool restart = again && !m->server && m->driver >= 0;

    close_gate(m);
    if (m->driver >= 0)
        await_hangup(m);
    close_both(m);
    if (restart)
        restart_port(m);
    ethdev_link_changed(m->ethdev);
}

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Once memory is shared, a peer sends only its disconnect message. */
static void relay_from_peer(struct ethdev_memif *m)
{
    int type = m->shared ? -1 : relay_message(m, m->peer, m->driver);

    if (type < 0)
        disconnect(m, true);
    else if (type == MEMIF_CONNECT || type == MEMIF_CONNECTED)
        m->shared = true;
}

static void relay_from_driver(struct ethdev_memif *m)
{
    int type = relay_message(m, m->driver, m->peer);

    if (type < 0)
        disconnect(m, true);
    else if (type == MEMIF_CONNECTED)
        open_gate(m);
}

/* Accepts a connection: of a peer if this is a server, else of the driver. */
static void accept_connection(struct ethdev_memif *m)
{
    int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    if (!m->server) {
        m->driver = fd;
        m->deadline = 0;
        return;
    }
    m->peer = fd;
    m->driver = connect_to(&m->private);
    if (m->driver < 0)
        close_both(m);
    m->deadline = now_ms() + HANDSHAKE_MS;
}

/* The timeout of the next poll, in ms. */
static int poll_timeout(const struct ethdev_memif *m)
{
    uint64_t now = now_ms();

    if (m->driver < 0 || m->open)
        return -1;
    if (m->shared && !m->server)
        return POLL_DRIVER_MS;
    return m->deadline > now ? (int)(m->deadline - now) : 0;
}

static bool driver_is_up(const struct ethdev_memif *m)
{
    struct rte_eth_link link = {0};

    return !rte_eth_link_get_nowait(m->ethdev->port, &link) && link.link_status == RTE_ETH_LINK_UP;
}

static void on_timeout(struct ethdev_memif *m)
{
    if (m->peer < 0) {
        m->peer = connect_to(&m->public);
        m->deadline = now_ms() + (m->peer < 0 ? RETRY_MS : HANDSHAKE_MS);
    } else if (m->shared && driver_is_up(m)) {
        open_gate(m);
    } else if (now_ms() >= m->deadline) {
        disconnect(m, true);
    }
}

/* One connection at a time: further ones wait in the backlog. poll ignores an entry whose
 * descriptor is -1. The driver's messages are not read before there is a peer. */
static void *relay_thread(void *arg)
{
    struct ethdev_memif *m = arg;

    for (;;) {
        struct pollfd p[] = {
            {.fd = m->stop_fd, .events = POLLIN},
            {.fd = m->driver < 0 ? m->listener : -1, .events = POLLIN},
            {.fd = m->peer < 0 ? -1 : m->driver, .events = POLLIN},
            {.fd = m->peer, .events = POLLIN},
        };
        int n = poll(p, ARRAY_SIZE(p), poll_timeout(m));

        if (p[0].revents)
            return NULL;
        if (!n)
            on_timeout(m);
        else if (p[3].revents)
            relay_from_peer(m);
        else if (p[2].revents)
            relay_from_driver(m);
        else if (p[1].revents)
            accept_connection(m);
    }
}

/* ---- opening and closing ---- */

static int read_public(struct ethdev_memif *m, char *device)
{
    char name[128], text[16];
    bool abstract = true;

    ethdev_devarg(device, "role", text, sizeof(text));
    m->server = strstr(text, "server") || strstr(text, "master");
    if (ethdev_devarg(device, "socket-abstract", text, sizeof(text)))
        abstract = !strcmp(text, "yes");
    if (!ethdev_devarg(device, "socket", name, sizeof(name)))
        snprintf(name, sizeof(name), DEFAULT_SOCKET);
    ethdev_devarg_remove(device, "socket");
    ethdev_devarg_remove(device, "socket-abstract");
    return make_address(&m->public, name, !abstract);
}

/* In the EAL's own folder, to which other users have no access. It has this process's number in its
 * name, and the socket of a killed process that had the number may be there: the driver, which
 * listens for a server, would not replace it. */
static int make_private(struct ethdev_memif *m)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", rte_eal_get_runtime_dir(), m->ethdev->name);
    ethdev_remove_stale(path, SOCK_SEQPACKET);
    return make_address(&m->private, path, true);
}

struct ethdev_memif *ethdev_memif_open(struct ethdev *d, char *device, size_t size, char *error,
                                       size_t error_size)
{
    struct ethdev_memif *m = calloc(1, sizeof(*m));

    if (!m) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    *m = (struct ethdev_memif){.ethdev = d, .listener = -1, .driver = -1, .peer = -1};
    pthread_mutex_init(&m->gate, NULL);
    m->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->stop_fd < 0 || read_public(m, device) || make_private(m) ||
        ethdev_devarg_add(device, size, ",socket-abstract=no,socket=%s", m->private.un.sun_path)) {
        snprintf(error, error_size, "%s: the name of its socket is too long", d->name);
        ethdev_memif_close(m);
        return NULL;
    }
    m->listener = listen_on(m->server ? &m->public : &m->private);
    if (m->listener < 0) {
        snprintf(error, error_size, "%s: cannot listen on %s: %s", d->name,
                 m->public.un.sun_path + !m->public.file, strerror(errno));
        ethdev_memif_close(m);
        return NULL;
    }
    return m;
}

int ethdev_memif_start(struct ethdev_memif *m)
{
    sigset_t all, old;
    int err;

    sigfillset(&all);
    sigdelset(&all, SIGRTMAX); /* the daemon restricts all of its threads by it */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&m->thread, NULL, relay_thread, m);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err)
        return -err;
    pthread_setname_np(m->thread, "uroce-memif");
    m->running = true;
    return 0;
}

void ethdev_memif_stop(struct ethdev_memif *m)
{
    eventfd_t count;

    if (!m->running)
        return;
    eventfd_write(m->stop_fd, 1);
    pthread_join(m->thread, NULL);
    eventfd_read(m->stop_fd, &count);
    m->running = false;
    disconnect(m, false);
}

void ethdev_memif_close(struct ethdev_memif *m)
{
    close_both(m);
    if (m->listener >= 0) {
        close(m->listener);
        if (m->server && m->public.file)
            unlink(m->public.un.sun_path);
        if (!m->server)
            unlink(m->private.un.sun_path);
    }
    if (m->stop_fd >= 0)
        close(m->stop_fd);
    pthread_mutex_destroy(&m->gate);
    free(m);
}
