/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the control protocol (ctl_msg.h) that makes connections. A library opens one
 * connection to the daemon for this, without CTL_OPEN, whatever devices its program uses; queue
 * pairs are modified over the devices' connections, by the attributes that events bring
 * (ctl_cm_told) or CTL_CM_QP_ATTR's.
 *
 * An event channel is a queue of events in the daemon, and a SOCK_STREAM socket, on which the
 * daemon sends each event as a struct ctl_cm_told, soon or when there is room. What is sent is the
 * library's: when an id is destroyed or moved, or leaves a group, the reply says how many of
 * its events were sent. Those that the library has not read by then are in the socket, and it takes
 * them out. The id of a request whose listener is gone is the library's to destroy.
 *
 * Numbers are those of the ABI of rdma_cm: enum rdma_port_space, rdma_cm_event_type, ibv_qp_type,
 * RDMA_OPTION_ID_*. IPv4 addresses are ::ffff:a.b.c.d. Port numbers are in host order.
 */
#ifndef UROCE_CTL_CM_H
#define UROCE_CTL_CM_H

#include "qp_attr.h"

#define CTL_CM_PRIVATE_MAX 256
#define CTL_CM_QKEY        0x01234567u /* RDMA_UDP_QKEY: of datagrams and groups */

/* enum rdma_cm_event_type: those that the daemon sends. */
enum ctl_cm_event_type {
    CTL_CM_ADDR_RESOLVED = 0,
    CTL_CM_ADDR_ERROR = 1,
    CTL_CM_ROUTE_RESOLVED = 2,
    CTL_CM_CONNECT_REQUEST = 4,
    CTL_CM_CONNECT_RESPONSE = 5,
    CTL_CM_CONNECT_ERROR = 6, /* a CTL_CM_CONNECT or CTL_CM_ACCEPT without a reply has failed */
    CTL_CM_UNREACHABLE = 7,
    CTL_CM_REJECTED = 8,
    CTL_CM_ESTABLISHED = 9,
    CTL_CM_DISCONNECTED = 10,
    CTL_CM_MULTICAST_JOIN = 12,
    CTL_CM_ADDR_CHANGE = 14, /* the id's address has gone from its device */
    CTL_CM_TIMEWAIT_EXIT = 15,
};

/* An address of a program; family AF_INET, AF_INET6 or 0: none. */
struct ctl_cm_addr {
    uint8_t gid[16];
    uint32_t scope; /* ifindex of a link-local IPv6 address, or 0 */
    uint16_t number;
    uint16_t family;
};

struct ctl_cm_id {
    uint32_t id;      /* handle; of CTL_CM_CREATE_ID in the reply */
    uint32_t channel; /* CTL_CM_CREATE_ID, CTL_CM_MIGRATE: handle */
    uint32_t ps;      /* CTL_CM_CREATE_ID */
    uint32_t backlog; /* CTL_CM_LISTEN: 0 or too many: the limit */
    uint64_t cookie;  /* CTL_CM_CREATE_ID: what events of the id carry */
    uint32_t sent;    /* reply of CTL_CM_DESTROY_ID, CTL_CM_MIGRATE: events of the id so far */
    uint32_t event;   /* CTL_CM_NOTIFY: enum ibv_event_type */
    uint32_t qp_type; /* CTL_CM_CREATE_ID: enum ibv_qp_type, or 0: the port space says it */
    uint32_t reserved;
    uint64_t serial; /* reply of CTL_CM_CREATE_ID: of no other id, also later */
};

/* CTL_CM_BIND: src. CTL_CM_RESOLVE_ADDR: both, src may be none. CTL_CM_RESOLVE_ROUTE: timeout.
 * at_once, got: see ctl_cm_info. */
struct ctl_cm_resolve {
    uint32_t id;
    uint32_t timeout_ms;
    struct ctl_cm_addr src, dst;
    uint32_t at_once;
    uint32_t got; /* events of the id that the library has read */
};

/* What an id is bound to and where it leads, as far as that is known: reply of CTL_CM_BIND,
 * CTL_CM_LISTEN and CTL_CM_QUERY. */
struct ctl_cm_info {
    uint32_t id;
    uint32_t
        has_device;    /* device to vlan, port_num, gid_type, sgid_index, sgid and dgid are known */
    uint32_t has_path; /* and the others: where the address is resolved */
    struct ctl_cm_addr src, dst;
    uint64_t node_guid; /* as in ctl_device */
    uint32_t device;    /* its index */
    uint16_t pkey, vlan;
    uint8_t port_num, gid_type, sgid_index;
    uint8_t sl, traffic_class, hop_limit, rate, mtu, packet_life_time;
    uint32_t flow_label;
    uint8_t sgid[16], dgid[16];
    /* Reply of CTL_CM_RESOLVE_ADDR, CTL_CM_RESOLVE_ROUTE: it is resolved, and no event follows,
       since the request allowed that and no older event of the id is unread. Otherwise the reply of
       CTL_CM_RESOLVE_ROUTE has 0 here, and nothing else. */
    uint32_t at_once;
};

/* CTL_CM_CONNECT, CTL_CM_ACCEPT, CTL_CM_REJECT, CTL_CM_ESTABLISH, CTL_CM_DISCONNECT: what each of
 * them uses; and part of an event. */
struct ctl_cm_conn {
    uint32_t qpn, qkey;  /* qkey: of datagrams */
    uint32_t ece_vendor; /* 0: none */
    uint32_t ece_options;
    uint8_t qp_type;
    uint8_t responder_resources, initiator_depth, flow_control;
    uint8_t retry_count, rnr_retry_count, srq;
    uint8_t reason; /* CTL_CM_REJECT: as in a REJ */
    uint16_t private_len;
    uint8_t private_data[CTL_CM_PRIVATE_MAX];
};

struct ctl_cm_call {
    uint32_t id;
    /* CTL_CM_CONNECT: the program resolved the route by what the address's info has; there was no
       CTL_CM_RESOLVE_ROUTE. */
    uint32_t routed;
    struct ctl_cm_conn conn;
};

struct ctl_cm_qp_attr {
    uint32_t id;
    uint32_t mask;       /* reply: enum qp_attr_mask */
    struct qp_attr attr; /* request: state; reply: all that mask names, and zeros */
};

struct ctl_cm_option {
    uint32_t id;
    uint32_t level, name; /* RDMA_OPTION_ID, RDMA_OPTION_ID_* */
    uint32_t length;      /* bytes of value */
    uint8_t value[64];
};

/* The value of RDMA_OPTION_IB_PATH: what of a path record counts on RoCE. 0 in flow_label,
 * hop_limit and rate: as usual. */
struct ctl_cm_route {
    uint8_t sgid[16], dgid[16];
    uint32_t flow_label;
    uint16_t pkey;
    uint8_t hop_limit, traffic_class, sl;
    uint8_t mtu, rate, packet_life_time; /* codes, without selectors */
};

/* CTL_CM_JOIN: the group's address; MULTICAST_JOIN or MULTICAST_ERROR follows. CTL_CM_LEAVE. */
struct ctl_cm_mcast {
    uint32_t id;
    uint32_t flags; /* enum rdma_cm_join_mc_attr_mask's join flags; 0: full member */
    uint64_t cookie;
    struct ctl_cm_addr addr;
    uint32_t handle;  /* reply of CTL_CM_JOIN; request of CTL_CM_LEAVE */
    uint32_t sent;    /* reply of CTL_CM_LEAVE: events of the id so far */
    uint8_t mgid[16]; /* reply of both */
};

struct ctl_cm_event {
    uint16_t type;      /* enum ctl_cm_event_type */
    uint16_t qp_is_led; /* ESTABLISHED of the active side: its queue pair is at RTS, see
                           ctl_cm_with_qp; otherwise CONNECT_RESPONSE comes */
    int32_t status;
    uint32_t id;       /* handle; CONNECT_REQUEST: a new id of the listener's channel */
    uint32_t channel;  /* handle: whose event it is */
    uint64_t cookie;   /* of the id, or of the multicast join; CONNECT_REQUEST: of the listener */
    struct ah_attr ah; /* ESTABLISHED of datagrams, MULTICAST_JOIN */
    struct ctl_cm_conn conn;
};

/* The attributes of INIT, RTR and RTS of a connection's queue pair. Each attribute belongs to one
 * of the three states. mask[0] 0: not known. */
struct ctl_cm_steps {
    uint32_t mask[QP_STEPS];
    struct qp_attr attr;
};

/* An event, with what the library would ask for next. It changes later only if the program sets an
 * option of the id. */
struct ctl_cm_told {
    struct ctl_cm_event event;
    uint64_t serial;           /* of the id that the event names */
    struct ctl_cm_info info;   /* ADDR_RESOLVED, ROUTE_RESOLVED; CONNECT_REQUEST: of the new id */
    struct ctl_cm_steps steps; /* CONNECT_REQUEST: of the new id; CONNECT_RESPONSE */
};

#endif
