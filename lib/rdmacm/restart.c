/* SPDX-License-Identifier: BSD-3-Clause */
#include "restart.h"

#include <signal.h>
#include <stddef.h>

bool wants_eintr(void)
{
    struct sigaction sa;

    for (int sig = 1; sig < NSIG; sig++)
        if (!sigaction(sig, NULL, &sa) && sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN &&
            !(sa.sa_flags & SA_RESTART))
            return true;
    return false;
}
