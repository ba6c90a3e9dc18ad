/* SPDX-License-Identifier: BSD-3-Clause */
/* Users who may do what they like with this process anyway: signals, ptrace. */
#ifndef UROCE_TRUST_H
#define UROCE_TRUST_H

#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

/* Whether a user is root, or the one who runs this process. Any thread. */
static inline bool trust_user(uid_t uid)
{
    return !uid || uid == geteuid();
}

#endif
