/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registers shared memory of each kind, moves bytes to and from it, and prints "KIND ADDRESS" while
 * the region is registered, until a line arrives. A kind that this system or this user cannot have
 * is printed without an address. Run by run_shared_memory.py.
 *
 * usage: test_shared_memory FOLDER-ON-DISK
 *        test_shared_memory truncated | number | locks | end | gone
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

#define BYTES  (2u << 20) /* one huge page */
#define LEN    3000u
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct pair p;
static const char *folder;

/* ---- the kinds: the memory, or MAP_FAILED ---- */

static uint8_t *map_file(int fd)
{
    return mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

/* fd: as it was made, and empty; it stays open. */
static uint8_t *sized(int fd)
{
    return fd < 0 || ftruncate(fd, BYTES) ? MAP_FAILED : map_file(fd);
}

static uint8_t *closed(int fd)
{
    uint8_t *at = sized(fd);

    close(fd);
    return at;
}

static uint8_t *sealed_memfd(void)
{
    int fd = memfd_create("kind", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    return map_file(fd);
}

static uint8_t *memfd(void)
{
    return sized(memfd_create("kind", MFD_CLOEXEC));
}

/* The kernel joins no mappings whose flags differ. */
static uint8_t *memfd_in_parts(void)
{
    uint8_t *at = memfd();

    assert_int_equal(madvise(at + BYTES / 2, BYTES / 2, MADV_DONTDUMP), 0);
    return at;
}

static uint8_t *memfd_in_disorder(void)
{
    int fd = memfd_create("kind", MFD_CLOEXEC);
    uint8_t *at = sized(fd);

    assert_true(
        mmap(at, BYTES / 2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, BYTES / 2) == at);
    return at;
}

static uint8_t *closed_memfd(void)
{
    return closed(memfd_create("kind", MFD_CLOEXEC));
}

static uint8_t *huge_memfd(void)
{
    return sized(memfd_create("kind", MFD_CLOEXEC | MFD_HUGETLB));
}

static int posix_object(const char *name)
{
    return shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
}

/* As most programs do: the mapping is all that they keep until the end. */
static char kept[64];

static uint8_t *posix_by_name(void)
{
    snprintf(kept, sizeof(kept), "/uroce-test-%d", getpid());
    return closed(posix_object(kept));
}

static uint8_t *posix_without_name(void)
{
    char name[64];
    int fd;

    snprintf(name, sizeof(name), "/uroce-test-unlinked-%d", getpid());
    fd = posix_object(name);
    shm_unlink(name);
    return sized(fd);
}

static uint8_t *system_v(int flags)
{
    int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600 | flags);
    uint8_t *at = id < 0 ? MAP_FAILED : shmat(id, NULL, 0);

    shmctl(id, IPC_RMID, NULL);
    return at;
}

static uint8_t *system_v_small(void)
{
    return system_v(0);
}

static uint8_t *system_v_huge(void)
{
    return system_v(SHM_HUGETLB);
}

static uint8_t *anonymous(void)
{
    return mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static uint8_t *on_disk(void)
{
    return sized(open(folder, O_RDWR | O_TMPFILE, 0600));
}

static const struct {
    const char *name;
    uint8_t *(*make)(void);
} kinds[] = {
    {"sealed_memfd", sealed_memfd},     {"memfd", memfd},
    {"memfd_in_parts", memfd_in_parts}, {"memfd_in_disorder", memfd_in_disorder},
    {"closed_memfd", closed_memfd},     {"huge_memfd", huge_memfd},
    {"posix_by_name", posix_by_name},   {"posix_without_name", posix_without_name},
    {"system_v", system_v_small},       {"system_v_huge", system_v_huge},
    {"anonymous", anonymous},           {"on_disk", on_disk},
};

/* ---- */

static enum ibv_wc_status request(enum ibv_wr_opcode op, struct side *to)
{
    struct ibv_wc wc;

    assert_int_equal(post_send(&p.a, op, to, 0, LEN, 1), 0);
    await(p.cq, &wc, 1);
    return wc.status;
}

/* The program finds what a WRITE brought, and a READ what the program wrote. */
static void check_bytes(struct side *remote)
{
    memset(p.a.buffer, 0x5A, LEN);
    assert_int_equal(request(IBV_WR_RDMA_WRITE, remote), IBV_WC_SUCCESS);
    assert_memory_equal(remote->buffer, p.a.buffer, LEN);
    memset(remote->buffer, 0xA5, LEN);
    assert_int_equal(request(IBV_WR_RDMA_READ, remote), IBV_WC_SUCCESS);
    assert_memory_equal(remote->buffer, p.a.buffer, LEN);
}

static void wait_for_line(void)
{
    char line[16];

    fflush(stdout);
    assert_non_null(fgets(line, sizeof(line), stdin));
}

static void try_kind(unsigned i)
{
    struct side remote = {.qp = p.b.qp, .buffer = kinds[i].make()};

    if (remote.buffer == MAP_FAILED) {
        printf("%s\n", kinds[i].name);
        return;
    }
    remote.mr = ibv_reg_mr(p.pd, remote.buffer, BYTES, ACCESS);
    assert_non_null(remote.mr);
    check_bytes(&remote);
    printf("%s 0x%jx\n", kinds[i].name, (uintmax_t)(uintptr_t)remote.buffer);
    wait_for_line();
    assert_int_equal(ibv_dereg_mr(remote.mr), 0);
    check_bytes(&p.b);
}

/* The file becomes shorter under the daemon: the request fails, and so does the queue pair. */
static void shorten(const char *name, unsigned flags)
{
    int fd = memfd_create("truncated", MFD_CLOEXEC | flags);
    struct side remote = {.qp = p.b.qp, .buffer = sized(fd)};

    if (remote.buffer == MAP_FAILED)
        return;
    remote.mr = ibv_reg_mr(p.pd, remote.buffer, BYTES, ACCESS);
    assert_non_null(remote.mr);
    check_bytes(&remote);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_not_equal(request(IBV_WR_RDMA_WRITE, &remote), IBV_WC_SUCCESS);
    printf("%s\n", name);
    modify_state(p.a.qp, IBV_QPS_RESET);
    modify_state(p.b.qp, IBV_QPS_RESET);
    pair_reconnect(&p);
    check_bytes(&p.b);
    assert_int_equal(ibv_dereg_mr(remote.mr), 0);
    close(fd);
}

static void truncated(void)
{
    shorten("small", 0);
    shorten("huge", MFD_HUGETLB);
}

static bool next_identifier(uintmax_t id)
{
    FILE *file = fopen("/proc/sys/kernel/shm_next_id", "w");
    bool written;

    if (!file)
        return false;
    written = fprintf(file, "%ju", id) > 0;
    return !fclose(file) && written;
}

/* System V memory whose identifier is the number of a memfd's inode, on the same file system. */
static void number(void)
{
    struct side remote = {.qp = p.b.qp};
    int fd = memfd_create("other", MFD_CLOEXEC);
    uint8_t *other = sized(fd);
    struct stat st;

    assert_true(other != MAP_FAILED);
    memset(other, 0, BYTES); /* the daemon maps no file with holes */
    assert_int_equal(fstat(fd, &st), 0);
    if (!next_identifier(st.st_ino)) {
        printf("skipped\n");
        return;
    }
    remote.buffer = system_v_small();
    assert_true(remote.buffer != MAP_FAILED);
    remote.mr = ibv_reg_mr(p.pd, remote.buffer, BYTES, ACCESS);
    assert_non_null(remote.mr);
    check_bytes(&remote);
    assert_int_equal(ibv_dereg_mr(remote.mr), 0);
}

static int lock(int fd, short type)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET};

    return fcntl(fd, F_SETLK, &l);
}

/* Another process has none of this one's locks. */
static bool is_locked(int fd)
{
    pid_t child = fork();
    int status;

    if (!child)
        _exit(lock(fd, F_WRLCK) ? 1 : 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void keep_lock(int fd, short type, uint8_t *at)
{
    struct ibv_mr *mr;

    assert_int_equal(lock(fd, type), 0);
    mr = ibv_reg_mr(p.pd, at, BYTES, ACCESS);
    assert_non_null(mr);
    assert_true(is_locked(fd));
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_true(is_locked(fd));
}

/* The program's record locks stay: through the descriptor of the mapping, and another one. */
static void locks(void)
{
    int fd, again;
    uint8_t *at;

    snprintf(kept, sizeof(kept), "/uroce-test-%d", getpid());
    fd = posix_object(kept);
    again = shm_open(kept, O_RDONLY, 0);
    at = sized(fd);
    assert_true(at != MAP_FAILED && again >= 0);
    keep_lock(fd, F_WRLCK, at);
    close(fd);
    keep_lock(again, F_RDLCK, at);
    close(again);
    shm_unlink(kept);
}

/* No page is there for the second half of the region: as where a driver finds none to pin. */
static void end(void)
{
    int fd = memfd_create("short", MFD_CLOEXEC);
    uint8_t *at = sized(fd);

    assert_true(at != MAP_FAILED);
    assert_int_equal(ftruncate(fd, BYTES / 2), 0);
    errno = 0;
    assert_null(ibv_reg_mr(p.pd, at, BYTES, ACCESS));
    assert_int_equal(errno, EFAULT);
}

/* When the region is deregistered nothing but the program has the file mapped: it cannot be sealed
 * against writing while it is mapped anywhere. */
static void gone(void)
{
    const size_t bytes = 64u << 20;

    for (unsigned i = 0; i < 4; i++) {
        int fd = memfd_create("gone", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        struct ibv_mr *mr;
        uint8_t *at;

        assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(at != MAP_FAILED);
        memset(at, 1, bytes);
        mr = ibv_reg_mr(p.pd, at, bytes, ACCESS);
        assert_non_null(mr);
        assert_int_equal(munmap(at, bytes), 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1); /* the daemon has mapped it */
        assert_int_equal(ibv_dereg_mr(mr), 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
        close(fd);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"truncated", truncated}, {"number", number}, {"locks", locks}, {"end", end}, {"gone", gone}};

int main(int argc, char **argv)
{
    assert_int_equal(argc, 2);
    folder = argv[1];
    pair_open(&p);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (!strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            pair_close(&p);
            return 0;
        }
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        try_kind(i);
    shm_unlink(kept);
    pair_close(&p);
    return 0;
}
