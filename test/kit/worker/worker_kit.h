/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The real dataplane in one process, without sockets: two devices whose ports are the ends of a
 * simulated cable, their worker threads, and an application's context on each; or one device over a
 * loopback port with a queue for each of its workers, and contexts of the test's own. All of it
 * runs in real time and on several threads; no run can be repeated exactly.
 *
 * Threads: everything but post_send, post_recv and the readers of completion queues belongs to the
 * control thread. An unexpected failure ends the program.
 */
#ifndef UROCE_TEST_WORKER_KIT_H
#define UROCE_TEST_WORKER_KIT_H

#include "device_kit.h"
#include "device_private.h"
#include "sim.h"

/* cmocka's own assertions jump, which a second thread may not do. */
#define require(cond) ((cond) ? (void)0 : require_failed(#cond, __FILE__, __LINE__))
_Noreturn void require_failed(const char *what, const char *file, int line);

struct dataplane {
    struct event_loop *loop;
    struct rnic *rnic;
    struct pktio *end[2];
    /* Makes a device's port of a cable end. Set before the start; NULL: the end itself. */
    struct pktio *(*wrap)(struct pktio *end);
    pthread_t worker[WORKERS_MAX];
    struct session *session[2]; /* [i]: on device i; NULL: of a loopback port */
    uint32_t pd[2];
};

/* Starts `workers` threads for the two devices, which take theirs in turn, and opens the contexts.
 */
void dataplane_start(struct dataplane *d, unsigned workers, const struct pktio_sim_config *config);
/* Starts `workers` threads, each with a queue of a loopback port that has 127.0.0.1 and ::1.
 * mem: the memory of its applications. */
void dataplane_start_loop(struct dataplane *d, unsigned workers, const struct mem_provider *mem);
/* Opens session[device] there. */
void dataplane_open_context(struct dataplane *d, unsigned device);
/* Open contexts are closed while the workers run; then the workers end. */
void dataplane_stop(struct dataplane *d);
/* Delivers the workers' messages to the control thread. */
void dataplane_control(struct dataplane *d);

/* A completion queue of 256 entries with a channel. */
struct test_cq {
    struct cq_reader reader;
    uint32_t handle;
    int channel; /* the application's end */
};
void cq_open(struct dataplane *d, unsigned side, struct test_cq *cq);
void cq_open_for(struct session *c, struct test_cq *cq);
/* Arms it for any completion. */
void cq_arm(struct test_cq *cq);
/* Closes the channel's end; the daemon's side goes with the context. */
void cq_close(struct test_cq *cq);

struct test_mr {
    uint32_t handle, key;
};
struct test_mr mr_open(struct dataplane *d, unsigned side, uint64_t addr, uint32_t len);
void mr_close(struct dataplane *d, unsigned side, struct test_mr mr);

/* The application's side of one end of a connection. */
struct test_qp {
    struct dataplane *d;
    struct qp_shared *shared;
    struct session *session;
    struct ctl_create_qp layout;
    uint32_t sends, recvs; /* posted */
};

/* Makes a queue pair on each device, 16 entries in each queue, and connects them: pair[0] on device
 * `first`, pair[1] on the other. Path MTU 256. */
void pair_open(struct dataplane *d, struct test_qp pair[2], unsigned first,
               const struct test_cq cq[2]);
/* Both on the loopback device. Path MTU 4096. */
void loop_pair_open(struct dataplane *d, struct test_qp pair[2], const struct test_cq *cq);
void qp_close(struct test_qp *qp);

/* The caller keeps count of what is outstanding. One SGE, none when len is 0. */
struct test_send {
    enum sqe_op op;
    bool signaled;
    uint64_t addr, remote_addr;
    uint32_t len, lkey, rkey;
};
void post_send(struct test_qp *qp, const struct test_send *s); /* its wr_id is its index */
/* The same for any request: fills in its wr_id and its one SGE (len 0: none). */
void post_wr(struct test_qp *qp, struct sqe wr, struct sge sge);
/* SQE_BIND_MW, signaled. */
struct test_bind {
    uint32_t window_key, new_key, region_key, access;
    uint64_t addr, len;
};
void post_bind(struct test_qp *qp, const struct test_bind *b);
void post_recv(struct test_qp *qp, uint64_t addr, uint32_t len, uint32_t lkey);
/* Rings the doorbell for posted requests. */
void ring_bell(struct test_qp *qp);
/* Rings at this worker, the owner or not, as if the queue pair had just migrated. */
void ring_bell_on(struct test_qp *qp, uint32_t worker);

#endif
