/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of a unix socket that listens. It appears when the socket has its permissions and
 * accepts connections, and is removed only as long as it is still that of this socket. */
#ifndef UROCE_SOCKET_PATH_H
#define UROCE_SOCKET_PATH_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/un.h>

struct socket_path {
    struct sockaddr_un addr; /* an empty path: there is no name to remove */
    struct stat file;        /* of the socket under this name */
};

/*
 * Makes a non-blocking socket of this type (SOCK_SEQPACKET, SOCK_STREAM) that listens at path. The
 * socket of a dead daemon is replaced. mode: its permissions; group: its group, or -1 for the
 * process's own. Returns the descriptor; or a negative errno, and *p has no name: -EADDRINUSE
 * (another process listens there), -EEXIST (something that is no socket is there), -ENAMETOOLONG,
 * or that of a system call.
 */
int socket_path_listen(struct socket_path *p, const char *path, int type, unsigned mode,
                       int64_t group);

/* Removes the name. The descriptor stays the caller's. */
void socket_path_remove(const struct socket_path *p);

#endif
