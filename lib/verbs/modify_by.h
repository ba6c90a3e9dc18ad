/* SPDX-License-Identifier: BSD-3-Clause */
/* What librdmacm.so.1 of the same version calls of libibverbs.so.1, beside the API. */
#ifndef UROCE_VERBS_MODIFY_BY_H
#define UROCE_VERBS_MODIFY_BY_H

#include "ctl_msg.h"
#include "uroce.h"

/* Sends *modify, which becomes the reply; key: of the context (ctx_shared.join_key), which is not
 * read in a forked child. 0 or a negative errno. */
typedef int (*uroce_send_modify)(void *arg, const uint64_t *key, struct ctl_modify_qp *modify);

/* uroce_modify_qp_steps, with a message of the caller's. Returns what `send` does, or -EINVAL or
 * -EOPNOTSUPP without calling it. Any thread. */
int uroce_modify_qp_by(struct ibv_qp *qp, const struct ibv_qp_attr *attr,
                       const struct uroce_qp_step *step, unsigned steps, uroce_send_modify send,
                       void *arg);

/* ibv_create_qp_ex, and then uroce_modify_qp_steps, with one message. The first step has a mask; no
 * step has an address vector. NULL: errno is set, and there is no queue pair. Any thread. */
struct ibv_qp *uroce_create_qp_in(struct ibv_context *context, struct ibv_qp_init_attr_ex *init,
                                  const struct ibv_qp_attr *attr, const struct uroce_qp_step *step,
                                  unsigned steps);

/* Whether the daemon has ended the context, and the program has destroyed all that it created in
 * it. False in a forked child that has inherited it. Any thread. */
bool uroce_is_over(const struct ibv_context *context);

#endif
