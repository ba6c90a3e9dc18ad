/* SPDX-License-Identifier: BSD-3-Clause */
/* Two programs' connections by the daemon's manager, over the loopback port's wire. */
#ifndef UROCE_TEST_SIDES_H
#define UROCE_TEST_SIDES_H

#include "cm/cm_object.h"
#include "device_kit.h"

#define SIDES_PORT 7471

struct side {
    struct session *sn;
    uint32_t channel;
    int fd;
};

struct sides {
    struct event_loop *loop;
    struct rnic *r;
    struct side a, b;
};

void side_open_of(struct sides *t, struct side *s, uid_t uid);
void side_open(struct sides *t, struct side *s);
void side_close(struct side *s);
int sides_setup(void **state);
int sides_teardown(void **state);
/* Until nothing moves. */
void sides_run(struct sides *t);
/* Whether an event is in its channel's socket. */
bool side_has_event(const struct side *s);
/* The next event, which must be of this type. */
struct ctl_cm_event side_event(const struct side *s, uint32_t type);
/* The same, with all that the program's library gets. */
struct ctl_cm_told side_told(const struct side *s, uint32_t type);
void side_no_event(const struct side *s);
uint32_t side_make_id(const struct side *s, uint32_t ps, uint64_t cookie);
struct ctl_cm_addr side_address(const char *text, uint16_t number);
int side_bind(const struct side *s, uint32_t id, struct ctl_cm_addr a, struct ctl_cm_info *info);
uint32_t side_listener(const struct side *s, uint32_t ps, const char *text, uint32_t backlog);
/* To its route. */
uint32_t side_resolved(struct sides *t, const struct side *s, uint32_t ps, const char *text);
int side_call(const struct side *s, enum ctl_type type, uint32_t id, uint32_t qpn,
              const char *private);
struct ctl_cm_qp_attr side_qp_attr(const struct side *s, uint32_t id, uint32_t state, int status);
struct ctl_cm_info side_query(const struct side *s, uint32_t id);
/* Returns how many events of the id were sent. */
unsigned side_destroy(const struct side *s, uint32_t id);
/* b's listener gets a's request. */
struct ctl_cm_event side_requested(struct sides *t, uint32_t id);

#endif
