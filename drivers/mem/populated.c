/* SPDX-License-Identifier: BSD-3-Clause */
/* See populated.h. */
#include "populated.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

#define STAT_BLOCK 512

static bool has_all_pages(int fd, uint64_t page)
{
    struct stat st;

    return !fstat(fd, &st) &&
           (uint64_t)st.st_blocks * STAT_BLOCK == round_up((uint64_t)st.st_size, page);
}

/* The bytes from base on that are in memory, and so exist: up to a page that is not, or len. */
static uint64_t resident_bytes(uint8_t *base, uint64_t len, uint64_t page)
{
    unsigned char in_memory[MEM_POPULATED_PAGES];

    for (uint64_t done = 0; done < len;) {
        uint64_t part = min_of(len - done, MEM_POPULATED_PAGES * page);

        if (mincore(base + done, part, in_memory))
            return done;
        for (uint64_t i = 0; i * page < part; i++)
            if (!(in_memory[i] & 1))
                return done + i * page;
        done += part;
        if (done % (MEM_POPULATED_YIELD * page) == 0)
            sched_yield(); /* the kernel may let a thread that wakes up wait for 4 ms */
    }
    return len;
}

/* The file is opened again because its position is shared with the application. */
static bool has_no_hole(int fd, uint64_t start, uint64_t end)
{
    char path[32];
    off_t hole;
    int own;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    own = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (own < 0)
        return false;
    hole = lseek(own, (off_t)start, SEEK_HOLE);
    close(own);
    return hole >= 0 && (uint64_t)hole >= end;
}

/* SEEK_HOLE looks at a GiB for 40 ms with one call, and so begins where a page is not in memory: a
 * hole is found at once, and only what is swapped out is passed over. */
bool mem_is_populated(const struct mem_mapping *map, int fd, const struct mem_piece *piece,
                      unsigned n)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint8_t *base = map->base;

    if (has_all_pages(fd, page))
        return true;
    for (unsigned i = 0; i < n; i++) {
        uint64_t start = piece[i].offset / page * page;
        uint64_t end = round_up(piece[i].offset + piece[i].len, page);
        uint64_t there = resident_bytes(base, end - start, page);

        if (there < end - start && !has_no_hole(fd, start + there, piece[i].offset + piece[i].len))
            return false;
        base += end - start;
    }
    return true;
}
