/* SPDX-License-Identifier: BSD-3-Clause */
/* See shown.h. */
#include "show/shown.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/errand.h"
#include "control/session_state.h"

#define PAGE 4096u

struct quota_cost shown_cost(const struct session *sn, unsigned descriptors, uint64_t bytes)
{
    if (sn->account.user && sn->account.user->owner)
        return (struct quota_cost){0};
    return (struct quota_cost){{[QUOTA_DESCRIPTOR] = descriptors, [QUOTA_MEMORY] = bytes}};
}

/* The application may write to the file from memory that does not answer, and so hold its lock. */
struct end_errand {
    struct errand e;
    int fd;
    uint64_t bytes;
    struct quota_account account;
};

/* Not shortened: an application that has mapped it would get SIGBUS. */
static void free_pages(int fd, uint64_t bytes)
{
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
    close(fd);
}

static void run_end(struct errand *e)
{
    struct end_errand *end = container_of(e, struct end_errand, e);

    free_pages(end->fd, end->bytes);
}

static void end_done(struct errand *e)
{
    struct end_errand *end = container_of(e, struct end_errand, e);

    quota_account_close(&end->account);
    free(end);
}

void shown_end(struct session *sn)
{
    struct quota_cost cost = shown_cost(sn, 1, sn->shown.bytes);
    struct end_errand *end = NULL;
    int fd = sn->shown.fd;

    sn->shown.fd = -1;
    if (fd < 0)
        return;
    if (sn->rnic->ending) {
        close(fd);
        quota_uncharge(&sn->account, &cost);
        return;
    }
    if (sn->rnic->errands)
        end = malloc(sizeof(*end));
    if (!end) {
        free_pages(fd, sn->shown.bytes);
        quota_uncharge(&sn->account, &cost);
        return;
    }
    *end = (struct end_errand){
        .e = {.run = run_end, .done = end_done}, .fd = fd, .bytes = sn->shown.bytes};
    quota_move(&sn->account, &cost, &end->account);
    errands_post(sn->rnic->errands, &sn->peer, &end->e);
}

int shown_answer(struct session *sn, int fd, uint64_t length, struct ctl_call *call)
{
    int theirs = lseek(fd, 0, SEEK_SET) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (theirs < 0)
        return -errno;
    sn->shown.fd = fd;
    sn->shown.bytes = round_up(length, PAGE);
    call->out_fd[call->out_fds++] = theirs;
    call->reply.show.length = length;
    return 0;
}
