/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters objects: packets and bytes that flow rules have taken. The daemon counts for every rule;
 * an object adds up what its rules have taken since they were bound to it.
 */
#include "counters.h"

struct ibv_counters *shim_create_counters(struct ibv_context *context,
                                          struct ibv_counters_init_attr *attr)
{
    struct shim_counters *c;

    if (attr->comp_mask)
        return refuse(-EINVAL);
    c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->base.context = context;
    pthread_mutex_init(&c->lock, NULL);
    return &c->base;
}

int shim_destroy_counters(struct ibv_counters *base)
{
    struct shim_counters *c = to_counters(base);
    bool used;

    pthread_mutex_lock(&c->lock);
    used = !LIST_EMPTY(&c->flows);
    pthread_mutex_unlock(&c->lock);
    if (used)
        return failed(EBUSY);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return 0;
}

/* ---- rules ---- */

void counters_bind(struct shim_counters *c, struct shim_flow *flow)
{
    pthread_mutex_lock(&c->lock);
    flow->counters = c;
    LIST_INSERT_HEAD(&c->flows, flow, link);
    pthread_mutex_unlock(&c->lock);
}

static void add_taken(struct ctl_flow_count *sum, const struct ctl_flow_count *now,
                      const struct shim_flow *flow)
{
    sum->frames += now->frames - flow->before.frames;
    sum->bytes += now->bytes - flow->before.bytes;
}

/* A daemon that is gone tells no last count. */
int counters_destroy_flow(struct shim_flow *flow)
{
    struct ctl_msg m = {.flow_count = {.handle = flow->base.handle}};
    struct shim_counters *c = flow->counters;
    int err;

    if (!c)
        return shim_call(flow->base.context, CTL_DESTROY_FLOW, &m);
    pthread_mutex_lock(&c->lock);
    err = shim_call(flow->base.context, CTL_DESTROY_FLOW, &m);
    if (!err && m.flow_count.frames >= flow->before.frames)
        add_taken(&c->past, &m.flow_count, flow);
    if (is_destroyed(err))
        LIST_REMOVE(flow, link);
    pthread_mutex_unlock(&c->lock);
    return err;
}

static int query_flow(const struct shim_flow *flow, struct ctl_flow_count *count)
{
    struct ctl_msg m = {.flow_count = {.handle = flow->base.handle}};
    int err = shim_call(flow->base.context, CTL_QUERY_FLOW, &m);

    *count = m.flow_count;
    return err;
}

/* ---- points ---- */

/* Binds a rule that exists: what it takes from now on counts. Of several threads that bind it, one
 * does. */
static int bind_late(struct shim_counters *c, struct shim_flow *flow)
{
    struct shim_counters *bound = NULL;
    int err;

    if (flow->base.context != c->base.context)
        return EINVAL;
    if (!atomic_compare_exchange_strong(&flow->counters, &bound, c))
        return bound == c ? 0 : EBUSY;
    err = query_flow(flow, &flow->before);
    if (err)
        atomic_store(&flow->counters, NULL);
    else
        counters_bind(c, flow);
    return err;
}

/* Without a rule: for the rules that are created with the object. */
int shim_attach_counters_point_flow(struct ibv_counters *base, struct ibv_counter_attach_attr *attr,
                                    struct ibv_flow *flow)
{
    struct shim_counters *c = to_counters(base);
    int err = 0;

    if (attr->comp_mask || attr->counter_desc > IBV_COUNTER_BYTES || attr->index >= COUNTERS_POINTS)
        return failed(EINVAL);
    if (flow)
        err = bind_late(c, (struct shim_flow *)flow);
    if (err)
        return failed(err);
    pthread_mutex_lock(&c->lock);
    c->point[attr->index] = attr->counter_desc == IBV_COUNTER_BYTES ? POINT_BYTES : POINT_PACKETS;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

/* The lock is held. */
static int sum_flows(struct shim_counters *c, struct ctl_flow_count *sum)
{
    struct ctl_flow_count now;
    struct shim_flow *flow;
    int err = 0;

    *sum = c->past;
    LIST_FOREACH(flow, &c->flows, link)
    {
        err = query_flow(flow, &now);
        if (err)
            break;
        add_taken(sum, &now, flow);
    }
    return err;
}

int shim_read_counters(struct ibv_counters *base, uint64_t *value, uint32_t n, uint32_t flags)
{
    struct shim_counters *c = to_counters(base);
    struct ctl_flow_count sum;
    int err;

    /* The daemon's counts are always those of the moment. */
    if (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED || n > COUNTERS_POINTS)
        return failed(EINVAL);
    pthread_mutex_lock(&c->lock);
    err = sum_flows(c, &sum);
    for (uint32_t i = 0; !err && i < n; i++)
        value[i] = c->point[i] == POINT_PACKETS ? sum.frames
                   : c->point[i] == POINT_BYTES ? sum.bytes
                                                : 0;
    pthread_mutex_unlock(&c->lock);
    return failed(err);
}
