/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers through /proc/PID/mem, and the checks of its owner: see pinned.h. */
#include "pinned.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic.h"
#include "ranges.h"

/* ---- transfers ---- */

/* How many of the n transfers, from the first on, are adjacent in the application. */
static unsigned count_adjacent(const struct mem_io *io, unsigned n)
{
    unsigned adjacent = 1;

    while (adjacent < n && adjacent < RANGES_MAX && ranges_follow(&io[adjacent - 1], &io[adjacent]))
        adjacent++;
    return adjacent;
}

/* One call for adjacent transfers. It moves nothing if no process has the memory any more. All
 * errors mean that the first byte is bad: EINVAL is an address beyond the largest file offset. */
static ssize_t call_kernel(void *arg, const struct mem_io *io, unsigned *n, uint64_t skip, bool out)
{
    struct mem_pinned_space *space = arg;
    struct iovec local[RANGES_MAX];
    ssize_t moved = 0;
    unsigned ranges;

    *n = count_adjacent(io, *n);
    if (!io->len)
        return 0;
    ranges = ranges_local(local, io, *n, skip);
    do {
        if (atomic_load_explicit(&space->gone, memory_order_relaxed))
            moved = 0;
        else
            moved =
                (out ? pwritev : preadv)(space->fd, local, (int)ranges, (off_t)(io->addr + skip));
    } while (moved < 0 && errno == EINTR);
    if (moved > 0)
        return moved;
    *n = 1;
    return moved ? -EFAULT : -ESRCH;
}

static void copy_in(void *arg, struct mem_io *io, unsigned n)
{
    struct mem_pinned_space *space = arg;

    ranges_transfer(space, &space->freeze, &space->heat, io, n, call_kernel, false);
}

static void copy_out(void *arg, struct mem_io *io, unsigned n)
{
    struct mem_pinned_space *space = arg;

    ranges_transfer(space, &space->freeze, &space->heat, io, n, call_kernel, true);
}

static int copy_atomic(void *arg, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                       uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    struct mem_pinned_space *space = arg;

    return mem_copied_atomic(&mem_pinned_backend, space, &space->heat, &space->life.atomics, mr,
                             addr, op, swap_add, compare, old);
}

static void hold_space(void *arg)
{
    struct mem_pinned_space *space = arg;

    mem_life_hold(&space->life);
}

static void release_space(void *arg)
{
    struct mem_pinned_space *space = arg;

    mem_life_release(&space->life);
}

static _Atomic unsigned *late_calls(void *arg)
{
    struct mem_pinned_space *space = arg;

    return &space->life.late;
}

static int pid_of(const void *arg)
{
    const struct mem_pinned_space *space = arg;

    return space->pid;
}

static int user_of(const void *arg)
{
    const struct mem_pinned_space *space = arg;

    return space->life.user;
}

const struct mem_backend mem_pinned_backend = {
    .name = "pinned",
    .copy_in = copy_in,
    .copy_out = copy_out,
    .atomic = copy_atomic,
    .hold = hold_space,
    .release = release_space,
    .late = late_calls,
    .pid = pid_of,
    .user = user_of,
};

/* ---- opening ---- */

/* The error of an access to a file of /proc/PID. Without the process its files do not exist. */
static int proc_error(void)
{
    return errno == ENOENT ? -ESRCH : errno == EACCES ? -EPERM : -errno;
}

/* Whether the four ids of a "Uid:" or "Gid:" line are all `id`. */
static bool ids_are(const char *values, unsigned id)
{
    unsigned v[4];

    return sscanf(values, "%u %u %u %u", &v[0], &v[1], &v[2], &v[3]) == 4 && v[0] == id &&
           v[1] == id && v[2] == id && v[3] == id;
}

/*
 * Capabilities are refused like a foreign id: the kernel forbids a process to trace one that has
 * more of them, and a program that gets capabilities from its file may have made itself dumpable.
 */
static int check_status(FILE *status, const struct ucred *peer)
{
    unsigned good = 0;
    uint64_t capabilities;
    char *line = NULL;
    size_t size = 0;

    while (getline(&line, &size, status) > 0) {
        good += !strncmp(line, "Uid:", 4) && ids_are(line + 4, peer->uid);
        good += !strncmp(line, "Gid:", 4) && ids_are(line + 4, peer->gid);
        good += sscanf(line, "CapPrm: %" SCNx64, &capabilities) == 1 && !capabilities;
    }
    free(line);
    return good == 3 ? 0 : -EPERM;
}

/*
 * Whether the process is peer's alone. The ids are read before the owner of the files: a process
 * that changes its ids first stops being dumpable, so a reader that sees the new ids also sees
 * that. The directory always belongs to the user, but "mem" belongs to root if the process is not
 * dumpable. "mem" is looked up again because the owner of an open descriptor may be outdated.
 */
static int check_process(int dir, const struct ucred *peer)
{
    int fd = openat(dir, "status", O_RDONLY | O_CLOEXEC), err;
    struct stat st;
    FILE *status;

    if (fd < 0)
        return proc_error();
    status = fdopen(fd, "r");
    if (!status) {
        close(fd);
        return -ENOMEM;
    }
    err = check_status(status, peer);
    fclose(status);
    if (err)
        return err;
    if (fstatat(dir, "mem", &st, 0))
        return proc_error();
    return st.st_uid == peer->uid && st.st_gid == peer->gid ? 0 : -EPERM;
}

/*
 * Opens the memory first and checks its owner then. If the process executes another program after
 * the open, the descriptor refers to memory that no process uses any more, and every result of the
 * check is harmless. If it did so before the open, the check sees the program whose memory was
 * opened. In the other order the process could execute a set-uid program between the check and the
 * open.
 */
static int open_checked(int dir, const struct ucred *peer)
{
    int fd = openat(dir, "mem", O_RDWR | O_CLOEXEC), err;

    if (fd < 0)
        return proc_error();
    err = check_process(dir, peer);
    if (err) {
        close(fd);
        return err;
    }
    return fd;
}

int mem_pinned_space_open(struct mem_pinned_space *space, const struct ucred *peer)
{
    char path[32];
    int dir, fd;

    if (peer->pid <= 0)
        return -EINVAL;
    snprintf(path, sizeof(path), "/proc/%d", (int)peer->pid);
    /* All accesses go through one directory, which stays with this process even if the kernel
     * reuses its pid. */
    dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return proc_error();
    fd = open_checked(dir, peer);
    close(dir);
    if (fd < 0)
        return fd;
    space->fd = fd;
    space->pid = peer->pid;
    atomic_init(&space->gone, false);
    space->freeze = (struct mem_freeze){0};
    space->heat = (struct mem_heat){0};
    mem_life_begin(&space->life);
    return 0;
}

void mem_pinned_space_close(struct mem_pinned_space *space)
{
    close(space->fd);
    space->fd = -1;
}

void mem_pinned_space_mark_gone(struct mem_pinned_space *space)
{
    atomic_store_explicit(&space->gone, true, memory_order_relaxed);
}
