/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that ends by exit() or by returning from main, and has not closed its rsockets. The
 * kernel sends what a process has written to its sockets, and then that it sends no more, however
 * it ends; the daemon ends queue pairs with their process. So that is done here. Not by kill(2) and
 * _exit(2), after which the peers get ECONNRESET.
 *
 * Other threads may go on, and exit() may have been called by a signal's handler: an rsocket whose
 * lock is held is left out, and no other lock is waited for. First all peers are told, then their
 * answers are waited for, so that one that hangs costs the others nothing.
 */
#include <poll.h>
#include <unistd.h>

#include "common.h"
#include "rs_socket.h"

/* For all rsockets together: a peer that hangs keeps no program from its end for long. */
#define EXIT_MS 2000

static struct rsocket *lock(struct rs_object *object)
{
    struct rsocket *rs = container_of(object, struct rsocket, object);

    if (object->kind != RS_SOCKET || rs->owner != getpid() || pthread_mutex_trylock(&rs->lock))
        return NULL;
    return rs;
}

static void finish(struct rs_object *object, void *arg)
{
    struct rsocket *rs = lock(object);

    if (!rs)
        return;
    rs->ops->finish(rs);
    pthread_mutex_unlock(&rs->lock);
}

/* Sleeps until there are completions, whose descriptor is the last one. False: something happened
 * to the connection of a stream, whose channel is the first one: as a rule its end. */
static bool sleep_once(const struct rsocket *rs, int64_t deadline)
{
    struct pollfd fds[RS_FDS_MAX], wait[2];

    wait[0] = fds[rs->ops->fds(rs, fds) - 1];
    wait[1] = rs->type == SOCK_STREAM ? fds[0] : (struct pollfd){.fd = -1};
    poll(wait, 2, rs_poll_ms(deadline));
    return !wait[1].revents;
}

static void await_sent(struct rs_object *object, void *arg)
{
    struct rsocket *rs = lock(object);
    const int64_t *deadline = arg;
    bool more = true;

    if (!rs)
        return;
    while (more && !rs->ops->is_sent(rs)) {
        rs->ops->arm(rs);
        more = !rs->ops->is_sent(rs) && rs_now_ns() < *deadline && sleep_once(rs, *deadline);
    }
    pthread_mutex_unlock(&rs->lock);
}

__attribute__((destructor)) static void finish_all(void)
{
    int64_t deadline = rs_now_ns() + EXIT_MS * (int64_t)NS_PER_MS;

    rs_table_each(finish, NULL);
    rs_table_each(await_sent, &deadline);
}
