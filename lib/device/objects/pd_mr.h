/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and memory regions. mr_freeze.c and mr_heat.c change how a region is reached.
 */
#ifndef UROCE_DEVICE_PD_MR_H
#define UROCE_DEVICE_PD_MR_H

#include "mem.h"
#include "objects/alias.h"
#include "objects/object.h"
#include "session.h"

struct pd {
    struct object o;
    struct alias alias;
    LIST_HEAD(, qp_object)
    datagram_qps;             /* an original's: the UD queue pairs of it and its aliases */
    LIST_HEAD(, mr) null_mrs; /* which end with it */
    uint32_t nulls;           /* of these */
};

/* Itself, or the one that an imported one stands for. */
static inline struct pd *pd_original(struct pd *pd)
{
    return pd->alias.of ? container_of(pd->alias.of, struct pd, o) : pd;
}

/* The number by which the transport knows it: an imported one is the original. */
static inline uint32_t pd_number(const struct pd *pd)
{
    return pd->alias.of ? pd->alias.of->handle : pd->o.handle;
}

struct mr {
    struct object o;
    struct pd *pd;
    struct mem_region region;
    struct dm *dm;   /* or NULL */
    void *mapping;   /* or NULL */
    uint32_t pieces; /* of the mapping */
    uint32_t why;    /* enum ctl_mr_why: why it is mapped, or copied */
    bool has_why;
    uint32_t uidx;
    uint32_t hot_uses;      /* copies after which it is, or was, hot; 0: not counted so far */
    LIST_ENTRY(mr) movable; /* while is_movable: mapped, and the application may rearrange it */
    bool is_movable;
    LIST_ENTRY(mr) hot; /* while is_listed: among its session's hot regions */
    bool is_listed;
    LIST_ENTRY(mr) null_link; /* while is_null */
    bool is_null;
    bool closed; /* its key is not valid any more */
};

int pd_alloc(struct session *sn, struct ctl_call *call);
/* Also -EAGAIN: null regions of it have not ended yet. */
int pd_dealloc(struct session *sn, struct ctl_call *call);
/* Ends an alias that was unimported, if nothing uses it. */
void pd_end_unused(struct object *o);
bool pd_free_some(struct session *sn, const struct slice *s);

int mr_register(struct session *sn, struct ctl_call *call);
int mr_deregister(struct session *sn, struct ctl_call *call);
bool mr_free_some(struct session *sn, const struct slice *s);

/* No access begins any more after the next quiet point, and no window is bound to it. */
void mr_unpublish(struct object *o);
/* After that quiet point, when it does not wait. */
void mr_free(struct object *o);

/* Sets why a region is mapped or copied, and counts it. */
void mr_set_why(struct mr *mr, uint32_t why);
/*
 * Finds out how the daemon reaches a region: by a mapping of the n pieces of the call's descriptor,
 * if there is one that can be mapped and the session's quota has room, in *mapping and r->direct;
 * otherwise by copying. 0; -EINPROGRESS: as session_errand, whose rules hold; -EPERM or -ESRCH: not
 * at all.
 */
int mr_reach(struct session *sn, struct mem_region *r, const struct ctl_call *call,
             const struct ctl_mr_piece *piece, unsigned n, void **mapping);
/* No request takes what the errand of mr_reach has found. */
void mr_forget_reach(struct session *sn);
/* Notes that the region is mapped, or with NULL that it is copied. */
void mr_set_mapping(struct mr *mr, void *mapping);
/* Frees a mapping that no worker uses any more, and clears r->direct. */
void mr_unmap(struct session *sn, void *mapping, struct mem_region *r, uint32_t pieces);

/* ---- mr_freeze.c: the application rearranges the memory behind its regions ---- */

int mrs_freeze(struct session *sn, struct ctl_call *call);
/* Ends a freeze, if there is one. */
void mrs_end_freeze(struct session *sn);
int mrs_thaw(struct session *sn, struct ctl_call *call);
/* From now on the session's regions are copied, and reached by this space. The time for which that
 * stops the workers is taken from the user's credit. */
void mrs_move_space(struct session *sn, void *space, const struct mem_backend *copy);
int mr_remap(struct session *sn, struct ctl_call *call);
int uffd_get(struct session *sn, struct ctl_call *call);

/* ---- mr_heat.c: reporting regions that are copied often to the application ---- */

int mrs_hot(struct session *sn, struct ctl_call *call);
/* Lets workers announce hot regions in the context segment; the session's segment and space exist.
 */
void mrs_report_heat(struct session *sn);
/* Takes the regions that are hot from the list of the session's space, for mrs_hot. */
void mrs_take_hot(struct session *sn);
/* Counts from now on, if the region is copied for a reason that may change. */
void mr_heat_start(struct mr *mr);
/* Before the region ends, when no worker knows it. */
void mr_heat_stop(struct mr *mr);

#endif
