/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that gives up its privileges: what each of its threads can do then. Each case is a
 * child process, which reports by its exit status the line that failed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "restrict.h"
#include "unit.h"

#define OTHER_USER 65533
#ifdef __aarch64__
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH AUDIT_ARCH_X86_64
#endif
#define CHECK(what)          \
    do {                     \
        if (!(what))         \
            return __LINE__; \
    } while (0)

static uint64_t capability_set(bool effective)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, data))
        return 0;
    if (effective)
        return data[0].effective | (uint64_t)data[1].effective << 32;
    return data[0].permitted | (uint64_t)data[1].permitted << 32;
}

static uint64_t permitted(void)
{
    return capability_set(false);
}

/* Runs the case in a child, which has a second thread: it runs the same function afterwards. */
static int (*check)(void);
static const struct restrict_config *config;
static pthread_barrier_t restricted;

static void *second_thread(void *arg)
{
    pthread_barrier_wait(&restricted); /* it runs */
    pthread_barrier_wait(&restricted);
    return (void *)(intptr_t)check();
}

static int child(void)
{
    pthread_t thread;
    void *failed;
    int line;

    pthread_barrier_init(&restricted, NULL, 2);
    CHECK(!pthread_create(&thread, NULL, second_thread, NULL));
    pthread_barrier_wait(&restricted);
    CHECK(!restrict_process(config));
    pthread_barrier_wait(&restricted);
    line = check();
    pthread_join(thread, &failed);
    return line ? line : (int)(intptr_t)failed;
}

static void run(const struct restrict_config *c, int (*f)(void))
{
    int status;
    pid_t pid;

    config = c;
    check = f;
    pid = fork();
    if (!pid) {
        int line = child();

        if (line)
            fprintf(stderr, "# line %d: %s\n", line, strerror(errno));
        _exit(line ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static bool refused(long result)
{
    return result == -1 && errno == EPERM;
}

static int calls_are_refused(void)
{
    char name[] = "true", *argv[] = {name, NULL}, byte = 0;
    struct iovec io = {.iov_base = &byte, .iov_len = 1};
    int fds[2];

    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHECK(refused(execv("/bin/true", argv)));
    CHECK(refused(fork()));
    CHECK(refused(syscall(SYS_ptrace, 0, 0, 0, 0)));
    CHECK(refused(syscall(SYS_unshare, 0)));
    CHECK(refused(syscall(SYS_setns, -1, 0)));
    CHECK(refused(syscall(SYS_mount, NULL, NULL, NULL, 0, NULL)));
    CHECK(refused(syscall(SYS_setresuid, -1, -1, -1)));
    CHECK(refused(syscall(SYS_capset, NULL, NULL)));
    CHECK(refused(syscall(SYS_finit_module, -1, NULL, 0)));
    CHECK(refused(syscall(SYS_kexec_load, 0, 0, NULL, 0)));
    CHECK(refused(syscall(SYS_io_uring_setup, 1, NULL)));
    CHECK(refused(syscall(SYS_userfaultfd, 0)));
    CHECK(refused(syscall(SYS_open_by_handle_at, -1, NULL, 0)));
    CHECK(refused(syscall(SYS_pidfd_getfd, -1, 0, 0)));
    CHECK(refused(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)));
    CHECK(syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS);
#ifdef __x86_64__
    CHECK(refused(syscall(0x40000000 | SYS_getpid))); /* x32 */
#endif
    /* What the daemon goes on to do. */
    CHECK(process_vm_readv(getpid(), &io, 1, &io, 1, 0) == 1);
    CHECK(!pipe(fds) && !close(fds[0]) && !close(fds[1]));
    CHECK(!syscall(SYS_sched_yield));
    return 0;
}

/* The other filter allows them. */
static int unlisted_calls_are_refused(void)
{
    CHECK(refused(syscall(SYS_symlinkat, "uroce-no", -1, "uroce-no")));
    CHECK(refused(syscall(SYS_shmget, 0, 0, 0)));
    CHECK(refused(syscall(SYS_waitid, 0, 0, NULL, 0, NULL)));
    CHECK(refused(syscall(SYS_inotify_init1, 0)));
    CHECK(refused(syscall(SYS_bpf, 0, NULL, 0)));
    CHECK(refused(syscall(999)));
    return 0;
}

static void *nothing(void *arg)
{
    return arg;
}

static int threads_can_be_made(void)
{
    pthread_t thread;

    CHECK(!pthread_create(&thread, NULL, nothing, NULL));
    return pthread_join(thread, NULL);
}

static void system_calls(void **state)
{
    struct restrict_config c = {.seccomp = true};

    for (; !c.known_calls; c.known_calls = true) {
        run(&c, calls_are_refused);
        run(&c, threads_can_be_made);
    }
    run(&c, calls_are_refused);
    run(&c, threads_can_be_made);
    run(&c, unlisted_calls_are_refused);
}

/* ---- the filter, call by call ---- */

/* What the filter returns; of the instructions that it has. */
static uint32_t ask(bool known, const struct seccomp_data *data)
{
    struct sock_filter filter[RESTRICT_FILTER_MAX];
    unsigned n = restrict_filter(known, filter), at = 0;
    uint32_t word = 0;

    for (; at < n; at++) {
        const struct sock_filter *f = &filter[at];

        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&word, (const uint8_t *)data + f->k, sizeof(word));
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            at += word == f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            at += word > f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            at += word & f->k ? f->jt : f->jf;
            break;
        case BPF_RET | BPF_K:
            return f->k;
        default:
            fail_msg("instruction %#x", f->code);
        }
    }
    fail_msg("the filter has no end");
    return 0;
}

static uint32_t ask_call(bool known, unsigned number)
{
    struct seccomp_data data = {.nr = (int)number, .arch = ARCH};

    return ask(known, &data);
}

/* More than any call has. */
#define NUMBERS 1000u

/* Of what no list names is nothing allowed: 1000 numbers are walked. */
static void walk(void **state)
{
    static const unsigned never[] = {SYS_execve,
                                     SYS_execveat,
                                     SYS_ptrace,
                                     SYS_kcmp,
                                     SYS_pidfd_getfd,
                                     SYS_process_madvise,
                                     SYS_setns,
                                     SYS_unshare,
                                     SYS_setuid,
                                     SYS_capset,
                                     SYS_mount,
                                     SYS_pivot_root,
                                     SYS_chroot,
                                     SYS_init_module,
                                     SYS_kexec_load,
                                     SYS_reboot,
                                     SYS_bpf,
                                     SYS_userfaultfd,
                                     SYS_keyctl,
                                     SYS_io_uring_setup,
                                     SYS_perf_event_open,
                                     SYS_mknodat,
                                     SYS_linkat,
                                     SYS_symlinkat,
                                     SYS_fchownat,
                                     SYS_setxattr,
                                     SYS_truncate,
                                     SYS_shmget,
                                     SYS_msgget,
                                     SYS_semget,
                                     SYS_mq_open,
                                     SYS_waitid,
                                     SYS_rt_sigqueueinfo,
                                     SYS_sched_setscheduler,
                                     SYS_seccomp,
                                     SYS_sync,
                                     SYS_vhangup,
                                     SYS_splice,
                                     SYS_inotify_init1};
    unsigned left = 0, known = 0;

    if (!restrict_filter(true, (struct sock_filter[RESTRICT_FILTER_MAX]){{0}}))
        skip();
    for (unsigned i = 0; i < NUMBERS; i++) {
        uint32_t strict = ask_call(true, i), loose = ask_call(false, i);

        assert_true(strict == SECCOMP_RET_ALLOW ||
                    (strict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO);
        known += strict == SECCOMP_RET_ALLOW;
        left += loose == SECCOMP_RET_ALLOW;
        /* The list has nothing that the other one refuses. */
        if (strict == SECCOMP_RET_ALLOW)
            assert_int_equal(loose, SECCOMP_RET_ALLOW);
    }
    print_message("# of %u numbers the list allows %u, the other filter %u\n", NUMBERS, known,
                  left);
    assert_in_range(known, 100, 160);
    for (unsigned i = 0; i < ARRAY_SIZE(never); i++)
        if (ask_call(true, never[i]) != (SECCOMP_RET_ERRNO | EPERM))
            fail_msg("call %u is allowed", never[i]);
}

static void walk_arguments(void **state)
{
    struct seccomp_data data = {.nr = SYS_clone, .arch = ARCH, .args = {SIGCHLD}};

    if (!restrict_filter(true, (struct sock_filter[RESTRICT_FILTER_MAX]){{0}}))
        skip();
    for (unsigned known = 0; known < 2; known++) {
        assert_int_equal(ask_call(known, SYS_clone3), SECCOMP_RET_ERRNO | ENOSYS);
        data.args[0] = SIGCHLD;
        assert_int_equal(ask(known, &data), SECCOMP_RET_ERRNO | EPERM);
        data.args[0] = CLONE_VM | CLONE_THREAD;
        assert_int_equal(ask(known, &data), SECCOMP_RET_ALLOW);
        data.arch ^= 1;
        assert_int_equal(ask(known, &data), SECCOMP_RET_ERRNO | EPERM);
        data.arch ^= 1;
    }
}

static int only_ptrace_is_left(void)
{
    CHECK(permitted() == UINT64_C(1) << CAP_SYS_PTRACE);
    CHECK(capability_set(true) == permitted());
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    return 0;
}

static int other_user_with_ptrace(void)
{
    uid_t real, effective, saved;

    CHECK(!getresuid(&real, &effective, &saved));
    CHECK(real == OTHER_USER && effective == OTHER_USER && saved == OTHER_USER);
    CHECK(getgid() == OTHER_USER);
    return only_ptrace_is_left();
}

static int all_are_left(void)
{
    CHECK(permitted() & UINT64_C(1) << CAP_NET_RAW);
    CHECK(capability_set(true) == permitted());
    return 0;
}

static int other_user_with_all(void)
{
    CHECK(getuid() == OTHER_USER);
    return all_are_left();
}

static void capabilities(void **state)
{
    struct restrict_config c = {.capabilities = true, .keep = UINT64_C(1) << CAP_SYS_PTRACE};

    if (!(permitted() & c.keep) || geteuid())
        skip();
    run(&c, only_ptrace_is_left);
    c.capabilities = false;
    run(&c, all_are_left);
}

static void user(void **state)
{
    struct restrict_config c = {.capabilities = true,
                                .keep = UINT64_C(1) << CAP_SYS_PTRACE,
                                .change_user = true,
                                .user = "uroce-other",
                                .uid = OTHER_USER,
                                .gid = OTHER_USER};

    if (!(permitted() & c.keep) || geteuid())
        skip();
    run(&c, other_user_with_ptrace);
    c.capabilities = false;
    run(&c, other_user_with_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_calls), cmocka_unit_test(walk), cmocka_unit_test(walk_arguments),
        cmocka_unit_test(capabilities), cmocka_unit_test(user),
    };

    return cmocka_run_group_tests_name("restrict", tests, NULL, NULL);
}
