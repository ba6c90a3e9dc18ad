/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libmlx5.so.1 for programs that link with it, or look its functions up, for what any RoCE device
 * can do: Mooncake and UCCL choose UDP source ports by mlx5dv_modify_qp_udp_sport. Everything that
 * is about the queues, commands and steering of one vendor's hardware refuses with EOPNOTSUPP
 * (names.txt), as the vendor's library does for the device of another one.
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>

#include "uroce.h"

#define EXPORT __attribute__((visibility("default")))

/* Programs take their direct path to the hardware when this is true. */
EXPORT bool mlx5dv_is_supported(struct ibv_device *device)
{
    return false;
}

/*
 * Of all that comp_mask may ask for there is the number of ports that a link aggregation has: one,
 * which is none to choose from. The fields after those of the mask are not written: in programs of
 * earlier versions the structure ends before.
 */
EXPORT int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *attr)
{
    uint64_t asked = attr->comp_mask;

    attr->version = 0;
    attr->flags = 0;
    attr->comp_mask = asked & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS;
    if (attr->comp_mask)
        attr->num_lag_ports = 1;
    return 0;
}

/* RC and UC in RTS, as of the vendor's. The ports are those that uroce_set_qp_entropy takes;
 * another one is EINVAL. */
EXPORT int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport)
{
    char policy[sizeof("fixed:65535")];
    int err;

    if ((qp->qp_type != IBV_QPT_RC && qp->qp_type != IBV_QPT_UC) || qp->state != IBV_QPS_RTS)
        return errno = EOPNOTSUPP;
    snprintf(policy, sizeof(policy), "fixed:%u", udp_sport);
    err = uroce_set_qp_entropy(qp, policy);
    if (err)
        errno = err;
    return err;
}
