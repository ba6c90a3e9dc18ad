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
    unsigned next_msg;       /* next message of our stream to be posted */
    unsigned next_entry;     /* next message of the peer's stream to get a receive entry */
    unsigned next_recv;      /* next message of the peer's stream to arrive in one */
    int64_t out_psn, in_psn; /* of the last request sent, and fed */
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
/* Whether what is received of a message can be foretold: also unreliable services deliver it. */
bool host_is_delivered(const struct conn *conn, const struct stream *s, const struct message *m);
/* Posts what is due of our stream. */
void host_post_due(struct run *r, struct our_qp *q);
void host_post_datagram(struct run *r, struct our_qp *q, const struct rec *rec);
void host_post_recv(struct run *r, struct our_qp *q, uint32_t len);
/* Takes everything the engine wants to send. */
void host_pump(struct run *r);
/* Takes completions, and checks what they say. */
void host_poll(struct run *r);
/* Changes a field of a frame that the engine sent, and its ICRC with it. */
void host_change_sent(struct sent *s, enum frame_field field, uint64_t value);
void host_set_access(struct run *r, struct our_qp *q, uint32_t access);

/* ---- between host.c and work.c ---- */

struct replay_path {
    struct address_vector av;
    struct address_handle *ah;
};

/* How a side addresses the other: from a frame of its own, or of the other turned around. */
struct address_vector host_path(const struct rec *rec, bool own);

/* Sets a flow label that leads to the recorded source port, where there is a choice. */
void host_choose_flow_label(struct address_vector *av, const struct rec *rec, uint32_t own,
                            uint32_t peer);

/* The number of a connection's other queue pair, or one that stands for an unknown. */
uint32_t host_peer_number(const struct run *r, const struct conn *conn);

/* The offset of len bytes of the landing region that nobody else has. */
uint64_t host_landing_take(struct run *r, uint32_t len);

#endif
