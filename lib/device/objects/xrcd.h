/* SPDX-License-Identifier: BSD-3-Clause */
/* XRC domains. */
#ifndef UROCE_DEVICE_XRCD_H
#define UROCE_DEVICE_XRCD_H

#include <sys/types.h>

#include "objects/object.h"
#include "session.h"

/* Shared by all sessions that opened the same inode; a domain without a name has one session. */
struct xrc_domain {
    LIST_ENTRY(xrc_domain) link;
    uint32_t id, opens;
    int fd; /* of the file that names it, open as long as the domain exists; or -1 */
    dev_t dev;
    ino_t ino;
};

struct xrcd {
    struct object o;
    struct xrc_domain *domain;
};

int xrcd_open(struct session *sn, struct ctl_call *call);
int xrcd_close(struct session *sn, struct ctl_call *call);
bool xrcd_free_some(struct session *sn, const struct slice *s);

#endif
