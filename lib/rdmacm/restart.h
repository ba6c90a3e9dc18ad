/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that a signal interrupts in poll(2), where the kernel's calls would go on. */
#ifndef UROCE_RDMACM_RESTART_H
#define UROCE_RDMACM_RESTART_H

#include <stdbool.h>

/*
 * After a signal a read goes on if the signal's handler was installed with SA_RESTART; poll() never
 * does. Which signal it was cannot be known. So this says that the program wants to be interrupted
 * when any of its handlers lacks the flag. 64 system calls; any thread.
 */
bool wants_eintr(void);

#endif
