/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "rs_socket.h"

static void destroy(struct rs_object *object)
{
    struct rsocket *rs = container_of(object, struct rsocket, object);

    rs->ops->destroy(rs);
}

void rs_init(struct rsocket *rs, const struct rs_ops *ops, int family, int type,
             const struct rsocket *parent)
{
    const struct rs_config *c = rs_config();

    rs->object.kind = RS_SOCKET;
    rs->object.destroy = destroy;
    rs->ops = ops;
    rs->owner = getpid();
    rs->family = family;
    rs->type = type;
    pthread_mutex_init(&rs->lock, NULL);
    pthread_cond_init(&rs->sending.left, NULL);
    pthread_cond_init(&rs->receiving.left, NULL);
    if (parent) {
        rs->options = parent->options;
        rs->options.route = NULL;
        rs->options.route_size = 0;
        return;
    }
    rs->options = (struct rs_options){.recv_buffer = c->recv_buffer,
                                      .send_buffer = c->send_buffer,
                                      .send_queue = c->send_queue,
                                      .recv_queue = c->recv_queue,
                                      .inline_size = c->inline_size,
                                      .iomap_entries = c->iomap_entries};
}

void rs_fini(struct rsocket *rs)
{
    free(rs->options.route);
    pthread_mutex_destroy(&rs->lock);
    pthread_cond_destroy(&rs->sending.left);
    pthread_cond_destroy(&rs->receiving.left);
}

struct rsocket *rs_get(int fd)
{
    struct rs_object *object = rs_table_get(fd, RS_SOCKET);

    return object ? container_of(object, struct rsocket, object) : NULL;
}

void rs_put(struct rsocket *rs)
{
    rs_object_put(&rs->object);
}

size_t rs_iov_size(const struct iovec *iov, int n)
{
    size_t size = 0;

    for (int i = 0; i < n; i++)
        size += iov[i].iov_len;
    return size;
}

/* Copies n bytes between the pieces, from their offset skip on, and other. */
static void walk(const struct iovec *iov, size_t skip, size_t n, uint8_t *other, bool gather)
{
    for (; n; iov++) {
        size_t piece;

        if (skip >= iov->iov_len) {
            skip -= iov->iov_len;
            continue;
        }
        piece = iov->iov_len - skip < n ? iov->iov_len - skip : n;
        if (gather)
            memcpy(other, (const uint8_t *)iov->iov_base + skip, piece);
        else
            memcpy((uint8_t *)iov->iov_base + skip, other, piece);
        other += piece;
        n -= piece;
        skip = 0;
    }
}

void rs_iov_gather(void *to, const struct iovec *iov, size_t skip, size_t n)
{
    walk(iov, skip, n, to, true);
}

void rs_iov_scatter(const struct iovec *iov, size_t skip, const void *from, size_t n)
{
    walk(iov, skip, n, (uint8_t *)(uintptr_t)from, false);
}

int rs_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    return 0;
}
