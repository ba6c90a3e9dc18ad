/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that answers late: a mem_caller that puts off some calls of the kit's copying backend, as
 * the dataplane's copiers do. Calls of one engine end in their order; those that copy to the engine
 * have no bytes for it. As with the dataplane the bytes of frames stay until then, and no others.
 */
#include <errno.h>
#include <stdlib.h>

#include "kit_internal.h"

#define LATE_MAX (100 * NS_PER_US)

struct kit_late_call {
    struct mem_call call;
    ns_t due;
    struct kit_late_call *next;
};

static struct kit_late_call *new_call(void)
{
    return kit_alloc(sizeof(struct kit_late_call));
}

static void free_call(struct kit_late_call *c)
{
    free(c->call.own);
    free(c);
}

static void end_first(struct kit_engine *p, bool in_time)
{
    struct kit_late_call *c = p->late;

    p->late = c->next;
    if (in_time)
        mem_call_run(&c->call);
    engine_call_ended(p->engine, &c->call, in_time, p->node->kit->now);
    free_call(c);
}

static void end_all(struct kit_node *n, bool in_time)
{
    for (unsigned i = 0; i < n->engines; i++)
        while (n->part[i].late)
            end_first(&n->part[i], in_time);
}

void kit_late_end_all(struct kit_node *n)
{
    end_all(n, true);
}

void kit_hold_calls(struct kit_node *n, bool hold)
{
    n->holds_calls = hold;
}

void kit_end_calls(struct kit_node *n)
{
    end_all(n, true);
}

void kit_give_up_calls(struct kit_node *n)
{
    end_all(n, false);
}

static bool refuses(struct mem_caller *caller, const struct mem_region *mr)
{
    return true;
}

void kit_refuse_calls(struct kit_node *n, bool refuse)
{
    n->refuses_calls = refuse;
    for (unsigned i = 0; i < n->engines; i++) {
        n->part[i].caller.full = refuse;
        if (!refuse)
            engine_memory_has_room(n->part[i].engine, n->kit->now);
    }
}

/* Whether the call is put off by chance: calls follow it, for a time. */
static bool is_late(struct kit_engine *p)
{
    struct kit *k = p->node->kit;

    if (k->now < p->late_until)
        return true;
    if (random_below(&k->late_random, 1000) >= k->config.late)
        return false;
    p->late_until = k->now + random_below(&k->late_random, LATE_MAX);
    return true;
}

/* The frame that a transfer's bytes are in, or NULL. */
static const struct frame *frame_of(const struct kit_engine *p, const struct mem_io *io)
{
    const uint8_t *from = io->local;

    for (unsigned i = 0; i < p->lent_n; i++) {
        const struct frame *f = &p->lent[i];

        if (from >= f->data && from + io->len <= f->data + max_of(f->len, f->room))
            return f;
    }
    return NULL;
}

static bool is_late_frame(const struct kit_engine *p, const struct frame *f)
{
    for (unsigned i = 0; i < p->late_frames; i++)
        if (p->late_frame[i] == f->data)
            return true;
    return false;
}

void kit_late_check_sent(const struct kit_engine *p, const struct frame *sent, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (is_late_frame(p, &sent[i]))
            kit_fail("a frame is sent that a late call writes to");
}

static void check_bytes(struct kit_engine *p, const struct mem_call *c)
{
    for (unsigned i = 0; c->kind != MEM_CALL_ATOMIC && !c->own && i < c->n; i++) {
        const struct frame *f = frame_of(p, &c->io[i]);

        if (c->io[i].len <= MEM_SMALL)
            continue;
        if (!f)
            kit_fail("the bytes of a late call are in no frame, and not its own");
        if (c->kind == MEM_CALL_IN && !is_late_frame(p, f))
            p->late_frame[p->late_frames++] = f->data;
    }
}

static void put_off(struct kit_engine *p, struct kit_late_call *c)
{
    struct kit *k = p->node->kit;

    check_bytes(p, &c->call);
    if (!mem_call_own(&c->call))
        kit_fail("out of memory");
    c->due = p->node->holds_calls ? NS_NEVER : k->now + random_below(&k->late_random, LATE_MAX);
    if (p->late && c->due < p->late_last->due)
        c->due = p->late_last->due;
    *(p->late ? &p->late_last->next : &p->late) = c;
    p->late_last = c;
    p->caller.call = &new_call()->call;
    p->late_calls++;
    if (p->node->on_held)
        p->node->on_held(p->node->on_held_ctx);
}

static bool run_call(struct mem_caller *caller)
{
    struct kit_engine *p = container_of(caller, struct kit_engine, caller);
    struct kit_late_call *c = container_of(caller->call, struct kit_late_call, call);
    bool windows = false;

    /* Windows are bound and invalidated at any time. */
    for (unsigned i = 0; i < c->call.n; i++)
        windows |= c->call.io[i].window != NULL;
    if (p->node->refuses_calls && c->call.kind == MEM_CALL_IN) {
        for (unsigned i = 0; i < c->call.n; i++)
            c->call.io[i].status = -EBUSY;
        return true;
    }
    if (p->node->holds_calls || (!windows && is_late(p))) {
        put_off(p, c);
        return false;
    }
    mem_call_run(&c->call);
    return true;
}

void kit_late_init(struct kit_engine *p, struct engine_config *config)
{
    p->caller = (struct mem_caller){.call = &new_call()->call, .run = run_call, .refuses = refuses};
    config->host.mem_caller = &p->caller;
}

void kit_late_fini(struct kit_engine *p)
{
    struct kit_late_call *next;

    for (struct kit_late_call *c = p->late; c; c = next) {
        next = c->next;
        free_call(c);
    }
    p->late = NULL;
    if (p->caller.call)
        free(container_of(p->caller.call, struct kit_late_call, call));
}

ns_t kit_late_next(const struct kit_engine *p)
{
    return p->late ? p->late->due : NS_NEVER;
}

bool kit_late_end(struct kit *k, struct kit_engine *p)
{
    if (!p->late || p->late->due > k->now)
        return false;
    end_first(p, true);
    return true;
}
