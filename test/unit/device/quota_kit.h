/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of quotas share: a device, clients of several users, and a maker for each kind of
 * object. */
#ifndef UROCE_QUOTA_KIT_H
#define UROCE_QUOTA_KIT_H

#include "unit.h"

#include <jansson.h>

#include "device_kit.h"
#include "device_private.h"

extern struct event_loop *loop;
extern struct rnic *rnic;

/* A client, and one object of each kind that others need. */
struct client {
    struct session *session;
    uint32_t pd, cq, qpn, raw_qpn, wq;
    bool raw;
};

struct maker {
    const char *name;
    enum quota_kind kind;
    int (*create)(struct client *c, uint32_t *handle);
    enum ctl_type destroy;
    bool raw; /* is for owners only */
};

#define QUOTA_MAKERS 16
extern const struct maker makers[QUOTA_MAKERS];

/* A request; m is the reply too. */
int call(struct client *c, enum ctl_type type, struct ctl_msg *m);
/* They set the handle; 0 or a negative errno. */
int create_pd(struct client *c, uint32_t *handle);
int create_mr(struct client *c, uint32_t *handle);
int create_qp_type(struct client *c, uint32_t type, uint32_t *qpn);
struct ctl_msg group_request(const struct client *c, uint32_t n);
int detach(struct client *c, uint32_t handle);
int destroy(struct client *c, const struct maker *maker, uint32_t handle);
/* Sessions and clients that have opened the device. */
struct session *connect_as(uid_t uid);
int open_device(struct session *sn);
void client_open(struct client *c, uid_t uid);
/* A user who does not own the device. */
uid_t alice(void);
/* Of a device without clients. */
void set_limits(const struct quota_limits *limits);
void assert_all_returned(void);
/* What a client has: all counts of its account. */
struct quota_cost used_by(const struct client *c);
/* The answer to `show`; the caller owns it. */
json_t *shown_to(uid_t uid);

/* Of each test: the device. */
int quota_setup(void **state);
int quota_teardown(void **state);

#endif
