/* SPDX-License-Identifier: BSD-3-Clause */
/* See socket_end.h. */
#include "control/socket_end.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common.h"
#include "control/errand.h"

/* Messages without descriptors that are removed at most. A client that waits for each reply has
 * none or one. */
#define DRAIN_MAX 64

struct end_errand {
    struct errand e;
    int fd;
    unsigned *closing;
    struct quota_account account;
};

enum what { NOTHING, PLAIN, DESCRIPTORS };

/* The first message, whose sender the kernel is asked to name: so an empty one is not taken for
 * the end. */
static enum what peek(int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct msghdr msg = {.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0) /* an error of the socket is reported once, before its messages */
        return errno == ECONNRESET || errno == EINTR ? PLAIN : DESCRIPTORS;
    if (msg.msg_flags & MSG_CTRUNC)
        return DESCRIPTORS;
    return n || msg.msg_controllen ? PLAIN : NOTHING;
}

/* Whether the close of the socket releases no descriptor. No message can follow the shutdown. */
static bool is_empty(int fd)
{
    const int on = 1;

    if (shutdown(fd, SHUT_RDWR) || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
        return false;
    for (unsigned i = 0; i < DRAIN_MAX; i++) {
        enum what what = peek(fd);

        if (what != PLAIN)
            return what == NOTHING;
        recv(fd, NULL, 0, MSG_DONTWAIT);
    }
    return false;
}

static void run_end(struct errand *e)
{
    close(container_of(e, struct end_errand, e)->fd);
}

static void end_done(struct errand *e)
{
    struct end_errand *end = container_of(e, struct end_errand, e);

    quota_account_close(&end->account);
    if (end->closing)
        --*end->closing;
    free(end);
}

void socket_end(struct errands *es, const struct ucred *peer, int fd, struct quota_account *account,
                const struct quota_cost *cost, unsigned *closing)
{
    struct end_errand *end = es && !is_empty(fd) ? malloc(sizeof(*end)) : NULL;

    if (!end) {
        close(fd);
        quota_uncharge(account, cost);
        return;
    }
    *end = (struct end_errand){
        .e = {.run = run_end, .done = end_done, .is_close = true}, .fd = fd, .closing = closing};
    if (account)
        quota_move(account, cost, &end->account);
    if (closing)
        ++*closing;
    errands_post(es, peer, &end->e);
}
