/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks over sessions and over all objects of a kind, which go on after other work of the control
 * thread has created or destroyed some.
 */
#ifndef UROCE_DEVICE_WALK_H
#define UROCE_DEVICE_WALK_H

#include "objects/object.h"

struct rnic;

struct walk {
    LIST_ENTRY(walk) link; /* among the rnic's, until walk_end */
    enum object_kind kind; /* OBJ_KINDS: sessions */
    struct session *sn;    /* the next object's, or the next session */
    struct object *next;
};

void walk_begin(struct walk *w, struct rnic *r, enum object_kind kind);
void walk_end(struct walk *w);

/* The next object; NULL: there is none. */
struct object *walk_next(struct walk *w);
/* The next session. */
struct session *walk_next_session(struct walk *w);
/* Leaves out the other objects of this one's session. */
void walk_skip_session(struct walk *w);

/* Before an object, or a session, is removed. */
void walks_pass_object(struct rnic *r, const struct object *o);
void walks_pass_session(struct rnic *r, const struct session *sn);

#endif
