/* SPDX-License-Identifier: BSD-3-Clause */
/* Waking an application's thread: see heat.h. */
#include "heat.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void mem_heat_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
