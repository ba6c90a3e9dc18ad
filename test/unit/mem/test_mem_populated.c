/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the pages of a file exist, and what the question costs: mincore,
 * lseek and sched_yield are this program's, and count. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"
#include "populated.h"
#include "unit.h"

#define PAGES    3000u /* of a region: several parts, and one that is not whole */
#define APP_BASE UINT64_C(0x7f1234560000)

static size_t page;

static struct {
    uint64_t pages, most; /* looked at by mincore, by one call */
    uint64_t stretch;     /* the most without sched_yield */
    uint64_t since_yield;
    unsigned seeks;        /* SEEK_HOLE */
    uint64_t first_sought; /* the page where the first began */
} asked;

int mincore(void *start, size_t len, unsigned char *in_memory)
{
    uint64_t pages = round_up(len, page) / page;

    asked.pages += pages;
    asked.most = max_of(asked.most, pages);
    asked.since_yield += pages;
    asked.stretch = max_of(asked.stretch, asked.since_yield);
    return (int)syscall(SYS_mincore, start, len, in_memory);
}

int sched_yield(void)
{
    asked.since_yield = 0;
    return 0;
}

off_t lseek(int fd, off_t offset, int whence)
{
    if (whence == SEEK_HOLE && !asked.seeks++)
        asked.first_sought = (uint64_t)offset / page;
    return syscall(SYS_lseek, fd, offset, whence);
}

/* A sealed file of `pages` pages, and all exist. */
static int make_file(unsigned pages)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    page = (size_t)sysconf(_SC_PAGESIZE);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < pages; i++)
        assert_int_equal(pwrite(fd, "", 1, (off_t)(i * page)), 1);
    assert_int_equal(ftruncate(fd, (off_t)(pages * page)), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    return fd;
}

static void punch(int fd, unsigned at)
{
    assert_int_equal(
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(at * page), (off_t)page),
        0);
}

/* Asks for a region of these pieces. */
static bool ask(int fd, const struct mem_piece *piece, unsigned n)
{
    struct mem_region mr = {.addr = APP_BASE + piece[0].offset % page, .access = MEM_LOCAL_WRITE};
    struct mem_mapping map = {0};
    bool populated;

    for (unsigned i = 0; i < n; i++)
        mr.len += piece[i].len;
    assert_int_equal(mem_map(&map, &mr, fd, piece, n, 0), 0);
    memset(&asked, 0, sizeof(asked));
    populated = mem_is_populated(&map, fd, piece, n);
    mem_unmap(&map, &mr);
    return populated;
}

/* A program that registers a large region again and again takes no time of the daemon's. */
static void test_whole_file(void **state)
{
    int fd = make_file(PAGES);

    assert_true(ask(fd, &(struct mem_piece){0, PAGES * page}, 1));
    assert_int_equal(asked.pages, 0);
    assert_int_equal(asked.seeks, 0);
    close(fd);
}

/* A hole elsewhere in the file: the region's pages are looked at, few at a time. */
static void test_parts(void **state)
{
    int fd = make_file(PAGES + 1);

    punch(fd, PAGES);
    assert_true(ask(fd, &(struct mem_piece){0, PAGES * page}, 1));
    assert_int_equal(asked.pages, PAGES);
    assert_in_range(asked.most, 1, MEM_POPULATED_PAGES);
    assert_in_range(asked.stretch, 1, MEM_POPULATED_YIELD);
    assert_true(ask(fd, &(struct mem_piece){100, (PAGES - 1) * page}, 1));
    assert_int_equal(asked.pages, PAGES);
    assert_int_equal(asked.seeks, 0);
    close(fd);
}

/* The kernel is asked for a hole where a page is missing, and not from the start. */
static void test_hole(void **state)
{
    int fd = make_file(PAGES);

    punch(fd, PAGES - 1);
    assert_false(ask(fd, &(struct mem_piece){0, PAGES * page}, 1));
    assert_int_equal(asked.seeks, 1);
    assert_int_equal(asked.first_sought, PAGES - 1);
    assert_false(ask(fd, &(struct mem_piece){0, (PAGES - 1) * page + 1}, 1));
    assert_true(ask(fd, &(struct mem_piece){0, (PAGES - 1) * page}, 1));
    punch(fd, 0);
    assert_false(ask(fd, &(struct mem_piece){page - 1, page}, 1));
    assert_int_equal(asked.first_sought, 0);
    assert_int_equal(asked.pages, 2);
    close(fd);
}

/* Pages beyond the end of the file are none of its. */
static void test_beyond_the_end(void **state)
{
    int fd = make_file(2);

    assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)(2 * page), (off_t)(2 * page)), 0);
    punch(fd, 1);
    assert_false(ask(fd, &(struct mem_piece){0, 2 * page}, 1));
    close(fd);
}

/* The pieces' order is the region's, not the file's. */
static void test_pieces(void **state)
{
    struct mem_piece piece[2];
    int fd = make_file(8);

    piece[0] = (struct mem_piece){6 * page + 8, 2 * page - 8};
    piece[1] = (struct mem_piece){1 * page, page + 1};
    punch(fd, 0);
    punch(fd, 5);
    assert_true(ask(fd, piece, 2));
    assert_int_equal(asked.pages, 4);
    punch(fd, 2);
    assert_false(ask(fd, piece, 2));
    assert_int_equal(asked.first_sought, 2);
    punch(fd, 7);
    assert_false(ask(fd, piece, 2));
    assert_int_equal(asked.first_sought, 7);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_file), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_hole),       cmocka_unit_test(test_beyond_the_end),
        cmocka_unit_test(test_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
