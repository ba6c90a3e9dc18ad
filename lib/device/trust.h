/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Users who may do what they like with this process anyway: signals, ptrace.
 *
 * In a user namespace the kernel gives one number, the overflow user's (65534), to all users whom
 * the namespace does not know. Where there may be such users, that number is no user's.
 */
#ifndef UROCE_TRUST_H
#define UROCE_TRUST_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * Whether two numbers are known to be one user's. Any thread.
 *
 * @param a  A user's number, as the kernel says it to this process.
 * @param b  Another one.
 * @return  False also when that cannot be told.
 */
bool trust_same_user(uid_t a, uid_t b);

/**
 * Whether a user is root, or the one who runs this process. Any thread.
 *
 * @param uid  The user's number, as the kernel says it to this process.
 * @return  True for these two.
 */
bool trust_user(uid_t uid);

#endif
