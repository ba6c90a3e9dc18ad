/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The filter of system calls: a list of those to refuse, because drivers of DPDK that a port may
 * use are not known. Calls that the list does not name have no argument that is looked at, so
 * the kernel (5.11) knows them without running the filter.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
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

/* Of little-endian words the low half comes first. */
static const struct sock_filter tail[] = {
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
    RETURN(SECCOMP_RET_ALLOW),
    LOAD(args[0]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
    REFUSE(EPERM),
    RETURN(SECCOMP_RET_ALLOW),
};

int restrict_system_calls(void)
{
    struct sock_filter filter[ARRAY_SIZE(head) + 2 * ARRAY_SIZE(refused) + ARRAY_SIZE(tail)];
    struct sock_fprog program = {.len = ARRAY_SIZE(filter), .filter = filter};
    struct sock_filter *f = filter;
    long thread;

    for (unsigned i = 0; i < ARRAY_SIZE(head); i++)
        *f++ = head[i];
    for (unsigned i = 0; i < ARRAY_SIZE(refused); i++) {
        *f++ = (struct sock_filter)IF_EQUAL(refused[i]);
        *f++ = (struct sock_filter)REFUSE(EPERM);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(tail); i++)
        *f++ = tail[i];
    /* Older kernels would else turn off speculation, which slows down the workers. */
    thread = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                     SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
    if (thread > 0)
        return -ESRCH; /* a thread that has other filters */
    return thread ? -errno : 0;
}

#else

int restrict_system_calls(void)
{
    return -EOPNOTSUPP;
}

#endif
