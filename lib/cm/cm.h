/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The communication manager: the general services interface of queue pair 1 on the network ports of
 * a host, and on it the connections and datagram addresses of rdma_cm (volume 1, chapter 12; Annex
 * A11). It knows service IDs, port numbers and addresses, the states of connections
 * (cm_states.def is the whole machine, doc/generated/cm-states.md shows it), repetitions
 * and timeouts, and what a queue pair's attributes are once the two ends have agreed.
 *
 * It does not resolve: the host finds addresses and routes, and gives paths. It has no queue pairs:
 * the host modifies these by cm_qp_attr().
 *
 * Pure: no I/O, no clock; time is an argument and does not go back. One thread at a time (the
 * control thread). Received MADs can only make it keep a bounded amount of state: a REQ or SIDR_REQ
 * makes an id only for a listener, within its backlog and cm_config's limits; otherwise it is
 * dropped without a trace but a counter, and the peer's repetition tries again.
 *
 * A peer is who sends from its address: messages of a connection are taken from the address that it
 * was made with, and no other. Communication IDs, transaction IDs and starting PSNs cannot be
 * guessed by who does not see them.
 */
#ifndef UROCE_CM_H
#define UROCE_CM_H

#include "cm_types.h"
#include "gsi.h"
#include "qp_attr.h"

/** What the manager asks of its host, from within a call of its own. */
struct cm_host_ops {
    /**
     * Sends a MAD of MAD_LEN bytes from queue pair 1 of the path's port to queue pair 1 at its
     * dgid, with Q_Key MAD_QKEY; it is copied before this returns. While the host resolves the
     * address it may drop it: what must arrive is repeated. Must not call the manager.
     */
    void (*send)(void *ctx, const struct cm_path *path, const uint8_t *mad);
    /**
     * Something happened to an id. The host may call every function of the manager from here, also
     * cm_id_destroy() of this id, but not cm_destroy(). The new id of a request without an owner
     * when this returns is still the host's: cm_id_set_owner() and so on may follow later.
     */
    void (*event)(void *ctx, const struct cm_event *event);
};

/** Limits; 0: the default. */
struct cm_config {
    const struct cm_host_ops *ops;
    void *ctx;
    uint64_t secret[4]; /**< from getrandom(2): of IDs, PSNs and hashes; a seed in tests */
    uint32_t max_ids;   /**< of all kinds, at most and by default 2^17 */
    uint32_t half_open; /**< connections that a listener's requests are being made, default 1024 */
    uint32_t backlog;   /**< the largest backlog, and what 0 means in cm_listen(), default 1024 */
    uint32_t answers;   /**< to messages of no connection and to repeated REQs, of a port: at once,
                             and in a second; default 4096 */
    uint16_t first_port, last_port; /**< port numbers that are given, default 32768 to 60999 */
};

/**
 * Create a manager.
 *
 * @param config  Copied; what it points to must outlive the manager.
 * @return  The manager; NULL: out of memory.
 */
struct cm *cm_create(const struct cm_config *config);

/**
 * Free a manager with all of its ids, whatever their state. Nothing is sent.
 *
 * @param cm  The manager.
 */
void cm_destroy(struct cm *cm);

/**
 * A MAD that arrived at queue pair 1 with Q_Key MAD_QKEY.
 *
 * @param cm  The manager.
 * @param way  The way of an answer: sgid is the packet's destination, dgid its source, ca_guid, mtu
 *     (the largest) and the other attributes those of the port that received it.
 * @param mad  The payload.
 * @param len  Its length, any.
 * @param now  The time.
 */
void cm_rx(struct cm *cm, const struct cm_path *way, const uint8_t *mad, size_t len, ns_t now);

/**
 * Give another management class a handler, which cm_rx() calls for its MADs. An answer of its
 * counts against the limit of answers.
 *
 * @param cm  The manager.
 * @param mgmt_class  As gsi_classes_add() takes it.
 * @param handler  Copied. Its rx must not call the manager.
 * @return  0 or a negative errno of gsi_classes_add().
 */
int cm_class_register(struct cm *cm, uint8_t mgmt_class, const struct gsi_handler *handler);

/**
 * Take a class its handler.
 *
 * @param cm  The manager.
 * @param mgmt_class  The class; without a handler nothing happens.
 */
void cm_class_unregister(struct cm *cm, uint8_t mgmt_class);

/**
 * The time of the next timer. Every function with a time argument may change it.
 *
 * @param cm  The manager.
 * @return  The time, or NS_NEVER.
 */
ns_t cm_next_timer(const struct cm *cm);

/** Timers that one call runs. */
#define CM_TIMERS_MAX 256

/**
 * Run timers that are due, CM_TIMERS_MAX at most: if there are more, cm_next_timer() is not in the
 * future, and the host calls again when it has done what else waits.
 *
 * @param cm  The manager.
 * @param now  The time.
 */
void cm_timers(struct cm *cm, ns_t now);

/* ---- ids ---- */

/**
 * Create an id.
 *
 * @param cm  The manager.
 * @param ps  Its port space; IP_CM_PS_NONE: service IDs instead of port numbers.
 * @param owner  The host's object.
 * @param err  Set when the result is NULL.
 * @return  The id; NULL and -ENOMEM, -ENOSPC (max_ids) or -EINVAL (ps).
 */
struct cm_id *cm_id_create(struct cm *cm, enum ip_cm_port_space ps, void *owner, int *err);

/** Bytes that an id takes at most, with its rows of the manager's tables. */
#define CM_ID_BYTES 1024

/** What one user's ids may have; 0: no limit. */
struct cm_user_limits {
    uint32_t numbers;   /**< port numbers of cm_config's range, whatever the number of ids */
    uint32_t lingering; /**< ids that the manager keeps after cm_id_destroy() */
};

/**
 * Say whose an id is, at first. Requests belong to the user of their listener. When a user has as
 * many port numbers as it may, no other is given or bound; of its ids that linger the oldest is
 * freed for the next one.
 *
 * @param id  The id, new.
 * @param user  A number.
 * @param limits  Of this user; the last call holds.
 * @return  0; -EINVAL: the id has a user, or is not new; -ENOMEM.
 */
int cm_id_set_user(struct cm_id *id, uint32_t user, const struct cm_user_limits *limits);

/**
 * Destroy an id, in any state. A connection is rejected or disconnected; the manager goes on with
 * what that takes (repetitions of the DREQ, the wait for late packets) by itself. No event follows.
 *
 * @param id  The id; freed now or later, but the host's no more.
 * @param now  The time.
 */
void cm_id_destroy(struct cm_id *id, ns_t now);

/**
 * Bind an id to an address and port number of its port space, as rdma_bind_addr does: several ids
 * may have a number if their addresses differ, or if all of them have `reuse` and none listens.
 * A wildcard takes every address, an IPv4 one or one with `afonly` those of its IP version alone.
 * Ports number 0 gives a free one of cm_config's range; then several ids with different dst may
 * have one number.
 *
 * @param id  The id, not bound.
 * @param addr  The address; number 0: any.
 * @param dst  Where it is going to connect to, or NULL.
 * @param flags  CM_BIND_*.
 * @return  0; -EADDRINUSE (the same address is bound), -EADDRNOTAVAIL (a wildcard is in the way, no
 *     number is free, or the id's user has as many as it may), -EACCES (below 1024, without
 * CM_BIND_PRIVILEGED), -EINVAL (bound, or an id without port space), -ENOMEM.
 */
int cm_bind(struct cm_id *id, const struct cm_addr *addr, const struct cm_addr *dst,
            unsigned flags);

enum cm_bind_flag {
    CM_BIND_REUSE = 1 << 0,
    CM_BIND_AFONLY = 1 << 1,
    CM_BIND_PRIVILEGED = 1 << 2,
};

/**
 * Change the flags of an id that is bound. Those of the others with its number count when it
 * listens, and when one more is bound.
 *
 * @param id  The id, which neither listens nor connects.
 * @param flags  CM_BIND_REUSE, CM_BIND_AFONLY.
 * @return  0; -EINVAL: it is not bound, or not idle.
 */
int cm_set_bind_flags(struct cm_id *id, unsigned flags);

/**
 * Bind an id without a port space to a service ID.
 *
 * @param id  The id, not bound.
 * @param service_id  The service ID, of none of the port spaces.
 * @return  0; -EADDRINUSE, -EINVAL, -ENOMEM.
 */
int cm_bind_service(struct cm_id *id, uint64_t service_id);

/**
 * Take requests to the id's address. An id that is not bound gets the IPv4 wildcard and a number.
 *
 * @param id  The id. Its number cannot be reused from now on.
 * @param backlog  How many requests may wait for the program; 0 or too many: the limit.
 * @return  0; -EADDRINUSE, -EADDRNOTAVAIL (an id has the number by reuse), -EINVAL (not idle), and
 *     the errors of cm_bind().
 */
int cm_listen(struct cm_id *id, uint32_t backlog);

/**
 * Request a connection.
 *
 * @param id  The id: idle, bound (with a port space), not listening. A wildcard address becomes the
 *     path's.
 * @param path  The path, copied. Its flow label becomes that of both ends' packets; rdma_cm has
 *     entropy_flow_label_cm() of the two port numbers.
 * @param param  The parameters; their private data are copied. A queue pair of type UD is none.
 * @param now  The time.
 * @return  0; -EINVAL: the state, the size of private data, or values out of range; -ENOMEM.
 */
int cm_connect(struct cm_id *id, const struct cm_path *path, const struct cm_connect_param *param,
               ns_t now);

/**
 * Accept a CONNECT_REQUEST. The queue pair must be at RTR at least: the peer may send on its RTU's
 * heels.
 *
 * @param id  The request's id.
 * @param param  The local end; its qp_type is not looked at.
 * @param ece  Or NULL.
 * @param private  At most 196 bytes, copied.
 * @param now  The time.
 * @return  0; -EINVAL: the state, the size, or values out of range.
 */
int cm_accept(struct cm_id *id, const struct cm_conn_param *param, const struct cm_ece *ece,
              struct cm_private private, ns_t now);

/**
 * Tell the peer that the answer to a CONNECT_REQUEST or CONNECT_RESPONSE takes longer than it
 * waits. The manager does this by itself at the first repetition that it gets.
 *
 * @param id  The id.
 * @param service_timeout  How long, a code: 4.096 us * 2^code.
 * @param now  The time.
 * @return  0; -EINVAL.
 */
int cm_delay(struct cm_id *id, uint8_t service_timeout, ns_t now);

/**
 * Reject a request or a response, or withdraw an own one.
 *
 * @param id  The id.
 * @param reason  enum cm_reason or another one of 12.6.7.2.
 * @param info  Additional information, at most 72 bytes, copied.
 * @param private  At most 148 bytes, copied.
 * @param now  The time.
 * @return  0; -EINVAL.
 */
int cm_reject(struct cm_id *id, uint16_t reason, struct cm_private info, struct cm_private private,
              ns_t now);

/**
 * Answer a CONNECT_RESPONSE by an RTU: the connection is established. The queue pair is at RTS.
 *
 * @param id  The id.
 * @param private  At most 224 bytes, copied.
 * @param now  The time.
 * @return  0; -EINVAL.
 */
int cm_establish(struct cm_id *id, struct cm_private private, ns_t now);

/**
 * The passive side's queue pair received a packet (QP_EVENT_COMM_EST): the connection is
 * established, even if the RTU was lost. ESTABLISHED follows.
 *
 * @param id  The id.
 * @param now  The time.
 * @return  0; -EISCONN: it was established; -EINVAL: another state.
 */
int cm_notify(struct cm_id *id, ns_t now);

/**
 * End a connection; DISCONNECTED follows. Or answer the peer's end of it.
 *
 * @param id  The id.
 * @param private  At most 220 bytes (224 of an answer), copied.
 * @param now  The time.
 * @return  0; -EINVAL.
 */
int cm_disconnect(struct cm_id *id, struct cm_private private, ns_t now);

/**
 * Ask for the queue pair of a service ID or port number: SIDR_REPLY follows.
 *
 * @param id  As for cm_connect().
 * @param path  The path, copied.
 * @param param  Of it dst, service_id, response_timeout, max_cm_retries, ece; private data at most
 *     180 bytes, 216 without a port space.
 * @param now  The time.
 * @return  0; -EINVAL, -ENOMEM.
 */
int cm_sidr_request(struct cm_id *id, const struct cm_path *path,
                    const struct cm_connect_param *param, ns_t now);

/**
 * Answer a SIDR_REQUEST. The id is idle then; the host destroys it.
 *
 * @param id  The request's id.
 * @param answer  The answer; its private data are copied.
 * @param now  The time.
 * @return  0; -EINVAL.
 */
int cm_sidr_reply(struct cm_id *id, const struct cm_sidr_answer *answer, ns_t now);

/**
 * The attributes that a queue pair needs for a state, as rdma_init_qp_attr gives them. The flow
 * label of attr->ah is the connection's: entropy_port() makes the UDP source port of both ends'
 * packets from it. The host may replace timeout and min_rnr_timer by what a program set.
 *
 * @param id  The id, from cm_connect() or a request to the end of the connection.
 * @param state  QPS_INIT, QPS_RTR or QPS_RTS.
 * @param attr  Set, with zeros where mask has no bit.
 * @param mask  Set: QPA_*.
 * @return  0; -EINVAL: the state of the id is too early or too late for it.
 */
int cm_qp_attr(const struct cm_id *id, enum qp_state state, struct qp_attr *attr, uint32_t *mask);

/**
 * The attributes of INIT, RTR and RTS at once, as cm_qp_attr() gives them one by one. None of them
 * belongs to two states.
 *
 * @param id  The id, from a request or the peer's answer to the end of the connection.
 * @param attr  Set, with state 0, and zeros where no mask has a bit.
 * @param mask  Set: QPA_*, for each of the three.
 * @return  0; -EINVAL: the state of the id is too early or too late.
 */
int cm_qp_steps(const struct cm_id *id, struct qp_attr *attr, uint32_t mask[QP_STEPS]);

/* ---- what an id is; all valid as long as the host has it ---- */

/** Numbers of the states, in the order of cm_states.def. */
enum cm_state {
#define CM_STATE(name, timer, waits, half_open, about) CM_##name,
#include "cm_states.def"
#undef CM_STATE
    CM_STATE_COUNT
};

/**
 * The state of an id, and its name.
 *
 * @param id  The id.
 * @return  The state.
 */
enum cm_state cm_id_state(const struct cm_id *id);
const char *cm_state_name(enum cm_state state);

/**
 * The host's object of an id; of a request's id NULL until it is set.
 *
 * @param id  The id.
 * @return  The owner.
 */
void *cm_id_owner(const struct cm_id *id);
void cm_id_set_owner(struct cm_id *id, void *owner);

/**
 * The path of an id that connects or was requested.
 *
 * @param id  The id.
 * @return  The path.
 */
const struct cm_path *cm_id_path(const struct cm_id *id);

/**
 * The addresses of an id: what it is bound to, and what it connects to; of a request's id what the
 * peer connected to, and from. Zeros: none.
 *
 * @param id  The id.
 * @return  The address.
 */
const struct cm_addr *cm_id_src(const struct cm_id *id);
const struct cm_addr *cm_id_dst(const struct cm_id *id);

/** What an id has agreed on or proposes; see enum cm_state how far it got. */
struct cm_id_info {
    enum ip_cm_port_space ps;
    uint64_t service_id;
    uint32_t local_comm_id, remote_comm_id; /**< remote: 0 until it is known */
    uint32_t remote_qpn;
    uint64_t remote_ca_guid;
    struct cm_conn_param conn;
    bool passive;
    bool lingers; /**< the host has destroyed it */
};

/**
 * What an id has agreed on.
 *
 * @param id  The id.
 * @param info  Set.
 */
void cm_id_query(const struct cm_id *id, struct cm_id_info *info);

/**
 * Visit all ids, also those that linger. visit must not change any.
 *
 * @param cm  The manager.
 * @param ctx  visit's first argument.
 * @param visit  Called for each.
 */
void cm_each_id(const struct cm *cm, void *ctx, void (*visit)(void *ctx, const struct cm_id *id));

/**
 * The counters of a manager, which go on counting.
 *
 * @param cm  The manager.
 * @return  The counters.
 */
const struct cm_counters *cm_counters(const struct cm *cm);

/**
 * The timeout of acknowledgments that a packet life time and a delay of the other end make, as the
 * kernel rounds it (12.7.34): 2 * life time + delay.
 *
 * @param ack_delay  A code: 4.096 us * 2^code.
 * @param packet_life_time  Likewise.
 * @return  Likewise, at most 31.
 */
uint8_t cm_ack_timeout(uint8_t ack_delay, uint8_t packet_life_time);

#endif
