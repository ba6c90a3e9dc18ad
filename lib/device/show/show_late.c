/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is waited for: applications whose memory, process or descriptors do not answer. */
#include "control/device_state.h"
#include "control/errand.h"
#include "show/show.h"

#define LATE_MAX 256 /* rows of a part */

static void add_row(json_t *rows, const char *what, int pid, json_int_t uid, ns_t since, ns_t now)
{
    json_t *row = json_object();

    json_object_set_new(row, "pid", json_integer(pid));
    json_object_set_new(row, "uid", json_integer(uid));
    json_object_set_new(row, "what", json_string(what));
    json_object_set_new(row, "ms", show_number((now - min_of(now, since)) / NS_PER_MS));
    json_array_append_new(rows, row);
}

static void add_errands(json_t *rows, const struct viewer *v, const struct rnic *r)
{
    struct late_errand late[LATE_MAX];
    unsigned n = errands_late(r->errands, late, LATE_MAX);
    ns_t now = worker_time();

    for (unsigned i = 0; i < n; i++) {
        bool own = late[i].pid < 0; /* the daemon's */

        if (v->all || (!own && late[i].uid == v->uid))
            add_row(rows, late[i].is_close ? "descriptor" : "process or memory", late[i].pid,
                    own ? -1 : (json_int_t)late[i].uid, late[i].since, now);
    }
}

struct copies {
    struct late_copy late[LATE_MAX];
    unsigned n;
};

static void read_copies(struct worker *w, void *arg)
{
    struct copies *c = arg;

    c->n = worker_late_copies(w, c->late, LATE_MAX);
}

static void add_copies(json_t *rows, const struct viewer *v, struct worker *w)
{
    struct copies c;
    ns_t now = worker_time();

    worker_call(w, read_copies, &c);
    for (unsigned i = 0; i < c.n; i++)
        if (v->all || (c.late[i].user >= 0 && (uid_t)c.late[i].user == v->uid))
            add_row(rows, "copied memory", c.late[i].pid, c.late[i].user, c.late[i].since, now);
}

json_t *show_late(const struct viewer *v, const struct rnic *r, unsigned part)
{
    json_t *rows;

    if (part > r->workers)
        return NULL;
    rows = json_array();
    if (part)
        add_copies(rows, v, r->worker[part - 1]);
    else
        add_errands(rows, v, r);
    return rows;
}
