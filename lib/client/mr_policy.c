/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which memory to adopt. Adopting a region costs some 50 us and up to two more mappings, and saves
 * a microsecond for each copy that the daemon would make. So large regions are adopted when they
 * are registered, and small ones when they are hot (mr_hot.c).
 *
 * A program that registers its memory for each transfer would spend its time on moving pages. When
 * most of its large regions live hardly longer than it takes to adopt them, the next ones have to
 * prove to be hot, too.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mr.h"

#define LARGE 65536u

/* Regions up to this size are judged by their lives: to adopt a hot one disturbs its users, the
 * more the larger it is. */
#define JUDGED_MAX (UINT64_C(16) << 20)
/* A life is short below this many times the time of adopting the region. */
#define SHORT_LIFE 16
/* Of the balance of lives: from which on they are short, and what one that is not takes away. */
#define BALANCE_SHORT 4
#define BALANCE_MAX   8
#define BALANCE_LONG  2

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

/* ---- lives ---- */

/* Under the lock. */
static struct {
    double ns_per_byte; /* what the last adoption took; 0: there was none */
    unsigned balance;   /* of short ones against others */
} lives;

static bool is_judged(uint64_t length)
{
    return length >= LARGE && length <= JUDGED_MAX;
}

void mr_policy_adopted(uint64_t moved, int64_t ns)
{
    if (is_judged(moved))
        lives.ns_per_byte = (double)ns / (double)moved;
}

void mr_policy_ended(uint64_t length, int64_t life_ns)
{
    if (!is_judged(length) || lives.ns_per_byte == 0)
        return;
    if ((double)life_ns < SHORT_LIFE * lives.ns_per_byte * (double)length)
        lives.balance = min_of(lives.balance + 1, BALANCE_MAX);
    else
        lives.balance -= min_of(lives.balance, BALANCE_LONG);
}

/* Not of memory for atomics: whether these are atomic with the program's own must not depend on how
 * long other regions have lived. */
static bool lives_are_short(const struct ctl_reg_mr *r)
{
    return current() == POLICY_AUTO && is_judged(r->length) && !(r->access & ACCESS_ATOMIC) &&
           lives.balance >= BALANCE_SHORT && adopt_can_anytime();
}

/* ---- */

static enum ctl_mr_why reason_to_wait(const struct ctl_reg_mr *r)
{
    if (r->access & ACCESS_ON_DEMAND)
        return CTL_MR_ON_DEMAND;
    if (r->length >= LARGE && !lives_are_short(r))
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
