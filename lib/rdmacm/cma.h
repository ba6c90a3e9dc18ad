/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects behind the API of librdmacm. Each begins with the structure that the application
 * sees; the rest is private. Functions return 0 or a negative errno; exported ones return -1 and
 * set errno.
 *
 * Locks, in the order in which they are taken: a channel's; a connection's (conn.h), under which
 * replies are taken over; a link's, of its table of ids; an id's. A program that waits for an event
 * or an acknowledgment holds none.
 */
#ifndef UROCE_CMA_H
#define UROCE_CMA_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cma_table.h"
#include "conn.h"
#include "modify_by.h"

#define EXPORT __attribute__((visibility("default")))

/* What rdma_cma.h of rdma-core 44 lacks. */
#define CMA_EVENT_ADDRINFO_RESOLVED 16
#define CMA_EVENT_ADDRINFO_ERROR    17
#define CMA_EVENT_USER              18
#define CMA_EVENT_INTERNAL          19
#define CMA_RAI_SA                  0x10
#define CMA_RAI_DNS                 0x20

/* A device that is open, as long as the link whose daemon has it. Its context is closed when the
 * link goes, if the daemon is gone and the program has nothing in it. */
struct cma_device {
    SLIST_ENTRY(cma_device) next;
    struct ibv_context *verbs;
    __be64 guid;
    struct ibv_pd *pd; /* of the ids, when there is one */
    uint32_t ids;
    struct ibv_xrcd *xrcd; /* when an id has needed one */
    bool listed; /* by rdma_get_devices, whose contexts programs may use as long as they run */
    uint8_t max_responder_resources, max_initiator_depth;
};

/* A connection to the daemon. There is a new one when the daemon was restarted and in a forked
 * child; ids and channels of an old one stay with it. */
struct cma_link {
    struct conn conn;
    uint32_t refs;        /* under the lock of link.c */
    pthread_mutex_t lock; /* ids */
    struct cma_table ids;
    SLIST_HEAD(, cma_device) devices; /* under the lock of devices.c */
};

/* An event; of the daemon, or local. */
struct cma_event {
    struct rdma_cm_event event;
    struct cma_id *owner; /* whose destruction waits for it: of requests the listener */
    struct cma_mcast *mcast;
    TAILQ_ENTRY(cma_event) next; /* of local ones */
    LIST_ENTRY(cma_event) of_owner;
    uint8_t private_data[CTL_CM_PRIVATE_MAX];
};

/* An event of the daemon that was taken out of a channel's socket before its turn. */
struct cma_arrival {
    TAILQ_ENTRY(cma_arrival) next;
    LIST_ENTRY(cma_arrival) of_owner;
    struct ctl_cm_told told;
};

TAILQ_HEAD(cma_arrivals, cma_arrival);

/* Events that are read in a system call. */
#define CHANNEL_BATCH 8
/* Lists by owner: an id that ends looks through one of them, not through what all ids have. */
#define CHANNEL_OWNERS 256u

/*
 * What a program polls is an epoll descriptor with the daemon's socket and an eventfd, which is
 * readable while there are local events, arrivals, or whole events that were read.
 */
struct cma_channel {
    struct rdma_event_channel base;
    pthread_mutex_t lock;
    struct cma_link *link;
    uint32_t handle;
    int sock; /* -1: the daemon is gone */
    int local_fd;
    uint32_t waiting; /* threads */
    bool closed;      /* the program has destroyed it */
    bool kept;        /* and its structure is still kept: who waits last does not free it */
    TAILQ_HEAD(cma_events, cma_event) local;
    struct cma_arrivals arrived;                         /* before those that were read */
    LIST_HEAD(, cma_event) local_of[CHANNEL_OWNERS];     /* by the owner's serial number */
    LIST_HEAD(, cma_arrival) arrived_of[CHANNEL_OWNERS]; /* also by the listener's cookie */
    /* Bytes from the socket, and those of whole events that were taken. */
    unsigned have, taken;
    uint8_t bytes[CHANNEL_BATCH * sizeof(struct ctl_cm_told)];
};

/* An address of a group that an id has joined, or is going to. */
struct cma_mcast {
    LIST_ENTRY(cma_mcast) next; /* of the id, under its lock */
    struct sockaddr_storage addr;
    void *context;
    uint64_t cookie;
    uint32_t handle;
    uint32_t reported, acked; /* events, under the id's lock */
    bool send_only, attached;
    /* A call leaves it, and is to free it; or its join has failed, and it ends with the id. */
    bool left;
    union ibv_gid mgid;
};

struct cma_id {
    struct rdma_cm_id base;
    struct cma_link *link;
    struct cma_entry entry; /* in link->ids */
    struct cma_device *device;
    _Atomic bool sync;  /* its channel is its own, and calls wait for their events */
    bool begun;         /* there is, or was, a connection, or a request for one */
    bool path_known;    /* the route came with the address: path */
    bool route_told;    /* and the program has it; the daemon learns that by CTL_CM_CONNECT */
    bool routed;        /* rdma_connect would be in order */
    bool accepted;      /* by a request without a reply */
    _Atomic bool over;  /* there was a connection, or an attempt: only its timewait is left */
    bool connect_error; /* the program knows that the connection failed: what follows is not said */
    uint8_t responder_resources, initiator_depth; /* of a request */
    struct ibv_ece local_ece, remote_ece;
    struct ibv_qp_init_attr *ep_attr; /* of rdma_create_ep, for requests */
    void *connect;                    /* the same, for rdma_connect: what private data begin with */
    size_t connect_len;
    struct rdma_addrinfo *info; /* of rdma_resolve_addrinfo */
    struct ibv_sa_path_rec path;
    /* What leads its queue pair to INIT, RTR and RTS, as an event said; mask 0: ask the daemon. */
    struct ibv_qp_attr steps;
    int steps_mask[QP_STEPS];
    pthread_mutex_t lock;
    pthread_cond_t acks;
    uint32_t reported, acked; /* events that the program got, and has acknowledged */
    uint32_t got;             /* of the daemon, so far */
    uint32_t calls;           /* id_begin_call */
    LIST_HEAD(, cma_mcast) mcasts;
};

static inline struct cma_id *to_id(struct rdma_cm_id *id)
{
    return (struct cma_id *)id;
}

static inline struct cma_channel *to_channel(struct rdma_event_channel *channel)
{
    return (struct cma_channel *)channel;
}

/* errno and -1 of a negative errno; 0 of 0. */
static inline int cma_result(int err)
{
    if (!err)
        return 0;
    errno = -err;
    return -1;
}

/* errno of a call that failed and set it. */
static inline int cma_errno(void)
{
    return errno ? -errno : -EIO;
}

/* What libibverbs returns when it has destroyed an object: EIO, too, if no daemon has answered. */
static inline bool is_gone(int err)
{
    return !err || err == EIO;
}

static inline bool is_datagram(enum ibv_qp_type type)
{
    return type == IBV_QPT_UD;
}

/* ---- link.c ---- */
/* The connection to the daemon that runs now, with a reference; NULL: *err is set. */
struct cma_link *link_get(int *err);
void link_ref(struct cma_link *link);
void link_put(struct cma_link *link);
/* Whether this process made it. */
bool link_is_ours(const struct cma_link *link);
/* A request, and its reply in *m. */
int link_call(struct cma_link *link, enum ctl_type type, struct ctl_msg *m);
/* A number that the process has not used before. */
uint64_t new_cookie(void);

/* ---- devices.c ---- */
/* The open device with this GUID, one more id uses it; NULL: *err is set. */
struct cma_device *device_get(struct cma_link *link, __be64 guid, int *err);
void device_put(struct cma_device *device);
/* The link goes: its devices are closed, or stay open without it. */
void devices_leave(struct cma_link *link);
struct ibv_xrcd *device_xrcd(struct cma_device *device, int *err);

/* ---- addr.c ---- */
/* 0; -EINVAL: neither IPv4 nor IPv6; -ENODEV: AF_IB, as the kernel says where it has no InfiniBand.
 * NULL is no address. */
int addr_to_ctl(struct ctl_cm_addr *to, const struct sockaddr *from);
/* An address of family 0 becomes zeros. */
void addr_from_ctl(struct sockaddr_storage *to, const struct ctl_cm_addr *from);
/* 0: another family. */
socklen_t addr_len(const struct sockaddr *addr);
/* No interface of this network namespace has it. */
bool addr_is_foreign(const struct sockaddr *addr);

/* ---- channel.c ---- */
struct cma_channel *channel_create(int *err);
void channel_destroy(struct cma_channel *ch);
/* Gives a channel whose daemon is gone to the one that runs now; afterwards *link is the channel's,
 * with a reference. */
int channel_revive(struct cma_channel *ch, struct cma_link **link);
/* Queues a local event. */
void channel_post(struct cma_channel *ch, struct cma_event *ev);
/* The oldest local event, as one that the program got; NULL. */
struct cma_event *channel_pop(struct cma_channel *ch);
/* The local events of the id go to another channel, or nowhere. */
void channel_move(struct cma_channel *from, struct cma_id *id, struct cma_channel *to);

/* ---- channel_read.c ---- */
/* Waits until there is an event. 0: there may be a local one. 1: *told is one of the daemon, and
 * *link its link, with a reference. -EAGAIN: the program does not want to wait. -EIO: the daemon
 * is gone, and its ids' events are given. -EINTR. It does not return when the program has destroyed
 * the channel. Called without cancellation; the wait itself is a cancellation point if `cancel`,
 * the thread's state, says so. */
int channel_wait(struct cma_channel *ch, int cancel, struct cma_link **link,
                 struct ctl_cm_told *told);
/* Takes out the unread events of the daemon that belong to the id of this entry and match. */
void channel_extract(struct cma_channel *ch, const struct cma_link *link,
                     const struct cma_entry *owner,
                     bool (*match)(const void *arg, const struct ctl_cm_told *told),
                     const void *arg, struct cma_arrivals *out);
/* They are the next ones of this channel. */
void channel_give(struct cma_channel *ch, struct cma_arrivals *from);

/* ---- id.c ---- */
struct cma_id *id_alloc(struct cma_link *link, struct cma_channel *ch, void *context,
                        enum rdma_port_space ps, enum ibv_qp_type type);
int id_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
              enum rdma_port_space ps, enum ibv_qp_type type);
void id_free(struct cma_id *id);
/* Takes the id away from the daemon and out of the table. */
int id_withdraw(struct cma_id *id);
/*
 * Around what a call does with an id and its queue pair: what the call has begun may be over before
 * it returns, and another thread, which got the event, destroys both. That waits for the call's
 * end. Nothing of the id may be touched afterwards, unless it is a synchronous one. And around what
 * follows from an event for the queue pair, which another thread may destroy; the id waits for the
 * event.
 */
void id_begin_call(struct cma_id *id);
void id_end_call(struct cma_id *id);
void id_wait_for_calls(struct cma_id *id);
/* Until an event is acknowledged or a call ends; may return before. With the id's lock. */
void id_await(struct cma_id *id);
/* The same, and from then on the id has no queue pair: it is the caller's, or NULL. */
struct ibv_qp *id_take_qp(struct cma_id *id);
/* Takes over what the daemon knows of the id. -ENODEV: its device cannot be opened. */
int id_take_info(struct cma_id *id, const struct ctl_cm_info *info);
/* The route is resolved: the program sees the path that the id has. */
void id_show_route(struct cma_id *id);

/* ---- local.c ---- */
/* For channel_post; or NULL. */
struct cma_event *event_local(struct cma_id *id, uint32_t type);

/* ---- event.c, take.c ---- */
/* The id has been destroyed: as many events were sent. Takes those out that are unread, with the
 * requests among them. */
void event_drop(struct cma_id *id, uint32_t sent);
/* The same, where it is not known how many were sent. */
void event_drop_all(struct cma_id *id);
/* The id has left a group. */
void event_drop_join(struct cma_id *id, uint64_t cookie, uint32_t sent);
/* The id goes from one channel to another. */
void event_move(struct cma_id *id, struct cma_channel *from, struct cma_channel *to, uint32_t sent);
/* What the daemon has sent of it and the library has read. */
uint32_t event_got(struct cma_id *id);
/* Waits for an event of the channel, and does what follows from it. */
int event_get(struct cma_channel *ch, struct cma_event **ev);
/* What follows from an event of the daemon. False: the program does not get it. */
bool event_take(struct cma_event *ev, const struct ctl_cm_told *told);
/* Acknowledges and frees it. */
void event_done(struct cma_event *ev);
/* One more event of the id, and the group, that the program gets. Under the id's lock. */
void event_count(struct cma_event *ev);
/* Of a synchronous id: waits for its event. */
int id_complete(struct cma_id *id);
void id_drop_event(struct cma_id *id);

/* ---- connect.c ---- */
/* A call that follows when the queue pair has been moved. */
struct id_call {
    enum ctl_type type; /* as in ctl_cm_with_qp */
    const struct ctl_msg *m;
    bool *moved; /* set: an error is the call's */
    bool post;   /* without a reply */
};
/* A request of the cm_call in *m, for the id. */
int id_call(struct cma_id *id, enum ctl_type type, const struct ctl_msg *m);
/* The same without a reply. */
int id_post(struct cma_id *id, enum ctl_type type, const struct ctl_msg *m);
/* What follows from a CONNECT_RESPONSE when the id has a queue pair. */
int connect_respond(struct cma_id *id);
int connect_reject(struct cma_id *id, uint8_t reason, const void *data, uint8_t len);
/* The queue pair gets what the peer can do by its enhanced connection establishment, before it gets
 * its path. */
void connect_set_ece(struct cma_id *id);

/* ---- qp.c, attr.c ---- */
void ah_from_ctl(struct ibv_ah_attr *to, const struct ah_attr *from);
void qp_attr_from_ctl(struct ibv_qp_attr *to, const struct qp_attr *from);
int id_qp_attr(struct cma_id *id, struct ibv_qp_attr *attr, int *mask);
/* What an event says of the queue pair's next states. */
void qp_take_steps(struct cma_id *id, const struct ctl_cm_steps *steps);
/* What a new queue pair begins with: to INIT; of datagrams, which need no peer, to RTS. step: room
 * for QP_STEPS. Returns their number or a negative errno. */
int qp_first_steps(struct cma_id *id, struct ibv_qp_attr *attr, struct uroce_qp_step *step);
/* The queue pair of a connection, if the id has one, goes to RTS or ERR; then the call is made, in
 * the same message. Return the first error. RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH: as the daemon
 * says. */
int qp_connect(struct cma_id *id, uint8_t responder_resources, uint8_t initiator_depth,
               const struct id_call *c);
/* CTL_CM_CONNECT with the queue pair, which the daemon leads on when the peer has accepted. */
int qp_begin(struct cma_id *id, const struct id_call *c);
int qp_disconnect(struct cma_id *id, const struct id_call *c);
int qp_to_error(struct cma_id *id);
int cqs_create(struct rdma_cm_id *id, uint32_t send, uint32_t recv);
void cqs_destroy(struct rdma_cm_id *id);

/* ---- mcast.c ---- */
/* The join with this cookie. Under the id's lock. */
struct cma_mcast *mcast_find(struct cma_id *id, uint64_t cookie);
int mcast_joined(struct cma_id *id, struct cma_mcast *mc, const union ibv_gid *mgid);
/* Detaches the id's queue pair, or the one that it had, from all groups. */
void mcast_detach_all(struct cma_id *id, struct ibv_qp *qp);
void mcast_free_all(struct cma_id *id);

#endif
