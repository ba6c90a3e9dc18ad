/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket addresses, and the protocol's. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cma.h"

static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};

int addr_to_ctl(struct ctl_cm_addr *to, const struct sockaddr *from)
{
    *to = (struct ctl_cm_addr){0};
    if (!from)
        return 0;
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *sin = (const void *)from;

        memcpy(to->gid, ipv4_prefix, sizeof(ipv4_prefix));
        memcpy(to->gid + sizeof(ipv4_prefix), &sin->sin_addr, sizeof(sin->sin_addr));
        to->number = ntohs(sin->sin_port);
    } else if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *sin6 = (const void *)from;

        memcpy(to->gid, &sin6->sin6_addr, sizeof(to->gid));
        to->number = ntohs(sin6->sin6_port);
        to->scope = sin6->sin6_scope_id;
    } else {
        return from->sa_family == AF_IB ? -ENODEV : -EINVAL;
    }
    to->family = from->sa_family;
    return 0;
}

void addr_from_ctl(struct sockaddr_storage *to, const struct ctl_cm_addr *from)
{
    memset(to, 0, sizeof(*to));
    if (from->family == AF_INET) {
        struct sockaddr_in *sin = (void *)to;

        sin->sin_family = AF_INET;
        sin->sin_port = htons(from->number);
        memcpy(&sin->sin_addr, from->gid + sizeof(ipv4_prefix), sizeof(sin->sin_addr));
    } else if (from->family == AF_INET6) {
        struct sockaddr_in6 *sin6 = (void *)to;

        sin6->sin6_family = AF_INET6;
        sin6->sin6_port = htons(from->number);
        sin6->sin6_scope_id = from->scope;
        memcpy(&sin6->sin6_addr, from->gid, sizeof(sin6->sin6_addr));
    }
}

socklen_t addr_len(const struct sockaddr *addr)
{
    switch (addr->sa_family) {
    case AF_INET:
        return sizeof(struct sockaddr_in);
    case AF_INET6:
        return sizeof(struct sockaddr_in6);
    default:
        return 0;
    }
}

static __be16 port_of(const struct sockaddr *addr)
{
    switch (addr->sa_family) {
    case AF_INET:
        return ((const struct sockaddr_in *)(const void *)addr)->sin_port;
    case AF_INET6:
        return ((const struct sockaddr_in6 *)(const void *)addr)->sin6_port;
    default:
        return 0;
    }
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return port_of(&id->route.addr.src_addr);
}

EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return port_of(&id->route.addr.dst_addr);
}

bool addr_is_foreign(const struct sockaddr *addr)
{
    struct sockaddr_storage a = {0};
    socklen_t len = addr_len(addr);
    bool foreign;
    int sock;

    memcpy(&a, addr, len);
    if (a.ss_family == AF_INET)
        ((struct sockaddr_in *)&a)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)&a)->sin6_port = 0;
    sock = (int)syscall(SYS_socket, a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return false;
    foreign = bind(sock, (struct sockaddr *)&a, len) && errno == EADDRNOTAVAIL;
    close(sock);
    return foreign;
}
