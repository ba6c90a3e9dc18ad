/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages from one queue pair to another, and the checks of each. */
#include "chaos.h"

#include <stdio.h>
#include <string.h>

/* UC and UD: messages that have not arrived after this time count as lost. */
/* How long a message is waited for: of UC, which may lose some where a queue pair migrates, and of
 * the others, which may only be late, as workers get their processors late. */
#define GIVE_UP_UC (1 * NS_PER_SEC)
#define GIVE_UP    (10 * NS_PER_SEC)

static bool is_rc(const struct flow *f)
{
    return f->kind == FLOW_RC || f->kind == FLOW_RC_SRQ;
}

static bool is_ud(const struct flow *f)
{
    return f->kind == FLOW_UD || f->kind == FLOW_GROUP;
}

static bool takes_receive(enum sqe_op op)
{
    return op == SQE_SEND || op == SQE_SEND_IMM || op == SQE_WRITE_IMM;
}

/* ---- the plan ---- */

static void plan_message(struct flow *f, unsigned n, struct random *r)
{
    static const enum sqe_op op[] = {SQE_SEND, SQE_SEND_IMM, SQE_WRITE,    SQE_WRITE_IMM,
                                     SQE_READ, SQE_CMP_SWP,  SQE_FETCH_ADD};
    struct message *m = &f->message[n];
    uint32_t longest = random_below(r, 8) ? SHORT : UNIT;

    *m = (struct message){
        .op = is_rc(f) ? op[random_below(r, ARRAY_SIZE(op))] : SQE_SEND_IMM,
        .signaled = n % 3 == 2 || n == MESSAGES - 1 || random_below(r, 2),
        .len = random_below(r, random_below(r, 4) ? longest + 1 : 3),
        .offset = random_below(r, SOURCE - UNIT + 1),
    };
    if (is_ud(f)) /* one packet */
        m->len = min_of(m->len, 128u << f->path_mtu);
    if (m->op == SQE_CMP_SWP || m->op == SQE_FETCH_ADD)
        m->len = sizeof(f->word);
}

void flow_plan(struct flow *f, struct random *r)
{
    struct flow_memory *there = f->memory[1];

    for (unsigned i = 0; i < 2; i++)
        require(untouched((const uint8_t *)f->memory[i], 0, sizeof(*f->memory[i])));
    for (unsigned n = 0; n < MESSAGES; n++)
        plan_message(f, n, r);
    flow_fill(f, MESSAGES, there->source, SOURCE);
    there->word = f->word = 0;
}

/* ---- posting ---- */

static void give_inbox(struct flow *f)
{
    uint8_t *unit = f->memory[1]->inbox[f->qp[1].recvs % WINDOW];

    memset(unit, NOT_WRITTEN, UNIT + GRH);
    post_recv(&f->qp[1], va(f->end[1], unit), UNIT + GRH, f->end[1]->mr.key);
}

/* The window is bound before anything is sent. */
static void bind_window(struct flow *f)
{
    struct sqe wr = {.opcode = SQE_BIND_MW,
                     .flags = SQE_SIGNALED,
                     .remote_addr = va(f->end[1], f->memory[1]->target),
                     .rkey = f->window_key,
                     .imm = f->window_key + 1,
                     .bind = {.length = sizeof(f->memory[1]->target),
                              .region_key = f->target.key,
                              .access = MEM_REMOTE_WRITE}};

    f->window_key++;
    post_wr(&f->qp[1], wr, (struct sge){0});
    ring_bell(&f->qp[1]);
}

static void give_inboxes(struct flow *f)
{
    for (unsigned i = 0; i < WINDOW && f->kind != FLOW_RC_SRQ; i++)
        give_inbox(f);
}

/* An RC sender may get RNR NAKs: receive WQEs are posted later. */
void flow_begin(struct flow *f)
{
    f->bound = !f->window;
    f->waits_since = worker_time();
    f->late = f->kind == FLOW_RC ? random_below(&f->app->random, 20) : 0;
    if (!f->late)
        give_inboxes(f);
    if (f->window)
        bind_window(f);
}

static void aim(struct flow *f, struct sqe *wr, struct message *m)
{
    bool writes = m->op == SQE_WRITE || m->op == SQE_WRITE_IMM;
    struct flow_memory *there = f->memory[1];
    const void *to = writes              ? (const void *)there->target[f->posted % WINDOW]
                     : m->op == SQE_READ ? (const void *)(there->source + m->offset)
                                         : (const void *)&there->word;

    wr->remote_addr = va(f->end[1], to);
    wr->rkey = writes && f->window ? f->window_key : f->target.key;
    m->before = f->word;
    if (m->op == SQE_FETCH_ADD) {
        wr->atomic.compare_add = m->offset + 1;
        f->word += m->offset + 1;
    } else if (m->op == SQE_CMP_SWP) { /* every other one finds another value */
        wr->atomic.compare_add = f->word + m->offset % 2;
        wr->atomic.swap = m->offset;
        if (m->offset % 2 == 0)
            f->word = m->offset;
    }
    if (writes)
        memset(there->target[f->posted % WINDOW], NOT_WRITTEN, UNIT);
}

static void post_next(struct flow *f)
{
    struct message *m = &f->message[f->posted];
    uint8_t *local = f->memory[0]->local[f->posted % WINDOW];
    struct sqe wr = {
        .opcode = (uint8_t)m->op, .flags = m->signaled ? SQE_SIGNALED : 0, .imm = f->posted};
    struct sge sge = {.addr = va(f->end[0], local), .length = m->len, .lkey = f->end[0]->mr.key};

    memset(local, NOT_WRITTEN, UNIT);
    if (m->op == SQE_SEND || m->op == SQE_SEND_IMM || m->op == SQE_WRITE || m->op == SQE_WRITE_IMM)
        flow_fill(f, f->posted, local, m->len);
    if (is_ud(f)) {
        wr.ud.ah = f->ah.number;
        wr.ud.remote_qpn = f->kind == FLOW_GROUP ? 0xFFFFFF : f->qp[1].layout.qpn;
        wr.ud.remote_qkey = QKEY;
    } else if (m->op != SQE_SEND && m->op != SQE_SEND_IMM) {
        aim(f, &wr, m);
    }
    m->state = SENT;
    post_wr(&f->qp[0], wr, sge);
    f->posted++;
}

/* The memory of the message one window earlier has been checked. */
static bool is_free(const struct flow *f)
{
    const struct message *m;

    if (f->posted < WINDOW)
        return true;
    m = &f->message[f->posted - WINDOW];
    return m->state == ARRIVED || !takes_receive(m->op);
}

static bool has_room(const struct flow *f)
{
    if (!f->bound || f->posted == MESSAGES || f->posted == f->done + WINDOW)
        return false;
    return is_rc(f) ? is_free(f) : f->posted < f->finished + WINDOW;
}

static void give_up(struct flow *f)
{
    for (unsigned n = 0; n < f->posted; n++) {
        if (f->message[n].state == SENT) {
            f->message[n].state = GIVEN_UP;
            f->finished++;
            atomic_fetch_add(&tally.lost[f->kind], 1);
        }
    }
}

/* Sometimes at the worker that had the queue pair, or will have it. */
static void ring(struct flow *f)
{
    if (random_below(&f->app->random, 8))
        ring_bell(&f->qp[0]);
    else
        ring_bell_on(&f->qp[0], random_below(&f->app->random, WORKERS));
}

bool flow_post(struct flow *f)
{
    unsigned before = f->posted;
    bool waits = f->late;

    if (f->late && !--f->late)
        give_inboxes(f);
    if (!is_rc(f) && f->finished < f->posted &&
        worker_time() - f->waits_since > (f->kind == FLOW_UC ? GIVE_UP_UC : GIVE_UP))
        give_up(f);
    while (has_room(f))
        post_next(f);
    if (f->posted == before)
        return waits;
    f->waits_since = worker_time();
    ring(f);
    return true;
}

/* ---- completions of requests ---- */

/* Message n has completed; the receiver checks the content of SENDs. */
static void check_done(const struct flow *f, unsigned n)
{
    const struct message *m = &f->message[n];
    const uint8_t *local = f->memory[0]->local[n % WINDOW];

    if (m->op == SQE_WRITE)
        require(flow_holds(f, n, f->memory[1]->target[n % WINDOW]));
    else if (m->op == SQE_READ)
        require(!memcmp(local, f->memory[1]->source + m->offset, m->len));
    else if (m->op == SQE_CMP_SWP || m->op == SQE_FETCH_ADD)
        require(!memcmp(local, &m->before, sizeof(m->before)));
    else
        return;
    require(m->op == SQE_WRITE || untouched(local, m->len, UNIT));
}

static void on_success(struct flow *f, const struct cqe *e)
{
    static const uint8_t opcode[] = {[SQE_SEND] = WC_SEND,          [SQE_SEND_IMM] = WC_SEND,
                                     [SQE_WRITE] = WC_RDMA_WRITE,   [SQE_WRITE_IMM] = WC_RDMA_WRITE,
                                     [SQE_READ] = WC_RDMA_READ,     [SQE_CMP_SWP] = WC_COMP_SWAP,
                                     [SQE_FETCH_ADD] = WC_FETCH_ADD};
    unsigned n = f->done;

    require(!f->failed);
    while (n < f->posted && !f->message[n].signaled)
        n++;
    require(n < f->posted && e->wr_id == n && e->wqe == n);
    require(e->opcode == opcode[f->message[n].op]);
    for (; f->done <= n; f->done++)
        if (!f->ending)
            check_done(f, f->done);
}

static bool may_fail_so(const struct flow *f, unsigned status)
{
    if (status == WC_WR_FLUSH_ERR)
        return true;
    if (is_ud(f)) /* its address handle is gone */
        return status == WC_LOC_QP_OP_ERR;
    /* The memory of an ending program becomes inaccessible first. */
    return status == WC_RETRY_EXC_ERR || status == WC_REM_ACCESS_ERR || status == WC_REM_OP_ERR;
}

static void tell(const struct flow *f, const struct cqe *e)
{
    fprintf(stderr, "flow %u of kind %u: status %u of message %u, %u posted, %u done%s\n",
            f->number, f->kind, e->status, (unsigned)e->wr_id, f->posted, f->done,
            f->ending ? ", ending" : "");
}

/* One fails, and all behind it are flushed; only when an object was taken away. */
static void on_failure(struct flow *f, const struct cqe *e)
{
    if (!f->ending || !may_fail_so(f, e->status))
        tell(f, e);
    require(f->ending && may_fail_so(f, e->status));
    require(e->wr_id >= f->done && e->wr_id < f->posted);
    if (f->failed)
        require(e->wr_id == f->done && e->status == WC_WR_FLUSH_ERR);
    for (; f->done < e->wr_id; f->done++)
        require(!f->message[f->done].signaled);
    f->done++;
    f->failed = true;
}

/* ---- completions of receives ---- */

static void check_arrived(struct flow *f, unsigned n, const struct cqe *e, const uint8_t *unit)
{
    const struct message *m = &f->message[n];

    if (e->byte_len != m->len + (is_ud(f) ? GRH : 0))
        fprintf(stderr,
                "flow %u of kind %u: message %u op %u has %u bytes, %u should be, mtu %u, opcode "
                "%u imm %u posted %u\n",
                f->number, f->kind, n, m->op, e->byte_len, m->len, 128 << f->path_mtu, e->opcode,
                e->imm, f->posted);
    require(e->byte_len == m->len + (is_ud(f) ? GRH : 0));
    if (m->op == SQE_WRITE_IMM) {
        require(e->opcode == WC_RECV_RDMA_WITH_IMM && untouched(unit, 0, UNIT));
        require(f->ending || flow_holds(f, n, f->memory[1]->target[n % WINDOW]));
        return;
    }
    require(e->opcode == WC_RECV);
    require(flow_holds(f, n, unit + (is_ud(f) ? GRH : 0)));
}

/* In the order of posting, each once. */
static void on_arrival_rc(struct flow *f, const struct cqe *e, const uint8_t *unit)
{
    unsigned n = f->next;

    while (n < f->posted && !takes_receive(f->message[n].op))
        n++;
    require(n < f->posted);
    require(f->message[n].op == SQE_SEND || e->imm == n);
    check_arrived(f, n, e, unit);
    f->message[n].state = ARRIVED;
    f->next = n + 1;
}

/* Each at most once. UC messages are out of order only when a queue pair migrated: frames forwarded
 * by its old worker are overtaken by those that arrive at the new one. */
static void on_arrival(struct flow *f, const struct cqe *e, const uint8_t *unit)
{
    struct message *m = &f->message[e->imm];

    require(e->imm < f->posted && (m->state == SENT || m->state == GIVEN_UP));
    check_arrived(f, e->imm, e, unit);
    if (e->imm < f->next)
        atomic_fetch_add(&tally.overtaken[f->kind], 1);
    f->next = max_of(f->next, e->imm + 1);
    if (m->state == SENT)
        f->finished++;
    else
        atomic_fetch_sub(&tally.lost[f->kind], 1);
    m->state = ARRIVED;
    f->waits_since = worker_time();
}

static void on_received(struct flow *f, const struct cqe *e)
{
    bool shared = f->kind == FLOW_RC_SRQ;
    struct program *p = f->end[1];
    const uint8_t *unit;

    if (shared)
        require(e->wr_id < POOL);
    else
        require(e->wr_id == f->taken);
    unit = shared ? p->memory->pool[e->wr_id] : f->memory[1]->inbox[f->taken % WINDOW];
    f->taken++;
    if (e->status != WC_SUCCESS)
        require(f->ending && (e->status == WC_WR_FLUSH_ERR || e->status == WC_LOC_ACCESS_ERR));
    else if (is_rc(f))
        on_arrival_rc(f, e, unit);
    else
        on_arrival(f, e, unit);
    if (shared)
        p->spare[p->spares++] = (unsigned)e->wr_id;
    else if (!f->ending)
        give_inbox(f);
}

void flow_completion(struct flow *f, unsigned end, const struct cqe *e)
{
    if (end && e->opcode >= WC_RECV) {
        on_received(f, e);
    } else if (end) {
        require(e->status == WC_SUCCESS ? e->opcode == WC_BIND_MW : f->ending);
        f->bound = !f->ending;
    } else if (e->status == WC_SUCCESS) {
        on_success(f, e);
    } else {
        on_failure(f, e);
    }
}

/* ---- the end ---- */

bool flow_is_done(const struct flow *f)
{
    unsigned n = f->next;

    if (f->done < MESSAGES)
        return false;
    if (!is_rc(f))
        return f->finished == MESSAGES;
    while (n < MESSAGES && !takes_receive(f->message[n].op))
        n++;
    return n == MESSAGES;
}

void flow_check_end(const struct flow *f, unsigned end)
{
    if (end) {
        require(f->kind == FLOW_RC_SRQ || f->taken == f->qp[1].recvs);
        return;
    }
    for (unsigned n = f->done; n < f->posted; n++)
        require(!f->failed && !f->message[n].signaled);
}
