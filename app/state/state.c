/* SPDX-License-Identifier: BSD-3-Clause */
/* See state.h. */
#include "state.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

int state_limit(int sock, time_t seconds)
{
    const struct timeval limit = {.tv_sec = seconds};

    return setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ? -errno : 0;
}

int state_connect(const char *path, time_t seconds)
{
    const struct timeval limit = {.tv_sec = seconds};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock, err;

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -errno;
    err = state_limit(sock, seconds);
    if (!err && (setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
                 connect(sock, (const struct sockaddr *)&address, sizeof(address))))
        err = -errno;
    if (!err)
        return sock;
    close(sock);
    return err;
}

static bool read_all(int fd, char *text, size_t length)
{
    size_t done = 0;
    ssize_t n = 1;

    while (done < length && n > 0) {
        n = pread(fd, text + done, length - done, (off_t)done);
        if (n > 0)
            done += (size_t)n;
    }
    return done == length;
}

/* The JSON in a memfd from the daemon, which may be shorter than it says. NULL: it is none. */
static json_t *parse(int memfd, size_t length)
{
    json_t *root = NULL;
    struct stat st;
    char *text;

    if (fstat(memfd, &st) || st.st_size < 0 || (uint64_t)st.st_size < length)
        return NULL;
    text = malloc(length);
    if (text && read_all(memfd, text, length))
        root = json_loadb(text, length, 0, NULL);
    free(text);
    return root;
}

json_t *state_ask(int sock, enum ctl_show_what what, int *err)
{
    struct ctl_msg m = {.magic = CTL_MAGIC, .version = CTL_VERSION, .type = CTL_SHOW, .seq = 1};
    int fds[CTL_MAX_FDS];
    unsigned nfds = 0;
    json_t *root = NULL;

    m.show.what = what;
    *err = ctl_request(sock, &m, NULL, 0, fds, &nfds);
    if (!*err)
        *err = m.status;
    if (!*err && nfds == 1 && m.show.length)
        root = parse(fds[0], m.show.length);
    if (!*err && !root)
        *err = -EPROTO;
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    return root;
}
