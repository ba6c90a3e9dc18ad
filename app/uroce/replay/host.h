/* SPDX-License-Identifier: BSD-3-Clause */
/* The host of a run's engine: its queue pairs, their work, their completions. */
#ifndef UROCE_REPLAY_HOST_H
#define UROCE_REPLAY_HOST_H

#include "frame_field.h"
#include "replay.h"

#define SQ_SIZE    1024u
#define RQ_SIZE    256u
#define MAX_SGE    1u
#define FRAME_ROOM (ENCAP_MAX_LEN + PKT_MAX_HEADER + PKT_MTU_MAX + 8)

struct our_qp {
    struct conn *conn; /* or NULL: */
    struct datagram *dgram;
    uint32_t recorded_qpn;
    struct qp *qp;
    struct qp_shared *shared;
    uint8_t *sq, *rq;
    uint32_t sq_prod, sq_free, rq_prod, rq_free;
    unsigned next_msg;       /* our stream's next message to post */
    unsigned next_entry;     /* the peer's next message that needs a receive WQE */
    unsigned next_recv;      /* the peer's next message to arrive in a receive WQE */
    int64_t out_psn, in_psn; /* of the last request sent, and of the last request fed */
    struct sent **sent;      /* connected: what it sent */
    unsigned sents, sent_room;
    uint8_t *status;       /* per message of our stream: enum wc_status, or NOT_COMPLETED */
    unsigned received;     /* datagrams */
    uint64_t *landing_off; /* per message of our stream: where READ and atomic results go */
    bool errored;          /* a completion was in error */
};

#define NOT_COMPLETED 0xFF

int host_create(struct run *r);
void host_destroy(struct run *r);
struct our_qp *host_qp_for(const struct run *r, const struct rec *rec);
/* Whether the result of receiving a message can be predicted. On unreliable services it must be
 * delivered, too. */
bool host_is_delivered(const struct conn *conn, const struct stream *s, const struct message *m);
/* Posts our stream's messages whose time has come. */
void host_post_due(struct run *r, struct our_qp *q);
void host_post_datagram(struct run *r, struct our_qp *q, const struct rec *rec);
void host_post_recv(struct run *r, struct our_qp *q, uint32_t len);
/* Collects all packets that the engine has to send. */
void host_pump(struct run *r);
/* Handles all completions and checks what they report. */
void host_poll(struct run *r);
/* Changes a field of a frame that the engine sent, and its ICRC with it. */
void host_change_sent(struct sent *s, enum frame_field field, uint64_t value);
void host_set_access(struct run *r, struct our_qp *q, uint32_t access);

/* ---- between host.c and work.c ---- */

struct replay_path {
    struct address_vector av;
    struct address_handle *ah;
};

/* How a side addresses the other: from one of its own frames, or from one of the other side's,
 * reversed. */
struct address_vector host_path(const struct rec *rec, bool own);

/* Chooses a flow label that leads to the recorded source port, where there is a choice. */
void host_choose_flow_label(struct address_vector *av, const struct rec *rec, uint32_t own,
                            uint32_t peer);

/* The number of the connection's other queue pair, or one that stands for an unknown number. */
uint32_t host_peer_number(const struct run *r, const struct conn *conn);

/* Reserves len bytes of the landing region. Returns their offset. */
uint64_t host_landing_reserve(struct run *r, uint32_t len);

#endif
