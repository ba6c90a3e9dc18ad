/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reaching application memory by copying through a descriptor of /proc/PID/mem, for a daemon that
 * the kernel allows to read and write any process.
 *
 * process_vm_readv (copy.h) names a process and not its memory: it reaches the program that the
 * process executes next. An application that leaves its connection to a child and then executes a
 * set-uid program would make a privileged daemon write into that program. The descriptor stays with
 * the memory that it was opened for: once the process executes another program or ends, transfers
 * fail with -ESRCH. It costs a system call for each range, so this backend is used only where it is
 * needed.
 *
 * Unlike process_vm_writev, a write here succeeds in private pages that the application has made
 * read-only or inaccessible to itself (unless the kernel is configured otherwise). The application
 * gets a copy of the page, as from a debugger's write: the write reaches no file and no other
 * process, and the region's access rights were checked before. The only effect is that a work
 * request on such a page succeeds instead of failing. Shared read-only pages are refused.
 *
 * Atomics: atomic.h.
 */
#ifndef UROCE_MEM_PINNED_H
#define UROCE_MEM_PINNED_H

#include <stdatomic.h>
#include <sys/socket.h>

#include "freeze.h"
#include "heat.h"
#include "life.h"
#include "mem_heat.h"

/* The memory of one application: the `space` of its regions. Shared by all workers. */
struct mem_pinned_space {
    int fd; /* /proc/PID/mem */
    pid_t pid;
    _Atomic bool gone;
    struct mem_freeze freeze;
    struct mem_heat heat;
    struct mem_life life;
};

/* The backend's table; every `space` passed to it is a struct mem_pinned_space. Any worker. */
extern const struct mem_backend mem_pinned_backend;

/*
 * Opens the memory that process peer->pid has now. peer: from SO_PEERCRED, never from a message.
 * Control thread. Returns 0, or with *space unchanged:
 *  -EINVAL  peer->pid is no process that this PID namespace sees
 *  -ESRCH   it has ended
 *  -EPERM   the process is no longer, or not only, peer's: a real, effective, saved or file system
 *           id differs from peer's, it is not dumpable (it executed a set-id program or one with
 *           capabilities, or asked for it), or it has capabilities; or the kernel refuses
 *  another negative errno: descriptors or memory ran out
 */
int mem_pinned_space_open(struct mem_pinned_space *space, const struct ucred *peer);

/* The workers must have stopped using the space. Control thread. */
void mem_pinned_space_close(struct mem_pinned_space *space);

/* Notes that the application has ended: from now on every transfer fails with -ESRCH, even if a
 * child has the same memory (vfork). Any thread. */
void mem_pinned_space_mark_gone(struct mem_pinned_space *space);

#endif
