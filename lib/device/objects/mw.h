/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows. */
#ifndef UROCE_DEVICE_MW_H
#define UROCE_DEVICE_MW_H

#include "mem.h"
#include "objects/object.h"
#include "session.h"

struct mw {
    struct object o;
    struct pd *pd;
    struct mem_region window;
    bool closed; /* its key is invalid */
};

int mw_alloc(struct session *sn, struct ctl_call *call);
int mw_dealloc(struct session *sn, struct ctl_call *call);
bool mw_free_some(struct session *sn, const struct slice *s);

#endif
