/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules that make packets and calls go wrong on purpose, and the message that changes them. */
#ifndef UROCE_DEVICE_FAULT_RULES_H
#define UROCE_DEVICE_FAULT_RULES_H

#include "control/device_state.h"
#include "port_inject.h"

struct ctl_call;

struct fault_rule {
    TAILQ_ENTRY(fault_rule) link;
    unsigned number;
    int device; /* index; -1: all */
    char text[INJECT_TEXT_MAX];
    struct inject_live live;
};

/* CTL_FAULT. */
int fault_rules_call(struct session *sn, struct ctl_call *call);
/* Whether a rule lets a request fail: 0 or a negative errno. Once for each request. */
int fault_verbs_check(struct session *sn, const struct ctl_msg *m);
/* Whether there is a rule for calls that the session's program has to ask about: CTL_JUDGE. */
bool fault_verbs_asked(const struct session *sn);
/* ---- fault_link.c: links that rules take down ---- */

/* 0 or a negative errno. */
int fault_link_open(struct rnic *r);
/* Also of an rnic that was not opened. */
void fault_link_close(struct rnic *r);
/* After each change of the rules: the ports' states follow. */
void fault_link_follow(struct rnic *r);

/* No port has a rule any more. */
void fault_rules_free(struct rnic *r);

#endif
