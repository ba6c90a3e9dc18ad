/* SPDX-License-Identifier: BSD-3-Clause */
/* See show_write.h. Names are stable, as programs read them. */
#include "show/show_write.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "control/session_state.h"
#include "device_host.h"
#include "incident.h"
#include "objects/qp_object.h"
#include "trace.h"
#include "trust.h"

/* Regions of a client that are listed; more are only counted. */
#define MRS_LISTED 4096

#define NO_WALK  (OBJ_KINDS + 1)
#define SESSIONS OBJ_KINDS

struct show_part {
    const char *name;
    bool (*some)(struct show_write *w); /* a few items; false: there are no more */
    bool is_list;                       /* or members of the answer, whatever the name is */
    enum object_kind kind;              /* what `some` walks through */
    void (*show)(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
};

/* ---- the daemon ---- */

static bool write_daemon(struct show_write *w)
{
    show_out_members(&w->out, show_daemon(w->rnic));
    return false;
}

static bool write_cm(struct show_write *w)
{
    show_out_members(&w->out, json_pack("{s:o}", "cm", show_cm(w->rnic)));
    return false;
}

static bool write_worker(struct show_write *w)
{
    if (w->from == w->rnic->workers)
        return false;
    show_out_item(&w->out, show_worker(w->rnic->worker[w->from++]));
    return true;
}

static bool write_quotas(struct show_write *w)
{
    json_t *rows = show_user_quotas(&w->viewer, w->rnic, w->from++), *row;
    bool more = rows;
    size_t i;

    json_array_foreach(rows, i, row) show_out_item(&w->out, json_incref(row));
    json_decref(rows);
    return more;
}

static bool write_late(struct show_write *w)
{
    json_t *rows = show_late(&w->viewer, w->rnic, w->from++), *row;
    bool more = rows;
    size_t i;

    json_array_foreach(rows, i, row) show_out_item(&w->out, json_incref(row));
    json_decref(rows);
    return more;
}

static bool write_faults(struct show_write *w)
{
    json_t *rule = show_fault(w->rnic, w->from++);

    if (rule)
        show_out_item(&w->out, rule);
    return rule;
}

/* ---- devices ---- */

static const struct {
    const char *name;
    json_t *(*show)(const struct device *d, unsigned from);
} port_lists[] = {{"gids", show_gids},
                  {"neighbours", show_neighbours},
                  {"routes", show_routes},
                  {"groups", show_groups},
                  {"path_mtus", show_path_mtus}};

static void begin_device(struct show_write *w, const struct device *d)
{
    json_t *members = json_pack("{s:s}", "name", d->name);

    show_out_object(&w->out, NULL);
    show_mr_counts(members, d);
    show_out_members(&w->out, members);
    show_out_list(&w->out, "ports");
    show_out_object(&w->out, NULL);
    show_out_members(&w->out, show_port(d));
}

static void end_device(struct show_write *w)
{
    show_out_object_end(&w->out);
    show_out_list_end(&w->out);
    show_out_object_end(&w->out);
    w->device++;
    w->list = 0;
}

/* False: the list has no more. */
static bool write_port_list(struct show_write *w, const struct device *d)
{
    json_t *items = port_lists[w->list].show(d, w->from), *item;
    size_t i, n = json_array_size(items);

    if (!items)
        w->out.err = -ENOMEM;
    json_array_foreach(items, i, item) show_out_item(&w->out, json_incref(item));
    json_decref(items);
    w->from += (unsigned)n;
    return n;
}

static bool write_device(struct show_write *w)
{
    const struct device *d;

    if (w->device == w->rnic->devices)
        return false;
    d = w->rnic->device[w->device];
    if (!w->list && !w->from)
        begin_device(w, d);
    if (w->list == w->lists) {
        end_device(w);
        return true;
    }
    if (!w->from)
        show_out_list(&w->out, port_lists[w->list].name);
    if (write_port_list(w, d))
        return true;
    show_out_list_end(&w->out);
    w->from = 0;
    if (++w->list == w->lists)
        end_device(w);
    return true;
}

/* ---- clients and their objects ---- */

static bool write_client(struct show_write *w)
{
    struct session *sn = walk_next_session(&w->walk);

    if (sn && viewer_sees(&w->viewer, sn))
        show_out_item(&w->out, show_session(sn));
    return sn;
}

/* What the viewer does not see: numbers alone. */
static bool write_others(struct show_write *w)
{
    static const enum object_kind kind[] = {OBJ_PD, OBJ_MR,      OBJ_CQ,   OBJ_SRQ,  OBJ_QP,
                                            OBJ_WQ, OBJ_RWQ_IND, OBJ_FLOW, OBJ_CM_ID};
    static const char *const name[] = {"pds", "mrs",        "cqs",   "srqs",  "qps",
                                       "wqs", "rwq_tables", "flows", "cm_ids"};
    struct session *sn = w->viewer.all ? NULL : walk_next_session(&w->walk);
    json_t *o;

    if (sn) {
        if (viewer_sees(&w->viewer, sn))
            return true;
        w->others[SESSIONS]++;
        for (unsigned k = 0; k < OBJ_KINDS; k++)
            w->others[k] += sn->count[k];
        return true;
    }
    if (w->viewer.all)
        return false;
    o = json_object();
    json_object_set_new(o, "clients", show_number(w->others[SESSIONS]));
    for (unsigned i = 0; i < ARRAY_SIZE(kind); i++)
        json_object_set_new(o, name[i], show_number(w->others[kind[i]]));
    show_out_members(&w->out, json_pack("{s:o}", "others", o));
    return false;
}

/* Whether the object's session has fewer regions in the list than it may have. */
static bool is_listed(struct show_write *w, const struct object *o)
{
    if (o->kind != OBJ_MR)
        return true;
    if (o->session != w->counted)
        w->listed = 0;
    w->counted = o->session;
    return w->listed++ < MRS_LISTED;
}

/* The next objects, all of one session, that the viewer may see. */
static unsigned take_objects(struct show_write *w, struct object *o[SHOW_BATCH])
{
    unsigned n = 0;

    while (n < SHOW_BATCH && (!n || (w->walk.next && w->walk.sn == o[0]->session)) &&
           (o[n] = walk_next(&w->walk))) {
        if (viewer_sees(&w->viewer, o[n]->session) && is_listed(w, o[n]))
            n++;
        else
            walk_skip_session(&w->walk);
    }
    return n;
}

static bool write_objects(struct show_write *w)
{
    struct object *o[SHOW_BATCH];
    json_t *item[SHOW_BATCH];
    unsigned n = take_objects(w, o);

    if (n)
        w->part->show(&w->viewer, o, n, item);
    for (unsigned i = 0; i < n; i++)
        show_out_item(&w->out, item[i]);
    return n;
}

static bool write_now(struct show_write *w)
{
    show_out_members(&w->out, json_pack("{s:I, s:I}", "now_ns", (json_int_t)w->rnic->config.clock(),
                                        "time_s", (json_int_t)time(NULL)));
    return false;
}

/* ---- rings of records ---- */

/* The device whose ring is next: there is one of each engine, and `more` of the device itself.
 * NULL: there is no other ring. */
static const struct device *next_ring(struct show_write *w, unsigned more)
{
    while (w->device < w->rnic->devices && w->list == w->rnic->device[w->device]->parts + more) {
        w->device++;
        w->list = 0;
    }
    return w->device < w->rnic->devices ? w->rnic->device[w->device] : NULL;
}

/* Room for the copy of a ring, until show_write_end: what there is already, or else new. */
static void *room_for(struct show_write *w, void *room, size_t bytes)
{
    if (!room)
        room = malloc(bytes);
    if (!room)
        w->out.err = -ENOMEM;
    return room;
}

/* ---- the trace ---- */

/* False: there is no other engine. */
static bool read_engine(struct show_write *w)
{
    const struct device *d = next_ring(w, 0);

    w->record = room_for(w, w->record, TRACE_RECORDS * sizeof(*w->record));
    if (!d || !w->record)
        return false;
    w->records = trace_read(engine_trace(d->port[w->list]->engine), w->record);
    w->from = 0;
    return true;
}

static bool write_trace(struct show_write *w)
{
    const struct device *d;
    unsigned end;

    if (!w->from && !read_engine(w))
        return false;
    d = w->rnic->device[w->device];
    for (end = min_of(w->from + SHOW_BATCH, w->records); w->from < end; w->from++) {
        const struct trace_record *r = &w->record[w->from];

        if (w->viewer.all || show_sees_qp(&w->viewer, d, r->qpn))
            show_out_item(&w->out, show_record(&w->viewer, d, w->list, r));
        else
            w->hidden++;
    }
    if (w->from == w->records) {
        w->from = 0;
        w->list++;
    }
    return true;
}

/* ---- incidents ---- */

/* The rings of a device: its engines', and that of calls. False: there is no other one. */
static bool read_incidents(struct show_write *w)
{
    const struct device *d = next_ring(w, 1);

    w->incident = room_for(w, w->incident, INCIDENTS * sizeof(*w->incident));
    if (!d || !w->incident)
        return false;
    w->records = incident_read(
        w->list < d->parts ? engine_incidents(d->port[w->list]->engine) : &d->calls, w->incident);
    w->from = 0;
    return true;
}

static bool write_incidents(struct show_write *w)
{
    unsigned end;

    if (!w->from && !read_incidents(w))
        return false;
    for (end = min_of(w->from + SHOW_BATCH, w->records); w->from < end; w->from++)
        if (show_sees_incident(&w->viewer, &w->incident[w->from]))
            show_out_item(&w->out,
                          show_incident(w->rnic->device[w->device], &w->incident[w->from]));
    if (w->from == w->records) {
        w->from = 0;
        w->list++;
    }
    return true;
}

static bool write_hidden(struct show_write *w)
{
    if (!w->viewer.all)
        show_out_members(&w->out, json_pack("{s:o}", "hidden", show_number(w->hidden)));
    return false;
}

static bool write_latency(struct show_write *w)
{
    json_t *row;

    for (unsigned i = 0; i < w->rnic->devices; i++)
        for (unsigned stage = 0; stage < LATENCY_STAGES; stage++) {
            row = show_latency(w->rnic->device[i], stage);
            if (row)
                show_out_item(&w->out, row);
        }
    return false;
}

/* ---- sums ---- */

/* Few instructions for each, and no JSON. */
#define SUMMED_BATCH (16 * SHOW_BATCH)

/* The queue pairs that are gone come first, so that one that ends while this goes on counts once at
 * most. */
static bool write_totals(struct show_write *w)
{
    const struct object *o = NULL;

    for (; w->from < w->rnic->devices; w->from++)
        w->totals[w->from] = w->rnic->device[w->from]->past_qps;
    for (unsigned n = 0; n < SUMMED_BATCH && (o = walk_next(&w->walk)); n++)
        qp_totals_add(&w->totals[o->session->device->index],
                      container_of(o, struct qp_object, o)->dp.qp);
    if (o)
        return true;
    for (unsigned i = 0; i < w->rnic->devices; i++)
        show_out_item(&w->out, qp_totals_show(&w->totals[i]));
    return false;
}

/* ---- the parts of an answer ---- */

static const struct show_part state_parts[] = {
    {"daemon", write_daemon, false, NO_WALK, NULL},
    {"devices", write_device, true, NO_WALK, NULL},
    {"workers", write_worker, true, NO_WALK, NULL},
    {"quotas", write_quotas, true, NO_WALK, NULL},
    {"late", write_late, true, NO_WALK, NULL},
    {"latency", write_latency, true, NO_WALK, NULL},
    {"faults", write_faults, true, NO_WALK, NULL},
    {"others", write_others, false, SESSIONS, NULL},
    {"clients", write_client, true, SESSIONS, NULL},
    {"pds", write_objects, true, OBJ_PD, show_pds},
    {"mrs", write_objects, true, OBJ_MR, show_mrs},
    {"cqs", write_objects, true, OBJ_CQ, show_cqs},
    {"srqs", write_objects, true, OBJ_SRQ, show_srqs},
    {"qps", write_objects, true, OBJ_QP, show_qps},
    {"wqs", write_objects, true, OBJ_WQ, show_wqs},
    {"rwq_tables", write_objects, true, OBJ_RWQ_IND, show_tables},
    {"flows", write_objects, true, OBJ_FLOW, show_flows},
    {"cm", write_cm, false, NO_WALK, NULL},
    {"cm_ids", write_objects, true, OBJ_CM_ID, show_cm_ids},
    {NULL, NULL, false, NO_WALK, NULL}};

static const struct show_part trace_parts[] = {{"now", write_now, false, NO_WALK, NULL},
                                               {"trace", write_trace, true, NO_WALK, NULL},
                                               {"hidden", write_hidden, false, NO_WALK, NULL},
                                               {NULL, NULL, false, NO_WALK, NULL}};

static const struct show_part incident_parts[] = {
    {"now", write_now, false, NO_WALK, NULL},
    {"incidents", write_incidents, true, NO_WALK, NULL},
    {"trace", write_trace, true, NO_WALK, NULL},
    {"faults", write_faults, true, NO_WALK, NULL},
    {NULL, NULL, false, NO_WALK, NULL}};

static const struct show_part port_parts[] = {{"devices", write_device, true, NO_WALK, NULL},
                                              {"totals", write_totals, true, OBJ_QP, NULL},
                                              {NULL, NULL, false, NO_WALK, NULL}};

/* The answer's size depends on ports, workers and users, and not on the number of objects. */
static const struct show_part metric_parts[] = {{"daemon", write_daemon, false, NO_WALK, NULL},
                                                {"devices", write_device, true, NO_WALK, NULL},
                                                {"totals", write_totals, true, OBJ_QP, NULL},
                                                {"workers", write_worker, true, NO_WALK, NULL},
                                                {"quotas", write_quotas, true, NO_WALK, NULL},
                                                {"late", write_late, true, NO_WALK, NULL},
                                                {"cm", write_cm, false, NO_WALK, NULL},
                                                {"latency", write_latency, true, NO_WALK, NULL},
                                                {NULL, NULL, false, NO_WALK, NULL}};

static const struct show_part *const answers[] = {[CTL_SHOW_ALL] = state_parts,
                                                  [CTL_SHOW_TRACE] = trace_parts,
                                                  [CTL_SHOW_PORTS] = port_parts,
                                                  [CTL_SHOW_METRICS] = metric_parts,
                                                  [CTL_SHOW_INCIDENTS] = incident_parts};

/* How many of a port's lists an answer has; GIDs are the first. */
static const unsigned lists[] = {[CTL_SHOW_ALL] = ARRAY_SIZE(port_lists),
                                 [CTL_SHOW_PORTS] = 1,
                                 [CTL_SHOW_METRICS] = 0,
                                 [CTL_SHOW_INCIDENTS] = 0};

static void begin_part(struct show_write *w)
{
    if (w->part->is_list)
        show_out_list(&w->out, w->part->name);
    w->device = w->list = w->from = 0;
    w->is_walking = w->part->kind != NO_WALK;
    if (w->is_walking)
        walk_begin(&w->walk, w->rnic, w->part->kind);
}

static void end_walk(struct show_write *w)
{
    if (w->is_walking)
        walk_end(&w->walk);
    w->is_walking = false;
}

void show_write_begin(struct show_write *w, struct rnic *r, uid_t viewer, uint32_t what)
{
    w->rnic = r;
    w->viewer = (struct viewer){.uid = viewer, .all = trust_user(viewer)};
    w->part = answers[what];
    w->lists = lists[what];
    show_out_object(&w->out, NULL);
    begin_part(w);
}

bool show_write_some(struct show_write *w)
{
    if (w->out.err)
        return false;
    if (w->part->some(w))
        return true;
    end_walk(w);
    if (w->part->is_list)
        show_out_list_end(&w->out);
    if ((++w->part)->name) {
        begin_part(w);
        return true;
    }
    show_out_object_end(&w->out);
    show_out_finish(&w->out);
    return false;
}

void show_write_end(struct show_write *w)
{
    end_walk(w);
    free(w->record);
    free(w->incident);
    w->record = NULL;
    w->incident = NULL;
}
