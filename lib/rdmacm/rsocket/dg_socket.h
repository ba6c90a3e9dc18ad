/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets. One UDP socket of the kernel, which is the descriptor, and an unreliable
 * queue pair for each local address that is used. The first datagrams to a peer go by UDP with the
 * number of our queue pair; the peer answers with the number of its own, and from then on both
 * use these. All functions are called with the socket's lock held.
 *
 * IPv4 addresses are AF_INET in here and on the wire, also those of an AF_INET6 socket: one peer is
 * one address. The program, and the UDP socket, get them in the socket's own family.
 */
#ifndef UROCE_DG_SOCKET_H
#define UROCE_DG_SOCKET_H

#include "rs_device.h"
#include "rs_socket.h"
#include "rs_wire.h"

#define DG_MESSAGE_MAX 2048 /* bytes with their header, in UD */
#define DG_SLOT        2112 /* with the GRH, and aligned */
#define DG_GRH         40
#define DG_PEERS_MAX   1024
#define DG_BUCKETS     64

struct dgram;

/* A datagram that waits for the program. */
struct dg_message {
    struct dg_message *next;
    struct dg_qp *qp; /* whose slot it is in; NULL: its bytes follow */
    uint32_t slot;
    uint32_t size;
    struct sockaddr_storage from;
    const uint8_t *bytes;
};

/* The queue pair of a local address. */
struct dg_qp {
    struct dg_qp *next;
    struct rdma_cm_id *id;
    struct rs_device *device;
    struct ibv_comp_channel *comp;
    struct ibv_cq *cq;
    struct rs_memory memory;
    struct ibv_mr *mr;
    struct sockaddr_storage local; /* with the UDP socket's port */
    uint32_t recv_slots, send_slots, free_slots;
    uint32_t *free;              /* send slots */
    struct dg_message *messages; /* one for each receive slot */
    uint32_t max;                /* bytes of a message, by the MTU */
    bool armed;
    bool stopped; /* a send has failed, and those behind it fail, too: it is in SQE */
};

struct dg_peer {
    struct dg_peer *next; /* in its bucket */
    struct dg_peer *younger;
    struct sockaddr_storage addr;
    struct dg_qp *qp;
    struct ibv_ah *ah; /* NULL: by UDP */
    uint32_t qpn;
    struct rdma_cm_id *resolving;
    int64_t heard; /* ns: when we took something from it, */
    int64_t told;  /* when something went to it, */
    int64_t asked; /* and when a datagram went by UDP, which it answers */
};

struct dgram {
    struct rsocket rs; /* first; its descriptor is the UDP socket */
    struct rdma_event_channel *channel;
    int epoll; /* of completion channels */
    bool bound, read_shut, write_shut;
    bool ended; /* the channel: its daemon is gone, which its descriptor shows once */
    struct dg_qp *qps;
    struct dg_peer *bucket[DG_BUCKETS], *oldest, **youngest;
    unsigned peers, resolving; /* of them, whose way is being found */
    struct dg_peer *peer;      /* of rconnect, or NULL */
    struct dg_message *first, **last;
    size_t queued; /* of the receive buffer: what messages that came by UDP take */
    uint32_t idle;
    int64_t looked; /* ns: for the answer of a silent peer */
};

static inline struct dgram *dg_of(struct rsocket *rs)
{
    return (struct dgram *)rs;
}

/* ---- dg_qp.c ---- */

/* The queue pair of a local IP address, made if need be. */
int dg_qp_get(struct dgram *d, const struct sockaddr_storage *local, struct dg_qp **qp);
void dg_qp_destroy(struct dg_qp *qp);
void dg_qp_poll(struct dgram *d, struct dg_qp *qp);
int dg_qp_arm(struct dg_qp *qp);
/* After a failed send: what is sent from now on goes. Asks the daemon. */
void dg_qp_go_on(struct dg_qp *qp);
/* Sends a message with its header; there is a free slot. */
int dg_qp_send(struct dg_peer *peer, const struct iovec *iov, size_t size);
/* Gives a received message's slot back. */
void dg_qp_repost(struct dg_qp *qp, uint32_t slot);

/* ---- dg_peer.c ---- */

bool dg_same_addr(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/* An address of the program's: -EINVAL, or -EAFNOSUPPORT when the socket cannot have such peers. */
int dg_addr_of(const struct dgram *d, const struct sockaddr *addr, socklen_t length,
               struct sockaddr_storage *plain);
/* NULL: it is unknown. */
struct dg_peer *dg_peer_find(const struct dgram *d, const struct sockaddr_storage *addr);
int dg_peer_get(struct dgram *d, const struct sockaddr_storage *addr, struct dg_peer **peer);
/* The peer's queue pair is this one. */
void dg_peer_learn(struct dgram *d, struct dg_peer *peer, uint32_t qpn);
/* Events of resolving, and the end of the daemon. */
void dg_peer_events(struct dgram *d);
void dg_peers_destroy(struct dgram *d);

/* ---- dg_data.c ---- */

void dg_process(struct rsocket *rs, bool cm);
void dg_arm(struct rsocket *rs);
bool dg_can_send(const struct dgram *d);
/* A message has come from this address by queue pair. */
void dg_heard(struct dgram *d, const struct sockaddr_storage *from, int64_t now);
void dg_queue(struct dgram *d, struct dg_message *m);
void dg_message_free(struct dgram *d, struct dg_message *m);
/* Without lock. */
ssize_t dg_recv(struct rsocket *rs, const struct iovec *iov, int n, int flags,
                struct sockaddr_storage *from);
ssize_t dg_send(struct rsocket *rs, const struct iovec *iov, int n, int flags,
                const struct sockaddr *to, socklen_t length);
/* Binds the UDP socket to a port of the kernel's choice if it is not bound. */
int dg_bind_any(struct dgram *d);

#endif
