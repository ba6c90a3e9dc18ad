/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptors that wake the control thread for a port: frames, the host's timer, the link, the
 * kernel's tap. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "control/async.h"
#include "control/device_state.h"

#define EXCEPTION_BURST 64
#define FRAMES_BURST    256
#define LINK_INTERVAL   NS_PER_SEC /* between polls of a link that reports no changes */

static void drain_counter(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

/* A frame that is not RoCE: for the port's host and for a kernel behind the port. */
static void give_ip_hosts(struct device *d, const uint8_t *frame, uint32_t len)
{
    struct device_net *n = &d->net;

    net_host_rx(n->host, frame, len, net_time(d));
    if (n->slow.frames == SLOW_PATH_ALL &&
        (n->exception.fd < 0 || write(n->exception.fd, frame, len) < 0))
        n->exception_lost++;
}

/* A burst at most, so that a flood of frames does not delay the requests of applications.
 */
static void on_frames(struct event_source *s, uint32_t events)
{
    struct device_net *n = container_of(s, struct device_net, frames);
    struct device *d = container_of(n, struct device, net);
    const uint8_t *frame;
    uint64_t one = 1;
    uint32_t len;

    drain_counter(s->fd);
    for (unsigned i = 0; i < FRAMES_BURST && (frame = frame_ring_peek(n->slow.up, &len)); i++) {
        if (!gsi_rx(d, frame, len))
            give_ip_hosts(d, frame, len);
        frame_ring_pop(n->slow.up);
    }
    if (!frame_ring_empty(n->slow.up) && write(s->fd, &one, sizeof(one)) < 0)
        return; /* a full eventfd is readable, too */
    net_apply_changes(d);
}

static void on_timer(struct event_source *s, uint32_t events)
{
    struct device *d = container_of(container_of(s, struct device_net, timer), struct device, net);

    drain_counter(s->fd);
    net_host_timers(d->net.host, net_time(d));
    net_apply_changes(d);
}

static void close_source(struct device *d, struct event_source *s, bool own)
{
    if (d->rnic->config.loop)
        event_loop_remove(d->rnic->config.loop, s);
    if (own && s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* The kernel's frames are sent unchanged, if the port can send them: the daemon sets the tap's MTU,
 * but an administrator can change it. A deleted tap device would stay readable forever, so it is
 * closed. */
static void on_exception(struct event_source *s, uint32_t events)
{
    struct device_net *n = container_of(s, struct device_net, exception);
    struct device *d = container_of(n, struct device, net);
    static uint8_t frame[FRAME_RING_ROOM];
    unsigned sent = 0;

    while (sent < EXCEPTION_BURST) {
        ssize_t len = read(s->fd, frame, sizeof(frame));

        if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR))
            close_source(d, s, true);
        if (len <= 0)
            break;
        if ((uint32_t)len > d->info.mtu + FRAME_AROUND)
            n->slow.down_lost++;
        else
            slow_path_down(&n->slow, frame, (uint32_t)len);
        sent++;
    }
    if (sent)
        worker_kick(d->port[0]->worker);
}

bool net_link_is_up(const struct device *d, const struct pktio_info *info)
{
    return info->link_up && !d->net.taken_down;
}

/* An interface of the port's own may get another name while the port is open, and another one may
 * take the old name. */
const char *net_interface(const struct device *d, const struct pktio_info *info)
{
    return info->netdev[0] && info->ifindex == d->info.ifindex ? info->netdev : d->info.netdev;
}

void net_link_look(struct device *d)
{
    struct pktio_info info;
    bool up;

    d->io->ops->info(d->io, &info);
    up = net_link_is_up(d, &info);
    if (up == d->net.link_up)
        return;
    d->net.link_up = up;
    net_host_link(d->net.host, up, net_time(d));
    async_port_event(d, up ? PORT_EVENT_ACTIVE : PORT_EVENT_ERR);
    net_apply_changes(d);
}

static void on_link(struct event_source *s, uint32_t events)
{
    struct device *d = container_of(container_of(s, struct device_net, link), struct device, net);

    if (d->net.link_polled)
        drain_counter(s->fd);
    else
        d->io->ops->link_ack(d->io);
    net_link_look(d);
}

/* ---- opening ---- */

static int watch_source(struct device *d, struct event_source *s)
{
    return s->fd < 0 || !d->rnic->config.loop ? 0
                                              : event_loop_add(d->rnic->config.loop, s, EPOLLIN);
}

/* A timer that expires every interval; -1: there is no descriptor for it. */
static int timer_every(ns_t interval)
{
    struct timespec t = {.tv_sec = (time_t)(interval / NS_PER_SEC),
                         .tv_nsec = (long)(interval % NS_PER_SEC)};
    struct itimerspec when = {.it_interval = t, .it_value = t};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

    if (fd >= 0)
        timerfd_settime(fd, 0, &when, NULL);
    return fd;
}

int net_events_open(struct device *d, const struct port_config *config)
{
    struct device_net *n = &d->net;
    int err;

    n->frames = (struct event_source){.fd = n->slow.event_fd, .ready = on_frames};
    if (n->isolated)
        return watch_source(d, &n->frames);
    n->exception.ready = on_exception;
    n->link = (struct event_source){.fd = -1, .ready = on_link};
    if (d->io->ops->link_fd) {
        n->link.fd = d->io->ops->link_fd(d->io);
        n->link_polled = n->link.fd < 0;
    }
    if (n->link_polled)
        n->link.fd = timer_every(LINK_INTERVAL);
    n->timer = (struct event_source){.ready = on_timer};
    n->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (n->timer.fd < 0)
        return -errno;
    err = watch_source(d, &n->frames);
    if (!err)
        err = watch_source(d, &n->timer);
    if (!err)
        err = watch_source(d, &n->link);
    return err ? err : watch_source(d, &n->exception);
}

void net_events_close(struct device *d)
{
    struct device_net *n = &d->net;

    close_source(d, &n->exception, true);
    if (!n->host)
        return;
    close_source(d, &n->frames, false);
    close_source(d, &n->link, n->link_polled);
    close_source(d, &n->timer, true);
}
