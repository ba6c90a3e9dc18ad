/* SPDX-License-Identifier: BSD-3-Clause */
#include "rules.h"

static struct kit_qp *make_qp(struct kit_node *n)
{
    struct kit_qp_config config = {.send_cq = kit_cq_create(n, 128),
                                   .recv_cq = kit_cq_create(n, 128)};

    return kit_qp_create(n, &config);
}

struct rules rules_start(const struct kit_rc *rc)
{
    return rules_start_on(kit_create(&(struct kit_config){.seed = 1, .log = true}), rc);
}

struct rules rules_start_on(struct kit *k, const struct kit_rc *rc)
{
    struct kit_rc attributes = rc ? *rc : (struct kit_rc){0};
    struct rules t = {.k = k};

    if (!attributes.psn[0])
        attributes.psn[0] = PSN_A;
    if (!attributes.psn[1])
        attributes.psn[1] = PSN_B;
    t.a = make_qp(&t.k->node[0]);
    t.b = make_qp(&t.k->node[1]);
    t.ma = kit_mr_create(&t.k->node[0], MEM_BYTES, MEM_ALL, KIT_MR_DIRECT);
    t.mb = kit_mr_create(&t.k->node[1], MEM_BYTES, MEM_ALL, KIT_MR_DIRECT);
    t.ab = &t.k->link[0];
    t.ba = &t.k->link[1];
    for (unsigned i = 0; i < MEM_BYTES; i++)
        t.ma->bytes[i] = (uint8_t)(1 + i * 7 + (i >> 8) * 3);
    kit_connect(t.a, t.b, &attributes);
    return t;
}

void rules_finish(struct rules *t)
{
    for (unsigned i = 0; i < 2; i++) {
        struct kit_node *n = &t->k->node[i];

        assert_true(kit_counts_add_up(n));
        assert_true(kit_canaries_intact(n));
    }
    kit_destroy(t->k);
}

struct cqe completes(struct kit_cq *cq, uint64_t wr_id, enum wc_status status)
{
    struct cqe e;

    assert_int_equal(kit_poll(cq, &e, 1), 1);
    assert_int_equal(e.wr_id, wr_id);
    assert_int_equal(e.status, status);
    return e;
}

void completes_nothing(struct kit_cq *cq)
{
    struct cqe e;

    assert_int_equal(kit_poll(cq, &e, 1), 0);
}

void run_for(struct rules *t, ns_t duration)
{
    enum kit_end end = kit_run(t->k, NULL, NULL, duration);

    assert_true(end == KIT_BUDGET || end == KIT_IDLE);
}

static enum kit_verdict always(void *ctx, unsigned index, uint8_t *data, uint32_t *len,
                               const struct kit_seen *seen)
{
    return *(enum kit_verdict *)ctx;
}

void link_does(struct kit_link *l, enum kit_verdict verdict)
{
    static enum kit_verdict verdicts[] = {KIT_PASS, KIT_DROP, KIT_DUPLICATE, KIT_CORRUPT,
                                          KIT_REORDER};

    l->hook = verdict == KIT_PASS ? NULL : always;
    l->hook_ctx = &verdicts[verdict];
}

const struct pkt *nth(const struct kit_link *l, uint8_t opcode, unsigned n)
{
    for (unsigned i = 0; i < l->log_len; i++)
        if (l->log[i].parsed && l->log[i].pkt.opcode == opcode && !n--)
            return &l->log[i].pkt;
    fail_msg("no such frame: %s", opcode_table[opcode].name);
    return NULL;
}
