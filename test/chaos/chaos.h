/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applications whose queue pairs are on several workers, on one loopback port, and their interface
 * to the control thread, which changes everything under them (test_dataplane_chaos.c).
 *
 * Threads: each application has one, which posts, polls, and checks. The control thread creates and
 * destroys objects at its request (control_ask).
 */
#ifndef UROCE_TEST_CHAOS_H
#define UROCE_TEST_CHAOS_H

#include "random.h"
#include "worker_kit.h"

#define WORKERS  3
#define APPS     3
#define FLOWS    4 /* of an application at a time */
#define PROGRAMS 2 /* contexts of an application */
#define MESSAGES 48
#define WINDOW   4    /* messages of a flow outstanding */
#define UNIT     8192 /* the longest message; most are */
#define SHORT    1024 /* not longer than this */
#define SOURCE   (2 * UNIT)
#define GRH      40
#define POOL     (2 * WINDOW) /* receive entries of a program's shared queue */
#define QKEY     0x5EEDu
#define TIMEOUT  (60 * NS_PER_SEC)

#define NOT_WRITTEN 0xEE

/* ---- programs: opened contexts (chaos_program.c) ---- */

/* A flow's part of a program's memory. */
struct flow_memory {
    uint8_t local[WINDOW][UNIT], target[WINDOW][UNIT], inbox[WINDOW][UNIT + GRH];
    uint8_t source[SOURCE]; /* READs read it; does not change */
    uint64_t word;          /* atomics change it */
};

struct memory {
    struct flow_memory flow[FLOWS];
    uint8_t pool[POOL][UNIT];
};

struct program {
    struct dataplane *dp;
    struct session *session; /* NULL: it has ended */
    struct space *space;     /* its memory as the dataplane maps it */
    struct memory *memory;
    uint64_t base; /* its address */
    uint32_t pd;
    struct test_mr mr; /* all of it */
    struct test_cq cq;
    struct ctl_create_srq srq;
    uint8_t *srq_segment;
    uint32_t srq_posted;
    unsigned spare[POOL], spares; /* units that are in no receive WQE */
};

extern const struct mem_provider chaos_memory;

uint64_t va(const struct program *p, const void *at);
/* Control thread. */
void program_open(struct program *p);
void program_close(struct program *p);
/* One control message; it must succeed. */
struct ctl_msg program_call(struct program *p, enum ctl_type type, struct ctl_msg m);
/* Posts spare units to the shared queue, as far as it has room. */
void program_fill_srq(struct program *p);

/* ---- flows: messages of one kind from one queue pair to another (chaos_flow.c) ---- */

enum flow_kind { FLOW_RC, FLOW_RC_SRQ, FLOW_UC, FLOW_UD, FLOW_GROUP, FLOW_KINDS };

struct message {
    enum sqe_op op;
    bool signaled;
    uint32_t len, offset;                           /* in source */
    uint64_t before;                                /* what an atomic finds */
    enum { UNSENT, SENT, ARRIVED, GIVEN_UP } state; /* of UC and UD */
};

struct flow {
    struct app *app;
    unsigned number; /* unique; contents depend on it */
    unsigned slot;   /* the owner of its memory */
    enum flow_kind kind;
    struct program *end[2]; /* sender, receiver */
    struct flow_memory *memory[2];
    struct test_qp qp[2];
    struct test_mr target;       /* the receiver's memory, for this flow alone */
    uint32_t window, window_key; /* handle and key of a memory window over it, or 0 */
    bool bound;
    unsigned late; /* polls after which there are receive WQEs */
    struct ctl_create_ah ah;
    uint32_t path_mtu;
    union gid group;
    struct message message[MESSAGES];
    unsigned posted, done; /* requests */
    unsigned taken;        /* receive completions, flushed ones too */
    unsigned next;         /* the message after the last received one */
    unsigned finished;     /* UC and UD: those that arrived or were given up */
    uint64_t word;         /* what atomics that were posted leave behind */
    unsigned cut_at;       /* it is taken away when this many are posted */
    ns_t waits_since;
    bool ending;       /* its objects are being taken away */
    bool failed, gone; /* a request failed; it exists no more */
};

/* The bytes of message n (chaos_content.c). */
void flow_fill(const struct flow *f, unsigned n, uint8_t *p, uint32_t len);
/* Whether the unit holds message n of the flow, and nothing was written behind it. */
bool flow_holds(const struct flow *f, unsigned n, const uint8_t *unit);
bool untouched(const uint8_t *p, size_t from, size_t to);

/* Control thread: creates its objects, and destroys the remaining ones. */
void flow_open(struct flow *f);
void flow_close(struct flow *f);
/* Takes the receiver's memory away. */
void flow_close_target(struct flow *f);
/* Moves its remaining queue pairs to the error state. */
void flow_error(struct flow *f);

/* The application's thread. */
void flow_plan(struct flow *f, struct random *r);
void flow_begin(struct flow *f); /* its receives */
bool flow_post(struct flow *f);  /* as many as there is room for; whether there was any */
bool flow_is_done(const struct flow *f);
/* A completion of its end 0 or 1. */
void flow_completion(struct flow *f, unsigned end, const struct cqe *e);
/* All completions were read: no request lacks one. end: of the remaining end. */
void flow_check_end(const struct flow *f, unsigned end);

/* ---- applications (chaos_app.c) ---- */

struct app {
    struct dataplane *dp;
    struct random random;
    struct program program[PROGRAMS];
    struct flow flow[FLOWS];
    unsigned lazy;                 /* iterations without polling */
    int wake;                      /* eventfd that wakes the thread */
    _Atomic unsigned begun[FLOWS]; /* flows, by slot */
    _Atomic bool killed, ended;
    pthread_t thread;
};

/* Totals over all of them. */
struct tally {
    _Atomic uint64_t flows;                /* made */
    _Atomic uint64_t finished[FLOW_KINDS]; /* flows whose messages were all sent and checked */
    _Atomic uint64_t cut[FLOW_KINDS];      /* taken away amid their traffic */
    _Atomic uint64_t lost[FLOW_KINDS];     /* lost messages of UC and UD */
    _Atomic uint64_t overtaken[FLOW_KINDS];
    _Atomic uint64_t messages, windows, crossed; /* crossed: flows between two programs */
};
extern struct tally tally;
extern _Atomic bool closing_time; /* applications start no new flows */

void *app_run(void *app);

/* ---- asking the control thread ---- */

/* Runs fn(arg) on it and waits for its end. */
void control_ask(void (*fn)(void *arg), void *arg);
/* Control thread: starts and stops serving them in its loop. */
void control_open(struct event_loop *loop);
void control_close(struct event_loop *loop);
/* Writes into an eventfd. */
void write_event(int fd);

#endif
