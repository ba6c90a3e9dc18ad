/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CTL_SHOW: writes the daemon's state, or unusual events, as JSON into a memfd, in slices of the
 * control thread's time. Only a few objects are in memory as JSON at a time, and the user pays for
 * the file while it grows.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/errand.h"
#include "control/session_state.h"
#include "show/show.h"
#include "show/show_write.h"
#include "show/shown.h"

struct show_job {
    struct event_job job;
    LIST_ENTRY(show_job) link; /* of those that run: in the rnic's list */
    struct session *sn;        /* that asked */
    struct show_write write;
    bool done;
};

/* A process with many connections gets no more of the control thread's time than another. */
static bool process_waits(const struct session *sn)
{
    const struct show_job *j;

    LIST_FOREACH(j, &sn->rnic->shows, link)
    if (j->sn->peer.pid == sn->peer.pid && j->sn->peer.uid == sn->peer.uid)
        return true;
    return false;
}

static bool run_show(struct event_job *job)
{
    struct show_job *j = container_of(job, struct show_job, job);
    struct rnic *r = j->sn->rnic;
    struct slice s = slice_begin();

    do {
        if (!show_write_some(&j->write)) {
            j->done = true;
            LIST_REMOVE(j, link);
            rnic_retry_later(r);
            return false;
        }
    } while (!slice_over(&s));
    return true;
}

static char *text_of(struct rnic *r, uid_t viewer, uint32_t what)
{
    struct show_write w = {.rnic = r};
    char *text;

    show_out_init(&w.out, -1, NULL);
    show_write_begin(&w, r, viewer, what);
    while (show_write_some(&w)) {
    }
    show_write_end(&w);
    text = show_out_text(&w.out);
    show_out_fini(&w.out);
    return text;
}

char *rnic_show(struct rnic *r, uid_t viewer)
{
    return text_of(r, viewer, CTL_SHOW_ALL);
}

char *rnic_incidents(struct rnic *r, uid_t viewer)
{
    bool any = false;

    for (unsigned i = 0; i < r->devices; i++) {
        const struct device *d = r->device[i];

        any |= atomic_load(&d->calls.count) != 0;
        for (unsigned part = 0; part < d->parts; part++)
            any |= atomic_load(&engine_incidents(d->port[part]->engine)->count) != 0;
    }
    return any ? text_of(r, viewer, CTL_SHOW_INCIDENTS) : NULL;
}

/* ---- requests ---- */

static int job_create(struct session *sn, uint32_t what, struct show_job **out)
{
    struct quota_cost cost = shown_cost(sn, 1, 0);
    struct show_job *j;
    int fd, err = quota_charge(&sn->account, &cost);

    if (err)
        return err;
    j = calloc(1, sizeof(*j));
    fd = j ? memfd_create("uroce-show", MFD_CLOEXEC) : -1;
    if (fd < 0) {
        err = j ? -errno : -ENOMEM;
        quota_uncharge(&sn->account, &cost);
        free(j);
        return err;
    }
    j->sn = sn;
    j->job.run = run_show;
    show_out_init(&j->write.out, fd, sn);
    show_write_begin(&j->write, sn->rnic, sn->peer.uid, what);
    *out = j;
    return 0;
}

/* The file may be large, and the application does not have it: it is freed with its descriptor. */
static void close_file(struct show_job *j)
{
    struct quota_cost cost = shown_cost(j->sn, 1, j->write.out.charged);
    struct quota_account account;

    quota_move(&j->sn->account, &cost, &account);
    errands_close_own(j->sn->rnic->errands, j->write.out.fd, &account);
}

/* has_file: it was not given to the session. */
static void job_free(struct show_job *j, bool has_file)
{
    show_write_end(&j->write);
    show_out_fini(&j->write.out);
    if (has_file)
        close_file(j);
    free(j);
}

void show_cancel(struct session *sn)
{
    struct show_job *j = sn->show;

    sn->show = NULL;
    if (!j)
        return;
    if (!j->done) {
        event_loop_stop(sn->rnic->config.loop, &j->job);
        LIST_REMOVE(j, link);
        rnic_retry_later(sn->rnic); /* another connection of the process may wait for it */
    }
    job_free(j, true);
}

/* In slices, or at once for a caller that cannot be asked again. */
static int begin_request(struct session *sn, uint32_t what)
{
    struct rnic *r = sn->rnic;
    bool sliced = r->config.loop && r->retry;
    int err;

    if (sliced && process_waits(sn))
        return -EINPROGRESS;
    shown_end(sn);
    err = job_create(sn, what, &sn->show);
    if (err)
        return err;
    if (sliced) {
        LIST_INSERT_HEAD(&r->shows, sn->show, link);
        event_loop_start(r->config.loop, &sn->show->job);
        return -EINPROGRESS;
    }
    while (show_write_some(&sn->show->write)) {
    }
    sn->show->done = true;
    return 0;
}

int show(struct session *sn, struct ctl_call *call)
{
    uint32_t what = call->request->show.what;
    struct show_job *j;
    int err;

    if (what > CTL_SHOW_INCIDENTS)
        return -EINVAL;
    err = sn->show ? 0 : begin_request(sn, what);
    if (err)
        return err;
    j = sn->show;
    if (!j->done)
        return -EINPROGRESS;
    err = j->write.out.err;
    if (!err)
        err = shown_answer(sn, j->write.out.fd, j->write.out.written, call);
    sn->show = NULL;
    job_free(j, err);
    return err;
}
