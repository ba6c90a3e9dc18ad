/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that judge: pairs of sent and recorded frames, found by their PSN. */
#ifndef UROCE_REPLAY_JUDGE_H
#define UROCE_REPLAY_JUDGE_H

#include <string.h>

#include "host.h"

/* Records the differences between two frames of a pair; s is then matched. */
void judge_note_fields(struct run *r, struct sent *s, const struct rec *rec, uint64_t fields);

/* The most similar of n recorded copies (at least one); *fields: the remaining differences. */
unsigned judge_most_similar(struct rec *const *copy, unsigned n, const struct sent *s,
                            uint64_t *fields);

/* The frames with this PSN, among n frames sorted by PSN: the index of the first, and their number.
 */
unsigned judge_find_psn(struct rec *const *sorted, unsigned n, int64_t psn, unsigned *count);

/* answers.c: compares the queue pair's answers to the peer's requests. */
void replay_judge_answers(struct run *r, struct our_qp *q);

static inline bool is_request(const struct pkt *p)
{
    return pkt_info(p)->flags & PF_REQUEST;
}

static inline bool is_ack(const struct pkt *p)
{
    return pkt_info(p)->kind == KIND_ACK;
}

/* n cleared flags; the caller frees them. */
static inline uint8_t *flags_for(unsigned n)
{
    uint8_t *flags = replay_grow(NULL, n + 1);

    memset(flags, 0, n + 1);
    return flags;
}

#endif
