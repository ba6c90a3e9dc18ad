/* SPDX-License-Identifier: BSD-3-Clause */
/* See state.h. */
#include "state.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
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

/* The JSON in a memfd from the daemon. NULL: it is none. */
static json_t *parse(int memfd, size_t length)
{
    void *text = mmap(NULL, length, PROT_READ, MAP_PRIVATE, memfd, 0);
    json_t *root;

    if (text == MAP_FAILED)
        return NULL;
    root = json_loadb(text, length, 0, NULL);
    munmap(text, length);
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
