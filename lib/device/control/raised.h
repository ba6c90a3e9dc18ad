/* SPDX-License-Identifier: BSD-3-Clause */
/* What workers report of objects (dp_events.h): asynchronous events go to the applications that
 * have the object, misplaced queue pairs migrate. */
#ifndef UROCE_DEVICE_RAISED_H
#define UROCE_DEVICE_RAISED_H

#include <stdbool.h>

struct dp_events;
struct rnic;

/* Takes the events of at most n objects. Returns whether there are more. */
bool raised_take_some(struct rnic *r, unsigned n);
/* The object ends, and no worker finds it any more: nor does the control thread after this. */
void raised_forget(struct rnic *r, struct dp_events *e);

#endif
