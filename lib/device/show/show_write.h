/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes an answer of CTL_SHOW part by part, between which objects may come and go. */
#ifndef UROCE_DEVICE_SHOW_WRITE_H
#define UROCE_DEVICE_SHOW_WRITE_H

#include "control/device_state.h"
#include "objects/walk.h"
#include "show/show.h"
#include "show/show_out.h"

struct show_part;
struct trace_record;

struct show_write {
    struct rnic *rnic;
    struct viewer viewer;
    struct show_out out;
    const struct show_part
        *part;        /* the present one, which has begun; its name NULL: all is written */
    struct walk walk; /* through a part's objects or sessions */
    bool is_walking;
    unsigned device, list, from; /* of parts that are about ports */
    struct session *counted;     /* whose regions were listed last, and */
    unsigned listed;             /* how many */
    uint64_t others[OBJ_KINDS + 1];
    struct trace_record *record; /* of an engine */
    struct incident *incident;   /* of one, or of a device's calls */
    unsigned records;
    uint64_t hidden;
    unsigned lists; /* of a port, that are written */
    struct qp_totals totals[RNIC_DEVICES_MAX];
};

/* what: enum ctl_show_what. w->out is initialised. */
void show_write_begin(struct show_write *w, struct rnic *r, uid_t viewer, uint32_t what);
/* Writes for some ten microseconds. False: all is written, or w->out.err is set. */
bool show_write_some(struct show_write *w);
/* Ends it, also before all is written. w->out stays. */
void show_write_end(struct show_write *w);

#endif
