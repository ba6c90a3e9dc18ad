/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two pairs of engines with the same work. In the first pair both ends use the batch path where it
 * applies. In the second pair the requester takes work requests one by one, the responder's memory
 * is not mapped, both get their frames as forwarded frames, and the responder builds its answers
 * one at a time, so that all work uses the general path. Whatever the applications and the network
 * do, both pairs must send the same frames (except for the IP identification and the checksums over
 * it) and have the same memory, completions, events and counters.
 */
#ifndef UROCE_TEST_PAIR_KIT_H
#define UROCE_TEST_PAIR_KIT_H

#include "batch_kit.h"
#include "engine_private.h"

#define PAIR_BURSTS  60 /* of a trial */
#define ATOMIC_WORDS 4  /* at the start of the responder's memory, which begin as 0 */

struct chain {
    struct side a, b; /* requester, responder */
    bool general;
    struct frame frames[FRAME_BURST];
    uint8_t bytes[FRAME_BURST][ROOM];
    unsigned n;
    uint64_t arrived[2]; /* frames at a, at b */
};

/* The parameters of a trial. */
struct nature {
    uint32_t psn, calm, inflight;
    uint32_t marked; /* per cent of the frames */
    uint32_t qp_access, local_access, remote_access;
    bool icrc_omitted;
};

/* What the requester of a trial asks for: one of n, each as likely as the others; and the rights of
 * responders that refuse it. */
struct ops {
    uint8_t op[16];
    unsigned n;
    uint32_t refused;
    ns_t step; /* between two bursts, unless it is one that all timers end in */
};

/* A work request. */
struct wish {
    uint8_t op, flags;
    uint32_t len, from, to;
    uint64_t compare_add, swap;
    bool in_two; /* SGEs, the first one of `cut` bytes */
    uint32_t cut;
    bool in_header;                 /* SGE in the header, if it may be there */
    bool is_inline;                 /* of an ATOMIC WRITE */
    uint8_t placement, selectivity; /* of a FLUSH */
    int wrong;                      /* which error it has; mostly none */
    bool other_from, other_to;      /* regions */
};

/* All of a trial. Returns how many packets the requester got. */
uint64_t pair_trial(uint64_t seed, const struct ops *ops);

void chain_init(struct chain *c, bool general, const struct nature *n);
void chain_fini(struct chain *c);
void post(struct chain *c, const struct wish *w);
/* Fetches the frames that `from` sends; receive() then delivers those that the network leaves. */
void send_from(struct chain *c, struct side *from, const struct nature *n, ns_t now);
void receive(struct chain *c, struct side *to, const struct nature *n, struct random r, ns_t now);
void check_frames(const struct chain *fast, const struct chain *slow);
void check_pairs(const struct chain *fast, const struct chain *slow);

/* ---- one burst each, in which something is forged ---- */

extern const struct nature calm;

/* Requests of both pairs arrive, or answers. */
void exchange(struct chain pair[2], bool answers, void (*forge)(struct chain *c));
/* Each to another address. */
void post_both(struct chain pair[2], enum sqe_op op, uint32_t len);
/* After one READ, so that both engines have learned their templates. */
void pair_begin(struct chain pair[2]);
void pair_end(struct chain pair[2]);
/* Frame `to` becomes a copy of frame `from`, its PSN increased by psns. */
void copy_frame(struct chain *c, unsigned to, unsigned from, uint32_t psns);

#endif
