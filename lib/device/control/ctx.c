/* SPDX-License-Identifier: BSD-3-Clause */
/* CTL_OPEN: a connection becomes a context of a device. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/notify.h"
#include "control/session_state.h"
#include "objects/pd_mr.h"
#include "objects/segment_end.h"

/* An errand: the kernel keeps those that look at a process waiting while the process executes a
 * program, which closes descriptors first. */
static void run_open_space(struct session *sn)
{
    sn->open_err = 0;
    sn->space = sn->rnic->config.mem->space_open(&sn->peer, &sn->copy, &sn->open_err);
}

static int open_space(struct session *sn)
{
    int err = session_errand(sn, run_open_space);

    if (err)
        return err;
    /* Another process may have the pid by now. */
    if (sn->space && sn->process_ended)
        return -ESRCH;
    return sn->space ? 0 : sn->open_err;
}

/* The segment; the event socket, and what is in it unread; the process's memory. */
static struct quota_cost context_cost(const struct session *sn)
{
    return (struct quota_cost){
        {[QUOTA_MAPPING] = 1,
         [QUOTA_DESCRIPTOR] = 2,
         [QUOTA_MEMORY] = ctx_segment_bytes(sn->rnic->workers) + SOCKET_MEMORY}};
}

/* The three descriptors of the reply: context segment, wake segment, the application's end of the
 * event socket. The daemon's end accepts nothing: what it does not read could carry descriptors,
 * which its close would close. */
static int open_shared(struct session *sn, struct ctl_call *call)
{
    struct quota_cost cost = context_cost(sn);
    int pair[2], err;

    err = quota_charge(&sn->account, &cost);
    if (err)
        return err;
    err = segment_create(&sn->segment, "uroce-context", ctx_segment_bytes(sn->rnic->workers),
                         &call->out_fd[0]);
    if (err) {
        quota_uncharge(&sn->account, &cost);
        return err;
    }
    call->out_fds = 1;
    call->out_fd[1] = fcntl(sn->rnic->wake_fd, F_DUPFD_CLOEXEC, 0);
    if (call->out_fd[1] < 0)
        return -errno;
    call->out_fds = 2;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -errno;
    shutdown(pair[0], SHUT_RD);
    sn->async_fd = pair[0];
    call->out_fd[2] = pair[1];
    call->out_fds = 3;
    return 0;
}

static int attach_to_workers(struct session *sn)
{
    struct ctx_shared *shared = sn->segment.base;
    struct device *d = sn->device;
    int err = 0;

    for (unsigned i = 0; i < d->parts && !err; i++) {
        unsigned w = worker_index(d->workers[i]);

        sn->ctx[i] = (struct worker_ctx){
            .shared = shared, .doorbells = &shared->worker[w], .owner = sn, .slots = &sn->slots};
        err = worker_ctx_attach(d->workers[i], &sn->ctx[i]);
        if (!err)
            sn->by_worker[w] = &sn->ctx[i];
    }
    return err;
}

static void detach_from_workers(struct session *sn)
{
    struct device *d = sn->device;

    for (unsigned i = 0; i < d->parts; i++) {
        unsigned w = worker_index(d->workers[i]);

        if (sn->by_worker[w])
            worker_ctx_detach(d->workers[i], &sn->ctx[i]);
        sn->by_worker[w] = NULL;
    }
    /* Events that the workers reported of this context must not be found later. */
    notify_async(sn->rnic);
}

int ctx_open(struct session *sn, struct ctl_call *call)
{
    uint32_t index = call->request->open.device;
    int err;

    if (sn->device)
        return -EBUSY;
    if (index >= sn->rnic->devices)
        return -ENODEV;
    /* Another process may have the pid by now. */
    if (sn->process_ended)
        return -ESRCH;
    err = open_space(sn);
    if (err == -EINPROGRESS)
        return err;
    if (!err)
        err = open_shared(sn, call);
    if (!err) {
        mrs_report_heat(sn);
        sn->device = sn->rnic->device[index];
        sn->account.device = index;
        err = attach_to_workers(sn);
    }
    if (err) {
        ctx_close(sn);
        sn->device = NULL;
        return err;
    }
    call->reply.open.workers = sn->rnic->workers;
    call->reply.open.pid = (uint32_t)getpid();
    return 0;
}

static void close_space(struct session *sn)
{
    if (!sn->space)
        return;
    sn->rnic->config.mem->space_gone(sn->space);
    sn->rnic->config.mem->space_close(sn->space);
    sn->space = NULL;
}

static void close_segment(struct session *sn)
{
    struct quota_cost cost = context_cost(sn);

    if (!sn->segment.base)
        return;
    segment_end(sn, &sn->segment, &cost);
}

void ctx_close(struct session *sn)
{
    if (sn->device)
        detach_from_workers(sn);
    dp_slots_fini(&sn->slots);
    free(sn->free_slot);
    sn->free_slot = NULL;
    sn->free_slots = sn->slots_made = 0;
    slab_pool_fini(&sn->slabs);
    close_segment(sn);
    if (sn->async_fd >= 0)
        close(sn->async_fd);
    sn->async_fd = -1;
    close_space(sn);
}
