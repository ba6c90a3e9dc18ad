/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's objects; shared by the files of this folder only. */
#ifndef UROCE_OBJECT_H
#define UROCE_OBJECT_H

#include <sys/queue.h>

#include "device.h"
#include "handle_table.h"
#include "net.h"
#include "raw.h"
#include "slab.h"

/* ---- limits ---- */

#define LIMIT_QP      (QP_TABLE_SLOTS - 16)
#define LIMIT_SGE     30u /* advertised; the rings could carry QUEUE_MAX_SGE */
#define LIMIT_RD_ATOM 16u
#define FRAME_AROUND  18u /* bytes of a frame that are not of the MTU: Ethernet header and tag */
#define LIMIT_MR_SIZE (UINT64_C(1) << 40)
#define LIMIT_PD      65536u
#define LIMIT_CQ      65536u
#define LIMIT_MR      MR_TABLE_MAX_SLOTS
#define LIMIT_AH      65536u
#define LIMIT_CHANNEL 16384u
#define LIMIT_SRQ     (SRQ_TABLE_SLOTS - 1)
#define LIMIT_MW      LIMIT_MR
#define LIMIT_XRCD    65536u
#define LIMIT_MCAST   8192u
#define LIMIT_WQ      (WQ_TABLE_SLOTS - 1)
#define LIMIT_RWQ_IND 16384u
#define LIMIT_FLOW    4096u /* each frame that is not RoCE may be compared with all of them */
/* Per application, so that one cannot take everything: descriptors are the scarcest. */
#define LIMIT_SESSION_CHANNEL 1024u
#define LIMIT_SESSION_WQ      16384u
#define LIMIT_SESSION_RWQ_IND 4096u
#define LIMIT_SESSION_FLOW    1024u
#define MTU_CODE_MAX          5u

/* ---- objects ---- */

enum object_kind {
    OBJ_PD,
    OBJ_MR,
    OBJ_MW,
    OBJ_CHANNEL,
    OBJ_CQ,
    OBJ_SRQ,
    OBJ_XRCD,
    OBJ_QP,
    OBJ_AH,
    OBJ_WQ,
    OBJ_RWQ_IND,
    OBJ_FLOW,
    OBJ_KINDS
};

/* The common part, first in each object. The handle of a queue pair, SRQ or WQ is its number. */
struct object {
    TAILQ_ENTRY(object) link; /* in its session's list of the kind */
    struct session *session;
    uint32_t handle;
    uint32_t refs; /* objects that use this one */
    enum object_kind kind;
};

struct pd {
    struct object o;
};

struct mr {
    struct object o;
    struct pd *pd;
    struct mem_region region;
    void *mapping; /* or NULL */
    uint32_t why;  /* enum ctl_mr_why: what it is mapped or copied for */
    uint32_t uidx;
    uint32_t patience;  /* the limit by which it was or will be hot; 0: it was never to be */
    LIST_ENTRY(mr) hot; /* while is_listed: among its session's hot ones */
    bool is_listed;
};

struct channel {
    struct object o;
    struct dp_channel dp;
    struct event_source writable; /* watched while events wait to be sent */
};

struct cq {
    struct object o;
    struct dp_cq dp;
    struct channel *channel; /* or NULL */
    uint32_t vector;         /* the worker that the application thinks of */
    struct segment segment;
};

/* Why a queue pair is on its worker (steer.c). */
enum steer_reason {
    STEER_SHARE,     /* it had the fewest queue pairs */
    STEER_LOCAL,     /* its peer, on the same port, is there */
    STEER_PREDICTED, /* the port's hash brings its packets there */
    STEER_RULE,      /* a flow rule does */
    STEER_MISPLACED, /* its packets kept arriving there */
    STEER_REASONS
};

struct qp_object {
    struct object o;
    struct dp_qp dp;
    struct pd *pd;
    struct cq *send_cq, *recv_cq;
    struct srq_object *srq;
    struct xrcd *xrcd;
    struct rwq_ind_object *ind; /* it has receive-side scaling */
    struct rx_hash rx_hash;     /* and by which hash */
    struct segment segment;
    enum steer_reason reason; /* why it is where it is */
    uint32_t dest_qpn;
    void *flow;                     /* the port's rule that brings its packets there, or NULL */
    uint16_t flow_sport;            /* the source port in that; 0: it goes by the number */
    LIST_HEAD(, membership) groups; /* multicast groups it is in */
    uint32_t group_count;
    bool sq_sig_all;
};

struct ah {
    struct object o;
    struct pd *pd;
    struct address_handle *handle;
};

struct mw {
    struct object o;
    struct pd *pd;
    struct mem_region window;
};

struct srq_object {
    struct object o;
    struct dp_srq dp;
    struct srq *srq;
    struct pd *pd;
    struct cq *cq; /* XRC */
    struct xrcd *xrcd;
    struct segment segment;
    struct ctl_create_srq layout; /* as it was answered last */
};

struct wq_object {
    struct object o;
    struct dp_wq dp;
    struct wq *wq;
    struct worker_port *port; /* whose engine has it */
    struct pd *pd;
    struct cq *cq;
    struct srq_object *srq; /* entries come from it; or NULL */
    struct segment segment;
};

struct rwq_ind_object {
    struct object o;
    struct rwq_ind *ind;
    uint32_t size;
    struct wq_object *wq[RWQ_IND_MAX];
};

struct flow_object {
    struct object o;
    TAILQ_ENTRY(flow_object) in_device;
    struct qp_object *q;
    struct flow_rule rule;
    bool published; /* as number `index` of the port's table */
    unsigned index;
    uint64_t frames; /* that it took by earlier tables */
};

/* An XRC domain: shared by all who opened the same inode; nameless ones by nobody. */
struct xrc_domain {
    LIST_ENTRY(xrc_domain) link;
    uint32_t id, opens;
    bool named;
    dev_t dev;
    ino_t ino;
};

struct xrcd {
    struct object o;
    struct xrc_domain *domain;
};

struct device {
    struct rnic *rnic;
    unsigned index;
    char name[CTL_NAME_MAX];
    struct pktio *io;
    struct pktio_info info; /* as it was at the start; the link's state is asked for */
    struct encap_port encap;
    struct gid_table gids;
    uint8_t prefix[GID_TABLE_MAX];
    unsigned gid_types; /* bits 1 << enum gid_type: the entries an address gets */
    struct qos_map qos;
    struct entropy_policy entropy;
    unsigned repath;
    struct device_net net;
    struct mr_table mrs;
    struct qp_table *qps;
    struct srq_table *srqs;
    struct ah_table *ahs;
    struct wq_table *wqs;
    struct flow_slot flows;
    TAILQ_HEAD(, flow_object) flow_list; /* in the order of their making */
    unsigned flow_count;
    LIST_HEAD(, xrc_domain) xrc_domains;
    uint32_t next_xrc_domain;
    struct worker_port *port[WORKERS_MAX]; /* its parts, by queue, each with its engine */
    unsigned parts;
    struct worker *workers[WORKERS_MAX]; /* theirs */
    uint32_t placed[WORKERS_MAX];        /* queue pairs and work queues on each part */
    struct rss *rss[2];                  /* how the port spreads IPv4 and IPv6, or NULL */
    uint64_t strays;                     /* queue pairs that went where their packets arrived */
    struct handle_table handles[OBJ_KINDS];
    uint64_t mrs_denied;           /* registrations refused because the kernel forbids the access */
    uint64_t mrs_why[CTL_MR_WHYS]; /* how often a region came to be mapped or copied for that */
};

#define RNIC_DEVICES_MAX 16

struct rnic {
    struct rnic_config config;
    struct worker_group group;
    struct event_source notify;
    struct worker *worker[WORKERS_MAX];
    unsigned workers, next_worker;
    struct device *device[RNIC_DEVICES_MAX];
    unsigned devices;
    struct segment wake;
    int wake_fd;
    TAILQ_HEAD(, session) sessions;
    unsigned session_count;
    uint64_t async_dropped;
    void (*retry)(void *ctx);
    void *retry_ctx;
    time_t started;
};

struct session {
    TAILQ_ENTRY(session) link;
    struct rnic *rnic;
    struct device *device; /* NULL until CTL_OPEN */
    struct ucred peer;
    bool gone; /* the process has ended */
    char comm[16];
    void *space; /* its memory, and how that is copied; from CTL_OPEN on */
    const struct mem_backend *copy;
    int async_fd;
    struct segment segment;
    struct slab_pool slabs;             /* the segments of its queues */
    struct worker_ctx ctx[WORKERS_MAX]; /* by part of the device */
    struct worker_ctx
        *by_worker[WORKERS_MAX]; /* the same, by worker; NULL: not one of the device's */
    struct dp_slots slots;       /* queue pairs by doorbell slot */
    uint32_t *free_slot;         /* doorbell slots not in use */
    uint32_t free_slots, slots_made;
    TAILQ_HEAD(, object) objects[OBJ_KINDS];
    unsigned count[OBJ_KINDS];
    unsigned mrs_mapped;
    LIST_HEAD(, mr) hot_mrs; /* that the application has not asked for yet */
    struct {
        bool on;
        ns_t credit, credited; /* what workers may still stand still for it, and when that was so */
    } freeze;
};

/* ---- object.c ---- */

/* Makes o one of c's objects and gives it a handle (not queue pairs: theirs is set already). 0 or
 * -ENOMEM. */
int object_add(struct session *sn, struct object *o, enum object_kind kind);
void object_remove(struct object *o);
/* c's object of that kind and handle, or NULL. */
struct object *object_get(struct session *sn, enum object_kind kind, uint32_t handle);
/* Memory for one of c's queues that the reply is to tell of. 0 or a negative errno. */
int object_segment(struct session *sn, struct ctl_call *call, size_t bytes, struct segment *s,
                   struct ctl_place *place);
/* Random bytes from the kernel. 0 or a negative errno. */
int random_bytes(void *out, size_t n);

/* ---- gids.c ---- */

/* Fills the GID table: see port_config. 0, -EINVAL (an address twice, no VLAN id), -ENOSPC. */
int device_add_gids(struct device *d, const struct port_config *config);
/* An address's entries, of each RoCE version that the port speaks, also while the worker runs. As
 * above; -ENOENT. */
int device_gids_add(struct device *d, const struct port_address *a);
int device_gids_remove(struct device *d, const union gid *gid, uint16_t vlan);

/* ---- device.c ---- */

/* The largest path MTU, as enum ibv_mtu, whose packets fit IP packets of so many bytes. */
uint32_t device_mtu_code(uint32_t mtu);
/* What surrounds a packet's payload at worst, inside the Ethernet frame: IPv6, UDP, the longest
 * transport headers, pad and ICRC. */
#define MTU_AROUND (40u + 8 + 12 + 28 + 3 + 4)
uint64_t device_node_guid(const struct device *d);

/*
 * Turns an application's address vector into one that packets can be made from, and tells the MTU
 * of the path. 0, -EINVAL (no GRH, bad port, GID index or flow label, IP versions differ), or as
 * net_resolve.
 */
int device_resolve(struct device *d, const struct ah_attr *attr, struct address_vector *av,
                   uint32_t *mtu);

/* Every worker of the device passes a quiet point: what was unpublished before is known to none. */
void device_quiesce(struct device *d);
/* Runs fn while all of the device's workers stand still. */
void device_call_all(struct device *d, worker_fn fn, void *arg);

/* Tells the CPUs that workers and applications have between them to the workers. */
void rnic_count_cpus(struct rnic *r);

/* Events of a port: numeric values of enum ibv_event_type. */
enum port_event {
    PORT_EVENT_ACTIVE = 9,
    PORT_EVENT_ERR = 10,
    PORT_EVENT_GID_CHANGE = 18,
};

/* ---- handlers: 0 or a negative errno, which becomes the reply's status ---- */

int query_device(struct session *sn, struct ctl_call *call);
int query_port(struct session *sn, struct ctl_call *call);
int query_gid(struct session *sn, struct ctl_call *call);
int ctx_open(struct session *sn, struct ctl_call *call);
int pd_alloc(struct session *sn, struct ctl_call *call);
int pd_dealloc(struct session *sn, struct ctl_call *call);
int mr_register(struct session *sn, struct ctl_call *call);
int mr_deregister(struct session *sn, struct ctl_call *call);
int mrs_freeze(struct session *sn, struct ctl_call *call);
int mrs_thaw(struct session *sn, struct ctl_call *call);
int mr_remap(struct session *sn, struct ctl_call *call);
int uffd_get(struct session *sn, struct ctl_call *call);
int mrs_hot(struct session *sn, struct ctl_call *call);
int channel_create(struct session *sn, struct ctl_call *call);
int channel_destroy(struct session *sn, struct ctl_call *call);
int cq_create(struct session *sn, struct ctl_call *call);
int cq_destroy(struct session *sn, struct ctl_call *call);
int qp_object_create(struct session *sn, struct ctl_call *call);
int qp_object_modify(struct session *sn, struct ctl_call *call);
int qp_object_query(struct session *sn, struct ctl_call *call);
int qp_object_destroy(struct session *sn, struct ctl_call *call);
int qp_object_set_entropy(struct session *sn, struct ctl_call *call);
int ah_create(struct session *sn, struct ctl_call *call);
int ah_destroy(struct session *sn, struct ctl_call *call);
int mw_alloc(struct session *sn, struct ctl_call *call);
int mw_dealloc(struct session *sn, struct ctl_call *call);
int srq_object_create(struct session *sn, struct ctl_call *call);
int srq_object_modify(struct session *sn, struct ctl_call *call);
int srq_object_query(struct session *sn, struct ctl_call *call);
int srq_object_destroy(struct session *sn, struct ctl_call *call);
int xrcd_open(struct session *sn, struct ctl_call *call);
int xrcd_close(struct session *sn, struct ctl_call *call);
int mcast_attach(struct session *sn, struct ctl_call *call);
int mcast_detach(struct session *sn, struct ctl_call *call);
int wq_object_create(struct session *sn, struct ctl_call *call);
int wq_object_modify(struct session *sn, struct ctl_call *call);
int wq_object_destroy(struct session *sn, struct ctl_call *call);
int rwq_ind_object_create(struct session *sn, struct ctl_call *call);
int rwq_ind_object_modify(struct session *sn, struct ctl_call *call);
int rwq_ind_object_destroy(struct session *sn, struct ctl_call *call);
int flow_create(struct session *sn, struct ctl_call *call);
int flow_destroy(struct session *sn, struct ctl_call *call);
int show(struct session *sn, struct ctl_call *call);

/* pd_mr.c: says what a region is mapped or copied for, and counts it. */
void mr_set_why(struct mr *mr, uint32_t why);
/* pd_mr.c: maps the pieces of the call's descriptor, if they are as the protocol wants them, and
 * sets r->direct. The mapping, or NULL and *err. */
void *mr_map(struct session *sn, struct mem_region *r, const struct ctl_call *call,
             const struct ctl_mr_piece *piece, unsigned n, int *err);

/* ---- mr_heat.c: telling the application which regions are copied much ---- */

/* c's segment and space are there. */
void mrs_tell_heat(struct session *sn);
/* Counts from now on, if the region is copied for a reason that may change. */
void mr_heat_start(struct mr *mr);
/* Before it ends, when no worker knows it. */
void mr_heat_stop(struct mr *mr);

/* c's queue pair, SRQ or WQ with this number, or its indirection table; or NULL. */
struct qp_object *qp_object_get(struct session *sn, uint32_t qpn);
struct srq_object *srq_object_get(struct session *sn, uint32_t srqn);
struct wq_object *wq_object_get(struct session *sn, uint32_t number);
struct rwq_ind_object *rwq_ind_get(struct session *sn, uint32_t handle);

/* permission.c: whether sn may have raw packets: it is root's or our own user's, or has CAP_NET_RAW
 * now. */
bool permission_raw(const struct session *sn);
/* Whether a process with this /proc/PID/status has CAP_NET_RAW in effect. */
bool permission_of_status(const char *status);

/* raw_qp.c: what queue pairs of type RAW_PACKET, and others, may not have. 0, -EPERM or -EINVAL. */
int raw_qp_check(struct session *sn, const struct ctl_create_qp *rq);
/* The transport's form of a hash that raw_qp_check has accepted. */
void raw_qp_hash(struct rx_hash *hash, const struct ctl_rx_hash *h);

/* flow.c: frames that the rule has taken. */
uint64_t flow_frames(const struct flow_object *f);

/* mcast.c: the port leaves the groups of a queue pair that no worker knows any more. */
void mcast_forget_all(struct qp_object *q);
/* mcast.c: the port joins and leaves groups in VLANs that its addresses have come to or gone from.
 */
void mcast_follow_addresses(struct device *d);

/* qp_entropy.c: 1: *policy is a queue pair's own; 0: it has the port's; -EINVAL: nonsense. */
int entropy_from_ctl(const struct ctl_entropy *c, struct entropy_policy *policy);

/* qp.c: the current attributes, from its worker. */
void qp_object_attr(struct qp_object *q, struct qp_attr *attr);
/* Runs fn on its worker. */
void qp_object_call(struct qp_object *q, worker_fn fn, void *arg);
struct engine *qp_object_engine(struct qp_object *q);

/* ---- steer.c: on which of a port's workers a queue pair lives ---- */

/* Where a new object that needs no other place should live. */
struct worker_port *device_next_port(struct device *d);
/* Counts a queue pair on its part, and off it again; off also takes its flow rule away. */
void steer_begin(struct session *sn, struct qp_object *q, struct worker_port *p);
void steer_end(struct session *sn, struct qp_object *q);
/* Before it learns its peer's address: moves it to where the peer's packets will arrive. */
void steer_connect(struct qp_object *q, const struct address_vector *av, const struct qp_attr *attr,
                   uint32_t mask);
/* Its packets keep arriving at another worker. */
void steer_stray(struct session *sn, uint32_t qpn, uint32_t worker);
const char *steer_reason_name(enum steer_reason reason);
/* Its peer's packets as they arrive, as far as that can be told: RoCEv2, from elsewhere, and the
 * peer follows the port's rule. False: it cannot be told. */
bool steer_expect(const struct qp_object *q, struct rss_tuple *t);

/* ---- destroying everything of a session, in this order ---- */

void flow_free_all(struct session *sn);
void qp_free_all(struct session *sn);
void rwq_ind_free_all(struct session *sn);
void wq_free_all(struct session *sn);
void srq_free_all(struct session *sn);
void xrcd_free_all(struct session *sn);
void mw_free_all(struct session *sn);
void cq_free_all(struct session *sn);
void channel_free_all(struct session *sn);
void ah_free_all(struct session *sn);
void mr_free_all(struct session *sn);
void pd_free_all(struct session *sn);
void ctx_close(struct session *sn);

/* ---- cq_channel.c ---- */

/* Sends, or arranges to be sent, the completion events that workers left behind. */
void channels_deliver(struct session *sn);
/* ctx.c: passes asynchronous events on to their applications. */
void async_deliver(struct rnic *r);
/* ctx.c: an asynchronous event that the control thread itself finds (enum qp_event). */
void ctx_async_event(struct session *sn, uint64_t element, uint32_t type);

#endif
