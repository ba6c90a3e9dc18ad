/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the socket port share. Only the queue's worker touches what is not said to be
 * another thread's. */
#ifndef UROCE_PKTIO_SOCKET_INTERNAL_H
#define UROCE_PKTIO_SOCKET_INTERNAL_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "encap.h"
#include "encap_layout.h"
#include "frame_slots.h"
#include "socket.h"

#define SOCKET_ROOM      4352 /* bytes of a frame: path MTU 4096 and every header */
#define SOCKET_DATAGRAMS 4    /* received by one system call, each of several segments */
#define SOCKET_BYTES     65536
#define SOCKET_SEGMENTS  64  /* of one datagram: the kernel's limit (UDP_MAX_SEGMENTS) */
#define SOCKET_SPORTS    256 /* sockets that datagrams leave by, one for each source port */
#define SOCKET_RX_MAX    SOCKET_ADDRESSES_MAX

/* A received datagram, which is `segment` bytes of one packet after another. */
struct socket_datagram {
    union gid src, dst;
    uint16_t sport;
    uint8_t traffic_class;
    bool truncated;
    uint32_t len, segment, at; /* at: the next packet */
    uint16_t id;               /* IPv4: of the next packet, as far as is known */
};

struct socket_rx {
    uint8_t *bytes; /* SOCKET_DATAGRAMS times SOCKET_BYTES */
    struct socket_datagram datagram[SOCKET_DATAGRAMS];
    unsigned next, count;
    unsigned socket; /* whose turn it is */
    struct encap_template headers;
    union gid src, dst; /* of `headers`, as sport and traffic_class */
    uint16_t sport;
    uint8_t traffic_class;
    bool has_headers;
    uint32_t dropped[SOCKET_RX_MAX]; /* by the kernel, as it counts (SO_RXQ_OVFL) */
};

/* Where things are in a frame of RoCEv2. */
struct socket_layout {
    uint8_t *l3, *bth;
    uint32_t len; /* bytes from the BTH through the ICRC */
    enum icrc_l3 kind;
};

/* Packets that leave in one system call: one flow's, of one length but for the last, which may be
 * shorter. */
struct socket_group {
    uint16_t slot[SOCKET_SEGMENTS];
    unsigned count;
    struct socket_layout first;
    unsigned place; /* of the socket, in socket_port.sport */
    bool full;      /* it takes no more */
};

struct socket_port {
    struct pktio io;
    struct pktio_socket_config config;
    struct pktio_info info; /* any thread, constant */
    int epoll;
    int rx_fd[SOCKET_RX_MAX]; /* bound to port 4791 */
    bool rx_ipv4[SOCKET_RX_MAX];
    unsigned rx_fds;
    struct frame_slots slots;
    struct socket_rx rx;
    struct socket_group group[FRAME_BURST]; /* to be sent */
    unsigned groups;
    bool more;         /* packets that may join the last group are about to follow */
    uint8_t *outgoing; /* a group as the kernel takes it, and room for headers before */
    bool no_segments;  /* the kernel cannot cut datagrams for these interfaces */
    struct {
        uint16_t port; /* 0: none is open */
        int fd[2];     /* IPv6, IPv4, or -1 */
    } sport[SOCKET_SPORTS];
    struct pktio_counters counters;
};

static inline struct socket_port *socket_port_of(struct pktio *io)
{
    return container_of(io, struct socket_port, io);
}

/* Where things are in a frame of RoCEv2 of this kind. */
static inline struct socket_layout socket_layout_of(const struct socket_port *s, uint16_t slot,
                                                    enum icrc_l3 kind)
{
    uint8_t *frame = frame_slot(&s->slots, slot), *l3 = frame + ETH_LEN;
    uint8_t *bth = l3 + icrc_headers(kind);

    return (struct socket_layout){
        .l3 = l3, .bth = bth, .len = s->slots.len[slot] - (uint32_t)(bth - frame), .kind = kind};
}

/* ---- socket_open.c ---- */

/* A socket bound to an address and port, which does not block. Or a negative errno. */
int socket_bound(const union gid *address, bool ipv4, uint16_t port);

/* ---- socket_rx.c ---- */

/* Allocates what receiving needs. 0 or -ENOMEM. */
int socket_rx_init(struct socket_port *s);
void socket_rx_fini(struct socket_port *s);
/* Frames of received datagrams. It asks the kernel for datagrams once at most. */
unsigned socket_rx_take(struct socket_port *s, struct frame *f, unsigned n);

/* ---- socket_tx.c ---- */

/* Takes a frame to be sent; what cannot be is counted and dropped. */
void socket_tx_add(struct socket_port *s, uint16_t slot);
/* Sends what was added; what the kernel has no room for stays, and so does the last group as long
 * as more packets follow. */
void socket_tx_flush(struct socket_port *s);

/* ---- socket_send.c ---- */

/* Allocates what sending needs. 0 or -ENOMEM. */
int socket_send_init(struct socket_port *s);
void socket_send_fini(struct socket_port *s);
/* Hands a group's packets to the kernel; the frames remain as they are. 0, or the error. */
int socket_send(struct socket_port *s, const struct socket_group *g);

/* ---- socket_sport.c ---- */

void socket_sport_init(struct socket_port *s);
void socket_sport_fini(struct socket_port *s);
/* The place of the socket that a flow's datagrams leave by, with the wanted source port or one that
 * takes its place; SOCKET_SPORTS: there is none. */
unsigned socket_sport_choose(struct socket_port *s, uint16_t wanted, bool ipv4);

/* ---- socket_too_big.c ---- */

/* The kernel has refused to send a frame, as it is longer than the path takes: the engines learn
 * the path's MTU as from a router, by a frame of the port's. */
void socket_report_too_big(struct socket_port *s, uint16_t slot);

#endif
