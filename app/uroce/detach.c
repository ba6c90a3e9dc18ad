/* SPDX-License-Identifier: BSD-3-Clause */
#include "detach.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* 1 when the child has ended well. */
static int await_child(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : -EAGAIN;
}

int fork_detached(void)
{
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    struct sigaction before;
    pid_t pid;
    int result;

    /* Where the signal is ignored, as some that start programs leave it to them, a child that has
     * ended has no status. */
    sigaction(SIGCHLD, &standard, &before);
    pid = fork();
    if (pid == 0) {
        setsid();
        pid = fork();
        if (pid == 0)
            return 0;
        _exit(pid < 0);
    }
    result = pid < 0 ? -errno : await_child(pid);
    sigaction(SIGCHLD, &before, NULL);
    return result;
}
