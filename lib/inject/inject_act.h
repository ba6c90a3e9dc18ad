/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the rules of a port (inject.h) do to its frames, one at a time. The port gets the frames and
 * has memory for those that wait; which rule acts, what it changes in a frame and how long a frame
 * waits is decided here, the same for a port of the daemon and one of the laboratory. Pure.
 */
#ifndef UROCE_INJECT_ACT_H
#define UROCE_INJECT_ACT_H

#include "inject.h"

#define INJECT_RULES_MAX 32

/** A rule in use. It lives until no port has it any more. */
struct inject_live {
    struct inject_rule rule;
    struct inject_hits hits;
    ns_t since; /**< when it was made */
};

/** How long a frame waits: until a time, or until a number of packets has passed its port. */
struct inject_wait {
    ns_t due;
    uint64_t after; /**< packets since the port exists, in the frame's direction */
};

/**
 * The rule that has taken the link down. Any thread.
 *
 * @param rule  The port's rules.
 * @param n  How many.
 * @param now  The time.
 * @return  The first such rule; NULL: the link is there.
 */
struct inject_live *inject_link_taker(struct inject_live *const *rule, unsigned n, ns_t now);

/**
 * The rule that decides about a frame. Without a link nothing comes and goes, RoCE or not, whatever
 * other rules say; otherwise it is the first one that picks the packet. If that misses, the next
 * call has the next one. `matched` is counted. Any thread.
 *
 * @param rule  The port's rules.
 * @param n  How many.
 * @param p  The packet, as inject_read() sets it, with its direction; NULL: it is no RoCE frame.
 * @param now  The time.
 * @param next  0 at first, then as the call before has left it: how many rules have been asked.
 * @param index  Set if a rule acts on a packet: its number among those that match.
 * @return  The rule; NULL: none acts.
 */
struct inject_live *inject_choose(struct inject_live *const *rule, unsigned n,
                                  const struct inject_packet *p, ns_t now, unsigned *next,
                                  uint64_t *index);

/**
 * Whether a rule is carried out by a copy of the frame that waits.
 *
 * @param act  The rule's.
 * @return  True: of inject_wait_of(). False: by inject_change().
 */
bool inject_waits(enum inject_act act);

/**
 * How long the copy of a frame waits. It has to be kept before the frame itself passes.
 *
 * @param rule  The rule; inject_waits() is true of its action.
 * @param now  The time.
 * @param passed  Packets that have passed the port in this direction.
 * @return  Until when.
 */
struct inject_wait inject_wait_of(const struct inject_rule *rule, ns_t now, uint64_t passed);

/**
 * Whether a copy may go on.
 *
 * @param wait  How long it waits.
 * @param now  The time.
 * @param passed  Packets that have passed the port in its direction.
 * @return  True when it may.
 */
static inline bool inject_wait_is_over(const struct inject_wait *wait, ns_t now, uint64_t passed)
{
    return wait->due <= now || wait->after <= passed;
}

/**
 * Do to a frame what a rule says that changes the frame alone.
 *
 * @param rule  The rule; inject_waits() is false of its action.
 * @param index  The packet's number among those that match.
 * @param f  The frame, that may be written; icrc_omitted may be cleared.
 * @return  False: it cannot be done, and nothing has changed. True also of rules that change
 *          nothing, and take the frame away.
 */
bool inject_change(const struct inject_rule *rule, uint64_t index, struct frame *f);

/**
 * Count what came of a rule. Any thread.
 *
 * @param live  The rule.
 * @param done  Whether it was done.
 * @return  INJECT_NOTHING: the frame itself passes. INJECT_DROP: it is gone. Otherwise the action,
 *          which has put a copy of the frame in its place.
 */
enum inject_act inject_conclude(struct inject_live *live, bool done);

/**
 * Carries a rule out.
 *
 * @param ctx  As inject_apply() was given it.
 * @param live  The rule.
 * @param index  The packet's number among those that match.
 * @return  False: it misses, as the packet does not have what it changes, or a copy has no room.
 */
typedef bool inject_act_fn(void *ctx, const struct inject_live *live, uint64_t index);

/**
 * What the rules make of a frame: inject_choose(), act and inject_conclude(), until a rule does not
 * miss. Any thread.
 *
 * @param rule  The port's rules.
 * @param n  How many.
 * @param p  As for inject_choose().
 * @param now  The time.
 * @param act  Called for each rule that picks the packet.
 * @param ctx  For act.
 * @return  As of inject_conclude().
 */
enum inject_act inject_apply(struct inject_live *const *rule, unsigned n,
                             const struct inject_packet *p, ns_t now, inject_act_fn *act,
                             void *ctx);

#endif
