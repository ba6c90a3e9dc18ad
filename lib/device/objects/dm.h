/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory: bytes of the daemon that an application has mapped, too; and the regions that are
 * not memory of the application. */
#ifndef UROCE_DEVICE_DM_H
#define UROCE_DEVICE_DM_H

#include "mem.h"
#include "objects/alias.h"
#include "objects/object.h"
#include "objects/segment.h"
#include "session.h"

struct dm {
    struct object o; /* refs: regions */
    struct alias alias;
    struct segment segment; /* of an original */
    uint8_t *base;          /* in it */
    uint64_t length;
};

/* Before the first is allocated. */
void dm_open(struct session *sn);
int dm_alloc(struct session *sn, struct ctl_call *call);
int dm_free(struct session *sn, struct ctl_call *call);
/* Ends an alias that was unimported, if nothing uses it. */
void dm_end_unused(struct object *o);
bool dm_free_some(struct session *sn, const struct slice *s);

/* The most that a session can have in one piece. */
uint64_t dm_max_size(const struct session *sn);

/*
 * How workers reach a region of CTL_MR_DEVICE_MEMORY, whose memory is then in *dm, or of
 * CTL_MR_NULL. 0 or a negative errno.
 */
int dm_reach(struct session *sn, const struct ctl_reg_mr *rq, struct mem_region *r, struct dm **dm);
int null_reach(const struct ctl_reg_mr *rq, struct mem_region *r);

#endif
