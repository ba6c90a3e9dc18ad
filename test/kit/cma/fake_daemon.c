/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_daemon.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit.h"

#define MAX_IDS      64
#define MAX_CHANNELS 16
#define MAX_TYPES    128

/* Numeric value of RDMA_CM_EVENT_CONNECT_REQUEST. */
#define CONNECT_REQUEST 4

struct fake_id {
    uint32_t channel; /* 0: free */
    uint64_t cookie, serial;
    uint32_t sent;
    struct ctl_cm_addr src;
};

static struct {
    char folder[64], path[108];
    int listener, wake[2];
    pthread_t thread;
    pthread_mutex_t lock;
    int sock[MAX_CHANNELS]; /* by handle - 1; -1: free */
    struct fake_id id[MAX_IDS];
    uint64_t serials;
    unsigned calls[MAX_TYPES];
    struct ctl_msg last[MAX_TYPES];
    int fail[MAX_TYPES];
    pthread_cond_t delay;
    uint32_t delayed; /* the type whose next reply waits, or 0 */
    bool waits;       /* and it does */
    bool lost_device, at_once;
    bool hold;
    int held_on; /* the socket, while there is something in `held` */
    struct ctl_cm_told held;
} fake;

/* ---- events ---- */

static uint32_t new_id(uint32_t channel, uint64_t cookie)
{
    uint32_t handle = 1;

    while (handle < MAX_IDS && fake.id[handle].channel)
        handle++;
    assert_true(handle < MAX_IDS);
    fake.id[handle] =
        (struct fake_id){.channel = channel, .cookie = cookie, .serial = ++fake.serials};
    return handle;
}

static void send_bytes(int sock, const void *bytes, size_t len)
{
    assert_int_equal(send(sock, bytes, len, MSG_NOSIGNAL), len);
}

static void send_told(int sock, const struct ctl_cm_told *told)
{
    send_bytes(sock, told, fake.hold ? sizeof(*told) / 2 : sizeof(*told));
    if (!fake.hold)
        return;
    fake.held_on = sock;
    fake.held = *told;
}

void fake_daemon_hold(bool hold)
{
    pthread_mutex_lock(&fake.lock);
    if (!hold && fake.hold)
        send_bytes(fake.held_on, (uint8_t *)&fake.held + sizeof(fake.held) / 2,
                   sizeof(fake.held) - sizeof(fake.held) / 2);
    fake.hold = hold;
    pthread_mutex_unlock(&fake.lock);
}

static void send_event(struct fake_id *owner, struct ctl_cm_event *event)
{
    struct ctl_cm_told told = {.serial = fake.id[event->id].serial};

    event->channel = owner->channel;
    told.event = *event;
    told.info = (struct ctl_cm_info){
        .src = fake.id[event->id].src, .has_device = fake.lost_device, .node_guid = UINT64_MAX};
    fake.lost_device = false;
    owner->sent++;
    send_told(fake.sock[owner->channel - 1], &told);
}

uint32_t fake_daemon_event(uint32_t handle, const struct ctl_cm_event *event)
{
    struct ctl_cm_event e = *event;

    pthread_mutex_lock(&fake.lock);
    e.id = handle;
    e.cookie = e.cookie ? e.cookie : fake.id[handle].cookie;
    if (e.type == CONNECT_REQUEST)
        e.id = new_id(fake.id[handle].channel, 0);
    send_event(&fake.id[handle], &e);
    pthread_mutex_unlock(&fake.lock);
    return e.id;
}

/* ---- requests ---- */

static int create_channel(struct ctl_msg *m, int *fd)
{
    int pair[2], i = 0;

    while (i < MAX_CHANNELS && fake.sock[i] >= 0)
        i++;
    assert_true(i < MAX_CHANNELS);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    fake.sock[i] = pair[0];
    *fd = pair[1];
    m->handle = (uint32_t)i + 1;
    return 0;
}

static void reply_info(struct ctl_msg *m, uint32_t id)
{
    m->cm_info = (struct ctl_cm_info){.id = id, .src = fake.id[id].src};
}

static int serve(struct ctl_msg *m, int *fd)
{
    struct ctl_cm_resolve resolve = m->cm_resolve;

    switch (m->type) {
    case CTL_CM_CREATE_CHANNEL:
        return create_channel(m, fd);
    case CTL_CM_DESTROY_CHANNEL:
        close(fake.sock[m->handle - 1]);
        fake.sock[m->handle - 1] = -1;
        return 0;
    case CTL_CM_CREATE_ID:
        m->cm_id.id = new_id(m->cm_id.channel, m->cm_id.cookie);
        m->cm_id.serial = fake.id[m->cm_id.id].serial;
        return 0;
    case CTL_CM_DESTROY_ID:
        m->cm_id.sent = fake.id[m->cm_id.id].sent;
        fake.id[m->cm_id.id].channel = 0;
        return 0;
    case CTL_CM_MIGRATE:
        fake.id[m->cm_id.id].channel = m->cm_id.channel;
        m->cm_id.sent = fake.id[m->cm_id.id].sent;
        return 0;
    case CTL_CM_BIND:
    case CTL_CM_RESOLVE_ADDR:
        fake.id[resolve.id].src = resolve.src;
        reply_info(m, resolve.id);
        m->cm_info.at_once = fake.at_once && resolve.at_once;
        return 0;
    case CTL_CM_RESOLVE_ROUTE:
        reply_info(m, resolve.id);
        m->cm_info.at_once = fake.at_once && resolve.at_once;
        return 0;
    case CTL_CM_LISTEN:
    case CTL_CM_QUERY:
        reply_info(m, m->cm_id.id);
        return 0;
    case CTL_CM_JOIN:
        m->cm_mcast.handle = 7;
        return 0;
    case CTL_CM_LEAVE:
        m->cm_mcast.sent = fake.id[m->cm_mcast.id].sent;
        return 0;
    default:
        return 0;
    }
}

/* With the lock. */
static void wait_with(const struct ctl_msg *m)
{
    if (!fake.delayed || m->type != fake.delayed)
        return;
    fake.waits = true;
    pthread_cond_broadcast(&fake.delay);
    while (fake.delayed)
        pthread_cond_wait(&fake.delay, &fake.lock);
    fake.waits = false;
}

static void answer(int sock, struct ctl_msg *m)
{
    int fd = -1;

    pthread_mutex_lock(&fake.lock);
    assert_true(m->type < MAX_TYPES);
    fake.calls[m->type]++;
    fake.last[m->type] = *m;
    m->status = fake.fail[m->type];
    fake.fail[m->type] = 0;
    if (!m->status)
        m->status = serve(m, &fd);
    wait_with(m);
    if (m->seq)
        ctl_send(sock, m, &fd, fd >= 0, 0);
    if (fd >= 0)
        close(fd);
    pthread_mutex_unlock(&fake.lock);
}

/* ---- the thread ---- */

static void forget_all(void)
{
    pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < MAX_CHANNELS; i++) {
        if (fake.sock[i] >= 0)
            close(fake.sock[i]);
        fake.sock[i] = -1;
    }
    memset(fake.id, 0, sizeof(fake.id));
    pthread_mutex_unlock(&fake.lock);
}

/* What the test wants: 'r' to end the connection, 's' to end; 0: a request is there. */
static char wait_for(int sock)
{
    struct pollfd p[] = {{.fd = sock, .events = POLLIN},
                         {.fd = fake.wake[0], .events = POLLIN},
                         {.fd = sock == fake.listener ? -1 : fake.listener, .events = POLLIN}};
    char wish = 0;

    /* Another connection, while there is one, is refused: a library that looks for devices. */
    while (poll(p, 3, -1), !p[0].revents && !p[1].revents)
        close(accept(fake.listener, NULL, NULL));
    if (p[1].revents)
        assert_int_equal(read(fake.wake[0], &wish, 1), 1);
    return wish;
}

static char serve_connection(int sock)
{
    struct ctl_msg m;
    int fds[CTL_MAX_FDS];
    unsigned nfds;
    char wish;

    while (!(wish = wait_for(sock)) && !ctl_recv(sock, &m, fds, &nfds, 0))
        answer(sock, &m);
    forget_all();
    close(sock);
    return wish;
}

/* A restart is acknowledged when the connection, if there is one, has ended. */
static void *run(void *arg)
{
    char wish = 0;

    while (wish != 's') {
        wish = wait_for(fake.listener);
        if (!wish)
            wish = serve_connection(accept(fake.listener, NULL, NULL));
        if (wish)
            assert_int_equal(write(fake.wake[0], &wish, 1), 1);
    }
    return NULL;
}

static void tell(char wish)
{
    assert_int_equal(write(fake.wake[1], &wish, 1), 1);
    assert_int_equal(read(fake.wake[1], &wish, 1), 1);
}

void fake_daemon_start(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    memset(&fake, 0, sizeof(fake));
    pthread_mutex_init(&fake.lock, NULL);
    pthread_cond_init(&fake.delay, NULL);
    memset(fake.sock, 0xff, sizeof(fake.sock));
    strcpy(fake.folder, "/tmp/uroce-fake-XXXXXX");
    assert_non_null(mkdtemp(fake.folder));
    snprintf(fake.path, sizeof(fake.path), "%s/sock", fake.folder);
    strcpy(addr.sun_path, fake.path);
    fake.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake.listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fake.listener, 4), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fake.wake), 0);
    setenv(CTL_SOCKET_ENV, fake.path, 1);
    assert_int_equal(pthread_create(&fake.thread, NULL, run, NULL), 0);
}

void fake_daemon_restart(void)
{
    tell('r');
}

void fake_daemon_stop(void)
{
    tell('s');
    pthread_join(fake.thread, NULL);
    close(fake.listener);
    close(fake.wake[0]);
    close(fake.wake[1]);
    unlink(fake.path);
    rmdir(fake.folder);
}

unsigned fake_daemon_calls(enum ctl_type type, struct ctl_msg *last)
{
    unsigned n;

    pthread_mutex_lock(&fake.lock);
    n = fake.calls[type];
    if (last)
        *last = fake.last[type];
    pthread_mutex_unlock(&fake.lock);
    return n;
}

void fake_daemon_lose_device(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.lost_device = true;
    pthread_mutex_unlock(&fake.lock);
}

void fake_daemon_at_once(bool at_once)
{
    pthread_mutex_lock(&fake.lock);
    fake.at_once = at_once;
    pthread_mutex_unlock(&fake.lock);
}

void fake_daemon_fail(enum ctl_type type, int status)
{
    pthread_mutex_lock(&fake.lock);
    fake.fail[type] = status;
    pthread_mutex_unlock(&fake.lock);
}

void fake_daemon_delay(enum ctl_type type)
{
    pthread_mutex_lock(&fake.lock);
    fake.delayed = type;
    pthread_mutex_unlock(&fake.lock);
}

void fake_daemon_await(void)
{
    pthread_mutex_lock(&fake.lock);
    while (!fake.waits)
        pthread_cond_wait(&fake.delay, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
}

void fake_daemon_reply(void)
{
    fake_daemon_delay(0);
    pthread_cond_broadcast(&fake.delay);
}

unsigned fake_daemon_ids(void)
{
    unsigned n = 0;

    pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < MAX_IDS; i++)
        n += fake.id[i].channel != 0;
    pthread_mutex_unlock(&fake.lock);
    return n;
}
