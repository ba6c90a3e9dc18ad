/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files that judge: frames that belong together, found by their PSN. */
#ifndef UROCE_REPLAY_JUDGE_H
#define UROCE_REPLAY_JUDGE_H

#include <string.h>

#include "host.h"

/* Notes what differs between two frames that belong together; s is then matched. */
void judge_note_fields(struct run *r, struct sent *s, const struct rec *rec, uint64_t fields);

/* The most similar of n recorded copies (at least one); *fields: what differs all the same. */
unsigned judge_most_similar(struct rec *const *copy, unsigned n, const struct sent *s,
                            uint64_t *fields);

/* The frames that have this PSN, of n that are sorted by it: the first's index, and how many. */
unsigned judge_find_psn(struct rec *const *sorted, unsigned n, int64_t psn, unsigned *count);

/* answers.c: what the queue pair answered to the peer's requests. */
void replay_judge_answers(struct run *r, struct our_qp *q);

static inline bool is_request(const struct pkt *p)
{
    return pkt_info(p)->flags & PF_REQUEST;
}

static inline bool is_ack(const struct pkt *p)
{
    return pkt_info(p)->kind == KIND_ACK;
}

/* n cleared flags, to be freed. */
static inline uint8_t *flags_for(unsigned n)
{
    uint8_t *flags = replay_grow(NULL, n + 1);

    memset(flags, 0, n + 1);
    return flags;
}

#endif
