/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw packets in random order: frames arrive, WQEs good and malformed are posted, and states,
 * rules, indirection tables and owners change. Invariants: counters add up, a WQE completes at most
 * once and for its own queue, it holds the frame that its completion names, and without sniffers no
 * frame arrives twice.
 */
#include <stdlib.h>

#include "unit.h"

#include "bytes.h"
#include "random.h"
#include "raw_kit.h"

#define SEEDS  40
#define STEPS  1500
#define QUEUES 6 /* the first WQS of them are WQs */
#define WQS    4
#define IDS    65536

#define NUMBER_OFF 40 /* of a frame's number in it, behind the headers */

struct world {
    struct raw_kit *k;
    struct raw_cq *cq;
    struct raw_queue *q[QUEUES], *rss;
    struct rwq_ind *ind;
    struct random r;
    uint8_t user[RAW_SLOTS]; /* of the slot: index of its queue + 1, or 0 */
    uint16_t got[IDS];       /* by the frame's number */
    uint32_t frames;
    bool sniffers;
    unsigned delivered, failed, flushed, moved;
};

static unsigned below(struct world *w, unsigned n)
{
    return (unsigned)random_below(&w->r, n);
}

/* ---- what happens ---- */

static void frames_arrive(struct world *w)
{
    struct raw_bytes b[8];
    struct frame frame[8];
    unsigned n = 1 + below(w, 8);

    for (unsigned i = 0; i < n; i++) {
        raw_build(&b[i], &(struct raw_spec){.ether_type = (uint16_t)(0x88B5 + below(w, 3)),
                                            .tags = below(w, 2),
                                            .payload = 50 + below(w, 400)});
        put_be32(b[i].data + NUMBER_OFF, w->frames++);
        frame[i] = raw_frame(&b[i]);
    }
    raw_arrive_only(w->k, below(w, 2), frame, n);
}

static void post_entry(struct world *w)
{
    unsigned i = below(w, QUEUES), slot = below(w, RAW_SLOTS), own = 0;
    struct sge sge[RAW_SGE] = {raw_sge(w->k, slot, 0, below(w, 10) ? 1000 : 300)};

    for (unsigned s = 0; s < RAW_SLOTS; s++)
        own += w->user[s] == i + 1;
    if (w->user[slot] || own >= 30)
        return;
    if (!below(w, 200))
        sge[0].lkey ^= 0x10101;
    w->user[slot] = (uint8_t)(i + 1);
    raw_post_sges(w->q[i], slot, sge, below(w, 300) ? 1 : 77);
}

static void forget_entries(struct world *w, unsigned i)
{
    for (unsigned s = 0; s < RAW_SLOTS; s++)
        if (w->user[s] == i + 1)
            w->user[s] = 0;
}

static void read_completions(struct world *w)
{
    struct cqe c;

    while (raw_poll(w->cq, &c)) {
        const uint8_t *bytes = w->k->arena + (size_t)c.wr_id * RAW_SLOT;
        unsigned i;

        assert_true(c.wr_id < RAW_SLOTS && w->user[c.wr_id]);
        i = w->user[c.wr_id] - 1u;
        assert_int_equal(c.qpn, i < WQS ? wq_number(w->q[i]->wq) : qp_number(w->q[i]->qp));
        w->user[c.wr_id] = 0;
        w->failed += c.status == WC_LOC_PROT_ERR || c.status == WC_LOC_QP_OP_ERR;
        w->flushed += c.status == WC_WR_FLUSH_ERR;
        if (c.status != WC_SUCCESS)
            continue;
        assert_true(c.byte_len >= 60 && get_be32(bytes + NUMBER_OFF) < w->frames);
        assert_memory_equal(bytes, w->k->port.mac, 6);
        w->got[get_be32(bytes + NUMBER_OFF)]++;
        w->delivered++;
    }
}

static void change_state(struct world *w)
{
    unsigned i = below(w, QUEUES);
    struct engine *e = w->k->node[w->q[i]->at].engine;

    if (i < WQS) {
        enum wq_state to = below(w, 3) ? WQS_RDY : (enum wq_state)below(w, 3);

        read_completions(w);
        if (wq_current_state(w->q[i]->wq) == WQS_ERR)
            to = WQS_RESET;
        assert_true(!engine_wq_modify(e, w->q[i]->wq, to, ++w->k->now) || to == WQS_ERR);
        if (to == WQS_RESET)
            forget_entries(w, i);
    } else if (qp_current_state(w->q[i]->qp) == QPS_ERR || !below(w, 6)) {
        struct qp_attr a = {.state = QPS_RESET, .port_num = 1};

        read_completions(w);
        assert_int_equal(engine_qp_modify(e, w->q[i]->qp, &a, QPA_STATE, NULL, 5, ++w->k->now), 0);
        forget_entries(w, i);
        a.state = QPS_INIT;
        assert_int_equal(
            engine_qp_modify(e, w->q[i]->qp, &a, QPA_STATE | QPA_PORT, NULL, 5, ++w->k->now), 0);
        a.state = QPS_RTR;
        assert_int_equal(engine_qp_modify(e, w->q[i]->qp, &a, QPA_STATE, NULL, 5, ++w->k->now), 0);
    } else if (!below(w, 4)) {
        engine_qp_error(e, w->q[i]->qp, CAUSE_program_memory, ++w->k->now);
    }
}

static void change_rules(struct world *w)
{
    struct flow_rule rule[5] = {0};
    unsigned n = 1 + below(w, 5);

    for (unsigned i = 0; i < n; i++) {
        rule[i].type = (enum flow_type)below(w, w->sniffers ? 4 : 3);
        rule[i].priority = (uint16_t)below(w, 2);
        rule[i].drop = !below(w, 12);
        rule[i].qp = below(w, 3) ? w->rss->qp : w->q[WQS + below(w, QUEUES - WQS)]->qp;
        if (rule[i].type == FLOW_NORMAL) {
            rule[i].match.mask.ether_type = 0xFFFF;
            rule[i].match.value.ether_type = (uint16_t)(0xB588 + (below(w, 3) << 8));
        }
    }
    raw_rules(w->k, rule, n);
}

static void change_indirection(struct world *w)
{
    uint32_t size = 1u << below(w, 8);
    struct wq *wq[RWQ_IND_MAX];

    for (unsigned i = 0; i < size; i++)
        wq[i] = w->q[below(w, WQS)]->wq;
    rwq_entries_free(rwq_ind_replace(w->ind, rwq_entries_create(wq, size)));
}

static void move_qp(struct world *w)
{
    struct raw_queue *q = w->q[WQS + below(w, QUEUES - WQS)];
    struct engine *to = w->k->node[!q->at].engine;

    engine_qp_release(w->k->node[q->at].engine, q->qp, to);
    if (below(w, 2))
        frames_arrive(w); /* between the two steps */
    engine_qp_adopt(to, q->qp, ++w->k->now);
    q->at = !q->at;
    w->moved++;
}

static void change_weather(struct world *w)
{
    w->k->node[below(w, 2)].refuse = !below(w, 4);
    w->k->host_takes = below(w, 2);
    w->k->fail_from = below(w, RAW_SLOTS);
    w->k->fail_to = below(w, 6) ? 0 : w->k->fail_from + below(w, 20);
}

static void (*const happenings[])(struct world *) = {
    frames_arrive,  frames_arrive, frames_arrive, post_entry,   post_entry,
    post_entry,     post_entry,    post_entry,    change_state, move_qp,
    change_weather, change_rules,  post_entry,    post_entry,   change_indirection,
};

/* ---- a run ---- */

static void world_init(struct world *w, unsigned seed)
{
    struct wq *wq[WQS];
    const struct rx_hash hash = {.function = RSS_XOR, .fields = 0};

    memset(w, 0, sizeof(*w));
    w->r.state = seed;
    w->sniffers = seed % 2;
    w->k = raw_kit_create(seed % 3 == 0);
    w->cq = raw_cq_create(1024);
    for (unsigned i = 0; i < QUEUES; i++)
        w->q[i] = i < WQS ? raw_wq_create(w->k, i % 2, w->cq, NULL)
                          : raw_qp_create(w->k, i % 2, w->cq, NULL);
    for (unsigned i = 0; i < WQS; i++)
        wq[i] = w->q[i]->wq;
    w->ind = rwq_ind_create(rwq_entries_create(wq, WQS));
    w->rss = raw_rss_create(w->k, &hash, w->ind);
}

static void world_fini(struct world *w)
{
    raw_rules(w->k, NULL, 0);
    raw_queue_destroy(w->rss);
    rwq_ind_free(w->ind);
    for (unsigned i = 0; i < QUEUES; i++)
        raw_queue_destroy(w->q[i]);
    raw_cq_destroy(w->cq);
    raw_kit_destroy(w->k);
}

static void anything_may_happen(void **state)
{
    struct world *w = malloc(sizeof(*w));
    unsigned delivered = 0, failed = 0, flushed = 0, moved = 0;

    (void)state;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        world_init(w, seed);
        for (unsigned step = 0; step < STEPS; step++) {
            happenings[below(w, ARRAY_SIZE(happenings))](w);
            if (!below(w, 3) || w->k->node[0].waiting > 100 || w->k->node[1].waiting > 100)
                raw_pass_on(w->k);
            read_completions(w);
            if (!raw_adds_up(w->k))
                fail_msg("seed %u: counters do not add up at step %u", seed, step);
        }
        raw_pass_on(w->k);
        read_completions(w);
        assert_true(raw_adds_up(w->k));
        assert_int_equal(w->k->cq_errors, 0);
        for (unsigned i = 0; i < w->frames && !w->sniffers; i++)
            assert_true(w->got[i] <= 1);
        delivered += w->delivered;
        failed += w->failed;
        flushed += w->flushed;
        moved += w->moved;
        world_fini(w);
    }
    free(w);
    /* Each of these has occurred. */
    assert_true(delivered > 100 * SEEDS && failed > SEEDS && flushed > 10 * SEEDS && moved > SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(anything_may_happen)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
