/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits are honest: as many objects as ibv_query_device_ex reports can be created, and one more is
 * refused with ENOMEM; a size that it reports is accepted, and one more is refused with EINVAL. Over
 * a daemon with small quotas (run_limits.py).
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

#define OBJECTS_MAX 1024
#define COUNT(a)    (sizeof(a) / sizeof((a)[0]))

static struct ibv_context *ctx;
static struct ibv_device_attr_ex attr;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *member;
static char memory[4096];
static unsigned number; /* of the object that is being made */

/* ---- counts ---- */

static void *make_pd(void)
{
    return ibv_alloc_pd(ctx);
}

static int end_pd(void *o)
{
    return ibv_dealloc_pd(o);
}

static void *make_mr(void)
{
    return ibv_reg_mr(pd, memory, sizeof(memory), 0);
}

static int end_mr(void *o)
{
    return ibv_dereg_mr(o);
}

static void *make_mw(void)
{
    return ibv_alloc_mw(pd, number % 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
}

static int end_mw(void *o)
{
    return ibv_dealloc_mw(o);
}

static void *make_cq(void)
{
    return ibv_create_cq(ctx, 1, NULL, NULL, 0);
}

static int end_cq(void *o)
{
    return ibv_destroy_cq(o);
}

static void *create_qp(struct ibv_qp_cap cap)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = cap};

    return ibv_create_qp(pd, &init);
}

static void *make_qp_of_one(void)
{
    return create_qp((struct ibv_qp_cap){1, 1, 1, 1, 0});
}

static int end_qp(void *o)
{
    return ibv_destroy_qp(o);
}

static void *create_srq(uint32_t wr, uint32_t sge)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = wr, .max_sge = sge}};

    return ibv_create_srq(pd, &init);
}

static void *make_srq(void)
{
    return create_srq(1, 1);
}

static int end_srq(void *o)
{
    return ibv_destroy_srq(o);
}

static void *make_ah(void)
{
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1};

    assert_int_equal(ibv_query_gid(ctx, 1, 0, &to.grh.dgid), 0);
    return ibv_create_ah(pd, &to);
}

static int end_ah(void *o)
{
    return ibv_destroy_ah(o);
}

static union ibv_gid group(unsigned n)
{
    union ibv_gid gid = {.raw = {0xff, 0x0e, [14] = (uint8_t)(n >> 8), [15] = (uint8_t)n}};

    return gid;
}

/* The group's number and one, as 0 is no object. */
static void *make_membership(void)
{
    union ibv_gid gid = group(number);
    int err = ibv_attach_mcast(member, &gid, 0);

    errno = err;
    return err ? NULL : (void *)(uintptr_t)(number + 1);
}

static int end_membership(void *o)
{
    union ibv_gid gid = group((unsigned)(uintptr_t)o - 1);

    return ibv_detach_mcast(member, &gid, 0);
}

static void *create_wq(uint32_t wr, uint32_t sge)
{
    struct ibv_wq_init_attr init = {
        .wq_type = IBV_WQT_RQ, .max_wr = wr, .max_sge = sge, .pd = pd, .cq = cq};

    return ibv_create_wq(ctx, &init);
}

static void *make_wq(void)
{
    return create_wq(1, 1);
}

static int end_wq(void *o)
{
    return ibv_destroy_wq(o);
}

static struct ibv_wq *table_wq;

static void *create_table(uint32_t log_size)
{
    struct ibv_wq **wq = calloc((size_t)1 << log_size, sizeof(struct ibv_wq *));
    struct ibv_rwq_ind_table_init_attr init = {.log_ind_tbl_size = log_size, .ind_tbl = wq};
    struct ibv_rwq_ind_table *table;

    for (uint32_t i = 0; i < 1u << log_size; i++)
        wq[i] = table_wq;
    table = ibv_create_rwq_ind_table(ctx, &init);
    free(wq);
    return table;
}

static void *make_table(void)
{
    return create_table(0);
}

static int end_table(void *o)
{
    return ibv_destroy_rwq_ind_table(o);
}

/* `there`: objects of the kind that the test has already. */
struct counted {
    const char *name;
    uint32_t limit, there;
    void *(*make)(void);
    int (*end)(void *o);
};

static void check_count(const struct counted *c)
{
    static void *object[OBJECTS_MAX];
    unsigned n = c->limit - c->there;

    assert_in_range(c->limit, 1 + c->there, OBJECTS_MAX);
    for (number = 0; number < n; number++) {
        object[number] = c->make();
        if (!object[number])
            fail_msg("%s: %u of %u: %s", c->name, number, n, strerror(errno));
    }
    errno = 0;
    if (c->make() || errno != ENOMEM)
        fail_msg("%s: one more than %u: %s", c->name, c->limit, strerror(errno));
    for (number = 0; number < n; number++)
        assert_int_equal(c->end(object[number]), 0);
}

static void counts(void **state)
{
    const struct ibv_device_attr *d = &attr.orig_attr;
    const struct counted all[] = {
        {"max_pd", (uint32_t)d->max_pd, 1, make_pd, end_pd},
        {"max_mr", (uint32_t)d->max_mr, 0, make_mr, end_mr},
        {"max_mw", (uint32_t)d->max_mw, 0, make_mw, end_mw},
        {"max_cq", (uint32_t)d->max_cq, 1, make_cq, end_cq},
        {"max_qp", (uint32_t)d->max_qp, 1, make_qp_of_one, end_qp},
        {"max_srq", (uint32_t)d->max_srq, 0, make_srq, end_srq},
        {"max_ah", (uint32_t)d->max_ah, 0, make_ah, end_ah},
        {"max_mcast_grp", (uint32_t)d->max_mcast_grp, 0, make_membership, end_membership},
        {"max_wq_type_rq", attr.max_wq_type_rq, 1, make_wq, end_wq},
        {"max_rwq_indirection_tables", attr.rss_caps.max_rwq_indirection_tables, 0, make_table,
         end_table},
    };

    for (unsigned i = 0; i < COUNT(all); i++)
        check_count(&all[i]);
}

/* Regions take no room from windows, or the other way round. */
static void regions_beside_windows(void **state)
{
    void *mr[OBJECTS_MAX], *mw[OBJECTS_MAX];
    int mrs = attr.orig_attr.max_mr, mws = attr.orig_attr.max_mw;

    assert_in_range(mrs, 1, OBJECTS_MAX);
    assert_in_range(mws, 1, OBJECTS_MAX);
    for (int i = 0; i < mrs; i++)
        assert_non_null(mr[i] = make_mr());
    for (int i = 0; i < mws; i++)
        assert_non_null(mw[i] = make_mw());
    for (int i = 0; i < mrs; i++)
        assert_int_equal(end_mr(mr[i]), 0);
    for (int i = 0; i < mws; i++)
        assert_int_equal(end_mw(mw[i]), 0);
}

/* ---- sizes ---- */

static void *cq_of(uint64_t n)
{
    return ibv_create_cq(ctx, (int)n, NULL, NULL, 0);
}

static void *qp_of_send_wr(uint64_t n)
{
    return create_qp((struct ibv_qp_cap){(uint32_t)n, 1, 1, 1, 0});
}

static void *qp_of_recv_wr(uint64_t n)
{
    return create_qp((struct ibv_qp_cap){1, (uint32_t)n, 1, 1, 0});
}

static void *qp_of_send_sge(uint64_t n)
{
    return create_qp((struct ibv_qp_cap){1, 1, (uint32_t)n, 1, 0});
}

static void *qp_of_recv_sge(uint64_t n)
{
    return create_qp((struct ibv_qp_cap){1, 1, 1, (uint32_t)n, 0});
}

static void *srq_of_wr(uint64_t n)
{
    return create_srq((uint32_t)n, 1);
}

static void *srq_of_sge(uint64_t n)
{
    return create_srq(1, (uint32_t)n);
}

static void *table_of(uint64_t n)
{
    return create_table((uint32_t)__builtin_ctzll(n > attr.rss_caps.max_rwq_indirection_table_size
                                                      ? 2 * (n - 1)
                                                      : n));
}

static void *dm_of(uint64_t n)
{
    return ibv_alloc_dm(ctx, &(struct ibv_alloc_dm_attr){.length = n});
}

static int end_dm(void *o)
{
    return ibv_free_dm(o);
}

static void *mr_of(uint64_t n)
{
    void *at = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct ibv_mr *mr;

    assert_ptr_not_equal(at, MAP_FAILED);
    mr = ibv_reg_mr(pd, at, n, 0);
    munmap(at, n);
    return mr;
}

static void sizes(void **state)
{
    const struct ibv_device_attr *d = &attr.orig_attr;
    const struct {
        const char *name;
        uint64_t limit;
        void *(*make)(uint64_t n);
        int (*end)(void *o);
    } all[] = {
        {"max_cqe", (uint64_t)d->max_cqe, cq_of, end_cq},
        {"max_qp_wr (send)", (uint64_t)d->max_qp_wr, qp_of_send_wr, end_qp},
        {"max_qp_wr (receive)", (uint64_t)d->max_qp_wr, qp_of_recv_wr, end_qp},
        {"max_sge (send)", (uint64_t)d->max_sge, qp_of_send_sge, end_qp},
        {"max_sge (receive)", (uint64_t)d->max_sge, qp_of_recv_sge, end_qp},
        {"max_srq_wr", (uint64_t)d->max_srq_wr, srq_of_wr, end_srq},
        {"max_srq_sge", (uint64_t)d->max_srq_sge, srq_of_sge, end_srq},
        {"max_rwq_indirection_table_size", attr.rss_caps.max_rwq_indirection_table_size, table_of,
         end_table},
        {"max_dm_size", attr.max_dm_size, dm_of, end_dm},
        {"max_mr_size", d->max_mr_size, mr_of, end_mr},
    };

    for (unsigned i = 0; i < COUNT(all); i++) {
        void *object;

        assert_int_not_equal(all[i].limit, 0);
        object = all[i].make(all[i].limit);
        if (!object)
            fail_msg("%s: %llu: %s", all[i].name, (unsigned long long)all[i].limit,
                     strerror(errno));
        assert_int_equal(all[i].end(object), 0);
        errno = 0;
        if (all[i].make(all[i].limit + 1) || errno != EINVAL)
            fail_msg("%s: one more than %llu: %s", all[i].name, (unsigned long long)all[i].limit,
                     strerror(errno));
    }
}

/* READs and atomics of a queue pair; partition keys. */
static void attributes(void **state)
{
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    struct ibv_qp *qp[2] = {make_qp_of_one(), make_qp_of_one()};
    __be16 pkey;

    assert_int_equal(attr.orig_attr.max_qp_rd_atom, attr.orig_attr.max_qp_init_rd_atom);
    assert_int_equal(
        try_connect_qp(qp[0], qp[1]->qp_num, (uint8_t)attr.orig_attr.max_qp_rd_atom), 0);
    assert_int_equal(
        try_connect_qp(qp[1], qp[0]->qp_num, (uint8_t)(attr.orig_attr.max_qp_rd_atom + 1)), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp[1]), 0);
    qp[1] = make_qp_of_one();
    to.pkey_index = attr.orig_attr.max_pkeys;
    assert_int_equal(ibv_modify_qp(qp[1], &to, mask), EINVAL);
    to.pkey_index--;
    assert_int_equal(ibv_modify_qp(qp[1], &to, mask), 0);
    assert_int_equal(ibv_query_pkey(ctx, 1, attr.orig_attr.max_pkeys, &pkey), -1);
    to.port_num = (uint8_t)(attr.orig_attr.phys_port_cnt + 1);
    assert_int_equal(ibv_destroy_qp(qp[1]), 0);
    qp[1] = make_qp_of_one();
    assert_int_equal(ibv_modify_qp(qp[1], &to, mask), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp[0]), 0);
    assert_int_equal(ibv_destroy_qp(qp[1]), 0);
}

static int setup(void **state)
{
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .cap = {1, 1, 1, 1, 0}};

    ctx = open_first();
    if (ibv_query_device_ex(ctx, NULL, &attr))
        return -1;
    pd = ibv_alloc_pd(ctx);
    cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
    init.send_cq = init.recv_cq = cq;
    member = ibv_create_qp(pd, &init);
    table_wq = make_wq();
    return member && table_wq ? 0 : -1;
}

static int teardown(void **state)
{
    return ibv_destroy_wq(table_wq) || ibv_destroy_qp(member) || ibv_destroy_cq(cq) ||
           ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(regions_beside_windows),
        cmocka_unit_test(sizes),
        cmocka_unit_test(attributes),
    };

    return cmocka_run_group_tests_name("limits", tests, setup, teardown);
}
