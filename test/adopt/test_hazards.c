/* SPDX-License-Identifier: BSD-3-Clause */
/* Hazards while pages move: signals, futexes, direct I/O, forks, closed descriptors. */
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "adopt_kit.h"

/* ---- signals ---- */

static volatile uint64_t *counted;
static volatile uint64_t delivered;

static void count(int signal)
{
    counted[0]++;
    counted[3000]++;
    delivered++;
}

/* A handler that writes to the pages, in the thread that moves them. */
static void signals_wait(void **state)
{
    const size_t len = 256 * KIB;
    struct itimerval timer = {{0, 150}, {0, 150}}, off = {{0}};
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART}, old;
    struct adopt_lease l;

    counted = (void *)anonymous(len);
    memset((void *)(uintptr_t)counted, 0, len);
    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(acquire(&l, (void *)(uintptr_t)counted, len), CTL_MR_ADOPTED);
        adopt_release(&l);
    }
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_true(delivered > 0);
    assert_int_equal(counted[0], delivered);
    assert_int_equal(counted[3000], delivered);
    unmap((void *)(uintptr_t)counted, len);
}

/* ---- futexes ---- */

static void *sleep_on(void *word)
{
    struct timespec limit = {10, 0};

    return (void *)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 1, &limit, NULL, 0);
}

/* Whether thread tid sleeps in futex(2). */
static bool sleeps(pid_t tid)
{
    char path[64], text[32] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
    f = fopen(path, "re");
    if (!f)
        return false;
    if (!fgets(text, sizeof(text), f))
        text[0] = 0;
    fclose(f);
    return atoi(text) == SYS_futex;
}

struct sleeper {
    uint32_t *word;
    _Atomic pid_t tid;
    long result;
};

static void *sleeper(void *arg)
{
    struct sleeper *s = arg;

    s->tid = (pid_t)syscall(SYS_gettid);
    s->result = (long)sleep_on(s->word);
    return NULL;
}

static void sleepers_are_woken(void **state)
{
    struct sleeper s = {.word = (void *)anonymous(4 * KIB)};
    struct adopt_lease l;
    pthread_t thread;

    *s.word = 1;
    pthread_create(&thread, NULL, sleeper, &s);
    while (!s.tid || !sleeps(s.tid))
        sched_yield();
    assert_int_equal(acquire(&l, s.word, 4 * KIB), CTL_MR_ADOPTED);
    assert_int_equal(syscall(SYS_futex, s.word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), 1);
    pthread_join(thread, NULL);
    assert_int_equal(s.result, 0);
    adopt_release(&l);
    unmap(s.word, 4 * KIB);
}

/* ---- whom the pages belong to as well ---- */

static void another_userfaultfd(void **state)
{
    uint8_t *p = anonymous(64 * KIB);
    struct uffdio_register r = {.range = {(uintptr_t)p, 64 * KIB},
                                .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct uffdio_api api = {.api = UFFD_API};
    struct adopt_lease l;
    int fd;

    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (fd < 0)
        skip();
    assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
    assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &r), 0);
    assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_PINNED);
    adopt_release(&l);
    close(fd);
    assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_ADOPTED);
    adopt_release(&l);
    unmap(p, 64 * KIB);
}

/* Lets the descriptor of /proc/self/pagemap be another file, which may end. */
static void replace_pagemap(int fd)
{
    struct stat st;

    assert_int_equal(dup2(fd, adopt.pagemap), adopt.pagemap);
    assert_int_equal(fstat(adopt.pagemap, &st), 0);
    adopt.identity[3].dev = st.st_dev;
    adopt.identity[3].ino = st.st_ino;
    close(fd);
}

/* Another thread frees pages (MADV_DONTNEED) when it is known that they are there, and before they
 * move: the thread that moves them would wait for itself. */
static void pages_are_freed(void **state)
{
    uint8_t *p = anonymous(64 * KIB);
    uint64_t there[16];
    struct adopt_lease l;
    int real, fd;

    if (!(adopt.features & ADOPT_FEATURE_MOVE))
        skip();
    real = dup(adopt.pagemap);
    fd = memfd_create("pagemap", MFD_CLOEXEC);
    assert_int_equal(madvise(p, 64 * KIB, MADV_DONTNEED), 0);
    memset(there, 0xFF, sizeof(there));
    assert_int_equal(pwrite(fd, there, sizeof(there), (off_t)((uintptr_t)p / adopt.page * 8)),
                     sizeof(there));
    assert_int_equal(ftruncate(fd, (off_t)1 << 46), 0); /* none of other pages */
    replace_pagemap(fd);
    assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_ADOPTED);
    replace_pagemap(real);
    p[3] = 5;
    assert_int_equal(in_memfd(&l, p + 3), 5);
    assert_int_equal(in_memfd(&l, p + 4), 0);
    adopt_release(&l);
    assert_true(is_plain(p));
    assert_int_equal(p[3], 5);
    unmap(p, 64 * KIB);
}

/* The disk writes to pages that are about to move: they stay, or the data moves with them. */
static void direct_reads_are_not_lost(void **state)
{
    struct direct_read r;
    struct adopt_lease l;

    if (!(adopt.features & ADOPT_FEATURE_MOVE))
        skip();
    direct_open(&r, 1024 * KIB);
    for (unsigned i = 0; i < 100; i++) {
        enum ctl_mr_why why;

        r.to = anonymous(r.len);
        direct_begin(&r, i * 20);
        why = acquire(&l, r.to, r.len);
        assert_true(why == CTL_MR_ADOPTED || why == CTL_MR_PINNED);
        direct_end(&r);
        adopt_release(&l);
        unmap(r.to, r.len);
    }
    close(r.fd);
}

/* Pages that would be adopted again in the background stay private views: whether a disk writes to
 * a private view cannot be detected. */
static void direct_reads_after_a_fork(void **state)
{
    struct direct_read r;

    direct_open(&r, 1024 * KIB);
    for (unsigned i = 0; i < 100; i++) {
        struct adopt_lease l, new;

        r.to = anonymous(r.len);
        assert_int_equal(acquire(&l, r.to, r.len), CTL_MR_ADOPTED);
        freeze(&l);
        direct_begin(&r, i * 2000);
        assert_int_equal(adopt_acquire(&new, (uintptr_t)r.to, r.len,
                                       ADOPT_WRITES | ADOPT_MOVE | ADOPT_AGAIN | ADOPT_ANYTIME),
                         CTL_MR_PINNED);
        direct_end(&r);
        adopt_release(&new);
        adopt_release(&l);
        unmap(r.to, r.len);
    }
    close(r.fd);
}

/* ---- forks ---- */

static void run_child(void (*body)(void *arg), void *arg)
{
    pid_t pid = fork();
    int status = -1;

    assert_true(pid >= 0);
    if (!pid) {
        alarm(20);
        adopt_child();
        body(arg);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void write_all(void *arg)
{
    uint8_t *p = arg;

    for (size_t i = 0; i < 256 * KIB; i++)
        if (p[i] != 1)
            _exit(1);
    memset(p, 2, 256 * KIB);
}

static void fork_separates(void **state)
{
    uint8_t *p = anonymous(256 * KIB);
    struct adopt_lease l, again;

    assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
    freeze(&l);
    assert_true(is_view(p));
    assert_true(l.thawed);
    run_child(write_all, p);
    assert_int_equal(p[0], 1);
    assert_int_equal(p[256 * KIB - 1], 1);
    p[7] = 9;
    assert_int_equal(adopt_acquire(&again, (uintptr_t)p, 256 * KIB, ADOPT_MOVE | ADOPT_AGAIN),
                     CTL_MR_ADOPTED);
    adopt_release(&l);
    assert_true(is_shared(p));
    assert_int_equal(in_memfd(&again, p + 7), 9);
    assert_int_equal(in_memfd(&again, p + 8), 1);
    adopt_release(&again);
    assert_true(is_plain(p));
    assert_int_equal(p[7], 9);
    unmap(p, 256 * KIB);
}

/* Pages that are not adopted again become plain memory when their lease ends. */
static void views_do_not_last(void **state)
{
    uint8_t *p = anonymous(256 * KIB);
    struct adopt_lease l;

    assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
    freeze(&l);
    p[7] = 9;
    adopt_release(&l);
    assert_true(is_plain(p));
    assert_int_equal(p[7], 9);
    assert_int_equal(p[8], 1);
    unmap(p, 256 * KIB);
}

/* In a child: 64 KiB at p; byte 3 is changed then. */
static void adopt_with_77(uint8_t *p, struct adopt_lease *l)
{
    static const struct adopt_config config;

    if (adopt_init(&config) != CTL_MR_ADOPTED || acquire(l, p, 64 * KIB) != CTL_MR_ADOPTED)
        _exit(1);
    p[3] = 77;
}

static void adopt_itself(void *arg)
{
    uint8_t *p = arg;
    struct adopt_lease l;

    adopt_with_77(p, &l);
    if (in_memfd(&l, p + 3) != 77 || in_memfd(&l, p + 4) != 1)
        _exit(2);
    adopt_release(&l);
    if (!is_plain(p) || p[3] != 77)
        _exit(3);
}

static void children_adopt_too(void **state)
{
    uint8_t *p = anonymous(64 * KIB);
    struct adopt_lease l;

    assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_ADOPTED);
    freeze(&l);
    run_child(adopt_itself, p);
    assert_int_equal(p[3], 1);
    adopt_release(&l);
    run_child(adopt_itself, p);
    assert_int_equal(p[3], 1);
    unmap(p, 64 * KIB);
}

/* Pages shared with a living child. */
static void pages_of_a_child(void **state)
{
    uint8_t *p = anonymous(64 * KIB), byte = 0;
    int pipes[2], status;
    struct adopt_lease l;
    pid_t pid;

    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    if (!pid) {
        alarm(20);
        _exit(read(pipes[0], &byte, 1) == 1 && p[100] == 1 ? 0 : 1);
    }
    assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_ADOPTED);
    p[100] = 2;
    assert_int_equal(write(pipes[1], "", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    adopt_release(&l);
    close(pipes[0]);
    close(pipes[1]);
    unmap(p, 64 * KIB);
}

/* ---- descriptors ---- */

static void descriptors_are_closed(void **state)
{
    uint8_t *p = anonymous(64 * KIB), *q = anonymous(64 * KIB);
    bool text_maps = adopt.text_maps;
    struct adopt_lease l, other;
    int fd;

    assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_ADOPTED);
    assert_false(adopt_lost());
    for (fd = 3; fd < 100; fd++)
        close(fd);
    /* Their descriptor numbers now belong to other files. */
    for (unsigned i = 0; i < 20; i++)
        assert_true(open("/dev/zero", O_RDWR | O_CLOEXEC) >= 0);
    assert_true(adopt_lost());
    assert_false(adopt_is_shared((uintptr_t)q)); /* before they are opened again */
    p[3] = 5;
    freeze(&l);
    assert_true(is_plain(p));
    assert_int_equal(p[3], 5);
    assert_int_equal(p[4], 1);
    assert_int_equal(acquire(&other, q, 64 * KIB), CTL_MR_ADOPTED);
    q[0] = 8;
    assert_int_equal(in_memfd(&other, q), 8);
    adopt_release(&other);
    adopt_release(&l);
    assert_int_equal(adopt.text_maps, text_maps); /* as fast as before */
    for (fd = 3; fd < 23; fd++)
        assert_int_equal(fcntl(fd, F_GETFD) >= 0, 1);
    unmap(p, 64 * KIB);
    unmap(q, 64 * KIB);
}

/* ---- a limit of the size of files ---- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void adopt_nothing(void *arg)
{
    static const struct adopt_config config;

    limit_files(1 << 20);
    if (adopt_init(&config) != CTL_MR_KERNEL)
        _exit(1);
}

/* The limit is set while the program has adopted pages. */
static void fork_without_adopting(void *arg)
{
    uint8_t *p = arg;
    struct adopt_lease l;

    adopt_with_77(p, &l);
    limit_files(1 << 20);
    freeze(&l);
    if (is_shared(p) || p[3] != 77 || p[4] != 1)
        _exit(2);
    adopt_release(&l);
    if (acquire(&l, p, 64 * KIB) == CTL_MR_ADOPTED)
        _exit(3);
}

/* SIGXFSZ would end the program. */
static void files_are_limited(void **state)
{
    uint8_t *p = anonymous(64 * KIB);
    struct rlimit before;
    struct adopt_lease l;

    run_child(adopt_nothing, NULL);
    run_child(fork_without_adopting, p);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit_files(1 << 20);
    assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_FAILED);
    assert_true(is_plain(p));
    adopt_release(&l);
    limit_files(before.rlim_cur);
    assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_ADOPTED);
    adopt_release(&l);
    unmap(p, 64 * KIB);
}

/* ---- permissions ---- */

static int device = -1;

static int pass_device(void)
{
    return device;
}

static void as_nobody(void *arg)
{
    const struct adopt_config config = {.device = arg ? pass_device : NULL};
    enum ctl_mr_why why;

    /* As in a program that was started like that. */
    if (setgid(65534) || setuid(65534) || prctl(PR_SET_DUMPABLE, 1))
        _exit(1);
    why = adopt_init(&config);
    if (why != (arg ? CTL_MR_ADOPTED : CTL_MR_NO_UFFD))
        _exit(2);
    if (arg) {
        uint8_t *p = anonymous(64 * KIB);
        struct adopt_lease l;

        if (acquire(&l, p, 64 * KIB) != CTL_MR_ADOPTED)
            _exit(3);
        adopt_release(&l);
    }
}

static bool unprivileged_may(void)
{
    FILE *f = fopen("/proc/sys/vm/unprivileged_userfaultfd", "re");
    int value = 0;

    if (f && fscanf(f, "%d", &value) != 1)
        value = 0;
    if (f)
        fclose(f);
    return value;
}

static void without_privileges(void **state)
{
    if (getuid() || unprivileged_may())
        skip();
    run_child(as_nobody, NULL);
    device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (device < 0)
        skip();
    run_child(as_nobody, &device);
    close(device);
}

/* A process without privileges that locks all of its memory, more than half of what it may lock. It
 * gets a region back although there is little room for locked memory beside it. */
static void lock_and_give_back(void *arg)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    const struct adopt_config config = {0};
    struct rlimit limit = {1024 * KIB, 1024 * KIB};
    struct adopt_lease l;
    uint8_t *p;

    if (adopt_init(&config) != CTL_MR_ADOPTED || syscall(SYS_capget, &header, caps))
        _exit(1);
    p = anonymous(64 * KIB);
    acquire(&l, p, 64 * KIB);
    adopt_release(&l);
    caps[0].effective &= ~(1u << CAP_IPC_LOCK);
    if (setrlimit(RLIMIT_MEMLOCK, &limit) || syscall(SYS_capset, &header, caps) ||
        mlockall(MCL_FUTURE))
        _exit(2);
    p = mmap(NULL, 896 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        _exit(3);
    p[5000] = 7;
    if (acquire(&l, p, 896 * KIB) != CTL_MR_ADOPTED)
        _exit(4);
    adopt_release(&l);
    if (p[5000] != 7 || !is_plain(p) || adopt_locked_kb() < 896)
        _exit(5);
}

static void locked_as_much_as_it_may(void **state)
{
    run_child(lock_and_give_back, NULL);
}

static int close_all(void **state)
{
    adopt_close();
    return 0;
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_wait),
        cmocka_unit_test(sleepers_are_woken),
        cmocka_unit_test(another_userfaultfd),
        cmocka_unit_test(pages_are_freed),
        cmocka_unit_test(direct_reads_are_not_lost),
        cmocka_unit_test(direct_reads_after_a_fork),
        cmocka_unit_test(fork_separates),
        cmocka_unit_test(views_do_not_last),
        cmocka_unit_test(children_adopt_too),
        cmocka_unit_test(pages_of_a_child),
        cmocka_unit_test(files_are_limited),
        cmocka_unit_test(locked_as_much_as_it_may),
        cmocka_unit_test(without_privileges),
        cmocka_unit_test(descriptors_are_closed),
    };

    if (!kit_can_adopt(argc))
        return 0;
    return cmocka_run_group_tests(tests, NULL, close_all);
}
