/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adopting pages: private anonymous memory of this process moves, under the running threads, into a
 * sealed memfd that is mapped at the same addresses, so that the daemon can map it too. When nobody
 * needs it any more it becomes private anonymous memory again. doc/memory.md says what that means
 * for a program, decision 12 why it is done so.
 *
 * How a range moves: a userfaultfd holds up whoever writes to it, it is copied into the memfd, and
 * a mapping of the memfd replaces it; then the writers go on. At most ADOPT_WINDOW bytes at a time.
 * Whatever fails before the replacement leaves the memory as it was.
 *
 * Threads: the caller serialises all calls, also with fork(). libc only; no
 * memory of malloc's is touched while writers are held up.
 */
#ifndef UROCE_ADOPT_H
#define UROCE_ADOPT_H

#include <stdbool.h>

#include "ctl_msg.h"

#define ADOPT_WINDOW     (UINT64_C(2) << 20)
#define ADOPT_NAME       "uroce-mr" /* the memfd's, as /proc/self/maps has it */
#define ADOPT_PIECES_MAX CTL_MR_PIECES

struct adopt_piece {
    uint64_t addr, offset, length; /* whole pages */
};

enum adopt_lease_kind {
    LEASE_NONE,
    LEASE_HELD,   /* in the memfd, at the pieces' offsets */
    LEASE_COPIED, /* private memory, which the daemon copies */
};

/* One registration's hold on its pages. */
struct adopt_lease {
    enum adopt_lease_kind kind;
    uint64_t start, end; /* whole pages */
    /* LEASE_COPIED: */
    bool thawed; /* it was held until a fork */
    bool views;  /* some of it is a private view of a memfd, until the lease ends */
    unsigned pieces;
    struct adopt_piece piece[ADOPT_PIECES_MAX];
};

struct adopt_config {
    /* A descriptor of /dev/userfaultfd for programs that may not use userfaultfd(2), from whoever
     * may, or a negative number. The descriptor becomes the callee's. NULL: there is none. */
    int (*device)(void);
    /*
     * Called around the move of pages of which the daemon copies some for another registration:
     * after stop() and until go(), or at most for the nanoseconds that stop() returns, no copy is
     * under way. A negative number: the daemon does not, and the pages stay where they are. NULL:
     * nobody copies.
     */
    int64_t (*stop)(void);
    void (*go)(void);
};

/*
 * Finds out whether this process can adopt, once; CTL_MR_ADOPTED if it can, else why not. Signals
 * and forks are the caller's business; a forked child calls adopt_child first.
 */
enum ctl_mr_why adopt_init(const struct adopt_config *config);

enum adopt_flag {
    ADOPT_WRITES = 1 << 0,  /* the daemon shall write there */
    ADOPT_MOVE = 1 << 1,    /* pages that are not adopted yet, too; else CTL_MR_SMALL, or
                               CTL_MR_OVERLAPS if others of the range are */
    ADOPT_AGAIN = 1 << 2,   /* pages that the daemon copies for another lease, too */
    ADOPT_ANYTIME = 1 << 3, /* the program does not know when: only pages that are seen to be in use
                               by direct I/O if they are; others: CTL_MR_PINNED */
};

/*
 * Takes hold of [addr, addr + len). Returns CTL_MR_ADOPTED, and the pieces, in order and without
 * gaps; or why the range must be copied: the lease then only notes that. len is not 0 and the range
 * does not wrap around.
 */
enum ctl_mr_why adopt_acquire(struct adopt_lease *l, uint64_t addr, uint64_t len, unsigned flags);

/* Notes that the daemon copies [addr, addr + len), so that stop() is called in time. */
void adopt_note_copied(struct adopt_lease *l, uint64_t addr, uint64_t len);

/* The daemon copies after all what the lease holds: makes it a copied one. */
void adopt_refused(struct adopt_lease *l);

/* Ends a lease. Pages that no other lease holds become private again; the daemon must not have
 * them mapped for this lease any more. */
void adopt_release(struct adopt_lease *l);

/* The memfd of the held pieces. */
int adopt_memfd(void);

/* How many bytes are held, each counted once. */
uint64_t adopt_held_bytes(void);

/* Whether addr may be in a mapping that is shared with others, other than the memfd's. */
bool adopt_is_shared(uint64_t addr);

/* ---- fork(): adopt_fork.c ---- */

/* Whether the program has closed the memfd with held pages in it, as programs do that close all
 * descriptors: what is done at a fork must then be done, or nobody could map them again. */
bool adopt_lost(void);

/* Whether a fork needs anything of what follows. */
bool adopt_must_freeze(void);

/*
 * Before: all held pages become private views of the memfd, at once and without copying, so that
 * parent and child go separate ways. The daemon must not write to them meanwhile. Then each lease
 * is passed to adopt_lease_freeze.
 */
void adopt_freeze(void);
/* A held lease becomes a copied one, thawed set. */
void adopt_lease_freeze(struct adopt_lease *l);
/* In the child: nothing was ever adopted here. */
void adopt_child(void);

#endif
