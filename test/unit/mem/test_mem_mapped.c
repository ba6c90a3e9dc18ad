/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"
#include "mapped.h"
#include "mem_batch.h"
#include "unit.h"

#define APP_BASE UINT64_C(0x7f1234560000) /* the application's address of the file's start */

static size_t page;

/* A file of `pages` pages, as an application would create it. */
static int make_file(unsigned pages, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    page = (size_t)sysconf(_SC_PAGESIZE);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(pages * page)), 0);
    if (seals)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static struct mem_region region(uint64_t offset, uint64_t len, uint32_t access)
{
    return (struct mem_region){.addr = APP_BASE + offset, .len = len, .access = access};
}

static int map_whole(struct mem_mapping *map, struct mem_region *mr, int fd, uint64_t offset,
                     unsigned flags)
{
    return mem_map(map, mr, fd, &(struct mem_piece){offset, mr->len}, 1, flags);
}

static int try(int fd, uint64_t offset, uint64_t len, uint32_t access)
{
    struct mem_region mr = region(offset, len, access);
    struct mem_mapping map = {0};
    int err = map_whole(&map, &mr, fd, offset, 0);

    if (err) {
        assert_null(map.base);
        assert_null(mr.direct);
    } else {
        assert_non_null(mr.direct);
        mem_unmap(&map, &mr);
        assert_null(map.base);
        assert_null(mr.direct);
    }
    return err;
}

static void test_seals(void **state)
{
    int fd = make_file(2, 0);
    struct mem_region mr = region(0, page, MEM_LOCAL_WRITE);
    struct mem_mapping map = {0};

    assert_int_equal(try(fd, 0, page, MEM_LOCAL_WRITE), -EPERM);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    assert_int_equal(try(fd, 0, page, MEM_LOCAL_WRITE), -EPERM);
    assert_int_equal(map_whole(&map, &mr, fd, 0, MEM_MAP_TRUSTED), 0);
    mem_unmap(&map, &mr);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(try(fd, 0, page, MEM_LOCAL_WRITE), 0);
    assert_int_equal(ftruncate(fd, 0), -1); /* the seal prevents it */
    assert_int_equal(errno, EPERM);
    close(fd);
}

/* Whether the mapping that begins at p has the flag "dd" in smaps. */
static bool is_not_dumped(const void *p)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512], start[32];
    bool here = false, found = false;

    assert_non_null(f);
    snprintf(start, sizeof(start), "%lx-", (unsigned long)(uintptr_t)p);
    while (!found && fgets(line, sizeof(line), f)) {
        if (strchr("0123456789abcdef", line[0]))
            here = !strncmp(line, start, strlen(start));
        found = here && !strncmp(line, "VmFlags:", 8) && strstr(line, " dd");
    }
    fclose(f);
    return found;
}

/* A core file of the daemon does not have the pages of its programs, in one piece or in several. */
static void test_not_in_core_files(void **state)
{
    int fd = make_file(8, F_SEAL_SHRINK);
    const struct mem_piece pieces[] = {{4 * page, page}, {0, page}};

    for (unsigned n = 1; n <= 2; n++) {
        struct mem_region mr = region(0, n * page, MEM_LOCAL_WRITE);
        struct mem_mapping map = {0};

        assert_int_equal(mem_map(&map, &mr, fd, pieces, n, 0), 0);
        assert_true(is_not_dumped(map.base));
        if (n == 2)
            assert_true(is_not_dumped((uint8_t *)map.base + page));
        mem_unmap(&map, &mr);
    }
    close(fd);
}

static void test_same_bytes(void **state)
{
    int fd = make_file(4, F_SEAL_SHRINK);
    struct mem_region mr = region(page + 24, 2 * page, MEM_LOCAL_WRITE | MEM_REMOTE_ATOMIC);
    struct mem_mapping map = {0};
    struct mem_batch batch = {0};
    char bytes[6] = {0};
    uint64_t old;

    assert_int_equal(map_whole(&map, &mr, fd, page + 24, 0), 0);
    assert_true(mem_batch_out(&batch, &mr, mr.addr, "first", 5, 0));
    assert_true(mem_batch_out(&batch, &mr, mr.addr + 2 * page - 4, "last", 4, 0));
    assert_int_equal(pread(fd, bytes, 5, (off_t)page + 24), 5);
    assert_string_equal(bytes, "first");
    assert_int_equal(pread(fd, bytes, 4, (off_t)(3 * page) + 20), 4);
    assert_memory_equal(bytes, "last", 4);
    assert_int_equal(mem_atomic(NULL, &mr, mr.addr + 8, MEM_FETCH_ADD, 7, 0, &old, 0), 0);
    assert_int_equal(mem_atomic(NULL, &mr, mr.addr + 8, MEM_FETCH_ADD, 0, 0, &old, 0), 0);
    assert_int_equal(old, 7);
    /* The owner can clear the file and close it, but cannot remove the pages. */
    assert_int_equal(ftruncate(fd, (off_t)page), -1);
    assert_int_equal(
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)(4 * page)), 0);
    close(fd);
    assert_true(mem_batch_in(&batch, &mr, mr.addr, bytes, 5, 0));
    assert_memory_equal(bytes, "\0\0\0\0\0", 5);
    mem_unmap(&map, &mr);
    mem_unmap(&map, NULL);
}

static void test_ranges(void **state)
{
    int fd = make_file(3, F_SEAL_SHRINK);
    struct mem_region askew = region(8, 64, 0);
    struct mem_mapping map = {0};

    assert_int_equal(try(fd, 0, 3 * page, 0), 0);
    assert_int_equal(try(fd, 3 * page - 1, 1, 0), 0);
    assert_int_equal(try(fd, 0, 3 * page + 1, 0), -ERANGE);
    assert_int_equal(try(fd, page, 2 * page + 1, 0), -ERANGE);
    assert_int_equal(try(fd, 3 * page, 1, 0), -ERANGE);
    assert_int_equal(try(fd, 0, 0, 0), -EINVAL);
    assert_int_equal(try(fd, UINT64_MAX - page + 1, page, 0), -EOVERFLOW);
    assert_int_equal(try(fd, page, UINT64_MAX - page + 1, 0), -EOVERFLOW);
    assert_int_equal(try(fd, page, UINT64_MAX, 0), -EOVERFLOW);
    assert_int_equal(try(fd, INT64_MAX, 1, 0), -EOVERFLOW);
    assert_int_equal(try(fd, INT64_MAX - 1, 1, 0), -ERANGE);
    assert_int_equal(map_whole(&map, &askew, fd, 16, 0), -EINVAL);
    assert_null(askew.direct);
    assert_int_equal(ftruncate(fd, (off_t)(5 * page)), 0); /* growing is allowed */
    assert_int_equal(try(fd, page, 4 * page, 0), 0);
    close(fd);
}

static void test_not_a_memory_file(void **state)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(try(ends[0], 0, 1, 0), -EINVAL);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(try(ends[0], 0, 1, 0), -EBADF);
    assert_int_equal(try(-1, 0, 1, 0), -EBADF);
}

static int reopen(int fd, int flags)
{
    char path[64];
    int again;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, flags | O_CLOEXEC);
    assert_true(again >= 0);
    return again;
}

static void test_writing(void **state)
{
    static const uint32_t kinds[] = {MEM_LOCAL_WRITE, MEM_REMOTE_WRITE, MEM_REMOTE_ATOMIC};
    int fd = make_file(1, F_SEAL_SHRINK), sealed = make_file(1, F_SEAL_SHRINK | F_SEAL_WRITE);
    int future = make_file(1, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
    int readable = reopen(fd, O_RDONLY), writable = reopen(fd, O_WRONLY);

    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(try(fd, 0, page, kinds[i]), 0);
        assert_int_equal(try(readable, 0, page, kinds[i]), -EACCES);
        assert_int_equal(try(sealed, 0, page, kinds[i]), -EACCES);
        assert_int_equal(try(future, 0, page, kinds[i]), -EACCES);
        assert_int_equal(try(writable, 0, page, kinds[i]), -EACCES);
    }
    assert_int_equal(try(readable, 0, page, MEM_REMOTE_READ), 0);
    assert_int_equal(try(sealed, 0, page, MEM_REMOTE_READ), 0);
    assert_int_equal(try(future, 0, page, MEM_REMOTE_READ), 0);
    assert_int_equal(try(writable, 0, page, MEM_REMOTE_READ), -EACCES);
    close(fd);
    close(sealed);
    close(future);
    close(readable);
    close(writable);
}

static void test_huge_pages(void **state)
{
    int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    struct mem_region mr = region(page, 64, MEM_LOCAL_WRITE);
    struct mem_mapping map = {0};
    struct stat st;
    int err;

    if (fd < 0)
        skip(); /* a kernel without them */
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(ftruncate(fd, st.st_blksize), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(map_whole(&map, &mr, fd, page, 0), -EOPNOTSUPP);
    err = map_whole(&map, &mr, fd, page, MEM_MAP_TRUSTED);
    if (err) {
        assert_int_equal(err, -ENOMEM); /* none configured */
    } else {
        assert_int_equal(map.len, st.st_blksize);
        memset(mr.direct, 1, 64);
    }
    mem_unmap(&map, &mr);
    close(fd);
}

/* Side by side, whatever their order in the file. */
static void test_pieces(void **state)
{
    int fd = make_file(8, F_SEAL_SHRINK);
    struct mem_region mr = region(24, 3 * page, MEM_LOCAL_WRITE);
    struct mem_mapping map = {0};
    const struct mem_piece good[] = {
        {5 * page + 24, page - 24}, {page, page}, {3 * page, page + 24}};
    struct {
        struct mem_piece piece[3];
        unsigned n;
        int err;
    } bad[] = {
        {{{24, 3 * page}}, 0, -EINVAL},                             /* none */
        {{{24, page}, {page, page}}, 2, -EINVAL},                   /* too short */
        {{{24, 2 * page}, {page, 2 * page}}, 2, -EINVAL},           /* too long */
        {{{24, UINT64_MAX}, {page, 2}}, 2, -EINVAL},                /* wraps */
        {{{24, 0}, {24, 3 * page}}, 2, -EINVAL},                    /* empty */
        {{{24, page}, {2 * page + 24, 2 * page}}, 2, -EINVAL},      /* not at a page */
        {{{25, page - 24}, {page, 2 * page + 24}}, 2, -EINVAL},     /* other offset */
        {{{24, page - 24}, {7 * page, 2 * page + 24}}, 2, -ERANGE}, /* past the end */
        {{{24, page - 24}, {(uint64_t)INT64_MAX + 1, 2 * page + 24}}, 2, -EOVERFLOW},
    };
    struct mem_batch batch = {0};
    char byte;

    assert_int_equal(mem_map(&map, &mr, fd, good, 3, 0), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_true(mem_batch_out(&batch, &mr, APP_BASE + i * page + 100, &"abc"[i], 1, 0));
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pread(fd, &byte, 1, (off_t)(good[i].offset / page * page + 100)), 1);
        assert_int_equal(byte, 'a' + (int)i);
    }
    mem_unmap(&map, &mr);
    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(mem_map(&map, &mr, fd, bad[i].piece, bad[i].n, 0), bad[i].err);
        assert_null(mr.direct);
        assert_null(map.base);
    }
    close(fd);
}

/* A large page of the file can be one of ours. */
static void test_alignment(void **state)
{
    const uint64_t large = UINT64_C(2) << 20;
    int fd = make_file((unsigned)(3 * large / 4096), F_SEAL_SHRINK);
    struct mem_region mr = region(5 * page + 8, 2 * large, MEM_LOCAL_WRITE);
    const struct mem_piece piece[] = {{5 * page + 8, large - 8}, {7 * page, large + 8}};
    struct mem_mapping map = {0};
    struct mem_batch batch = {0};
    char byte = 0;

    assert_int_equal(map_whole(&map, &mr, fd, 5 * page + 8, 0), 0);
    assert_int_equal((uintptr_t)mr.direct % large, 5 * page + 8);
    assert_true(mem_batch_out(&batch, &mr, mr.addr + mr.len - 1, "x", 1, 0));
    assert_int_equal(pread(fd, &byte, 1, (off_t)(5 * page + 8 + mr.len - 1)), 1);
    assert_int_equal(byte, 'x');
    mem_unmap(&map, &mr);
    assert_int_equal(mem_map(&map, &mr, fd, piece, 2, 0), 0);
    assert_int_equal((uintptr_t)mr.direct % large, 5 * page + 8);
    assert_true(mem_batch_out(&batch, &mr, mr.addr + large, "y", 1, 0));
    assert_int_equal(pread(fd, &byte, 1, (off_t)(7 * page + 8)), 1);
    assert_int_equal(byte, 'y');
    mem_unmap(&map, &mr);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seals),
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_not_a_memory_file),
        cmocka_unit_test(test_writing),
        cmocka_unit_test(test_huge_pages),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_not_in_core_files),
    };

    return cmocka_run_group_tests_name("mem_mapped", tests, NULL, NULL);
}
