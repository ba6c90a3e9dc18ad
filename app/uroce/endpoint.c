/* SPDX-License-Identifier: BSD-3-Clause */
/* See endpoint.h: finds the daemon's control socket and connects to it. */
#include "endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl_msg.h"

/* A daemon answers immediately; the limit is for a stopped daemon or a foreign program. */
#define ANSWER_SECONDS 5

static int connect_to(const char *path)
{
    const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock;

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -errno;
    if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0 ||
        setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
        connect(sock, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        int err = -errno;

        close(sock);
        return err;
    }
    return sock;
}

int endpoint_probe(const char *path)
{
    struct ctl_msg m = {.magic = CTL_MAGIC, .version = CTL_VERSION, .type = CTL_QUERY_DEVICE};
    int fds[CTL_MAX_FDS];
    unsigned nfds = 0;
    int sock = connect_to(path);
    int err;

    if (sock < 0)
        return sock == -EAGAIN ? -ETIMEDOUT : sock;
    err = ctl_send(sock, &m, NULL, 0, 0);
    if (err == 0)
        err = ctl_recv(sock, &m, fds, &nfds, 0);
    for (unsigned i = 0; err == 0 && i < nfds; i++)
        close(fds[i]);
    if (err == 0)
        return sock;
    close(sock);
    if (err == -EAGAIN)
        return -ETIMEDOUT;
    /* The daemon closed the connection before it answered: it is idle and exiting. */
    return err == -ECONNRESET || err == -EPIPE ? -ECONNREFUSED : err;
}

int endpoint_given(const char *option, char path[ENDPOINT_PATH_MAX])
{
    const char *given = option != NULL ? option : getenv(CTL_SOCKET_ENV);
    char here[4096] = "";
    int n;

    if (given == NULL || given[0] == '\0')
        return 0;
    if (given[0] != '/' && getcwd(here, sizeof(here)) == NULL)
        return -errno;
    n = snprintf(path, ENDPOINT_PATH_MAX, "%s%s%s", here, here[0] != '\0' ? "/" : "", given);
    return n < ENDPOINT_PATH_MAX ? 1 : -ENAMETOOLONG;
}

/* All users share /tmp: the folder must be this user's alone, or another user could serve our
 * programs. */
static int check_private(const char *folder)
{
    struct stat st;

    if (lstat(folder, &st) != 0)
        return -errno;
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return -EPERM;
    return 0;
}

int endpoint_user(char path[ENDPOINT_PATH_MAX], int create)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char folder[64];
    int n, err;

    if (runtime != NULL && runtime[0] == '/') {
        n = snprintf(path, ENDPOINT_PATH_MAX, "%s/%s", runtime, CTL_SOCKET_USER);
        return n < ENDPOINT_PATH_MAX ? 0 : -ENAMETOOLONG;
    }
    snprintf(folder, sizeof(folder), "/tmp/uroce-%u", (unsigned)geteuid());
    snprintf(path, ENDPOINT_PATH_MAX, "%s/%s", folder, CTL_SOCKET_USER);
    if (create && mkdir(folder, 0700) != 0 && errno != EEXIST)
        return -errno;
    err = check_private(folder);
    return err;
}

int endpoint_is_absent(int err)
{
    return err == -ENOENT || err == -ECONNREFUSED || err == -ENOTDIR;
}

int endpoint_connect(const char *option, char path[ENDPOINT_PATH_MAX])
{
    int given = endpoint_given(option, path);
    int sock;

    if (given < 0)
        return given;
    if (given)
        return endpoint_probe(path);
    strcpy(path, CTL_SOCKET_SYSTEM);
    sock = endpoint_probe(path);
    if (!endpoint_is_absent(sock) && sock != -EACCES)
        return sock;
    given = endpoint_user(path, 0);
    return given < 0 ? given : endpoint_probe(path);
}

void endpoint_print_error(const char *path, int err)
{
    switch (err) {
    case -ENOENT:
    case -ENOTDIR:
    case -ECONNREFUSED:
        fprintf(stderr, "uroce: no uroced serves at %s\n", path);
        break;
    case -EPROTONOSUPPORT:
    case -EPROTO:
        fprintf(stderr, "uroce: what serves at %s speaks another version of the protocol\n", path);
        break;
    case -ETIMEDOUT:
        fprintf(stderr, "uroce: what serves at %s does not answer\n", path);
        break;
    case -ENAMETOOLONG:
        fprintf(stderr, "uroce: the socket's path is longer than %d bytes\n",
                ENDPOINT_PATH_MAX - 1);
        break;
    case -EPERM:
        fprintf(stderr, "uroce: the folder of %s is not this user's alone\n", path);
        break;
    default:
        fprintf(stderr, "uroce: %s: %s\n", path, strerror(-err));
    }
}
