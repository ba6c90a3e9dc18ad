/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the communication manager (cm.h) and its host give each other: addresses, paths, parameters
 * of requests, events.
 */
#ifndef UROCE_CM_TYPES_H
#define UROCE_CM_TYPES_H

#include "cm_msg.h"
#include "common.h"
#include "gid.h"
#include "ip_cm.h"

struct cm;
struct cm_id;

/** Any VLAN, and any port of the host, in struct cm_addr. */
#define CM_VLAN_ANY 0xFFFE
#define CM_PORT_ANY UINT32_MAX

/** An address of a program: an IP address as a GID (IPv4 as ::ffff:a.b.c.d, the wildcards
 * ::ffff:0.0.0.0 and ::), a port number of its port space, and where the address is. */
struct cm_addr {
    union gid gid;
    uint16_t number; /**< the port number; 0: none yet */
    uint16_t vlan;   /**< VLAN id, VLAN_NONE (untagged) or CM_VLAN_ANY */
    uint32_t port;   /**< the host's number of the network port, or CM_PORT_ANY */
};

/** Between two ports, as the host resolved it; also the way of an answer to a packet, whose source
 * is then dgid and whose destination sgid. */
struct cm_path {
    union gid sgid, dgid;
    uint64_t ca_guid;    /**< of the local port's device: node GUID */
    uint32_t port;       /**< the host's number of the local network port */
    uint32_t flow_label; /**< 20 bits */
    uint16_t vlan;       /**< VLAN id, or VLAN_NONE */
    uint16_t pkey;
    uint8_t port_num; /**< as verbs have it */
    uint8_t gid_type; /**< enum gid_type */
    uint8_t sgid_index;
    uint8_t sl, traffic_class, hop_limit;
    uint8_t rate;             /**< code of enum ibv_rate */
    uint8_t mtu;              /**< 1 to 5: 256 to 4096 bytes; of an answer: the port's */
    uint8_t packet_life_time; /**< code: 4.096 us * 2^code */
    uint8_t ack_delay;        /**< of the local device, a code like it */
};

/** Extended connection establishment: a vendor and its options. */
struct cm_ece {
    uint32_t vendor_id; /**< 24 bits; 0: none */
    uint32_t options;
};

/** Numeric values of enum ibv_qp_type; XRC as the two ends of a connection see it. */
enum cm_qp_type {
    CM_QP_RC = 2,
    CM_QP_UC = 3,
    CM_QP_UD = 4,
    CM_QP_XRC_SEND = 9,
    CM_QP_XRC_RECV = 10,
};

/** What the two ends of a connection agree on, from the local end's point of view. */
struct cm_conn_param {
    uint32_t qpn;
    uint8_t qp_type;             /**< enum cm_qp_type; a listener's program has no choice */
    uint8_t responder_resources; /**< READs and atomics that the local end answers at a time */
    uint8_t initiator_depth;     /**< and those that it requests at a time */
    uint8_t flow_control;        /**< end-to-end credits */
    uint8_t retry_count;         /**< 0 to 7 */
    uint8_t rnr_retry_count;     /**< 0 to 7 */
    uint8_t srq;
};

/** Private data of a message; data may be NULL when len is 0. */
struct cm_private {
    const void *data;
    size_t len;
};

/** A request for a connection. */
struct cm_connect_param {
    struct cm_conn_param conn;
    struct cm_ece ece;
    uint64_t service_id;       /**< of an id without a port space; else it follows from dst */
    struct cm_addr dst;        /**< the peer's address and port number */
    uint8_t response_timeout;  /**< code; 0: CM_RESPONSE_TIMEOUT */
    uint8_t max_cm_retries;    /**< 0 to 15; more: CM_MAX_RETRIES */
    bool peer_to_peer;         /**< both ends request, and one becomes the passive side (12.10.4) */
    struct cm_private private; /**< at most 56 bytes; 92 without a port space */
};

/** What the kernel's rdma_cm uses. */
#define CM_RESPONSE_TIMEOUT 20 /**< 4.1 s, as the kernel rounds it */
#define CM_MAX_RETRIES      15
#define CM_SERVICE_TIMEOUT  24 /**< of the MRA that answers a repeated REQ or REP: 69 s */

/** Reasons of a REJ (12.6.7.2) that the manager itself uses or looks at. */
enum cm_reason {
    CM_REJ_NO_QP = 1,
    CM_REJ_NO_RESOURCES = 3,
    CM_REJ_TIMEOUT = 4,
    CM_REJ_UNSUPPORTED = 5,
    CM_REJ_INVALID_COMM_ID = 6,
    CM_REJ_INVALID_SERVICE_ID = 8,
    CM_REJ_INVALID_TRANSPORT = 9,
    CM_REJ_STALE_CONNECTION = 10,
    CM_REJ_INVALID_GID = 12,
    CM_REJ_INVALID_MTU = 26,
    CM_REJ_CONSUMER = 28,
    CM_REJ_INVALID_CLASS_VERSION = 31,
};

/** Status of a SIDR_REP (12.11.2). */
enum cm_sidr_status {
    CM_SIDR_OK = 0,
    CM_SIDR_UNSUPPORTED = 1, /**< no such service ID */
    CM_SIDR_REJECTED = 2,
    CM_SIDR_NO_QP = 3,
    CM_SIDR_BAD_VERSION = 5,
};

/** The answer to a request for a service ID's queue pair. */
struct cm_sidr_answer {
    uint8_t status; /**< enum cm_sidr_status */
    uint32_t qpn, qkey;
    struct cm_ece ece;
    struct cm_private private; /**< at most 136 bytes */
};

/** X(event, what it means) */
#define CM_EVENTS(X)                                                                        \
    X(CONNECT_REQUEST, "a REQ for a listener: accept or reject the new id")                 \
    X(CONNECT_RESPONSE, "a REP: bring the queue pair to RTS, then cm_establish, or reject") \
    X(ESTABLISHED, "the passive side: an RTU, or the host knows by itself")                 \
    X(REJECTED, "a REJ: status is its reason")                                              \
    X(UNREACHABLE, "no answer to a REQ, REP or SIDR_REQ after all repetitions")             \
    X(DISCONNECTED, "a DREQ (answer it by cm_disconnect), or the end of the own one")       \
    X(TIMEWAIT_EXIT, "no packet of the connection can arrive any more")                     \
    X(SIDR_REQUEST, "a SIDR_REQ for a listener: answer the new id by cm_sidr_reply")        \
    X(SIDR_REPLY, "a SIDR_REP: status is enum cm_sidr_status")

enum cm_event_type {
#define X(name, about) CM_EVENT_##name,
    CM_EVENTS(X)
#undef X
        CM_EVENT_COUNT
};

/** What happened to an id. Everything that it points to is valid during the call that gives it. */
struct cm_event {
    enum cm_event_type type;
    struct cm_id *id;       /**< of requests: a new id, which the host owns from now on */
    struct cm_id *listener; /**< of requests; NULL: peer to peer, the id is the host's own */
    int status;             /**< after all repetitions -ETIMEDOUT: UNREACHABLE, or DISCONNECTED */
    bool by_peer;           /**< DISCONNECTED: it was a DREQ of the peer, which awaits an answer */
    struct cm_private private; /**< all that the message has room for */
    struct cm_private info;    /**< REJECTED, SIDR_REPLY: additional information */
    struct cm_ece ece;
    /**
     * Of CONNECT_REQUEST and CONNECT_RESPONSE: what the peer offers, as the local end would say it
     * (responder_resources is what the peer's initiator_depth asks for), with the peer's queue
     * pair. Of SIDR_REPLY: the queue pair.
     */
    struct cm_conn_param conn;
    uint32_t qkey; /**< SIDR_REPLY */
};

/** Counters of messages, one of each in struct cm_counters for every message. */
/** X(counter, what it counts) */
#define CM_COUNTERS(X)                                                                            \
    X(retries, "messages sent again because no answer came")                                      \
    X(repeated, "messages sent again because the peer repeated one")                              \
    X(ignored, "messages that the state of the connection does not expect")                       \
    X(unmatched, "messages of no connection")                                                     \
    X(wrong_source, "messages of a connection that came from another address")                    \
    X(malformed, "MADs that are no messages, and messages with a bad field")                      \
    X(stale, "connections whose peer's queue pair has a new one")                                 \
    X(refused, "requests that the manager rejected by itself")                                    \
    X(backlog_full, "requests dropped: as many wait for the program as it said")                  \
    X(half_open_full, "requests dropped: too many connections are being made")                    \
    X(ids_full, "requests dropped: no id was free")                                               \
    X(numbers_refused, "port numbers not given: the user has as many as it may")                  \
    X(reclaimed, "ids given up before their time, to make room for others")                       \
    X(answers_limited, "messages of no connection and repeated REQs not answered: too many")      \
    X(repetitions_limited, "REPs not sent again: too many to an address that may not have asked") \
    X(gsi_answered, "MADs of other kinds that were answered with a status")                       \
    X(gsi_taken, "MADs of other classes that the class's handler took")

struct cm_counters {
    uint64_t rx[CM_MESSAGE_COUNT], tx[CM_MESSAGE_COUNT];
#define X(name, about) uint64_t name;
    CM_COUNTERS(X)
#undef X
};

#endif
