/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics_address.h. */
#include "metrics_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static int parse_path(struct metrics_address *a, const char *path)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&a->sa;
    size_t length = strlen(path);

    if (path[0] != '/' || length > METRICS_PATH_MAX)
        return -EINVAL;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, length + 1);
    a->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    return 0;
}

/* 1 to 65535, in digits; 0: anything else. */
static in_port_t parse_port(const char *text)
{
    unsigned long port;

    if (!*text || text[strspn(text, "0123456789")] || strlen(text) > 5)
        return 0;
    port = strtoul(text, NULL, 10);
    return port <= UINT16_MAX ? htons((uint16_t)port) : 0;
}

static int parse_host(struct metrics_address *a, const char *host, in_port_t port)
{
    struct sockaddr_in *in = (struct sockaddr_in *)&a->sa;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a->sa;
    size_t length = strlen(host);
    char inner[INET6_ADDRSTRLEN];

    if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = port;
        a->length = sizeof(*in);
        return 0;
    }
    if (length < 2 || host[0] != '[' || host[length - 1] != ']' || length - 2 >= sizeof(inner))
        return -EINVAL;
    memcpy(inner, host + 1, length - 2);
    inner[length - 2] = '\0';
    if (inet_pton(AF_INET6, inner, &in6->sin6_addr) != 1)
        return -EINVAL;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = port;
    a->length = sizeof(*in6);
    return 0;
}

int metrics_address_parse(struct metrics_address *a, const char *text)
{
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN + 2];
    in_port_t port;

    memset(a, 0, sizeof(*a));
    if (!strncmp(text, "unix:", 5))
        return parse_path(a, text + 5);
    if (!colon || (size_t)(colon - text) >= sizeof(host))
        return -EINVAL;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    port = parse_port(colon + 1);
    return port ? parse_host(a, host, port) : -EINVAL;
}
