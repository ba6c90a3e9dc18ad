/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links that rules take down: see fault_rules.h. The rule itself drops the frames (port_inject.c);
 * here the port's state and its events follow the rule's time.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "control/fault_rules.h"
#include "net/device_net.h"

static bool is_of(const struct fault_rule *f, const struct device *d)
{
    return f->live.rule.act == INJECT_LINK_DOWN &&
           (f->device < 0 || (unsigned)f->device == d->index);
}

static bool is_down(const struct device *d, ns_t now)
{
    const struct fault_rule *f;

    TAILQ_FOREACH (f, &d->rnic->faults, link) {
        if (is_of(f, d) && inject_is_its_time(&f->live.rule, now - min_of(f->live.since, now)))
            return true;
    }
    return false;
}

/* The next time at which a rule begins or ends, or NS_NEVER. */
static ns_t next_change(const struct rnic *r, ns_t now)
{
    const struct fault_rule *f;
    ns_t next = NS_NEVER;

    TAILQ_FOREACH (f, &r->faults, link) {
        ns_t begin = f->live.since + f->live.rule.after, end = begin + f->live.rule.lasts;

        if (f->live.rule.act != INJECT_LINK_DOWN)
            continue;
        if (begin > now)
            next = min_of(next, begin);
        else if (f->live.rule.lasts && end > now)
            next = min_of(next, end);
    }
    return next;
}

/* The ports' states are those of `now`: what has changed since is looked at as soon as may be. */
static void arm(struct rnic *r, ns_t now)
{
    ns_t next = next_change(r, now), later = r->config.clock();
    ns_t left = next == NS_NEVER ? 0 : next > later ? next - later : 1;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(left / NS_PER_SEC), .tv_nsec = (long)(left % NS_PER_SEC)}};

    if (r->fault_timer.fd > 0)
        timerfd_settime(r->fault_timer.fd, 0, &when, NULL);
}

void fault_link_follow(struct rnic *r)
{
    ns_t now = r->config.clock();

    for (unsigned i = 0; i < r->devices; i++) {
        r->device[i]->net.taken_down = is_down(r->device[i], now);
        net_link_look(r->device[i]);
    }
    arm(r, now);
}

static void on_timer(struct event_source *s, uint32_t events)
{
    struct rnic *r = container_of(s, struct rnic, fault_timer);
    uint64_t count;

    if (read(s->fd, &count, sizeof(count)) == sizeof(count))
        fault_link_follow(r);
}

int fault_link_open(struct rnic *r)
{
    r->fault_timer = (struct event_source){.fd = -1, .ready = on_timer};
    if (!r->config.loop)
        return 0;
    r->fault_timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (r->fault_timer.fd < 0)
        return -errno;
    return event_loop_add(r->config.loop, &r->fault_timer, EPOLLIN);
}

void fault_link_close(struct rnic *r)
{
    if (r->fault_timer.fd <= 0) /* 0: it was never opened */
        return;
    event_loop_remove(r->config.loop, &r->fault_timer);
    close(r->fault_timer.fd);
}
