/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules that make packets and calls go wrong on purpose: see fault_rules.h. */
#include "control/fault_rules.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/async.h"
#include "control/session_state.h"
#include "control/watch_call.h"
#include "objects/qp_open.h"
#include "port_judge.h"
#include "trust.h"

_Static_assert(CTL_FAULT_TEXT_MAX == INJECT_TEXT_MAX, "a message has room for a rule");
_Static_assert(CTL_FAULT_TEXT_MAX >= INJECT_ERROR_MAX, "and for what is wrong with it");

/* Those of the rules that are for a device, and of one of these kinds. Returns how many. */
static unsigned rules_for(struct rnic *r, const struct device *d, unsigned kinds,
                          struct inject_live *rule[INJECT_RULES_MAX])
{
    struct fault_rule *f;
    unsigned n = 0;

    TAILQ_FOREACH (f, &r->faults, link)
        if (inject_kind_of(f->live.rule.act) & kinds &&
            (f->device < 0 || (unsigned)f->device == d->index))
            rule[n++] = &f->live;
    return n;
}

/* The device's workers get the rules that are theirs to carry out. 0 or -ENOMEM. */
static int apply_to(struct rnic *r, const struct device *d)
{
    struct inject_live *packets[INJECT_RULES_MAX], *requests[INJECT_RULES_MAX];
    unsigned n = rules_for(r, d, INJECT_OF_PACKETS | INJECT_OF_LINKS, packets);
    unsigned m = rules_for(r, d, INJECT_OF_REQUESTS, requests);
    int err = 0;

    for (unsigned i = 0; i < d->parts && !err; i++) {
        err = port_inject_set(d->port[i], packets, n);
        if (!err)
            err = port_judge_set(d->port[i], requests, m);
    }
    return err;
}

/* After a failure some workers have the newest rule. */
static int apply(struct rnic *r)
{
    int err = 0;

    for (unsigned i = 0; i < r->devices && !err; i++)
        err = apply_to(r, r->device[i]);
    return err;
}

/* Parts that have the remaining rules have memory for them. */
static void remove_rule(struct rnic *r, struct fault_rule *f)
{
    TAILQ_REMOVE(&r->faults, f, link);
    r->fault_count--;
    for (unsigned i = 0; i < r->devices; i++)
        apply_to(r, r->device[i]);
    free(f);
    fault_link_follow(r);
    watch_follow(r);
}

static int find_device(const struct rnic *r, const char *name)
{
    for (unsigned i = 0; i < r->devices; i++)
        if (!strcmp(r->device[i]->name, name))
            return (int)i;
    return -EINVAL;
}

static int refuse(char error[INJECT_ERROR_MAX], int err, const char *why)
{
    snprintf(error, INJECT_ERROR_MAX, "%s", why);
    return err;
}

/* The device that a rule names: *device, unless that is given. */
static int find_rule_device(const struct rnic *r, const struct inject_rule *rule, int *device,
                            char error[INJECT_ERROR_MAX])
{
    if (*device >= 0 || !rule->device[0])
        return 0;
    *device = find_device(r, rule->device);
    if (*device < 0) {
        snprintf(error, INJECT_ERROR_MAX, "\"%s\" is no device", rule->device);
        return -EINVAL;
    }
    return 0;
}

int rnic_add_fault(struct rnic *r, int device, const char *text, char error[INJECT_ERROR_MAX])
{
    struct inject_rule rule;
    struct fault_rule *f;
    int err = inject_parse(&rule, text, error);

    if (!err)
        err = find_rule_device(r, &rule, &device, error);
    if (err)
        return err;
    if (inject_kind_of(rule.act) == INJECT_NOW)
        return refuse(error, -EINVAL, "this is no rule: say uroce fault now");
    if (rule.act == INJECT_FAIL && device >= 0 && !inject_verb_has_device(rule.verb))
        return refuse(error, -EINVAL, "calls of librdmacm are of no device");
    if (r->fault_count == INJECT_RULES_MAX)
        return refuse(error, -ENOSPC, "there is no room for another rule");
    f = calloc(1, sizeof(*f));
    if (!f)
        return refuse(error, -ENOMEM, "out of memory");
    f->device = device;
    f->number = ++r->fault_last;
    f->live.rule = rule;
    f->live.since = r->config.clock();
    strcpy(f->text, text);
    TAILQ_INSERT_TAIL(&r->faults, f, link);
    r->fault_count++;
    if (apply(r)) {
        remove_rule(r, f);
        return refuse(error, -ENOMEM, "out of memory");
    }
    fault_link_follow(r);
    watch_follow(r);
    return (int)f->number;
}

static int add(struct rnic *r, struct ctl_fault *reply)
{
    char text[CTL_FAULT_TEXT_MAX], error[INJECT_ERROR_MAX];
    int number;

    memcpy(text, reply->text, sizeof(text));
    memset(reply->text, 0, sizeof(reply->text));
    number = rnic_add_fault(r, -1, text, error);
    if (number < 0) {
        memcpy(reply->text, error, strlen(error));
        return number;
    }
    reply->number = (uint32_t)number;
    return 0;
}

static int remove_rules(struct rnic *r, struct ctl_fault *reply)
{
    struct fault_rule *f, *next;
    unsigned removed = 0;

    for (f = TAILQ_FIRST(&r->faults); f; f = next) {
        next = TAILQ_NEXT(f, link);
        if (reply->number && reply->number != f->number)
            continue;
        remove_rule(r, f);
        removed++;
    }
    if (reply->number && !removed)
        return -ENOENT;
    reply->number = removed;
    return 0;
}

/* ---- what happens once ---- */

/* As if the device had found a fatal error. */
static int fail_qp(struct device *d, uint32_t qpn)
{
    struct qp_object *q = qp_object_of(d, qpn);
    int err;

    if (!q)
        return -ENOENT;
    err = qp_object_fail(q);
    if (!err)
        qp_handles_tell(q, 1u << QP_EVENT_QP_FATAL);
    return err;
}

/* As a crash, or the kernel when memory is short: no session is told, no socket removed. */
static void die(void)
{
    raise(SIGKILL);
}

static int act_on_device(struct device *d, const struct inject_rule *rule)
{
    if (rule->act == INJECT_QP_ERROR)
        return fail_qp(d, rule->qp);
    async_port_event(d, rule->event);
    return 0;
}

/* On a device, or on all: a number of a queue pair may be that of one on each. */
static int act_now(struct rnic *r, int device, const struct inject_rule *rule)
{
    int result = -ENOENT;

    for (unsigned i = 0; i < r->devices; i++) {
        int err = device < 0 || (unsigned)device == i ? act_on_device(r->device[i], rule) : -ENOENT;

        if (err != -ENOENT)
            result = err;
        if (err && err != -ENOENT)
            break;
    }
    return result;
}

static int now(struct rnic *r, struct ctl_fault *reply)
{
    char text[CTL_FAULT_TEXT_MAX], error[INJECT_ERROR_MAX];
    struct inject_rule rule;
    int device = -1, err;

    memcpy(text, reply->text, sizeof(text));
    memset(reply->text, 0, sizeof(reply->text));
    err = inject_parse_once(&rule, text, error);
    if (!err)
        err = find_rule_device(r, &rule, &device, error);
    if (!err && inject_kind_of(rule.act) != INJECT_NOW)
        err = refuse(error, -EINVAL, "this is a rule: say uroce fault add");
    if (err) {
        memcpy(reply->text, error, strlen(error));
        return err;
    }
    if (rule.act == INJECT_DAEMON_DEATH)
        die();
    return act_now(r, device, &rule);
}

int fault_rules_call(struct session *sn, struct ctl_call *call)
{
    struct ctl_fault *reply = &call->reply.fault;

    if (!trust_user(sn->peer.uid))
        return -EPERM;
    switch (reply->op) {
    case CTL_FAULT_ADD:
        return add(sn->rnic, reply);
    case CTL_FAULT_REMOVE:
        return remove_rules(sn->rnic, reply);
    case CTL_FAULT_NOW:
        return now(sn->rnic, reply);
    default:
        return -EINVAL;
    }
}

void fault_rules_free(struct rnic *r)
{
    struct fault_rule *f;

    while ((f = TAILQ_FIRST(&r->faults))) {
        TAILQ_REMOVE(&r->faults, f, link);
        free(f);
    }
}
