/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this folder share. */
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

/* Static, so that nothing of it is on a page that can be moved: its own pages are forbidden. */
struct adopt_state {
    enum ctl_mr_why usable; /* CTL_MR_ADOPTED, or why not; CTL_MR_UNKNOWN: nobody has tried */
    struct adopt_config config;
    pid_t pid;
    int memfd, uffd, maps, pagemap; /* -1: none */
    struct {
        dev_t dev;
        ino_t ino;
    } identity[4]; /* of these; some programs close descriptors that are not theirs */
    uint64_t features;
    bool text_maps;
    uint64_t page;
    uint64_t slot_next;
    uint64_t scratch; /* a window's room, where pages are looked at for pins; 0: none yet */
    uint64_t stage;   /* two windows' room: adopt_place.c; 0: none yet */
    bool has_nodes;   /* the machine has several */
    bool has_huge;    /* shared memory may have large pages */
    unsigned vmas, vmas_added, vmas_max;
    int64_t full_until;       /* what is not believed without counting anew when it has passed */
    bool flipped;             /* something was, since it was set to false */
    bool has_views;           /* there may be views of this memfd: it must not be a child's, too */
    bool copied_lost;         /* no room to note what the daemon copies: it may be anything */
    struct interval_set held; /* offsets in the memfd */
    struct interval_set copied; /* addresses */
    struct {
        uint64_t start, end;
    } forbidden[FORBIDDEN_MAX];
    unsigned forbiddens;
    uint64_t pages[WINDOW_PAGES]; /* /proc/self/pagemap of a window */
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
/* Opens again what the program may have closed. CTL_MR_ADOPTED or why nothing can be adopted. */
enum ctl_mr_why adopt_reopen(void);
void adopt_close(void);
/* kB that are locked in memory. */
uint64_t adopt_locked_kb(void);
/* Whether v is a shared mapping of the memfd that is in use. */
bool adopt_is_ours(const struct vma *v);
/* Or a private view of it. */
bool adopt_is_of_memfd(const struct vma *v);

/* ---- adopt_forbid.c ---- */

/* Notes the pages that must not be held up: stacks and thread-local memory, and our own. False:
 * there are too many threads. */
bool adopt_find_forbidden(void);
/* Whether [start, end) has such a page. */
bool adopt_forbidden(uint64_t start, uint64_t end);

/* ---- adopt_uffd.c ---- */

#define ADOPT_FEATURE_MOVE (UINT64_C(1) << 16) /* UFFD_FEATURE_MOVE */

/* Sets adopt.uffd and adopt.features. CTL_MR_ADOPTED or why there is none. */
enum ctl_mr_why uffd_open(void);
/* Whether pages of v that are in use by direct I/O do not move: not those of private views, nor
 * with kernels that cannot move pages. */
bool adopt_sees_pins(const struct vma *v);
/* All of these: 0 or a negative errno. mode: UFFDIO_REGISTER_MODE_. */
long uffd_watch(uint64_t start, uint64_t len, uint64_t mode);
/* Holds up whoever writes to pages that are watched, until they are no longer protected or watched;
 * who waits then sleeps on until uffd_wake. */
long uffd_protect(uint64_t start, uint64_t len, bool on);
void uffd_wake(uint64_t start, uint64_t len);
/* Neither protected nor watched any more, and nobody waits. */
void uffd_let_go(uint64_t start, uint64_t len);
/* Pages, not copies. *moved: how much was. */
long uffd_move(uint64_t to, uint64_t from, uint64_t len, uint64_t *moved);

/* ---- adopt_window.c ---- */

/*
 * Moves [start, end), private memory inside the mapping v, to the memfd at offset. Windows that
 * were done before one failed are put back. 0; -EBUSY: pinned, or another userfaultfd's; -EAGAIN:
 * the daemon would not stop; or another negative errno.
 */
int adopt_move_in(uint64_t start, uint64_t end, const struct vma *v, uint64_t offset);
/* Makes [start, end), inside the mapping v of a memfd of ours, anonymous again. 0 or a negative
 * errno: then parts may be done. */
int adopt_move_out(uint64_t start, uint64_t end, const struct vma *v);
/* Makes [start, end) of a shared mapping v of the memfd a private view of it. */
int adopt_flip(uint64_t start, uint64_t end, const struct vma *v);
/* Bytes in [start, end) that were never touched; stops counting above `enough`. */
uint64_t adopt_untouched(uint64_t start, uint64_t end, uint64_t enough);

/* ---- adopt_place.c ---- */

#define ADOPT_NODES 1024

/* What the thread asked for before. */
struct place {
    bool changed;
    int mode;
    uint64_t mask[ADOPT_NODES / 64];
};

void place_init(void);
/* From here to place_end the pages that this thread brings into being come from where the page at
 * `like` is, which is brought into being too. Not while it is protected. */
void place_begin(struct place *p, uint64_t like);
void place_end(const struct place *p);
/* Whether a window can be one large page. */
bool place_is_huge(uint64_t start, uint64_t len, uint64_t offset);
void place_allow_huge(uint64_t start, uint64_t len);
/* Brings such a window of the memfd into being. */
void place_make_huge(uint64_t offset);

/* ---- adopt_release.c ---- */

/*
 * Gives [offset, offset + length), which no lease holds and which was at addr, back. When a
 * registration fails half-way that is for a private view, which costs nothing, and leaves the pages
 * where they are: direct I/O that has just begun goes there.
 */
enum adopt_giving { GIVE_BACK, GIVE_VIEW };
void adopt_give_back(uint64_t addr, uint64_t offset, uint64_t length, enum adopt_giving how);

/* Whether the daemon copies any of [start, end). */
static inline bool adopt_is_copied(uint64_t start, uint64_t end)
{
    return adopt.copied_lost || interval_any(&adopt.copied, start, end);
}

#endif
