/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What forged packets can make the manager send: answers to messages of no connection, which each
 * port sends at a limited rate; and the repetitions of a REP to an address that asked for a
 * connection, and has not shown that it gets the answers.
 */
#include "cm_state.h"

bool cm_bucket_take(struct cm_bucket *b, const struct cm_rate *rate, ns_t now)
{
    ns_t full = max_of(b->full, now) + rate->interval;

    if (full - now > rate->burst * rate->interval)
        return false;
    b->full = full;
    return true;
}

bool cm_limit_answer(struct cm *cm, const struct cm_path *way)
{
    const struct cm_rate rate = {cm->config.answers, NS_PER_SEC / cm->config.answers};

    if (cm_bucket_take(&cm->answers[way->port % CM_ANSWER_BUCKETS], &rate, cm->rx_time))
        return true;
    cm->counters.answers_limited++;
    return false;
}

/* Addresses that share a bucket share its tokens; which ones do is secret. */
static struct cm_bucket *peer_bucket(struct cm_id *id)
{
    const union gid *peer = &id->path.dgid;
    uint64_t key[] = {peer->word[0], peer->word[1]};

    return &id->cm->unproven[cm_hash_of(id->cm->config.secret, key, ARRAY_SIZE(key)) %
                             CM_PEER_BUCKETS];
}

bool cm_limit_repetition(struct cm_id *id, ns_t now)
{
    static const struct cm_rate rate = {CM_UNPROVEN_BURST, NS_PER_SEC / CM_UNPROVEN_RATE};

    if (id->proven || id->state != CM_REP_SENT || cm_bucket_take(peer_bucket(id), &rate, now))
        return true;
    id->cm->counters.repetitions_limited++;
    return false;
}

void cm_limit_proven(struct cm_id *id)
{
    id->proven = true;
    if (id->role == CM_PASSIVE)
        peer_bucket(id)->full = 0;
}
