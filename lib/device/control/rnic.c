/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's devices: created from its ports before the workers run, and destroyed after these
 * ended. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ceiling.h"
#include "control/device_state.h"
#include "control/errand.h"
#include "control/fault_rules.h"
#include "control/notify.h"
#include "control/watch_call.h"
#include "net/gids.h"
#include "objects/freeze_credit.h"
#include "port_inject.h"
#include "port_judge.h"

/* Of ports that do not know how fast they are. */
#define LINE_MBPS_UNKNOWN 100000

_Static_assert(QUOTA_DEVICES == RNIC_DEVICES_MAX, "each device has its counts");

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static int create_workers(struct rnic *r)
{
    for (unsigned i = 0; i < r->config.workers; i++) {
        r->worker[i] =
            worker_create(&(struct worker_config){.index = i,
                                                  .group = &r->group,
                                                  .cpu = r->config.cpus ? &r->config.cpus[i] : NULL,
                                                  .always_poll = r->config.always_poll});
        if (!r->worker[i])
            return -ENOMEM;
        r->workers++;
    }
    return worker_group_connect(&r->group);
}

static void report_late(void *rnic, const struct late_errand *late)
{
    const struct rnic_config *c = &((struct rnic *)rnic)->config;

    c->on_late(c->late_ctx, late->pid, late->uid, late->is_close);
}

struct rnic *rnic_create(const struct rnic_config *config, int *err)
{
    struct rnic *r = calloc(1, sizeof(*r));

    *err = -ENOMEM;
    if (!r)
        return NULL;
    TAILQ_INIT(&r->sessions);
    TAILQ_INIT(&r->faults);
    r->cm.timer.fd = -1;
    r->config = *config;
    if (!r->config.clock)
        r->config.clock = worker_time;
    quota_init(&r->quota, &config->quota, geteuid());
    r->started = r->config.clock();
    *err = notify_open(r);
    if (!*err && config->errands)
        r->errands = errands_create(config->loop, err);
    if (r->errands && config->on_late)
        errands_on_late(r->errands, report_late, r);
    if (!*err)
        *err = create_workers(r);
    if (!*err)
        *err = cpu_count_open(r);
    if (!*err)
        *err = cm_host_open(r);
    if (!*err)
        *err = agree_open(r);
    if (!*err)
        *err = fault_link_open(r);
    if (*err) {
        rnic_destroy(r);
        return NULL;
    }
    return r;
}

static void device_destroy(struct device *d)
{
    net_close(d);
    for (unsigned i = 0; i < d->parts; i++) {
        port_inject_free(d->port[i]);
        port_judge_free(d->port[i]);
        if (d->port[i]->engine)
            engine_destroy(d->port[i]->engine);
    }
    if (d->qps)
        qp_table_destroy(d->qps);
    if (d->srqs)
        srq_table_destroy(d->srqs);
    if (d->ahs)
        ah_table_destroy(d->ahs);
    if (d->wqs)
        wq_table_destroy(d->wqs);
    mr_table_fini(&d->mrs);
    free(d->local_sender);
    free(d->rss[0]);
    free(d->rss[1]);
    for (unsigned i = 0; i < OBJ_DEVICE_KINDS; i++)
        handle_table_fini(&d->handles[i]);
    d->io->ops->close(d->io);
    tx_ceiling_destroy(d->ceiling);
    free(d);
}

void rnic_destroy(struct rnic *r)
{
    cpu_count_close(r);
    agree_close(r);
    fault_link_close(r);
    freeze_credit_fini(r);
    cm_host_close(r);
    if (r->errands)
        errands_destroy(r->errands);
    if (r->will_retry)
        event_loop_stop(r->config.loop, &r->retry_job);
    for (unsigned i = 0; i < r->devices; i++)
        device_destroy(r->device[i]);
    fault_rules_free(r);
    worker_group_fini(&r->group);
    for (unsigned i = 0; i < r->workers; i++)
        worker_destroy(r->worker[i]);
    if (r->config.loop)
        event_loop_remove(r->config.loop, &r->notify);
    close_fd(r->notify.fd);
    free(r);
}

unsigned rnic_workers(const struct rnic *r)
{
    return r->workers;
}

struct worker *rnic_worker(struct rnic *r, unsigned index)
{
    return r->worker[index];
}

struct worker_group *rnic_group(struct rnic *r)
{
    return &r->group;
}

/* One for each kind's numbers or handles; and of address handles, which have both, keys and
 * contexts.
 */
enum { SECRET_AH = OBJ_DEVICE_KINDS, SECRET_KEYS, SECRET_CONTEXTS, SECRETS };

static int make_secrets(const struct rnic *r, uint64_t secret[SECRETS][2])
{
    if (!r->config.secret)
        return random_bytes(secret, SECRETS * sizeof(secret[0]));
    for (unsigned i = 0; i < SECRETS; i++)
        memcpy(secret[i], r->config.secret, sizeof(secret[i]));
    return 0;
}

/* Whether pause frames are to be heeded that the port does not heed by itself. */
static bool must_pause(const struct device *d)
{
    return (d->flow_control == PKTIO_PAUSE_RX || d->flow_control == PKTIO_PAUSE_BOTH) &&
           d->info.pause != PKTIO_PAUSE_RX && d->info.pause != PKTIO_PAUSE_BOTH;
}

/* A port with a rate is as fast as that, for its controllers and its pauses, too. */
static int create_ceiling(struct device *d, uint64_t rate)
{
    d->pauses = must_pause(d);
    if (!rate && !d->pauses)
        return 0;
    d->max_rate = rate;
    if (rate)
        d->congestion.line = min_of(d->congestion.line, rate);
    d->ceiling = tx_ceiling_create(rate, d->pauses ? d->congestion.line : 0);
    return d->ceiling ? 0 : -ENOMEM;
}

static int create_tables(struct device *d)
{
    static const uint32_t limit[OBJ_DEVICE_KINDS] = {
        [OBJ_PD] = LIMIT_PD, [OBJ_MR] = LIMIT_MR,           [OBJ_CHANNEL] = LIMIT_CHANNEL,
        [OBJ_CQ] = LIMIT_CQ, [OBJ_MW] = LIMIT_MW,           [OBJ_XRCD] = LIMIT_XRCD,
        [OBJ_AH] = LIMIT_AH, [OBJ_RWQ_IND] = LIMIT_RWQ_IND, [OBJ_FLOW] = LIMIT_FLOW,
        [OBJ_DM] = LIMIT_DM, [OBJ_QP_HANDLE] = LIMIT_QP,    [OBJ_COUNTER] = LIMIT_COUNTER};
    uint64_t secret[SECRETS][2];
    int err = make_secrets(d->rnic, secret);

    if (err)
        return err;
    for (unsigned i = 0; i < OBJ_DEVICE_KINDS; i++)
        handle_table_init(&d->handles[i], limit[i], secret[i]);
    permutation_init(&d->context_order, CONTEXT_NUMBERS, secret[SECRET_CONTEXTS]);
    LIST_INIT(&d->xrc_domains);
    d->qps = qp_table_create(secret[OBJ_QP]);
    d->srqs = srq_table_create(secret[OBJ_SRQ]);
    d->ahs = ah_table_create(secret[SECRET_AH]);
    d->wqs = wq_table_create(secret[OBJ_WQ]);
    d->local_sender = calloc(QP_TABLE_SLOTS, sizeof(*d->local_sender));
    if (!d->qps || !d->srqs || !d->ahs || !d->wqs || !d->local_sender)
        return -ENOMEM;
    return mr_table_init(&d->mrs, LIMIT_KEY, secret[SECRET_KEYS]);
}

/* The part of the port that a worker has: a queue and an engine. */
static int create_part(struct device *d, struct worker *w)
{
    struct engine_config ec = {.port = &d->encap,
                               .mrs = &d->mrs,
                               .qps = d->qps,
                               .srqs = d->srqs,
                               .ahs = d->ahs,
                               .flows = &d->flows};
    struct worker_port *p = worker_add_port(w, d->io, d->parts, d->port[0]);

    if (!p)
        return -ENOSPC;
    d->workers[d->parts] = w;
    d->port[d->parts++] = p;
    ec.host = worker_host(p);
    ec.lane = worker_index(w);
    ec.entropy = d->entropy;
    ec.repath = d->repath;
    ec.trim_dscp = d->trim_dscp;
    ec.congestion = d->congestion;
    ec.ceiling = d->ceiling;
    ec.classes = d->classes;
    ec.reorder = ENGINE_REORDER_MAX;
#ifdef UROCE_FUZZ
    ec.any_icrc = true;
#endif
    p->mrs = &d->mrs;
    p->engine = engine_create(&ec);
    return p->engine ? 0 : -ENOMEM;
}

/* How the port spreads what it receives; ports need not know that. 0 or -ENOMEM. */
static int read_rss(struct device *d)
{
    for (unsigned v = 0; v < ARRAY_SIZE(d->rss) && d->parts > 1 && d->io->ops->rss; v++) {
        d->rss[v] = malloc(sizeof(*d->rss[v]));
        if (!d->rss[v])
            return -ENOMEM;
        if (d->io->ops->rss(d->io, v == 1, d->rss[v])) {
            free(d->rss[v]);
            d->rss[v] = NULL;
        }
    }
    return 0;
}

/* One worker for each of the port's queues. Ports with fewer queues than there are workers get the
 * workers in turn. */
static int create_parts(struct device *d)
{
    struct rnic *r = d->rnic;
    unsigned n = max_of(min_of(d->info.queues, r->workers), 1u);
    int err = 0;

    for (unsigned i = 0; i < n && !err; i++)
        err = create_part(d, r->worker[(r->next_worker + i) % r->workers]);
    r->next_worker = (r->next_worker + n) % r->workers;
    return err ? err : read_rss(d);
}

int rnic_add_port(struct rnic *r, const struct port_config *config)
{
    struct device *d = NULL;
    int err = -ENOSPC;

    if (r->devices < RNIC_DEVICES_MAX) {
        d = calloc(1, sizeof(*d));
        err = -ENOMEM;
    }
    if (!d) {
        if (config->exception_fd)
            close(*config->exception_fd);
        config->io->ops->close(config->io);
        return err;
    }
    d->net.exception.fd = config->exception_fd ? *config->exception_fd : -1;
    d->rnic = r;
    d->index = r->devices;
    d->io = config->io;
    d->io->ops->info(d->io, &d->info);
    snprintf(d->name, sizeof(d->name), "uroce%u", d->index);
    memcpy(d->encap.mac, d->info.mac, sizeof(d->encap.mac));
    d->encap.gids = &d->gids;
    /* Buffers may hold more than a port or its peer takes. */
    d->encap.max_frame = (uint16_t)min_of(d->info.mtu + FRAME_AROUND, (uint32_t)UINT16_MAX);
    if (config->qos)
        d->qos = *config->qos;
    else
        qos_map_default(&d->qos);
    d->classes = config->classes;
    d->flow_control = config->flow_control;
    d->entropy = config->entropy;
    d->repath = config->repath;
    d->trim_dscp = config->trim_dscp;
    d->selective = config->selective;
    d->congestion = config->congestion;
    if (!d->congestion.line)
        d->congestion.line =
            (d->info.speed_mbps ? d->info.speed_mbps : LINE_MBPS_UNKNOWN) * UINT64_C(1000000);
    if (config->ifindex) {
        memcpy(d->info.netdev, config->netdev, sizeof(d->info.netdev));
        d->info.ifindex = config->ifindex;
    }
    err = create_ceiling(d, config->max_rate);
    if (!err)
        err = create_tables(d);
    if (!err)
        err = create_parts(d);
    if (!err)
        err = net_open(d, config);
    if (err) {
        device_destroy(d);
        return err;
    }
    r->device[r->devices++] = d;
    watch_follow(r);
    return 0;
}

int rnic_add_address(struct rnic *r, unsigned device, const struct port_address *a)
{
    return net_address_add(r->device[device], a);
}

int rnic_remove_address(struct rnic *r, unsigned device, const union gid *gid, uint16_t vlan)
{
    return net_address_remove(r->device[device], gid, vlan);
}

int rnic_answered(struct rnic *r, unsigned device, const union gid *gid, bool answered)
{
    return net_address_answered(r->device[device], gid, answered);
}

int rnic_address_interface(struct rnic *r, unsigned device, const union gid *gid, uint32_t ifindex)
{
    return device_gids_interface(r->device[device], gid, ifindex);
}

int rnic_add_route(struct rnic *r, unsigned device, const struct net_route *route)
{
    return net_host_add_route(r->device[device]->net.host, route);
}

int rnic_remove_route(struct rnic *r, unsigned device, const struct net_route *route)
{
    return net_host_remove_route(r->device[device]->net.host, route);
}

void rnic_end(struct rnic *r)
{
    r->ending = true;
}

void rnic_on_retry(struct rnic *r, void (*retry)(void *ctx), void *ctx)
{
    r->retry = retry;
    r->retry_ctx = ctx;
}

static bool run_retry(struct event_job *j)
{
    struct rnic *r = container_of(j, struct rnic, retry_job);

    r->will_retry = false;
    if (r->retry)
        r->retry(r->retry_ctx);
    return false;
}

void rnic_retry_later(struct rnic *r)
{
    if (r->will_retry || !r->config.loop)
        return;
    r->will_retry = true;
    r->retry_job.run = run_retry;
    event_loop_start(r->config.loop, &r->retry_job);
}
