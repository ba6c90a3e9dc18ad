/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion counters, since rdma-core 65: counts of completed requests or bytes of queue pairs, by
 * operation. Workers count in memory that is mapped here, so that reading takes no system call.
 * What the program sets or adds itself stays here: the daemon reads nothing of it.
 */
#include <string.h>

#include "client_counter.h"
#include "later.h"

/* enum ibv_comp_cntr_type, enum ibv_qp_attach_comp_cntr_op: the protocol has the same numbers. */
#define LATER_CNTR_TYPE_MAX CTL_COUNTER_BYTES

struct later_comp_cntr {
    struct ibv_context *context;
    uint32_t handle;
};

struct later_comp_cntr_init_attr {
    uint32_t comp_mask;
    uint32_t type;
    uint32_t flags;
};

struct later_comp_cntr_caps {
    uint64_t max_value;
    uint32_t max_counters;
    uint32_t supported_qp_attach_ops;
};

struct later_qp_attach_comp_cntr_attr {
    uint32_t comp_mask;
    uint32_t op_mask;
};

struct shim_comp_cntr {
    struct later_comp_cntr base;
    struct client_counter counter;
};

static struct shim_comp_cntr *to_cntr(struct later_comp_cntr *cntr)
{
    return (struct shim_comp_cntr *)cntr;
}

static struct counter_reader *reader_of(struct later_comp_cntr *cntr)
{
    return &to_cntr(cntr)->counter.reader;
}

/* ---- what there is ---- */

EXPORT int later__ibv_query_comp_cntr_caps(struct ibv_context *context,
                                           struct later_comp_cntr_caps *caps, size_t size);
LATER(_ibv_query_comp_cntr_caps, "1.18");
EXPORT int later__ibv_query_comp_cntr_caps(struct ibv_context *context,
                                           struct later_comp_cntr_caps *caps, size_t size)
{
    if (size < sizeof(*caps))
        return failed(EINVAL);
    if (!to_context(context)->info.max_counter)
        return failed(EOPNOTSUPP);
    memset(caps, 0, size);
    *caps = (struct later_comp_cntr_caps){
        .max_value = UINT64_MAX,
        .max_counters = to_context(context)->info.max_counter,
        .supported_qp_attach_ops = QP_COUNT_ALL,
    };
    return 0;
}

/* ---- creation, queue pairs, destruction ---- */

EXPORT struct later_comp_cntr *later_ibv_create_comp_cntr(struct ibv_context *context,
                                                          struct later_comp_cntr_init_attr *attr);
LATER(ibv_create_comp_cntr, "1.18");
EXPORT struct later_comp_cntr *later_ibv_create_comp_cntr(struct ibv_context *context,
                                                          struct later_comp_cntr_init_attr *attr)
{
    struct shim_comp_cntr *cntr;
    int err;

    if (attr->comp_mask || attr->flags || attr->type > LATER_CNTR_TYPE_MAX)
        return refuse(-EOPNOTSUPP);
    cntr = calloc(1, sizeof(*cntr));
    if (!cntr)
        return NULL;
    err = client_counter_create(&to_context(context)->client, &cntr->counter, attr->type);
    if (err) {
        free(cntr);
        return refuse(err);
    }
    cntr->base = (struct later_comp_cntr){context, cntr->counter.handle};
    return &cntr->base;
}

EXPORT int later_ibv_destroy_comp_cntr(struct later_comp_cntr *cntr);
LATER(ibv_destroy_comp_cntr, "1.18");
EXPORT int later_ibv_destroy_comp_cntr(struct later_comp_cntr *cntr)
{
    int err = -client_counter_destroy(&to_cntr(cntr)->counter);

    if (is_destroyed(err))
        free(to_cntr(cntr));
    return failed(err);
}

EXPORT int later_ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct later_comp_cntr *cntr,
                                         struct later_qp_attach_comp_cntr_attr *attr);
LATER(ibv_qp_attach_comp_cntr, "1.18");
EXPORT int later_ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct later_comp_cntr *cntr,
                                         struct later_qp_attach_comp_cntr_attr *attr)
{
    if (attr->comp_mask)
        return failed(EOPNOTSUPP);
    if (cntr->context != qp->context)
        return failed(EINVAL);
    return failed(-client_counter_attach(&to_cntr(cntr)->counter, qp->handle, attr->op_mask));
}

/* ---- counts ---- */

EXPORT int later_ibv_read_comp_cntr(struct later_comp_cntr *cntr, uint64_t *value);
LATER(ibv_read_comp_cntr, "1.18");
EXPORT int later_ibv_read_comp_cntr(struct later_comp_cntr *cntr, uint64_t *value)
{
    *value = counter_reader_get(reader_of(cntr), COUNTER_DONE);
    return 0;
}

EXPORT int later_ibv_read_err_comp_cntr(struct later_comp_cntr *cntr, uint64_t *value);
LATER(ibv_read_err_comp_cntr, "1.18");
EXPORT int later_ibv_read_err_comp_cntr(struct later_comp_cntr *cntr, uint64_t *value)
{
    *value = counter_reader_get(reader_of(cntr), COUNTER_FAILED);
    return 0;
}

EXPORT int later_ibv_set_comp_cntr(struct later_comp_cntr *cntr, uint64_t value);
LATER(ibv_set_comp_cntr, "1.18");
EXPORT int later_ibv_set_comp_cntr(struct later_comp_cntr *cntr, uint64_t value)
{
    counter_reader_set(reader_of(cntr), COUNTER_DONE, value);
    return 0;
}

EXPORT int later_ibv_set_err_comp_cntr(struct later_comp_cntr *cntr, uint64_t value);
LATER(ibv_set_err_comp_cntr, "1.18");
EXPORT int later_ibv_set_err_comp_cntr(struct later_comp_cntr *cntr, uint64_t value)
{
    counter_reader_set(reader_of(cntr), COUNTER_FAILED, value);
    return 0;
}

EXPORT int later_ibv_inc_comp_cntr(struct later_comp_cntr *cntr, uint64_t amount);
LATER(ibv_inc_comp_cntr, "1.18");
EXPORT int later_ibv_inc_comp_cntr(struct later_comp_cntr *cntr, uint64_t amount)
{
    counter_reader_add(reader_of(cntr), COUNTER_DONE, amount);
    return 0;
}

EXPORT int later_ibv_inc_err_comp_cntr(struct later_comp_cntr *cntr, uint64_t amount);
LATER(ibv_inc_err_comp_cntr, "1.18");
EXPORT int later_ibv_inc_err_comp_cntr(struct later_comp_cntr *cntr, uint64_t amount)
{
    counter_reader_add(reader_of(cntr), COUNTER_FAILED, amount);
    return 0;
}
