/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that have agreed on maps of kept packets: see agree.h. */
#include "objects/agree.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "cm/cm_host.h"
#include "control/session_state.h"
#include "ece.h"
#include "encap.h"
#include "net/gsi.h"
#include "objects/qp_object.h"
#include "peer_mad.h"

/* ---- queue pairs ---- */

static void agree_on_worker(struct worker *w, void *arg)
{
    struct qp_object *q = arg;

    engine_qp_agree(qp_object_engine(q), q->dp.qp, true);
}

void agree_forget(struct qp_object *q)
{
    if (!q->waits_for_agreement)
        return;
    q->waits_for_agreement = false;
    LIST_REMOVE(q, agreement);
}

/* ---- asking ---- */

static uint32_t features_of(const struct device *d)
{
    return d->selective ? PEER_KEPT_MAPS : 0;
}

static void arm(struct rnic *r)
{
    struct itimerspec when = {.it_value.tv_nsec = AGREE_WAIT};

    if (r->agree_timer.fd > 0)
        timerfd_settime(r->agree_timer.fd, 0, &when, NULL);
}

/* An answer is known by the transaction, which cannot be guessed. */
static void ask(struct device *d, struct agree_peer *p)
{
    uint8_t mad[MAD_LEN];

    p->state = AGREE_ASKED;
    p->at = d->rnic->config.clock();
    p->asked++;
    if (random_bytes(&p->transaction, sizeof(p->transaction)))
        return; /* asked again, or given up */
    peer_mad_ask(mad, p->transaction, features_of(d));
    gsi_send(d, &p->path, mad);
}

static struct agree_peer *find(struct device *d, const union gid *gid, uint16_t vlan)
{
    for (unsigned i = 0; i < AGREE_PEERS; i++) {
        struct agree_peer *p = &d->agree[i];

        if (p->state != AGREE_FREE && gid_eq(&p->path.dgid, gid) && p->path.vlan == vlan)
            return p;
    }
    return NULL;
}

/* A slot that is free, or the one whose peer answered the longest ago. */
static struct agree_peer *make(struct device *d)
{
    struct agree_peer *best = NULL;

    for (unsigned i = 0; i < AGREE_PEERS; i++) {
        struct agree_peer *p = &d->agree[i];

        if (p->state == AGREE_FREE)
            return p;
        if (p->state == AGREE_ANSWERED && (!best || p->at < best->at))
            best = p;
    }
    return best;
}

static bool is_known(const struct device *d, const struct agree_peer *p)
{
    return p && p->state == AGREE_ANSWERED && d->rnic->config.clock() - p->at < AGREE_HOLDS;
}

void agree_connected(struct qp_object *q, const struct address_vector *av)
{
    struct device *d = q->o.session->device;
    uint32_t type = qp_type(q->dp.qp);
    struct agree_peer *p;

    agree_forget(q);
    if (!d->selective || q->peer_is_local ||
        (type != QPT_RC && type != QPT_XRC_SEND && type != QPT_XRC_RECV))
        return;
    if (q->ece & ECE_SAID) {
        if (q->ece & ECE_KEPT_MAPS)
            qp_object_call(q, agree_on_worker, q);
        return;
    }
    p = find(d, &av->dgid, av->vlan);
    if (is_known(d, p)) {
        if (p->maps)
            qp_object_call(q, agree_on_worker, q);
        return;
    }
    if (!p && !(p = make(d)))
        return;
    if (p->state != AGREE_ASKED) {
        LIST_INIT(&p->waiting);
        gsi_path_of(d, av, &p->path);
        p->asked = 0;
        ask(d, p);
        arm(d->rnic);
    }
    q->waits_for_agreement = true;
    LIST_INSERT_HEAD(&p->waiting, q, agreement);
}

/* Who waits for this peer's answer is one to a stranger, or agrees. */
static void end_waiting(struct agree_peer *p, bool agreed)
{
    struct qp_object *q;

    while ((q = LIST_FIRST(&p->waiting))) {
        agree_forget(q);
        if (agreed)
            qp_object_call(q, agree_on_worker, q);
    }
}

void agree_ask_again(struct rnic *r)
{
    ns_t now = r->config.clock();
    bool any = false;

    for (unsigned n = 0; n < r->devices; n++)
        for (unsigned i = 0; i < AGREE_PEERS; i++) {
            struct device *d = r->device[n];
            struct agree_peer *p = &d->agree[i];

            if (p->state != AGREE_ASKED)
                continue;
            any = true;
            if (now - p->at < AGREE_WAIT)
                continue;
            if (p->asked < AGREE_TRIES) {
                ask(d, p);
                continue;
            }
            p->state = AGREE_ANSWERED; /* by silence */
            p->at = now;
            p->maps = false;
            end_waiting(p, false);
        }
    if (any)
        arm(r);
}

/* ---- what arrives ---- */

static enum gsi_verdict on_mad(void *ctx, const struct cm_path *way, const uint8_t *mad,
                               uint8_t *answer)
{
    struct rnic *r = ctx;
    struct device *d = r->device[way->port];
    struct agree_peer *p;
    uint32_t features;

    if (!peer_mad_read(mad, &features))
        return GSI_NOT_MINE;
    if (answer) {
        peer_mad_put(answer, features_of(d));
        return GSI_ANSWER;
    }
    p = find(d, &way->dgid, way->vlan);
    if (!p || p->state != AGREE_ASKED || mad_get(mad, MAD_transaction_id) != p->transaction)
        return GSI_TAKEN;
    p->state = AGREE_ANSWERED;
    p->at = r->config.clock();
    p->maps = features & PEER_KEPT_MAPS;
    end_waiting(p, p->maps);
    return GSI_TAKEN;
}

/* ---- life ---- */

static void on_timer(struct event_source *s, uint32_t events)
{
    struct rnic *r = container_of(s, struct rnic, agree_timer);
    uint64_t count;

    if (read(s->fd, &count, sizeof(count)) == sizeof(count))
        agree_ask_again(r);
}

int agree_open(struct rnic *r)
{
    int err = gsi_register(r, PEER_MAD_CLASS, &(struct gsi_handler){on_mad, r});

    r->agree_timer = (struct event_source){.fd = -1, .ready = on_timer};
    if (err || !r->config.loop)
        return err;
    r->agree_timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (r->agree_timer.fd < 0)
        return -errno;
    return event_loop_add(r->config.loop, &r->agree_timer, EPOLLIN);
}

void agree_close(struct rnic *r)
{
    if (r->agree_timer.fd <= 0) /* 0: it was never opened */
        return;
    event_loop_remove(r->config.loop, &r->agree_timer);
    close(r->agree_timer.fd);
}
