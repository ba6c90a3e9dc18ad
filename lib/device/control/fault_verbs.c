/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of programs that rules let fail: see fault_rules.h. */
#include "control/fault_rules.h"

#include <string.h>

#include "control/incident_call.h"
#include "control/session_state.h"

/* The message of a verb. Several may be one verb's. */
static const struct {
    uint16_t type;
    enum inject_verb verb;
} messages[] = {
    {CTL_OPEN, INJECT_VERB_open_device},
    {CTL_QUERY_PORT, INJECT_VERB_query_port},
    {CTL_ALLOC_PD, INJECT_VERB_alloc_pd},
    {CTL_REG_MR, INJECT_VERB_reg_mr},
    {CTL_ALLOC_MW, INJECT_VERB_alloc_mw},
    {CTL_ALLOC_DM, INJECT_VERB_alloc_dm},
    {CTL_CREATE_CHANNEL, INJECT_VERB_create_comp_channel},
    {CTL_CREATE_CQ, INJECT_VERB_create_cq},
    {CTL_RESIZE_CQ, INJECT_VERB_resize_cq},
    {CTL_CREATE_SRQ, INJECT_VERB_create_srq},
    {CTL_CREATE_QP, INJECT_VERB_create_qp},
    {CTL_CREATE_QP_IN, INJECT_VERB_create_qp},
    {CTL_MODIFY_QP, INJECT_VERB_modify_qp},
    {CTL_QUERY_QP, INJECT_VERB_query_qp},
    {CTL_CREATE_AH, INJECT_VERB_create_ah},
    {CTL_CREATE_WQ, INJECT_VERB_create_wq},
    {CTL_CREATE_FLOW, INJECT_VERB_create_flow},
    {CTL_ATTACH_MCAST, INJECT_VERB_attach_mcast},
    {CTL_OPEN_XRCD, INJECT_VERB_open_xrcd},
    {CTL_CM_CREATE_ID, INJECT_VERB_create_id},
    {CTL_CM_BIND, INJECT_VERB_bind_addr},
    {CTL_CM_RESOLVE_ADDR, INJECT_VERB_resolve_addr},
    {CTL_CM_LISTEN, INJECT_VERB_listen},
    {CTL_CM_CONNECT, INJECT_VERB_connect},
    {CTL_CM_ACCEPT, INJECT_VERB_accept},
    {CTL_CM_JOIN, INJECT_VERB_join_multicast},
};

/* The verbs of CTL_JUDGE. */
static const enum inject_verb judged[CTL_JUDGED] = {
    [CTL_JUDGE_POST_SEND] = INJECT_VERB_post_send,
    [CTL_JUDGE_POST_RECV] = INJECT_VERB_post_recv,
    [CTL_JUDGE_POST_SRQ_RECV] = INJECT_VERB_post_srq_recv,
    [CTL_JUDGE_POLL_CQ] = INJECT_VERB_poll_cq,
    [CTL_JUDGE_REQ_NOTIFY_CQ] = INJECT_VERB_req_notify_cq,
};

static uint16_t type_of(const struct ctl_msg *m)
{
    return m->type == CTL_CM_WITH_QP ? m->cm_with_qp.type : m->type;
}

static bool find_verb(const struct ctl_msg *m, enum inject_verb *verb)
{
    uint16_t type = type_of(m);

    if (type == CTL_JUDGE && m->judge.call < CTL_JUDGED) {
        *verb = judged[m->judge.call];
        return true;
    }
    for (unsigned i = 0; i < ARRAY_SIZE(messages); i++) {
        if (messages[i].type != type)
            continue;
        *verb = messages[i].verb;
        return true;
    }
    return false;
}

/* Connections of librdmacm have no device: rules for one are not theirs. */
static bool is_of_device(const struct session *sn, const struct ctl_msg *m,
                         const struct fault_rule *f)
{
    if (f->device < 0)
        return true;
    if (m->type == CTL_OPEN)
        return m->open.device == (uint32_t)f->device;
    return sn->device && sn->device->index == (unsigned)f->device;
}

/* The device that a call is for; NULL: none yet, or none at all. */
static struct device *device_of(const struct session *sn, const struct ctl_msg *m)
{
    const struct rnic *r = sn->rnic;

    return m->type == CTL_OPEN && m->open.device < r->devices ? r->device[m->open.device]
                                                              : sn->device;
}

bool fault_verbs_asked(const struct session *sn)
{
    const struct ctl_msg m = {.type = CTL_JUDGE};
    const struct fault_rule *f;

    TAILQ_FOREACH (f, &sn->rnic->faults, link) {
        const struct inject_rule *rule = &f->live.rule;

        if (rule->act == INJECT_FAIL && inject_verb_is_asked(rule->verb) &&
            is_of_device(sn, &m, f) && (!rule->program[0] || !strcmp(rule->program, sn->comm)))
            return true;
    }
    return false;
}

int fault_verbs_check(struct session *sn, const struct ctl_msg *m)
{
    struct inject_call call = {.program = sn->comm};
    struct fault_rule *f;
    ns_t now;

    if (TAILQ_EMPTY(&sn->rnic->faults) || !find_verb(m, &call.verb))
        return 0;
    now = sn->rnic->config.clock();
    TAILQ_FOREACH (f, &sn->rnic->faults, link) {
        struct inject_live *live = &f->live;

        if (live->rule.act != INJECT_FAIL || !is_of_device(sn, m, f) ||
            !inject_decide_call(&live->rule, &live->hits, &call, now - min_of(live->since, now)))
            continue;
        atomic_fetch_add_explicit(&live->hits.acted, 1, memory_order_relaxed);
        incident_of_rule(sn, device_of(sn, m), call.verb, live->rule.error);
        return -live->rule.error;
    }
    return 0;
}
