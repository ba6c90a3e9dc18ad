/* SPDX-License-Identifier: BSD-3-Clause */
/* The statements: a line's first word. */
#include <stdlib.h>
#include <string.h>

#include "script.h"

/* engine [entropy POLICY] [repath N] [reorder N] [trim DSCP] [ect] [cnp INTERVAL DSCP PCP] [control
 * NAME MBPS]: its configuration; before all queue pairs. */
static void st_engine(struct script *s)
{
    struct engine_config config = {.entropy = {ENTROPY_KERNEL, 0}};

    for (unsigned i = 0; i < s->objects; i++)
        if (s->object[i].kind == OBJ_QP)
            fail(s, "script: there are queue pairs on the engine");
    if (accept(s, "entropy") && entropy_policy_parse(&config.entropy, need(s, "a policy")))
        fail(s, "script: '%s' is no policy", s->word[s->at - 1]);
    if (accept(s, "repath"))
        config.repath = (uint32_t)need_number(s, "a number of timeouts");
    if (accept(s, "reorder"))
        config.reorder = (uint32_t)need_number(s, "a number of queue pairs");
    if (accept(s, "trim"))
        config.trim_dscp = (uint8_t)need_number(s, "a code point");
    config.congestion.ect = accept(s, "ect");
    if (accept(s, "cnp")) {
        config.congestion.cnp_interval = (uint32_t)need_time(s);
        config.congestion.cnp_dscp = (uint8_t)need_number(s, "a code point");
        config.congestion.cnp_pcp = (uint8_t)need_number(s, "a priority");
    }
    if (accept(s, "control")) {
        config.congestion.control = cc_find(need(s, "an algorithm"));
        config.congestion.line = need_number(s, "Mb/s") * UINT64_C(1000000);
        if (!config.congestion.control || !config.congestion.line)
            fail(s, "script: no such controller");
    }
    world_engine(s, &config);
}

/* entropy POLICY|port [on QP]: a queue pair's own, or the port's again. */
static void st_entropy(struct script *s)
{
    const char *text = need(s, "a policy");
    struct script_qp *qp = object(s, OBJ_QP, accept(s, "on") ? need(s, "a queue pair") : NULL);
    bool own = strcmp(text, "port");
    struct entropy_policy policy;

    if (own && entropy_policy_parse(&policy, text))
        fail(s, "script: '%s' is no policy", text);
    if (engine_qp_set_entropy(s->engine, qp->qp, own ? &policy : NULL))
        fail(s, "the policy was refused");
}

/* agree yes|no [on QP]: whether the peer has agreed on maps of kept packets. */
static void st_agree(struct script *s)
{
    bool yes = !strcmp(need(s, "yes or no"), "yes");
    struct script_qp *qp = object(s, OBJ_QP, accept(s, "on") ? need(s, "a queue pair") : NULL);

    engine_qp_agree(s->engine, qp->qp, yes);
}

/* wait T: timers run; the following lines expect the frames that they send. */
static void st_wait(struct script *s)
{
    advance(s, s->now + need_time(s), false);
}

/* hold: the host fetches no packets until `release`. pull N: it fetches N, once. */
static void st_hold(struct script *s)
{
    s->held = true;
}

static void st_release(struct script *s)
{
    s->held = false;
    pump(s, MAX_FRAMES);
}

static void st_pull(struct script *s)
{
    pump(s, (unsigned)need_number(s, "a number of frames"));
}

/* burst: the frames until `end` arrive in one call. */
static void st_burst(struct script *s)
{
    s->collecting = true;
}

static void st_end(struct script *s)
{
    engine_rx(s->engine, s->burst, s->bursts, s->now);
    for (unsigned i = 0; i < s->bursts; i++)
        free(s->burst[i].data);
    s->bursts = 0;
    s->collecting = false;
    if (!s->held)
        pump(s, MAX_FRAMES);
}

/* ring [on QP] */
static void st_ring(struct script *s)
{
    struct script_qp *qp = object(s, OBJ_QP, accept(s, "on") ? need(s, "a queue pair") : NULL);

    engine_doorbell(s->engine, qp->qp, s->now);
    if (!s->held)
        pump(s, MAX_FRAMES);
}

/* wild sq|rq: an invalid producer index. */
static void st_wild(struct script *s)
{
    struct script_qp *qp = object(s, OBJ_QP, NULL);
    bool send = !strcmp(need(s, "sq or rq"), "sq");

    atomic_store(send ? &qp->shared->sq_prod : &qp->shared->rq_prod, 1u << 20);
}

static void st_dereg(struct script *s)
{
    kit_mr_deregister(object(s, OBJ_MR, need(s, "a memory region")));
}

/* fault RANGE ERROR: transfers to the pages fail; only with copied memory. */
static void st_fault(struct script *s)
{
    uint32_t off, len;
    struct kit_mr *mr = need_range(s, &off, &len);

    kit_mr_fault(mr, off, len, -(int)named(s, errno_names, need(s, "an error"), "error"));
}

/* limit SRQ N: arms the limit. */
static void st_limit(struct script *s)
{
    struct script_srq *srq = object(s, OBJ_SRQ, need(s, "a shared queue"));

    if (srq_set_limit(srq->srq, (uint32_t)need_number(s, "a limit")))
        s->event[s->events++] = (struct noted){QP_EVENT_SRQ_LIMIT_REACHED, srq};
}

static void group(struct script *s, bool join)
{
    const char *text = need(s, "a group");
    struct script_qp *qp = object(s, OBJ_QP, accept(s, "on") ? need(s, "a queue pair") : NULL);
    int want = accept(s, "error") ? -(int)named(s, errno_names, need(s, "an error"), "error") : 0;
    union gid gid;
    int rc;

    if (gid_parse(&gid, text))
        fail(s, "script: '%s' is no address", text);
    rc = join ? engine_mcast_join(s->engine, qp->qp, &gid)
              : engine_mcast_leave(s->engine, qp->qp, &gid);
    if (rc != want)
        fail(s, "expected %d, got %d", want, rc);
}

static void st_join(struct script *s)
{
    group(s, true);
}

static void st_leave(struct script *s)
{
    group(s, false);
}

/* arm next|solicited [cq C] */
static void st_arm(struct script *s)
{
    enum cq_arm arm = strcmp(need(s, "next or solicited"), "next") ? CQ_ARM_SOLICITED : CQ_ARM_NEXT;
    struct kit_cq *cq = object(s, OBJ_CQ, accept(s, "cq") ? need(s, "a queue") : NULL);

    kit_arm(cq, arm);
}

/* cq_events N [cq C] */
static void st_cq_events(struct script *s)
{
    unsigned want = (unsigned)need_number(s, "a count");
    struct kit_cq *cq = object(s, OBJ_CQ, accept(s, "cq") ? need(s, "a queue") : NULL);

    if (cq->events != want)
        fail(s, "completion events: expected %u, got %u", want, cq->events);
}

/* nothing: no frame, completion or event is left. */
static void st_nothing(struct script *s)
{
    check_end(s);
}

/* engine_error [on QP]: the device puts the queue pair into the error state. */
static void st_engine_error(struct script *s)
{
    struct script_qp *qp = object(s, OBJ_QP, accept(s, "on") ? need(s, "a queue pair") : NULL);

    engine_qp_error(s->engine, qp->qp, CAUSE_program_memory, s->now);
}

/* destroy QP */
static void st_destroy(struct script *s)
{
    struct script_qp *qp = object(s, OBJ_QP, need(s, "a queue pair"));

    qp_unpublish(qp->qp);
    object_close(s, qp);
}

static const struct verb {
    const char *name;
    void (*run)(struct script *s);
    bool acts; /* all frames sent before must have been expected */
} verbs[] = {
    {"engine", st_engine, true},
    {"qp", st_qp, true},
    {"mr", st_mr},
    {"mw", st_mw},
    {"cq", st_cq},
    {"srq", st_srq},
    {"ah", st_ah},
    {"modify", st_modify, true},
    {"in", st_in, true},
    {"out", st_out},
    {"post", st_post, true},
    {"recv", st_recv, true},
    {"completion", st_completion},
    {"mem", st_mem},
    {"fill", st_fill},
    {"counter", st_counter},
    {"drop", st_drop},
    {"state", st_state},
    {"event", st_event},
    {"query", st_query},
    {"wait", st_wait, true},
    {"hold", st_hold},
    {"release", st_release, true},
    {"pull", st_pull, true},
    {"burst", st_burst, true},
    {"end", st_end, true},
    {"ring", st_ring, true},
    {"wild", st_wild},
    {"dereg", st_dereg},
    {"fault", st_fault},
    {"limit", st_limit},
    {"entropy", st_entropy},
    {"agree", st_agree, true},
    {"join", st_join},
    {"leave", st_leave},
    {"arm", st_arm},
    {"cq_events", st_cq_events},
    {"nothing", st_nothing},
    {"engine_error", st_engine_error, true},
    {"destroy", st_destroy, true},
    {"total", st_total},
};

static const struct verb *find_verb(struct script *s, const char *name)
{
    for (unsigned i = 0; i < ARRAY_SIZE(verbs); i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    fail(s, "script: what is '%s'?", name);
}

static void run(struct script *s, const struct verb *verb)
{
    if (verb->acts)
        expect_no_frame(s);
    verb->run(s);
    if (next(s))
        fail(s, "script: '%s' is too much", s->word[s->at - 1]);
    if (verb->acts && !s->held && !s->collecting)
        pump(s, MAX_FRAMES);
}

/* [at T] [repeat N] STATEMENT: T since the case began */
void statement(struct script *s)
{
    uint64_t times = 1;
    unsigned begin;

    if (accept(s, "at")) {
        ns_t at = s->start + need_time(s);

        expect_no_frame(s);
        if (at < s->now)
            fail(s, "script: that time is over");
        advance(s, at, false);
    }
    if (accept(s, "repeat"))
        times = need_number(s, "a count");
    begin = s->at;
    while (times--) {
        s->at = begin;
        run(s, find_verb(s, need(s, "a statement")));
    }
}
