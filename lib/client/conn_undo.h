/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies whose descriptors found no room in the process. The call fails, so what the daemon has
 * made for it must end: the application has no other name for it.
 */
#ifndef UROCE_CONN_UNDO_H
#define UROCE_CONN_UNDO_H

#include "ctl_msg.h"

enum conn_undo {
    CONN_UNDO_NOTHING, /* nothing was made, or it ends with the connection, which then ends */
    CONN_UNDO_ASK,     /* by the request in *m, whose type is *type */
    CONN_UNDO_NEVER,   /* the connection cannot go on */
};

/* What undoes the call with this reply. Pure. */
enum conn_undo conn_undo_request(const struct ctl_msg *reply, enum ctl_type *type,
                                 struct ctl_msg *m);

/* Whether the process may have one more descriptor, for a reply whose call cannot be undone: 0 or a
 * negative errno. Any thread; not a cancellation point. */
int conn_room(void);

#endif
