/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of lib/lab that run it. */
#ifndef UROCE_LAB_INTERNAL_H
#define UROCE_LAB_INTERNAL_H

#include "lab.h"
#include "mr_table.h"
#include "site_inject.h"

/* Engines' clocks begin later than the network's, at a time that is no special value. */
#define LAB_EPOCH NS_PER_SEC
#define LAB_PD    1u
/* Of a host without a link. */
#define LAB_HOST_RATE UINT64_C(100000000000)

struct lab_run;
struct site;

/* One end of a connection. */
struct end {
    struct lab_run *flow;
    struct site *site;
    struct qp *qp;
    struct qp_shared *shared;
    uint8_t *sq, *rq;
    uint32_t sq_size, rq_size, sq_prod, rq_prod;
    struct comp_queue cq;
    struct cq_reader reader;
    bool listed; /* it may have completions */
    struct end *next;
};

/* A flow while it runs. */
struct lab_run {
    struct lab *lab;
    const struct lab_flow *spec;
    struct end *end[2]; /* the requester's, the responder's; NULL: none now */
    struct lab_result result;
    uint64_t posted;  /* bytes */
    uint32_t waiting; /* messages that are posted and not complete */
    bool over;        /* its ends are to be freed */
    struct lab_run *next_over;
};

/* A host. */
struct site {
    struct lab *lab;
    unsigned number; /* in the network */
    const struct lab_node *node;
    struct engine *engine;
    struct encap_port port;
    struct gid_table gids;
    struct site_inject *inject; /* NULL: it has no rules */
    ns_t timer;                 /* the event that is planned; NS_NEVER */
    struct end *ends;           /* with completions */
    bool serving;
};

struct lab {
    const struct lab_spec *spec;
    struct lab_hooks hooks;
    struct fabric *fabric;
    struct site *site;
    uint8_t trim;             /* as switches do, the first one that trims; 0: none */
    struct inject_live *rule; /* the specification's; the counts are of all hosts */
    struct lab_run *run;
    struct lab_run *over; /* flows whose ends are to be freed */
    unsigned left;        /* flows that have not ended */
    ns_t ended;
    struct mr_table mrs;
    struct mem_region source, sink;
    uint8_t *bytes; /* the sources', then the sinks' */
    struct qp_table *qps;
    bool out_of_memory, stuck;
    ns_t turn_at; /* turns of the engines at one instant, to notice one that does not stop */
    unsigned turns;
};

static inline ns_t lab_engine_time(const struct lab *lab)
{
    return LAB_EPOCH + fabric_now(lab->fabric);
}

/* ---- site.c ---- */

/* 0 or -ENOMEM */
int site_init(struct lab *lab, struct site *s, const struct lab_node *node);
void site_fini(struct site *s);
/* After any call into its engine: completions, frames to be sent, the next timer. */
void site_serve(struct site *s);
/* An end has completions. */
void site_list(struct end *e);
void site_deliver(void *ctx, unsigned host, struct fabric_frame *frame);
void site_ready(void *ctx, unsigned host);

/* ---- run.c ---- */

/* The flow's time has come. */
void run_start(void *object, uint64_t value);
/* Reads an end's completions. */
void run_completions(struct end *e);
/* Frees the ends of flows that are over. */
void run_reap(struct lab *lab);
/* Reads the counters of a flow whose ends exist. */
void run_count(const struct lab_run *r, struct lab_result *result);
uint64_t run_arrived(const struct lab_run *r);
void run_free(struct lab_run *r);

/* ---- end.c ---- */

/* In RESET; NULL: out of memory. */
struct end *end_create(struct lab_run *flow, struct site *s, uint32_t sends, uint32_t recvs);
void end_free(struct end *e);
/* Makes a connection of two ends. 0 or a negative errno. */
int end_connect(struct end *e, const struct end *peer);
void end_post_send(struct end *e, enum sqe_op op, uint32_t len);
void end_post_recv(struct end *e, uint32_t len);

#endif
