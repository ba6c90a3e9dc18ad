/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The transport engine: the queue pairs that one worker owns on one port. It takes received frames,
 * doorbells and the time, and fills frames when asked; it does no I/O, asks for no clock, and
 * allocates nothing per packet. uroced, the tests' simulator and the replayer are its hosts.
 *
 * Threads: every function on an engine is called by one thread at a time, its worker. Other threads
 * reach a queue pair only by asking that worker.
 */
#ifndef UROCE_ENGINE_H
#define UROCE_ENGINE_H

#include "cc.h"
#include "comp_queue.h"
#include "counter.h"
#include "drop.h"
#include "encap.h"
#include "frame.h"
#include "incident.h"
#include "latency.h"
#include "mem_call.h"
#include "mr_table.h"
#include "qos.h"
#include "queue_pair.h"
#include "share.h"
#include "shared_receive_queue.h"
#include "tables.h"
#include "trace.h"

struct wq;
struct address_handle;
struct flow_slot;

/** Events of the verbs API that a queue pair can raise: numeric values of enum ibv_event_type. */
enum qp_event {
    QP_EVENT_CQ_ERR = 0,
    QP_EVENT_QP_FATAL = 1,
    QP_EVENT_QP_REQ_ERR = 2,
    QP_EVENT_QP_ACCESS_ERR = 3,
    QP_EVENT_COMM_EST = 4,
    QP_EVENT_SQ_DRAINED = 5,
    QP_EVENT_SRQ_ERR = 14,
    QP_EVENT_SRQ_LIMIT_REACHED = 15,
    QP_EVENT_LAST_WQE_REACHED = 16,
    QP_EVENT_WQ_FATAL = 19,
};

/** What the engine notifies its host of, during calls into it; the host notes it and returns. */
struct engine_host {
    void *ctx;
    /** A completion event is due on cq (it was armed). */
    void (*cq_event)(void *ctx, struct comp_queue *cq);
    /** cq got completions in this burst: wake a poller that blocks. May be NULL. */
    void (*cq_posted)(void *ctx, struct comp_queue *cq);
    /** An affiliated asynchronous event. cq is set for QP_EVENT_CQ_ERR, else qp. */
    void (*async_event)(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event);
    /** QP_EVENT_SRQ_LIMIT_REACHED or QP_EVENT_SRQ_ERR. May be NULL when there are no SRQs. */
    void (*srq_event)(void *ctx, struct srq *srq, enum qp_event event);
    /** A frame for this port, or a group, that is not RoCE: true if the host takes a copy of it.
     * May be NULL. */
    bool (*punt)(void *ctx, const struct frame *f);
    /** A packet to queue pair 1, the general services interface, whose ICRC is right: true if the
     * host takes a copy. NULL: there is no such queue pair. */
    bool (*gsi)(void *ctx, const struct frame *f);
    /**
     * Forward a copy of a frame to another engine of the device, by its engine_rx_forwarded. False:
     * there is no room, and the frame is dropped. NULL: there is only one engine.
     */
    bool (*forward)(void *ctx, const struct frame *f, struct engine *to);
    /** Forward a copy that is for sniffers (raw.h) of `to` alone, by its engine_rx_copies. */
    bool (*forward_copy)(void *ctx, const struct frame *f, struct engine *to);
    /** A connection's packets keep arriving at the engine with this lane: migrate it there. */
    void (*misplaced)(void *ctx, struct qp *qp, uint32_t lane);
    /** Who makes the calls that copy to and from programs; NULL: the engine waits for them. What is
     * put off the host ends by engine_call_ended(). */
    struct mem_caller *mem_caller;
    /** QP_EVENT_WQ_FATAL: a work queue (raw.h) went to its error state by itself. May be NULL. */
    void (*wq_event)(void *ctx, struct wq *wq, enum qp_event event);
    /** A work queue that belongs to no queue pair has cost so much (share.h). May be NULL. */
    void (*wq_charge)(void *ctx, struct wq *wq, uint64_t cost);
    /** Messages of the peer have changed memory of qp's program, or will have when what was put off
     * is done: wake a poller that blocks. Not for each message: once for a batch. May be NULL. */
    void (*mem_written)(void *ctx, struct qp *qp);
    /** How long page faults of the engine's thread have taken since the last call, about. For
     * engine_charge_faults(); may be NULL where that is not called. */
    ns_t (*fault_time)(void *ctx);
};

/** Congestion notification on a port (A17.9). Zeroed: packets do not say that they may be marked,
 * and marks of the network are counted only. */
struct congestion_config {
    bool ect;              /**< reliable connections send ECT(0): switches may mark their packets */
    uint32_t cnp_interval; /**< ns between two CNPs of a queue pair, at least; 0: it sends none */
    uint8_t cnp_dscp, cnp_pcp;    /**< code point and 802.1p priority of CNPs */
    const struct cc_ops *control; /**< what CNPs of peers do; NULL: nothing */
    uint64_t line; /**< bits per second, which a controller lets through at most; not 0 with one */
    bool own_params;                /**< the controller has `params`, not its defaults */
    uint64_t params[CC_PARAMS_MAX]; /**< as cc_set_param() writes them */
};

/** Each takes 80 KiB, from the first time that this many have a gap; and there is room for the
 * payloads of ENGINE_REORDER_PACKETS packets, 4 KiB each, taken when gaps need it. A program may
 * hold as many as are free (enum share_loan). */
#define ENGINE_REORDER_MAX     128
#define ENGINE_REORDER_PACKETS 8192

/** What an engine is created with. */
struct engine_config {
    const struct encap_port *port;
    const struct mr_table *mrs;
    struct qp_table *qps;
    const struct srq_table *srqs;  /**< may be NULL: no XRC */
    const struct ah_table *ahs;    /**< may be NULL: no UD */
    const struct flow_slot *flows; /**< raw packets' (raw.h); may be NULL */
    struct engine_host host;
    uint32_t lane; /**< the CQ lane this worker posts into */
    /** PSNs that a requester may have unacknowledged; 0: 128, or as many as 512 KiB are at the path
     * MTU, but at most 384. */
    uint32_t max_inflight;
    struct entropy_policy entropy; /**< of UDP source ports; zeroed: the kernel's */
    /**
     * A requester changes to another source port after this many timeouts in a row without an
     * answer, and a responder after this many repetitions in a row; 0: never. See core/sport.c.
     */
    uint32_t repath;
    /** Queue pairs, at most ENGINE_REORDER_MAX at a time, whose responder keeps what arrives behind
     * a gap, 128 packets each (512 if their peers have agreed, engine_qp_agree()), until the gap is
     * filled; 0: none does, all of that is dropped, and requesters do not hold back at their first
     * NAK to find out whether their peers keep. */
    uint32_t reorder;
    /** The code point of frames whose payload a switch has cut off for lack of room
     * (frame_trim.h): their packets are asked for again at once. 0: they are dropped, and the loss
     * is found out as any other. */
    uint8_t trim_dscp;
    struct congestion_config congestion;
    struct tx_ceiling *ceiling; /**< of the port (ceiling.h), shared by its engines; NULL: none */
    /** A queue pair is of the class of its service level's priority, its responses too; one of UD
     * of that of the datagram that is next. */
    struct qos_classes classes;
    bool any_icrc; /**< fuzzing: accept any ICRC */
};

/**
 * Create an engine. Control thread.
 *
 * @param config  Copied; what it points to must outlive the engine.
 * @return  The engine; NULL: out of memory.
 */
struct engine *engine_create(const struct engine_config *config);
/**
 * Destroy an engine whose queue pairs are destroyed. Control thread.
 *
 * @param e  The engine.
 */
void engine_destroy(struct engine *e);

/**
 * What a work request of a send queue is to complete with, before it begins; see
 * engine_judge_sends(). The engine's worker.
 *
 * @param ctx  What was given with it.
 * @param qp  Whose work request it is.
 * @param operation  Its opcode (enum sqe_op), as the application has written it.
 * @return  WC_SUCCESS: it begins. An error of enum wc_status: it completes with that when all
 *     before it are done, and nothing of it is sent.
 */
typedef uint8_t send_judge(void *ctx, const struct qp *qp, uint8_t operation);

/**
 * Have each work request of each send queue judged before it begins, one at a time: for faults on
 * purpose. The engine's worker, not within a call into the engine, while the thread that creates
 * and destroys queue pairs waits.
 *
 * @param e  The engine.
 * @param judge  Asked for each; NULL: none is asked, and it costs nothing.
 * @param ctx  For judge.
 */
void engine_judge_sends(struct engine *e, send_judge *judge, void *ctx);

/**
 * Time the stages of work requests that the applications mark (SQE_TIMED), or stop doing so. Any
 * thread.
 *
 * @param e  The engine.
 * @param on  Whether to.
 */
void engine_time_sends(struct engine *e, bool on);

/**
 * How long work requests took that were timed. Any thread; their worker adds.
 *
 * @param e  The engine.
 * @return  LATENCY_STAGES histograms, by stage; they live as long as the engine.
 */
const struct latency_histogram *engine_latency(const struct engine *e);

/**
 * The name of the program that has a queue pair. The worker of an engine of the device.
 *
 * @param e  The engine.
 * @param qpn  The queue pair's number; from outside.
 * @return  As qp_init.program has it, valid until the worker's next quiet point; "": not known;
 *     NULL: there is no such queue pair.
 */
const char *engine_program_of(const struct engine *e, uint32_t qpn);

/**
 * Receive frames. Completions are posted and host callbacks made before it returns. The worker.
 *
 * @param e  The engine.
 * @param frames  The frames; the caller may return them to the port afterwards.
 * @param n  How many, at most FRAME_BURST.
 * @param now  The time; it does not go back.
 */
void engine_rx(struct engine *e, struct frame *frames, unsigned n, ns_t now);

/**
 * Count a received frame that the host keeps from the engine, as one that the engine has dropped.
 * The worker, not within a call into the engine.
 *
 * @param e  The engine.
 * @param f  The frame.
 * @param reason  Why.
 * @param qpn  The queue pair that it was for; 0: not known.
 * @param now  The time; it does not go back.
 */
void engine_rx_dropped(struct engine *e, const struct frame *f, enum drop reason, uint32_t qpn,
                       ns_t now);

/**
 * Note that the host has dropped a packet that the engine sent, for why a connection fails. The
 * worker, not within a call into the engine.
 *
 * @param e  The engine.
 * @param reason  Why.
 * @param qpn  The queue pair that it was for.
 * @param psn  Its PSN.
 * @param now  The time; it does not go back.
 */
void engine_tx_dropped(struct engine *e, enum drop reason, uint32_t qpn, uint32_t psn, ns_t now);

/**
 * Receive frames that another engine of the device forwarded: copies of what it received. A frame
 * that would have to be forwarded once more is forwarded; it is dropped only if the host refuses
 * it. The worker.
 *
 * @param e  The engine.
 * @param frames  The frames.
 * @param n  How many, at most FRAME_BURST.
 * @param from  The other engine's lane.
 * @param now  The time.
 */
void engine_rx_forwarded(struct engine *e, struct frame *frames, unsigned n, uint32_t from,
                         ns_t now);
/**
 * Receive copies that the host's forward_copy took. Only sniffers (raw.h) see them, and no queue
 * pair when these have gone. The worker.
 *
 * @param e  The engine.
 * @param frames  The frames.
 * @param n  How many, at most FRAME_BURST.
 * @param from  The other engine's lane.
 * @param now  The time.
 */
void engine_rx_copies(struct engine *e, struct frame *frames, unsigned n, uint32_t from, ns_t now);

/**
 * Charge the time of page faults to the programs whose mapped memory lacks the pages, or do so no
 * more, as at first. The host's fault_time() measures it, which costs time with each program's
 * turn and each batch of packets: so only while there are many. The worker.
 *
 * @param e  The engine.
 * @param charge  Whether.
 */
void engine_charge_faults(struct engine *e, bool charge);
/**
 * Fill lent frames with packets to be sent in this order. The worker.
 *
 * @param e  The engine.
 * @param frames  Empty frames with room for ENCAP_MAX_LEN + PKT_MAX_HEADER + path MTU + 8 bytes;
 *     len is set of those that are filled.
 * @param n  How many, at most FRAME_BURST.
 * @param now  The time.
 * @return  How many frames, from the first on, are filled.
 */
unsigned engine_tx(struct engine *e, struct frame *frames, unsigned n, ns_t now);

/**
 * Whether a queue pair owes its peer an answer: an ACK, a NAK, the result of an atomic, or a
 * response to a READ. Its owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair.
 * @return  False also when another engine owns it.
 */
bool engine_qp_owes_answer(const struct engine *e, const struct qp *qp);

/**
 * Fill lent frames with the answers that a queue pair owes, before it is reset or destroyed: its
 * application may have the completion of a message whose ACK waits for its turn, and then the
 * message is acknowledged (9.7.5.1). The first response to a READ ends them: the
 * application knows nothing of it. No memory of applications is touched. The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair.
 * @param frames  As for engine_tx().
 * @param n  How many, at most FRAME_BURST.
 * @param now  The time.
 * @return  How many frames, from the first on, are filled.
 */
unsigned engine_tx_answers(struct engine *e, struct qp *qp, struct frame *frames, unsigned n,
                           ns_t now);

/**
 * Whether a packet is ready to be sent: a hint, which may be wrongly true. The worker.
 *
 * @param e  The engine.
 * @return  False: engine_tx() would fill nothing.
 */
bool engine_wants_tx(const struct engine *e);

/**
 * Note that the application rang a queue pair's doorbell. The owner worker.
 *
 * @param e  The engine.
 * @param qp  The queue pair, which the engine owns.
 * @param now  The time.
 */
void engine_doorbell(struct engine *e, struct qp *qp, ns_t now);

/**
 * The time of the next timer. The worker.
 *
 * @param e  The engine.
 * @return  The time, or NS_NEVER.
 */
ns_t engine_next_timer(struct engine *e);

/**
 * Run the timers that are due, up to a number: engine_next_timer() tells whether there are more.
 * The worker.
 *
 * @param e  The engine.
 * @param now  The time.
 */
void engine_timers(struct engine *e, ns_t now);

/**
 * A call that engine_host.mem_caller did not make at once has ended: the queue pairs whose bytes it
 * moved are suspended no more. The worker, between two calls into the engine.
 *
 * @param e  The owner of the call (mem_call.owner).
 * @param call  The call. The engine refers to it no more.
 * @param in_time  False: it has not ended, but the host waits no longer. Its queue pairs fail as if
 *     their memory did not exist.
 * @param now  The time.
 */
void engine_call_ended(struct engine *e, struct mem_call *call, bool in_time, ns_t now);

/**
 * mem_caller.refuses or -EBUSY may have had their last time: the queue pairs that wait for room try
 * again. The worker, between two calls into the engine.
 *
 * @param e  The engine.
 * @param now  The time.
 */
void engine_memory_has_room(struct engine *e, ns_t now);

/**
 * Counters of an engine; single writer. rx_packets + rx_forwarded_in + rx_copies = rx_delivered +
 * rx_punted + rx_forwarded_out + all drops. rx_copies are the frames that one received frame counts
 * as beyond the first (multicast to several engines, raw packets to several queues). A forwarded
 * frame is in rx_packets of the engine that received it. Arrays are by qos_frame_priority; their
 * sums are the totals. A frame that is too short for a tag and a traffic class, or is not IP, has
 * priority 0.
 */
struct engine_counters {
    counter_t rx_packets[QOS_PRIORITIES], rx_bytes[QOS_PRIORITIES];
    counter_t tx_packets[QOS_PRIORITIES], tx_bytes[QOS_PRIORITIES];
    counter_t rx_delivered, rx_punted;
    counter_t rx_forwarded_in, rx_forwarded_out, rx_copies;
    counter_t late_copies; /* calls of backends that the host put off (mem_caller) */
    counter_t drop[DROP_COUNT];
};

/**
 * The counters of an engine. Any thread.
 *
 * @param e  The engine.
 * @return  The counters, which go on counting.
 */
const struct engine_counters *engine_counters(const struct engine *e);

/**
 * What happened in an engine out of the ordinary, for trace_read(). Any thread.
 *
 * @param e  The engine.
 * @return  Its ring.
 */
const struct trace *engine_trace(const struct engine *e);

/**
 * What failed lately at an engine's queue pairs, for incident_read(). Any thread.
 *
 * @param e  The engine.
 * @return  Its ring.
 */
const struct incidents *engine_incidents(const struct engine *e);

/**
 * The name of a fault in the trace. Any thread.
 *
 * @param fault  enum fault.
 * @return  The name; "?" for another number.
 */
const char *fault_name(uint32_t fault);

/**
 * The callbacks that an engine was created with. Any thread.
 *
 * @param e  The engine.
 * @return  The callbacks.
 */
const struct engine_host *engine_host_of(const struct engine *e);

#endif
