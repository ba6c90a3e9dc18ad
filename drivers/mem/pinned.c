/* SPDX-License-Identifier: BSD-3-Clause */
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

typedef ssize_t (*transfer_fn)(int fd, const struct iovec *iov, int n, off_t offset);

/* How many of the n transfers, from the first on, are side by side: one call does these. */
static unsigned run_of(const struct mem_io *io, unsigned n)
{
    unsigned run = 1;

    while (run < n && run < RANGES_MAX && ranges_follow(&io[run - 1], &io[run]))
        run++;
    return run;
}

/* Bytes moved, 0 when the memory has no process left, or -1: the first byte is bad. */
static ssize_t transfer_run(struct mem_pinned_space *space, const struct mem_io *io, unsigned n,
                            uint64_t skip, transfer_fn transfer)
{
    struct iovec local[RANGES_MAX];
    ssize_t moved;

    for (unsigned i = 0; i < n; i++)
        local[i] = ranges_local(&io[i], i ? 0 : skip);
    do {
        if (atomic_load_explicit(&space->gone, memory_order_relaxed))
            return 0;
        moved = transfer(space->fd, local, (int)n, (off_t)(io->addr + skip));
    } while (moved < 0 && errno == EINTR);
    return moved;
}

/* The kernel stops short at a bad page; only the next call, which moves nothing, says so. Addresses
 * beyond the offsets that there are (EINVAL) are bad as well. */
static void transfer_all(struct mem_pinned_space *space, struct mem_io *io, unsigned n,
                         transfer_fn transfer)
{
    uint64_t skip = 0;

    mem_freeze_wait(&space->freeze);
    mem_heat_count(&space->heat, io, n);
    while (n) {
        unsigned run = run_of(io, n), over = 1;
        ssize_t moved = io->len ? transfer_run(space, io, run, skip, transfer) : 0;

        if (moved > 0 || !io->len) {
            over = ranges_complete(io, run, (uint64_t)moved, &skip);
        } else {
            io->status = moved ? -EFAULT : -ESRCH;
            skip = 0;
        }
        io += over;
        n -= over;
    }
}

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    transfer_all(space, io, n, preadv);
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    transfer_all(space, io, n, pwritev);
}

static int copy_atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                       uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    return mem_copied_atomic(&mem_pinned_backend, space, mr, addr, op, swap_add, compare, old);
}

const struct mem_backend mem_pinned_backend = {
    .name = "pinned",
    .copy_in = copy_in,
    .copy_out = copy_out,
    .atomic = copy_atomic,
};

/* ---- opening ---- */

/* What went wrong with a file of a /proc/PID: without the process there are no files. */
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
 * Capabilities are refused like a foreign id: the kernel lets nobody trace a process that has more
 * of them, and a program that has them by its file may have made itself dumpable.
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
 * Whether the process is peer's and nobody else's. The ids before the owner of the files: a process
 * that takes up other ids stops being dumpable first, so that whoever sees the new ids sees that
 * too. The directory itself belongs to the user in any case; "mem" belongs to root when the process
 * is not dumpable, and is looked up anew because an open descriptor's owner may be outdated.
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
 * First the memory, then whose it is. If the process executes another program after the open, the
 * descriptor is of memory that nobody uses any more, so whatever the check then sees does no harm;
 * if it did so before, the check sees the process with the program whose memory was opened. The
 * other way round it could turn into a set-uid program between a check that it passes and the open.
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
    /* All through one directory, which stays with this process though its pid be given anew. */
    dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return proc_error();
    fd = open_checked(dir, peer);
    close(dir);
    if (fd < 0)
        return fd;
    space->fd = fd;
    atomic_init(&space->gone, false);
    space->freeze = (struct mem_freeze){0};
    space->heat = (struct mem_heat){0};
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
