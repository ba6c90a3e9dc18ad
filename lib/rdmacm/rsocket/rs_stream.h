/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream: a reliable connection whose ends write into each other's receive rings. All functions
 * are called with the socket's lock held, but for those that say otherwise.
 */
#ifndef UROCE_RS_STREAM_H
#define UROCE_RS_STREAM_H

#include "rs_device.h"
#include "rs_flow.h"
#include "rs_ring.h"
#include "rs_socket.h"
#include "rs_wire.h"

enum rs_state {
    RS_INIT,
    RS_BOUND,
    RS_LISTENING,
    RS_RESOLVING, /* the address, then the route */
    RS_CONNECTING,
    RS_ACCEPTING, /* the peer has not confirmed yet */
    RS_CONNECTED,
    RS_FAILED, /* to connect; may be tried again */
    RS_DOWN,
};

#define RS_TABLE_ENTRIES 2   /* announced buffers */
#define RS_INLINE_MAX    512 /* as the device */

/* A connection request that was not accepted yet. */
struct rs_request {
    struct rs_request *next;
    struct rdma_cm_id *id;
    struct rs_hello hello;
};

/* An entry of the peer's iomap table, and the program's buffer that it leads to. */
struct rs_mapping {
    struct rs_iomap iomap; /* as it is, or is to be, in the peer's table */
    struct ibv_mr *mr;     /* NULL: the entry is free */
    bool dirty;            /* the peer's entry is to be written */
};

/* A buffer that the program registered for its own writes (PROT_NONE). */
struct rs_local_map {
    struct rs_local_map *next;
    struct ibv_mr *mr;
};

struct rs_stream {
    struct rsocket rs; /* first */
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    enum rs_state state;
    unsigned tries;                              /* of resolving */
    bool bound;                                  /* by the program */
    struct sockaddr_storage peer;                /* of rconnect */
    struct rs_request *requests, **requests_end; /* of listeners */
    unsigned requests_count;
    /* Of listeners: streams that the program has not accepted yet, and how many there may be. Of
     * others the backlog is 0. */
    struct rs_stream *children, **children_end;
    unsigned children_count, backlog;
    struct rs_stream *next_child;

    /* The connection's objects; device NULL: none yet. */
    struct rs_device *device;
    struct ibv_comp_channel *comp;
    struct ibv_cq *cq;
    struct rs_memory memory;
    struct ibv_mr *remote_mr, *local_mr; /* what the peer writes; what is sent */
    uint8_t *recv_bytes, *send_bytes, *control_bytes;
    /* As the connection was made with them: the program may change its options. */
    uint32_t recv_wqes, send_slots, inline_size, iomap_entries;
    bool armed;
    uint32_t kept; /* bytes that had arrived when the program shut its reading down */
    uint32_t idle; /* calls since the last look at the event channel */

    /* Receiving. */
    struct rs_recv_ring recv;
    bool peer_finished; /* it sends no more */
    bool read_shut;     /* by the program */
    /* Sending. */
    struct rs_flow flow;
    struct rs_send_ring send;
    struct rs_buffer target; /* what is left of the buffer that the peer announced */
    struct rs_buffer *table; /* of buffers that it announces; it writes them */
    unsigned table_next;
    struct rs_buffer peer_table; /* its table */
    unsigned peer_table_next;
    bool peer_big_endian;
    bool write_shut;         /* by the program */
    bool control_due;        /* the peer is to be told so */
    bool failed;             /* the connection ended out of order */
    bool gone;               /* the peer is: what is in flight need not be waited for */
    unsigned control_number; /* for the place of its bytes */

    /* Direct writes. */
    struct rs_iomap *iomaps; /* the peer's buffers; it writes them */
    struct rs_mapping *mappings;
    uint32_t peer_iomaps; /* entries of mappings */
    uint32_t mappings_dirty;
    struct rs_local_map *local_maps;
};

static inline struct rs_stream *rs_stream_of(struct rsocket *rs)
{
    return (struct rs_stream *)rs;
}

/* Ends the connection; err: positive errno for the program, or 0: in order. */
void rs_stream_down(struct rs_stream *s, int err);

/* ---- rs_stream.c ---- */

/* A socket on a channel, which is its descriptor; it takes both. */
int rs_stream_make(int family, const struct rsocket *parent, struct rdma_event_channel *channel,
                   struct rdma_cm_id *id, struct rs_stream **made);
int rs_stream_bind(struct rsocket *rs, const struct sockaddr *addr, socklen_t length);

/* ---- rs_accept.c: what a listener has accepted and the program has not ---- */

/* Empties the backlog. */
struct rs_stream *rs_stream_take_children(struct rs_stream *s);
/* Without their locks: ends them, without waiting for the peers. */
void rs_stream_abandon(struct rs_stream *children);

/* ---- rs_cm.c: events of the connection manager ---- */

/* Takes all events. */
void rs_stream_cm(struct rs_stream *s);
int rs_stream_connect(struct rsocket *rs, const struct sockaddr *addr, socklen_t length);
/* With an id that has not been used, at the program's address if it has one. After an error the
 * state is as before, or RS_INIT: the address is another socket's by now. */
int rs_stream_renew_id(struct rs_stream *s);
/* Destroys an id whose events are all acknowledged, and its queue pair. */
void rs_id_destroy(struct rdma_cm_id *id);

/* ---- rs_open.c: objects of a connection ---- */

int rs_stream_open(struct rs_stream *s);
void rs_stream_release(struct rs_stream *s);
void rs_stream_hello(const struct rs_stream *s, struct rs_hello *h);
/* The peer has said hello; -EPROTO, -ENOMEM. */
int rs_stream_greet(struct rs_stream *s, const struct rs_hello *h);

/* ---- rs_cq.c: completions ---- */

int rs_post_receives(struct rs_stream *s, uint32_t n);
void rs_stream_process(struct rsocket *rs, bool cm);
void rs_stream_arm(struct rsocket *rs);
/* Drops what arrived after the program shut its reading down, once it has read the rest. */
void rs_stream_drop_unread(struct rs_stream *s);
/* Takes completions without looking whether there can be any. */
void rs_stream_poll_cq(struct rs_stream *s);
/* The same, if there can be some; at any state. */
void rs_stream_take(struct rs_stream *s);
/* Sends what is due: credits, shutdown. */
void rs_stream_control(struct rs_stream *s);

/* What a completion of the send queue releases. */
enum rs_work {
    RS_WORK_RECV,
    RS_WORK_DATA,    /* a slot, and bytes of the send ring */
    RS_WORK_CONTROL, /* a control slot */
};

static inline uint64_t rs_work_id(enum rs_work kind, uint32_t bytes)
{
    return (uint64_t)kind << 32 | bytes;
}

/* An RDMA WRITE; imm: NULL, or the message. */
int rs_post_write(struct rs_stream *s, uint64_t id, struct ibv_sge *sge, int n, const uint32_t *imm,
                  const struct rs_buffer *to, int flags);

/* ---- rs_send.c, rs_recv.c, rs_iomap.c: without lock ---- */

bool rs_stream_can_send(struct rs_stream *s);
ssize_t rs_stream_send(struct rsocket *rs, const struct iovec *iov, int n, int flags,
                       const struct sockaddr *to, socklen_t length);
ssize_t rs_stream_recv(struct rsocket *rs, const struct iovec *iov, int n, int flags,
                       struct sockaddr_storage *from);
/* With lock: why nothing can be sent, as a negative errno. A call that has sent `done` bytes
 * returns these, and leaves the error of the connection to the next one. */
int rs_stream_send_error(struct rs_stream *s, size_t done);
/* With lock, when rs_stream_can_send: tells the peer of one mapping. */
int rs_stream_send_mapping(struct rs_stream *s);
void rs_stream_unmap_all(struct rs_stream *s);

/* With lock, as all of these: the thread's turn to send. -EAGAIN: another thread sends, for longer
 * than this one waits. */
int rs_send_turn(struct rsocket *rs, bool nonblocking);
/* Until more can be sent, or it is known that it cannot. */
int rs_send_wait(struct rs_stream *s, bool nonblocking, int64_t deadline);
/* Bytes of a program that are about to be sent. */
struct rs_staged {
    struct ibv_sge sge[2]; /* n of them */
    int n, flags;
    uint32_t ring; /* bytes of the send ring */
    uint8_t small[RS_INLINE_MAX];
};
/* Copies n bytes behind the first `skip` of iov to the send ring, or few to `small`, and fills in
 * st. There is room for them. The lock is released while they are copied. */
void rs_stage(struct rs_stream *s, struct rs_staged *st, const struct iovec *iov, size_t skip,
              uint32_t n);
/* How many of left bytes can be staged now; 0: none. */
uint32_t rs_stage_room(const struct rs_stream *s, size_t left);

#endif
