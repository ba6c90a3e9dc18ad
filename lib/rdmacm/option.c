/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of ids. The daemon knows which there are. */
#include "cma.h"

EXPORT int rdma_set_option(struct rdma_cm_id *base, int level, int name, void *value, size_t len)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {.cm_option = {.id = id->entry.handle,
                                      .level = (uint32_t)level,
                                      .name = (uint32_t)name,
                                      .length = (uint32_t)len}};

    /* The daemon finds paths by itself. */
    if (level == RDMA_OPTION_IB)
        return cma_result(-EOPNOTSUPP);
    if (!value || len > sizeof(m.cm_option.value))
        return cma_result(-EINVAL);
    memcpy(m.cm_option.value, value, len);
    return cma_result(link_call(id->link, CTL_CM_SET_OPTION, &m));
}
