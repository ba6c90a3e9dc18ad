/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of another user's process, which may execute another program at any time: a forked
 * child with the same addresses, as user `nobody`. Needs root.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "mem_batch.h"
#include "pinned.h"
#include "unit.h"

#define PAGES      4u
#define GONE_PAGE  2u
#define OTHER_USER 65534u

static size_t page;
static uint8_t *area; /* ours; the child's copy of it has the same address */
static char folder[] = "/tmp/uroce-pinned.XXXXXX", plain[64], set_uid[64];
static struct mem_pinned_space space;
static struct mem_region mr = {.backend = &mem_pinned_backend, .space = &space};
static struct ucred peer = {.uid = OTHER_USER, .gid = OTHER_USER};
static int command; /* to the child: on a byte it executes a program, which echoes */

enum { DUMPABLE = 1, CAPABLE = 2 };

static void child_main(unsigned flags, const char *program, int go, int answer)
{
    char c;

    if (prctl(PR_SET_KEEPCAPS, flags & CAPABLE ? 1 : 0) ||
        setresgid(OTHER_USER, OTHER_USER, OTHER_USER) ||
        setresuid(OTHER_USER, OTHER_USER, OTHER_USER) ||
        prctl(PR_SET_DUMPABLE, flags & DUMPABLE ? 1 : 0) || munmap(area + GONE_PAGE * page, page) ||
        write(answer, "x", 1) != 1 || dup2(go, 0) != 0 || dup2(answer, 1) != 1)
        _exit(1);
    if (read(0, &c, 1) == 1)
        execl(program, "cat", NULL);
    _exit(1);
}

/* Returns the descriptor on which the child answers. */
static int start(unsigned flags, const char *program)
{
    int go[2], answers[2];
    char c;

    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(answers, O_CLOEXEC), 0);
    peer.pid = fork();
    if (peer.pid == 0) {
        close(go[1]);
        child_main(flags, program, go[0], answers[1]);
    }
    assert_true(peer.pid > 0);
    close(go[0]);
    close(answers[1]);
    command = go[1];
    assert_int_equal(read(answers[0], &c, 1), 1);
    return answers[0];
}

static void execute(int answers)
{
    char c;

    assert_int_equal(write(command, "ey", 2), 2);
    assert_int_equal(read(answers, &c, 1), 1); /* by the new program */
    assert_int_equal(c, 'y');
}

static void end(int answers)
{
    kill(peer.pid, SIGKILL);
    waitpid(peer.pid, NULL, 0);
    close(command);
    close(answers);
}

static uint64_t at(unsigned page_index, size_t offset)
{
    return mr.addr + page_index * page + offset;
}

static void test_both_ways(void **state)
{
    int answers = start(DUMPABLE, plain);
    struct mem_batch batch = {0};
    uint8_t in[100], across[64];

    assert_int_equal(mem_pinned_space_open(&space, &peer), 0);
    memset(across, 'Z', sizeof(across));
    assert_false(mem_batch_out(&batch, &mr, at(0, page - 32), across, 64, 0));
    assert_int_equal(mem_batch_flush_out(&batch), 0);
    batch.n = 0;
    assert_false(mem_batch_in(&batch, &mr, at(0, page - 50), in, 100, 0));
    assert_int_equal(mem_batch_flush_in(&batch), 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(in[i], i < 18 ? 'a' : i < 82 ? 'Z' : 'b');
    assert_int_equal(area[page - 1], 'a'); /* the parent's copy differs */
    mem_pinned_space_close(&space);
    end(answers);
}

static void test_unmapped(void **state)
{
    int answers = start(DUMPABLE, plain);
    uint8_t got[2][8], *large = malloc(PAGES * page);
    struct mem_batch batch = {0};

    assert_int_equal(mem_pinned_space_open(&space, &peer), 0);
    mem_batch_in(&batch, &mr, at(GONE_PAGE, 0), got[0], 0, 0); /* no bytes: always succeeds */
    mem_batch_in(&batch, &mr, at(GONE_PAGE, 0), got[0], 8, 1);
    mem_batch_in(&batch, &mr, at(1, 0), got[0], 8, 2);
    mem_batch_in(&batch, &mr, UINT64_MAX - 3, large, 8, 3);
    mem_batch_in(&batch, &mr, 0, large, 8, 4);
    mem_batch_in(&batch, &mr, at(1, 0), large, (uint32_t)(3 * page), 5); /* over the hole */
    mem_batch_in(&batch, &mr, at(3, 0), got[1], 8, 6);
    assert_int_equal(mem_batch_flush_in(&batch), 4);
    for (unsigned i = 0; i < batch.n; i++)
        assert_int_equal(batch.io[i].status, i == 1 || (i >= 3 && i <= 5) ? -EFAULT : 0);
    assert_memory_equal(got[0], "bbbbbbbb", 8);
    assert_memory_equal(got[1], "dddddddd", 8);
    mem_pinned_space_close(&space);
    free(large);
    end(answers);
}

/* The packets of a message are one call; only the transfers that touch the hole fail. */
static void test_side_by_side(void **state)
{
    int answers = start(DUMPABLE, plain);
    const uint32_t part = (uint32_t)page * 3 / 8;
    uint8_t *local = calloc(PAGES, page);
    struct mem_batch batch = {0};
    unsigned bad = 0;

    assert_int_equal(mem_pinned_space_open(&space, &peer), 0);
    for (unsigned i = 0; i < 10; i++)
        mem_batch_in(&batch, &mr, at(0, i * part), local + i * part, part, i);
    mem_batch_flush_in(&batch);
    for (unsigned i = 0; i < 10; i++) {
        uint32_t from = i * part, to = from + part;
        bool touches = from < (GONE_PAGE + 1) * page && to > GONE_PAGE * page;

        bad += touches;
        assert_int_equal(batch.io[i].status, touches ? -EFAULT : 0);
        for (uint32_t k = from; !touches && k < to; k++)
            assert_int_equal(local[k], 'a' + k / page);
    }
    assert_int_equal(bad, 3);
    batch.n = 0;
    memset(local, 'X', 2 * page);
    for (unsigned i = 0; i < 4; i++)
        mem_batch_out(&batch, &mr, at(0, 100 + i * part), local, part, i);
    assert_int_equal(mem_batch_flush_out(&batch), 0);
    batch.n = 0;
    mem_batch_in(&batch, &mr, at(0, 0), local, 2 * (uint32_t)page, 0);
    assert_int_equal(mem_batch_flush_in(&batch), 0);
    for (uint32_t k = 0; k < 2 * page; k++)
        assert_int_equal(local[k], k >= 100 && k < 100 + 4 * part ? 'X' : 'a' + k / page);
    mem_pinned_space_close(&space);
    free(local);
    end(answers);
}

static void test_atomic(void **state)
{
    int answers = start(DUMPABLE, plain);
    uint64_t old, word;

    memset(&word, 'b', sizeof(word));
    assert_int_equal(mem_pinned_space_open(&space, &peer), 0);
    assert_int_equal(mem_atomic(NULL, &mr, at(1, 8), MEM_FETCH_ADD, 5, 0, &old, 0), 0);
    assert_true(old == word);
    assert_int_equal(mem_atomic(NULL, &mr, at(1, 8), MEM_CMP_SWP, 1, word, &old, 0), 0);
    assert_true(old == word + 5); /* differs: not swapped */
    assert_int_equal(mem_atomic(NULL, &mr, at(1, 8), MEM_CMP_SWP, 1, word + 5, &old, 0), 0);
    assert_int_equal(mem_atomic(NULL, &mr, at(1, 8), MEM_FETCH_ADD, 0, 0, &old, 0), 0);
    assert_int_equal(old, 1);
    assert_int_equal(mem_atomic(NULL, &mr, at(GONE_PAGE, 0), MEM_FETCH_ADD, 1, 0, &old, 0),
                     -EFAULT);
    mem_pinned_space_close(&space);
    end(answers);
}

/* Transfers at addr, in both directions. */
static void expect_gone(uint64_t addr)
{
    uint64_t word = 0;
    struct mem_io io[2];

    for (unsigned i = 0; i < 2; i++)
        io[i] = (struct mem_io){.mr = &mr, .addr = addr, .local = (uint8_t *)&word, .len = 8};
    mem_pinned_backend.copy_in(&space, io, 2);
    assert_true(io[0].status == -ESRCH && io[1].status == -ESRCH);
    mem_pinned_backend.copy_out(&space, io, 2);
    assert_true(io[0].status == -ESRCH && io[1].status == -ESRCH);
    assert_int_equal(mem_atomic(NULL, &mr, addr, MEM_FETCH_ADD, 1, 0, &word, 0), -ESRCH);
}

/* The address of the child's program. */
static uint64_t program_start(void)
{
    unsigned long start = 0;
    char path[32];
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%d/maps", peer.pid);
    maps = fopen(path, "re");
    assert_non_null(maps);
    assert_int_equal(fscanf(maps, "%lx-", &start), 1);
    fclose(maps);
    return start;
}

static void exec_after_opening(const char *program)
{
    int answers = start(DUMPABLE, program);
    char magic[4] = "";
    uint64_t new;

    assert_int_equal(mem_pinned_space_open(&space, &peer), 0);
    execute(answers);
    new = program_start();
    expect_gone(at(0, 0));
    expect_gone(new);
    assert_int_equal(process_vm_readv(peer.pid, &(struct iovec){magic, 4}, 1,
                                      &(struct iovec){(void *)(uintptr_t) new, 4}, 1, 0),
                     4);
    assert_memory_equal(magic, "\177ELF", 4); /* unchanged, as root reads it by the pid */
    mem_pinned_space_close(&space);
    end(answers);
}

static void test_exec_after_opening(void **state)
{
    exec_after_opening(plain);
}

static void need_set_uid(void)
{
    struct statvfs fs;

    if (statvfs(folder, &fs) || (fs.f_flag & ST_NOSUID) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))
        skip();
}

static void test_set_uid_after_opening(void **state)
{
    need_set_uid();
    exec_after_opening(set_uid);
}

static void test_set_uid_before_opening(void **state)
{
    int answers;

    need_set_uid();
    answers = start(DUMPABLE, set_uid);
    execute(answers);
    assert_int_equal(mem_pinned_space_open(&space, &peer), -EPERM);
    end(answers);
}

/* Another program of the same user has the same rights. */
static void test_exec_before_opening(void **state)
{
    int answers = start(DUMPABLE, plain);
    char magic[4] = "";
    struct mem_io io = {.mr = &mr, .local = (uint8_t *)magic, .len = 4};

    execute(answers);
    assert_int_equal(mem_pinned_space_open(&space, &peer), 0);
    io.addr = program_start();
    mem_pinned_backend.copy_in(&space, &io, 1);
    assert_int_equal(io.status, 0);
    assert_memory_equal(magic, "\177ELF", 4);
    mem_pinned_space_close(&space);
    end(answers);
}

static void expect_refused(const struct ucred *who, int error)
{
    struct mem_pinned_space s;

    assert_int_equal(mem_pinned_space_open(&s, who), error);
}

static void test_somebody_else(void **state)
{
    int answers = start(DUMPABLE, plain);

    expect_refused(&(struct ucred){peer.pid, OTHER_USER - 1, OTHER_USER}, -EPERM);
    expect_refused(&(struct ucred){peer.pid, OTHER_USER, OTHER_USER - 1}, -EPERM);
    expect_refused(&(struct ucred){0, OTHER_USER, OTHER_USER}, -EINVAL);
    expect_refused(&(struct ucred){-1, OTHER_USER, OTHER_USER}, -EINVAL);
    end(answers);
    expect_refused(&peer, -ESRCH);
}

static void test_not_dumpable(void **state)
{
    int answers = start(0, plain);

    expect_refused(&peer, -EPERM);
    end(answers);
}

static void test_capable(void **state)
{
    int answers = start(DUMPABLE | CAPABLE, plain);

    expect_refused(&peer, -EPERM);
    end(answers);
}

static void test_killed(void **state)
{
    int answers = start(DUMPABLE, plain);
    siginfo_t info;

    assert_int_equal(mem_pinned_space_open(&space, &peer), 0);
    kill(peer.pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)peer.pid, &info, WEXITED | WNOWAIT), 0);
    expect_gone(at(0, 0)); /* not yet waited for */
    end(answers);
    expect_gone(at(0, 0));
    mem_pinned_space_close(&space);
}

static void test_marked_gone(void **state)
{
    int answers = start(DUMPABLE, plain);

    assert_int_equal(mem_pinned_space_open(&space, &peer), 0);
    mem_pinned_space_mark_gone(&space);
    expect_gone(at(0, 0));
    mem_pinned_space_close(&space);
    end(answers);
}

static int copy_cat(char *name, size_t size, const char *as, mode_t mode)
{
    struct stat st;
    int in = open("/bin/cat", O_RDONLY | O_CLOEXEC), out;

    snprintf(name, size, "%s/%s", folder, as);
    out = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    if (in < 0 || out < 0 || fstat(in, &st) ||
        sendfile(out, in, NULL, (size_t)st.st_size) != st.st_size || fchmod(out, mode))
        return -1;
    close(in);
    return close(out);
}

static int prepare(void **state)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    area = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        return -1;
    for (unsigned i = 0; i < PAGES; i++)
        memset(area + i * page, 'a' + (int)i, page);
    mr.addr = (uintptr_t)area;
    mr.len = PAGES * page;
    if (!mkdtemp(folder) || chmod(folder, 0755))
        return -1;
    return copy_cat(plain, sizeof(plain), "cat", 0755) ||
                   copy_cat(set_uid, sizeof(set_uid), "set-uid-cat", 04755)
               ? -1
               : 0;
}

static int clean_up(void **state)
{
    unlink(plain);
    unlink(set_uid);
    rmdir(folder);
    return munmap(area, PAGES * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_unmapped),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_atomic),
        cmocka_unit_test(test_exec_after_opening),
        cmocka_unit_test(test_set_uid_after_opening),
        cmocka_unit_test(test_set_uid_before_opening),
        cmocka_unit_test(test_exec_before_opening),
        cmocka_unit_test(test_somebody_else),
        cmocka_unit_test(test_not_dumpable),
        cmocka_unit_test(test_capable),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_marked_gone),
    };

    if (geteuid() != 0) {
        printf("1..0 # SKIP needs root\n");
        return 0;
    }
    return cmocka_run_group_tests_name("mem_pinned", tests, prepare, clean_up);
}
