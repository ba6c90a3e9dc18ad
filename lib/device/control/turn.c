/* SPDX-License-Identifier: BSD-3-Clause */
/* See turn.h. */
#include "control/turn.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "common.h"

static void on_turn(struct event_source *s, uint32_t events)
{
    struct turn *t = container_of(s, struct turn, source);

    t->refs++; /* its last connection may end */
    event_loop_step(t->loop, 0);
    turn_put(t, false);
}

static struct turn *turn_create(struct event_loop *outer, const struct ucred *peer)
{
    struct turn *t = calloc(1, sizeof(*t));
    int err;

    if (!t)
        return NULL;
    t->outer = outer;
    t->peer = *peer;
    t->loop = event_loop_create(&err);
    if (t->loop) {
        t->source = (struct event_source){.fd = event_loop_fd(t->loop), .ready = on_turn};
        if (!event_loop_add(outer, &t->source, EPOLLIN))
            return t;
        event_loop_destroy(t->loop);
    }
    free(t);
    return NULL;
}

struct turn *turn_get(struct turn_list *list, struct event_loop *outer, const struct ucred *peer,
                      bool *is_direct)
{
    struct turn *t;

    LIST_FOREACH(t, list, link)
    if (t->peer.pid == peer->pid && t->peer.uid == peer->uid)
        break;
    if (!t) {
        t = turn_create(outer, peer);
        if (!t)
            return NULL;
        LIST_INSERT_HEAD(list, t, link);
    }
    t->refs++;
    *is_direct = t->direct < TURN_DIRECT;
    t->direct += *is_direct;
    return t;
}

void turn_put(struct turn *t, bool is_direct)
{
    t->direct -= is_direct;
    if (--t->refs)
        return;
    LIST_REMOVE(t, link);
    event_loop_remove(t->outer, &t->source);
    event_loop_destroy(t->loop);
    free(t);
}
