/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of datagram sockets, as the program sees them and as they are in here. */
#include <errno.h>
#include <string.h>

#include "dg_socket.h"

#define MAPPED 12 /* bytes of ::ffff:a.b.c.d before a.b.c.d */

void dg_addr_plain(struct sockaddr_storage *addr)
{
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)addr;
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six->sin6_port};

    if (addr->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return;
    memcpy(&four.sin_addr, six->sin6_addr.s6_addr + MAPPED, sizeof(four.sin_addr));
    memset(addr, 0, sizeof(*addr));
    memcpy(addr, &four, sizeof(four));
}

struct sockaddr_storage dg_addr_given(const struct dgram *d, const struct sockaddr_storage *plain)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)plain;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = four->sin_port};
    struct sockaddr_storage given = {0};

    if (plain->ss_family != AF_INET || d->rs.family == AF_INET)
        return *plain;
    memset(six.sin6_addr.s6_addr + MAPPED - 2, 0xff, 2);
    memcpy(six.sin6_addr.s6_addr + MAPPED, &four->sin_addr, sizeof(four->sin_addr));
    memcpy(&given, &six, sizeof(six));
    return given;
}

int dg_addr_of(const struct dgram *d, const struct sockaddr *addr, socklen_t length,
               struct sockaddr_storage *plain)
{
    memset(plain, 0, sizeof(*plain));
    if (length < sizeof(addr->sa_family) || length > sizeof(*plain) ||
        length < rs_addr_size(addr->sa_family))
        return -EINVAL;
    if (addr->sa_family != AF_INET && addr->sa_family != d->rs.family)
        return -EAFNOSUPPORT;
    memcpy(plain, addr, rs_addr_size(addr->sa_family));
    dg_addr_plain(plain);
    return 0;
}
