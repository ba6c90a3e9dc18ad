/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaying a capture: one side of it is fed, in its own timing on a virtual clock, to an engine
 * whose queue pairs, keys, memory and work are reconstructed from the capture, and what the engine
 * sends is compared with what was recorded of the other side.
 *
 * load.c         file -> frames
 * flow.c, cm.c   frames -> queue pairs, and the connections between them
 * conn.c         frames -> conversations; a connection's frames -> requests and their answers
 * message.c      requests -> messages, and what the recorded responder did with them
 * run.c          an engine for one side of one conversation
 * host.c work.c  its queue pairs, their work and completions
 * memory.c       its memory and keys
 * judge.c        requests against requests, completions and their effects
 * answers.c      answers against answers
 * compare.c      frame against frame, and the rules that allow a difference
 * report.c       text or JSON
 *
 * Threads: one. Captures are input from outside: nothing in them may crash or hang this.
 */
#ifndef UROCE_REPLAY_H
#define UROCE_REPLAY_H

#include <jansson.h>
#include <stdio.h>

#include "encap.h"
#include "engine.h"
#include "mr_table.h"
#include "pkt.h"

/* The command `uroce replay`; argv[0] is its name. Exit status 0: every answer matches or differs
 * as the specification allows; 1: an answer differs; 2: wrong usage, the file cannot be read, or no
 * frame of it can be replayed. */
int uroce_replay(int argc, char **argv);

/* ---- frames ---- */

/* What can be done with a captured frame: X(name, help). */
#define REPLAY_USES(X)                                                                \
    X(replay, "replayed")                                                             \
    X(not_roce, "not RoCE")                                                           \
    X(malformed, "RoCE, but outer headers or packet are malformed")                   \
    X(cut_short, "not captured whole")                                                \
    X(cut_conversation, "of a conversation with frames that were not captured whole") \
    X(connection_management, "queue pair 1: connection management, parsed only")      \
    X(subnet_management, "queue pair 0")                                              \
    X(congestion_notification, "congestion notification")                             \
    X(xrc, "XRC: the packets do not tell which queue pair sent them")                 \
    X(partition, "a partition other than the default one")                            \
    X(same_address, "both sides have one address and cannot be told apart")           \
    X(too_many, "more conversations or connections than can be replayed")             \
    X(bad_icrc, "a wrong ICRC: fed, and to be dropped")                               \
    X(before_start, "of messages that began before the capture")                      \
    X(after_gap, "after packets that were sent but are missing in the capture")       \
    X(one_way, "our answers to requests whose recorded answers were not captured")
enum replay_use {
#define X(name, help) USE_##name,
    REPLAY_USES(X)
#undef X
        USE_COUNT
};
const char *replay_use_name(enum replay_use use);
const char *replay_use_help(enum replay_use use);

struct message;
struct conn;
struct conversation;

/* A captured frame. */
struct rec {
    unsigned number; /* from 1, as capture tools count */
    ns_t at;         /* since the first frame; never decreases; pauses are cut to a minute */
    uint8_t *data;
    uint32_t len;
    uint8_t use;            /* enum replay_use */
    uint8_t side;           /* index of the sender's address in the conversation */
    struct encap_view view; /* valid unless not_roce, malformed, cut_short */
    struct pkt pkt;         /* likewise */
    struct conversation *conversation;
    struct conn *conn;   /* connected services */
    int64_t psn;         /* unwrapped, on the PSN scale of the request stream */
    struct message *msg; /* the request's message */
};

struct capture {
    struct rec *rec;
    unsigned count;
    struct conversation **conversation; /* conversations */
    unsigned conversations;
    uint8_t *arena; /* payloads of all messages, as their senders have them */
    uint64_t arena_len;
    uint64_t sent_least; /* bytes that a run may send in addition to a multiple of the capture's */
};

/* Reads a whole pcap or pcapng file and closes f. 0, or -EIO with the reason in error. */
int replay_load(struct capture *c, FILE *f, char error[256]);
void replay_free(struct capture *c);

/* ---- what was reconstructed ---- */

/* The recorded responder's answer to a message. */
enum outcome { OUTCOME_NONE, OUTCOME_ACKED, OUTCOME_NAK };

/* A work request of a recorded requester. */
struct message {
    int64_t first;
    uint32_t packets, len;
    uint8_t op;        /* enum sqe_op */
    bool filler;       /* no packet of it was recorded: it only occupies PSNs */
    bool cut;          /* its end was not recorded, so its length is a guess */
    uint32_t recorded; /* its recorded packets */
    uint32_t
        answered; /* packets of its response that were recorded in order: the next one's index */
    bool solicited, has_imm, has_inv;
    uint32_t imm, rkey, inv_rkey;
    uint64_t va, swap_add, compare;
    uint8_t placement, selectivity;
    uint64_t arena_off;  /* SEND, WRITE, ATOMIC WRITE: its payload */
    unsigned post_index; /* posted before capture.rec[post_index] is processed */
    /* The recorded responder's behaviour. */
    uint8_t outcome;   /* enum outcome */
    uint8_t nak;       /* OUTCOME_NAK: code */
    int64_t nak_psn;   /* OUTCOME_NAK */
    unsigned rnr_naks; /* RNR NAKs before it was accepted */
    ns_t rnr_at;       /* rnr_naks: the last one's time */
    /* The state of a run. */
    unsigned rnr_sent; /* the engine's RNR NAKs */
    bool recv_posted;
};

/* The requests of one side on a connection, and the other side's answers. */
struct stream {
    struct rec **req; /* by PSN, copies in the order of the capture */
    unsigned reqs;
    struct rec **ans; /* in the order of the capture */
    struct rec **ans_by_psn;
    unsigned answers;
    /* How many at the beginning of ans are to requests from before the capture. */
    unsigned early;
    struct message *msg; /* by PSN, without gaps */
    unsigned msgs;
    int64_t start;       /* the first message's PSN */
    int64_t answer_hole; /* first message whose response was not captured whole; INT64_MAX: none */
    uint32_t longest_recv;   /* of the messages that need receive WQEs */
    int64_t hole;            /* an acknowledged PSN that is not in the capture; INT64_MAX: none */
    bool unwrapped, started; /* last is valid; start is valid */
    bool tidy;               /* the capture has every request once and in order */
    int64_t last;
    unsigned req_room, ans_room, msg_room;
};

/* Two connected queue pairs; index: side. */
struct conn {
    struct conversation *conversation;
    uint8_t service; /* PKT_RC, PKT_UC */
    uint32_t qpn[2];
    bool known[2]; /* whether qpn is known */
    uint32_t mtu;
    struct stream stream[2]; /* requests of side i */
    struct rec *sample[2];   /* a frame that side i sent, or NULL */
    uint32_t rnr_timer[2];   /* as a responder, by side */
    bool cm;                 /* the capture has the CM exchange of this connection: */
    uint32_t cm_psn[2], cm_mtu;
    bool seen;
    ns_t last_at, longest_wait; /* between two frames */
    struct our_qp *ours;        /* in the current run */
};

/* A datagram queue pair of one side. */
struct datagram {
    uint32_t qpn, qkey;
    uint8_t side;
    bool group;         /* stands for the members of a multicast group */
    uint32_t first_psn; /* sending */
    bool sends;
};

/* Frames between two addresses. Side 0 sent the first of them. */
struct conversation {
    union gid addr[2];
    uint16_t vlan; /* id */
    uint8_t l3_kind;
    struct conn **conn;
    unsigned conns, conn_room;
    struct datagram *dgram;
    unsigned dgrams, dgram_room;
    struct message **dgram_msg; /* of datagrams, to be freed */
    unsigned dgram_msgs, dgram_msg_room;
    bool cut; /* has truncated frames: not replayed */
};

/* Sorts frames into conversations and connections, and reassembles messages. 0, or -ENOMEM if the
 * payload cannot be mapped. */
int replay_reconstruct(struct capture *c);

/* cm.c: what the CM exchanges of a conversation say about its connections. */
struct cm_conn {
    uint32_t qpn[2], psn[2]; /* by side, from the REQ and the REP */
    uint8_t req_side;
    uint32_t mtu;
};
struct cm_conns {
    struct cm_conn *conn;
    unsigned count, room;
};
void replay_cm_collect(struct cm_conns *out, const struct capture *c, const struct conversation *t);

/* flow.c: finds the conversation's queue pairs and the connections between them. */
void replay_connect(struct capture *c, struct conversation *t);

/* message.c: turns the requests of a side, sorted by PSN, into messages; */
void stream_build(struct capture *c, struct conn *conn, unsigned side);
/* copies their payloads to the arena; */
void stream_fill(struct capture *c, struct stream *s, uint32_t mtu);
/* and derives their outcome from the recorded answers. */
void stream_outcomes(struct capture *c, struct conn *conn, unsigned side);
/* The message that has this PSN, or NULL. */
struct message *stream_message(const struct stream *s, int64_t psn);
/* The PSN nearest to `near` with the 24 bits of p. */
int64_t psn_unwrap(int64_t near, psn_t p);

static inline bool message_takes_recv(const struct message *m)
{
    return m->op == SQE_SEND || m->op == SQE_SEND_IMM || m->op == SQE_SEND_INV ||
           m->op == SQE_WRITE_IMM;
}

static inline bool message_has_response(const struct message *m)
{
    return m->op == SQE_READ || m->op == SQE_CMP_SWP || m->op == SQE_FETCH_ADD ||
           m->op == SQE_FLUSH || m->op == SQE_ATOMIC_WRITE;
}

/* ---- a run ---- */

/* A frame that the engine sent. */
struct sent {
    ns_t at;
    unsigned after; /* index of the captured frame that was processed when it was sent */
    uint8_t *data;
    uint32_t len;
    bool sound; /* it parses, and its ICRC is right */
    struct encap_view view;
    struct pkt pkt;
    struct conn *conn;
    int64_t psn;
    unsigned order;
    bool matched;
};

/* What a difference is. The names are part of the JSON output and of tables of explanations. */
#define REPLAY_DIFFS(X)                                              \
    X(field, "a field differs")                                      \
    X(missing_answer, "the recorded answer was not sent")            \
    X(extra_answer, "an answer that was not recorded")               \
    X(missing_request, "the recorded request was not sent")          \
    X(extra_request, "a request that was not recorded")              \
    X(unsound, "a frame that does not parse, or with a wrong ICRC")  \
    X(unknown_flow, "a frame to a queue pair that was not recorded") \
    X(effect, "the request's effect is wrong")                       \
    X(completion, "a work request completed with another status than the recorded answers imply")
enum replay_diff {
#define X(name, help) DIFF_##name,
    REPLAY_DIFFS(X)
#undef X
        DIFF_COUNT
};
const char *replay_diff_name(enum replay_diff diff);
const char *replay_diff_help(enum replay_diff diff);

struct finding {
    uint8_t diff;    /* enum replay_diff */
    int rule;        /* index of the rule that allows it, or -1: a real difference */
    uint64_t fields; /* DIFF_field: bit per enum field */
    const struct rec
        *rec; /* the recorded frame, or the frame that caused the finding; may be NULL */
    const struct sent *sent;
    char text[160];
};

struct key {
    uint32_t recorded;
    struct mem_region region; /* or window */
    struct mem_region parent; /* of a window */
    bool inserted;
};

struct our_qp;
struct page;
struct replay_path;

struct run {
    struct capture *capture;
    struct conversation *conversation;
    unsigned side; /* ours */
    ns_t now;
    unsigned index;     /* of the captured frame that is being processed */
    const char *failed; /* why the run failed, or NULL */

    /* host */
    struct engine *engine;
    struct encap_port port;
    struct qp_table *qps;
    struct ah_table *ahs;
    struct mr_table mrs;
    struct comp_queue cq;
    struct cq_reader reader;
    struct our_qp **qp;
    unsigned qpcount, qp_room;
    struct replay_path *path; /* address handles */
    unsigned paths, path_room;
    uint8_t *tx[FRAME_BURST];

    /* memory */
    struct key *key; /* by recorded key */
    unsigned keys, key_room;
    struct mem_region payload; /* capture.arena */
    struct mem_region landing; /* receive buffers, READ results */
    uint8_t *landing_bytes;
    uint64_t landing_len, landing_used;
    struct page **page;
    unsigned page_slots, pages;
    bool broken_memory; /* every access fails */

    /* results */
    struct sent **sent;
    unsigned sents, sent_room;
    uint64_t sent_bytes, sent_limit;
    struct finding *finding;
    unsigned findings, finding_room;
    unsigned fed, posted, identical, compared, effects;
    unsigned lost; /* sent by the engine, but lost in the capture */
    unsigned unused[USE_COUNT];
};

/* Plays one side of the conversation. replay_run_free frees the findings. */
void replay_run(struct run *r, struct capture *c, struct conversation *t, unsigned side);
void replay_run_free(struct run *r);

/* judge.c: compares everything that the engine sent. */
void replay_judge(struct run *r);
/* Adds a difference. text: as for printf, or NULL. */
void finding_add(struct run *r, enum replay_diff diff, int rule, uint64_t fields,
                 const struct rec *rec, const struct sent *sent, const char *text, ...)
    __attribute__((format(printf, 7, 8)));

/* ---- compare.c ---- */

/* Parts of a frame: X(name). */
#define REPLAY_FIELDS(X)                                                                  \
    X(mac)                                                                                \
    X(vlan)                                                                               \
    X(priority)                                                                           \
    X(l3)                                                                                 \
    X(address)                                                                            \
    X(dscp)                                                                               \
    X(ecn)                                                                                \
    X(hop_limit)                                                                          \
    X(ip_id)                                                                              \
    X(flow_label)                                                                         \
    X(udp_sport)                                                                          \
    X(opcode)                                                                             \
    X(solicited)                                                                          \
    X(mig_req)                                                                            \
    X(pkey)                                                                               \
    X(congestion_bits)                                                                    \
    X(dest_qpn)                                                                           \
    X(ack_req)                                                                            \
    X(psn)                                                                                \
    X(reth)                                                                               \
    X(atomic)                                                                             \
    X(aeth)                                                                               \
    X(credit)                                                                             \
    X(rnr_timer) X(msn) X(atomic_ack) X(imm) X(ieth) X(deth) X(feth) X(length) X(payload) \
        X(udp_checksum) X(other_bytes)
enum field {
#define X(name) FIELD_##name,
    REPLAY_FIELDS(X)
#undef X
        FIELD_COUNT
};
const char *replay_field_name(unsigned field);
#define FIELD_BIT(name) (UINT64_C(1) << FIELD_##name)
/* Fields without a meaning, which the engine may choose: the identification of IPv4 packets. */
#define FIELDS_NUMBERING FIELD_BIT(ip_id)

uint64_t replay_compare(const struct sent *s, const struct rec *rec);

/* Rules that allow differences. */
enum {
    RULE_ack_coalescing = 0,
    RULE_ack_repeated,
    RULE_ack_unasked,
    RULE_lost,
    RULE_retransmission,
    RULE_refused,
    RULE_nak_after_rnr,
    RULE_first_field, /* the rules about fields follow */
};
struct replay_rule {
    const char *name, *clause, *text;
};
extern const struct replay_rule replay_rules[];
extern const unsigned replay_rule_count;
/* The rule that allows a difference in this field, or -1. */
int replay_field_rule(unsigned field, const struct sent *s, const struct rec *rec);

/* ---- memory ---- */

#define REPLAY_PD        1
#define REPLAY_QP_ACCESS (MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC | MEM_FLUSH_GLOBAL)

int memory_create(struct run *r);
void memory_destroy(struct run *r);
struct key *memory_key(const struct run *r, uint32_t recorded);
/* Makes a key valid or invalid. */
void memory_insert(struct run *r, struct key *k, uint32_t qpn);
void memory_remove(struct run *r, struct key *k);
void memory_store(struct run *r, uint64_t va, const uint8_t *bytes, uint32_t len);
void memory_load(const struct run *r, uint64_t va, uint8_t *bytes, uint32_t len);

/* ---- report ---- */

struct report {
    bool json, verbose;
    const char *file;
    json_t *runs;
    unsigned differences;
};

/* Writes to stdout: text immediately, JSON at the end. */
void report_begin(struct report *p, const struct capture *c);
void report_run(struct report *p, const struct run *r);
void report_end(struct report *p, const struct capture *c);

/* ---- small helpers ---- */

/* As realloc; without memory the process prints a message and exits. */
void *replay_grow(void *p, size_t bytes);
/* Makes room for one more element in an array of n elements with *room. */
#define ENSURE_ROOM(array, n, room)                                              \
    do {                                                                         \
        if ((n) == (room)) {                                                     \
            (room) = (room) ? 2 * (room) : 16;                                   \
            (array) = replay_grow((array), (size_t)(room) * sizeof((array)[0])); \
        }                                                                        \
    } while (0)

#endif
