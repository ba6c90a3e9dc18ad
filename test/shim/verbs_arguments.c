/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_arguments.h"

#include <stddef.h>
#include <string.h>

#include "unit.h"
#include "verbs_pair.h"

/* ---- structures of older programs ---- */

/* Of programs that are older than rate_limit, with which struct ibv_qp_attr ends. */
void queries_fit_older_programs(void **state)
{
    const size_t older = offsetof(struct ibv_qp_attr, rate_limit);
    union {
        struct ibv_qp_attr attr;
        uint8_t byte[sizeof(struct ibv_qp_attr)];
    } u;
    struct ibv_qp_init_attr init;
    struct pair p;

    pair_open(&p);
    memset(&u, 0xA5, sizeof(u));
    assert_int_equal(ibv_query_qp(p.a.qp, &u.attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
    assert_int_equal(u.attr.qp_state, IBV_QPS_RTS);
    for (size_t i = older; i < sizeof(u); i++)
        assert_int_equal(u.byte[i], 0xA5);
    assert_int_equal(ibv_query_qp(p.a.qp, &u.attr, IBV_QP_RATE_LIMIT, &init), 0);
    assert_int_equal(u.attr.rate_limit, 0);
    pair_close(&p);
}
