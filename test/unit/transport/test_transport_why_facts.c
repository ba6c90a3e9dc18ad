/* SPDX-License-Identifier: BSD-3-Clause */
/* What incidents say besides their cause: the key that would have been right, the region's rights
 * and range, what a key is, the condition that failed, the memory that is gone, and packets that
 * the host has dropped as they were sent. */
#include <errno.h>
#include <string.h>

#include "cause.h"
#include "kit.h"
#include "mem_window.h"
#include "mr_about.h"
#include "unit.h"

#define ACCESS (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)
#define BYTES  8192

enum { KEY_REGION_KEY = 4, KEY_REGION_AT, KEY_REGION_LEN, KEY_NONE_OR_RIGHTS, KEY_SPECIAL, KEY_IS };

struct fixture {
    struct kit *k;
    struct kit_qp *a, *b;
    struct kit_mr *from, *to;
    struct incident seen[INCIDENTS];
};

static void begin(struct fixture *f, const struct kit_rc *rc, uint32_t access,
                  enum kit_mr_kind kind)
{
    f->k = kit_create(&(struct kit_config){.seed = 1});
    kit_pair_rc(f->k, &f->a, &f->b, rc);
    f->from = kit_mr_create(&f->k->node[0], BYTES, ACCESS, KIT_MR_DIRECT);
    f->to = kit_mr_create(&f->k->node[1], BYTES, access, kind);
}

/* The one incident of a node. */
static const struct incident *incident(struct fixture *f, unsigned node)
{
    kit_run(f->k, NULL, NULL, NS_PER_SEC);
    assert_int_equal(incident_read(engine_incidents(f->k->node[node].engine), f->seen), 1);
    return f->seen;
}

static void post_write(struct fixture *f, uint32_t rkey, uint64_t at)
{
    struct sge sge = kit_sge(f->from, 0, 64);
    struct kit_send wr = {.wr_id = 1,
                          .op = SQE_WRITE,
                          .flags = SQE_SIGNALED,
                          .rkey = rkey,
                          .remote_addr = at,
                          .sge = &sge,
                          .num_sge = 1};

    assert_int_equal(kit_post_send(f->a, &wr), 0);
}

static void write_to(struct fixture *f, uint32_t rkey, uint64_t at)
{
    post_write(f, rkey, at);
    kit_ring(f->a);
}

/* The region that has the address, if the queue pair's domain has one. */
static void test_right_key(void **state)
{
    struct fixture f;
    const struct incident *i;

    begin(&f, NULL, ACCESS, KIT_MR_DIRECT);
    write_to(&f, f.to->region.key ^ 0x5A00, kit_va(f.to, 128));
    i = incident(&f, 1);
    assert_int_equal(i->cause, CAUSE_remote_key_unknown);
    assert_int_equal(i->detail[KEY_REGION_KEY], f.to->region.key);
    assert_int_equal(i->detail[KEY_REGION_AT], kit_va(f.to, 0));
    assert_int_equal(i->detail[KEY_REGION_LEN], BYTES);
    assert_int_equal(i->detail[KEY_NONE_OR_RIGHTS], 0);
    assert_int_equal(i->detail[KEY_SPECIAL], 0);
    assert_int_equal(i->detail[KEY_IS], MR_KEY_NONE);
    kit_destroy(f.k);

    begin(&f, NULL, ACCESS, KIT_MR_DIRECT);
    write_to(&f, __builtin_bswap32(f.to->region.key), kit_va(f.to, 0) + BYTES + 1);
    i = incident(&f, 1);
    assert_int_equal(i->detail[KEY_REGION_KEY], 0);
    assert_int_equal(i->detail[KEY_NONE_OR_RIGHTS], 1);
    assert_int_equal(i->detail[KEY_SPECIAL], 1);
    kit_destroy(f.k);
}

/* Nothing is said of keys of another domain: its user may be another one. */
static void test_other_domain(void **state)
{
    struct fixture f;
    const struct incident *i;

    begin(&f, NULL, ACCESS, KIT_MR_DIRECT);
    atomic_store(&f.to->region.pd, 0x7777);
    write_to(&f, __builtin_bswap32(f.to->region.key), kit_va(f.to, 0));
    i = incident(&f, 1);
    assert_int_equal(i->cause, CAUSE_remote_key_unknown);
    assert_int_equal(i->detail[KEY_REGION_KEY], 0);
    assert_int_equal(i->detail[KEY_REGION_AT], 0);
    assert_int_equal(i->detail[KEY_SPECIAL], 0);
    kit_destroy(f.k);

    begin(&f, NULL, ACCESS, KIT_MR_DIRECT);
    atomic_store(&f.to->region.pd, 0x7777);
    write_to(&f, f.to->region.key, kit_va(f.to, 0));
    i = incident(&f, 1);
    assert_int_equal(i->cause, CAUSE_remote_key_other_domain);
    assert_int_equal(i->detail[KEY_IS], MR_KEY_NONE);
    assert_int_equal(i->detail[KEY_REGION_KEY], 0);
    assert_int_equal(i->detail[KEY_NONE_OR_RIGHTS], 1);
    kit_destroy(f.k);
}

/* The rights and the range that the region has. */
static void test_rights_and_range(void **state)
{
    struct fixture f;
    const struct incident *i;

    begin(&f, NULL, MEM_LOCAL_WRITE | MEM_REMOTE_READ, KIT_MR_DIRECT);
    write_to(&f, f.to->region.key, kit_va(f.to, 0));
    i = incident(&f, 1);
    assert_int_equal(i->cause, CAUSE_remote_key_no_right);
    assert_int_equal((uint32_t)i->detail[KEY_NONE_OR_RIGHTS], MEM_LOCAL_WRITE | MEM_REMOTE_READ);
    assert_int_equal(i->detail[KEY_IS], MR_KEY_REGION);
    kit_destroy(f.k);

    begin(&f, NULL, ACCESS, KIT_MR_DIRECT);
    write_to(&f, f.to->region.key, kit_va(f.to, BYTES - 24));
    i = incident(&f, 1);
    assert_int_equal(i->cause, CAUSE_remote_key_range);
    assert_int_equal(i->detail[KEY_REGION_AT], kit_va(f.to, 0));
    assert_int_equal(i->detail[KEY_REGION_LEN], BYTES);
    assert_int_equal(i->detail[KEY_SPECIAL], 40);
    kit_destroy(f.k);
}

static struct kit_send bind_of(struct fixture *f, const struct kit_mw *w)
{
    return (struct kit_send){
        .wr_id = 1,
        .op = SQE_BIND_MW,
        .flags = SQE_SIGNALED,
        .rkey = w->region.key,
        .imm = w->region.key,
        .remote_addr = kit_va(f->from, 0),
        .bind = {.region_key = f->from->region.key, .length = 64, .access = MEM_REMOTE_READ}};
}

/* Which condition of a bind failed, and what the region has. */
static void test_bind(void **state)
{
    static const struct {
        uint32_t access, asked, length;
        enum window_fault failed;
    } c[] = {
        {MEM_LOCAL_WRITE, MEM_REMOTE_READ, 64, WINDOW_REGION_BIND},
        {MEM_MW_BIND, MEM_REMOTE_WRITE, 64, WINDOW_REGION_WRITE},
        {MEM_MW_BIND | MEM_LOCAL_WRITE, MEM_REMOTE_READ, BYTES + 1, WINDOW_REGION_RANGE},
        {MEM_MW_BIND | MEM_LOCAL_WRITE, MEM_REMOTE_READ, 0, WINDOW_NO_LENGTH},
        {MEM_MW_BIND | MEM_LOCAL_WRITE, MEM_MW_BIND, 64, WINDOW_RIGHTS},
    };
    struct fixture f;

    for (unsigned k = 0; k < ARRAY_SIZE(c); k++) {
        const struct incident *i;
        struct kit_send wr;

        begin(&f, NULL, ACCESS, KIT_MR_DIRECT);
        f.from = kit_mr_create(&f.k->node[0], BYTES, c[k].access, KIT_MR_DIRECT);
        wr = bind_of(&f, kit_mw_create(&f.k->node[0], MEM_WINDOW_2));
        wr.bind.access = c[k].asked;
        wr.bind.length = c[k].length;
        assert_int_equal(kit_post_send(f.a, &wr), 0);
        kit_ring(f.a);
        i = incident(&f, 0);
        assert_int_equal(i->cause, CAUSE_window_bind);
        assert_int_equal(i->detail[4], c[k].failed);
        assert_int_equal((uint32_t)i->detail[5], c[k].asked);
        assert_int_equal((uint32_t)i->detail[6], c[k].access);
        assert_int_equal(i->detail[8], BYTES);
        kit_destroy(f.k);
    }
}

/* What the key is that is no window's. */
static void test_invalidate(void **state)
{
    struct fixture f;
    const struct incident *i;
    struct kit_send wr = {.wr_id = 1, .op = SQE_LOCAL_INV, .flags = SQE_SIGNALED};

    for (unsigned k = 0; k < 3; k++) {
        static const enum mr_key_is is[] = {MR_KEY_REGION, MR_KEY_UNBOUND, MR_KEY_OLD};
        struct kit_mw *w;

        begin(&f, NULL, ACCESS, KIT_MR_DIRECT);
        w = kit_mw_create(&f.k->node[0], MEM_WINDOW_2);
        wr.imm = k ? w->region.key ^ (k == 2) : f.from->region.key;
        assert_int_equal(kit_post_send(f.a, &wr), 0);
        kit_ring(f.a);
        i = incident(&f, 0);
        assert_int_equal(i->cause, CAUSE_local_invalidate);
        assert_int_equal(i->detail[1], is[k]);
        kit_destroy(f.k);
    }
}

/* Whose memory is gone, and where it was. */
static void test_memory_gone(void **state)
{
    struct fixture f;
    const struct incident *i;

    begin(&f, NULL, ACCESS, KIT_MR_COPY);
    kit_mr_fault(f.to, 64, 64, -ESRCH);
    write_to(&f, f.to->region.key, kit_va(f.to, 64));
    i = incident(&f, 1);
    assert_int_equal(i->cause, CAUSE_local_memory_gone);
    assert_int_equal(i->detail[0], WHY_REMOTE_TARGET);
    assert_int_equal(i->detail[1], kit_va(f.to, 64));
    assert_int_equal(i->detail[2], 64);
    assert_int_equal(i->detail[3], f.to->region.key);
    assert_int_equal(i->detail[4], 1);
    kit_destroy(f.k);

    begin(&f, NULL, ACCESS, KIT_MR_COPY);
    kit_mr_fault(f.to, 0, 64, -EFAULT);
    kit_recv(f.b, 9, f.to, 0, 64);
    kit_do(f.a, SQE_SEND, 1, f.from, 0, 64, NULL, 0);
    i = incident(&f, 1);
    assert_int_equal(i->detail[0], WHY_RECEIVE);
    assert_int_equal(i->detail[1], kit_va(f.to, 0));
    assert_int_equal(i->detail[4], 0);
    kit_destroy(f.k);

    begin(&f, NULL, ACCESS, KIT_MR_COPY);
    kit_mr_fault(f.to, 0, 64, -EFAULT);
    kit_do(f.a, SQE_READ, 1, f.from, 0, 64, f.to, 0);
    i = incident(&f, 1);
    assert_int_equal(i->detail[0], WHY_REMOTE_SOURCE);
    assert_int_equal(i->detail[1], kit_va(f.to, 0));
    kit_destroy(f.k);
}

/* Of a burst whose copies all fail the incident has the first one. */
static void test_all_memory_gone(void **state)
{
    struct fixture f;
    const struct incident *i;

    begin(&f, NULL, ACCESS, KIT_MR_COPY);
    kit_mr_fault(f.to, 0, 4 * 64, -ESRCH);
    for (unsigned k = 0; k < 4; k++)
        post_write(&f, f.to->region.key, kit_va(f.to, k * 64));
    kit_ring(f.a);
    i = incident(&f, 1);
    assert_int_equal(i->cause, CAUSE_local_memory_gone);
    assert_int_equal(i->detail[1], kit_va(f.to, 0));
    assert_int_equal(i->detail[2], 64);
    assert_int_equal(i->detail[4], 1);
    kit_destroy(f.k);
}

/* Packets that the host has dropped as they were sent are why the peer is silent. */
static void test_dropped_as_sent(void **state)
{
    const struct kit_rc rc = {.retry_cnt = 2};
    struct fixture f;
    const struct incident *i;

    begin(&f, &rc, ACCESS, KIT_MR_DIRECT);
    kit_link_lose(&f.k->link[0], UINT64_MAX);
    engine_tx_dropped(f.k->node[0].engine, DROP_fault_rule, f.b->qpn, 0, f.k->now);
    engine_tx_dropped(f.k->node[0].engine, DROP_fault_rule, f.b->qpn + 1, 0, f.k->now);
    write_to(&f, f.to->region.key, kit_va(f.to, 0));
    i = incident(&f, 0);
    assert_int_equal(i->cause, CAUSE_packets_dropped_on_purpose);
    assert_int_equal(i->detail[0], 1);
    assert_int_equal(i->detail[1], f.b->qpn);
    assert_int_equal(i->detail[2], 1);
    kit_destroy(f.k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_key),
        cmocka_unit_test(test_other_domain),
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_rights_and_range),
        cmocka_unit_test(test_invalidate),
        cmocka_unit_test(test_memory_gone),
        cmocka_unit_test(test_all_memory_gone),
        cmocka_unit_test(test_dropped_as_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
