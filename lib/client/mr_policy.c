/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which memory to adopt. Adopting a region costs some 50 us and up to two more mappings, and saves
 * a microsecond for each copy that the daemon would make. So large regions are adopted when they
 * are registered, and small ones when they are hot (mr_hot.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mr.h"

#define LARGE 65536u

enum policy { POLICY_AUTO, POLICY_BIG, POLICY_COPY };

/* Set before memory is registered; and again by each thread that opens a device. */
static _Atomic uint32_t policy;

static enum policy current(void)
{
    return (enum policy)atomic_load_explicit(&policy, memory_order_relaxed);
}

int mr_policy_read(void)
{
    const char *text = getenv(MR_POLICY_ENV);
    enum policy read = POLICY_AUTO;

    if (text && !strcmp(text, "big"))
        read = POLICY_BIG;
    else if (text && !strcmp(text, "copy"))
        read = POLICY_COPY;
    else if (text && *text && strcmp(text, "auto")) {
        fprintf(stderr,
                "uroce: " MR_POLICY_ENV "=%s is none of copy, big, auto (the default): no device "
                "can be opened\n",
                text);
        return -EINVAL;
    }
    atomic_store_explicit(&policy, read, memory_order_relaxed);
    return 0;
}

unsigned mr_writes(uint32_t access)
{
    return access & ACCESS_WRITES ? ADOPT_WRITES : 0;
}

static enum ctl_mr_why reason_to_wait(const struct ctl_reg_mr *r)
{
    if (r->access & ACCESS_ON_DEMAND)
        return CTL_MR_ON_DEMAND;
    if (r->length >= LARGE)
        return CTL_MR_ADOPTED;
    return current() == POLICY_AUTO ? CTL_MR_COLD : CTL_MR_SMALL;
}

bool mr_policy(const struct ctl_reg_mr *r, unsigned *flags, enum ctl_mr_why *why)
{
    *flags = mr_writes(r->access);
    *why = CTL_MR_OFF;
    if (current() == POLICY_COPY)
        return false;
    *why = reason_to_wait(r);
    if (*why == CTL_MR_ADOPTED)
        *flags |= ADOPT_MOVE;
    return true;
}
