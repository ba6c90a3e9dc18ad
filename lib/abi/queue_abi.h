/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that an application and the dataplane share: work queue entries (WQEs), completion
 * queue entries (CQEs) and doorbells. This is an ABI between processes: fixed sizes, no pointers,
 * little-endian.
 *
 * Trust: the dataplane copies each WQE once into private memory and checks the copy; it never reads
 * a shared word twice for one decision. The application trusts the dataplane.
 *
 * Memory order is stated beside each index. The rings need release and acquire only; the doorbell
 * and arming words need sequential consistency (store, fence, load on both sides).
 */
#ifndef UROCE_QUEUE_ABI_H
#define UROCE_QUEUE_ABI_H

#include <stdatomic.h>
#include <stdint.h>

#include "common.h"

/* ---- work requests ---- */

/* Numeric values of enum ibv_wr_opcode. */
enum sqe_op {
    SQE_WRITE = 0,
    SQE_WRITE_IMM = 1,
    SQE_SEND = 2,
    SQE_SEND_IMM = 3,
    SQE_READ = 4,
    SQE_CMP_SWP = 5,
    SQE_FETCH_ADD = 6,
    SQE_LOCAL_INV = 7,
    SQE_BIND_MW = 8,
    SQE_SEND_INV = 9,
    SQE_FLUSH = 14,
    SQE_ATOMIC_WRITE = 15,
};

/* Numeric values of enum ibv_send_flags. */
enum sqe_flag {
    SQE_FENCE = 1 << 0,
    SQE_SIGNALED = 1 << 1,
    SQE_SOLICITED = 1 << 2,
    SQE_INLINE = 1 << 3,
    /* None of these: the only SGE is `sge` of the header, so that one cache line has all. For
     * SENDs, WRITEs and READs that are no datagrams. */
    SQE_SGE_IN_HEADER = 1 << 4,
    SQE_IP_CSUM = 1 << 5, /* a raw packet's: IBV_SEND_IP_CSUM, which has another value */
    /* None of these: the queue pair's sample_shared tells of this WQE. */
    SQE_TIMED = 1 << 7,
};

/* The layout of struct ibv_sge. */
struct sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

/* A send WQE: this header, then num_sge SGEs, or inline_len bytes if SQE_INLINE is set; nothing
 * more if SQE_SGE_IN_HEADER is. */
struct sqe {
    uint64_t wr_id;
    uint8_t opcode; /* enum sqe_op */
    uint8_t flags;  /* enum sqe_flag */
    uint8_t num_sge;
    uint8_t reserved;
    uint32_t imm; /* immediate data (the application's big-endian word as it is), or the R_Key to
                     invalidate */
    uint64_t remote_addr;
    uint32_t rkey;
    uint32_t inline_len;
    union {
        struct {
            uint64_t compare_add, swap;
        } atomic;
        struct {
            uint32_t ah, remote_qpn, remote_qkey;
        } ud;
        struct { /* remote_addr: first byte; rkey: the window's key; imm: its new key */
            uint64_t length;
            uint32_t region_key, access; /* enum mem_access */
        } bind;
        struct { /* remote_addr and rkey: the range; num_sge 0 */
            uint64_t length;
            uint8_t placement, selectivity;
        } flush;
        struct sge sge; /* SQE_SGE_IN_HEADER */
        uint64_t words[3];
    };
    uint32_t remote_srqn; /* XRC */
    uint32_t reserved2;
};
_Static_assert(sizeof(struct sqe) == 64, "sqe is ABI");

/* Operations that use none of the header's words themselves: their only SGE may be there, unless
 * they are datagrams. */
static inline bool sqe_has_free_words(uint32_t op)
{
    const uint32_t ops = 1u << SQE_WRITE | 1u << SQE_WRITE_IMM | 1u << SQE_SEND |
                         1u << SQE_SEND_IMM | 1u << SQE_SEND_INV | 1u << SQE_READ;

    return op < 32 && ops >> op & 1;
}

/* A receive WQE: this header, then num_sge SGEs. */
struct rqe {
    uint64_t wr_id;
    uint32_t num_sge;
    uint32_t reserved;
};
_Static_assert(sizeof(struct rqe) == 16, "rqe is ABI");

/* The longest message: 2^30 bytes. At path MTU 256 its packets fit in half of the PSN space. */
#define MESSAGE_MAX (UINT32_C(1) << 30)

#define QUEUE_MAX_SGE    32
#define QUEUE_MAX_INLINE 512
#define QUEUE_MAX_WR     16384
#define QUEUE_MAX_CQE    (1u << 22) /* libfabric asks for 100,000 and more */

/* Bytes between send WQEs for these capabilities: a multiple of 64. */
static inline uint32_t sqe_stride(uint32_t max_sge, uint32_t max_inline)
{
    uint32_t body = max_of(max_sge * (uint32_t)sizeof(struct sge), max_inline);

    return (uint32_t)round_up(sizeof(struct sqe) + body, 64);
}

/* Bytes between receive WQEs: a multiple of 32. */
static inline uint32_t rqe_stride(uint32_t max_sge)
{
    return (uint32_t)round_up(sizeof(struct rqe) + max_sge * sizeof(struct sge), 32);
}

/*
 * A work request whose stages are timed. Application -> dataplane, relaxed: written before sq_prod
 * passes its WQE, and not again before the application has its completion. Times are of
 * CLOCK_MONOTONIC, in ns.
 */
struct sample_shared {
    _Atomic uint64_t posted; /* when it was posted */
    /* Of the one before: from its CQE's timestamp, and from its posting, to when the application
     * had the completion. total 0: there was none. */
    _Atomic uint64_t polled, total;
};

/*
 * The start of a queue pair's segment; the rings follow at the offsets that CTL_CREATE_QP returned.
 * Ring sizes are powers of two. An index counts WQEs since creation, modulo 2^32; WQE i is at
 * ring + (i & (size - 1)) * stride. The application never has more than `size` WQEs outstanding;
 * completions tell it that WQEs are free again (struct cqe, wqe). The transition of a QP to RESET
 * sets both indices to 0 on both sides.
 */
struct qp_shared {
    /* Application -> dataplane. The application writes WQEs, then stores with release; the
     * dataplane loads with acquire, then reads WQEs. */
    CACHE_ALIGNED _Atomic uint32_t sq_prod;
    struct sample_shared sample;
    CACHE_ALIGNED _Atomic uint32_t rq_prod;
    /*
     * Dataplane -> application: 1 while receive WQEs need a doorbell too (the queue pair is in the
     * error state and flushes them). The application stores rq_prod, executes a seq_cst fence,
     * loads this word, and rings the doorbell if it is set. The dataplane stores this word, fences,
     * then loads rq_prod.
     */
    CACHE_ALIGNED _Atomic uint32_t rq_notify;
};

/* The start of a shared receive queue's segment; its ring follows. WQEs become free in the order of
 * posting. */
struct srq_shared {
    CACHE_ALIGNED _Atomic uint32_t prod; /* application -> dataplane, as rq_prod */
    CACHE_ALIGNED _Atomic uint32_t
        taken; /* dataplane -> application: WQEs before this index are free again */
};

/* ---- completions ---- */

/* Numeric values of enum ibv_wc_status. */
enum wc_status {
    WC_SUCCESS = 0,
    WC_LOC_LEN_ERR = 1,
    WC_LOC_QP_OP_ERR = 2,
    WC_LOC_PROT_ERR = 4,
    WC_WR_FLUSH_ERR = 5,
    WC_MW_BIND_ERR = 6,
    WC_BAD_RESP_ERR = 7,
    WC_LOC_ACCESS_ERR = 8,
    WC_REM_INV_REQ_ERR = 9,
    WC_REM_ACCESS_ERR = 10,
    WC_REM_OP_ERR = 11,
    WC_RETRY_EXC_ERR = 12,
    WC_RNR_RETRY_EXC_ERR = 13,
    WC_REM_ABORT_ERR = 16,
    WC_FATAL_ERR = 19,
    WC_RESP_TIMEOUT_ERR = 20,
    WC_GENERAL_ERR = 21,
};

/* Numeric values of enum ibv_wc_opcode. */
enum wc_opcode {
    WC_SEND = 0,
    WC_RDMA_WRITE = 1,
    WC_RDMA_READ = 2,
    WC_COMP_SWAP = 3,
    WC_FETCH_ADD = 4,
    WC_BIND_MW = 5,
    WC_LOCAL_INV = 6,
    WC_FLUSH = 8,
    WC_ATOMIC_WRITE = 9,
    WC_RECV = 128,
    WC_RECV_RDMA_WITH_IMM = 129,
};

/* Numeric values of enum ibv_wc_flags. */
enum wc_flag {
    WC_GRH = 1 << 0,
    WC_WITH_IMM = 1 << 1,
    WC_IP_CSUM_OK = 1 << 2,
    WC_WITH_INV = 1 << 3,
};

struct cqe {
    uint64_t wr_id;
    uint64_t timestamp; /* the dataplane's clock, ns */
    uint32_t qpn;
    uint32_t src_qpn;
    uint32_t byte_len;
    uint32_t imm;  /* immediate data, as a big-endian word, or the invalidated R_Key, or a raw
                      packet's flow tag */
    uint32_t uidx; /* the application's own number of the queue pair, or CQE_UIDX_NONE (XRC) */
    uint32_t vendor_err;
    uint32_t pkey_index;
    uint32_t wqe;   /* index of the completed WQE: WQEs up to it are free again */
    uint8_t status; /* enum wc_status */
    uint8_t opcode; /* enum wc_opcode */
    uint8_t wc_flags;
    uint8_t sl;
    uint16_t vlan; /* id, or CQE_VLAN_NONE */
    uint8_t smac[6];
    /* Dataplane -> application: index + 1 of this CQE, stored last with release. The application
     * loads it with acquire, and takes the CQE if the value is its consumer index + 1. */
    _Atomic uint32_t seq;
};
_Static_assert(sizeof(struct cqe) == 64, "cqe is ABI");

#define CQE_UIDX_NONE (UINT32_MAX - 1) /* the application itself uses UINT32_MAX */
#define CQE_VLAN_NONE 0xFFFF
/* cqe.sl of datagrams without a priority: the network header, in bits 0 to 2, and UDP. */
#define CQE_SL_KIND 8u
#define CQE_SL_IPV6 (CQE_SL_KIND | 1u)
#define CQE_SL_IPV4 (CQE_SL_KIND | 2u)

enum cq_arm {
    CQ_ARM_NONE = 0,
    CQ_ARM_NEXT = 1,
    CQ_ARM_SOLICITED = 2, /* solicited or unsuccessful completions only */
};

/* The start of a completion queue's segment; then `lanes` lanes, one per worker. */
struct cq_shared {
    /*
     * The application arms: it stores arm, executes a seq_cst fence, then polls once more (a rule
     * of verbs). The dataplane stores CQEs, executes a seq_cst fence, then loads arm; the worker
     * that exchanges it to CQ_ARM_NONE sends the one event.
     */
    CACHE_ALIGNED _Atomic uint32_t arm;
};

struct cq_lane {
    /* Application -> dataplane: CQEs consumed, stored with release after they were read. The
     * dataplane loads it with acquire, and only if the ring seems full. */
    CACHE_ALIGNED _Atomic uint32_t cons;
    CACHE_ALIGNED struct cqe entry[]; /* `size` CQEs, a power of two */
};

static inline size_t cq_lane_bytes(uint32_t size)
{
    return sizeof(struct cq_lane) + (size_t)size * sizeof(struct cqe);
}

static inline size_t cq_segment_bytes(uint32_t size, uint32_t lanes)
{
    return sizeof(struct cq_shared) + lanes * cq_lane_bytes(size);
}

static inline struct cq_lane *cq_lane_at(struct cq_shared *cq, uint32_t size, uint32_t lane)
{
    return (struct cq_lane *)((char *)(cq + 1) + lane * cq_lane_bytes(size));
}

/* ---- completion counters ---- */

/*
 * The segment of a completion counter: a line per worker, which alone adds to it; the counts are
 * the sums, modulo 2^64. Dataplane -> application, stored with release after the work's bytes. What
 * an application writes here changes its own counts, and nothing else.
 */
struct counter_line {
    CACHE_ALIGNED _Atomic uint64_t done; /* work requests, or bytes */
    _Atomic uint64_t failed;             /* work requests */
};
_Static_assert(sizeof(struct counter_line) == CACHE_LINE, "counter_line is ABI");

static inline size_t counter_segment_bytes(uint32_t lines)
{
    return lines * sizeof(struct counter_line);
}

/* ---- doorbells ---- */

#define DB_LEAVES 64u
#define DB_SLOTS  (64u * 64u * 64u) /* queue pairs of one application */

/*
 * The queue pairs of an application that have new send work, for one worker: a bit per queue pair,
 * in three levels, so that an idle application costs the worker one load. All accesses are seq_cst;
 * doorbell.h has the order of setting and taking. The cache lines of doorbells alternate between
 * two CPUs. Most applications have at most 64 queue pairs, and the words of the first 64 share one
 * cache line.
 */
struct doorbells {
    /* The worker sets it to 1 before it sleeps; the application thread that exchanges it to 0 wakes
     * the worker, by a write to the eventfd for this worker that came with CTL_OPEN. */
    CACHE_ALIGNED _Atomic uint32_t worker_armed;
    /* Private to the worker: where its next take starts, if the last one was cut short. A value
     * that an application writes here only changes the order in which the worker takes this
     * application's doorbells. */
    _Atomic uint32_t resume;
    _Atomic uint64_t top;
    _Atomic uint64_t first_mid, first_leaf; /* mid[0] and leaf[0], which are not used */
    /* Dataplane -> application: changes after a peer's WRITE or atomic has changed the
     * application's memory, before app_armed is exchanged. A line for each worker: it counts at the
     * end of each pass of its loop. */
    CACHE_ALIGNED _Atomic uint32_t writes;
    CACHE_ALIGNED _Atomic uint64_t mid[64];
    CACHE_ALIGNED _Atomic uint64_t leaf[64 * 64];
};

/* A worker's CPU, and in the high bits how many times the worker was preempted: the same value
 * twice means that the worker stayed on that CPU, and got it whenever it was runnable, for the
 * whole time between. 0: unknown. */
#define WORKER_CPU_BITS  13
#define WORKER_CPU_NONE  ((1u << WORKER_CPU_BITS) - 1) /* unknown or contended */
#define WORKER_CPU_KNOWN (1u << WORKER_CPU_BITS)
#define CTX_WORKERS_MAX  16

static inline uint32_t worker_cpu_pack(uint32_t cpu, uint32_t preemptions)
{
    return preemptions << (WORKER_CPU_BITS + 1) | WORKER_CPU_KNOWN | min_of(cpu, WORKER_CPU_NONE);
}

static inline uint32_t worker_cpu_number(uint32_t packed)
{
    return packed & WORKER_CPU_NONE;
}

/* What an application does for the daemon while a bit is set. */
enum ctx_watch {
    CTX_WATCH_LATENCY = 1 << 0, /* it marks WQEs whose stages are timed (SQE_TIMED) */
    CTX_WATCH_CALLS = 1 << 1,   /* it asks before calls that need no message (CTL_JUDGE) */
};

/* One application's context segment (CTL_OPEN). */
struct ctx_shared {
    /* Dataplane -> application: how many times at most a thread polls between two yields; 0: more
     * threads poll than there are CPUs. Relaxed. */
    CACHE_ALIGNED _Atomic uint32_t spin_limit;
    /* Daemon -> application: enum ctx_watch. Relaxed. */
    _Atomic uint32_t watch;
    /* Dataplane -> application, by worker: see worker_cpu_pack(). Relaxed. */
    CACHE_ALIGNED _Atomic uint32_t worker_cpu[CTX_WORKERS_MAX];
    /* Application -> dataplane: counts its empty polls, so that the dataplane can count the threads
     * that poll. Relaxed. */
    CACHE_ALIGNED _Atomic uint32_t polls;
    /* Application -> dataplane: 1 while a thread is blocked in a poll; a futex word. The dataplane
     * exchanges it to 0 after it has posted completions, and wakes the thread. seq_cst, like
     * worker_armed. */
    CACHE_ALIGNED _Atomic uint32_t app_armed;
    /* Dataplane -> application: 1 when a region has become hot; a futex word, which the application
     * exchanges to 0 before it sends CTL_HOT_MRS. */
    _Atomic uint32_t mr_hot;
    /* Written once, before the application gets the segment: by this key another connection joins
     * this one (CTL_JOIN). Only a process that has the segment's descriptor can read it. */
    uint64_t join_key[2];
    /* Application -> daemon: its process has forked, so that a child may go on with the context
     * when the process ends (CTL_INHERIT). Relaxed. */
    _Atomic uint32_t forked;
    /* Dataplane -> application, by doorbell slot: the worker that takes this queue pair's doorbell.
     * Relaxed: a worker that the queue pair has left forwards the doorbell. It is here and not in
     * the queue pair's segment, because an idle queue pair touches nothing of its segment. */
    CACHE_ALIGNED _Atomic uint8_t slot_worker[DB_SLOTS];
    CACHE_ALIGNED struct doorbells worker[]; /* one per worker */
};

/* A change of this layout needs a new CTL_VERSION, so that old libraries are refused. */
_Static_assert(offsetof(struct ctx_shared, polls) == 128 &&
                   offsetof(struct ctx_shared, slot_worker) == 256 &&
                   sizeof(struct ctx_shared) == 256 + DB_SLOTS,
               "CTL_VERSION counts layouts");

static inline size_t ctx_segment_bytes(uint32_t workers)
{
    return sizeof(struct ctx_shared) + workers * sizeof(struct doorbells);
}

#endif
