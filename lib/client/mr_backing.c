/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memfd behind a program's own shared mapping, and the program's descriptor of it. Nothing
 * leads from a mapping to its descriptor, so they are looked through: first those near the last one
 * that was found, as a program with thousands registers its memory in the order in which it made
 * it, or the same memory again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "adopt_vma.h"
#include "client_mr.h"

#define NEAR 16

static int last_found; /* under mr_mutex */

/* Whether fd is the mapped file, writable, and sealed so that it cannot shrink under the daemon. */
static bool is_backing(int fd, const struct vma *v)
{
    struct stat st;
    int seals;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_ino != v->ino ||
        st.st_dev != makedev(v->major_dev, v->minor_dev))
        return false;
    seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) &&
           !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) &&
           (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

/* A duplicate of fd if that is the mapped file, or -1. It is checked, too: another thread may have
 * closed fd before. */
static int take(int fd, const struct vma *v)
{
    int copy = is_backing(fd, v) ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;

    if (copy >= 0 && !is_backing(copy, v)) {
        close(copy);
        return -1;
    }
    if (copy >= 0)
        last_found = fd;
    return copy;
}

static int find_near(const struct vma *v)
{
    int near = last_found, found = take(near, v);

    for (int i = 1; found < 0 && i <= NEAR; i++) {
        found = take(near + i, v);
        if (found < 0)
            found = take(near - i, v);
    }
    return found;
}

static int find_anywhere(const struct vma *v)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int found = -1;

    if (!dir)
        return -1;
    while (found < 0 && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            found = take(atoi(entry->d_name), v);
    closedir(dir);
    return found;
}

int mr_backing_find(uint64_t addr, uint64_t length, uint64_t *offset)
{
    struct vma v;
    int found;

    if (!length || addr + length < addr || vma_find(addr, &v) || v.start > addr)
        return -ENOENT;
    if (!v.shared || !v.r || !v.w || !vma_is_memfd(&v) || addr + length > v.end)
        return -ENOENT;
    *offset = v.offset + (addr - v.start);
    found = find_near(&v);
    if (found < 0)
        found = find_anywhere(&v);
    return found < 0 ? -ENOENT : found;
}
