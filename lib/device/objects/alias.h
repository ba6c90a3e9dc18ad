/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects that stand for one of another session: see import.h. */
#ifndef UROCE_DEVICE_ALIAS_H
#define UROCE_DEVICE_ALIAS_H

#include "objects/object.h"

/* Part of a protection domain and of device memory. */
struct alias {
    struct object *of; /* NULL: it is an original */
    bool unimported;   /* it ends when it is not used any more */
};

/* An alias ends: its original is not used by it any more. */
void alias_end(struct alias *a);
/* Before an original of sn is destroyed: calls end_unused for all objects of the kind in sessions
 * that have joined sn. It may destroy the object. */
void aliases_sweep(struct session *sn, enum object_kind kind, void (*end_unused)(struct object *o));

#endif
