/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The filters of system calls. Where all ports have drivers whose calls are known, the filter lists
 * what is allowed; else it lists what is refused. Calls that a filter decides by their number alone
 * the kernel (5.11) knows without running the filter.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"
#include "restrict.h"

#if defined(__x86_64__)
#define ARCH     AUDIT_ARCH_X86_64
#define CALL_MAX 0x3FFFFFFF /* then x32's follow */
#elif defined(__aarch64__)
#define ARCH     AUDIT_ARCH_AARCH64
#define CALL_MAX 0x7FFFFFFF
#endif

#ifdef ARCH

/* What no driver of DPDK needs after the start. */
static const unsigned refused[] = {
    /* other programs and processes */
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_pidfd_getfd,
    SYS_kcmp,
    SYS_process_madvise,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
    SYS_setns,
    SYS_unshare,
    SYS_personality,
    /* users and capabilities */
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_capset,
    /* file systems */
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mknodat,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_quotactl,
    SYS_swapon,
    SYS_swapoff,
    SYS_fanotify_init,
#ifdef SYS_mknod
    SYS_mknod,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
    /* the kernel and the machine */
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_syslog,
    SYS_acct,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_modify_ldt
    SYS_modify_ldt,
#endif
};

#define LOAD(field)  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define REFUSE(err)  RETURN(SECCOMP_RET_ERRNO | (err))
/* Skips the next instruction unless the loaded word is value. */
#define IF_EQUAL(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1)

/* What a daemon needs whose ports are loopbacks, kernel interfaces or shared memory. */
static const unsigned allowed[] = {
    /* its clients: sockets, events, shared memory */
    SYS_accept4,
    SYS_bind,
    SYS_connect,
    SYS_dup,
    SYS_dup3,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_fallocate,
    SYS_fcntl,
    SYS_ftruncate,
    SYS_getpeername,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_listen,
    SYS_lseek,
    SYS_memfd_create,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_setsockopt,
    SYS_shutdown,
    SYS_signalfd4,
    SYS_socket,
    SYS_socketpair,
    SYS_timerfd_create,
    SYS_timerfd_gettime,
    SYS_timerfd_settime,
    /* files: /proc, the capture, the socket's name, DPDK's folder; interfaces */
    SYS_close,
    SYS_close_range,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_flock,
    SYS_fstat,
    SYS_fstatfs,
    SYS_fsync,
    SYS_getcwd,
    SYS_getdents64,
    SYS_ioctl,
    SYS_mkdirat,
    SYS_newfstatat,
    SYS_openat,
    SYS_pipe2,
    SYS_ppoll,
    SYS_pread64,
    SYS_preadv,
    SYS_pselect6,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_read,
    SYS_readlinkat,
    SYS_readv,
    SYS_renameat,
    SYS_renameat2,
    SYS_statfs,
    SYS_statx,
    SYS_unlinkat,
    SYS_write,
    SYS_writev,
    /* memory */
    SYS_brk,
    SYS_get_mempolicy,
    SYS_madvise,
    SYS_mbind,
    SYS_membarrier,
    SYS_mincore,
    SYS_mlock,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_msync,
    SYS_munlock,
    SYS_munmap,
    SYS_set_mempolicy,
    /* threads, time, signals, itself */
    SYS_capget,
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_exit,
    SYS_exit_group,
    SYS_futex,
    SYS_getcpu,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getpid,
    SYS_getppid,
    SYS_getpriority,
    SYS_getrandom,
    SYS_getresgid,
    SYS_getresuid,
    SYS_getrusage,
    SYS_gettid,
    SYS_gettimeofday,
    SYS_getuid,
    SYS_kill,
    SYS_nanosleep,
    SYS_prctl,
    SYS_prlimit64,
    SYS_restart_syscall,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigpending,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigtimedwait,
    SYS_sched_getaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_setaffinity,
    SYS_sched_yield,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_setpriority,
    SYS_sigaltstack,
    SYS_sysinfo,
    SYS_tgkill,
    SYS_uname,
#ifdef __x86_64__
    SYS_accept,
    SYS_access,
    SYS_arch_prctl,
    SYS_chmod,
    SYS_dup2,
    SYS_epoll_create,
    SYS_epoll_wait,
    SYS_getrlimit,
    SYS_lstat,
    SYS_mkdir,
    SYS_open,
    SYS_pause,
    SYS_pipe,
    SYS_poll,
    SYS_readlink,
    SYS_rename,
    SYS_rmdir,
    SYS_select,
    SYS_stat,
    SYS_time,
    SYS_unlink,
#endif
};

/* clone3's flags are in memory, where a filter cannot read. Without it the C library uses clone. */
static const struct sock_filter head[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
    REFUSE(EPERM),
    LOAD(nr),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, CALL_MAX, 0, 1),
    REFUSE(EPERM),
    IF_EQUAL(SYS_clone3),
    REFUSE(ENOSYS),
};

/* From the end: what becomes of calls that are in no list. */
#define OTHER_CALLS -5

/* Of little-endian words the low half comes first. */
static const struct sock_filter tail[] = {
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
    RETURN(SECCOMP_RET_ALLOW), /* or another, see OTHER_CALLS */
    LOAD(args[0]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
    REFUSE(EPERM),
    RETURN(SECCOMP_RET_ALLOW),
};

_Static_assert(ARRAY_SIZE(head) + 2 * ARRAY_SIZE(refused) + ARRAY_SIZE(tail) <= RESTRICT_FILTER_MAX,
               "the filter has room");
_Static_assert(ARRAY_SIZE(head) + 2 * ARRAY_SIZE(allowed) + ARRAY_SIZE(tail) + 1 <=
                   RESTRICT_FILTER_MAX,
               "the filter has room");

static struct sock_filter *put(struct sock_filter *f, const struct sock_filter *from, size_t n)
{
    memcpy(f, from, n * sizeof(*f));
    return f + n;
}

static struct sock_filter *put_calls(struct sock_filter *f, const unsigned *call, size_t n,
                                     struct sock_filter what)
{
    for (size_t i = 0; i < n; i++) {
        *f++ = (struct sock_filter)IF_EQUAL(call[i]);
        *f++ = what;
    }
    return f;
}

unsigned restrict_filter(bool known, struct sock_filter filter[RESTRICT_FILTER_MAX])
{
    const struct sock_filter allow = RETURN(SECCOMP_RET_ALLOW), refuse = REFUSE(EPERM);
    struct sock_filter *f = put(filter, head, ARRAY_SIZE(head));

    if (known)
        f = put_calls(f, allowed, ARRAY_SIZE(allowed), allow);
    else
        f = put_calls(f, refused, ARRAY_SIZE(refused), refuse);
    f = put(f, tail, ARRAY_SIZE(tail));
    f[OTHER_CALLS] = known ? refuse : allow;
    return (unsigned)(f - filter);
}

int restrict_system_calls(bool known)
{
    struct sock_filter filter[RESTRICT_FILTER_MAX];
    struct sock_fprog program = {.filter = filter};
    long thread;

    program.len = (unsigned short)restrict_filter(known, filter);
    /* Older kernels would else turn off speculation, which slows down the workers. */
    thread = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                     SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
    if (thread > 0)
        return -ESRCH; /* a thread that has other filters */
    return thread ? -errno : 0;
}

#else

unsigned restrict_filter(bool known, struct sock_filter filter[RESTRICT_FILTER_MAX])
{
    return 0;
}

int restrict_system_calls(bool known)
{
    return -EOPNOTSUPP;
}

#endif
