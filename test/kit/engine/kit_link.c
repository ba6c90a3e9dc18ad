/* SPDX-License-Identifier: BSD-3-Clause */
/* What one node sends: frames in flight, ordered by arrival, and their random fates. */
#include <stdlib.h>
#include <string.h>

#include "encap_layout.h"
#include "frame_peek.h"
#include "frame_trim.h"
#include "kit_internal.h"

struct kit_flight {
    ns_t at;
    uint64_t order; /* of sending: ties arrive in this order */
    unsigned to;    /* node */
    uint32_t len;
    uint8_t data[];
};

static bool earlier(const struct kit_flight *a, const struct kit_flight *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void heap_push(struct kit_link *l, struct kit_flight *f)
{
    unsigned i = l->heap_len++;

    if (i == l->heap_room) {
        l->heap_room = max_of(2 * l->heap_room, 64u);
        l->heap = kit_grow(l->heap, l->heap_room * sizeof(*l->heap));
    }
    for (; i && earlier(f, l->heap[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = f;
}

static struct kit_flight *heap_pop(struct kit_link *l)
{
    struct kit_flight *first = l->heap[0], *last = l->heap[--l->heap_len];
    unsigned i = 0, child;

    while ((child = 2 * i + 1) < l->heap_len) {
        if (child + 1 < l->heap_len && earlier(l->heap[child + 1], l->heap[child]))
            child++;
        if (!earlier(l->heap[child], last))
            break;
        l->heap[i] = l->heap[child];
        i = child;
    }
    l->heap[i] = last;
    return first;
}

void kit_link_init(struct kit *k, unsigned from)
{
    struct kit_link *l = &k->link[from];

    l->config = k->config.link[from];
    if (!l->config.delay)
        l->config.delay = 2 * NS_PER_US;
    if (!l->config.jitter)
        l->config.jitter = 20 * NS_PER_US;
    l->kit = k;
    l->from = from;
    l->random.state = random_next(&k->random);
    l->chance.state = random_next(&k->random);
    l->detail_seed = random_next(&k->random);
    if (l->config.losses_per_psn)
        l->losses = kit_alloc(KIT_LOSSES * sizeof(*l->losses));
}

void kit_link_fini(struct kit_link *l)
{
    while (l->heap_len)
        free(heap_pop(l));
    free(l->heap);
    free(l->log);
    free(l->losses);
}

/* The node with the frame's destination MAC. With two nodes always the other one. */
static unsigned destination(const struct kit *k, const struct kit_link *l, const uint8_t *data)
{
    if (k->nodes == 2)
        return !l->from;
    if (data[0] & 1)
        return KIT_ANY;
    for (unsigned i = 0; i < k->nodes; i++)
        if (!memcmp(data, k->node[i].port.mac, 6))
            return i;
    kit_fail("a frame to a MAC that no node has");
}

static struct kit_flight *put_in_flight(struct kit_link *l, unsigned to, const uint8_t *data,
                                        uint32_t len, ns_t at)
{
    /* Exactly as large as the frame, so that a sanitizer reports a read beyond it. */
    struct kit_flight *f = kit_alloc(sizeof(*f) + len);

    f->at = at;
    f->order = l->order++;
    f->to = to;
    f->len = len;
    memcpy(f->data, data, len);
    heap_push(l, f);
    return f;
}

enum drop kit_frame_view(struct encap_view *v, const uint8_t *data, uint32_t len)
{
    static const struct gid_table none;
    const struct encap_port any = {.promiscuous = true, .gids = &none};

    return encap_rx(v, data, len, &any);
}

static struct kit_seen look(const struct kit *k, const uint8_t *data, uint32_t len)
{
    struct kit_seen seen = {.at = k->now, .len = len};
    struct encap_view v;

    if (kit_frame_view(&v, data, len) == DROP_NONE)
        seen.parsed = pkt_parse(&seen.pkt, v.bth, v.bth_len) == DROP_NONE;
    return seen;
}

void kit_frame_reseal(uint8_t *data, uint32_t len)
{
    struct encap_view v;
    enum drop why = kit_frame_view(&v, data, len);

    if (why != DROP_NONE)
        kit_fail("kit_frame_reseal: the frame's outer headers are unsound: %s", drop_name(why));
    icrc_seal(v.l3_kind, data + (v.l3 - data), v.l3_len - ICRC_LEN);
}

/* As a switch does, if the sender says that it reacts. */
static void mark_frame(struct kit_link *l, uint8_t *data, uint32_t len)
{
    struct encap_view v;

    if (kit_frame_view(&v, data, len) != DROP_NONE || (v.traffic_class & ECN_MASK) != ECN_ECT0)
        return;
    frame_mark(data, len);
    l->marked++;
}

/* The switch: when the frame leaves it, and its mark. */
static ns_t through_neck(struct kit *k, struct kit_link *l, uint8_t *data, uint32_t len, ns_t now)
{
    const uint64_t bps = l->config.neck.bps;
    uint64_t queued;

    k->neck_until = max_of(k->neck_until, now);
    queued = (k->neck_until - now) * bps / 8 / NS_PER_SEC;
    k->neck_most = max_of(k->neck_most, queued);
    if (queued > l->config.neck.mark_bytes)
        mark_frame(l, data, len);
    k->neck_until += (ns_t)len * 8 * NS_PER_SEC / bps;
    return k->neck_until;
}

static bool chance(struct kit_link *l, unsigned per_mille)
{
    return per_mille && random_below(&l->chance, 1000) < per_mille;
}

/* Whether this frame may be lost; counts the losses of its PSN, in a small lossy table. */
static bool may_lose(struct kit_link *l, const struct kit_seen *seen)
{
    uint32_t qpn = seen->pkt.dest_qpn, at = seen->pkt.psn.v;
    unsigned i = (at ^ qpn << 7) % KIT_LOSSES;

    if (!l->config.losses_per_psn || !seen->parsed)
        return true;
    if (l->losses[i].qpn != qpn || l->losses[i].psn != at || l->losses[i].to != seen->to)
        l->losses[i] = (struct kit_losses){.qpn = qpn, .psn = at, .to = seen->to};
    return l->losses[i].count++ < l->config.losses_per_psn;
}

static bool hits(const struct kit_spell *s, unsigned from, unsigned to)
{
    return (s->from == KIT_ANY || s->from == from) && (s->to == KIT_ANY || s->to == to);
}

static bool lost_in_weather(const struct kit *k, struct kit_link *l, const struct kit_seen *seen)
{
    ns_t at = k->now - k->start;

    for (unsigned i = 0; i < k->config.spells; i++) {
        const struct kit_spell *s = &k->config.spell[i];

        if (at < s->start || at >= s->end || seen->len <= s->longer_than)
            continue;
        if (hits(s, l->from, seen->to) || (s->both_ways && hits(s, seen->to, l->from)))
            return true;
    }
    if (chance(l, l->in_burst ? l->config.burst_end : l->config.burst_start))
        l->in_burst = !l->in_burst;
    return l->in_burst;
}

/* The frame's fate in the run that is repeated. */
static enum kit_verdict replayed(const struct kit *k, struct kit_link *l)
{
    const struct kit_fates *f = k->config.replay;

    for (; l->replayed < f->n; l->replayed++) {
        const struct kit_fate *fate = &f->fate[l->replayed];

        if (fate->link != l->from || fate->index < l->frames)
            continue;
        return fate->index == l->frames ? (enum kit_verdict)fate->verdict : KIT_PASS;
    }
    return KIT_PASS;
}

static enum kit_verdict by_chance(struct kit_link *l, const struct kit_seen *seen)
{
    enum kit_verdict lost = chance(l, l->config.drop)      ? KIT_DROP
                            : chance(l, l->config.corrupt) ? KIT_CORRUPT
                                                           : KIT_PASS;

    if (lost != KIT_PASS && may_lose(l, seen))
        return lost;
    if (chance(l, l->config.reorder))
        return KIT_REORDER;
    return chance(l, l->config.duplicate) ? KIT_DUPLICATE : KIT_PASS;
}

static enum kit_verdict decide(const struct kit *k, struct kit_link *l, const struct kit_seen *seen)
{
    unsigned bit = l->frames - l->loss_first;

    if (bit < 64 && l->loss_mask >> bit & 1)
        return KIT_DROP;
    if (k->config.replay)
        return replayed(k, l);
    return lost_in_weather(k, l, seen) ? KIT_DROP : by_chance(l, seen);
}

static void note_fate(struct kit_fates *f, const struct kit_link *l, enum kit_verdict verdict)
{
    if (f->n < f->room)
        f->fate[f->n++] = (struct kit_fate){l->frames, (uint8_t)l->from, (uint8_t)verdict};
}

static void corrupt(struct random *r, struct kit_flight *f)
{
    unsigned flips = 1 + random_below(r, 3);

    if (!random_below(r, 8)) {
        f->len = random_below(r, f->len + 1);
        return;
    }
    /* Distinct bits: two flips of the same bit would repair the frame. */
    for (unsigned i = 0; i < flips; i++) {
        uint32_t bit = random_below(r, f->len * 8 / flips) + i * (f->len * 8 / flips);

        f->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* What a switch does that trims: the headers overtake what waits. False: the frame is dropped. */
static bool trimmed(struct kit_link *l, struct random *r, unsigned to, const uint8_t *data,
                    uint32_t len)
{
    const struct kit *k = l->kit;
    uint8_t headers[FRAME_TRIM_MAX];
    struct encap_view v;

    if (!k->config.trim || random_below(r, 2) || kit_frame_view(&v, data, len) != DROP_NONE ||
        !frame_may_be_trimmed(&v))
        return false;
    len = min_of(len, (uint32_t)FRAME_TRIM_MAX);
    memcpy(headers, data, len);
    len = frame_trim(headers, len, k->config.trim);
    if (!len)
        return false;
    put_in_flight(l, to, headers, len, k->now + l->config.delay / 2);
    l->trimmed++;
    return true;
}

static void carry_out(struct kit_link *l, const struct kit_seen *seen, const uint8_t *data,
                      uint32_t len, ns_t at)
{
    /* A function of the frame alone, so that its fate does not depend on others. */
    struct random r = {.state = l->detail_seed + l->frames};
    ns_t late = 1 + random_below(&r, (uint32_t)l->config.jitter);

    switch (seen->verdict) {
    case KIT_PASS:
        put_in_flight(l, seen->to, data, len, at);
        break;
    case KIT_DROP:
        if (!trimmed(l, &r, seen->to, data, len))
            l->dropped++;
        break;
    case KIT_DUPLICATE:
        l->duplicated++;
        put_in_flight(l, seen->to, data, len, at);
        put_in_flight(l, seen->to, data, len, at + late);
        break;
    case KIT_CORRUPT:
        l->corrupted++;
        corrupt(&r, put_in_flight(l, seen->to, data, len, at));
        break;
    case KIT_REORDER:
        l->reordered++;
        put_in_flight(l, seen->to, data, len, at + late);
        break;
    }
}

static void trace(const struct kit *k, const struct kit_link *l, const struct kit_seen *seen)
{
    static const char *const verdict[] = {"", " [drop]", " [dup]", " [corrupt]", " [reorder]"};
    char text[256] = "unparsed";

    if (seen->parsed)
        pkt_format(text, sizeof(text), &seen->pkt);
    fprintf(stderr, "%10.3f us  %u>%u #%u %s%s\n", (double)k->now / 1000, l->from, seen->to,
            l->frames, text, verdict[seen->verdict]);
}

static void log_frame(struct kit_link *l, const struct kit_seen *seen)
{
    if (l->log_len == l->log_room) {
        l->log_room = max_of(2 * l->log_room, 64u);
        l->log = kit_grow(l->log, l->log_room * sizeof(*l->log));
    }
    l->log[l->log_len] = *seen;
    l->log[l->log_len++].pkt.payload = NULL;
}

/* A function of the frame alone: other chances are as they are without marks. */
static bool marked_by_chance(const struct kit_link *l)
{
    struct random r = {.state = l->detail_seed + l->frames};

    return l->config.mark && random_below(&r, 1000) < l->config.mark;
}

void kit_link_send(struct kit *k, struct kit_link *l, uint8_t *data, uint32_t len)
{
    struct kit_seen seen = look(k, data, len);
    ns_t at;

    if (!seen.parsed)
        kit_fail("an engine sent a frame of %u bytes that does not parse", len);
    seen.to = destination(k, l, data);
    seen.verdict = l->hook ? l->hook(l->hook_ctx, l->frames, data, &len, &seen) : KIT_PASS;
    if (seen.verdict == KIT_PASS)
        seen.verdict = decide(k, l, &seen);
    if (k->config.record && seen.verdict != KIT_PASS)
        note_fate(k->config.record, l, seen.verdict);
    if (k->trace)
        trace(k, l, &seen);
    if (k->config.log)
        log_frame(l, &seen);
    if (l->config.bps)
        l->busy_until = max_of(l->busy_until, k->now) + (ns_t)len * 8 * NS_PER_SEC / l->config.bps;
    at = max_of(l->busy_until, k->now);
    if (l->config.neck.bps)
        at = through_neck(k, l, data, len, at);
    if (marked_by_chance(l))
        mark_frame(l, data, len);
    carry_out(l, &seen, data, len, at + l->config.delay);
    l->frames++;
}

bool kit_link_ready(const struct kit_link *l, ns_t now)
{
    return !l->config.bps || l->busy_until <= now;
}

ns_t kit_link_next(const struct kit_link *l)
{
    return l->heap_len ? l->heap[0]->at : NS_NEVER;
}

unsigned kit_link_deliver(struct kit *k, struct kit_link *l)
{
    struct kit_flight *flight[FRAME_BURST];
    struct frame frame[FRAME_BURST];
    unsigned limit = 1 + random_below(&l->random, FRAME_BURST), n = 0, to;

    if (kit_link_next(l) > k->now)
        return 0;
    to = l->heap[0]->to;
    while (n < limit && kit_link_next(l) <= k->now && l->heap[0]->to == to) {
        flight[n] = heap_pop(l);
        frame[n] = (struct frame){.data = flight[n]->data, .len = flight[n]->len};
        n++;
    }
    for (unsigned i = 0; i < k->nodes; i++)
        if (i == to || (to == KIT_ANY && i != l->from))
            kit_arrive(k, &k->node[i], frame, n);
    l->delivered += n;
    for (unsigned i = 0; i < n; i++) {
        memset(flight[i]->data, 0xA5, flight[i]->len); /* the frames are released */
        free(flight[i]);
    }
    return n;
}

void kit_link_lose(struct kit_link *l, uint64_t mask)
{
    l->loss_mask = mask;
    l->loss_first = l->frames;
}

unsigned kit_link_count(const struct kit_link *l, uint8_t opcode)
{
    unsigned n = 0;

    for (unsigned i = 0; i < l->log_len; i++)
        n += l->log[i].parsed && l->log[i].pkt.opcode == opcode;
    return n;
}

unsigned kit_link_acks(const struct kit_link *l, uint8_t aeth_class, int value)
{
    unsigned n = 0;

    for (unsigned i = 0; i < l->log_len; i++) {
        const struct pkt *p = &l->log[i].pkt;

        n += l->log[i].parsed && p->opcode == OPCODE(PKT_RC, OP_ACK) &&
             (p->aeth.syndrome & AETH_CLASS_MASK) == aeth_class &&
             (value < 0 || (p->aeth.syndrome & AETH_VALUE_MASK) == value);
    }
    return n;
}

void kit_link_inject(struct kit_link *l, const uint8_t *data, uint32_t len)
{
    struct kit *k = l->kit;

    put_in_flight(l, destination(k, l, data), data, len, k->now + l->config.delay);
}
