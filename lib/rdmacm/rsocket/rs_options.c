/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of sockets. Sizes count from the connection on; later changes are for accepted sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "rs_socket.h"
#include "rs_wire.h"

#define SEGMENT_DEFAULT 1460 /* programs divide by TCP_MAXSEG */
#define US_PER_MS       1000
#define US_PER_SEC      1000000

/* ---- setting ---- */

/* 0, or -EDOM. With a negative one the kernel does not wait: the shortest comes next to that. */
static int read_timeout(const struct timeval *t, uint32_t *ms)
{
    if (t->tv_usec < 0 || t->tv_usec >= US_PER_SEC)
        return -EDOM;
    if (t->tv_sec < 0)
        *ms = 1;
    else if (t->tv_sec >= UINT32_MAX / MS_PER_SEC)
        *ms = 0;
    else
        *ms = (uint32_t)(t->tv_sec * MS_PER_SEC + (t->tv_usec + US_PER_MS - 1) / US_PER_MS);
    return 0;
}

/* Options that are no int. Returns 1 for others. */
static int set_structure(struct rs_options *o, int level, int name, const void *value,
                         socklen_t length)
{
    struct timeval t;
    void *route;

    if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
        if (length < sizeof(t))
            return -EINVAL;
        memcpy(&t, value, sizeof(t));
        return read_timeout(&t, name == SO_RCVTIMEO ? &o->recv_timeout_ms : &o->send_timeout_ms);
    }
    if (level == SOL_SOCKET && name == SO_LINGER) {
        if (length < sizeof(o->linger))
            return -EINVAL;
        memcpy(&o->linger, value, sizeof(o->linger));
        return 0;
    }
    if (level == SOL_RDMA && name == RDMA_ROUTE) {
        route = length ? malloc(length) : NULL;
        if (length && !route)
            return -ENOMEM;
        if (length)
            memcpy(route, value, length);
        free(o->route);
        o->route = route;
        o->route_size = length;
        return 0;
    }
    return 1;
}

static int set_socket(struct rs_options *o, int name, int value)
{
    switch (name) {
    case SO_SNDBUF:
        o->send_buffer = rs_bound_buffer((uint32_t)value);
        return 0;
    case SO_RCVBUF:
        o->recv_buffer = rs_bound_buffer((uint32_t)value);
        return 0;
    case SO_REUSEADDR:
        o->reuse_address = value;
        return 0;
    case SO_REUSEPORT: /* asked for and not needed: the port spaces of TCP and RDMA are apart */
        return 0;
    case SO_KEEPALIVE:
        o->keep_alive = value;
        return 0;
    case SO_OOBINLINE:
        o->oob_inline = value;
        return 0;
    default:
        return -ENOPROTOOPT;
    }
}

static int set_tcp(struct rs_options *o, int name, int value)
{
    switch (name) {
    case TCP_NODELAY:
        o->no_delay = value;
        return 0;
    case TCP_MAXSEG:
        if (value < 0)
            return -EINVAL;
        o->max_segment = value;
        return 0;
    case TCP_KEEPIDLE:
    case TCP_KEEPINTVL:
    case TCP_KEEPCNT:
    case TCP_CORK:
    case TCP_QUICKACK:
        return 0; /* an end is noticed without, and nothing is delayed */
    default:
        return -ENOPROTOOPT;
    }
}

static int set_rdma(struct rs_options *o, int name, int value)
{
    if (value < 0)
        return -EINVAL;
    switch (name) {
    case RDMA_SQSIZE:
        o->send_queue = rs_bound_queue((uint32_t)value);
        return 0;
    case RDMA_RQSIZE:
        o->recv_queue = rs_bound_queue((uint32_t)value);
        return 0;
    case RDMA_INLINE:
        o->inline_size = rs_bound_inline((uint32_t)value);
        return 0;
    case RDMA_IOMAPSIZE:
        o->iomap_entries = rs_iomap_entries_round((uint32_t)value);
        return 0;
    default:
        return -ENOPROTOOPT;
    }
}

static int set_int(struct rs_options *o, int level, int name, int value)
{
    switch (level) {
    case SOL_SOCKET:
        return set_socket(o, name, value);
    case IPPROTO_TCP:
        return set_tcp(o, name, value);
    case SOL_RDMA:
        return set_rdma(o, name, value);
    case IPPROTO_IPV6:
        if (name != IPV6_V6ONLY)
            return -ENOPROTOOPT;
        o->v6_only = value;
        return 0;
    case IPPROTO_IP:
        if (name != IP_TOS)
            return -ENOPROTOOPT;
        o->tos = (uint8_t)value;
        return 0;
    default:
        return -ENOPROTOOPT;
    }
}

/* Those that are unknown here, some of a byte, are of datagrams' UDP socket, as in rdma-core's
 * library. */
static bool is_of_udp(const struct rsocket *rs, int level, int err)
{
    return err == -ENOPROTOOPT && rs->type == SOCK_DGRAM && level != SOL_RDMA;
}

static int set_own(struct rsocket *rs, int level, int name, const void *value, socklen_t length)
{
    int number, err = set_structure(&rs->options, level, name, value, length);
    struct rs_options changed = rs->options;

    if (err <= 0)
        return err;
    if (length < sizeof(number))
        return is_of_udp(rs, level, -ENOPROTOOPT) ? -ENOPROTOOPT : -EINVAL;
    memcpy(&number, value, sizeof(number));
    err = set_int(&changed, level, name, number);
    if (!err)
        err = rs->ops->apply(rs, level, name, number);
    if (!err)
        rs->options = changed;
    return err;
}

int rs_set_option(struct rsocket *rs, int level, int name, const void *value, socklen_t length)
{
    int err = value ? set_own(rs, level, name, value, length) : -EFAULT;

    if (is_of_udp(rs, level, err))
        err = setsockopt(rs->object.fd, level, name, value, length) ? -errno : 0;
    return err;
}

void rs_apply_options(struct rsocket *rs)
{
    const struct rs_options *o = &rs->options;

    if (o->reuse_address)
        rs->ops->apply(rs, SOL_SOCKET, SO_REUSEADDR, 1);
    if (o->v6_only)
        rs->ops->apply(rs, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (o->tos)
        rs->ops->apply(rs, IPPROTO_IP, IP_TOS, o->tos);
}

/* ---- getting ---- */

/* As getsockopt does: what fits, and how much that is. */
static int give(void *value, socklen_t *length, const void *from, size_t size)
{
    if (size < *length)
        *length = (socklen_t)size;
    memcpy(value, from, *length);
    return 0;
}

static int give_timeout(void *value, socklen_t *length, uint32_t ms)
{
    struct timeval t = {ms / MS_PER_SEC, ms % MS_PER_SEC * US_PER_MS};

    return give(value, length, &t, sizeof(t));
}

static int get_socket(struct rsocket *rs, int name)
{
    const struct rs_options *o = &rs->options;

    switch (name) {
    case SO_SNDBUF:
        return (int)o->send_buffer;
    case SO_RCVBUF:
        return (int)o->recv_buffer;
    case SO_REUSEADDR:
        return o->reuse_address;
    case SO_KEEPALIVE:
        return o->keep_alive;
    case SO_OOBINLINE:
        return o->oob_inline;
    case SO_TYPE:
        return rs->type;
    case SO_DOMAIN:
        return rs->family;
    case SO_PROTOCOL:
        return rs->type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
    case SO_ERROR:
        rs->ops->process(rs, true);
        return rs_take_error(rs);
    default:
        return -ENOPROTOOPT;
    }
}

static int get_int(struct rsocket *rs, int level, int name)
{
    const struct rs_options *o = &rs->options;

    if (level == SOL_SOCKET)
        return get_socket(rs, name);
    if (level == IPPROTO_TCP && name == TCP_NODELAY)
        return o->no_delay;
    if (level == IPPROTO_TCP && name == TCP_MAXSEG)
        return o->max_segment ? o->max_segment : SEGMENT_DEFAULT;
    if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
        return o->v6_only;
    if (level == IPPROTO_IP && name == IP_TOS)
        return o->tos;
    if (level != SOL_RDMA)
        return -ENOPROTOOPT;
    switch (name) {
    case RDMA_SQSIZE:
        return (int)o->send_queue;
    case RDMA_RQSIZE:
        return (int)o->recv_queue;
    case RDMA_INLINE:
        return (int)o->inline_size;
    case RDMA_IOMAPSIZE:
        return (int)o->iomap_entries;
    default:
        return -ENOPROTOOPT;
    }
}

static int get_own(struct rsocket *rs, int level, int name, void *value, socklen_t *length)
{
    static const struct tcp_info no_info; /* programs print it */
    const struct rs_options *o = &rs->options;
    int number;

    if (level == SOL_SOCKET && name == SO_LINGER)
        return give(value, length, &o->linger, sizeof(o->linger));
    if (level == SOL_SOCKET && name == SO_RCVTIMEO)
        return give_timeout(value, length, o->recv_timeout_ms);
    if (level == SOL_SOCKET && name == SO_SNDTIMEO)
        return give_timeout(value, length, o->send_timeout_ms);
    if (level == IPPROTO_TCP && name == TCP_INFO)
        return give(value, length, &no_info, sizeof(no_info));
    if (level == SOL_RDMA && name == RDMA_ROUTE && !o->route)
        return -ENODATA;
    if (level == SOL_RDMA && name == RDMA_ROUTE)
        return give(value, length, o->route, o->route_size);
    number = get_int(rs, level, name);
    if (number < 0)
        return number;
    return give(value, length, &number, sizeof(number));
}

int rs_get_option(struct rsocket *rs, int level, int name, void *value, socklen_t *length)
{
    int err = get_own(rs, level, name, value, length);

    if (is_of_udp(rs, level, err))
        err = getsockopt(rs->object.fd, level, name, value, length) ? -errno : 0;
    return err;
}
