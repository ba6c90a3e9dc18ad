/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults: each test provokes one, on queue pairs of its own, with the first of two work requests.
 * The observations of both sides become one line, which is the same at both ends and in every run.
 * To compare two implementations, compare their lines.
 *
 * The responder has posted two receives, unless the fault is that it has none. Once the requester
 * has its completions, the responder moves its queue pair to the error state, which completes all
 * remaining receives. So neither side waits for a completion that may not come.
 */
#include "verify.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define ROOM        (64u << 10)
#define LENGTH      256u
#define OFFSET      4096u
#define REQUESTS    2
#define STATE_MS    2000  /* for a queue pair to reach its expected state */
#define RNR_MS      30    /* long enough for RNR NAKs, which neither program sees */
#define KEY_BITS    0x5au /* what distinguishes a wrong key from a right one */
#define QUICK_TIMER 14    /* 67 ms */

/* The observations of one side. */
struct seen {
    uint8_t count, state; /* 0xff: destroyed */
    uint8_t changed;      /* the responder's memory */
    uint8_t status[REQUESTS];
};

static bool is_atomic(enum ibv_wr_opcode op)
{
    return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_send(enum ibv_wr_opcode op)
{
    return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_INV;
}

static unsigned receives(const struct test *t)
{
    return t->wrong == NO_RECEIVE || t->wrong == PEER_GONE ? 0 : REQUESTS;
}

/* ---- the faults ---- */

static enum outcome stale_key(struct session *s, struct endpoint *ep, uint32_t *key)
{
    struct ibv_mr *mr =
        ibv_reg_mr(ep->pd, ep->remote.bytes, ROOM, IBV_ACCESS_LOCAL_WRITE | REMOTE_RIGHTS);

    if (!mr)
        return fail(s, "ibv_reg_mr: %s", strerror(errno));
    *key = mr->rkey;
    ibv_dereg_mr(mr);
    return PASSED;
}

/* A window on the first half of the request's range, or one that was invalidated. */
static enum outcome window_key(struct session *s, const struct test *t, struct endpoint *ep,
                               struct window *w, struct target *where)
{
    uint32_t length = t->wrong == BEYOND_WINDOW ? LENGTH / 2 : LENGTH;

    TRY(window_bind(s, ep, w, IBV_MW_TYPE_2, where->addr, length));
    where->rkey = w->mw->rkey;
    return t->wrong == INVALIDATED_WINDOW ? window_unbind(s, ep, w) : PASSED;
}

static enum outcome other_key(struct session *s, struct endpoint *ep, uint32_t *key)
{
    TRY(endpoint_other_pd(s, ep));
    *key = ep->other_mr->rkey;
    return PASSED;
}

static enum outcome aim(struct session *s, const struct test *t, struct endpoint *ep,
                        struct window *w, struct target *where)
{
    *where = (struct target){(uintptr_t)ep->remote.bytes + OFFSET, ep->remote.mr->rkey};
    switch (t->wrong) {
    case BAD_RKEY:
    case ZERO_RKEY:
    case BAD_INVALIDATE:
        where->rkey ^= KEY_BITS;
        return PASSED;
    case STALE_RKEY:
        return stale_key(s, ep, &where->rkey);
    case OUT_OF_BOUNDS: /* by half; an atomic wholly, as it must be aligned */
        where->addr = (uintptr_t)ep->remote.bytes + ROOM - (is_atomic(t->op) ? 0 : LENGTH / 2);
        return PASSED;
    case MISALIGNED:
        where->addr += 4;
        return PASSED;
    case OTHER_PD:
        return other_key(s, ep, &where->rkey);
    case INVALIDATED_WINDOW:
    case BEYOND_WINDOW:
        return window_key(s, t, ep, w, where);
    default:
        return PASSED;
    }
}

/* ---- the responder ---- */

static enum outcome post_receives(struct session *s, const struct test *t, struct endpoint *ep)
{
    for (unsigned i = 0; i < receives(t); i++) {
        struct ibv_sge sge = {.addr = (uintptr_t)ep->remote.bytes + i * LENGTH,
                              .length = t->wrong == TOO_LONG ? LENGTH / 2 : LENGTH,
                              .lkey = ep->remote.mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

        if (t->wrong == BAD_RECV_LKEY)
            sge.lkey ^= KEY_BITS;
        TRY(post_recv(s, ep, &wr));
    }
    return PASSED;
}

static enum outcome to_error(struct session *s, struct endpoint *ep)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    int err = ibv_modify_qp(ep->qp, &attr, IBV_QP_STATE);

    return err ? fail(s, "queue pair to ERR: %s", strerror(err)) : PASSED;
}

static int query_state(struct endpoint *ep)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    return ibv_query_qp(ep->qp, &attr, IBV_QP_STATE, &init) ? -1 : (int)attr.qp_state;
}

/* There may be no event for it, so the state is queried until it is the expected one. */
static int settled_state(struct endpoint *ep, int due)
{
    int state = -1;

    if (!ep->qp)
        return -1;
    for (int ms = 0; ms < STATE_MS; ms += 5) {
        state = query_state(ep);
        if (state == due)
            break;
        poll(NULL, 0, 5);
    }
    return state;
}

static enum outcome await_statuses(struct session *s, struct endpoint *ep, int side, unsigned count,
                                   struct seen *seen)
{
    for (; seen->count < count; seen->count++) {
        struct ibv_wc wc;

        TRY(await_any(s, ep, side, &wc));
        if (wc.wr_id != seen->count)
            return fail(s, "completions are out of order");
        seen->status[seen->count] = wc.status;
    }
    return PASSED;
}

static enum outcome get_ready(struct session *s, const struct test *t, struct endpoint *ep,
                              struct window *w)
{
    struct target where;

    TRY(aim(s, t, ep, w, &where));
    if (t->wrong != LATE_RECEIVE)
        TRY(post_receives(s, t, ep));
    if (t->wrong == PEER_IN_ERROR)
        TRY(to_error(s, ep));
    if (t->wrong == PEER_GONE) {
        ibv_destroy_qp(ep->qp);
        ep->qp = ep->recv_qp = NULL;
    }
    return tell_target(s, &where);
}

static enum outcome respond(struct session *s, const struct test *t, struct endpoint *ep,
                            struct window *w, struct seen *seen)
{
    const struct layout nothing = {.extent = ROOM};

    region_guard(&ep->remote, &nothing, s->seed);
    TRY(get_ready(s, t, ep, w));
    TRY(peer_hear(s, NULL, 0)); /* the requests are posted */
    if (t->wrong == LATE_RECEIVE) {
        poll(NULL, 0, RNR_MS);
        TRY(post_receives(s, t, ep));
    }
    TRY(peer_hear(s, NULL, 0)); /* and completed */
    seen->state = settled_state(ep, t->due.recv_state);
    if (ep->qp)
        TRY(to_error(s, ep));
    TRY(await_statuses(s, ep, RECV_SIDE, receives(t), seen));
    if (!is_send(t->op))
        seen->changed = region_check(s, "the responder's memory", &ep->remote, &nothing, 0, 0,
                                     s->seed, 0) != PASSED;
    return PASSED;
}

/* ---- the requester ---- */

static enum outcome request(struct session *s, const struct test *t, struct endpoint *ep,
                            struct seen *seen)
{
    struct ibv_sge sge = {.addr = (uintptr_t)ep->local.bytes,
                          .length = is_atomic(t->op) ? 8 : LENGTH,
                          .lkey = ep->local.mr->lkey};
    struct ibv_send_wr wr[REQUESTS] = {
        {.next = &wr[1],
         .sg_list = &sge,
         .num_sge = t->wrong == ZERO_RKEY ? 0 : 1,
         .opcode = t->op,
         .send_flags = IBV_SEND_SIGNALED},
        {.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}};
    struct target where;
    enum outcome result;

    TRY(hear_target(s, &where));
    if (is_atomic(t->op)) {
        wr[0].wr.atomic.remote_addr = where.addr;
        wr[0].wr.atomic.rkey = where.rkey;
    } else if (!is_send(t->op)) {
        wr[0].wr.rdma.remote_addr = where.addr;
        wr[0].wr.rdma.rkey = where.rkey;
    }
    if (t->op == IBV_WR_SEND_WITH_INV)
        wr[0].invalidate_rkey = where.rkey;
    if (t->wrong == BAD_SEND_LKEY)
        sge.lkey ^= KEY_BITS;
    result = post_send(s, ep, wr);
    if (result == FAILED && t->wrong == MISALIGNED)
        return skip(s, "the library refuses to send it");
    TRY(result);
    TRY(peer_tell(s, NULL, 0));
    TRY(await_statuses(s, ep, SEND_SIDE, REQUESTS, seen));
    seen->state = settled_state(ep, t->due.send_state);
    return peer_tell(s, NULL, 0);
}

/* ---- the line ---- */

static const char *statuses(const struct seen *seen, char text[100])
{
    size_t at = 0;

    snprintf(text, 100, "none");
    for (unsigned i = 0; i < seen->count && i < REQUESTS; i++)
        at += snprintf(text + at, 100 - at, "%s%s", i ? "," : "", status_name(seen->status[i]));
    return text;
}

static void write_line(struct session *s, const struct test *t, bool client_requests,
                       const struct seen *client, const struct seen *server)
{
    char client_text[100], server_text[100];
    char *line = s->line[!client_requests];

    snprintf(line, sizeof(s->line[0]),
             "fault=%s requester=%s client=%s server=%s client_qp=%s server_qp=%s",
             t->name + strlen("fault_"), client_requests ? "client" : "server",
             statuses(client, client_text), statuses(server, server_text),
             state_name((int8_t)client->state), state_name((int8_t)server->state));
}

static bool is_effect(const struct effect *e, const struct seen *sender,
                      const struct seen *receiver)
{
    bool good = (int8_t)sender->state == e->send_state && (int8_t)receiver->state == e->recv_state;

    for (unsigned i = 0; i < REQUESTS; i++) {
        good = good && sender->status[i] == e->send[i];
        good = good && (i >= receiver->count || receiver->status[i] == e->recv[i]);
    }
    return good;
}

static bool succeeds(const struct effect *e)
{
    return e->send[0] == IBV_WC_SUCCESS;
}

/* As Linux's rxe has it, of one version or another. */
static bool is_rxe_effect(const struct test *t, const struct seen *sender,
                          const struct seen *receiver)
{
    const struct effect *effects[] = {&t->rxe, &t->rxe_later};

    for (unsigned i = 0; i < 2; i++)
        if (is_effect(effects[i], sender, receiver) && (!receiver->changed || succeeds(effects[i])))
            return true;
    return false;
}

static enum outcome judge(struct session *s, const struct test *t, bool requester,
                          const struct seen *sender, const struct seen *receiver)
{
    bool rxe_sends = requester ? s->is_rxe : s->peer_is_rxe;
    bool rxe_receives = requester ? s->peer_is_rxe : s->is_rxe;
    bool is_due = is_effect(&t->due, sender, receiver) && !receiver->changed;
    char send_text[100], recv_text[100];

    if (is_due)
        return PASSED;
    if ((t->rxe_role == REQUESTER ? rxe_sends : t->rxe_role == RESPONDER && rxe_receives) &&
        is_rxe_effect(t, sender, receiver)) {
        snprintf(s->note, sizeof(s->note), "as rxe does, unlike the specification");
        return PASSED;
    }
    return fail(s, "requester %s in %s, responder %s in %s%s", statuses(sender, send_text),
                state_name((int8_t)sender->state), statuses(receiver, recv_text),
                state_name((int8_t)receiver->state),
                receiver->changed ? ", whose memory was changed" : "");
}

/* Requests that get no answer have a short limit, all others a long one. */
static struct endpoint_options options_for(const struct session *s, const struct test *t)
{
    struct endpoint_options opt = {
        .type = t->type, .psn = s->seed & PSN_MASK, .room = ROOM, .qp_access = -1};

    if (t->wrong == NO_MR_RIGHTS)
        opt.mr_access = IBV_ACCESS_LOCAL_WRITE;
    if (t->wrong == NO_QP_RIGHTS)
        opt.qp_access = 0;
    if (t->wrong == PEER_GONE || t->wrong == PEER_IN_ERROR) {
        opt.timeout = QUICK_TIMER;
        opt.retry_cnt = 1;
    } else if (t->wrong == BAD_INVALIDATE) { /* rxe does not answer */
        opt.timeout = QUICK_TIMER + 2;
        opt.retry_cnt = 5;
    } else if (t->wrong == NO_RECEIVE) {
        opt.timeout = PATIENT_TIMER;
        opt.retry_cnt = PATIENT_RETRIES;
        opt.rnr_retry = 1;
    }
    return opt;
}

enum outcome faulty(struct session *s, const struct test *t, bool requester)
{
    bool client = s->opt.host;
    struct endpoint_options opt = options_for(s, t);
    struct seen mine = {0}, theirs = {0};
    struct window window = {0};
    struct endpoint ep;
    enum outcome result;

    TRY(endpoint_open(s, &ep, &opt));
    result = requester ? request(s, t, &ep, &mine) : respond(s, t, &ep, &window, &mine);
    if (result == PASSED)
        result = peer_exchange(s, &mine, &theirs, sizeof(mine));
    window_close(&window);
    endpoint_close(&ep);
    if (result != PASSED)
        return result;
    s->moved++;
    write_line(s, t, client == requester, client ? &mine : &theirs, client ? &theirs : &mine);
    return judge(s, t, requester, requester ? &mine : &theirs, requester ? &theirs : &mine);
}
