/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pair states: the attributes of a transition, from the queue pair's configuration. */
#include <string.h>

#include "script.h"

struct attr {
    const char *name;
    uint32_t mask;
    struct field field; /* in struct qp_attr */
};

#define A(name, mask, member)                                                             \
    {                                                                                     \
        name, mask,                                                                       \
        {                                                                                 \
            name, offsetof(struct qp_attr, member), sizeof(((struct qp_attr *)0)->member) \
        }                                                                                 \
    }
static const struct attr attrs[] = {
    A("cur_state", QPA_CUR_STATE, cur_state),
    A("notify", QPA_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify),
    A("access", QPA_ACCESS_FLAGS, access_flags),
    A("pkey_index", QPA_PKEY_INDEX, pkey_index),
    A("port", QPA_PORT, port_num),
    A("qkey", QPA_QKEY, qkey),
    A("av", QPA_AV, ah.hop_limit),
    A("mtu_code", QPA_PATH_MTU, path_mtu),
    A("timeout", QPA_TIMEOUT, timeout),
    A("retry", QPA_RETRY_CNT, retry_cnt),
    A("rnr_retry", QPA_RNR_RETRY, rnr_retry),
    A("rq_psn", QPA_RQ_PSN, rq_psn),
    A("max_rd", QPA_MAX_RD_ATOMIC, max_rd_atomic),
    A("min_rnr", QPA_MIN_RNR_TIMER, min_rnr_timer),
    A("sq_psn", QPA_SQ_PSN, sq_psn),
    A("max_dest_rd", QPA_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
    A("peer", QPA_DEST_QPN, dest_qpn),
};

static const struct attr *find_attr(struct script *s, const char *name)
{
    for (unsigned i = 0; i < ARRAY_SIZE(attrs); i++)
        if (!strcmp(attrs[i].name, name))
            return &attrs[i];
    fail(s, "script: there is no attribute '%s'", name);
}

/* The attributes that the transition needs (table 91). */
static uint32_t mask_for(const struct script_qp *qp, uint32_t from, uint32_t to)
{
    bool reliable = qp->type == QPT_RC || qp->type == QPT_XRC_RECV;

    if (from == QPS_RESET && to == QPS_INIT)
        return QPA_PKEY_INDEX | QPA_PORT | (qp->type == QPT_UD ? QPA_QKEY : QPA_ACCESS_FLAGS);
    if (from == QPS_INIT && to == QPS_RTR)
        return qp->type == QPT_UD ? 0
                                  : QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                                        (reliable ? QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER : 0);
    if (from == QPS_RTR && to == QPS_RTS)
        return QPA_SQ_PSN | (qp->type == QPT_XRC_RECV ? QPA_TIMEOUT
                             : qp->type == QPT_RC || qp->type == QPT_XRC_SEND
                                 ? QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC
                                 : 0);
    return 0;
}

static struct qp_attr configured(const struct script_qp *qp)
{
    const struct qp_conf *c = &qp->conf;

    return (struct qp_attr){
        .path_mtu = (uint32_t)__builtin_ctz(c->mtu) - 7,
        .qkey = c->qkey,
        .rq_psn = c->rq_psn,
        .sq_psn = c->sq_psn,
        .dest_qpn = c->peer,
        .access_flags = c->access,
        .max_rd_atomic = (uint8_t)c->max_rd,
        .max_dest_rd_atomic = (uint8_t)c->max_dest_rd,
        .min_rnr_timer = (uint8_t)c->min_rnr,
        .port_num = 1,
        .timeout = (uint8_t)c->timeout,
        .retry_cnt = (uint8_t)c->retry,
        .rnr_retry = (uint8_t)c->rnr_retry,
    };
}

/* The port's MTU: code 5, except for UD, which has no MTU of its own: the configured one. */
static int modify(struct script *s, struct script_qp *qp, const struct qp_attr *attr, uint32_t mask)
{
    uint32_t max_mtu = qp->type == QPT_UD ? (uint32_t)__builtin_ctz(qp->conf.mtu) - 7 : 5;
    int rc = engine_qp_modify(s->engine, qp->qp, attr, mask, mask & QPA_AV ? &qp->av : NULL,
                              max_mtu, s->now);

    if (rc == 0 && (mask & QPA_STATE) && attr->state == QPS_RESET)
        qp->sq_prod = qp->rq_prod = 0;
    return rc;
}

void to_state(struct script *s, struct script_qp *qp, uint32_t state)
{
    struct qp_attr attr = configured(qp);

    for (uint32_t to = QPS_INIT; to <= state && to <= QPS_RTS; to++) {
        int rc;

        attr.state = to;
        rc = modify(s, qp, &attr, QPA_STATE | mask_for(qp, to - 1, to));
        if (rc)
            fail(s, "to state %s: %d", name_of(state_names, to), rc);
    }
}

/* modify STATE|SAME [on QP] [omit ATTR] [set ATTR VALUE] [error NAME] */
void st_modify(struct script *s)
{
    const char *to = need(s, "a state"), *word;
    struct script_qp *qp = object(s, OBJ_QP, NULL);
    uint32_t omit = 0, mask = 0;
    struct qp_attr attr, set = {0};
    int want = 0, rc;

    while ((word = next(s))) {
        if (!strcmp(word, "on")) {
            qp = object(s, OBJ_QP, need(s, "a queue pair"));
        } else if (!strcmp(word, "omit")) {
            omit |= find_attr(s, need(s, "an attribute"))->mask;
        } else if (!strcmp(word, "error")) {
            want = -(int)named(s, errno_names, need(s, "an error"), "error");
        } else if (!strcmp(word, "set")) {
            const struct attr *a = find_attr(s, need(s, "an attribute"));
            uint64_t value = a->mask == QPA_ACCESS_FLAGS ? need_access(s)
                             : a->mask == QPA_CUR_STATE
                                 ? named(s, state_names, need(s, "a state"), "state")
                                 : need_number(s, a->name);

            field_set(&a->field, &set, value);
            mask |= a->mask;
        } else {
            fail(s, "script: modify has no '%s'", word);
        }
    }
    attr = configured(qp);
    for (unsigned i = 0; i < ARRAY_SIZE(attrs); i++)
        if (mask & attrs[i].mask)
            field_set(&attrs[i].field, &attr, field_get(&attrs[i].field, &set));
    if (strcmp(to, "SAME")) {
        attr.state = named(s, state_names, to, "state");
        mask |= QPA_STATE | mask_for(qp, qp_current_state(qp->qp), attr.state);
    }
    rc = modify(s, qp, &attr, mask & ~omit);
    if (rc != want)
        fail(s, "modify: expected %d, got %d", want, rc);
}
