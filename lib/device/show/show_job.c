/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CTL_SHOW: writes the daemon's state as JSON into a memfd, in slices of the control thread's time.
 * Only a few objects are in memory as JSON at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/errand.h"
#include "control/permission.h"
#include "control/session_state.h"
#include "objects/walk.h"
#include "show/show.h"
#include "show/shown.h"

/* Regions of a client that are listed; more are only counted. */
#define MRS_LISTED 4096

static const struct section {
    const char *name;
    enum object_kind kind; /* OBJ_KINDS: sessions */
    void (*show)(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
} sections[] = {{"clients", OBJ_KINDS, NULL},
                {"mrs", OBJ_MR, show_mrs},
                {"qps", OBJ_QP, show_qps},
                {"wqs", OBJ_WQ, show_wqs},
                {"rwq_tables", OBJ_RWQ_IND, show_tables},
                {"flows", OBJ_FLOW, show_flows}};

struct show_job {
    struct event_job job;
    LIST_ENTRY(show_job) link; /* of those that run: in the rnic's list */
    struct session *sn;        /* that asked; NULL: rnic_show */
    struct rnic *rnic;
    struct viewer viewer;
    FILE *out;
    unsigned section;
    struct walk walk;        /* through the section's objects */
    bool is_first;           /* of the section */
    struct session *counted; /* whose regions were listed last, and */
    unsigned listed;         /* how many */
    bool done;
    int err;
};

/* ---- writing ---- */

static void write_item(struct show_job *j, json_t *item)
{
    fputs(j->is_first ? "\n  " : ",\n  ", j->out);
    j->is_first = false;
    if (json_dumpf(item, j->out, JSON_PRESERVE_ORDER))
        j->err = -ENOMEM;
    json_decref(item);
}

static void begin_section(struct show_job *j)
{
    fprintf(j->out, ",\n \"%s\": [", sections[j->section].name);
    j->is_first = true;
    walk_begin(&j->walk, j->rnic, sections[j->section].kind);
}

static void begin(struct show_job *j)
{
    json_t *root = show_daemon(&j->viewer, j->rnic);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    size_t len = text ? strlen(text) : 0;

    json_decref(root);
    if (len > 2) /* without the end of the object */
        fwrite(text, 1, len - strlen("\n}"), j->out);
    else
        j->err = -ENOMEM;
    free(text);
    begin_section(j);
}

/* Whether the object's session has fewer regions in the list than it may have. */
static bool is_listed(struct show_job *j, const struct object *o)
{
    if (o->kind != OBJ_MR)
        return true;
    if (o->session != j->counted)
        j->listed = 0;
    j->counted = o->session;
    return j->listed++ < MRS_LISTED;
}

/* The next objects, all of one session, that the viewer may see. */
static unsigned take_objects(struct show_job *j, struct object *o[SHOW_BATCH])
{
    unsigned n = 0;

    while (n < SHOW_BATCH && (!n || (j->walk.next && j->walk.sn == o[0]->session)) &&
           (o[n] = walk_next(&j->walk))) {
        if (viewer_sees(&j->viewer, o[n]->session) && is_listed(j, o[n]))
            n++;
        else
            walk_skip_session(&j->walk);
    }
    return n;
}

/* False: the section has no more. */
static bool write_some(struct show_job *j)
{
    const struct section *s = &sections[j->section];
    struct object *o[SHOW_BATCH];
    json_t *item[SHOW_BATCH];
    unsigned n;

    if (s->kind == OBJ_KINDS) {
        struct session *sn = walk_next_session(&j->walk);

        if (sn && viewer_sees(&j->viewer, sn))
            write_item(j, show_session(sn));
        return sn;
    }
    n = take_objects(j, o);
    if (n)
        s->show(&j->viewer, o, n, item);
    for (unsigned i = 0; i < n; i++)
        write_item(j, item[i]);
    return n;
}

/* False: all is written. */
static bool write_next(struct show_job *j)
{
    if (!j->err && write_some(j))
        return true;
    walk_end(&j->walk);
    fputs(j->is_first ? "]" : "\n ]", j->out);
    if (++j->section < ARRAY_SIZE(sections) && !j->err) {
        begin_section(j);
        return true;
    }
    fputs("\n}", j->out);
    if (fflush(j->out) || ferror(j->out))
        j->err = -ENOMEM;
    j->done = true;
    return false;
}

/* A process with many connections gets no more of the control thread's time than another. */
static bool process_waits(const struct session *sn)
{
    const struct show_job *j;

    LIST_FOREACH(j, &sn->rnic->shows, link)
    if (j->sn->peer.pid == sn->peer.pid)
        return true;
    return false;
}

static bool run_show(struct event_job *job)
{
    struct show_job *j = container_of(job, struct show_job, job);
    struct slice s = slice_begin();

    do {
        if (!write_next(j)) {
            LIST_REMOVE(j, link);
            if (j->rnic->retry)
                j->rnic->retry(j->rnic->retry_ctx);
            return false;
        }
    } while (!slice_over(&s));
    return true;
}

char *rnic_show(struct rnic *r, uid_t viewer)
{
    struct show_job j = {.rnic = r, .viewer = {.uid = viewer, .all = permission_user(viewer)}};
    char *text = NULL;
    size_t len;

    j.out = open_memstream(&text, &len);
    if (!j.out)
        return NULL;
    begin(&j);
    while (write_next(&j)) {
    }
    fclose(j.out);
    if (j.err) {
        free(text);
        text = NULL;
    }
    return text;
}

/* ---- requests ---- */

static int job_create(struct session *sn, struct show_job **out)
{
    struct show_job *j = calloc(1, sizeof(*j));
    int fd = j ? memfd_create("uroce-show", MFD_CLOEXEC) : -1;
    int err = !j ? -ENOMEM : fd < 0 ? -errno : 0;

    if (!err) {
        j->out = fdopen(fd, "w");
        err = j->out ? 0 : -ENOMEM;
    }
    if (err) {
        if (fd >= 0)
            close(fd);
        free(j);
        return err;
    }
    j->sn = sn;
    j->rnic = sn->rnic;
    j->viewer = (struct viewer){.uid = sn->peer.uid, .all = permission_user(sn->peer.uid)};
    j->job.run = run_show;
    *out = j;
    return 0;
}

/* The file may be large, and the application may not have it: it is freed with its last descriptor.
 */
static void job_free(struct show_job *j)
{
    int fd = fcntl(fileno(j->out), F_DUPFD_CLOEXEC, 0);

    fclose(j->out);
    if (fd >= 0)
        errands_close(j->rnic->errands, &j->sn->peer, fd);
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
        walk_end(&j->walk);
    }
    job_free(j);
}

/* In slices, or at once for a caller that cannot be asked again. */
static int begin_request(struct session *sn)
{
    struct rnic *r = sn->rnic;
    bool sliced = r->config.loop && r->retry;
    int err;

    if (sliced && process_waits(sn))
        return -EINPROGRESS;
    err = job_create(sn, &sn->show);
    if (err)
        return err;
    begin(sn->show);
    if (sliced) {
        LIST_INSERT_HEAD(&r->shows, sn->show, link);
        event_loop_start(r->config.loop, &sn->show->job);
        return -EINPROGRESS;
    }
    while (write_next(sn->show)) {
    }
    return 0;
}

static int show_state(struct session *sn, struct ctl_call *call)
{
    struct show_job *j = sn->show;
    int err = j ? 0 : begin_request(sn);

    if (err)
        return err;
    j = sn->show;
    if (!j->done)
        return -EINPROGRESS;
    err = j->err ? j->err : shown_answer(sn, j->out, call);
    sn->show = NULL;
    job_free(j);
    return err;
}

static int show_trace(struct session *sn, struct ctl_call *call)
{
    char *text = rnic_show_trace(sn->rnic, sn->peer.uid);
    int fd = text ? memfd_create("uroce-show", MFD_CLOEXEC) : -1;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    int err = -ENOMEM;

    if (f && fputs(text, f) >= 0 && !fflush(f))
        err = shown_answer(sn, f, call);
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    free(text);
    return err;
}

int show(struct session *sn, struct ctl_call *call)
{
    if (call->request->show.what > CTL_SHOW_TRACE)
        return -EINVAL;
    return call->request->show.what == CTL_SHOW_TRACE ? show_trace(sn, call) : show_state(sn, call);
}
