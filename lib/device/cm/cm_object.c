/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: creation, addresses, options, end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm_address.h"
#include "cm/cm_object.h"
#include "control/limits.h"
#include "invariant.h"

/* ---- creation and end ---- */

_Static_assert(sizeof(struct cm_object) + CM_ID_BYTES +
                       (CM_RECORDS_MAX + CM_RECORDS_ADDED) * sizeof(struct cm_record) <=
                   CM_ID_MEMORY,
               "an id with its events takes no more than is charged");

struct cm_object *cm_object_add(struct session *sn, struct cm_channel *channel,
                                enum ip_cm_port_space ps)
{
    struct cm_object *o = object_create(sn, OBJ_CM_ID, sizeof(*o));

    if (!o)
        return NULL;
    TAILQ_INIT(&o->joins);
    TAILQ_INIT(&o->records);
    o->channel = channel;
    channel->o.refs++;
    o->ps = ps;
    o->serial = ++sn->rnic->cm.serials;
    return o;
}

static bool is_port_space(uint32_t ps)
{
    return ps == IP_CM_PS_IPOIB || ps == IP_CM_PS_TCP || ps == IP_CM_PS_UDP || ps == IP_CM_PS_IB;
}

/* Ids that linger are charged to no account; a user has as many of them as a quarter of those that
 * it may have. */
static int make_id(struct session *sn, struct cm_object *o)
{
    const struct quota_user *u = sn->account.user;
    struct cm_user_limits limits = {.numbers = u->owner ? 0 : LIMIT_USER_CM_NUMBER};
    int err;

    limits.lingering =
        (uint32_t)max_of(quota_user_limit(&sn->rnic->quota, u->uid, QUOTA_CM_ID) / 4, (uint64_t)1);
    o->id = cm_id_create(sn->rnic->cm.manager, o->ps, o, &err);
    return o->id ? cm_id_set_user(o->id, u->uid, &limits) : err;
}

int cm_create_id(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_id *rq = &call->request->cm_id;
    struct cm_channel *channel = cm_channel_get(sn, rq->channel);
    struct cm_object *o;
    int err;

    if (!channel || !is_port_space(rq->ps))
        return -EINVAL;
    o = cm_object_add(sn, channel, (enum ip_cm_port_space)rq->ps);
    if (!o)
        return -ENOMEM;
    o->cookie = rq->cookie;
    o->qp_type = (uint8_t)rq->qp_type;
    err = make_id(sn, o);
    if (err) {
        cm_object_end(o);
        return err;
    }
    call->reply.cm_id.id = o->o.handle;
    call->reply.cm_id.serial = o->serial;
    return 0;
}

void cm_object_end(struct cm_object *o)
{
    struct rnic *r = o->o.session->rnic;
    struct cm_object *request;
    struct cm_join *j;

    invariant(!o->told_by); /* the listener has ended before */
    while (o->requests && (request = cm_record_drop_request(o)))
        cm_object_end(request);
    cm_records_drop(o, 0);
    if (o->progress == CM_AT_QUERY)
        cm_resolve_forget(o);
    if (o->id)
        cm_id_destroy(o->id, r->config.clock());
    while ((j = TAILQ_FIRST(&o->joins)))
        cm_join_free(o, j);
    o->channel->o.refs--;
    object_destroy(&o->o);
}

int cm_destroy_id(struct session *sn, struct ctl_call *call)
{
    struct cm_object *o = cm_object_get(sn, call->request->cm_id.id);

    if (!o)
        return -EINVAL;
    call->reply.cm_id.sent = o->sent;
    cm_object_end(o);
    cm_host_arm(sn->rnic);
    return 0;
}

static void free_id(struct object *o)
{
    cm_object_end(container_of(o, struct cm_object, o));
}

bool cm_ids_free_some(struct session *sn, const struct slice *s)
{
    bool more = object_free_some(sn, OBJ_CM_ID, s, free_id);

    cm_host_arm(sn->rnic);
    return more;
}

/* ---- addresses ---- */

int cm_query_id(struct session *sn, struct ctl_call *call)
{
    struct cm_object *o = cm_object_get(sn, call->request->cm_id.id);

    if (!o)
        return -EINVAL;
    cm_object_info(o, &call->reply.cm_info);
    return 0;
}

int cm_bind_id(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_resolve *rq = &call->request->cm_resolve;
    struct cm_object *o = cm_object_get(sn, rq->id);
    struct ctl_cm_addr src = rq->src;
    int err;

    if (!o || o->bound || !src.family)
        return -EINVAL;
    o->searches = false;
    if (!cm_address_is_any(&src)) {
        err = cm_address_find(sn->rnic, &src, &o->device, &o->sgid_index);
        if (err) {
            o->device = NULL;
            return err;
        }
    }
    err = cm_object_bind(o, &src);
    if (err) {
        o->device = NULL;
        return err;
    }
    cm_object_info(o, &call->reply.cm_info);
    return 0;
}

int cm_listen_id(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_id *rq = &call->request->cm_id;
    struct cm_object *o = cm_object_get(sn, rq->id);
    int err;

    if (!o || o->progress != CM_AT_START)
        return -EINVAL;
    err = cm_listen(o->id, rq->backlog);
    if (err)
        return err;
    o->backlog =
        rq->backlog ? min_of(rq->backlog, (uint32_t)CM_REQUESTS_MAX) : (uint32_t)CM_REQUESTS_MAX;
    if (!o->bound)
        o->src = cm_address_from(sn->rnic, cm_id_src(o->id));
    o->bound = true;
    cm_object_info(o, &call->reply.cm_info);
    cm_host_arm(sn->rnic); /* requests may have been waiting for it */
    return 0;
}

/* ---- options ---- */

/* Numeric values of RDMA_OPTION_ID and its options; of RDMA_OPTION_IB and RDMA_OPTION_IB_PATH. */
enum { LEVEL_ID = 0, LEVEL_IB = 1 };
enum { OPTION_IB_PATH = 1 };
enum { OPTION_TOS, OPTION_REUSEADDR, OPTION_AFONLY, OPTION_ACK_TIMEOUT };

static bool read_int(const struct ctl_cm_option *rq, int *value)
{
    if (rq->length != sizeof(*value))
        return false;
    memcpy(value, rq->value, sizeof(*value));
    return true;
}

/* As the kernel: an id that is bound can still say that others may have its number, but not take it
 * back; and which IP versions it takes, until it is used. */
static bool may_set(const struct cm_object *o, unsigned flag, bool value)
{
    if (!o->bound)
        return true;
    return flag == CM_BIND_REUSE ? value : o->progress == CM_AT_START;
}

static int set_flag(struct cm_object *o, const struct ctl_cm_option *rq, unsigned flag)
{
    unsigned flags;
    int value, err;

    if (!read_int(rq, &value) || !may_set(o, flag, value))
        return -EINVAL;
    flags = value ? o->bind_flags | flag : o->bind_flags & ~flag;
    err = o->bound ? cm_set_bind_flags(o->id, flags) : 0;
    if (!err)
        o->bind_flags = flags;
    return err;
}

static int set_byte(const struct ctl_cm_option *rq, uint8_t max, uint8_t *out)
{
    if (rq->length != 1 || rq->value[0] > max)
        return -EINVAL;
    *out = rq->value[0];
    return 0;
}

static int set_ack_timeout(struct cm_object *o, const struct ctl_cm_option *rq)
{
    int err = o->qp_type == CM_QP_RC || o->ps == IP_CM_PS_TCP || o->ps == IP_CM_PS_IB
                  ? set_byte(rq, 31, &o->ack_timeout)
                  : -EINVAL;

    if (!err)
        o->has_ack_timeout = true;
    return err;
}

static int set_route(struct cm_object *o, const struct ctl_cm_option *rq)
{
    struct ctl_cm_route route;

    if (rq->length != sizeof(route))
        return -EINVAL;
    memcpy(&route, rq->value, sizeof(route));
    return cm_route_set(o, &route);
}

int cm_set_option(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_option *rq = &call->request->cm_option;
    struct cm_object *o = cm_object_get(sn, rq->id);

    if (!o)
        return -EINVAL;
    if (rq->level == LEVEL_IB && rq->name == OPTION_IB_PATH)
        return set_route(o, rq);
    if (rq->level != LEVEL_ID)
        return -ENOSYS;
    switch (rq->name) {
    case OPTION_TOS:
        return set_byte(rq, 255, &o->tos);
    case OPTION_REUSEADDR:
        return set_flag(o, rq, CM_BIND_REUSE);
    case OPTION_AFONLY:
        return set_flag(o, rq, CM_BIND_AFONLY);
    case OPTION_ACK_TIMEOUT:
        return set_ack_timeout(o, rq);
    default:
        return -ENOSYS;
    }
}
