/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls without the C library. They do not set errno, which is thread-local memory and may
 * be on a page that is being moved. Libraries that interpose mmap and munmap to watch an
 * application's memory (registration caches) do not see them; for those libraries nothing changes.
 */
#ifndef UROCE_ADOPT_RAW_H
#define UROCE_ADOPT_RAW_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ADOPT_KNOWN_CPU 1
static inline long raw_call(long n, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long ret;

    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
#elif defined(__aarch64__)
#define ADOPT_KNOWN_CPU 1
static inline long raw_call(long n, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#define ADOPT_KNOWN_CPU 0
static inline long raw_call(long n, long a, long b, long c, long d, long e, long f)
{
    return -ENOSYS;
}
#endif

/* The call's result, or a negative errno. */
#define RAW(name, a, b, c, d, e, f) \
    raw_call(SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline long raw_mmap(uint64_t addr, uint64_t len, int prot, int flags, int fd, uint64_t off)
{
    return RAW(mmap, addr, len, prot, flags, fd, off);
}

static inline long raw_munmap(uint64_t addr, uint64_t len)
{
    return RAW(munmap, addr, len, 0, 0, 0, 0);
}

static inline long raw_madvise(uint64_t addr, uint64_t len, int advice)
{
    return RAW(madvise, addr, len, advice, 0, 0, 0);
}

static inline long raw_ioctl(int fd, unsigned long request, void *arg)
{
    return RAW(ioctl, fd, request, arg, 0, 0, 0);
}

static inline long raw_open(const char *path, int flags)
{
    return RAW(openat, AT_FDCWD, path, flags | O_CLOEXEC, 0, 0, 0);
}

static inline void raw_close(int fd)
{
    if (fd >= 0)
        RAW(close, fd, 0, 0, 0, 0, 0);
}

static inline long raw_read(int fd, void *buf, uint64_t len)
{
    return RAW(read, fd, buf, len, 0, 0, 0);
}

/* A small file of /proc or /sys, as a string; "" if it cannot be read. */
static inline void raw_read_text(const char *path, char *text, uint64_t room)
{
    long fd = raw_open(path, O_RDONLY);
    long n = fd < 0 ? 0 : raw_read((int)fd, text, room - 1);

    raw_close((int)fd);
    text[n < 0 ? 0 : n] = '\0';
}

static inline long raw_pread(int fd, void *buf, uint64_t len, uint64_t off)
{
    return RAW(pread64, fd, buf, len, off, 0, 0);
}

static inline long raw_pwrite(int fd, const void *buf, uint64_t len, uint64_t off)
{
    return RAW(pwrite64, fd, buf, len, off, 0, 0);
}

static inline long raw_lseek(int fd, uint64_t off, int whence)
{
    return RAW(lseek, fd, off, whence, 0, 0, 0);
}

static inline long raw_fallocate(int fd, int mode, uint64_t off, uint64_t len)
{
    return RAW(fallocate, fd, mode, off, len, 0, 0);
}

/* madvise's MADV_POPULATE_READ and MADV_POPULATE_WRITE (Linux 5.14). They also allocate missing
 * pages of a file. */
#define POPULATE_READ  22
#define POPULATE_WRITE 23

/* mmap and mremap return addresses; an error is a value within the last page. */
static inline int raw_is_error(long ret)
{
    return (unsigned long)ret >= (unsigned long)-4095L;
}

/* ns of CLOCK_MONOTONIC. */
static inline int64_t raw_now(void)
{
    struct timespec ts = {0};

    RAW(clock_gettime, CLOCK_MONOTONIC, &ts, 0, 0, 0, 0);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

#endif
