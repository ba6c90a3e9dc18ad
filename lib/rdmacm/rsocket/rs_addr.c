/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses as the program sees them, in the socket's family, and as they are in here. */
#include <errno.h>
#include <string.h>

#include "rs_socket.h"

#define MAPPED 12 /* bytes of ::ffff:a.b.c.d before a.b.c.d */

void rs_addr_plain(struct sockaddr_storage *addr)
{
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)addr;
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six->sin6_port};

    if (addr->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return;
    memcpy(&four.sin_addr, six->sin6_addr.s6_addr + MAPPED, sizeof(four.sin_addr));
    memset(addr, 0, sizeof(*addr));
    memcpy(addr, &four, sizeof(four));
}

struct sockaddr_storage rs_addr_given(const struct rsocket *rs, const struct sockaddr *plain)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)plain;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_storage given = {0};

    if (plain->sa_family != AF_INET || rs->family == AF_INET) {
        memcpy(&given, plain, rs_addr_size(plain->sa_family));
        return given;
    }
    six.sin6_port = four->sin_port;
    memset(six.sin6_addr.s6_addr + MAPPED - 2, 0xff, 2);
    memcpy(six.sin6_addr.s6_addr + MAPPED, &four->sin_addr, sizeof(four->sin_addr));
    memcpy(&given, &six, sizeof(six));
    return given;
}

int rs_addr_of(const struct rsocket *rs, const struct sockaddr *addr, socklen_t length,
               struct sockaddr_storage *plain)
{
    memset(plain, 0, sizeof(*plain));
    if (length < sizeof(addr->sa_family) || length > sizeof(*plain))
        return -EINVAL;
    if (addr->sa_family != AF_INET && addr->sa_family != rs->family)
        return -EAFNOSUPPORT;
    if (length < rs_addr_size(addr->sa_family))
        return -EINVAL;
    memcpy(plain, addr, rs_addr_size(addr->sa_family));
    rs_addr_plain(plain);
    return 0;
}
