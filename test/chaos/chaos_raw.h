/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw packets amid the rest (test_dataplane_chaos.c): an application that sends frames of many
 * flows to the port's own MAC and receives them by a queue pair with receive-side scaling, whose
 * work queues are on all workers; and a watcher with sniffers and rules of its own.
 *
 * The allowed effects on frames depend on the phase. The control thread requests the next phase;
 * the application enters it when no frame is in flight, so that each loss belongs to one phase.
 */
#ifndef UROCE_TEST_CHAOS_RAW_H
#define UROCE_TEST_CHAOS_RAW_H

#include "chaos.h"

#define RAW_WQS     8
#define RAW_FLOWS   24
#define RAW_WINDOW  16 /* frames in flight */
#define RAW_ENTRIES 32 /* of each work queue: all frames may go to one */
#define RAW_UNIT    1024
#define RAW_RECORDS (1u << 17)
#define RAW_PORT    5000 /* UDP destination port of the frames of the first life */
#define RAW_LIVES \
    1024 /* the following ports; frames of one that was killed may still be on their way */
#define RAW_SOURCE 2000 /* source port of flow 0 */

enum raw_phase {
    RAW_STILL, /* the table, and where the sender is, do not change: order within a flow */
    RAW_TABLE, /* they do: each frame arrives once */
    RAW_ROUGH, /* work queues in the table stop, the rule goes, another takes a flow: at most once
                */
    RAW_PHASES,
};

/* It is at the start of the program's memory, before what its shared queue has. */
struct raw_memory {
    uint8_t sent[RAW_WINDOW][RAW_UNIT], inbox[RAW_WQS][RAW_ENTRIES][RAW_UNIT];
};
_Static_assert(sizeof(struct raw_memory) <= offsetof(struct memory, pool), "memory for it");

/* A work queue. */
struct raw_wq {
    struct test_qp ring; /* the receive half */
    uint32_t handle;
    unsigned taken;      /* completions */
    bool ending;         /* its entries are flushed or forgotten */
    _Atomic bool usable; /* a table may have it */
    unsigned uses;       /* entries of the table that lead to it. Control thread */
};

struct raw_record {
    uint64_t number;
    uint32_t flow, seq, len;
    uint16_t port;
    enum { RAW_SENT, RAW_ARRIVED, RAW_GIVEN_UP } state;
};

struct raw_app {
    struct program program;
    struct random random;
    struct raw_memory *memory;
    uint16_t port; /* of this life's frames */
    struct test_qp sender;
    struct raw_wq wq[RAW_WQS];
    uint32_t ind, rss_qp, rule; /* handles; rule 0: there is none */
    uint8_t entry[128];         /* of the table: work queues. Does not change in RAW_STILL */
    unsigned entries;
    struct rss rss;

    /* The application's thread. */
    uint64_t sent, sends_done, finished, phase_began; /* numbers of frames */
    struct raw_record record[RAW_RECORDS];
    uint32_t next_seq[RAW_FLOWS], came[RAW_FLOWS]; /* arrived: the last one, plus 1 */
    ns_t waits_since;
    uint64_t full; /* frames dropped because a ring was full, when the phase began */

    bool open;       /* control thread */
    unsigned steps;  /* of the phase */
    uint64_t steady; /* no further disturbance until this many frames have arrived or are lost */
    int wake;
    _Atomic int wanted, phase; /* enum raw_phase */
    _Atomic bool killed, ended;
    pthread_t thread;
};

struct raw_tally {
    _Atomic uint64_t phases[RAW_PHASES], sent[RAW_PHASES], lost[RAW_PHASES], kills, lives;
    _Atomic uint64_t finished, late;
    _Atomic uint64_t flushed, resets, remade; /* work queues */
    _Atomic uint64_t tables, rules, thefts;   /* changes */
    _Atomic uint64_t watched, watch_changes,
        watch_ends; /* frames of this application that the watcher saw */
};
extern struct raw_tally raw_tally;

/* ---- frames (chaos_raw.c) ---- */

/* Whether these bytes are a frame of this application, in any life, and whether it is unchanged. */
bool raw_is_frame(const uint8_t *frame, uint32_t len);
bool raw_is_whole(const uint8_t *frame, uint32_t len);
/* The addresses and ports of a flow. */
struct rss_tuple raw_tuple(const struct raw_record *r);

/* ---- the application (chaos_raw.c); its objects and what is done to them (chaos_raw_object.c) ---
 */

void *raw_run(void *app);

/* Requests of the application to the control thread; arg: struct raw_app, or struct raw_stop. */
void raw_open(void *app);
void raw_close(void *app);
struct raw_stop {
    struct raw_app *app;
    int wq;        /* the stopped one, or -1: none may be stopped */
    bool to_error; /* else to RESET */
    bool remake;   /* it is created again; not while a table has it */
};
void raw_stop_wq(void *stop);
void raw_reset_wq(void *stop);
void raw_ready_wq(void *stop);
/* Frames dropped because a ring between workers was full. */
uint64_t raw_forward_full(struct dataplane *dp);

/* Control thread: one disturbance. */
void raw_disturb(struct raw_app *a, struct random *r);
/* Whether a queue pair may be moved. */
bool raw_may_move(const struct raw_app *a, const struct qp_object *q);

/* ---- the watcher, who is the control thread (chaos_watch.c) ---- */

void watch_open(struct dataplane *dp);
void watch_close(void);
void watch_disturb(struct random *r);
/* Checks the frames that arrived. */
void watch_poll(void);
/* Diverts a flow's frames from their receiver, or stops that. */
void watch_steal(int flow);

#endif
