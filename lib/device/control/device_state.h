/* SPDX-License-Identifier: BSD-3-Clause */
/* A device, and the rnic, which is all devices and their workers. */
#ifndef UROCE_DEVICE_DEVICE_STATE_H
#define UROCE_DEVICE_DEVICE_STATE_H

#include <sched.h>
#include <sys/queue.h>

#include "cm/cm_host.h"
#include "control/account.h"
#include "control/limits.h"
#include "control/program.h"
#include "device.h"
#include "event_loop.h"
#include "incident.h"
#include "net/device_net.h"
#include "net/gsi.h"
#include "objects/agree.h"
#include "objects/handle_table.h"
#include "objects/object.h"
#include "objects/segment.h"
#include "objects/walk.h"
#include "predict.h"
#include "raw.h"
#include "show/qp_totals.h"
#include "worker.h"

struct device {
    struct rnic *rnic;
    unsigned index;
    char name[CTL_NAME_MAX];
    struct pktio *io;
    struct pktio_info info; /* read at the start; link_up is not updated */
    struct encap_port encap;
    struct qos_map qos;
    struct qos_classes classes;
    struct entropy_policy entropy;
    unsigned repath;
    uint8_t trim_dscp;
    struct congestion_config congestion;
    uint64_t max_rate;
    struct tx_ceiling *ceiling; /* for max_rate and pause frames; or NULL */
    enum pktio_pause flow_control;
    bool pauses; /* pause frames that come up are heeded */
    struct device_net net;
    struct gsi gsi;
    /* gids.c */
    struct gid_table gids;
    uint8_t prefix[GID_TABLE_MAX];
    unsigned gid_types; /* bits 1 << enum gid_type: the entries that each address gets */
    /* Tables that engines read. */
    struct mr_table mrs;
    struct qp_table *qps;
    uint64_t qp_serials;       /* of queue pairs, so far */
    struct qp_totals past_qps; /* the counters of queue pairs that are gone */
    struct srq_table *srqs;
    struct ah_table *ahs;
    struct wq_table *wqs;
    /* flow.c */
    struct flow_slot flows;
    unsigned flow_count;
    /* xrcd.c */
    LIST_HEAD(, xrc_domain) xrc_domains;
    uint64_t xrc_domains_made;
    /* Its parts: a queue of the port, the engine there, and the worker that drives both. */
    struct incidents calls; /* the control thread's; those of queue pairs are their engines' */
    struct worker_port *port[WORKERS_MAX];
    struct worker *workers[WORKERS_MAX];
    unsigned parts;
    struct program_users program_users; /* program.c */
    /* local_peer.c: by queue pair number, the one that may send to it; 0: none */
    uint32_t *local_sender;
    bool selective; /* agree.c: peers are asked */
    struct agree_peer agree[AGREE_PEERS];
    /* steer.c */
    uint32_t assigned[WORKERS_MAX]; /* queue pairs and work queues on each part */
    struct rss *rss[2];             /* how the port spreads IPv4 and IPv6, or NULL */
    uint64_t moved_after_misplaced; /* queue pairs that migrated to where their packets arrived */
    /* object.c */
    struct handle_table handles[OBJ_DEVICE_KINDS];
    /* ctx.c: numbers of contexts */
    struct permutation context_order;
    uint32_t contexts_made;
    /* pd_mr.c */
    uint64_t mrs_denied;           /* registrations refused because the kernel forbids the access */
    uint64_t mrs_why[CTL_MR_WHYS]; /* how many times a region was mapped or copied for a reason */
};

#define RNIC_DEVICES_MAX 16
#define CONTEXT_NUMBERS  (1u << 30) /* before the first one comes again */

struct rnic {
    struct rnic_config config;
    struct worker_group group;
    struct event_source notify;
    struct worker *worker[WORKERS_MAX];
    unsigned workers, next_worker;
    struct device *device[RNIC_DEVICES_MAX];
    unsigned devices;
    TAILQ_HEAD(, session) sessions;
    unsigned session_count;
    LIST_HEAD(, freeze_user) freeze_users;
    LIST_HEAD(, walk) walks;
    LIST_HEAD(, show_job) shows;
    /* fault_rules.c, in the order of their creation */
    TAILQ_HEAD(, fault_rule) faults;
    unsigned watchers;                /* sessions that have asked for timed work requests */
    unsigned fault_count, fault_last; /* fault_last: the number of the newest rule */
    struct event_source fault_timer;  /* armed: a rule takes a link down, or gives it back */
    struct quota quota;
    struct cm_host cm;
    cpu_set_t cpus;                  /* of workers and applications: control/cpu_count.c */
    struct event_source agree_timer; /* armed: a peer has not answered (agree.c) */
    struct event_source cpu_timer;   /* armed: applications have left since they were counted */
    struct errands *errands;         /* NULL: nothing runs on other threads */
    struct dp_events *raised; /* taken from the workers' list: notify.c */
    void (*retry)(void *ctx);
    void *retry_ctx;
    struct event_job retry_job; /* while will_retry */
    bool will_retry;
    ns_t started; /* by config.clock: the time of day may be set */
    bool ending;
};

/* Parked requests are dispatched again in a later turn of the loop. */
void rnic_retry_later(struct rnic *r);

/* Every worker of the device passes a quiet point: no worker knows what was unpublished before. */
void device_quiesce(struct device *d);
/* Runs fn while all of the device's workers stand still. */
void device_call_all(struct device *d, worker_fn fn, void *arg);
uint64_t device_node_guid(const struct device *d);

/* ---- cpu_count.c: the CPUs that workers and applications have between them, for the workers ----
 */

/* Counts them. 0 or a negative errno. */
int cpu_count_open(struct rnic *r);
void cpu_count_close(struct rnic *r);
/* An application has connected. */
void cpu_count_add(struct rnic *r, pid_t pid);
/* One has left: all are counted again, within a second. */
void cpu_count_leave(struct rnic *r);

/* Random bytes from the kernel. 0 or a negative errno. */
int random_bytes(void *out, size_t n);

#endif
