/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file behind a program's own shared mapping. Nothing leads from a mapping to a descriptor of
 * its file, so the program's descriptors are looked through: first those near the last one that was
 * found, as a program with thousands registers its memory in the order in which it made it, or the
 * same memory again. A program that has closed its descriptor may have left the file its name; a
 * file without one is opened through the mapping, which the kernel allows to root.
 *
 * A process that closes a descriptor of a file loses all its record locks of that file (fcntl(2)),
 * and what is found here is closed soon. So no descriptor of a file with locks is duplicated, and
 * no file is opened if the program has a descriptor of it: it may have locks.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "adopt_vma.h"
#include "client_mr.h"

#define NEAR 16

static int last_found; /* under mr_mutex */

struct sought {
    struct vma v;
    bool sealed;
    bool is_open; /* a descriptor of it was seen */
};

/* System V memory has no descriptor, and its inode's number is its identifier: 0 for the first one
 * of a machine or a container. A memfd on the same file system may have the same number. */
static bool is_system_v(const struct vma *v)
{
    static const char name[] = "/SYSV";

    return !strncmp(v->name, name, sizeof(name) - 1);
}

static bool is_file(const struct stat *st, const struct vma *v)
{
    return S_ISREG(st->st_mode) && st->st_ino == v->ino &&
           st->st_dev == makedev(v->major_dev, v->minor_dev);
}

/* Record locks conflict with those that belong to fd alone, also when they are the program's. */
static bool has_locks(int fd)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &l) || l.l_type != F_UNLCK;
}

/* Whether fd is the mapped file, in memory (others have no seals) and writable; and, if it has to
 * be, sealed so that it cannot shrink under the daemon. */
static bool is_backing(int fd, struct sought *s)
{
    struct stat st;
    int seals;

    if (fstat(fd, &st) || !is_file(&st, &s->v))
        return false;
    s->is_open = true;
    seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (!s->sealed || (seals & F_SEAL_SHRINK)) &&
           !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) &&
           (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

/* A duplicate of fd if that is the mapped file, or -1. It is checked, too: another thread may have
 * closed fd before. */
static int take(int fd, struct sought *s)
{
    int copy = is_backing(fd, s) && !has_locks(fd) ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;

    if (copy >= 0 && !is_backing(copy, s)) {
        close(copy);
        return -1;
    }
    if (copy >= 0)
        last_found = fd;
    return copy;
}

static int find_near(struct sought *s)
{
    int near = last_found, found = take(near, s);

    for (int i = 1; found < 0 && i <= NEAR; i++) {
        found = take(near + i, s);
        if (found < 0)
            found = take(near - i, s);
    }
    return found;
}

static int find_anywhere(struct sought *s)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int found = -1;

    if (!dir)
        return -1;
    while (found < 0 && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            found = take(atoi(entry->d_name), s);
    closedir(dir);
    return found;
}

static int find_open(struct sought *s)
{
    int found = find_near(s);

    return found < 0 ? find_anywhere(s) : found;
}

/*
 * Whether the file is of a mounted file system that is not one of memory. The table of mounts says
 * so, and not the file system, which may be one that does not answer. The kernel's own mounts, as
 * of System V memory, are not in the table.
 */
static bool is_elsewhere(const struct vma *v)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    unsigned major, minor;
    char *line = NULL;
    const char *type;
    bool found = false;
    size_t room = 0;

    while (mounts && !found && getline(&line, &room, mounts) > 0)
        found = sscanf(line, "%*d %*d %u:%u", &major, &minor) == 2 && major == v->major_dev &&
                minor == v->minor_dev;
    type = found ? strstr(line, " - ") : NULL;
    found = type && strncmp(type, " - tmpfs ", 9) && strncmp(type, " - hugetlbfs ", 13) &&
            strncmp(type, " - devtmpfs ", 12);
    free(line);
    if (mounts)
        fclose(mounts);
    return found;
}

static bool leads_to(const char *path, const struct sought *s)
{
    struct stat st;

    return !stat(path, &st) && is_file(&st, &s->v);
}

/* Also where the table of mounts does not know the device, as of btrfs and overlayfs. */
static bool is_in_memory(const char *path)
{
    struct statfs fs;

    return !statfs(path, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC);
}

/* Nothing but the mapped file is opened, as far as a look before can tell. */
static int open_file(const char *path, struct sought *s)
{
    int fd;

    if (!leads_to(path, s) || !is_in_memory(path))
        return -1;
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && !is_backing(fd, s)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int open_mapped(struct sought *s)
{
    char path[64];
    int fd = open_file(s->v.name, s);

    if (fd >= 0)
        return fd;
    snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, s->v.start, s->v.end);
    return open_file(path, s);
}

static bool is_usable(const struct vma *v)
{
    return v->shared && v->r && v->w && (v->ino || is_system_v(v));
}

/* Whether the addresses up to `end` continue in the same file: DPDK maps each huge page of a file
 * by itself, and the kernel joins no mappings of huge pages. */
static bool goes_on_until(const struct vma *first, uint64_t end)
{
    struct vma v = *first, next;

    for (; v.end < end; v = next) {
        if (vma_find(v.end, &next) || next.start != v.end || !is_usable(&next))
            return false;
        if (next.ino != v.ino || next.major_dev != v.major_dev || next.minor_dev != v.minor_dev ||
            next.offset != v.offset + (v.end - v.start))
            return false;
    }
    return true;
}

int mr_backing_find(uint64_t addr, uint64_t length, bool sealed, uint64_t *offset)
{
    struct sought s = {.sealed = sealed};
    const struct vma *v = &s.v;
    int found;

    if (!length || addr + length < addr || vma_find(addr, &s.v) || v->start > addr)
        return -ENOENT;
    if (!is_usable(v) || !goes_on_until(v, addr + length))
        return -ENOENT;
    if (!vma_is_memfd(v) && (sealed || is_elsewhere(v)))
        return -ENOENT;
    *offset = v->offset + (addr - v->start);
    found = is_system_v(v) ? -1 : find_open(&s);
    if (found < 0 && !s.is_open && !sealed)
        found = open_mapped(&s);
    return found < 0 ? -ENOENT : found;
}
