/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_ece.h"

#include <errno.h>

#include "unit.h"
#include "verbs_pair.h"

static struct ibv_qp *create(struct pair *p, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = p->cq, .recv_cq = p->cq, .cap = {1, 1, 1, 1, 0}, .qp_type = type};
    struct ibv_qp *qp = ibv_create_qp(p->pd, &attr);

    assert_non_null(qp);
    return qp;
}

static struct ibv_ece ece_of(struct ibv_qp *qp)
{
    struct ibv_ece ece = {1, 1, 1};

    assert_int_equal(ibv_query_ece(qp, &ece), 0);
    assert_int_equal(ece.comp_mask, 0);
    return ece;
}

static void expect_none(struct ibv_qp *qp)
{
    struct ibv_ece ece = ece_of(qp);

    assert_int_equal(ece.vendor_id, 0);
    assert_int_equal(ece.options, 0);
}

static void refused(struct ibv_qp *qp, struct ibv_ece ece)
{
    errno = 0;
    assert_int_equal(ibv_set_ece(qp, &ece), EINVAL);
    assert_int_equal(errno, EINVAL);
}

void ece_is_agreed_on(void **state)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    struct ibv_device_attr device;
    struct ibv_ece all, other = {.vendor_id = 0x15b3, .options = 3}, none = {0};
    struct ibv_qp *qp, *ud;
    struct pair p;

    pair_open(&p);
    qp = create(&p, IBV_QPT_RC);
    ud = create(&p, IBV_QPT_UD);
    assert_int_equal(ibv_query_device(p.ctx, &device), 0);
    all = ece_of(qp);
    assert_int_equal(all.vendor_id, device.vendor_id);
    assert_int_equal(all.options & 1, 1);
    expect_none(ud); /* connections alone have something to agree on */

    /* A peer that has the same, another vendor's, and one that has nothing. */
    assert_int_equal(ibv_set_ece(qp, &all), 0);
    assert_int_equal(ece_of(qp).options, all.options);
    assert_int_equal(ibv_set_ece(qp, &other), 0);
    expect_none(qp);
    assert_int_equal(ibv_set_ece(qp, &none), 0);
    expect_none(qp);
    /* Features that we do not know are left out; options without our mark are not ours. */
    other = (struct ibv_ece){.vendor_id = all.vendor_id, .options = all.options | 0x8000};
    assert_int_equal(ibv_set_ece(qp, &other), 0);
    assert_int_equal(ece_of(qp).options, all.options);
    other.options &= 0xFFFF;
    assert_int_equal(ibv_set_ece(qp, &other), 0);
    expect_none(qp);
    /* It begins anew. */
    assert_int_equal(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
    assert_int_equal(ece_of(qp).options, all.options);

    refused(qp, (struct ibv_ece){.vendor_id = all.vendor_id, .comp_mask = 1});
    refused(qp, (struct ibv_ece){.vendor_id = 0x1000000});
    refused(p.a.qp, all); /* connected */
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_qp(ud), 0);
    pair_close(&p);
}
