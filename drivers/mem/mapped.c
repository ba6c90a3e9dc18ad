/* SPDX-License-Identifier: BSD-3-Clause */
#include "mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common.h"

#define WRITE_ACCESS (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static int check_kind(int fd, unsigned flags)
{
    struct statfs fs;

    if (fstatfs(fd, &fs))
        return -errno;
    return fs.f_type == HUGETLBFS_MAGIC && !(flags & MEM_MAP_HUGE) ? -EOPNOTSUPP : 0;
}

/* PROT_ bits for mapping fd with this access, or -EACCES. */
static int protection(int fd, int seals, uint32_t access)
{
    int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
    bool writable = mode == O_RDWR && !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));

    if (mode == O_WRONLY || (!writable && (access & WRITE_ACCESS)))
        return -EACCES;
    return PROT_READ | (writable ? PROT_WRITE : 0);
}

/* *unit: what the mapping's ends are rounded to (the huge page, on huge page files). */
static int check_range(int fd, uint64_t offset, uint64_t len, uint64_t *unit)
{
    struct stat st;
    uint64_t end;

    if (fstat(fd, &st))
        return -errno;
    if (__builtin_add_overflow(offset, len, &end) || end > INT64_MAX)
        return -EOVERFLOW;
    if (end > (uint64_t)st.st_size)
        return -ERANGE;
    *unit = max_of((uint64_t)st.st_blksize, page_bytes());
    return is_pow2(*unit) ? 0 : -EINVAL;
}

int mem_map(struct mem_mapping *map, struct mem_region *mr, int fd, uint64_t offset, unsigned flags)
{
    /* Seals before the size: a file that is sealed cannot have become shorter when it is measured.
     */
    int seals = fcntl(fd, F_GET_SEALS);
    uint64_t unit = 0, start;
    int prot, err;
    size_t len;
    void *base;

    if (seals < 0)
        return -errno;
    /* With other offsets in the page, atomics would not be aligned here although they are there. */
    if (!mr->len || (mr->addr - offset) % page_bytes())
        return -EINVAL;
    if (!(seals & F_SEAL_SHRINK))
        return -EPERM;
    err = check_kind(fd, flags);
    if (!err)
        err = check_range(fd, offset, mr->len, &unit);
    if (err)
        return err;
    prot = protection(fd, seals, mr->access);
    if (prot < 0)
        return prot;
    start = offset / unit * unit;
    len = round_up(offset + mr->len, unit) - start;
    base = mmap(NULL, len, prot, MAP_SHARED, fd, (off_t)start);
    if (base == MAP_FAILED)
        return errno == EPERM ? -EACCES : -errno;
    *map = (struct mem_mapping){base, len};
    mr->direct = (uint8_t *)base + (offset - start);
    return 0;
}

void mem_unmap(struct mem_mapping *map, struct mem_region *mr)
{
    if (mr)
        mr->direct = NULL;
    if (map->base)
        munmap(map->base, map->len);
    *map = (struct mem_mapping){0};
}
