/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One or two engines of a device, which forward frames to one another as copies; raw queue pairs,
 * work queues and what applications do with them; and frames built byte by byte. A receive's wr_id
 * is the slot of the arena that it writes into, unless a test posts otherwise.
 */
#ifndef UROCE_RAW_KIT_H
#define UROCE_RAW_KIT_H

#include "flow_kit.h"
#include "raw.h"

#define RAW_ENGINES 2
#define RAW_SLOTS   256
#define RAW_SLOT    2048 /* bytes */
#define RAW_PD      7
#define RAW_SGE     2
#define RAW_HANDED  256
#define RAW_QUEUE   64 /* entries of every queue */

struct raw_kit;

struct raw_node {
    struct raw_kit *kit;
    struct engine *engine;
    struct frame handed[RAW_HANDED]; /* waiting for it */
    uint32_t handed_from[RAW_HANDED];
    bool forwarded_copy[RAW_HANDED];
    unsigned waiting, others;
    bool refuse; /* accepts no more frames */
};

struct raw_kit {
    struct raw_node node[RAW_ENGINES];
    struct mr_table mrs;
    struct qp_table *qps;
    struct wq_table *wqs;
    struct srq_table *srqs;
    struct flow_slot slot;
    struct flow_kit flows; /* slot's */
    struct gid_table gids;
    struct encap_port port;
    struct mem_region region, foreign; /* the arena, in RAW_PD and in another domain */
    uint8_t *arena;
    uint32_t fail_from, fail_to; /* slots that cannot be written or read */
    bool host_takes;             /* frames that are not RoCE */
    unsigned cq_errors, fatal, wq_fatal, srq_limit, last_wqe;
    uint64_t wq_cost;  /* that programs were charged for work queues */
    unsigned forwards; /* asked for */
    ns_t now;
};

struct raw_cq {
    struct comp_queue cq;
    struct cq_reader reader;
};

/* A WQ, or a queue pair's receive queue; and the send queue of that. */
struct raw_queue {
    struct raw_kit *kit;
    struct wq *wq;
    struct qp *qp;
    struct srq *srq;
    struct raw_cq *cq;
    struct qp_shared *shared;
    struct srq_shared *srq_shared;
    uint8_t *rq, *sq;
    unsigned at; /* its owner */
};

/* mapped: the arena is reached directly, else by copies that may fail. */
struct raw_kit *raw_kit_create(bool mapped);
void raw_kit_destroy(struct raw_kit *k);
/* Replaces all rules, by at most FLOW_KIT_RULES. */
void raw_rules(struct raw_kit *k, const struct flow_rule *rule, unsigned rules);

struct raw_cq *raw_cq_create(uint32_t size);
void raw_cq_destroy(struct raw_cq *cq);
/* Reads the oldest completion; false: there is none. */
bool raw_poll(struct raw_cq *cq, struct cqe *out);

/* A shared receive queue: only post may be used with it. */
struct raw_queue *raw_srq_create(struct raw_kit *k);
/* In RESET, at engine `at`. srq may be NULL. */
struct raw_queue *raw_wq_create(struct raw_kit *k, unsigned at, struct raw_cq *cq,
                                struct raw_queue *srq);
/* In RTS. */
struct raw_queue *raw_qp_create(struct raw_kit *k, unsigned at, struct raw_cq *cq,
                                struct raw_queue *srq);
/* With receive-side scaling. */
struct raw_queue *raw_rss_create(struct raw_kit *k, const struct rx_hash *hash,
                                 struct rwq_ind *ind);
void raw_queue_destroy(struct raw_queue *q);

/* A receive WQE for slot `slot`, whole or as given. */
void raw_post(struct raw_queue *q, unsigned slot);
/* sge: RAW_SGE of them, if num_sge is as many or more. */
void raw_post_sges(struct raw_queue *q, uint64_t wr_id, const struct sge *sge, uint32_t num_sge);
struct sge raw_sge(const struct raw_kit *k, unsigned slot, uint32_t off, uint32_t len);
/* How many receive WQEs were posted. */
uint32_t raw_posted(const struct raw_queue *q);

/* Frames arrive at an engine in one burst; forwarded frames are delivered until none is left. */
void raw_arrive(struct raw_kit *k, unsigned at, const struct frame *frames, unsigned n);
/* Only the first half: it waits at the other engine. */
void raw_arrive_only(struct raw_kit *k, unsigned at, const struct frame *frames, unsigned n);
void raw_pass_on(struct raw_kit *k);

/* Whether both engines' counters add up. */
bool raw_adds_up(const struct raw_kit *k);
/* A counter summed over both. */
uint64_t raw_drops(const struct raw_kit *k, enum drop reason);
uint64_t raw_delivered(const struct raw_kit *k);

/* ---- frames ---- */

#define RAW_FRAME_MAX  2048
#define RAW_EXTENSIONS 12

/* The parts of a frame; zeroed: 60 bytes of a private type to the port. */
struct raw_spec {
    const uint8_t *dmac, *smac; /* NULL: something */
    unsigned tags;
    uint16_t tag_type, tci, inner_tci; /* tag_type 0: 0x8100 */
    uint16_t ether_type;               /* of what is not IP */
    unsigned version;                  /* 4, 6, or 0: not IP */
    const char *src, *dst;             /* NULL: something */
    uint8_t traffic_class, hop_limit, proto;
    uint32_t flow_label;
    unsigned options;                  /* IPv4: words of them */
    uint16_t fragment;                 /* IPv4: flags and offset */
    uint8_t extension[RAW_EXTENSIONS]; /* IPv6: types of headers */
    unsigned extensions;
    uint16_t v6_fragment; /* of a fragment header among them */
    uint16_t sport, dport;
    unsigned payload;
};

struct raw_bytes {
    uint8_t data[RAW_FRAME_MAX];
    uint32_t len;
};

void raw_build(struct raw_bytes *out, const struct raw_spec *s);
struct frame raw_frame(struct raw_bytes *b);
void raw_address(uint8_t out[16], const char *text);

#endif
