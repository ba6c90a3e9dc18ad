/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapping an application's file in memory, and the checks before: see mapped.h. */
#include "mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common.h"

#define LARGE_PAGE   (UINT64_C(2) << 20) /* the kernel maps it as one page if it can */
#define UNMAP_PART   ((size_t)8 << 20)
#define WRITE_ACCESS (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* *unit: the page size that the mapping's ends are rounded to: the huge page for huge page files.
 */
static int check_kind(int fd, unsigned flags, uint64_t *unit)
{
    struct statfs fs;

    if (fstatfs(fd, &fs))
        return -errno;
    *unit = page_bytes();
    if (fs.f_type != HUGETLBFS_MAGIC)
        return 0;
    *unit = max_of((uint64_t)fs.f_bsize, *unit);
    return flags & MEM_MAP_TRUSTED ? 0 : -EOPNOTSUPP;
}

/* PROT_ bits for mapping fd with this access, or -EACCES. */
static int mapping_protection(int fd, int seals, uint32_t access)
{
    int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
    bool writable = mode == O_RDWR && !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));

    if (mode == O_WRONLY || (!writable && (access & WRITE_ACCESS)))
        return -EACCES;
    return PROT_READ | (writable ? PROT_WRITE : 0);
}

static int check_range(int fd, uint64_t offset, uint64_t len)
{
    struct stat st;
    uint64_t end;

    if (fstat(fd, &st))
        return -errno;
    if (__builtin_add_overflow(offset, len, &end) || end > INT64_MAX)
        return -EOVERFLOW;
    return end > (uint64_t)st.st_size ? -ERANGE : 0;
}

/* Whether the pieces consist of whole pages, except at the ends of mr, and are as long as mr. */
static int check_pieces(const struct mem_region *mr, const struct mem_piece *piece, unsigned n)
{
    uint64_t page = page_bytes(), addr = mr->addr, left = mr->len;

    for (unsigned i = 0; i < n; i++) {
        /* With another offset in the page, an address that is aligned in the application would not
         * be aligned in the dataplane: atomics need that. */
        if (!piece[i].len || piece[i].len > left || (addr - piece[i].offset) % page)
            return -EINVAL;
        if (i && addr % page)
            return -EINVAL;
        addr += piece[i].len;
        left -= piece[i].len;
    }
    return n && !left ? 0 : -EINVAL;
}

static int check_file(const struct mem_region *mr, int fd, const struct mem_piece *piece,
                      unsigned n, unsigned flags, uint64_t *unit)
{
    int err = check_kind(fd, flags, unit);

    for (unsigned i = 0; i < n && !err; i++)
        err = check_range(fd, piece[i].offset, piece[i].len);
    return !err && n > 1 && *unit != page_bytes() ? -EOPNOTSUPP : err;
}

static int map_error(void)
{
    return errno == EPERM ? -EACCES : -errno;
}

/* Maps the pieces one after the other into the reserved range at base. */
static int map_pieces(uint8_t *base, int prot, int fd, const struct mem_piece *piece, unsigned n,
                      uint64_t first)
{
    uint64_t page = page_bytes();

    for (unsigned i = 0; i < n; i++) {
        uint64_t start = i ? piece[i].offset : piece[i].offset - first;
        uint64_t len = round_up(piece[i].len + (i ? 0 : first), page);

        if (mmap(base, len, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)start) == MAP_FAILED)
            return map_error();
        base += len;
    }
    return 0;
}

/*
 * Reserves addresses for len bytes of the file from start on, with the same offset in a large page
 * as in the file, so that the kernel can map the file's large pages as large pages.
 */
static uint8_t *reserve_addresses(uint64_t len, uint64_t start)
{
    uint64_t room = len < LARGE_PAGE ? len : len + LARGE_PAGE, skip;
    uint8_t *base = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED || room == len)
        return base;
    skip = (start - (uintptr_t)base) % LARGE_PAGE;
    if (skip)
        munmap(base, skip);
    munmap(base + skip + len, room - skip - len);
    return base + skip;
}

int mem_map(struct mem_mapping *map, struct mem_region *mr, int fd, const struct mem_piece *piece,
            unsigned n, unsigned flags)
{
    /* The seals are read before the size: a sealed file cannot shrink before it is measured. */
    int seals = fcntl(fd, F_GET_SEALS);
    uint64_t unit = 0, first;
    int prot, err;
    bool reserved;
    size_t len;
    void *base;

    if (seals < 0)
        return -errno;
    err = check_pieces(mr, piece, n);
    if (err)
        return err;
    if (!(seals & F_SEAL_SHRINK) && !(flags & MEM_MAP_TRUSTED))
        return -EPERM;
    err = check_file(mr, fd, piece, n, flags, &unit);
    if (err)
        return err;
    prot = mapping_protection(fd, seals, mr->access);
    if (prot < 0)
        return prot;
    first = piece[0].offset % unit;
    len = round_up(first + mr->len, unit);
    reserved = n > 1 || (len >= LARGE_PAGE && unit == page_bytes());
    if (!reserved)
        base = mmap(NULL, len, prot, MAP_SHARED, fd, (off_t)(piece[0].offset - first));
    else
        base = reserve_addresses(len, piece[0].offset - first);
    if (base == MAP_FAILED)
        return map_error();
    err = reserved ? map_pieces(base, prot, fd, piece, n, first) : 0;
    if (!err && unit != page_bytes()) /* an error here, instead of a signal later */
        err = madvise(base, len, MADV_POPULATE_READ) ? -errno : 0;
    if (err) {
        munmap(base, len);
        return err;
    }
    madvise(base, len, MADV_DONTDUMP); /* a core file of this process is no place for it */
    *map = (struct mem_mapping){base, len};
    mr->direct = (uint8_t *)base + first;
    return 0;
}

/* The other threads' mmap and munmap wait for each call of this one's. */
static void unmap_in_parts(uint8_t *base, size_t len)
{
    while (len > UNMAP_PART && !munmap(base, UNMAP_PART)) {
        base += UNMAP_PART;
        len -= UNMAP_PART;
    }
    munmap(base, len);
}

void mem_unmap(struct mem_mapping *map, struct mem_region *mr)
{
    if (mr)
        mr->direct = NULL;
    if (map->base)
        unmap_in_parts(map->base, map->len);
    *map = (struct mem_mapping){0};
}
