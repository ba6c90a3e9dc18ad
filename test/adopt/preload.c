/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LD_PRELOAD into unmodified programs: memory that they allocate, read into and write from is
 * adopted for a while, large pieces always and small ones sometimes. The programs must behave as
 * they do without it. Counts are written to $ADOPT_REPORT at the end of each process.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adopt_state.h"

#define LEASES   64
#define SMALL_IN 16 /* one of this many */
#define LARGE    65536u

void *__libc_malloc(size_t n);
void __libc_free(void *p);
/* Symbols of a library are hidden in this project by default, but these must be visible. */
#pragma GCC visibility push(default)
void *malloc(size_t n);
void free(void *p);
ssize_t read(int fd, void *to, size_t n);
ssize_t write(int fd, const void *from, size_t n);
#pragma GCC visibility pop

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread bool inside __attribute__((tls_model("initial-exec")));
static bool ready;
static unsigned long adopted, refused, calls;
static struct {
    struct adopt_lease lease;
    bool used;
    const void *of; /* allocated there; released before it is freed */
} held[LEASES];
static unsigned next;

static void release(unsigned i)
{
    if (held[i].used)
        adopt_release(&held[i].lease);
    held[i].used = false;
}

static bool begin(void)
{
    if (!ready || inside)
        return false;
    inside = true;
    pthread_mutex_lock(&mutex);
    return true;
}

static void end(int err)
{
    pthread_mutex_unlock(&mutex);
    inside = false;
    errno = err;
}

/* The oldest lease ends to make room for this one. */
static void adopt_some(uintptr_t p, size_t n, const void *of)
{
    unsigned i = next++ % LEASES;
    int err = errno;

    if (!p || !n || !begin())
        return;
    if (n >= LARGE || ++calls % SMALL_IN == 0) {
        release(i);
        if (adopt_acquire(&held[i].lease, p, n, ADOPT_MOVE | ADOPT_AGAIN) == CTL_MR_ADOPTED)
            adopted++;
        else
            refused++;
        held[i].used = true;
        held[i].of = of;
    }
    end(err);
}

void *malloc(size_t n)
{
    void *p = __libc_malloc(n);

    adopt_some((uintptr_t)p, n, p);
    return p;
}

void free(void *p)
{
    int err = errno;

    if (p && begin()) {
        for (unsigned i = 0; i < LEASES; i++)
            if (held[i].used && held[i].of == p)
                release(i);
        end(err);
    }
    __libc_free(p);
}

ssize_t read(int fd, void *to, size_t n)
{
    long ret;

    if (n >= 4096)
        adopt_some((uintptr_t)to, n, NULL);
    ret = RAW(read, fd, to, n, 0, 0, 0);
    if (ret >= 0)
        return ret;
    errno = (int)-ret;
    return -1;
}

ssize_t write(int fd, const void *from, size_t n)
{
    long ret;

    if (n >= 4096)
        adopt_some((uintptr_t)from, n, NULL);
    ret = RAW(write, fd, from, n, 0, 0, 0);
    if (ret >= 0)
        return ret;
    errno = (int)-ret;
    return -1;
}

/* ---- forks ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
    adopt_freeze();
    for (unsigned i = 0; i < LEASES; i++)
        if (held[i].used)
            adopt_lease_freeze(&held[i].lease);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static const struct adopt_config config;

static void in_child(void)
{
    adopt_child();
    memset(held, 0, sizeof(held));
    adopted = refused = 0;
    ready = adopt_init(&config) == CTL_MR_ADOPTED;
    pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) static void start(void)
{
    inside = true;
    pthread_atfork(before_fork, in_parent, in_child);
    ready = adopt_init(&config) == CTL_MR_ADOPTED;
    inside = false;
}

__attribute__((destructor)) static void report(void)
{
    const char *name = getenv("ADOPT_REPORT");
    char text[64];
    int fd, n = snprintf(text, sizeof(text), "%lu %lu\n", adopted, refused);

    ready = false;
    fd = name ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    RAW(write, fd, text, n, 0, 0, 0);
    close(fd);
}
