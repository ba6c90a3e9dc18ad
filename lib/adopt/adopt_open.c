/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptors that adoption needs: a userfaultfd, a sealed memfd, two files of /proc. */
#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "adopt_state.h"
#include "file_limit.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#define HELD_MAX 131072

struct adopt_state adopt = {.memfd = -1, .uffd = -1, .maps = -1, .pagemap = -1};

/* ---- tools that watch the program's memory ---- */

extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));
extern void __hwasan_init(void) __attribute__((weak));

/* Not where this library is built so, too: its tests are to see races with the thread that moves
 * pages. In another program the sanitizer would report what it does not see of the library. */
static bool is_watched_for_races(void)
{
#ifdef __SANITIZE_THREAD__
    return false;
#else
    return __tsan_init;
#endif
}

#ifdef UROCE_FUZZ
/* The fuzz target moves mappings of its own alone, in which a sanitizer tracks nothing. */
extern const bool adopt_is_fuzzed __attribute__((weak));
#endif

/* By valgrind, which runs one thread at a time, and would never return to the one that moves the
 * pages; or by a sanitizer. */
static bool is_memory_watched(void)
{
    const char *preload = getenv("LD_PRELOAD");

#ifdef UROCE_FUZZ
    if (&adopt_is_fuzzed)
        return false;
#endif
    return (preload && strstr(preload, "vgpreload")) || is_watched_for_races() || __asan_init ||
           __msan_init || __hwasan_init;
}

/* ---- descriptors ---- */

#define MAPS 2

static int *descriptor_at(unsigned i)
{
    int *const all[] = {&adopt.memfd, &adopt.uffd, [MAPS] = &adopt.maps, &adopt.pagemap};

    return all[i];
}

static void remember_identities(void)
{
    struct stat st;

    for (unsigned i = 0; i < ARRAY_SIZE(adopt.identity); i++) {
        if (*descriptor_at(i) >= 0 && !fstat(*descriptor_at(i), &st)) {
            adopt.identity[i].dev = st.st_dev;
            adopt.identity[i].ino = st.st_ino;
        }
    }
}

/* Whether the program has closed a descriptor: its number may now name another file. */
static bool is_lost(unsigned i)
{
    struct stat st;

    return fstat(*descriptor_at(i), &st) || st.st_dev != adopt.identity[i].dev ||
           st.st_ino != adopt.identity[i].ino;
}

int adopt_maps(void)
{
    return adopt.maps >= 0 && !is_lost(MAPS) ? adopt.maps : -1;
}

/* Forgets descriptors that the program has closed: what their numbers now name is not ours to
 * close. Whether there was one. */
static bool forget_lost_descriptors(void)
{
    bool lost = false;

    for (unsigned i = 0; i < ARRAY_SIZE(adopt.identity); i++) {
        int *fd = descriptor_at(i);

        if (*fd < 0 || !is_lost(i))
            continue;
        *fd = -1;
        lost = true;
    }
    return lost;
}

int adopt_new_memfd(void)
{
    long err;
    int fd;

    if (!file_limit_allows(FILE_BYTES))
        return -EFBIG;
    fd = (int)RAW(memfd_create, ADOPT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL, 0, 0,
                  0, 0);
    if (fd == -EINVAL)
        fd = (int)RAW(memfd_create, ADOPT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0, 0, 0, 0);
    if (fd < 0)
        return fd;
    err = RAW(ftruncate, fd, FILE_BYTES, 0, 0, 0, 0);
    if (!err)
        err = RAW(fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 0, 0, 0);
    if (err) {
        raw_close(fd);
        return (int)err;
    }
    raw_close(adopt.memfd);
    adopt.memfd = fd;
    adopt.slot_next = SLOTS_BEGIN;
    adopt.slots_again = false;
    adopt.has_views = false;
    remember_identities();
    return 0;
}

static enum ctl_mr_why open_all(void)
{
    enum ctl_mr_why why = CTL_MR_ADOPTED;

    if (adopt.uffd < 0)
        why = uffd_open();
    if (why != CTL_MR_ADOPTED)
        return why;
    if (adopt.maps < 0)
        adopt.maps = (int)raw_open("/proc/self/maps", O_RDONLY);
    if (adopt.pagemap < 0)
        adopt.pagemap = (int)raw_open("/proc/self/pagemap", O_RDONLY);
    if (adopt.maps < 0 || adopt.pagemap < 0)
        return CTL_MR_KERNEL;
    if (adopt.memfd < 0 && adopt_new_memfd())
        return CTL_MR_KERNEL;
    remember_identities();
    return CTL_MR_ADOPTED;
}

bool adopt_lost(void)
{
    if (adopt.usable != CTL_MR_ADOPTED || !forget_lost_descriptors() || adopt.memfd >= 0)
        return false;
    return adopt.held.used;
}

enum ctl_mr_why adopt_reopen(void)
{
    forget_lost_descriptors();
    return open_all();
}

void adopt_close(void)
{
    forget_lost_descriptors();
    for (unsigned i = 0; i < ARRAY_SIZE(adopt.identity); i++) {
        raw_close(*descriptor_at(i));
        *descriptor_at(i) = -1;
    }
}

static unsigned map_limit(void)
{
    char text[32];
    int n;

    raw_read_text("/proc/sys/vm/max_map_count", text, sizeof(text));
    n = atoi(text);
    return (unsigned)(n > 0 ? n : 65530) / 2;
}

static enum ctl_mr_why try_init(void)
{
    enum ctl_mr_why why;

    if (is_memory_watched())
        return CTL_MR_TOOL;
    if (!ADOPT_KNOWN_CPU || adopt.page < 4096 || adopt.page > GUARDED_WINDOW)
        return CTL_MR_KERNEL;
    why = open_all();
    if (why != CTL_MR_ADOPTED)
        return why;
    if (interval_init(&adopt.held, HELD_MAX) || interval_init(&adopt.copied, HELD_MAX))
        return CTL_MR_NO_MEMORY;
    adopt_alloc_init();
    adopt.vmas_max = map_limit();
    adopt.vmas = vma_count();
    return CTL_MR_ADOPTED;
}

enum ctl_mr_why adopt_init(const struct adopt_config *config)
{
    if (adopt.usable != CTL_MR_UNKNOWN)
        return adopt.usable;
    adopt.config = *config;
    adopt.pid = getpid();
    adopt.page = (uint64_t)sysconf(_SC_PAGESIZE);
    adopt.usable = try_init();
    return adopt.usable;
}

uint64_t adopt_locked_kb(void)
{
    char text[4096];
    const char *line;

    raw_read_text("/proc/self/status", text, sizeof(text));
    line = strstr(text, "\nVmLck:");
    return line ? strtoull(line + 7, NULL, 10) : 0;
}

bool adopt_is_ours(const struct vma *v)
{
    return v->shared && adopt_is_of_memfd(v);
}

bool adopt_is_of_memfd(const struct vma *v)
{
    return adopt.memfd >= 0 && v->ino == adopt.identity[0].ino &&
           makedev(v->major_dev, v->minor_dev) == adopt.identity[0].dev;
}
