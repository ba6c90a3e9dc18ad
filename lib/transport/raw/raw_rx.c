/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received frames on their way to raw queue pairs. The engine at which a frame arrives decides
 * which queues take it. An engine that owns such queues gets the frame once, however many these
 * are, and delivers it to its own queues alone.
 */
#include "completion.h"
#include "raw_private.h"
#include "rx_forward.h"

/* The WQ that takes a frame of a rule. */
static struct wq *taker(const struct flow_entry *r, const union flow_key *key)
{
    return r->qp->spread ? rx_spread_wq(r->qp->spread, key) : r->qp->raw_rq;
}

static void deliver(struct engine *e, struct wq *wq, const struct frame *f, uint32_t tag)
{
    enum drop reason;

    rx_completion_room(e);
    reason = wq_deliver(e, wq, f, tag);

    if (reason == DROP_NONE)
        counter_inc(&e->counters.rx_delivered);
    else
        engine_drop(e, reason, 0);
}

/* The first rule that the frame matches takes it. */
static void apply_rule(struct engine *e, const struct frame *f, const struct flow_entry *r,
                       const union flow_key *key)
{
    struct wq *wq = r->drop ? NULL : taker(r, key);
    struct engine *owner = wq ? wq_engine(wq) : NULL;

    if (r->drop)
        engine_drop(e, DROP_flow_drop, 0);
    else if (!owner)
        engine_drop(e, DROP_raw_no_recv, 0);
    else if (owner != e)
        rx_forward(e, f, owner);
    else
        deliver(e, wq, f, r->tag);
}

/* Offers the frame to the port's host; `taken`: a rule's queue got it, too. */
static void offer_host(struct engine *e, const struct frame *f, enum drop reason, bool taken)
{
    const struct engine_host *host = &e->cfg.host;
    bool other = host->punt && host->punt(host->ctx, f);

    if (other)
        counter_inc(&e->counters.rx_punted);
    if (other && taken)
        counter_inc(&e->counters.rx_copies);
    if (!other && !taken)
        engine_drop(e, reason, 0);
}

void raw_punt(struct engine *e, const struct frame *f, enum drop reason)
{
    const struct flow_table *t = flow_rules(e);
    struct flow_entry *r = NULL;
    bool arrived = e->rx_from == RX_DIRECT;
    struct flow_keys keys;

    if (t) {
        flow_keys_parse(&keys, f);
        r = flow_table_match(t, &keys);
    }
    if (r && r->is_default && reason == DROP_not_our_mac)
        r = NULL; /* of what is the port's */
    if (r) {
        if (arrived)
            flow_count(r, e->cfg.lane, f->len);
        apply_rule(e, f, r, &keys.outer);
    }
    if (arrived && !r && reason == DROP_not_our_mac)
        engine_drop(e, reason, 0);
    else if (arrived && (!r || r->is_default))
        offer_host(e, f, reason, r);
    else if (!r) /* the rule that it was forwarded for is gone */
        engine_drop(e, DROP_raw_no_recv, 0);
}

unsigned raw_sniff(struct engine *e, const struct frame *f)
{
    const struct flow_table *t = flow_rules(e);
    struct flow_keys keys;
    unsigned n = 0;

    if (!t) /* they went just now */
        return 0;
    flow_keys_parse(&keys, f);
    for (unsigned i = 0; i < t->sniffers; i++) {
        struct flow_entry *r = flow_table_at(t, i);
        struct wq *wq;

        if (r->drop || !flow_entry_matches(r, &keys))
            continue;
        if (e->rx_from == RX_DIRECT)
            flow_count(r, e->cfg.lane, f->len);
        wq = taker(r, &keys.outer);
        if (wq_engine(wq) != e)
            continue;
        deliver(e, wq, f, r->tag);
        n++;
    }
    return n;
}

static bool was_forwarded(const struct engine *e, const struct engine *to)
{
    for (unsigned i = 0; i < e->forwarded; i++)
        if (e->forwarded_to[i] == to)
            return true;
    return false;
}

void raw_sniff_elsewhere(struct engine *e, const struct frame *f)
{
    const struct flow_table *t = flow_rules(e);
    struct flow_keys keys;

    if (!t) /* they went just now */
        return;
    flow_keys_parse(&keys, f);
    for (unsigned i = 0; i < t->sniffers; i++) {
        const struct flow_entry *r = flow_table_at(t, i);
        struct engine *owner;

        if (r->drop || !flow_entry_matches(r, &keys))
            continue;
        owner = wq_engine(taker(r, &keys.outer));
        if (!owner || owner == e || was_forwarded(e, owner))
            continue;
        rx_forward_copy(e, f, owner);
        counter_inc(&e->counters.rx_copies);
    }
}
