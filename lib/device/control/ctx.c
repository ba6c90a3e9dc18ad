/* SPDX-License-Identifier: BSD-3-Clause */
/* CTL_OPEN: a connection becomes a context of a device. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/session_state.h"
#include "control/watch_call.h"
#include "objects/pd_mr.h"
#include "objects/segment_end.h"

/* An errand: the kernel keeps those that look at a process waiting while the process executes a
 * program, which closes descriptors first. */
static void run_open_space(struct session *sn)
{
    sn->away.err = 0;
    sn->away.space = sn->rnic->config.mem->space_open(&sn->peer, &sn->away.copy, &sn->away.err);
}

/* From the errand, which has ended, or never was. */
static void take_space(struct session *sn)
{
    if (!sn->away.space)
        return;
    sn->space = sn->away.space;
    sn->copy = sn->away.copy;
    sn->away.space = NULL;
}

/* Another process may have the pid before or after. */
int ctx_open_space(struct session *sn)
{
    int err = sn->away.state == AWAY_NOT && sn->process_ended ? -ESRCH
                                                              : session_errand(sn, run_open_space);

    if (err)
        return err;
    take_space(sn);
    if (sn->space && sn->process_ended)
        return -ESRCH;
    return sn->space ? 0 : sn->away.err;
}

/* The segment; the event socket, and what is in it unread; the process's memory; and the eventfds,
 * by which the application wakes workers. */
static struct quota_cost context_cost(const struct session *sn)
{
    return (struct quota_cost){
        {[QUOTA_MAPPING] = 1,
         [QUOTA_DESCRIPTOR] = 2 + sn->rnic->workers,
         [QUOTA_MEMORY] = ctx_segment_bytes(sn->rnic->workers) + SOCKET_MEMORY}};
}

/* For CTL_JOIN. */
static int make_join_key(struct session *sn)
{
    struct ctx_shared *shared = sn->segment.base;
    int err = random_bytes(sn->join_key, sizeof(sn->join_key));

    if (!err)
        memcpy(shared->join_key, sn->join_key, sizeof(sn->join_key));
    return err;
}

/* The first two descriptors of the reply: context segment, the application's end of the event
 * socket. The daemon's end accepts nothing: what it does not read could carry descriptors, which
 * its close would close. */
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
    err = make_join_key(sn);
    if (err)
        return err;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -errno;
    shutdown(pair[0], SHUT_RD);
    sn->async_fd = pair[0];
    async_open(sn);
    call->out_fd[1] = pair[1];
    call->out_fds = 2;
    return 0;
}

_Static_assert(CTL_MAX_FDS == 2 + CTX_WORKERS_MAX && WORKERS_MAX <= CTX_WORKERS_MAX,
               "a reply holds an eventfd for each worker");

/* The others: the eventfds, in the order of the workers. */
static int pass_wakes(struct session *sn, struct ctl_call *call)
{
    for (unsigned w = 0; w < sn->rnic->workers; w++) {
        const struct worker_ctx *ctx = sn->by_worker[w];
        int fd;

        if (!ctx)
            continue;
        fd = fcntl(ctx->wake_fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return -errno;
        call->out_fd[call->out_fds++] = fd;
        call->reply.open.wakes |= 1u << w;
    }
    return 0;
}

static int attach_to_workers(struct session *sn)
{
    struct ctx_shared *shared = sn->segment.base;
    struct device *d = sn->device;
    /* Queue pairs of either session may use the other one's regions. */
    _Atomic uint32_t *faults = &(sn->joined ? sn->joined : sn)->slots.faults;
    int err = 0;

    sn->program = program_get(d, &sn->peer);
    if (!sn->program)
        return -ENOMEM;
    for (unsigned i = 0; i < d->parts && !err; i++) {
        unsigned w = worker_index(d->workers[i]);

        sn->ctx[i] = (struct worker_ctx){.shared = shared,
                                         .doorbells = &shared->worker[w],
                                         .share = &sn->program->share[w * share_count(&d->classes)],
                                         .owner = sn,
                                         .slots = &sn->slots,
                                         .faults = faults,
                                         .space = sn->space};
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
    if (sn->program)
        program_put(sn->program);
    sn->program = NULL;
}

/* In a secret order, as handles are: it does not tell how many contexts others have opened. */
static uint32_t next_number(struct device *d)
{
    return 1 + permute(&d->context_order, d->contexts_made++ % CONTEXT_NUMBERS);
}

int ctx_open_device(struct session *sn, struct ctl_call *call, uint32_t index)
{
    int err;

    if (sn->device)
        return -EBUSY;
    if (index >= sn->rnic->devices)
        return -ENODEV;
    err = ctx_open_space(sn);
    if (err == -EINPROGRESS)
        return err;
    if (!err)
        err = open_shared(sn, call);
    if (!err) {
        mrs_report_heat(sn);
        sn->device = sn->rnic->device[index];
        sn->account.device = index;
        sn->context = next_number(sn->device);
        call->reply.open.wakes = 0;
        err = attach_to_workers(sn);
    }
    if (!err)
        err = pass_wakes(sn, call);
    if (!err)
        watch_context(sn);
    if (err) {
        ctx_close(sn);
        sn->device = NULL;
        return err;
    }
    call->reply.open.workers = sn->rnic->workers;
    call->reply.open.pid = (uint32_t)getpid();
    return 0;
}

int ctx_open(struct session *sn, struct ctl_call *call)
{
    return ctx_open_device(sn, call, call->request->open.device);
}

void ctx_forget_space(struct session *sn)
{
    take_space(sn);
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
    slab_pool_fini(&sn->dm_slabs);
    close_segment(sn);
    async_close(sn);
    if (sn->async_fd >= 0)
        close(sn->async_fd);
    sn->async_fd = -1;
    ctx_forget_space(sn);
}
