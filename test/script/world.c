/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine under test, the clock, and the engine's output. */
#include <stdlib.h>
#include <string.h>

#include "mem_window.h"
#include "script.h"

#define MAX_TURNS 10000

/* ---- the host of the engine ---- */

static void note(struct script *s, enum qp_event event, void *who)
{
    if (s->events == MAX_EVENTS)
        fail(s, "more than %u events", MAX_EVENTS);
    s->event[s->events++] = (struct noted){event, who};
}

static void on_cq_event(void *ctx, struct comp_queue *cq)
{
    ((struct kit_cq *)cq->owner)->events++;
}

static void on_async_event(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
    note(ctx, event, qp ? qp_owner(qp) : cq->owner);
}

static void on_srq_event(void *ctx, struct srq *srq, enum qp_event event)
{
    note(ctx, event, srq_owner(srq));
}

/* ---- objects ---- */

void object_add(struct script *s, enum object_kind kind, const char *name, void *p)
{
    struct object *o = &s->object[s->objects];

    if (s->objects == MAX_OBJECTS)
        fail(s, "script: more than %u objects", MAX_OBJECTS);
    snprintf(o->name, sizeof(o->name), "%s", name);
    o->kind = kind;
    o->p = p;
    s->objects++;
}

void *object(struct script *s, enum object_kind kind, const char *name)
{
    static const char *const what[] = {"queue pair",       "memory region", "memory window",
                                       "completion queue", "shared queue",  "address handle"};

    for (unsigned i = 0; i < s->objects; i++)
        if (s->object[i].kind == kind && (!name || !strcmp(s->object[i].name, name)))
            return s->object[i].p;
    fail(s, "script: there is no %s %s", what[kind], name ? name : "yet");
}

const char *object_name(struct script *s, const void *p)
{
    for (unsigned i = 0; i < s->objects; i++)
        if (s->object[i].p == p)
            return s->object[i].name;
    return "?";
}

/* ---- life ---- */

void world_engine(struct script *s, const struct engine_config *settings)
{
    struct engine_config config = *settings;

    config.port = &s->node->port;
    config.mrs = &s->node->mrs;
    config.qps = s->qps;
    config.srqs = s->srqs;
    config.ahs = s->ahs;
    config.host = (struct engine_host){s, on_cq_event, NULL, on_async_event, on_srq_event};

    if (s->engine)
        engine_destroy(s->engine);
    s->engine = engine_create(&config);
    if (!s->engine)
        kit_fail("out of memory");
}

void world_open(struct script *s)
{
    s->kit = kit_create(&(struct kit_config){.seed = 1});
    s->node = &s->kit->node[0];
    s->peer = &s->kit->node[1];
    s->qps = qp_table_create(NULL);
    s->srqs = srq_table_create(NULL);
    s->ahs = ah_table_create(NULL);
    s->start = s->now = NS_PER_SEC + 321;
    s->next_wr = 1;
    s->next_recv = 101;
    if (!s->qps || !s->srqs || !s->ahs)
        kit_fail("out of memory");
    world_engine(s, &(struct engine_config){.entropy = {ENTROPY_KERNEL, 0}});
    object_add(s, OBJ_CQ, "cq", kit_cq_create(s->node, 256));
}

static void close_qp(struct script *s, struct script_qp *qp)
{
    engine_qp_detach(s->engine, qp->qp);
    qp_free(qp->qp);
    free(qp->shared);
    free(qp->sq);
    free(qp->rq);
    free(qp);
}

static void close_srq(struct script_srq *srq)
{
    srq_free(srq->srq);
    free(srq->shared);
    free(srq->ring);
    free(srq);
}

static void close_object(struct script *s, const struct object *o)
{
    switch (o->kind) {
    case OBJ_QP:
        close_qp(s, o->p);
        break;
    case OBJ_SRQ:
        close_srq(o->p);
        break;
    case OBJ_AH:
        address_handle_unpublish(s->ahs, o->p);
        address_handle_free(o->p);
        break;
    case OBJ_MW:
        window_unbind(o->p);
        mr_remove(&s->node->mrs, o->p);
        free(o->p);
        break;
    default: /* the kit's */
        break;
    }
}

void object_close(struct script *s, void *p)
{
    for (unsigned i = 0; i < s->objects; i++) {
        if (s->object[i].p != p)
            continue;
        close_object(s, &s->object[i]);
        s->objects--;
        memmove(&s->object[i], &s->object[i + 1], (s->objects - i) * sizeof(s->object[0]));
        return;
    }
}

void world_close(struct script *s)
{
    /* The youngest first: a queue pair is destroyed before the shared queue that it uses. */
    while (s->objects)
        close_object(s, &s->object[--s->objects]);
    for (unsigned i = 0; i < s->sents; i++)
        free(s->sent[i].data);
    for (unsigned i = 0; i < s->bursts; i++)
        free(s->burst[i].data);
    engine_destroy(s->engine);
    qp_table_destroy(s->qps);
    srq_table_destroy(s->srqs);
    ah_table_destroy(s->ahs);
    kit_destroy(s->kit);
}

/* ---- frames out ---- */

static void describe(const struct sent *f, char *text, size_t size)
{
    pkt_format(text, size, &f->pkt);
}

void expect_no_frame(struct script *s)
{
    char text[256];
    const struct sent *f = &s->sent[s->taken];

    if (s->taken == s->sents)
        return;
    describe(f, text, sizeof(text));
    fail(s, "a frame that no line expects: %s (at %.3f us)", text,
         (double)(f->at - s->start) / 1000);
}

/* Checks of every frame, in all cases. */
static void judge(struct script *s, struct sent *f)
{
    static const struct gid_table none;
    const struct encap_port any = {.promiscuous = true, .gids = &none};
    enum drop why = encap_rx(&f->view, f->data, f->len, &any);

    memset(&f->pkt, 0, sizeof(f->pkt));
    if (why == DROP_NONE)
        why = pkt_parse(&f->pkt, f->view.bth, f->view.bth_len);
    if (why != DROP_NONE)
        fail(s, "the engine sent a frame of %u bytes that is unsound: %s", f->len, drop_name(why));
    if (!icrc_verify(f->view.l3_kind, f->view.l3, f->view.l3_len))
        fail(s, "the engine sent a frame with a wrong ICRC");
    for (unsigned i = 0; i < f->pkt.pad; i++)
        if (f->pkt.payload[f->pkt.payload_len + i])
            fail(s, "the engine sent a frame whose pad is not zero");
    if (f->len != (size_t)(f->view.l3 - f->data) + f->view.l3_len)
        fail(s, "the engine sent a frame that is longer than its IP length");
}

static void keep(struct script *s, const struct frame *frame)
{
    struct sent *f = &s->sent[s->sents];
    char text[256];

    if (s->sents == MAX_FRAMES)
        fail(s, "more than %u frames", MAX_FRAMES);
    f->at = s->now;
    f->len = frame->len;
    f->data = kit_alloc(frame->len);
    memcpy(f->data, frame->data, frame->len);
    s->sents++;
    judge(s, f);
    if (!s->trace)
        return;
    describe(f, text, sizeof(text));
    fprintf(stderr, "%12.3f us  out %s\n", (double)(s->now - s->start) / 1000, text);
}

static unsigned pull(struct script *s, unsigned max)
{
    struct frame frame[FRAME_BURST];
    bool wanted = engine_wants_tx(s->engine);
    unsigned n;

    for (unsigned i = 0; i < max; i++) {
        memset(s->node->tx[i], 0xEE,
               KIT_FRAME_ROOM); /* bytes that the engine leaves unwritten show */
        frame[i] = (struct frame){.data = s->node->tx[i], .room = KIT_FRAME_ROOM};
    }
    n = engine_tx(s->engine, frame, max, s->now);
    if (n && !wanted)
        fail(s, "the engine sent though engine_wants_tx said no");
    for (unsigned i = 0; i < n; i++)
        keep(s, &frame[i]);
    return n;
}

void pump(struct script *s, unsigned max)
{
    while (max) {
        unsigned n = pull(s, min_of(max, (unsigned)FRAME_BURST));

        if (!n)
            return;
        max -= n;
    }
}

void advance(struct script *s, ns_t to, bool to_frame)
{
    for (unsigned turns = 0; turns < MAX_TURNS; turns++) {
        ns_t timer = engine_next_timer(s->engine);

        if (to_frame && s->taken < s->sents)
            return;
        if (timer > to) {
            s->now = max_of(s->now, to);
            return;
        }
        s->now = max_of(s->now, timer);
        engine_timers(s->engine, s->now);
        if (!s->held)
            pump(s, MAX_FRAMES);
    }
    fail(s, "the timers never end");
}
