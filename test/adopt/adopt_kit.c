/* SPDX-License-Identifier: BSD-3-Clause */
#include "adopt_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool kit_can_adopt(int argc)
{
    static const struct adopt_config config;

    if (adopt_init(&config) != CTL_MR_ADOPTED) {
        puts("1..0 # SKIP this process may not adopt memory");
        return false;
    }
    adopt.text_maps = adopt.text_maps || argc > 1;
    return true;
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

/* ---- direct I/O ---- */

void direct_open(struct direct_read *r, size_t len)
{
    char name[] = "adopt-direct.XXXXXX";
    int fd = mkstemp(name);
    uint8_t *bytes = malloc(len);

    assert_true(fd >= 0);
    memset(bytes, 0xAA, len);
    assert_int_equal(write(fd, bytes, len), len);
    fsync(fd);
    r->len = len;
    r->fd = open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);
    unlink(name);
    close(fd);
    free(bytes);
    if (r->fd < 0)
        skip();
}

static void *reader(void *arg)
{
    struct direct_read *r = arg;

    r->got = pread(r->fd, r->to, r->len, 0);
    return NULL;
}

void direct_begin(struct direct_read *r, unsigned turns)
{
    r->got = 0;
    assert_int_equal(pthread_create(&r->thread, NULL, reader, r), 0);
    for (unsigned i = 0; i < turns; i++)
        __asm__ volatile("" ::: "memory");
}

void direct_end(struct direct_read *r)
{
    pthread_join(r->thread, NULL);
    assert_int_equal(r->got, r->len);
    for (size_t i = 0; i < r->len; i += 512)
        assert_int_equal(r->to[i], 0xAA);
}
