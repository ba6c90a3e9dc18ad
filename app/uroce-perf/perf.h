/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of uroce-perf share. */
#ifndef UROCE_PERF_H
#define UROCE_PERF_H

#include <pthread.h>

#include "device_host.h"
#include "env.h"
#include "histogram.h"
#include "options.h"
#include "ticks.h"

#define SIDES         2
#define PORTS_MAX     2
#define RATIOS_MAX    1024
#define POLL_MAX      128 /* completions taken from a queue in a turn */
#define ERROR_MAX     256
#define TRAFFIC_SLICE (50 * NS_PER_MS)
#define FLOOR_SLICE   (10 * NS_PER_MS)
/* Traffic that makes no progress for so long has failed: longer than all retries of a
 * retransmission timer take. */
#define STALL (10 * NS_PER_SEC)

/* ---- ports: perf_ports.c ---- */

/*
 * One or two ports, and one device on each. One port is the loopback port, unless the EAL was given
 * a device: a port is its own peer then. Of two the first sends to the second.
 */
struct perf_ports {
    const struct env_ops *env;
    unsigned count;
    char device[PORTS_MAX][256]; /* as DPDK names them; none: loopback */
    unsigned devices;
    struct pktio *io[PORTS_MAX]; /* until the rnic has them */
    struct pktio_info info[PORTS_MAX];
    struct rnic *rnic;
    unsigned workers; /* it was opened with so many, for this path MTU, and with ICRCs */
    uint64_t mtu;
    bool icrc;
};

/* Opens the ports, for that many workers. 0, or -1 and why not. */
int perf_ports_open(struct perf_ports *ports, const struct perf_options *o, char *error,
                    size_t size);
void perf_ports_close(struct perf_ports *ports);
/* The packet I/O of a port, once the ports are open. */
static inline struct pktio *perf_ports_io(const struct perf_ports *ports, unsigned port)
{
    return rnic_device_io(ports->rnic, port);
}
/* The address of a port. */
union gid perf_ports_address(const struct perf_ports *ports, unsigned port);

/* ---- queue pairs: objects.c ---- */

/* Places in memory that messages go through in turn. */
struct cursor {
    uint32_t next, first, end; /* numbers of slots */
};

static inline uint32_t cursor_take(struct cursor *c)
{
    uint32_t slot = c->next++;

    if (c->next == c->end)
        c->next = c->first;
    return slot;
}

/* The completion queues of a side. */
enum { SEND_CQ, RECV_CQ, CQS };

/* One queue pair, as its application sees it. Its worker's thread's, but for constants. */
struct perf_end {
    uint32_t number, qpn, slot, worker, side;
    struct perf_end *peer;
    bool sends, dirty;
    uint32_t sq_size, sq_stride, rq_size, rq_stride;
    uint8_t *sq, *rq;
    struct qp_shared *shared;
    struct doorbells *bells;
    struct sqe proto;           /* of its work requests */
    uint64_t local, remote;     /* its worker's memory at both ends */
    uint32_t prod, done;        /* messages posted, completed (UD: taken back) */
    uint64_t quota;             /* messages left to post */
    struct cursor out, checked; /* slots of messages; those that were compared */
    uint32_t recv_prod;
    _Atomic uint32_t recv_done; /* messages that came */
    struct cursor in, in_checked;
    uint64_t *posted; /* TSC, by message modulo sq_size */
    uint64_t messages;
};

struct perf;

/* A worker's thread. */
struct perf_thread {
    struct perf *perf;
    unsigned index;
    pthread_t id;
    struct worker *worker;
    uint32_t cons[SIDES][CQS]; /* of its lanes */
    struct perf_end **sender;
    unsigned senders;
    bool closed; /* its queue pairs' peers are here too */
    bool posting;
    uint64_t outstanding; /* messages without a completion */
    uint32_t dirty[SIDES * CQS * POLL_MAX];
    unsigned dirties;
    /* Written by the thread, read by all. */
    struct {
        counter_t messages, bytes, received, lost, wrong;
        counter_t active_ns, active_cpu_ns; /* time spent on traffic */
        counter_t progress;                 /* of any kind, to see that there is some */
    } CACHE_ALIGNED stats;
    struct histogram latency; /* TSC ticks */
    _Atomic unsigned cleared; /* the last request to clear that it has seen */
    /* By slice: thousandths of the floor, and its rates, messages a second of CPU time. */
    double floor_first; /* the floor's rate before the first slice; 0: there is none */
    unsigned ratios;
    float ratio[RATIOS_MAX], floor_rate[RATIOS_MAX];
    uint8_t *floor_frames;
} CACHE_ALIGNED;

struct perf {
    struct perf_options opt; /* of this run */
    uint64_t size;
    struct perf_ports *ports;
    struct session *session[SIDES];
    unsigned sides;
    uint32_t pd[SIDES], key[SIDES], cq_size[SIDES][CQS], cq_handle[SIDES][CQS];
    uint32_t recv_depth; /* of a queue pair that receives */
    struct cq_shared *cq[SIDES][CQS];
    uint32_t ah[SIDES];
    struct perf_end *end;
    uint32_t ends;
    uint64_t *posted;
    uint8_t *memory;
    uint64_t memory_len, half; /* of a worker, at one end */
    uint32_t out_stride, in_stride, out_slots, in_slots;
    struct perf_thread *thread;
    unsigned threads, started;
    bool running;
    _Atomic unsigned ready, finished, clear;
    _Atomic bool start, stop;
    _Atomic bool failed;
    char error[ERROR_MAX];  /* the first; by whoever set `failed` */
    _Atomic uint64_t began; /* ns; 0: not all threads are ready */
    uint64_t ended;
    double heap_per_qp, us_per_qp;
};

/* Makes everything that a run needs, down to connected queue pairs. 0, or -1 and why not. */
int objects_open(struct perf *p, char *error, size_t size);
void objects_close(struct perf *p);

/* One request as a program makes it, with a descriptor or -1. 0 or a negative errno. */
int objects_call(struct perf *p, unsigned side, enum ctl_type type, struct ctl_msg *m, int fd);

#define PERF_ACCESS (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)

/* memory.c: how much when it is known which queue pairs are where, and 0, or -1 and why not; then
 * the memory, registered, and 0 or a negative errno; then who uses which part. */
int memory_plan(struct perf *p, char *error, size_t size);
int memory_open(struct perf *p);
void memory_assign(struct perf *p);
void memory_close(struct perf *p);

extern const struct mem_provider perf_memory; /* perf_ports.c */

/* ---- running: run.c, thread.c, traffic.c, stage.c, floor.c ---- */

/* Starts threads; they end by themselves when messages or time are used up, or by run_stop. */
int run_start(struct perf *p, const struct perf_options *o, struct perf_ports *ports, char *error,
              size_t size);
/* Waits for their end. */
void run_stop(struct perf *p);
/* Frees what run_start made, and p's results with it. */
void run_close(struct perf *p);
/* Whether all threads have done what there was to do, or one failed. */
bool run_is_over(const struct perf *p);
/* Rates and latencies count from now on. Waits until the threads know it. */
void run_clear(struct perf *p);

void *thread_run(void *thread);
/* Waits for the others; time counts from then on. */
void thread_ready(struct perf_thread *t);
/* Its statistics begin anew if somebody asked for that: then true. */
bool thread_look_for_clear(struct perf_thread *t);
/* The first failure's text stays; the run ends. Any thread. */
__attribute__((format(printf, 2, 3))) void run_fail(struct perf *p, const char *format, ...);

/* Posts the first receive entries of the queue pairs here. */
void traffic_prepare(struct perf_thread *t);
/* Takes completions and posts as many messages anew. How many it took. */
unsigned traffic_poll(struct perf_thread *t);
/* Posts messages until each queue pair has its depth outstanding. */
void traffic_fill(struct perf_thread *t);
/* Sees to it that what is outstanding completes though nothing follows. */
void traffic_flush(struct perf_thread *t);
/* Gives up datagrams that did not come. */
void traffic_forget_lost(struct perf_thread *t);

/* Stages and bare ports: until told to stop. */
void stage_run(struct perf_thread *t);

/* Moves messages as the traffic does, with copies and CRCs alone, for so long. Messages a second of
 * CPU time. */
double floor_measure(struct perf_thread *t, ns_t duration);
/* Whether there is one for what is measured. */
bool floor_applies(const struct perf_options *o);

ns_t thread_cpu_time(void);
/* TSC ticks a second; takes a few milliseconds the first time. */
double tsc_hz(void);

#endif
