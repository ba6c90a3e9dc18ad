/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles. */
#ifndef UROCE_DEVICE_AH_H
#define UROCE_DEVICE_AH_H

#include "engine.h"
#include "objects/object.h"
#include "session.h"

struct ah {
    struct object o;
    struct pd *pd;
    struct address_handle *handle;
    uint8_t end_tries; /* requests to destroy it that found datagrams for it waiting */
};

int ah_create(struct session *sn, struct ctl_call *call);
int ah_destroy(struct session *sn, struct ctl_call *call);
bool ah_free_some(struct session *sn, const struct slice *s);

#endif
