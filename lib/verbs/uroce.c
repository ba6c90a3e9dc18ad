/* SPDX-License-Identifier: BSD-3-Clause */
/* Extensions of the verbs API: uroce.h. */
#include "uroce.h"

#include <stdio.h>

#include "entropy.h"
#include "shim.h"

/* For programs that do not use uroce.h. */
#define ENTROPY_ENV "UROCE_ENTROPY"

static int entropy_to_ctl(struct ctl_entropy *to, const char *text)
{
    struct entropy_policy policy;
    int err = entropy_policy_parse(&policy, text);

    if (!err)
        *to = (struct ctl_entropy){(uint16_t)(policy.rule + 1), policy.port};
    return err;
}

/* An unknown value is an error: the user would notice another policy only on the wire. */
int shim_entropy_default(struct ctl_entropy *entropy)
{
    const char *text = getenv(ENTROPY_ENV);
    int err;

    *entropy = (struct ctl_entropy){0};
    if (!text || !*text)
        return 0;
    err = entropy_to_ctl(entropy, text);
    if (err)
        fprintf(stderr,
                "uroce: " ENTROPY_ENV "=%s is none of kernel, rfc, spray, fixed:PORT with a PORT "
                "from %u to %u (by default the port's policy): no device can be opened\n",
                text, ENTROPY_PORT_MIN, ENTROPY_PORT_MIN + ENTROPY_PORTS - 1);
    return err;
}

EXPORT int uroce_set_qp_entropy(struct ibv_qp *qp, const char *policy)
{
    struct ctl_entropy entropy = {0};
    int err = policy ? entropy_to_ctl(&entropy, policy) : 0;

    return -(err ? err : client_qp_set_entropy(&to_qp(qp)->queue, entropy));
}
