/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations: each returns the value before it, and the responder has the last value. */
#include "verify.h"

#include <string.h>

#define STEPS  16
#define OFFSET 128 /* of the 8 bytes in the responder's region */

struct step {
    uint64_t compare_add, swap, before, after;
};

/* Step i on a value: both sides know the result. */
static struct step step_at(const struct test *t, uint64_t seed, unsigned i, uint64_t before)
{
    struct step step = {.compare_add = mix(seed, 2 * i), .swap = mix(seed, 2 * i + 1), before};

    if (t->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        step.swap = 0;
        step.after = before + step.compare_add; /* modulo 2^64 */
    } else {
        if (i & 1) /* every other comparison succeeds */
            step.compare_add = before;
        step.after = step.compare_add == before ? step.swap : before;
    }
    return step;
}

static uint64_t last_value(const struct test *t, uint64_t seed, uint64_t value)
{
    for (unsigned i = 0; i < STEPS; i++)
        value = step_at(t, seed, i, value).after;
    return value;
}

static struct layout eight_bytes(void)
{
    struct layout l = {.pieces = 1, .extent = 2 * OFFSET};

    l.piece[0].offset = OFFSET;
    l.piece[0].length = 8;
    return l;
}

static enum outcome respond(struct session *s, const struct test *t, struct endpoint *ep,
                            uint64_t seed, struct window *w)
{
    struct layout l = eight_bytes();
    struct target where = {.addr = (uintptr_t)ep->remote.bytes + OFFSET,
                           .rkey = ep->remote.mr->rkey};
    uint64_t value = mix(seed, 1000), found;
    uint8_t good = PASSED;

    region_guard(&ep->remote, &l, seed);
    memcpy(ep->remote.bytes + OFFSET, &value, 8);
    if (t->how & WINDOW_2) {
        TRY(window_bind(s, ep, w, IBV_MW_TYPE_2, where.addr, 8));
        where.rkey = w->mw->rkey;
    }
    TRY(tell_target(s, &where));
    TRY(peer_hear(s, NULL, 0));
    memcpy(&found, ep->remote.bytes + OFFSET, 8);
    value = last_value(t, seed, value);
    if (found != value)
        return fail(s, "the value is 0x%lx at the end instead of 0x%lx", (unsigned long)found,
                    (unsigned long)value);
    region_fill(&ep->remote, &l, seed); /* only the bytes around it remain to be checked */
    TRY(region_check(s, "the responder's memory", &ep->remote, &l, 0, 8, seed, seed));
    if (w->mw)
        TRY(window_unbind(s, ep, w));
    return peer_tell(s, &good, 1);
}

static enum outcome one_step(struct session *s, const struct test *t, struct endpoint *ep,
                             const struct target *where, const struct step *step, uint64_t seed)
{
    struct layout l = layout_make(seed, 8, 1);
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.wr_id = seed,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = t->op,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.atomic = {.remote_addr = where->addr,
                                           .rkey = where->rkey,
                                           .compare_add = step->compare_add,
                                           .swap = step->swap}};
    struct ibv_wc wc;
    uint64_t found;

    region_guard(&ep->local, &l, seed);
    layout_sges(&l, &ep->local, &sge);
    TRY(post_send(s, ep, &wr));
    TRY(await_success(s, ep, SEND_SIDE, wr.wr_id,
                      t->op == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD,
                      &wc));
    memcpy(&found, ep->local.bytes + l.piece[0].offset, 8);
    if (wc.byte_len != 8)
        return fail(s, "byte_len of an atomic is %u", wc.byte_len);
    if (found != step->before)
        return fail(s, "an atomic returned 0x%lx instead of 0x%lx", (unsigned long)found,
                    (unsigned long)step->before);
    region_fill(&ep->local, &l, seed);
    return region_check(s, "the requester's memory", &ep->local, &l, 0, 8, seed, seed);
}

static enum outcome request(struct session *s, const struct test *t, struct endpoint *ep,
                            uint64_t seed)
{
    uint64_t value = mix(seed, 1000);
    struct target where;
    uint8_t verdict;

    TRY(hear_target(s, &where));
    for (unsigned i = 0; i < STEPS; i++) {
        struct step step = step_at(t, seed, i, value);

        TRY(one_step(s, t, ep, &where, &step, mix(seed, 100 + i)));
        value = step.after;
        s->moved++;
    }
    TRY(peer_tell(s, NULL, 0));
    return peer_hear(s, &verdict, 1);
}

enum outcome atomics(struct session *s, const struct test *t, bool requester)
{
    struct endpoint_options opt = {.type = t->type,
                                   .psn = t->how & PSN_WRAP ? PSN_MASK - STEPS / 2
                                                            : s->seed & PSN_MASK,
                                   .room = PAGE,
                                   .qp_access = -1};
    struct window window = {0};
    struct endpoint ep;
    enum outcome result = PASSED;

    if (s->device.atomic_cap == IBV_ATOMIC_NONE)
        return skip(s, "the device has no atomic operations");
    TRY(endpoint_open(s, &ep, &opt));
    for (unsigned i = 0; i < s->opt.rounds && result == PASSED; i++) {
        uint64_t seed = mix(s->seed, i);

        result = requester ? request(s, t, &ep, seed) : respond(s, t, &ep, seed, &window);
    }
    if (result == PASSED)
        result = expect_no_more(s, &ep);
    window_close(&window);
    endpoint_close(&ep);
    return result;
}
