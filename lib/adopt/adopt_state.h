/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to lib/adopt: the state, and the functions that its files share. */
#ifndef UROCE_ADOPT_STATE_H
#define UROCE_ADOPT_STATE_H

#include <sys/types.h>

#include "adopt.h"
#include "adopt_raw.h"
#include "adopt_vma.h"
#include "common.h"
#include "interval.h"

#define FORBIDDEN_MAX  4096
#define WINDOW_PAGES   (ADOPT_WINDOW / 4096)
#define GUARDED_WINDOW (UINT64_C(256) << 10)
#define FILE_BYTES     (UINT64_C(1) << 62)
#define SLOTS_BEGIN    (UINT64_C(1) << 48)
#define SLOT_BYTES     (UINT64_C(1) << 36)
#define DEDICATED      (UINT64_C(128) << 10)

/* Static, and its pages are forbidden: no part of it is on a page that can be moved. */
struct adopt_state {
    enum ctl_mr_why usable; /* CTL_MR_ADOPTED, or why not; CTL_MR_UNKNOWN: not tried yet */
    struct adopt_config config;
    pid_t pid;
    int memfd, uffd, maps, pagemap; /* -1: none */
    struct {
        dev_t dev;
        ino_t ino;
    } identity[4]; /* of these descriptors: some programs close descriptors that are not theirs */
    uint64_t features;
    bool text_maps;
    uint64_t page;
    uint64_t slot_next;
    bool slots_again; /* all parts of the memfd have been given once */
    struct {
        uint64_t addr, offset;
    } follows; /* in the region that is registered: the end of its last piece that got a part */
    uint64_t scratch; /* room for one window, to which unpinned pages move; 0: none yet */
    uint64_t stage;   /* room for two windows: adopt_alloc.c; 0: none yet */
    bool has_nodes;   /* the machine has several NUMA nodes */
    bool has_huge;    /* shared memory may have huge pages */
    unsigned vmas, vmas_added, vmas_max;
    int64_t full_until;         /* until then "too many mappings" holds without another count */
    bool made_views;            /* a private view was made, since this was set to false */
    bool has_views;             /* pages of this memfd that no lease holds may be mapped, as private
                                   views mostly: a child must not share them */
    bool copied_lost;           /* no room to note what the daemon copies: it may be any page */
    struct interval_set held;   /* offsets in the memfd */
    struct interval_set copied; /* addresses */
    struct {
        uint64_t start, end;
    } forbidden[FORBIDDEN_MAX];
    unsigned forbiddens;
    uint64_t pages[WINDOW_PAGES]; /* /proc/self/pagemap of a window */
    uint8_t bounce[64 << 10];     /* bytes on their way out of the memfd */
};

extern struct adopt_state adopt;

static inline uint64_t page_down(uint64_t x)
{
    return x & ~(adopt.page - 1);
}

static inline uint64_t page_up(uint64_t x)
{
    return page_down(x + adopt.page - 1);
}

/* ---- adopt_open.c ---- */

/* A new memfd; the old one is closed. 0 or a negative errno. */
int adopt_new_memfd(void);
/* Opens the descriptors again that the program has closed. CTL_MR_ADOPTED, or why that fails. */
enum ctl_mr_why adopt_reopen(void);
void adopt_close(void);
/* The descriptor of /proc/self/maps; -1: there is none, or the program has closed it. */
int adopt_maps(void);
/* How many kB this process has locked in memory. */
uint64_t adopt_locked_kb(void);
/* Whether v is a shared mapping of the current memfd. */
bool adopt_is_ours(const struct vma *v);
/* Whether v is a shared mapping or a private view of the current memfd. */
bool adopt_is_of_memfd(const struct vma *v);

/* ---- adopt_forbid.c ---- */

/* Notes the pages on which no thread may be blocked: stacks, thread-local memory, and our own
 * state. False: there are too many threads. */
bool adopt_find_forbidden(void);
/* Whether [start, end) has such a page. */
bool adopt_forbidden(uint64_t start, uint64_t end);

/* ---- adopt_uffd.c ---- */

#define ADOPT_FEATURE_MOVE (UINT64_C(1) << 16) /* UFFD_FEATURE_MOVE */

/* Sets adopt.uffd and adopt.features. CTL_MR_ADOPTED, or why there is no userfaultfd. */
enum ctl_mr_why uffd_open(void);
/* Whether the kernel refuses to move pages of v that direct I/O uses. It cannot tell for private
 * views of a file, and kernels that cannot move pages never tell. */
bool adopt_sees_pins(const struct vma *v);
/* The functions below return 0 or a negative errno. mode: UFFDIO_REGISTER_MODE_. */
long uffd_watch(uint64_t start, uint64_t len, uint64_t mode);
/* Blocks threads that write to watched pages, as long as the pages are protected and watched. A
 * thread that is blocked then sleeps until uffd_wake. */
long uffd_protect(uint64_t start, uint64_t len, bool on);
void uffd_wake(uint64_t start, uint64_t len);
/* Ends protection and watch, and wakes the threads that were blocked. */
void uffd_release(uint64_t start, uint64_t len);
/* Moves pages without copying them. *moved: how many bytes were moved. */
long uffd_move(uint64_t to, uint64_t from, uint64_t len, uint64_t *moved);

/* ---- adopt_window.c ---- */

/*
 * Moves [start, end), private memory inside the mapping v, to the memfd at offset. If a window
 * fails, the windows before it are moved back. 0; -EBUSY: pinned, or watched by another
 * userfaultfd; -EAGAIN: the daemon did not stop copying; or another negative errno.
 */
int adopt_move_in(uint64_t start, uint64_t end, const struct vma *v, uint64_t offset);
/* Bytes in [start, end) that have no page yet; stops counting above `enough`. */
uint64_t adopt_untouched(uint64_t start, uint64_t end, uint64_t enough);

/* ---- adopt_out.c ---- */

/* Makes [*start, end), inside the mapping v of a memfd of ours, anonymous again, and sets *start to
 * the end of what is anonymous now. punch: nothing else shows these bytes of the memfd, which are
 * freed step by step, so that the process never has a region twice. 0, or a negative errno where
 * that is not all. */
int adopt_move_out(uint64_t *start, uint64_t end, const struct vma *v, bool punch);
/* Makes [start, end) of a shared mapping v of the memfd a private view of it. */
int adopt_make_view(uint64_t start, uint64_t end, const struct vma *v);

/* ---- adopt_alloc.c ---- */

#define ADOPT_NODES 1024

/* The thread's NUMA policy before numa_policy_begin. */
struct numa_policy {
    bool changed;
    int mode;
    uint64_t mask[ADOPT_NODES / 64];
};

void adopt_alloc_init(void);
/* Until numa_policy_end the pages that this thread allocates come from the node of the page at
 * `like`, which is allocated if it is missing. `like` must not be protected. */
void numa_policy_begin(struct numa_policy *p, uint64_t like);
void numa_policy_end(const struct numa_policy *p);
/* Whether a window can be one huge page. */
bool huge_page_fits(uint64_t start, uint64_t len, uint64_t offset);
void huge_page_allow(uint64_t start, uint64_t len);
/* Allocates such a window of the memfd. */
void huge_page_make(uint64_t offset);

/* ---- adopt_release.c ---- */

/*
 * Gives [offset, offset + length) back to the program. No lease holds it, and it was at addr.
 * GIVE_BACK: as anonymous memory. GIVE_VIEW, for a registration that fails half-way: as a private
 * view, which costs nothing and leaves the pages where direct I/O may just have begun to use them.
 */
enum adopt_give { GIVE_BACK, GIVE_VIEW };
void adopt_give_back(uint64_t addr, uint64_t offset, uint64_t length, enum adopt_give how);

/* Frees these bytes of the memfd. */
static inline void adopt_punch(uint64_t offset, uint64_t bytes)
{
    if (bytes)
        raw_fallocate(adopt.memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
}

/* Where the memfd's first data from offset on is; UINT64_MAX: there is none. Where the kernel does
 * not say, as a sandbox forbids the call, all of it may be data. */
static inline uint64_t adopt_next_data(uint64_t offset)
{
    long data = raw_lseek(adopt.memfd, offset, SEEK_DATA);

    return data >= 0 ? (uint64_t)data : data == -ENXIO ? UINT64_MAX : offset;
}

/* Whether the daemon copies any of [start, end). */
static inline bool adopt_is_copied(uint64_t start, uint64_t end)
{
    return adopt.copied_lost || interval_any(&adopt.copied, start, end);
}

#endif
