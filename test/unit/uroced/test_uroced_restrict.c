/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that gives up its privileges: what each of its threads can do then. Each case is a
 * child process, which reports by its exit status the line that failed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
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

#include "restrict.h"
#include "unit.h"

#define OTHER_USER 65533
#define CHECK(what)          \
    do {                     \
        if (!(what))         \
            return __LINE__; \
    } while (0)

static uint64_t permitted(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, data))
        return 0;
    return data[0].permitted | (uint64_t)data[1].permitted << 32;
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
    const struct restrict_config c = {.seccomp = true};

    run(&c, calls_are_refused);
    run(&c, threads_can_be_made);
}

static int only_ptrace_is_left(void)
{
    CHECK(permitted() == UINT64_C(1) << CAP_SYS_PTRACE);
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
    return 0;
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
    const struct restrict_config c = {.capabilities = true,
                                      .keep = UINT64_C(1) << CAP_SYS_PTRACE,
                                      .change_user = true,
                                      .user = "uroce-other",
                                      .uid = OTHER_USER,
                                      .gid = OTHER_USER};

    if (!(permitted() & c.keep) || geteuid())
        skip();
    run(&c, other_user_with_ptrace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_calls),
        cmocka_unit_test(capabilities),
        cmocka_unit_test(user),
    };

    return cmocka_run_group_tests_name("restrict", tests, NULL, NULL);
}
