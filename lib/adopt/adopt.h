/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adopting pages: private anonymous memory of this process moves, while its threads run, into a
 * sealed memfd that is mapped at the same addresses, so that the daemon can map it too. When the
 * last lease on it ends, it becomes private anonymous memory again. doc/memory.md says what that
 * means for a program, decision 12 gives the reasons.
 *
 * How a range moves: a userfaultfd blocks the threads that write to it, the range is copied into
 * the memfd, and a mapping of the memfd replaces it; then the writers continue. At most
 * ADOPT_WINDOW bytes move at a time. A failure before the replacement leaves the memory unchanged.
 *
 * Threads: the caller serialises all calls, also with fork(). libc only; no memory of malloc's is
 * accessed while writers are blocked.
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
    uint64_t moved;      /* bytes that were moved for it; the others were in the memfd already */
    /* LEASE_COPIED: */
    bool thawed; /* it was held until a fork */
    bool views;  /* some of it is a private view of a memfd, until the lease ends */
    unsigned pieces;
    struct adopt_piece piece[ADOPT_PIECES_MAX];
};

struct adopt_config {
    /* Gets a descriptor of /dev/userfaultfd from the daemon, for programs that lack the permission
     * for userfaultfd(2), or a negative number. lib/adopt closes it. NULL: there is no such source.
     */
    int (*device)(void);
    /*
     * Called around a move if the daemon copies some of the pages for another registration: from
     * stop() to go(), or at most for the nanoseconds that stop() returns, the daemon copies
     * nothing. A negative number: the daemon refuses, and the pages stay where they are. NULL:
     * there is no daemon that copies.
     */
    int64_t (*stop)(void);
    void (*go)(void);
};

/*
 * Finds out, once, whether this process can adopt pages: CTL_MR_ADOPTED if it can, else why not.
 * The caller handles signals and forks; a forked child calls adopt_child first.
 */
enum ctl_mr_why adopt_init(const struct adopt_config *config);

enum adopt_flag {
    ADOPT_WRITES = 1 << 0,  /* the daemon writes there */
    ADOPT_MOVE = 1 << 1,    /* move pages that are not adopted yet; without it CTL_MR_SMALL, or
                               CTL_MR_OVERLAPS if other pages of the range are adopted */
    ADOPT_AGAIN = 1 << 2,   /* also move pages that the daemon copies for another lease */
    ADOPT_ANYTIME = 1 << 3, /* the program does not know when pages move: move only pages for
                               which the kernel detects use by direct I/O; for others
                               CTL_MR_PINNED */
};

/* Whether ADOPT_ANYTIME can succeed. */
bool adopt_can_anytime(void);

/*
 * Makes l a lease on [addr, addr + len). Returns CTL_MR_ADOPTED, and the pieces in order and
 * without gaps; or why the range must be copied, and a lease that only notes the copying. len is
 * not 0, and the range does not wrap around.
 */
enum ctl_mr_why adopt_acquire(struct adopt_lease *l, uint64_t addr, uint64_t len, unsigned flags);

/* Notes that the daemon copies [addr, addr + len), so that stop() is called before pages move. */
void adopt_note_copied(struct adopt_lease *l, uint64_t addr, uint64_t len);

/* Turns a held lease into a copied one: the daemon has refused to map the pages. */
void adopt_refused(struct adopt_lease *l);

/* Ends a lease. The daemon must have unmapped its pages before. Pages that no other lease holds
 * become private again. */
void adopt_release(struct adopt_lease *l);

/* The memfd of the held pieces. */
int adopt_memfd(void);

/* How many bytes all leases hold, each byte counted once. */
uint64_t adopt_held_bytes(void);

/* Whether addr may be in a shared mapping other than the memfd's. */
bool adopt_is_shared(uint64_t addr);

/* ---- fork(): adopt_fork.c ---- */

/* Whether the program has closed the memfd while it has held pages, as a program does that closes
 * all descriptors. The caller must then act as before a fork, else the pages can never be mapped
 * again. */
bool adopt_lost(void);

/* Whether a fork needs the calls below. */
bool adopt_must_freeze(void);

/*
 * Before the fork: turns all held pages into private views of the memfd, at once and without
 * copying, so that parent and child each keep their own. The daemon must not write to the pages
 * during the call. The caller then passes each lease to adopt_lease_freeze.
 */
void adopt_freeze(void);
/* Turns a held lease into a copied one, with thawed set. */
void adopt_lease_freeze(struct adopt_lease *l);
/* In the child: forgets everything that the parent has adopted. */
void adopt_child(void);

#endif
