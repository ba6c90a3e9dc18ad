/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of the device's choice, since rdma-core 64: a memfd that is sealed against shrinking,
 * mapped shared. The daemon maps such memory when it is registered, so that the first message
 * already travels without a system call, and no page has to be adopted.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file_limit.h"
#include "later.h"

/* The descriptor of a memfd of `size` bytes, whose pages exist; or a negative errno. */
static int buf_memfd(size_t size)
{
    int fd, err;

    if (!file_limit_allows(size))
        return -ENOMEM;
    fd = memfd_create("uroce-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    err = posix_fallocate(fd, 0, (off_t)size);
    if (err == EFBIG || err == ENOSPC)
        err = ENOMEM;
    if (!err && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        err = errno;
    if (err) {
        close(fd);
        return -err;
    }
    return fd;
}

static int buf_map(struct later_buf *buf)
{
    buf->memfd = buf_memfd(buf->size);
    if (buf->memfd < 0)
        return buf->memfd;
    buf->addr = mmap(NULL, buf->size, PROT_READ | PROT_WRITE, MAP_SHARED, buf->memfd, 0);
    if (buf->addr == MAP_FAILED) {
        close(buf->memfd);
        return -ENOMEM;
    }
    return 0;
}

EXPORT void *later_ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct later_buf **out);
LATER(ibv_alloc_buf, "1.17");
EXPORT void *later_ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct later_buf **out)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct later_buf *buf;
    int err;

    if (!size)
        return refuse(-EINVAL);
    if (size > SSIZE_MAX - page)
        return refuse(-ENOMEM);
    buf = calloc(1, sizeof(*buf));
    if (!buf)
        return NULL;
    buf->pd = pd;
    buf->size = (size + page - 1) / page * page;
    err = buf_map(buf);
    if (err) {
        free(buf);
        return refuse(err);
    }
    *out = buf;
    return buf->addr;
}

EXPORT void later_ibv_free_buf(struct later_buf *buf);
LATER(ibv_free_buf, "1.17");
EXPORT void later_ibv_free_buf(struct later_buf *buf)
{
    munmap(buf->addr, buf->size);
    close(buf->memfd);
    free(buf);
}

bool later_buf_has(const struct later_buf *buf, const void *addr, size_t length)
{
    uintptr_t start = (uintptr_t)buf->addr, at = (uintptr_t)addr;

    return at >= start && at - start <= buf->size && length <= buf->size - (at - start);
}

EXPORT struct ibv_mr *later_ibv_reg_buf_mr(struct ibv_pd *pd, struct later_buf *buf, void *addr,
                                           size_t length, int access);
LATER(ibv_reg_buf_mr, "1.17");
EXPORT struct ibv_mr *later_ibv_reg_buf_mr(struct ibv_pd *pd, struct later_buf *buf, void *addr,
                                           size_t length, int access)
{
    struct later_mr_init_attr attr = {
        .comp_mask = LATER_MR_BUF | LATER_MR_ADDR,
        .buf = buf,
        .addr = addr,
        .length = length,
        .access = access,
    };

    return later_ibv_reg_mr_ex(pd, &attr);
}

/* The memory is a memfd, which other devices do not import. */
EXPORT int later_ibv_export_buf_dmabuf_fd(struct later_buf *buf);
LATER(ibv_export_buf_dmabuf_fd, "1.18");
EXPORT int later_ibv_export_buf_dmabuf_fd(struct later_buf *buf)
{
    errno = ENODATA;
    return -1;
}
