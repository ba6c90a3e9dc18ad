/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verify: two programs that check each other's data. The declarations that its files share.
 *
 *   main.c      options, the list of tests, the report
 *   peer.c      the TCP connection to the other program
 *   device.c    the device, its port, the GID
 *   endpoint.c  queue pairs and what belongs to them
 *   connect.c   connecting them, posting, waiting for completions
 *   region.c    memory whose every byte is known
 *   tests.c     the table of tests
 *   transfer.c  one message from requester to responder, checked at both ends
 *   window.c    memory windows
 *   atomic.c order.c mixed.c fault.c   tests that need steps of their own
 *
 * Both programs run every test in lockstep. One is the requester and the other the responder, and
 * then the other way round. They exchange all other information over TCP.
 */
#ifndef VERIFY_H
#define VERIFY_H

/* accept4() and POLLRDHUP; each file includes this header first. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define VERIFY_VERSION 1
#define MAX_SIZES      32
#define MAX_MESSAGE    (64u << 20)
#define MAX_PIECES     4
#define PAGE           4096u
#define GRH_BYTES      40
#define UD_QKEY        0x11111111u
#define PSN_MASK       0xffffffu
#define WAIT_MS        20000 /* for the peer, and for completions of a reliable service */
#define LOST_MS        2000  /* for messages that an unreliable service may lose */

#define PATIENT_TIMER   17 /* 0.5 s without acknowledge: only a lost packet takes that long */
#define PATIENT_RETRIES 7

#define REMOTE_RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* How a test, or one transfer of it, ended. */
enum outcome {
    PASSED,
    SKIPPED, /* the device does not support it; `why` has the reason */
    FAILED,  /* `why` has the reason */
    LOST,    /* an unreliable service lost the message; it may be tried again */
};

struct options {
    const char *host; /* NULL: this is the server */
    const char *device;
    const char *port;
    const char *only;
    int gid_index; /* -1: choose */
    unsigned mtu;  /* 0: the port's */
    bool json, statuses, list;
    unsigned types; /* bit mask over enum ibv_qp_type */
    /* The plan: the client sends its own to the server. */
    uint32_t rounds;
    uint64_t seed;
    unsigned sizes; /* 0: as the path MTU suggests */
    uint32_t size[MAX_SIZES];
};

struct peer {
    int fd;
    uint32_t test;  /* number of the test in progress */
    bool ended;     /* its END has come */
    uint8_t result; /* and was this */
    char why[160];
};

struct session {
    struct options opt;
    struct peer peer;
    struct ibv_context *ctx;
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    uint8_t port_num;
    union ibv_gid gid, peer_gid;
    bool is_roce_v1; /* gid is */
    uint32_t mtu;    /* bytes, agreed */
    char why[256];
    char note[64];     /* the report's remark on a test that passed */
    uint8_t rd_atomic; /* READs and atomics at a time, agreed */
    bool is_rxe, peer_is_rxe;
    unsigned lost;     /* messages that had to be sent again */
    uint64_t moved;    /* messages that were checked, in this test */
    uint64_t seed;     /* of this test in this direction */
    char line[2][256]; /* fault tests: the observations, in each direction */
};

/* Sets s->why and returns the outcome, so that `return fail(s, ...)` reads well. */
enum outcome fail(struct session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum outcome skip(struct session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define TRY(call)                   \
    do {                            \
        enum outcome try_ = (call); \
        if (try_ != PASSED)         \
            return try_;            \
    } while (0)

/* ---- peer.c ---- */

int64_t now_ms(void); /* of a clock that only goes forward */
/* Connects to the host, or waits for one client; false with a message on stderr. */
bool peer_open(struct session *s);
void peer_close(struct session *s);
/* One way. tell does not wait; hear waits for the other side's tell. At most 256 bytes. */
enum outcome peer_tell(struct session *s, const void *data, size_t length);
enum outcome peer_hear(struct session *s, void *data, size_t length);
/* Both ways; without data it is a barrier. */
enum outcome peer_exchange(struct session *s, const void *mine, void *theirs, size_t length);
/* The client names the next test, "" when there is none, and the server learns the name. */
bool peer_next_test(struct session *s, char name[64]);
/* Combines both sides' results of a test. To be called for every test that began. */
enum outcome peer_end_test(struct session *s, enum outcome mine);

/* ---- device.c ---- */

bool device_open(struct session *s);
void device_close(struct session *s);
/* Exchanges versions, GIDs, path MTUs and the plan. */
bool device_agree(struct session *s);
/* Whether errno value err means that the device or its driver lacks a feature. */
bool unsupported(int err);
const char *status_name(enum ibv_wc_status status);
const char *state_name(int state);

/* ---- region.c ---- */

/* A message's place in memory: pieces with gaps between them, in ascending order. */
struct layout {
    unsigned pieces;
    struct {
        uint32_t offset, length;
    } piece[MAX_PIECES];
    uint32_t extent; /* the end, guard bytes behind it included */
};

struct region {
    uint8_t *bytes;
    size_t length;
    struct ibv_mr *mr;
};

uint64_t mix(uint64_t seed, uint64_t n); /* pseudo-random function */
/* size bytes in at most `pieces` pieces, somewhere in the first bytes; the same for the same seed.
 */
struct layout layout_make(uint64_t seed, uint32_t size, unsigned pieces);
size_t layout_room(uint32_t size); /* a region of this length has room for any layout */
void layout_sges(const struct layout *l, const struct region *r, struct ibv_sge *sge);
/* Everything up to the extent becomes guard bytes of `guard`. */
void region_guard(struct region *r, const struct layout *l, uint64_t guard);
/* The pieces are filled with the data of `data`. */
void region_fill(struct region *r, const struct layout *l, uint64_t data);
/* Checks every byte: in the pieces the first `size` are of `data`, all others from `from` on of
 * `guard`. */
enum outcome region_check(struct session *s, const char *what, const struct region *r,
                          const struct layout *l, uint32_t from, uint32_t size, uint64_t guard,
                          uint64_t data);

/* ---- endpoint.c ---- */

struct endpoint_options {
    enum ibv_qp_type type; /* IBV_QPT_XRC_SEND for XRC */
    bool srq;
    uint32_t psn;                          /* of the first packet we send */
    size_t room;                           /* bytes of each region */
    int mr_access;                         /* of the remote region; 0: all rights */
    int qp_access;                         /* remote rights of the queue pair; -1: all */
    uint8_t timeout, retry_cnt, rnr_retry; /* 0, 0, 0: long ones */
};

/* The description of an end that the peer needs. */
struct address {
    uint32_t qpn, recv_qpn, srqn, psn;
};

/* The target of a request, chosen by the responder. */
struct target {
    uint64_t addr;
    uint32_t rkey;
};

enum { SEND_SIDE, RECV_SIDE };

struct endpoint {
    struct endpoint_options opt;
    struct ibv_pd *pd, *other_pd;
    struct ibv_comp_channel *channel[2];
    struct ibv_cq *cq[2];
    struct ibv_srq *srq;
    struct ibv_xrcd *xrcd;
    struct ibv_qp *qp;      /* sends; receives too, except with XRC */
    struct ibv_qp *recv_qp; /* of XRC; else the same as qp */
    struct ibv_ah *ah;
    struct ibv_qp_cap cap;
    struct region local;  /* sources and results of requests */
    struct region remote; /* receive buffer, and the peer's target */
    struct ibv_mr *other_mr;
    struct address mine, theirs;
};

/* Creates and connects; SKIPPED when the device lacks a feature. Destroys everything unless PASSED.
 */
enum outcome endpoint_open(struct session *s, struct endpoint *ep,
                           const struct endpoint_options *opt);
void endpoint_close(struct endpoint *ep);
/* connect.c */
enum outcome endpoint_connect(struct session *s, struct endpoint *ep);
/* other_mr: the remote region in another protection domain. */
enum outcome endpoint_other_pd(struct session *s, struct endpoint *ep);
enum outcome post_send(struct session *s, struct endpoint *ep, struct ibv_send_wr *wr);
enum outcome post_recv(struct session *s, struct endpoint *ep, struct ibv_recv_wr *wr);
/* The next completion of a side, whatever its status. Sleeps until there is one. */
enum outcome await_any(struct session *s, struct endpoint *ep, int side, struct ibv_wc *wc);
/* The next completion, which must be a success with this wr_id and opcode. */
enum outcome await_success(struct session *s, struct endpoint *ep, int side, uint64_t wr_id,
                           enum ibv_wc_opcode opcode, struct ibv_wc *wc);
/* The responder tells, the requester hears. */
enum outcome tell_target(struct session *s, const struct target *target);
enum outcome hear_target(struct session *s, struct target *target);
/* Fails if there is an unexpected completion. */
enum outcome expect_no_more(struct session *s, struct endpoint *ep);

/* ---- window.c ---- */

/* Binds a window of a type to [addr, addr + length) of the remote region, and unbinds it. */
struct window {
    struct ibv_mw *mw;
    bool bound;
};

enum outcome window_bind(struct session *s, struct endpoint *ep, struct window *w,
                         enum ibv_mw_type type, uint64_t addr, uint64_t length);
enum outcome window_unbind(struct session *s, struct endpoint *ep, struct window *w);
void window_close(struct window *w);

/* ---- tests.c and the functions in its table ---- */

/* How a test is done. */
enum {
    INLINE = 1 << 0,
    SGES = 1 << 1,     /* gather and scatter */
    SHARED = 1 << 2,   /* receive from an SRQ */
    PSN_WRAP = 1 << 3, /* first PSNs just before 2^24 */
    WINDOW_1 = 1 << 4, /* the target is a memory window of type 1, bound by ibv_bind_mw */
    WINDOW_2 = 1 << 5, /* of type 2, bound by a work request */
};

/* What a fault test does wrong. */
enum wrong {
    NOTHING_WRONG,
    BAD_RKEY,
    STALE_RKEY, /* of a region that is gone */
    ZERO_RKEY,  /* a wrong one, for no bytes: allowed */
    OUT_OF_BOUNDS,
    NO_MR_RIGHTS,
    NO_QP_RIGHTS,
    OTHER_PD,
    MISALIGNED,
    INVALIDATED_WINDOW,
    BEYOND_WINDOW,
    BAD_INVALIDATE, /* SEND_WITH_INV of a key that is no window's */
    BAD_SEND_LKEY,
    BAD_RECV_LKEY,
    TOO_LONG,     /* for the receive buffer */
    NO_RECEIVE,   /* ever */
    LATE_RECEIVE, /* the retries find it */
    PEER_IN_ERROR,
    PEER_GONE,
};

/* The effect of a fault: the statuses of the two requests and the two receives, and the states of
 * the queue pairs afterwards. */
struct effect {
    int send_state, recv_state; /* enum ibv_qp_state, or -1: destroyed */
    enum ibv_wc_status send[2], recv[2];
};

/* The role in which Linux's rxe differs from the specification, which the test accepts. */
enum { NEITHER, REQUESTER, RESPONDER };

struct test {
    const char *name;
    enum ibv_qp_type type;
    enum ibv_wr_opcode op;
    unsigned how;
    enum outcome (*run)(struct session *s, const struct test *t, bool requester);
    enum wrong wrong;
    struct effect due;
    int rxe_role; /* in this role rxe has one of the following effects: */
    struct effect rxe;
    struct effect rxe_later; /* of Linux 6.12, where that is another one */
};

extern const struct test tests[];
extern const unsigned test_count;

enum outcome transfers(struct session *s, const struct test *t, bool requester);
enum outcome atomics(struct session *s, const struct test *t, bool requester);
enum outcome fence(struct session *s, const struct test *t, bool requester);
enum outcome solicited(struct session *s, const struct test *t, bool requester);
enum outcome mixed(struct session *s, const struct test *t, bool requester);
enum outcome chain(struct session *s, const struct test *t, bool requester);
enum outcome faulty(struct session *s, const struct test *t, bool requester);

#endif
