/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which memory is worth adopting. That costs some 50 us and up to two mappings more for a region,
 * and saves a microsecond for each time that the daemon copies. So large regions are adopted, and
 * of the small ones the first of a process if they consist of whole pages: a program with few
 * buffers uses them much. One that registers thousands has them copied, and buffers that share
 * their pages with others' data stay where they are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mr.h"

#define LARGE      65536u
#define SMALL_MAX  1024u /* ever, in one process: regions that come and go are not worth it */
#define PAGE_BYTES 4096u

/* enum ibv_access_flags */
#define ACCESS_WRITES    ((1u << 0) | (1u << 1) | (1u << 3)) /* local, remote, atomic */
#define ACCESS_ON_DEMAND (1u << 6)

static enum { POLICY_AUTO, POLICY_BIG, POLICY_COPY } policy; /* before anything is registered */
static unsigned small_adopted;

int mr_policy_read(void)
{
    const char *text = getenv(MR_POLICY_ENV);

    if (!text || !*text || !strcmp(text, "auto"))
        policy = POLICY_AUTO;
    else if (!strcmp(text, "big"))
        policy = POLICY_BIG;
    else if (!strcmp(text, "copy"))
        policy = POLICY_COPY;
    else {
        fprintf(stderr, "uroce: " MR_POLICY_ENV "=%s is none of copy, big, auto\n", text);
        return -EINVAL;
    }
    return 0;
}

unsigned mr_writes(uint32_t access)
{
    return access & ACCESS_WRITES ? ADOPT_WRITES : 0;
}

static bool is_small(const struct ctl_reg_mr *r)
{
    return r->length < LARGE;
}

static bool is_worth_it(const struct ctl_reg_mr *r)
{
    if (!is_small(r))
        return true;
    return policy == POLICY_AUTO && small_adopted < SMALL_MAX && r->addr % PAGE_BYTES == 0 &&
           r->length % PAGE_BYTES == 0;
}

bool mr_policy(const struct ctl_reg_mr *r, unsigned *flags, enum ctl_mr_why *why)
{
    *flags = mr_writes(r->access);
    *why = r->access & ACCESS_ON_DEMAND ? CTL_MR_ON_DEMAND : CTL_MR_SMALL;
    if (policy == POLICY_COPY) {
        *why = CTL_MR_OFF;
        return false;
    }
    if (!(r->access & ACCESS_ON_DEMAND) && is_worth_it(r))
        *flags |= ADOPT_MOVE;
    return true;
}

void mr_policy_adopted(const struct ctl_reg_mr *r)
{
    small_adopted += is_small(r);
}
