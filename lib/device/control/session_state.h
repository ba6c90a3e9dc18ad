/* SPDX-License-Identifier: BSD-3-Clause */
/* A session: an application's context of a device, with its objects. */
#ifndef UROCE_DEVICE_SESSION_STATE_H
#define UROCE_DEVICE_SESSION_STATE_H

#include <sys/socket.h>
#include <sys/types.h>

#include "control/async.h"
#include "control/device_state.h"
#include "control/errand.h"
#include "objects/object.h"
#include "objects/slab.h"
#include "session.h"
#include "worker.h"

/* How the daemon reaches the memory of a region that is being registered: pd_mr.c. */
struct mr_reach {
    struct mem_region region; /* in; and out: direct */
    struct mem_piece piece[CTL_MR_PIECES];
    unsigned pieces; /* of fd; 0: the region is not to be mapped */
    int fd;
    struct quota_cost cost; /* charged while it is mapped */
    void *mapping;          /* out, or NULL */
    int err;                /* out, without a mapping: why the region cannot be copied either */
};

/* A shared receive queue that goes over to another ring: srq.c. */
struct srq_resize {
    struct srq_object *srq;
    struct ctl_create_srq layout;
    struct segment fresh;
    int fd; /* of its slab, for the reply, if that is new; else -1 */
};

struct session {
    TAILQ_ENTRY(session) link;
    struct rnic *rnic;
    struct device *device; /* NULL until CTL_OPEN */
    uint32_t context;      /* from then on: its number, which no other one of the device has */
    struct ucred peer;
    bool process_ended;
    bool is_left; /* its process has ended or left it: a child may inherit it (inherit.h) */
    bool watches; /* CTL_WATCH */
    int socket;   /* of the connection, which the session closes at its end; or -1 */
    char comm[16];
    void *space; /* the application's memory, from CTL_OPEN on; and how to copy it: */
    const struct mem_backend *copy;
    int async_fd; /* what has no room there waits: async.c */
    struct async_queue late_events;
    struct event_source async_room; /* watched while something waits */
    struct async_wait port_wait[ASYNC_PORT_WAITS];
    struct quota_account account;   /* of what the connection takes */
    struct device_program *program; /* of its process, from CTL_OPEN on */
    struct segment segment;
    struct slab_pool slabs;             /* the segments of its queues */
    struct slab_pool dm_slabs;          /* device memory: apart, as others may import it */
    struct worker_ctx ctx[WORKERS_MAX]; /* by part of the device */
    /* The same, by worker; NULL: not one of the device's. */
    struct worker_ctx *by_worker[WORKERS_MAX];
    /* Doorbell slots: db_slot.c. */
    struct dp_slots slots;
    uint32_t *free_slot; /* a stack */
    uint32_t free_slots, slots_made;
    TAILQ_HEAD(, object) objects[OBJ_KINDS];
    unsigned count[OBJ_KINDS];
    LIST_HEAD(, session_group) groups; /* multicast: mcast.c */
    unsigned mrs_mapped;
    LIST_HEAD(, mr) movable_mrs;   /* those of them that a freeze may unmap */
    uint32_t mrs_why[CTL_MR_WHYS]; /* how many are mapped or copied for a reason */
    struct show_job *show;         /* of the present request */
    /* session_errand.c: what the present request waits for. */
    struct {
        struct errand errand;
        enum { AWAY_NOT, AWAY_RUNS, AWAY_DONE } state;
        bool posting;
        void (*run)(struct session *sn);
        /* What the errand that opens the space has found. */
        void *space;
        const struct mem_backend *copy;
        int err;
    } away;
    struct {
        int fd; /* of the last answer to CTL_SHOW, or -1 */
        uint64_t bytes;
    } shown;
    /* join.c */
    uint64_t join_key[2];
    struct session *inherits; /* for its connection, when the present request is answered */
    struct session *joined;   /* whose objects it may import; or NULL */
    unsigned joiners;         /* sessions that have joined this one, which stays as long */
    bool ending;              /* its objects are being freed */
    bool reachable;           /* the kernel lets the daemon copy to and from the space */
    struct mr_reach reach;    /* of the errand for a region */
    struct srq_resize resize; /* of the errand for a shared receive queue */
    LIST_HEAD(, mr) hot_mrs;  /* not yet reported to the application */
    struct {
        bool on;
        ns_t granted;
        ns_t late_since; /* copies are late since then; 0: not so */
    } freeze;
};

/* Whether its context has this key (join.h), and it is not ending. */
static inline bool session_has_key(const struct session *sn, const uint64_t key[2])
{
    return sn->device && !sn->ending && !((sn->join_key[0] ^ key[0]) | (sn->join_key[1] ^ key[1]));
}

/* The sessions of a device, one after the other; after == NULL: the first. NULL: no more. */
static inline struct session *session_next(const struct device *d, const struct session *after)
{
    struct session *sn = after ? TAILQ_NEXT(after, link) : TAILQ_FIRST(&d->rnic->sessions);

    while (sn && sn->device != d)
        sn = TAILQ_NEXT(sn, link);
    return sn;
}

/*
 * Runs a part of the present request as an errand (errand.h): the session's memory stays valid, and
 * no other request is dispatched, until it has ended. The handler calls this with the same
 * arguments each time it is dispatched, and returns -EINPROGRESS when this does: the request is
 * dispatched again later. 0: the errand has ended.
 */
int session_errand(struct session *sn, void (*run)(struct session *sn));

/* CTL_OPEN: opens the device. ctx_close undoes that. */
int ctx_open(struct session *sn, struct ctl_call *call);
/* The same with the device's index. */
int ctx_open_device(struct session *sn, struct ctl_call *call, uint32_t index);
void ctx_close(struct session *sn);
/* Finds the memory of the session's process. 0, -EINPROGRESS (session_errand), or another one. */
int ctx_open_space(struct session *sn);
/* No request takes what that has found; the session has no device. */
void ctx_forget_space(struct session *sn);

#endif
