/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes with several engines: where frames arrive, which are forwarded, and which queue pairs
 * migrate. */
#include <stdlib.h>
#include <string.h>

#include "kit_internal.h"

struct kit_forwarded {
    struct kit_forwarded *next;
    ns_t at;
    uint32_t len;
    uint8_t data[];
};

static struct kit_engine *part_of(struct kit_node *n, const struct engine *e)
{
    for (unsigned i = 0; i < n->engines; i++)
        if (n->part[i].engine == e)
            return &n->part[i];
    return NULL;
}

struct kit_engine *kit_engine_of(const struct kit_qp *qp)
{
    return part_of(qp->node, qp_engine(qp->qp));
}

/* ---- off a link ---- */

static unsigned hash(const struct encap_view *v)
{
    uint8_t bytes[2 * sizeof(union gid) + 2];
    uint32_t sum = 2166136261;

    memcpy(bytes, &v->sgid, sizeof(union gid));
    memcpy(bytes + sizeof(union gid), &v->dgid, sizeof(union gid));
    memcpy(bytes + 2 * sizeof(union gid), &v->udp_sport, 2);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        sum = (sum ^ bytes[i]) * 16777619;
    return sum ^ sum >> 16;
}

/* Frames without an owner arrive at any engine. */
static struct kit_engine *at_owner(struct kit *k, struct kit_node *n, const struct encap_view *v)
{
    struct kit_engine *owner = NULL;
    struct pkt p;

    if (pkt_parse(&p, v->bth, v->bth_len) == DROP_NONE) {
        struct qp *qp = qp_table_lookup(n->qps, p.dest_qpn);

        owner = qp ? part_of(n, qp_engine(qp)) : NULL;
    }
    return owner ? owner : &n->part[random_below(&k->engines_random, n->engines)];
}

static struct kit_engine *arrival(struct kit *k, struct kit_node *n, const struct frame *f)
{
    struct encap_view v;

    if (n->arrival || n->engines == 1)
        return n->arrival ? n->arrival : n->part;
    if (k->config.arrival == KIT_AT_RANDOM || kit_frame_view(&v, f->data, f->len) != DROP_NONE)
        return &n->part[random_below(&k->engines_random, n->engines)];
    return k->config.arrival == KIT_AT_OWNER ? at_owner(k, n, &v) : &n->part[hash(&v) % n->engines];
}

void kit_arrive(struct kit *k, struct kit_node *n, struct frame *frame, unsigned count)
{
    struct kit_engine *at[FRAME_BURST];

    for (unsigned i = 0; i < count; i++)
        at[i] = arrival(k, n, &frame[i]);
    for (struct kit_engine *p = n->part; p < n->part + n->engines; p++) {
        struct frame f[FRAME_BURST];
        unsigned m = 0;

        for (unsigned i = 0; i < count; i++)
            if (at[i] == p)
                f[m++] = frame[i];
        kit_lend(p, f, m);
        if (m)
            engine_rx(p->engine, f, m, k->now);
        kit_lend(p, NULL, 0);
        p->received += m;
    }
    n->received += count;
}

/* ---- from one engine to another ---- */

static bool refused(struct kit *k, const struct kit_handed_list *l)
{
    const struct kit_forward_config *c = &k->config.forward;

    return l->n >= (c->room ? c->room : 256) ||
           (c->refuse && random_below(&k->engines_random, 1000) < c->refuse);
}

static void append(struct kit *k, struct kit_handed_list *l, const uint8_t *data, uint32_t len)
{
    ns_t delay = k->config.forward.delay ? k->config.forward.delay : NS_PER_US;
    struct kit_forwarded *h = kit_alloc(sizeof(*h) + len);

    h->at = k->now + 1 + random_below(&k->engines_random, (uint32_t)delay);
    if (l->n)
        h->at = max_of(h->at, l->last->at);
    h->len = len;
    memcpy(h->data, data, len);
    if (l->n++)
        l->last->next = h;
    else
        l->first = h;
    l->last = h;
}

bool kit_forward(void *ctx, const struct frame *f, struct engine *to)
{
    struct kit_engine *from = ctx, *p = part_of(from->node, to);
    struct kit *k = from->node->kit;

    if (!p) /* of another node, in whose table the queue pair is, too */
        return false;
    if (p == from)
        kit_fail("engine %u of node %u forwards to itself", p->index, p->node->index);
    if (refused(k, &p->handed[from->index]))
        return false;
    append(k, &p->handed[from->index], f->data, f->len);
    if (k->trace)
        fprintf(stderr, "%10.3f us  at %u: handed %u>%u\n", (double)k->now / 1000, p->node->index,
                from->index, p->index);
    return true;
}

bool kit_comes_back(struct kit_engine *p, const uint8_t *data, uint32_t len)
{
    bool own = !memcmp(data, p->node->port.mac, sizeof(p->node->port.mac));

    if (!p->node->kit->config.local || (!own && !(data[0] & 1)))
        return false;
    append(p->node->kit, &p->handed[p->index], data, len);
    p->node->kept += own;
    return own;
}

static struct kit_forwarded *pop(struct kit_handed_list *l)
{
    struct kit_forwarded *h = l->first;

    l->first = h->next;
    l->n--;
    return h;
}

static unsigned deliver_from(struct kit *k, struct kit_engine *p, unsigned from)
{
    struct kit_handed_list *l = &p->handed[from];
    struct kit_forwarded *h[FRAME_BURST];
    struct frame frame[FRAME_BURST];
    unsigned n = 0, limit = 1 + random_below(&k->engines_random, FRAME_BURST);

    for (; n < limit && l->n && l->first->at <= k->now; n++) {
        h[n] = pop(l);
        frame[n] = (struct frame){.data = h[n]->data, .len = h[n]->len};
    }
    if (!n)
        return 0;
    kit_lend(p, frame, n);
    if (from == p->index) {
        engine_rx(p->engine, frame, n, k->now);
        p->received += n;
        p->node->received += n;
    } else {
        engine_rx_forwarded(p->engine, frame, n, p->node->part[from].lane, k->now);
    }
    kit_lend(p, NULL, 0);
    for (unsigned i = 0; i < n; i++) {
        memset(h[i]->data, 0xA5, h[i]->len); /* its room is used again */
        free(h[i]);
    }
    return n;
}

unsigned kit_handed_deliver(struct kit *k, struct kit_engine *p)
{
    unsigned n = 0;

    for (unsigned i = 0; i < p->node->engines; i++)
        if (p->handed[i].n)
            n += deliver_from(k, p, i);
    return n;
}

void kit_handed_fini(struct kit_engine *p)
{
    for (unsigned i = 0; i < p->node->engines; i++)
        while (p->handed[i].n)
            free(pop(&p->handed[i]));
}

/* ---- queue pairs ---- */

void kit_misplaced(void *ctx, struct qp *qp, uint32_t lane)
{
    struct kit_engine *p = ctx;
    struct kit_qp *q = qp_owner(qp);

    if (lane == p->lane || lane >= p->node->engines || qp_engine(qp) != p->engine)
        kit_fail("queue pair 0x%06x is misplaced from lane %u to %u", q->qpn, p->lane, lane);
    q->misplaced_at = lane;
    q->misplaced++;
}

void kit_adopt(struct kit_qp *qp)
{
    if (!qp->left)
        return;
    qp->left = NULL;
    qp->node->adopting--;
    engine_qp_adopt(qp_engine(qp->qp), qp->qp, qp->node->kit->now);
}

bool kit_move(struct kit_qp *qp, unsigned to)
{
    struct kit_engine *from = kit_engine_of(qp);
    struct kit *k = qp->node->kit;
    ns_t later = k->config.forward.adopt;

    kit_adopt(qp);
    if (from->index == to)
        return true;
    if (!qp_completions_are_read(qp->qp, from->lane))
        return false;
    engine_qp_release(from->engine, qp->qp, qp->node->part[to].engine);
    qp->left = from;
    qp->node->adopting++;
    qp->adopt_at = k->now + (later ? random_below(&k->engines_random, (uint32_t)later) : 0);
    if (qp->adopt_at == k->now)
        kit_adopt(qp);
    return true;
}

unsigned kit_adopt_due(struct kit *k, struct kit_node *n)
{
    unsigned count = 0;

    for (struct kit_qp *qp = n->adopting ? n->qp : NULL; qp; qp = qp->next)
        if (qp->left && qp->adopt_at <= k->now) {
            kit_adopt(qp);
            count++;
        }
    return count;
}

ns_t kit_engines_next(const struct kit_node *n)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < n->engines; i++)
        for (unsigned j = 0; j < n->engines; j++)
            if (n->part[i].handed[j].n)
                next = min_of(next, n->part[i].handed[j].first->at);
    for (const struct kit_qp *qp = n->adopting ? n->qp : NULL; qp; qp = qp->next)
        if (qp->left)
            next = min_of(next, qp->adopt_at);
    return next;
}

/* ---- groups ---- */

int kit_join(struct kit_qp *qp, const union gid *group)
{
    struct kit_node *n = qp->node;
    int err = 0;

    for (unsigned i = 0; i < n->engines && !err; i++)
        err = engine_mcast_join(n->part[i].engine, qp->qp, group);
    return err;
}

int kit_leave(struct kit_qp *qp, const union gid *group)
{
    struct kit_node *n = qp->node;
    int err = 0;

    for (unsigned i = 0; i < n->engines && !err; i++)
        err = engine_mcast_leave(n->part[i].engine, qp->qp, group);
    return err;
}

/* ---- counters ---- */

static bool part_adds_up(const struct kit_engine *p)
{
    const struct engine_counters *c = engine_counters(p->engine);
    unsigned long long rx = counter_sum(c->rx_packets, QOS_PRIORITIES),
                       in = counter_get(&c->rx_forwarded_in), copies = counter_get(&c->rx_copies),
                       delivered = counter_get(&c->rx_delivered),
                       other = counter_get(&c->rx_punted), out = counter_get(&c->rx_forwarded_out),
                       dropped = 0;

    for (unsigned i = 0; i < DROP_COUNT; i++)
        dropped += counter_get(&c->drop[i]);
    if (rx == p->received && rx + in + copies == delivered + other + out + dropped)
        return true;
    fprintf(stderr,
            "engine %u of node %u: %llu in (of %u), %llu handed in, %llu copies; %llu delivered, "
            "%llu other, %llu handed out, %llu dropped\n",
            p->index, p->node->index, rx, p->received, in, copies, delivered, other, out, dropped);
    return false;
}

bool kit_counts_add_up(const struct kit_node *n)
{
    unsigned long long in = 0, out = 0;
    bool right = true;

    for (const struct kit_engine *p = n->part; p < n->part + n->engines; p++) {
        const struct engine_counters *c = engine_counters(p->engine);

        right &= part_adds_up(p);
        in += counter_get(&c->rx_forwarded_in);
        out += counter_get(&c->rx_forwarded_out);
        for (unsigned i = 0; i < n->engines; i++)
            in += i == p->index ? 0 : p->handed[i].n;
    }
    if (in != out)
        fprintf(stderr, "node %u: %llu handed out, %llu handed in or under way\n", n->index, out,
                in);
    return right && in == out;
}
