/* SPDX-License-Identifier: BSD-3-Clause */
/* The userfaultfd: it blocks threads that write to pages that are being moved, and it moves pages
 * to find out whether they are pinned. */
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include "adopt_state.h"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef UFFDIO_MOVE
struct uffdio_move {
    uint64_t dst, src, len, mode;
    int64_t move;
};
#define UFFDIO_MOVE                      _IOWR(UFFDIO, 0x05, struct uffdio_move)
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES (UINT64_C(1) << 1)
#endif

/* The userfaultfd must block the kernel's accesses too, or a read(2) into memory that is being
 * moved would return early. */
static int open_uffd(void)
{
    int fd = (int)RAW(userfaultfd, O_CLOEXEC, 0, 0, 0, 0, 0), device;

    if (fd >= 0 || !adopt.config.device)
        return fd;
    device = adopt.config.device();
    if (device >= 0) {
        fd = (int)raw_ioctl(device, USERFAULTFD_IOC_NEW, (void *)(long)O_CLOEXEC);
        raw_close(device);
    }
    return fd;
}

/* Write protection of shared memory is required: without it pages could not be moved back.
 * ADOPT_FEATURE_MOVE, with which pinned pages are found, is optional. */
enum ctl_mr_why uffd_open(void)
{
    static const uint64_t wanted[] = {
        UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM | ADOPT_FEATURE_MOVE,
        UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM};
    int fd = open_uffd();

    if (fd < 0)
        return fd == -ENOSYS ? CTL_MR_KERNEL : CTL_MR_NO_UFFD;
    for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++) {
        struct uffdio_api api = {.api = UFFD_API, .features = wanted[i]};

        if (!raw_ioctl(fd, UFFDIO_API, &api)) {
            adopt.uffd = fd;
            adopt.features = wanted[i];
            return CTL_MR_ADOPTED;
        }
    }
    raw_close(fd);
    return CTL_MR_KERNEL;
}

bool adopt_can_anytime(void)
{
    return adopt.usable == CTL_MR_ADOPTED && (adopt.features & ADOPT_FEATURE_MOVE);
}

bool adopt_sees_pins(const struct vma *v)
{
    return !v->ino && (adopt.features & ADOPT_FEATURE_MOVE);
}

long uffd_protect(uint64_t start, uint64_t len, bool on)
{
    struct uffdio_writeprotect w = {{start, len}, on ? UFFDIO_WRITEPROTECT_MODE_WP : 0};
    long ret;

    do
        ret = raw_ioctl(adopt.uffd, UFFDIO_WRITEPROTECT, &w);
    while (ret == -EAGAIN);
    return ret;
}

long uffd_watch(uint64_t start, uint64_t len, uint64_t mode)
{
    struct uffdio_register r = {.range = {start, len}, .mode = mode};

    return raw_ioctl(adopt.uffd, UFFDIO_REGISTER, &r);
}

void uffd_wake(uint64_t start, uint64_t len)
{
    struct uffdio_range r = {start, len};

    raw_ioctl(adopt.uffd, UFFDIO_WAKE, &r);
}

void uffd_release(uint64_t start, uint64_t len)
{
    struct uffdio_range r = {start, len};

    uffd_protect(start, len, false);
    raw_ioctl(adopt.uffd, UFFDIO_UNREGISTER, &r);
    uffd_wake(start, len);
}

long uffd_move(uint64_t to, uint64_t from, uint64_t len, uint64_t *moved)
{
    *moved = 0;
    while (*moved < len) {
        struct uffdio_move m = {.dst = to + *moved,
                                .src = from + *moved,
                                .len = len - *moved,
                                .mode = UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES};
        long ret = raw_ioctl(adopt.uffd, UFFDIO_MOVE, &m);

        if (m.move > 0)
            *moved += (uint64_t)m.move;
        if (ret && ret != -EAGAIN)
            return ret;
    }
    return 0;
}
