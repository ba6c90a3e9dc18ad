/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The script runner: one engine, one virtual clock, and a peer that is a text file. A case is a
 * list of lines, each a statement: the peer sends, the application posts, results are checked.
 * README.md has the language.
 *
 * Output of the engine (frames, completions, events) is kept until a line expects it. An unexpected
 * frame fails the case at the next line that acts, an unexpected completion or event at its end.
 */
#ifndef UROCE_SCRIPT_H
#define UROCE_SCRIPT_H

#include <setjmp.h>

#include "kept_map.h"
#include "kit.h"

#define MAX_WORDS   64
#define MAX_OBJECTS 32
#define MAX_FRAMES  512
#define MAX_EVENTS  64
#define NAME_LEN    24

enum object_kind { OBJ_QP, OBJ_MR, OBJ_MW, OBJ_CQ, OBJ_SRQ, OBJ_AH };

struct object {
    char name[NAME_LEN];
    enum object_kind kind;
    void *p;
};

/* The fields of a `qp` line; all uint32_t, so that one table of names suffices. */
struct qp_conf {
    uint32_t mtu, sq_psn, rq_psn, retry, rnr_retry, timeout, min_rnr, max_rd, max_dest_rd;
    uint32_t access, qkey, peer, pd, sq, rq, max_sge, max_inline, sig_all, xrcd;
    uint32_t net, tclass, hop, flow, sl;
};

struct script_qp {
    struct qp *qp;
    uint32_t type;
    struct qp_conf conf;
    struct address_vector av;
    struct kit_cq *cq;
    struct qp_shared *shared;
    uint8_t *sq, *rq;
    uint32_t sq_stride, rq_stride, sq_prod, rq_prod;
    uint32_t in_psn; /* of the peer's next request, by default */
};

struct script_srq {
    struct srq *srq;
    struct srq_shared *shared;
    uint8_t *ring;
    uint32_t size, stride, prod;
};

/* A frame that the engine sent. */
struct sent {
    ns_t at;
    uint32_t len;
    uint8_t *data;
    struct encap_view view;
    struct pkt pkt;
};

struct noted {
    enum qp_event event;
    void *who; /* script_qp, script_srq or kit_cq */
};

struct script {
    /* the line being run */
    const char *file;
    unsigned line;
    char buffer[1024];
    char *word[MAX_WORDS];
    unsigned words, at;
    jmp_buf failed;
    char message[2048];
    bool trace;

    /* the world of this case */
    enum kit_mr_kind memory;
    struct kit *kit;
    struct kit_node *node, *peer;
    struct engine *engine;
    struct qp_table *qps;
    struct srq_table *srqs;
    struct ah_table *ahs;
    struct object object[MAX_OBJECTS];
    unsigned objects;
    ns_t start, now;
    uint64_t next_wr, next_recv;

    bool held;       /* the host does not call engine_tx */
    bool collecting; /* between `burst` and `end` */
    struct frame burst[FRAME_BURST];
    unsigned bursts;

    struct sent sent[MAX_FRAMES];
    unsigned sents, taken;
    struct noted event[MAX_EVENTS];
    unsigned events, events_taken;
};

/* ---- words.c: the words of a line ---- */

/* The case fails at this line; does not return. */
_Noreturn void fail(struct script *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Splits text into s->word; quotes nothing, `#` ends it. */
void split(struct script *s, const char *text);

/* The next word: NULL at the end; or the case fails because `what` is missing. */
const char *next(struct script *s);
const char *need(struct script *s, const char *what);
/* Consumes the next word if it is this one. */
bool accept(struct script *s, const char *word);

/* A number, a sum, or an object's: va:buf+8 key:buf qpn:qp srqn:s ah:a, ip addresses aside. */
uint64_t number(struct script *s, const char *text);
uint64_t need_number(struct script *s, const char *what);
/* 10us, 1.5ms */
ns_t need_time(struct script *s);
/* NAME+OFF:LEN of a memory region; *off, *len. */
struct kit_mr *need_range(struct script *s, uint32_t *off, uint32_t *len);

struct name {
    const char *name;
    uint32_t value;
};
/* The value of a name; the case fails when there is none. Tables end with {0}. */
uint32_t named(struct script *s, const struct name *table, const char *text, const char *what);
const char *name_of(const struct name *table, uint32_t value);
extern const struct name state_names[], event_names[], status_names[], wc_names[], errno_names[],
    net_names[], type_names[];
/* write,read,atomic,local,bind,flush,zero or none */
uint32_t need_access(struct script *s);

/* Test data: byte i of the stream `seed`. */
static inline uint8_t data_byte(uint32_t seed, uint32_t i)
{
    return (uint8_t)(seed * 37 + i * 11 + (i >> 8) * 5 + 1);
}
/* SEED[+OFF] */
void need_data(struct script *s, uint32_t *seed, uint32_t *off);

/* A field of a structure that a word sets or checks. */
struct field {
    const char *name;
    uint16_t offset;
    uint8_t size; /* 1, 2, 4, 8 */
};
const struct field *find_field(const struct field *table, const char *name);
void field_set(const struct field *f, void *base, uint64_t value);
uint64_t field_get(const struct field *f, const void *base);

/* ---- world.c: the engine, its objects, the clock ---- */

void world_open(struct script *s);
/* Another engine, before there are objects on it. */
void world_engine(struct script *s, const struct engine_config *settings);
void world_close(struct script *s);
/* The object; the case fails when there is none. name NULL: the first of its kind. */
void *object(struct script *s, enum object_kind kind, const char *name);
const char *object_name(struct script *s, const void *p);
void object_add(struct script *s, enum object_kind kind, const char *name, void *p);
/* Destroys it. */
void object_close(struct script *s, void *p);
/* Fails the case if a frame was sent that no line expects. */
void expect_no_frame(struct script *s);
/* Fetches all packets from the engine, unless held. */
void pump(struct script *s, unsigned max);
/* Advances the clock and runs timers; on request stops at the first frame sent. */
void advance(struct script *s, ns_t to, bool to_frame);

/* ---- statements; each takes the rest of the line ---- */

void st_qp(struct script *s); /* objects.c */
void st_mr(struct script *s);
void st_mw(struct script *s);
void st_cq(struct script *s);
void st_srq(struct script *s);
void st_ah(struct script *s);
void st_modify(struct script *s); /* modify.c */
void to_state(struct script *s, struct script_qp *qp, uint32_t state);
void st_in(struct script *s);   /* frame_in.c */
void st_out(struct script *s);  /* frame_out.c */
void st_post(struct script *s); /* work.c */
void st_recv(struct script *s);
void st_completion(struct script *s);
void st_mem(struct script *s); /* check.c */
void st_fill(struct script *s);
void st_counter(struct script *s);
void st_drop(struct script *s);
void st_total(struct script *s);
void st_state(struct script *s);
void st_event(struct script *s);
void st_query(struct script *s);
void check_end(struct script *s);
/* statements.c: runs the line in s->word. */
void statement(struct script *s);

/* fields of a packet that `in` sets and `out` checks (packet.c) */
extern const struct field packet_fields[], packet_flags[];
/* va and rkey, in the header that has them; NULL: another name. */
const struct field *packet_remote(const struct pkt *p, const char *name);
uint8_t need_opcode(struct script *s);
/* credit, rnr, nak or syndrome; false: none of these */
bool packet_syndrome(struct script *s, const char *name, uint8_t *syndrome);
struct kept_map need_map(struct script *s, psn_t first);

#endif
