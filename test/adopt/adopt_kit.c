/* SPDX-License-Identifier: BSD-3-Clause */
#include "adopt_kit.h"

#include <string.h>
#include <sys/stat.h>

void can_adopt(void)
{
    static const struct adopt_config config;

    if (adopt_init(&config) != CTL_MR_ADOPTED)
        skip();
}

uint8_t *anonymous(size_t len)
{
    uint8_t *p =
        mmap(NULL, len + adopt.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(p != MAP_FAILED);
    memset(p, 1, len);
    assert_int_equal(mprotect(p + len, adopt.page, PROT_NONE), 0);
    return p;
}

void unmap(void *p, size_t len)
{
    assert_int_equal(munmap(p, len + adopt.page), 0);
}

enum ctl_mr_why acquire(struct adopt_lease *l, const void *p, size_t len)
{
    return adopt_acquire(l, (uintptr_t)p, len, ADOPT_WRITES | ADOPT_MOVE);
}

static struct vma at(const void *p)
{
    struct vma v;

    assert_int_equal(vma_find((uintptr_t)p, &v), 0);
    assert_true(v.start <= (uintptr_t)p);
    return v;
}

bool is_shared(const void *p)
{
    struct vma v = at(p);

    return adopt_is_ours(&v);
}

bool is_view(const void *p)
{
    struct vma v = at(p);

    return vma_is_adopted(&v) && !v.shared;
}

bool is_plain(const void *p)
{
    struct vma v = at(p);

    return !v.ino && !v.shared;
}

int in_memfd(const struct adopt_lease *l, const void *p)
{
    for (unsigned i = 0; i < l->pieces; i++) {
        const struct adopt_piece *piece = &l->piece[i];
        uint8_t byte;

        if ((uintptr_t)p < piece->addr || (uintptr_t)p >= piece->addr + piece->length)
            continue;
        if (pread(adopt_memfd(), &byte, 1, (off_t)(piece->offset + ((uintptr_t)p - piece->addr))) ==
            1)
            return byte;
    }
    return -1;
}

uint64_t memfd_bytes(void)
{
    struct stat st;

    assert_int_equal(fstat(adopt_memfd(), &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

void freeze(struct adopt_lease *l)
{
    adopt_freeze();
    adopt_lease_freeze(l);
}
