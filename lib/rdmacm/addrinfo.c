/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and numbers of services into addresses. */
#include <netdb.h>

#include "cma.h"

#define KNOWN_FLAGS \
    (RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY | CMA_RAI_SA | CMA_RAI_DNS)

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
    struct rdma_addrinfo *next;

    for (; res; res = next) {
        next = res->ai_next;
        free(res->ai_src_addr);
        free(res->ai_dst_addr);
        free(res->ai_src_canonname);
        free(res->ai_dst_canonname);
        free(res->ai_route); /* the program's, as ai_connect, for rdma_create_ep */
        free(res->ai_connect);
        free(res);
    }
}

static int copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from,
                     socklen_t len)
{
    if (!from || !len)
        return 0;
    *to = malloc(len);
    if (!*to)
        return EAI_MEMORY;
    memcpy(*to, from, len);
    *to_len = len;
    return 0;
}

static bool has_datagrams(int port_space)
{
    return port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB;
}

/* The type of queue pair and the port space follow from each other. */
static int set_service(struct rdma_addrinfo *r, const struct rdma_addrinfo *hints)
{
    bool datagrams;

    r->ai_qp_type = hints->ai_qp_type;
    r->ai_port_space = hints->ai_port_space;
    datagrams = has_datagrams(r->ai_port_space);
    if (!r->ai_qp_type)
        r->ai_qp_type = datagrams ? IBV_QPT_UD : IBV_QPT_RC;
    if (!r->ai_port_space)
        r->ai_port_space = r->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
    if (r->ai_port_space == RDMA_PS_TCP && r->ai_qp_type == IBV_QPT_UD)
        return EAI_SOCKTYPE;
    return datagrams && r->ai_qp_type != IBV_QPT_UD ? EAI_SOCKTYPE : 0;
}

/* One result; *end is the place for the next. */
static int append(struct rdma_addrinfo ***end, const struct rdma_addrinfo *hints,
                  const struct addrinfo *found)
{
    struct rdma_addrinfo *r = calloc(1, sizeof(*r));
    bool passive = hints->ai_flags & RAI_PASSIVE;
    int err;

    if (!r)
        return EAI_MEMORY;
    **end = r;
    *end = &r->ai_next;
    r->ai_flags = hints->ai_flags;
    r->ai_family = found ? found->ai_family : hints->ai_family;
    err = set_service(r, hints);
    if (err)
        return err;
    if (found) {
        err = passive
                  ? copy_addr(&r->ai_src_addr, &r->ai_src_len, found->ai_addr, found->ai_addrlen)
                  : copy_addr(&r->ai_dst_addr, &r->ai_dst_len, found->ai_addr, found->ai_addrlen);
        if (!err && found->ai_canonname)
            *(passive ? &r->ai_src_canonname : &r->ai_dst_canonname) = strdup(found->ai_canonname);
    } else {
        err = copy_addr(&r->ai_dst_addr, &r->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
    }
    if (!err && !r->ai_src_addr)
        err = copy_addr(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
    return err;
}

static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
                   struct rdma_addrinfo **res)
{
    struct addrinfo ip = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct rdma_addrinfo **end = res;
    int err;

    if (hints->ai_flags & RAI_PASSIVE)
        ip.ai_flags |= AI_PASSIVE;
    if (hints->ai_flags & RAI_NUMERICHOST)
        ip.ai_flags |= AI_NUMERICHOST;
    /* With RAI_FAMILY or without, as rdma-core's library. */
    if (hints->ai_family == AF_INET || hints->ai_family == AF_INET6)
        ip.ai_family = hints->ai_family;
    if (hints->ai_qp_type == IBV_QPT_UD || has_datagrams(hints->ai_port_space))
        ip.ai_socktype = SOCK_DGRAM;
    err = getaddrinfo(node, service, &ip, &found);
    for (const struct addrinfo *a = found; a && !err; a = a->ai_next)
        if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
            err = append(&end, hints, a);
    if (found)
        freeaddrinfo(found);
    return err ? err : *res ? 0 : EAI_NONAME;
}

static int check_hints(const struct rdma_addrinfo *hints)
{
    if (hints->ai_flags & ~KNOWN_FLAGS)
        return EAI_BADFLAGS;
    /* AF_IB has addresses that are no IP addresses, which Ethernet does not. */
    if (hints->ai_flags & RAI_FAMILY && hints->ai_family != AF_UNSPEC &&
        hints->ai_family != AF_INET && hints->ai_family != AF_INET6)
        return EAI_FAMILY;
    return 0;
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service,
                            const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
    static const struct rdma_addrinfo none;
    struct rdma_addrinfo *list = NULL, **end = &list;
    int err;

    if (!res || (!node && !service && !hints))
        return cma_result(-EINVAL);
    if (!hints)
        hints = &none;
    err = check_hints(hints);
    if (!err)
        err = node || service ? look_up(node, service, hints, &list) : append(&end, hints, NULL);
    if (err)
        rdma_freeaddrinfo(list);
    else
        *res = list;
    return err;
}
