/* SPDX-License-Identifier: BSD-3-Clause */
/* See cm_host.h. */
#include "cm/cm_host.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "cm/cm_object.h"

#define CHANNELS_MAX 65536u

static void on_send(void *ctx, const struct cm_path *path, const uint8_t *mad)
{
    struct rnic *r = ctx;

    gsi_send(r->device[path->port], path, mad);
}

static const struct cm_host_ops ops = {.send = on_send, .event = cm_on_event};

/* ---- time ---- */

static void on_timer(struct event_source *s, uint32_t events)
{
    struct rnic *r = container_of(container_of(s, struct cm_host, timer), struct rnic, cm);
    uint64_t count;

    while (read(s->fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    r->cm.armed = NS_NEVER;
    for (unsigned i = 0; i < r->devices; i++)
        if (r->device[i]->gsi.is_full)
            gsi_send_waiting(r->device[i]);
    cm_timers(r->cm.manager, r->config.clock());
    if (r->cm.first <= r->config.clock())
        cm_resolve_again(r);
    cm_host_arm(r);
}

static int open_timer(struct rnic *r)
{
    struct event_source *s = &r->cm.timer;

    s->ready = on_timer;
    if (!r->config.loop)
        return 0;
    s->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->fd < 0)
        return -errno;
    return event_loop_add(r->config.loop, s, EPOLLIN);
}

/* ---- opening ---- */

/* Of the manager's numbers, and of the two tables of handles. */
static int make_secrets(const struct rnic *r, uint64_t secret[8])
{
    if (!r->config.secret)
        return random_bytes(secret, 8 * sizeof(secret[0]));
    for (unsigned i = 0; i < 8; i++)
        secret[i] = r->config.secret[i % 2];
    return 0;
}

int cm_host_open(struct rnic *r)
{
    struct cm_host *h = &r->cm;
    struct cm_config config = {.ops = &ops, .ctx = r};
    uint64_t secret[8];
    int err;

    h->armed = NS_NEVER;
    h->tell = cm_record_tell;
    cm_resolve_init(h);
    cm_channels_init(h);
    err = make_secrets(r, secret);
    if (err)
        return err;
    for (unsigned i = 0; i < ARRAY_SIZE(config.secret); i++)
        config.secret[i] = secret[i];
    handle_table_init(&h->ids, LIMIT_CM_ID, secret + 4);
    handle_table_init(&h->channels, CHANNELS_MAX, secret + 6);
    h->manager = cm_create(&config);
    return h->manager ? open_timer(r) : -ENOMEM;
}

void cm_host_close(struct rnic *r)
{
    struct cm_host *h = &r->cm;

    cm_resolve_stop(r);
    cm_channels_stop(r);
    cm_follow_stop(r);
    if (r->config.loop)
        event_loop_remove(r->config.loop, &h->timer);
    if (h->timer.fd >= 0)
        close(h->timer.fd);
    if (h->manager)
        cm_destroy(h->manager);
    handle_table_fini(&h->ids);
    handle_table_fini(&h->channels);
}

/* ---- what the network reports ---- */

void cm_host_rx(struct rnic *r, const struct cm_path *path, const uint8_t *mad, size_t len)
{
    cm_rx(r->cm.manager, path, mad, len, r->config.clock());
    cm_host_arm(r);
}

void cm_host_resolved(struct rnic *r)
{
    cm_resolve_again(r);
    cm_host_arm(r);
}
