/* SPDX-License-Identifier: BSD-3-Clause */
/* What is special about queue pairs of type RAW_PACKET: permission and receive-side scaling. */
#include "objects/qp_object.h"

#include <errno.h>
#include <string.h>

#include "control/permission.h"

/* The protocol's numbers: enum ibv_rx_hash_function_flags, and XOR, which uroce adds. */
enum { HASH_TOEPLITZ = 1 << 0, HASH_XOR = 1 << 1 };

static int check_hash(const struct ctl_rx_hash *h)
{
    if (h->function != HASH_TOEPLITZ && h->function != HASH_XOR)
        return -EINVAL;
    /* XOR ignores a key. */
    if (h->key_len != sizeof(h->key) && !(h->function == HASH_XOR && !h->key_len))
        return -EINVAL;
    return rx_hash_fields_valid(h->fields) ? 0 : -EINVAL;
}

int raw_qp_check(struct session *sn, const struct ctl_create_qp *rq)
{
    const struct qp_caps *caps = &rq->caps;

    if (rq->type != QPT_RAW_PACKET)
        return rq->rx_hash.ind ? -EINVAL : 0;
    if (!permission_raw(sn))
        return -EPERM;
    if (!rq->rx_hash.ind)
        return 0;
    /* Its work queues receive, and it sends nothing. */
    if (caps->max_send_wr || caps->max_send_sge || caps->max_inline_data || caps->max_recv_wr ||
        caps->max_recv_sge || rq->srq || rq->send_cq || rq->recv_cq)
        return -EINVAL;
    return check_hash(&rq->rx_hash);
}

void raw_qp_hash(struct rx_hash *hash, const struct ctl_rx_hash *h)
{
    *hash = (struct rx_hash){.function = h->function == HASH_XOR ? RSS_XOR : RSS_TOEPLITZ,
                             .fields = h->fields};
    memcpy(hash->key, h->key, sizeof(hash->key));
}
