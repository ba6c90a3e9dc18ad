/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Shares of an engine's time: what programs get of it when several have work at once.
 *
 * Shares form a tree: the engine, its traffic classes (if it has any), its users, the programs of
 * each, and a program's queue pairs.
 * Those that have work take turns, by deficit round robin: each is granted a quantum a round, in
 * proportion to its weight, and one that has spent more than it was granted waits until later
 * grants have covered that. A share that gets work comes first, with what is left of its last
 * grant: a program that sends now and then need not wait for those that always send. A share that
 * has no competitor has no limit.
 *
 * What is spent is an estimate of the time that the work takes, in units of a payload byte (the
 * COST_ constants). It is charged to the program that causes the work: the packets that its queue
 * pairs send, with what they cost their receiver; queue pairs that have to be fetched into the
 * cache; doorbells, timers, flushed work requests, notifications. A program that lets a peer READ
 * its memory pays for the responses. Packets that come from other hosts are not charged: who is
 * sent packets has no influence on their number. Copies that take a system call, those of an atomic
 * among them, are charged to the program whose memory it is, those of received packets only until
 * it owes a grant. So is the time of page faults, while there are many (engine_charge_faults).
 *
 * Traffic classes (struct qos_classes) are served as their port says, not by what they have spent.
 * A user and a program have a share in each class: programs that use the same class are equal
 * there. Their doorbells and their like are charged in the class that is served first, where no
 * other class holds them up.
 *
 * Threads: an engine's worker, except where a function says otherwise.
 */
#ifndef UROCE_SHARE_H
#define UROCE_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common.h"
#include "counter.h"
#include "qos.h"

struct engine;
struct qp;

/** A grant of weight 1: as much as a dozen packets of 4096 bytes cost. */
#define SHARE_QUANTUM    65536
#define SHARE_WEIGHT_MAX 100u

/** What work costs beside the bytes of packets. */
enum share_cost {
    COST_PACKET = 768,   /**< a packet, its reception and its answer */
    COST_TURN = 128,     /**< a doorbell: a look at a queue pair */
    COST_COLD = 2560,    /**< a queue pair that is no longer in the cache */
    COST_TIMER = 12288,  /**< a timer: what is sent again takes the general path at both ends */
    COST_FLUSH = 64,     /**< a work request that is flushed */
    COST_COPY = 4096,    /**< a system call that copies to or from memory that is not mapped */
    COST_SYSCALL = 4096, /**< a notification */
    COST_NS = 4,         /**< a nanosecond, where time is measured: page faults */
};

/**
 * What an engine has a limited number of, and lends to queue pairs that lose packets. A program may
 * hold as many as are free for the others: half of them if it is the only one. So those that hold
 * most leave some for one that has none. Queue pairs that are no program's may take all.
 */
enum share_loan {
    LOAN_STORE,  /**< of requests behind a gap: resp_store.c */
    LOAN_ROOM,   /**< the payload of one of them */
    LOAN_WATCH,  /**< of a request that is known to be lost: resp_watch.c */
    LOAN_SACK,   /**< what is known about single packets: req_sack.c */
    LOAN_REPEAT, /**< a part of a READ that is answered again: resp_repeat.c */
    LOANS,
};

TAILQ_HEAD(share_list, share);
TAILQ_HEAD(qp_tx_list, qp);

/**
 * A share of one engine. Its fields are the transport's; any thread may read `spent`. It has cache
 * lines of its own, since a program's shares of all engines lie side by side, and each worker
 * writes to its own in every burst.
 */
struct share {
    CACHE_ALIGNED struct share *parent; /**< NULL: the engine itself */
    TAILQ_ENTRY(share) link;
    struct share_list *listed; /**< the list of the parent that it is in; or NULL */
    struct share_list sparse;  /**< shares that had no work before; served first */
    struct share_list busy;    /**< the others, in turn; they may have no work left */
    struct qp_tx_list qps;     /**< a program's queue pairs that may have a packet to send */
    unsigned answers_first;    /**< packets of answers that may still go before the others */
    counter_t spent;           /**< in all */
    uint64_t passed_on;        /**< of that, what is in the parent's `spent` too */
    uint64_t granted;          /**< in all; compared with `spent` modulo 2^64 */
    uint32_t members;          /**< users: shares; programs: what the host has joined */
    uint16_t weight;           /**< 0: a traffic class, which has no credit */
    uint16_t lent[LOANS];      /**< what queue pairs hold; a program's first share counts for all */
};

/**
 * How many shares a user or a program has of an engine: one, or one in each traffic class. Any
 * thread.
 *
 * @param classes  engine_config.classes.
 * @return  1 to QOS_PRIORITIES.
 */
static inline unsigned share_count(const struct qos_classes *classes)
{
    return classes->count ? classes->count : 1;
}

/**
 * Make the shares of an engine, share_count() of them, without members. Any thread, before the
 * engine's worker knows them. The other functions are called with the first one of them.
 *
 * @param s  The shares; the caller keeps them until its members have left, and the queue pairs that
 *     were created with it are detached or have migrated.
 * @param e  The engine.
 * @param parent  The user's shares; NULL: they are a user's, or stand alone.
 * @param weight  1 to SHARE_WEIGHT_MAX.
 */
void share_init(struct share *s, struct engine *e, struct share *parent, uint32_t weight);

/**
 * Add a member to a program's share; the first one also to its user's.
 *
 * @param s  The share.
 */
void share_join(struct share *s);

/**
 * Take a member away. After the last one the engine no longer refers to the share; nor to its
 * user's, when that has no other.
 *
 * @param s  The share. No queue pair of the engine has it.
 */
void share_leave(struct share *s);

/**
 * Charge work to a share.
 *
 * @param s  The share.
 * @param cost  How much.
 */
void share_charge(struct share *s, uint64_t cost);

/**
 * Charge work that others cause: nothing when the share owes a grant already, so that they cannot
 * keep it from its turns.
 *
 * @param s  The share.
 * @param cost  How much.
 */
void share_charge_caused(struct share *s, uint64_t cost);

/**
 * Whether a program's other work, such as its doorbells, is to wait because it has spent more than
 * its share while others have packets to send. Its turn comes without a further call.
 *
 * @param s  The share.
 * @return  True: ask again in a later pass.
 */
bool share_must_wait(struct share *s);

#endif
