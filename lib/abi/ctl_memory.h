/* SPDX-License-Identifier: BSD-3-Clause */
/* The control protocol (ctl_msg.h): memory regions, windows and device memory. */
#ifndef UROCE_CTL_MEMORY_H
#define UROCE_CTL_MEMORY_H

#include <stdbool.h>

#include "ctl_place.h"

enum ctl_mr_flag {
    CTL_MR_FD = 1 << 0, /* the message carries a memfd sealed against shrinking that backs the range
                           at fd_offset */
    /* The region gets the keys of the one with the request's `handle`, which is no longer to be
       found by them; CTL_DEREG_MR ends it. -EBUSY: windows are bound to it. */
    CTL_MR_REPLACES = 1 << 1,
    /* The region is the range at offset addr of the device memory with the request's `handle`. Its
       addresses begin with 0 (access has ZERO_BASED). */
    CTL_MR_DEVICE_MEMORY = 1 << 2,
    CTL_MR_NULL = 1 << 3, /* all addresses, with zeros; writes are discarded */
};

/*
 * Why the application offers memory to be mapped, or to be copied. The daemon only shows it; see
 * doc/memory.md.
 */
enum ctl_mr_why {
    CTL_MR_UNKNOWN,
    CTL_MR_SHARED,      /* mapped: the application's own file in memory */
    CTL_MR_ADOPTED,     /* mapped: private memory that was moved into a memfd */
    CTL_MR_OFF,         /* adoption is turned off */
    CTL_MR_SMALL,       /* too small for the cost of adoption, and only large ones are adopted */
    CTL_MR_COLD,        /* small, and seldom used so far */
    CTL_MR_ON_DEMAND,   /* need not exist yet */
    CTL_MR_TOOL,        /* valgrind, or a sanitizer, watches the program's memory */
    CTL_MR_KERNEL,      /* the kernel or the CPU lacks a feature that adoption needs */
    CTL_MR_NO_UFFD,     /* no permission for a userfaultfd that blocks system calls too */
    CTL_MR_NOT_PRIVATE, /* shared memory that the daemon does not map, or a file */
    CTL_MR_NO_ACCESS,   /* not mapped, or not with the protection that the access rights need */
    CTL_MR_STACK,       /* stacks and thread-local memory */
    CTL_MR_SPARSE,      /* most pages were never touched */
    CTL_MR_SPLIT,       /* too many pieces */
    CTL_MR_OVERLAPS,    /* shares pages with a region that is copied */
    CTL_MR_PINNED,      /* in use by direct I/O, or watched by another userfaultfd */
    CTL_MR_NO_ROOM,     /* half of the mappings that a process may have are in use */
    CTL_MR_NO_MEMORY,
    CTL_MR_FORKED,  /* it was mapped until the program forked */
    CTL_MR_BUSY,    /* the daemon refused to stop copying for the time needed */
    CTL_MR_FAILED,  /* a system call failed in another way */
    CTL_MR_REFUSED, /* the daemon could not map it, or has mapped too much for this program */
    CTL_MR_DEVICE,  /* device memory, always mapped */
    CTL_MR_NOTHING, /* no memory: CTL_MR_NULL */
    CTL_MR_WHYS
};

/* Whether a region that is copied for this reason could be mapped later: the daemon then notifies
 * the application when the region becomes hot. */
static inline bool ctl_mr_may_change(uint32_t why)
{
    return why == CTL_MR_COLD || why == CTL_MR_OVERLAPS || why == CTL_MR_PINNED ||
           why == CTL_MR_NO_ROOM || why == CTL_MR_NO_MEMORY || why == CTL_MR_FORKED ||
           why == CTL_MR_BUSY;
}

#define CTL_MR_PIECES 16

struct ctl_mr_piece {
    uint64_t offset, length; /* in the memfd */
};

struct ctl_reg_mr {
    uint32_t pd, access;
    uint64_t addr, length, iova;
    uint32_t flags; /* enum ctl_mr_flag */
    uint32_t why;   /* enum ctl_mr_why */
    uint64_t fd_offset;
    /* reply; handle: also of a request, see CTL_MR_REPLACES */
    uint32_t handle, lkey, rkey;
    uint32_t mapped; /* 1: reached by mapping, 0: by copying */
    /* request, CTL_MR_FD: 0 for one piece at fd_offset; else the range consists of these pieces, in
       order, and all but the last end at the end of a page */
    uint32_t pieces;
    uint32_t uidx; /* request: the application's own number of it, in CTL_HOT_MRS */
    struct ctl_mr_piece piece[CTL_MR_PIECES];
};

enum ctl_freeze_flag {
    CTL_FREEZE_UNMAP = 1 << 0, /* and mapped regions, except CTL_MR_SHARED, become copied ones */
};

struct ctl_freeze {
    uint32_t flags;
    uint32_t granted_us; /* reply: the freeze ends after this time without CTL_THAW_MRS; 0: the
                            user's programs have used up their time, and can ask again later */
};

/* Another backing for a region: as in struct ctl_reg_mr; without a descriptor it is copied. */
struct ctl_remap {
    uint32_t handle, why;
    uint32_t pieces;
    uint32_t mapped; /* reply */
    struct ctl_mr_piece piece[CTL_MR_PIECES];
};

#define CTL_HOT_MAX 64

/*
 * Hot regions: copied so often that mapping them would pay. Each is reported once. The application
 * may move its pages and tell the daemon by CTL_REMAP_MR. If that says that the region stays
 * copied, the daemon starts to count again, with twice the limit.
 */
struct ctl_hot {
    uint32_t count, more; /* more: there are others */
    uint32_t uidx[CTL_HOT_MAX];
};

struct ctl_alloc_mw {
    uint32_t pd, type;     /* enum ibv_mw_type: 1 or 2 */
    uint32_t handle, rkey; /* reply */
};

struct ctl_alloc_dm {
    uint64_t length;
    uint32_t log_align; /* of its first byte in the application's mapping */
    uint32_t handle;    /* reply */
    struct ctl_place place;
};

#endif
