/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Queue pairs: their creation, states and attributes, and what they tell of themselves. Each
 * belongs to one engine at a time (engine.h), and to its worker.
 */
#ifndef UROCE_QUEUE_PAIR_H
#define UROCE_QUEUE_PAIR_H

#include "comp_counter.h"
#include "comp_queue.h"
#include "counter.h"
#include "encap.h"
#include "entropy.h"
#include "incident.h"
#include "qp_attr.h"
#include "share.h"
#include "work_queue.h"

struct engine;
struct qp;
struct qp_table;
struct srq;
struct rwq_ind;
struct rx_hash;

/** What a queue pair is created with. */
struct qp_init {
    uint32_t type; /**< enum qp_type */
    uint32_t pd;
    struct srq *srq; /**< receives from it instead of rq; or NULL */
    uint32_t xrcd;   /**< XRC receive side */
    bool sq_sig_all;
    uint32_t uidx;
    struct comp_queue *send_cq, *recv_cq;
    struct qp_shared *shared; /**< the application's segment */
    struct work_queue sq, rq; /**< private ends over it */
    struct qp_caps caps;
    const struct rx_hash
        *rx_hash;        /* RAW_PACKET with receive-side scaling (raw.h), copied; or NULL */
    struct rwq_ind *ind; /**< and where it leads */
    const struct entropy_policy *entropy; /**< its own, copied; NULL: the port's */
    struct share *shares; /**< its program's, by the engines' lanes, for each of these as
                             share_init() makes them; NULL: it has the engine's own */
    void *owner;          /**< the device's object */
    const struct incident_program *program; /**< whose it is, for incidents; copied; or NULL */
};

/**
 * Create a queue pair in RESET, with a QPN, in the table. Control thread; engine_qp_attach() comes
 * before anything else.
 *
 * @param t  The table that gets it.
 * @param init  Copied; what it points to must outlive the queue pair, but where it says copied.
 * @param err  Set when the result is NULL.
 * @return  The queue pair; NULL and -ENOMEM, -ENOSPC (no QPN is free) or -EOPNOTSUPP (type).
 */
struct qp *qp_create(struct qp_table *t, const struct qp_init *init, int *err);
/**
 * Get how much memory a queue pair may come to use: it starts with little, and gets more with the
 * work that is in flight. Any thread.
 *
 * @param init  What it is created with.
 * @return  Bytes, without its segment, and without qp_memory_reads().
 */
size_t qp_memory_max(const struct qp_init *init);
/**
 * Get how much memory a queue pair has for READs and atomics of its peer. Any thread.
 *
 * @param reads  max_dest_rd_atomic, at most 128.
 * @return  Bytes.
 */
size_t qp_memory_reads(uint32_t reads);
/**
 * Free a queue pair that was detached, and unpublish it if that was not done. Control thread, after
 * the workers' quiet point.
 *
 * @param qp  The queue pair.
 */
void qp_free(struct qp *qp);

/**
 * Take a queue pair out of its table: packets no longer find it. Control thread, before
 * engine_qp_detach().
 *
 * @param qp  The queue pair.
 */
void qp_unpublish(struct qp *qp);

/**
 * Make an engine the owner of a queue pair. The engine's worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair, which no engine owns.
 */
void engine_qp_attach(struct engine *e, struct qp *qp);

/**
 * Give a queue pair up: all its timers and transmission stop, and nothing is posted. Calls that its
 * host put off may still move its bytes, unless engine_qp_stop() was true. The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair.
 */
void engine_qp_detach(struct engine *e, struct qp *qp);

/**
 * Find out whether a queue pair may be reset or destroyed. If not it goes to ERR, without
 * completions. The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair.
 * @return  False: calls that the host put off still move its bytes. It is to be asked again.
 */
bool engine_qp_stop(struct engine *e, struct qp *qp);

/**
 * Migrate a queue pair, with what it is about to do, to another engine of the device, first step:
 * on the worker of `from`. Between the steps packets already find the new owner.
 *
 * Completions that were posted before lie in the other lane of their queue: the caller makes sure
 * that they were read (cq_lane_is_empty). Members of multicast groups remain members, but a
 * datagram that is on its way to a group may miss a member that migrates, or reach it twice. Later
 * packets may overtake those that were forwarded before.
 *
 * @param from  The engine, whose worker does not touch qp afterwards, and forwards its packets.
 * @param qp  The queue pair.
 * @param to  The new owner.
 */
void engine_qp_release(struct engine *from, struct qp *qp, struct engine *to);

/**
 * The second step, on the worker of `to`, which may have worked on qp before: timers and
 * transmission go on there.
 *
 * @param to  The new owner.
 * @param qp  The queue pair.
 * @param now  The time.
 */
void engine_qp_adopt(struct engine *to, struct qp *qp, ns_t now);

/**
 * Give a queue pair to another program: its work is charged to that one's share from now on. The
 * owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair.
 * @param shares  As in qp_init.
 */
void engine_qp_set_shares(struct engine *e, struct qp *qp, struct share *shares);

/**
 * Whether the application has read all completions in a lane of a queue pair's completion queues.
 * The worker of that lane.
 *
 * @param qp  The queue pair.
 * @param lane  The lane.
 * @return  True when it has.
 */
bool qp_completions_are_read(const struct qp *qp, uint32_t lane);

/**
 * The engine that owns a queue pair. Any thread: it may be out of date, but not for the control
 * thread, which alone changes it.
 *
 * @param qp  The queue pair.
 * @return  The engine; NULL: none.
 */
struct engine *qp_engine(const struct qp *qp);

/**
 * Give a queue pair a source port policy of its own. A connection, from RTR on, takes the new
 * policy's first port at once, for requests and answers; datagrams have theirs from the next work
 * request on. RoCEv1 has no ports. The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair.
 * @param policy  Copied; NULL: the port's again.
 * @return  0; -EINVAL: raw packets.
 */
int engine_qp_set_entropy(struct engine *e, struct qp *qp, const struct entropy_policy *policy);

/**
 * Count a queue pair's completed work from now on: work requests whether or not they ask for a
 * completion, and what the peer does with this end's memory. Each kind of work has at most one
 * counter. The owner worker.
 *
 * @param qp  The queue pair.
 * @param c  The counter, with a line for the lane of each engine that the queue pair may come to;
 *     borrowed until engine_qp_count_none(), or until the queue pair is freed.
 * @param what  Kinds of work, QP_COUNT_*; not 0.
 * @return  0; -EINVAL: the queue pair is not in RESET or INIT; -EBUSY: some kind has a counter.
 */
int engine_qp_count(struct qp *qp, struct comp_counter *c, uint32_t what);
/**
 * Count a queue pair's work no more. The owner worker.
 *
 * @param qp  The queue pair.
 */
void engine_qp_count_none(struct qp *qp);

/**
 * Change attributes and state (volume 1, 10.3.1 and table 91). The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair.
 * @param attr  The attributes.
 * @param mask  Which of them are set, QPA_*.
 * @param av  The resolved address vector when mask has QPA_AV, else NULL; copied. The engine sets
 *     udp_sport by its policy.
 * @param max_mtu  The port's active MTU, 1 to 5: 256 to 4096 bytes.
 * @param now  The time.
 * @return  0; -EINVAL: the transition, missing or excess attributes, or values out of range;
 *     -EOPNOTSUPP: an alternate path; -ENOMEM; -EAGAIN: to RESET, while calls that the host put off
 *     move its bytes (engine_qp_stop).
 */
int engine_qp_modify(struct engine *e, struct qp *qp, const struct qp_attr *attr, uint32_t mask,
                     const struct address_vector *av, uint32_t max_mtu, ns_t now);

/**
 * Let the packets of a connection reach no queue pair, or its destination again. While it is held
 * they have QPN_NONE as destination, and the port that gets them drops them (sender_mismatch): the
 * receiver of a packet cannot know which queue pair sent it, but the host knows it of those on one
 * port. engine_qp_modify() with a new destination ends it. The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair: of a connected service, RTR or later.
 * @param held  Whether it is held.
 */
void engine_qp_hold(struct engine *e, struct qp *qp, bool held);

/**
 * Send later packets of a connection to another MAC: the peer, or the router to it, has another.
 * The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair.
 * @param mac  The new destination.
 */
void engine_qp_redirect(struct engine *e, struct qp *qp, const uint8_t mac[6]);

/**
 * Note whether the peer of a connection has agreed on maps of kept packets (kept_map.h): the
 * responder sends them, and the requester takes them. If the peer does not send any after all, the
 * connection goes back to what works with any peer. Until this is called nothing is agreed on, nor
 * after RESET. The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair: of a reliable service.
 * @param agreed  Whether it has.
 */
void engine_qp_agree(struct engine *e, struct qp *qp, bool agreed);

/**
 * Join a UD queue pair to a multicast group. The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair.
 * @param group  The group's GID.
 * @return  0; -EINVAL: not UD, or not a multicast GID; -ENOMEM; -EEXIST: it is a member already.
 */
int engine_mcast_join(struct engine *e, struct qp *qp, const union gid *group);

/**
 * Take a UD queue pair out of a multicast group. The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair.
 * @param group  The group's GID.
 * @return  0; -EINVAL: not UD, or not a multicast GID; -ENOENT: it is no member.
 */
int engine_mcast_leave(struct engine *e, struct qp *qp, const union gid *group);

/**
 * Whether a queue pair of an unreliable service, in RTS, has work requests that it has not sent
 * yet: nothing but its port holds them up. Its owner worker.
 *
 * @param qp  The queue pair.
 * @return  True when it has; false also of reliable services.
 */
bool qp_datagrams_wait(const struct qp *qp);

/**
 * Whether a UD queue pair, in RTS, has work requests that it has not sent yet and that name an
 * address handle. Its owner worker.
 *
 * @param qp  The queue pair.
 * @param ah  The handle's number (address_handle_number()).
 * @param looks  How many work requests are looked at; what is left of it is set.
 * @return  True when it has such, or when *looks has become 0; false also of other services.
 */
bool qp_datagrams_name(const struct qp *qp, uint32_t ah, unsigned *looks);

/**
 * Whether work requests of the send queue, in RTS, have no completion yet. While no worker runs.
 *
 * @param qp  The queue pair.
 * @return  True when some have none.
 */
bool qp_sends_wait(const struct qp *qp);
/**
 * The current attributes. The owner worker.
 *
 * @param qp  The queue pair.
 * @param attr  Set.
 */
void engine_qp_query(const struct qp *qp, struct qp_attr *attr);

/**
 * Why engine_qp_modify() has returned -EINVAL for these arguments. The owner worker.
 *
 * @param qp  The queue pair, in the same state.
 * @param attr  As there.
 * @param mask  As there.
 * @param max_mtu  As there.
 * @param out  Its cause and details are set, if there is one.
 */
void engine_qp_modify_why(const struct qp *qp, const struct qp_attr *attr, uint32_t mask,
                          uint32_t max_mtu, struct incident *out);

/**
 * Put a queue pair into the error state: its work is flushed. The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair; in RESET it stays as it is.
 * @param cause  Why: an incident, and the number in flushed completions.
 * @param now  The time.
 */
void engine_qp_error(struct engine *e, struct qp *qp, enum cause cause, ns_t now);

/**
 * Begin to fetch what engine_doorbell() reads of a queue pair into the cache. Any thread, while the
 * queue pair exists. Does not wait.
 *
 * @param qp  The queue pair.
 */
void engine_fetch_qp(const struct qp *qp);

/**
 * The QPN. Any thread.
 *
 * @param qp  The queue pair.
 * @return  24 bits.
 */
uint32_t qp_number(const struct qp *qp);

/**
 * The owner that a queue pair was created with. Any thread.
 *
 * @param qp  The queue pair.
 * @return  qp_init.owner.
 */
void *qp_owner(const struct qp *qp);

/**
 * The application's index of a queue pair. Any thread.
 *
 * @param qp  The queue pair.
 * @return  qp_init.uidx.
 */
uint32_t qp_uidx(const struct qp *qp);

/**
 * Whether the peer has agreed on maps of kept packets (engine_qp_agree). Any thread.
 *
 * @param qp  The queue pair.
 * @return  True: what is lost is sent again, and nothing else.
 */
bool qp_has_agreed(const struct qp *qp);

/**
 * The type. Any thread.
 *
 * @param qp  The queue pair.
 * @return  enum qp_type.
 */
uint32_t qp_type(const struct qp *qp);

/**
 * The state. Any thread: it may be out of date.
 *
 * @param qp  The queue pair.
 * @return  The state.
 */
enum qp_state qp_current_state(const struct qp *qp);

/**
 * Where a connection's packets go. The owner worker, or a thread for which it waits.
 *
 * @param qp  The queue pair.
 * @return  The address vector.
 */
const struct address_vector *qp_address_vector(const struct qp *qp);
/**
 * The source port policy of a queue pair's own. The owner worker, or a thread for which it waits.
 *
 * @param qp  The queue pair.
 * @return  The policy; NULL: it has the port's.
 */
const struct entropy_policy *qp_entropy(const struct qp *qp);
/**
 * The UDP source port of a queue pair's packets now. Any thread.
 *
 * @param qp  The queue pair.
 * @return  The port; 0: it has none (UD, where each work request has its own; RoCEv1; before RTR).
 */
uint16_t qp_udp_sport(const struct qp *qp);

/**
 * The capabilities that a queue pair was created with. Any thread.
 *
 * @param qp  The queue pair.
 * @return  The capabilities.
 */
const struct qp_caps *qp_capabilities(const struct qp *qp);

/** The counters of a queue pair; names as the Linux rxe and mlx5 hw_counters where they exist. */
#define QP_COUNTERS(X)            \
    X(tx_packets)                 \
    X(tx_bytes)                   \
    X(rx_packets)                 \
    X(rx_bytes)                   \
    X(retransmits)                \
    X(timeouts)                   \
    X(probes)                     \
    X(rnr_nak_sent)               \
    X(rnr_nak_rcvd)               \
    X(seq_nak_sent)               \
    X(seq_nak_rcvd)               \
    X(duplicate_request)          \
    X(out_of_sequence)            \
    X(requests_kept)              \
    X(implied_nak_seq_err)        \
    X(remote_access_err)          \
    X(remote_invalid_request)     \
    X(remote_operational_err)     \
    X(local_protection_err)       \
    X(retry_exceeded)             \
    X(rnr_retry_exceeded)         \
    X(rx_discards)                \
    X(repaths)                    \
    X(stranger_answers)           \
    X(np_ecn_marked_roce_packets) \
    X(np_cnp_sent)                \
    X(rp_cnp_handled)

/** The counters of a queue pair; single writer. */
struct qp_counters {
#define X(name) counter_t name;
    QP_COUNTERS(X)
#undef X
};

/**
 * The counters of a queue pair. Any thread.
 *
 * @param qp  The queue pair.
 * @return  The counters, which go on counting.
 */
const struct qp_counters *qp_counters(const struct qp *qp);

#endif
