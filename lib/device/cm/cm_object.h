/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs have of the connection manager (ctl_cm.h): ids and event channels. Control thread.
 */
#ifndef UROCE_DEVICE_CM_OBJECT_H
#define UROCE_DEVICE_CM_OBJECT_H

#include "cm.h"
#include "control/session_state.h"

/* ---- event channels: cm_channel.c ---- */

struct cm_channel {
    struct object o; /* refs: its ids */
    int fd;
    struct event_source room; /* watched while events wait */
    bool closed;              /* by the program: nothing can be sent */
    bool is_due;              /* on the list of cm_host */
    TAILQ_ENTRY(cm_channel) due;
    TAILQ_HEAD(, cm_record) events;
    unsigned batch; /* events that are sent at once */
    /* What the socket has not taken of an event whose beginning it has. */
    unsigned rest;
    uint8_t bytes[sizeof(struct ctl_cm_told)];
};

/* An event that waits for room in the channel's socket. */
struct cm_record {
    TAILQ_ENTRY(cm_record) link; /* the channel's */
    TAILQ_ENTRY(cm_record) own;  /* of->records */
    struct cm_object *of;        /* whose end drops it: of a request, the listener */
    struct cm_object *fresh;     /* the id of a request, which ends with it; or NULL */
    uint32_t join;               /* handle of the join that it tells of, or 0 */
    struct ctl_cm_event e;
};

/* ---- ids: cm_object.c ---- */

/* How far rdma_resolve_addr and rdma_resolve_route have got. */
enum cm_progress {
    CM_AT_START,
    CM_AT_QUERY, /* in the list of those that are being resolved */
    CM_AT_ADDRESS,
    CM_AT_ROUTE,
};

/* What a program has said of the route: cm_route.c. */
struct cm_route {
    uint32_t flow_label;
    uint8_t hop_limit, traffic_class, sl, mtu, rate, packet_life_time;
    bool given;
};

/* A group that the program has joined: cm_join.c. */
struct cm_join {
    TAILQ_ENTRY(cm_join) link;
    uint32_t handle;
    union gid mgid;
};

struct cm_object {
    struct object o;
    struct cm_id *id;
    struct cm_channel *channel;
    uint64_t cookie;
    enum ip_cm_port_space ps;
    enum cm_progress progress;
    TAILQ_ENTRY(cm_object) resolving;
    ns_t deadline;               /* CM_AT_QUERY */
    struct device *device;       /* once its address is one of a device's, or NULL */
    unsigned sgid_index;         /* with a device */
    uint16_t vlan;               /* of its address, or CM_VLAN_ANY */
    union gid dgid;              /* from CM_AT_QUERY on */
    struct ctl_cm_addr src, dst; /* as the program knows them */
    bool bound, is_request, accepted, address_gone;
    bool searches; /* its device is the one that reaches dst: rdma_resolve_addr had no source */
    struct cm_route route;
    uint8_t qp_type; /* enum cm_qp_type, or 0: the port space says it */
    bool leads_qp;   /* when the peer has accepted, this queue pair goes to RTS */
    uint32_t qpn;
    uint64_t qp_key[2];
    uint64_t qp_serial;
    uint32_t peer_features; /* of the peer's enhanced connection establishment: ece.h */
    unsigned bind_flags;
    uint8_t tos, ack_timeout; /* ack_timeout: if it is set */
    bool has_ack_timeout;
    uint64_t serial;
    uint32_t sent;                   /* events */
    TAILQ_HEAD(, cm_record) records; /* its own, of its channel */
    unsigned events, join_events;    /* these; of them, those of joins */
    unsigned requests, backlog;      /* a listener's: those of them that are requests; at most */
    struct cm_record *told_by;       /* the request of a fresh id: until it is sent */
    uint32_t joins_made;
    TAILQ_HEAD(, cm_join) joins;
};

/*
 * Of an id with as many records, but for those of joins, nothing is begun that has an event. What
 * is begun has three at most, such as CONNECT_RESPONSE, DISCONNECTED and TIMEWAIT_EXIT; and the id
 * may lose its address. Together they fit into what is charged for an id: object.c.
 */
#define CM_RECORDS_MAX   4
#define CM_RECORDS_ADDED 3 /* to one less */
/* Requests of a listener that wait for room, at most, also if the peer has withdrawn them. */
#define CM_REQUESTS_MAX 1024

/* The program gets no event of a request that it has not accepted, as with the kernel: often it has
 * nothing that belongs to the id yet. If the request is over, accepting it fails. */
static inline bool cm_object_is_heard(const struct cm_object *o)
{
    return !o->is_request || o->accepted;
}

/* NULL: the program has no such id, or does not know yet that it has: handles of requests can be
 * guessed, and `uroce show` has them; an id that ended would leave its request behind. */
static inline struct cm_object *cm_object_get(struct session *sn, uint32_t handle)
{
    struct object *obj = object_get(sn, OBJ_CM_ID, handle);
    struct cm_object *o = obj ? container_of(obj, struct cm_object, o) : NULL;

    return o && !o->told_by ? o : NULL;
}
/* An id of a session, without a manager's id. NULL: out of memory or quota. */
struct cm_object *cm_object_add(struct session *sn, struct cm_channel *channel,
                                enum ip_cm_port_space ps);
/* Ends it, with its events, and with the ids of requests that wait. */
void cm_object_end(struct cm_object *o);
/* Whether its queue pairs are of datagrams. */
static inline bool cm_object_is_ud(const struct cm_object *o)
{
    return o->ps == IP_CM_PS_UDP || o->ps == IP_CM_PS_IPOIB || o->qp_type == CM_QP_UD;
}

/* What leads its queue pair to RTS, if a connection is being made. */
void cm_object_steps(const struct cm_object *o, struct ctl_cm_steps *steps);

static inline bool cm_object_is_full(const struct cm_object *o)
{
    return o->events - o->join_events >= CM_RECORDS_MAX;
}

struct cm_channel *cm_channel_get(struct session *sn, uint32_t handle);
/* A record of type and status for o's channel, to be filled in and queued; NULL: out of memory. */
struct cm_record *cm_record_new(struct cm_object *o, uint32_t type, int status);
void cm_record_queue(struct cm_record *r);
/* The same for a request of a listener, which makes `fresh` known. */
void cm_record_queue_request(struct cm_record *r, struct cm_object *fresh);
/* cm_record_new and cm_record_queue. */
void cm_object_report(struct cm_object *o, uint32_t type, int status);
/* Drops the records of an id, of one join or (0) all. No request is among them:
 * cm_record_drop_request comes before. */
void cm_records_drop(struct cm_object *o, uint32_t join);
/* Drops a listener's next request. The caller ends the id that it returns. NULL: there is none. */
struct cm_object *cm_record_drop_request(struct cm_object *listener);
/* What the program's library gets of a record: cm_event.c. */
void cm_record_tell(const struct cm_record *r, struct ctl_cm_told *told);

/* Looks again whether the peers' addresses of ids are resolved, now or in slices: cm_resolve.c. */
void cm_resolve_again(struct rnic *r);
/* An id is no longer CM_AT_QUERY. */
void cm_resolve_forget(struct cm_object *o);

/* ---- cm_incident.c ---- */

/* The way to an address was not found. */
void cm_incident_of_address(struct cm_object *o, const struct ctl_cm_addr *dst, int err);
/* The manager has an event: keeps an incident if it is that a connection did not come about. */
void cm_incident_of_event(struct cm_object *o, const struct cm_event *event);

/* Of all channels, before there are some, and when there are none any more. */
void cm_channels_init(struct cm_host *h);
void cm_channels_stop(struct rnic *r);
void cm_resolve_init(struct cm_host *h);
void cm_resolve_stop(struct rnic *r);

/* The route of an id whose address is resolved: cm_route.c. 0 or -EINVAL. */
int cm_route_set(struct cm_object *o, const struct ctl_cm_route *r);
void cm_route_apply(const struct cm_route *route, struct cm_path *path);

void cm_follow_stop(struct rnic *r); /* cm_follow.c */

/* Ends a join of an id, whose event has been dropped or follows: cm_join.c. */
void cm_join_free(struct cm_object *o, struct cm_join *j);

/* The manager's callback: cm_report.c. */
void cm_on_event(void *ctx, const struct cm_event *event);

/* ---- messages ---- */

int cm_create_channel(struct session *sn, struct ctl_call *call);
int cm_destroy_channel(struct session *sn, struct ctl_call *call);
int cm_create_id(struct session *sn, struct ctl_call *call);
int cm_destroy_id(struct session *sn, struct ctl_call *call);
int cm_migrate_id(struct session *sn, struct ctl_call *call);
int cm_bind_id(struct session *sn, struct ctl_call *call);
int cm_resolve_addr(struct session *sn, struct ctl_call *call);
int cm_resolve_route(struct session *sn, struct ctl_call *call);
int cm_query_id(struct session *sn, struct ctl_call *call);
int cm_listen_id(struct session *sn, struct ctl_call *call);
int cm_connect_id(struct session *sn, struct ctl_call *call);
int cm_accept_id(struct session *sn, struct ctl_call *call);
int cm_reject_id(struct session *sn, struct ctl_call *call);
int cm_establish_id(struct session *sn, struct ctl_call *call);
int cm_disconnect_id(struct session *sn, struct ctl_call *call);
int cm_notify_id(struct session *sn, struct ctl_call *call);
int cm_call_with_qp(struct session *sn, struct ctl_call *call);
/* A request without a reply has failed: if it is one for a connection, the id has an event. */
void cm_post_failed(struct session *sn, const struct ctl_msg *request, int status);
/* The peer has accepted: leads the queue pair to RTS, and establishes. False: that is for the
 * library, or fails with it. */
bool cm_object_lead_qp(struct cm_object *o);
int cm_get_qp_attr(struct session *sn, struct ctl_call *call);
int cm_set_option(struct session *sn, struct ctl_call *call);
int cm_join_group(struct session *sn, struct ctl_call *call);
int cm_leave_group(struct session *sn, struct ctl_call *call);

bool cm_ids_free_some(struct session *sn, const struct slice *s);
bool cm_channels_free_some(struct session *sn, const struct slice *s);

#endif
