/* SPDX-License-Identifier: BSD-3-Clause */
/* Exported functions that neither make a connection nor wait for data: names, options, mappings. */
#include <stdarg.h>
#include <string.h>

#include "rs_call.h"
#include "rs_iomap.h"

void rs_give_addr(const struct sockaddr_storage *from, struct sockaddr *addr, socklen_t *length)
{
    socklen_t size = from->ss_family == AF_UNSPEC ? 0 : rs_addr_size(from->ss_family);

    if (!addr || !length)
        return;
    memcpy(addr, from, *length < size ? *length : size);
    *length = size;
}

/* ---- names, options ---- */

static int name_of(int socket, bool peer, struct sockaddr *addr, socklen_t *length)
{
    CALL(RS_CANCEL_NEVER);
    struct rsocket *rs = get(socket);
    struct sockaddr_storage name;
    int err;

    if (!rs)
        return -1;
    err = LOCKED(rs, rs->ops->name(rs, peer, &name));
    if (!err)
        rs_give_addr(&name, addr, length);
    return err;
}

EXPORT int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    return name_of(socket, true, addr, addrlen);
}

EXPORT int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    return name_of(socket, false, addr, addrlen);
}

EXPORT int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
    CALL(RS_CANCEL_NEVER);
    struct rsocket *rs = get(socket);

    return rs ? LOCKED(rs, rs_set_option(rs, level, optname, optval, optlen)) : -1;
}

EXPORT int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
    CALL(RS_CANCEL_NEVER);
    struct rsocket *rs = get(socket);

    return rs ? LOCKED(rs, rs_get_option(rs, level, optname, optval, optlen)) : -1;
}

/* The descriptors below never block; this flag is of our calls. */
static int set_flags(struct rsocket *rs, int flags)
{
    rs->flags = flags & O_NONBLOCK;
    return 0;
}

EXPORT int rfcntl(int socket, int cmd, ... /* arg */)
{
    CALL(RS_CANCEL_NEVER);
    struct rsocket *rs = get(socket);
    va_list args;
    int arg = 0;

    if (!rs)
        return -1;
    va_start(args, cmd);
    if (cmd == F_SETFL || cmd == F_SETFD)
        arg = va_arg(args, int);
    va_end(args);
    switch (cmd) {
    case F_GETFL:
        return LOCKED(rs, rs->flags | O_RDWR);
    case F_SETFL:
        return LOCKED(rs, set_flags(rs, arg));
    case F_GETFD:
        return LOCKED(rs, fcntl(socket, F_GETFD));
    case F_SETFD:
        return LOCKED(rs, fcntl(socket, F_SETFD, arg));
    default:
        rs_put(rs);
        return result_int(-EINVAL);
    }
}

/* ---- direct placement ---- */

EXPORT off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
    CALL(RS_CANCEL_NEVER);
    struct rsocket *rs = get(socket);
    off_t at;

    (void)flags; /* reserved */
    if (!rs)
        return -1;
    at = is_stream(rs) ? rs_iomap(rs, buf, len, prot, offset) : -EOPNOTSUPP;
    rs_put(rs);
    return (off_t)result(at);
}

EXPORT int riounmap(int socket, void *buf, size_t len)
{
    CALL(RS_CANCEL_NEVER);
    struct rsocket *rs = get(socket);
    int err;

    if (!rs)
        return -1;
    err = is_stream(rs) ? rs_iounmap(rs, buf, len) : -EOPNOTSUPP;
    rs_put(rs);
    return result_int(err);
}

EXPORT size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
    CALL(RS_CANCEL_SLEEP);
    struct rsocket *rs = get(socket);
    ssize_t n;

    if (!rs)
        return (size_t)-1;
    n = is_stream(rs) ? rs_iowrite(rs, buf, count, offset, flags) : -EOPNOTSUPP;
    rs_put(rs);
    return (size_t)result(n);
}
