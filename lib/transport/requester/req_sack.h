/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known about single packets while some are missing: which of those in flight have arrived,
 * and which were sent again, and when. Taken from the engine when something behind a gap is known
 * to have arrived, given back when the queue pair has caught up: a queue pair without losses has
 * none. req_sack.c keeps it, req_sack_lost.c judges what is lost, and req_recovery.c acts on that.
 * The owner worker.
 *
 * What has arrived need not be sent again, but is not acknowledged thereby: a request that is kept
 * may be refused when its turn comes. What arrived is known of requests by the responder's maps
 * (kept_map.h), by ACKs that wait behind a READ whose responses are not all here, and of READs and
 * atomics by their responses: a PSN of a READ stands for that response.
 */
#ifndef UROCE_REQ_SACK_H
#define UROCE_REQ_SACK_H

#include "engine_private.h"
#include "kept_map.h"
#include "loan.h"

/* From una on: requests that a map is about, and more responses to the last READ. */
#define SACK_PACKETS (2 * KEPT_MAP_PACKETS)
#define SACK_WORDS   (2 * KEPT_MAP_WORDS)

struct sack_bits {
    uint64_t word[SACK_WORDS]; /* bit p % SACK_PACKETS is that of PSN p */
};

struct req_sack {
    struct loan loan;
    psn_t high;     /* behind the last packet that is known to have arrived */
    psn_t expected; /* the peer has executed what is before */
    psn_t executed; /* and has sent its responses */
    psn_t lost_end; /* behind the last packet that was trimmed: req_sack_lose */
    uint32_t order; /* of the last packet that was sent again */
    uint32_t
        arrived_order[2];     /* of the last one of these that has arrived: a request, a response */
    struct sack_bits here;    /* arrived */
    struct sack_bits waits;   /* READs and atomics that the responder keeps, or has executed */
    struct sack_bits parked;  /* of those, the first PSN of each READ that no atomic is before */
    struct sack_bits again;   /* sent again, but not arrived */
    struct sack_bits lost;    /* to be sent again */
    struct sack_bits trimmed; /* of those, the ones that req_sack_lose was told of */
    struct sack_again {
        ns_t at;
        psn_t max; /* what was never sent then */
        uint32_t order;
    } sent[SACK_PACKETS];
};

static inline bool sack_has(const struct sack_bits *b, psn_t p)
{
    return b->word[p.v % SACK_PACKETS / 64] >> p.v % 64 & 1;
}

/* Whether PSN p is one that something can be known about. */
static inline bool sack_covers(const struct qp *qp, psn_t p)
{
    return (uint32_t)psn_diff(p, qp->req.una) < SACK_PACKETS && psn_before(p, qp->req.max_psn);
}

static inline bool sack_is_here(const struct qp *qp, psn_t p)
{
    return qp->req.sack && sack_covers(qp, p) && sack_has(&qp->req.sack->here, p);
}

/* Whether what is missing at PSN p is lost: to be sent again, or sent again and not arrived yet. */
static inline bool sack_is_lost(const struct qp *qp, psn_t p)
{
    const struct req_sack *s = qp->req.sack;

    return s && (sack_has(&s->lost, p) || sack_has(&s->again, p));
}

/* Whether anything may be known about single packets. Without a timer nothing tells that what was
 * sent again is lost, too. */
static inline bool sack_is_agreed(const struct qp *qp)
{
    return unlikely(qp->selective) && qp->ack_timeout && !qp->req.recovery.no_maps;
}

/* Whether a request at una or later has been executed, or a response is here. What is only kept may
 * yet be refused. */
static inline bool sack_is_done(const struct qp *qp, psn_t p)
{
    return sack_is_here(qp, p) && psn_before(p, qp->req.sack->expected);
}

/* The queue pair's, taken if it has none; NULL: there is no memory for it. */
struct req_sack *req_sack_open(struct engine *e, struct qp *qp);
/* Gives it back. */
void req_sack_close(struct qp *qp);
/* The same before all is sent again: responses that are not acknowledged come again, too. */
void req_sack_abandon(struct qp *qp);

/* Packet p has arrived: a request at the peer, or a response here. True: that is news. */
bool req_sack_arrived(struct qp *qp, psn_t p);
bool req_sack_response(struct qp *qp, psn_t p);
/* Whether all responses to a READ, or atomic, are here. */
bool req_sack_is_complete(const struct qp *qp, const struct send_slot *m);
/* The peer has executed all before p: what is not a READ or atomic has arrived. Responses may be on
 * their way; req_sack_executed: they were sent. */
void req_sack_requests(struct qp *qp, psn_t p);
void req_sack_executed(struct qp *qp, psn_t p);
/* What a map says. True: something has arrived that was not known to have. */
bool req_sack_take_map(struct qp *qp, const struct kept_map *m);

/* How far all has arrived, if all before una has: completes responses on the way. Closes it when
 * nothing behind that has arrived. */
psn_t req_sack_advance(struct qp *qp, psn_t from, psn_t una);

/* The peer, or the headers of a response, say that packet p is lost. False: it is not missing, or
 * was sent again too shortly ago for this to be about that. */
bool req_sack_lose(struct engine *e, struct qp *qp, psn_t p);
/*
 * Judges which packets are lost. in_silence: nothing has come for as long as answers take, so all
 * that is missing is. True: some are to be sent again.
 */
bool req_sack_judge(struct engine *e, struct qp *qp, bool in_silence);
/* The next packet to be sent again. False: there is none. */
bool req_sack_take(struct qp *qp, psn_t *p);
/* How many responses of a READ are missing from PSN p on, before one that is here: at most psns. */
uint32_t req_sack_hole(const struct qp *qp, psn_t p, uint32_t psns);
/* PSN p is sent again, or psns of a READ from there on are asked for. */
void req_sack_sent(struct engine *e, struct qp *qp, psn_t p, uint32_t psns);
/* The number of a map that counts requests which came again in vain. */
void req_sack_duplicates(const struct engine *e, struct qp *qp, uint8_t n);

/* Packets in flight that have arrived. */
uint32_t req_sack_count(const struct qp *qp);
/*
 * READs that the responder has, and executes when it has resources for them: they are not among
 * those that may be outstanding. Behind an atomic without a response all are, because its responder
 * must remember that.
 */
uint32_t req_sack_parked(const struct qp *qp);

#endif
