/* SPDX-License-Identifier: BSD-3-Clause */
/* Accesses to memory other than by its address: system calls, disks, debuggers, unusual forks. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "adopt_kit.h"

/* ---- system calls, while the pages move ---- */

#define PART 30000u

struct copier {
    uint8_t *from, *to;
    atomic_bool stop;
    unsigned long rounds, wrong;
};

/* By way of a pipe: the kernel reads the one and writes the other. */
static void *copier(void *arg)
{
    struct copier *c = arg;
    int ends[2];
    uint8_t key = 0;

    if (pipe(ends))
        return NULL;
    while (!c->stop) {
        memset(c->from, ++key, PART);
        c->wrong += write(ends[1], c->from, PART) != PART;
        c->wrong += read(ends[0], c->to, PART) != PART;
        for (unsigned i = 0; i < PART; i++)
            c->wrong += c->to[i] != key;
        c->rounds++;
    }
    close(ends[0]);
    close(ends[1]);
    return NULL;
}

static void system_calls_are_not_cut_short(void **state)
{
    uint8_t *p = anonymous(256 * KIB);
    struct copier c = {.from = p + 1000, .to = p + 130 * KIB + 7};
    struct adopt_lease l;
    pthread_t thread;
    unsigned times = 0;

    pthread_create(&thread, NULL, copier, &c);
    while (times < 200 || c.rounds < 100) {
        assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
        adopt_release(&l);
        times++;
    }
    c.stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(c.wrong, 0);
    unmap(p, 256 * KIB);
}

/* The accesses of a debugger and of a core dump. */
static void seen_from_outside(void **state)
{
    uint8_t *p = anonymous(64 * KIB), byte = 0;
    int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    struct adopt_lease l;

    assert_true(fd >= 0);
    assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_ADOPTED);
    p[5000] = 42;
    assert_int_equal(pread(fd, &byte, 1, (off_t)(uintptr_t)(p + 5000)), 1);
    assert_int_equal(byte, 42);
    assert_int_equal(pwrite(fd, "\53", 1, (off_t)(uintptr_t)(p + 5001)), 1);
    assert_int_equal(p[5001], 43);
    assert_int_equal(in_memfd(&l, p + 5001), 43);
    adopt_release(&l);
    close(fd);
    unmap(p, 64 * KIB);
}

/* ---- sandboxes ---- */

struct sandboxed {
    struct adopt_lease l;
    long forbidden; /* a system call */
    bool entered;
};

/* Enters a sandbox, as a program does when it has set up all that it needs; for this thread only.
 */
static void *release_in_sandbox(void *arg)
{
    struct sandboxed *s = arg;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)s->forbidden, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};

    s->entered = !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
                 !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    adopt_release(&s->l);
    return NULL;
}

/* Whichever call the sandbox forbids, the program keeps its bytes. */
static void given_back_in_a_sandbox(void **state)
{
    static const long calls[] = {SYS_lseek,  SYS_pread64,   SYS_mremap,  SYS_mprotect,
                                 SYS_munmap, SYS_fallocate, SYS_madvise, SYS_ioctl};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct sandboxed s = {.forbidden = calls[i]};
        uint8_t *p = anonymous(256 * KIB);
        pthread_t thread;

        assert_int_equal(acquire(&s.l, p, 256 * KIB), CTL_MR_ADOPTED);
        p[5000] = 7;
        assert_int_equal(pthread_create(&thread, NULL, release_in_sandbox, &s), 0);
        pthread_join(thread, NULL);
        if (!s.entered)
            skip();
        for (size_t at = 0; at < 256 * KIB; at++)
            assert_int_equal(p[at], at == 5000 ? 7 : 1);
        p[5000] = 8;
        assert_int_equal(p[5000], 8);
        munmap(p, 256 * KIB); /* not unmap(): some calls leave a mapping of the memfd */
    }
}

/* A program that has as many descriptors as it may. */
static void given_back_without_descriptors(void **state)
{
    uint8_t *p = anonymous(256 * KIB), *small = anonymous(64 * KIB);
    uint64_t before = memfd_bytes();
    struct rlimit limit, none;
    struct adopt_lease l, m;

    assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){0, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    adopt_release(&l);
    assert_int_equal(acquire(&m, small, 64 * KIB), CTL_MR_STACK); /* it cannot list its threads */
    adopt_release(&m);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (size_t at = 0; at < 256 * KIB; at++)
        assert_int_equal(p[at], 1);
    assert_true(is_plain(p));
    assert_int_equal(memfd_bytes(), before);
    unmap(p, 256 * KIB);
    unmap(small, 64 * KIB);
}

/* The same where it has also closed the one by which the library reads its mappings: the bytes stay
 * where they are. */
static void given_back_unseen(void **state)
{
    uint8_t *p = anonymous(256 * KIB);
    uint64_t before = memfd_bytes();
    struct rlimit limit, none;
    struct adopt_lease l;

    assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){0, limit.rlim_max};
    close(adopt.maps);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    adopt_release(&l);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (size_t at = 0; at < 256 * KIB; at++)
        assert_int_equal(p[at], 1);
    assert_true(adopt_must_freeze()); /* a child would share them */
    assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
    adopt_release(&l);
    assert_true(is_plain(p));
    assert_int_equal(p[5000], 1);
    assert_int_equal(memfd_bytes(), before);
    unmap(p, 256 * KIB);
}

/* ---- forks ---- */

/* A fork that bypasses the library: a large piece is missing in the child, and the parent's stays
 * unchanged. */
static void raw_fork(void **state)
{
    uint8_t *p = anonymous(256 * KIB);
    struct adopt_lease l;
    int status = 0;
    pid_t pid;

    assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* arm64 has no SYS_fork */
    if (!pid) {
        prctl(PR_SET_DUMPABLE, 0);
        signal(SIGSEGV, SIG_DFL);
        p[0] = 9;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_int_equal(p[0], 1);
    assert_true(is_shared(p));
    adopt_release(&l);
    assert_true(is_plain(p));
    assert_int_equal(p[0], 1);
    unmap(p, 256 * KIB);
}

/* A fork of a program with as many descriptors as it may have: its memory is plain again after the
 * last lease, and later registrations adopt. */
static void fork_without_descriptors(void **state)
{
    uint8_t *p = anonymous(256 * KIB);
    struct rlimit limit, none;
    struct adopt_lease l;

    assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){0, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    freeze(&l);
    assert_true(is_view(p));
    adopt_release(&l);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(is_plain(p));
    assert_int_equal(p[5000], 1);
    assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
    adopt_release(&l);
    unmap(p, 256 * KIB);
}

/* The program has closed all descriptors before it forks, and the memfd's number is now that of a
 * file of its own. */
static void fork_with_a_lost_memfd(void **state)
{
    uint8_t *p = anonymous(256 * KIB);
    struct adopt_lease l;
    int other, number;

    assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
    number = adopt_memfd();
    other = memfd_create("other", MFD_CLOEXEC);
    assert_int_equal(ftruncate(other, INT64_C(1) << 62), 0);
    assert_int_equal(dup2(other, number), number);
    freeze(&l);
    for (size_t at = 0; at < 256 * KIB; at++)
        assert_int_equal(p[at], 1);
    assert_false(is_shared(p));
    assert_int_equal(fcntl(number, F_GETFD), 0);
    adopt_release(&l);
    assert_true(is_plain(p));
    close(other);
    close(number);
    unmap(p, 256 * KIB);
}

/* The disk writes to pages that become private views: they stay where they are. */
static void direct_reads_survive_a_freeze(void **state)
{
    struct direct_read r;
    struct adopt_lease l;

    direct_open(&r, 1024 * KIB);
    for (unsigned i = 0; i < 50; i++) {
        r.to = anonymous(r.len);
        assert_int_equal(acquire(&l, r.to, r.len), CTL_MR_ADOPTED);
        direct_begin(&r, i * 20);
        freeze(&l);
        direct_end(&r);
        adopt_release(&l);
        unmap(r.to, r.len);
    }
    close(r.fd);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_calls_are_not_cut_short),
        cmocka_unit_test(seen_from_outside),
        cmocka_unit_test(given_back_in_a_sandbox),
        cmocka_unit_test(given_back_without_descriptors),
        cmocka_unit_test(given_back_unseen),
        cmocka_unit_test(raw_fork),
        cmocka_unit_test(fork_without_descriptors),
        cmocka_unit_test(fork_with_a_lost_memfd),
        cmocka_unit_test(direct_reads_survive_a_freeze),
    };

    if (!kit_can_adopt(argc))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
