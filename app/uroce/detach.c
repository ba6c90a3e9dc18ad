/* SPDX-License-Identifier: BSD-3-Clause */
#include "detach.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

int fork_detached(void)
{
    pid_t pid = fork();
    int status;

    if (pid < 0)
        return -errno;
    if (pid == 0) {
        setsid();
        pid = fork();
        if (pid == 0)
            return 0;
        _exit(pid < 0);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : -EAGAIN;
}
