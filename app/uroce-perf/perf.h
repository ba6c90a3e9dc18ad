/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of uroce-perf. */
#ifndef UROCE_PERF_H
#define UROCE_PERF_H

#include <pthread.h>

#include "arrivals.h"
#include "device_host.h"
#include "env.h"
#include "histogram.h"
#include "options.h"
#include "ticks.h"

#define SIDES         2
#define PORTS_MAX     2
#define RATIOS_MAX    1024
#define POLL_MAX      128 /* completions handled per poll of a queue */
#define ERROR_MAX     256
#define TRAFFIC_SLICE (50 * NS_PER_MS)
#define FLOOR_SLICE   (10 * NS_PER_MS)
/* Traffic without progress for this long has failed: all retries of a retransmission timer take
 * less time. */
#define STALL (10 * NS_PER_SEC)
/* A turn of a thread takes a few microseconds. One of more than this was interrupted: other threads
 * had its CPU, or a hypervisor. */
#define PAUSE (100 * NS_PER_US)

/* ---- ports: perf_ports.c ---- */

/*
 * One or two ports, with a device on each. Without a device among the EAL options there is the
 * loopback port. A single port is its own peer; of two ports the first sends to the second.
 */
struct perf_ports {
    const struct env_ops *env;
    unsigned count;
    char device[PORTS_MAX][256]; /* as DPDK names them; none: loopback */
    unsigned devices;
    struct pktio *io[PORTS_MAX]; /* owned until the rnic takes them over */
    struct pktio_info info[PORTS_MAX];
    struct rnic *rnic;
    unsigned workers; /* the number of workers, path MTU and use of ICRCs that it was opened for */
    uint64_t mtu;
    bool icrc;
};

/* Opens the ports for o->workers workers. 0, or -1 with the reason in error. */
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

/* The slots of memory that messages use in turn. */
struct cursor {
    uint32_t next, first, end; /* numbers of slots */
};

static inline uint32_t cursor_next(struct cursor *c)
{
    uint32_t slot = c->next++;

    if (c->next == c->end)
        c->next = c->first;
    return slot;
}

/* The completion queues of a side. */
enum { SEND_CQ, RECV_CQ, CQS };

/* One queue pair, as its application sees it. Only its worker's thread changes it after its
 * creation. */
struct perf_end {
    /* what each message needs: a cache line, the template, and one more */
    CACHE_ALIGNED uint8_t *sq;
    struct qp_shared *shared;
    struct doorbells *doorbells;
    uint64_t *posted; /* TSC, by message modulo sq_size */
    uint64_t messages;
    uint64_t quota;      /* messages left to post */
    uint32_t prod, done; /* messages posted, completed (UD: WQEs free again) */
    uint32_t sq_size, sq_stride;
    struct sqe template;    /* for its send WQEs */
    uint64_t local, remote; /* its worker's memory at both ends */
    struct cursor out;      /* slots of messages */
    uint32_t number, slot, side;
    bool sends, dirty, rings; /* rings: messages were posted, and no doorbell rung yet */

    uint32_t qpn, worker;
    struct perf_end *peer;
    uint32_t rq_size, rq_stride;
    uint8_t *rq;
    struct cursor checked; /* slots of messages that were verified */
    uint32_t recv_prod;
    _Atomic uint32_t recv_done; /* messages that arrived */
    struct cursor in, in_checked;
};

struct perf;

/* One worker's thread. */
struct perf_thread {
    struct perf *perf;
    unsigned index;
    pthread_t id;
    struct worker *worker;
    uint32_t cons[SIDES][CQS]; /* of its lanes */
    struct perf_end **sender;
    unsigned senders;
    bool closed; /* the peers of all its queue pairs are here too */
    bool posting;
    bool at_rate; /* messages are sent when they are due, not when others complete */
    struct arrivals arrivals; /* of its senders in turn, if there is a rate */
    struct perf_end *ringing[ARRIVALS_BURST];
    unsigned ringers;
    uint64_t outstanding; /* messages without a completion */
    uint32_t dirty[SIDES * CQS * POLL_MAX];
    unsigned dirties;
    /* Written by the thread, read by all. */
    struct {
        counter_t messages, bytes, received, lost, wrong;
        counter_t active_ns, active_cpu_ns;        /* time in traffic */
        counter_t pauses, pause_ns, pause_longest; /* turns of more than PAUSE */
        counter_t progress; /* of any kind; shows that the run is not stuck */
    } CACHE_ALIGNED stats;
    struct histogram latency; /* TSC ticks */
    _Atomic unsigned cleared; /* the last request to clear the statistics that it has handled */
    /* By slice: the traffic's rate relative to the floor's, and the floor's rate in messages per
     * second of CPU time. */
    double floor_first; /* the floor's rate before the first slice; 0: there is none */
    unsigned ratios;
    float ratio[RATIOS_MAX], floor_rate[RATIOS_MAX];
    uint8_t *floor_frames;
} CACHE_ALIGNED;

struct client;

struct perf {
    struct perf_options opt; /* of this run */
    uint64_t size;
    struct perf_ports *ports; /* of a client NULL, as all up to `memory` */
    struct client *client;    /* peer/client.h; NULL: both ends are here */
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
    char error[ERROR_MAX];  /* the first failure, written by the thread that set `failed` */
    _Atomic uint64_t began; /* ns; 0: not all threads are ready */
    uint64_t ended;
    double heap_per_qp, us_per_qp;
};

/* Creates everything that a run needs, up to connected queue pairs. 0, or -1 with the reason in
 * error. */
int objects_open(struct perf *p, char *error, size_t size);
void objects_close(struct perf *p);

/* Sends one control request as a program would, with a descriptor or -1. 0 or a negative errno. */
int objects_call(struct perf *p, unsigned side, enum ctl_type type, struct ctl_msg *m, int fd);

#define PERF_ACCESS (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)

/* memory.c: computes the sizes once the queue pairs have their workers: 0, or -1 with the reason in
 * error. Then allocates and registers the memory: 0 or a negative errno. Then gives each queue pair
 * its part. */
int memory_plan(struct perf *p, char *error, size_t size);
int memory_open(struct perf *p);
void memory_assign(struct perf *p);
void memory_close(struct perf *p);

extern const struct mem_provider perf_memory; /* perf_ports.c */

/* ---- running: run.c, thread.c, traffic.c, stage.c, floor.c ---- */

/* Starts the threads; ports: NULL for a client. They end when messages or time are used up, or by
 * run_stop. */
int run_start(struct perf *p, const struct perf_options *o, struct perf_ports *ports, char *error,
              size_t size);
/* Stops the threads and waits for their end. */
void run_stop(struct perf *p);
/* Frees what run_start created, and p's results. */
void run_close(struct perf *p);
/* Whether all threads have finished, or one has failed. */
bool run_is_over(const struct perf *p);
/* Restarts the measurement of rates and latencies. Waits until the threads have done so. */
void run_clear(struct perf *p);

void *thread_run(void *thread);
/* Waits for the other threads. Time counts from then on. */
void thread_ready(struct perf_thread *t);
/* Records the first failure's text and ends the run. Any thread. */
__attribute__((format(printf, 2, 3))) void run_fail(struct perf *p, const char *format, ...);

/* Posts the first receive WQEs of this worker's queue pairs. */
void traffic_prepare(struct perf_thread *t);
/* Handles completions, and posts as many new messages. Returns the number of completions. */
unsigned traffic_poll(struct perf_thread *t);
/* Posts messages: those that are due at a rate, or until each queue pair has its depth outstanding.
 */
void traffic_fill(struct perf_thread *t);
/* At a rate: time counts from now. */
void traffic_start(struct perf_thread *t);
/* Makes the outstanding messages complete although no messages follow them. */
void traffic_flush(struct perf_thread *t);
/* Gives up datagrams that did not arrive. */
void traffic_forget_lost(struct perf_thread *t);

/* Runs a stage, or the bare port, until the run is stopped. */
void stage_run(struct perf_thread *t);

/* Moves messages as the traffic does, but with copies and CRCs alone, for this time. Returns
 * messages per second of CPU time. */
double floor_measure(struct perf_thread *t, ns_t duration);
/* Whether the mode has a floor. */
bool floor_applies(const struct perf_options *o);

ns_t thread_cpu_time(void);
/* TSC ticks a second; takes a few milliseconds the first time. */
double tsc_hz(void);

#endif
