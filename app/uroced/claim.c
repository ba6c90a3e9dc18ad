/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claims of kernel interfaces: see claim.h. A claim is a listening unix socket with an abstract
 * name. Such names belong to a network namespace, as interfaces do, and end with the process.
 */
#include "claim.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "trust.h"

static socklen_t claim_address(struct sockaddr_un *un, const char *name)
{
    int n;

    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "uroced/%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Who listens at the address; pid 0: it has ended. */
static struct ucred claim_owner(int fd, const struct sockaddr_un *un, socklen_t len)
{
    struct ucred owner = {0};
    socklen_t size = sizeof(owner);

    if (connect(fd, (const struct sockaddr *)un, len) ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &size))
        owner.pid = 0;
    return owner;
}

static int judge_claim(int fd, const struct sockaddr_un *un, socklen_t len, const char *name,
                       int *process)
{
    struct ucred owner = claim_owner(fd, un, len);

    if (owner.pid && trust_user(owner.uid)) {
        *process = owner.pid;
        return -EBUSY;
    }
    fprintf(stderr,
            "uroced: %s: the abstract socket uroced/%s, by which a daemon claims an interface, is "
            "another user's; that is ignored\n",
            name, name);
    return 0;
}

int claim_interface(const char *name, int *owner)
{
    struct sockaddr_un un;
    socklen_t len = claim_address(&un, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err;

    if (fd < 0)
        return -errno;
    if (!bind(fd, (const struct sockaddr *)&un, len) && !listen(fd, SOMAXCONN))
        return 0; /* the descriptor is the claim, until the process ends */
    err = errno == EADDRINUSE ? judge_claim(fd, &un, len, name, owner) : -errno;
    close(fd);
    return err;
}
