/* SPDX-License-Identifier: BSD-3-Clause */
/* The memfd behind a program's own shared mapping, from /proc/self/maps and /proc/self/fd. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client_mr.h"

struct mapping {
    uint64_t start, end, offset, inode;
    unsigned major_dev, minor_dev;
    char perms[5];
};

/* The mapping that contains addr: the first one that ends above it, as /proc/self/maps is sorted.
 */
static bool mapping_at(uint64_t addr, struct mapping *m)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t size = 0;
    bool found = false;

    if (!f)
        return false;
    while (getline(&line, &size, f) > 0) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &m->start,
                   &m->end, m->perms, &m->offset, &m->major_dev, &m->minor_dev, &m->inode) != 7)
            break;
        if (m->end > addr) {
            found = m->start <= addr;
            break;
        }
    }
    free(line);
    fclose(f);
    return found;
}

/* Whether fd is the mapped file, writable, and sealed so that it cannot shrink under the daemon. */
static bool is_backing(int fd, const struct mapping *m)
{
    struct stat st;
    int seals;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_ino != m->inode ||
        st.st_dev != makedev(m->major_dev, m->minor_dev))
        return false;
    seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) &&
           !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) &&
           (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

static int find_fd(const struct mapping *m)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int found = -ENOENT;

    if (!dir)
        return -ENOENT;
    while (found < 0 && (entry = readdir(dir))) {
        int fd = atoi(entry->d_name);

        if (entry->d_name[0] == '.' || !is_backing(fd, m))
            continue;
        /* The duplicate is checked again: another thread may have closed fd before. */
        found = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (found >= 0 && !is_backing(found, m)) {
            close(found);
            found = -ENOENT;
        }
    }
    closedir(dir);
    return found < 0 ? -ENOENT : found;
}

int mr_backing_find(uint64_t addr, uint64_t length, uint64_t *offset)
{
    struct mapping m;

    if (!length || addr + length < addr || !mapping_at(addr, &m))
        return -ENOENT;
    if (strcmp(m.perms + 3, "s") || m.perms[0] != 'r' || m.perms[1] != 'w' || !m.inode ||
        addr + length > m.end)
        return -ENOENT;
    *offset = m.offset + (addr - m.start);
    return find_fd(&m);
}
