/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and memory regions. */
#include "client_mr.h"
#include "later.h"
#include "shim.h"

#define ACCESS_KNOWN                                                             \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |     \
     IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | LATER_ACCESS_FLUSH_GLOBAL)

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct shim_pd *pd = calloc(1, sizeof(*pd));
    struct ctl_msg m = {0};
    int err;

    if (!pd)
        return NULL;
    err = shim_call(context, CTL_ALLOC_PD, &m);
    if (err) {
        free(pd);
        return refuse(-err);
    }
    pd->base.context = context;
    pd->base.handle = m.handle;
    return &pd->base;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *base)
{
    struct ctl_msg m = {.handle = base->handle};
    struct shim_pd *pd = to_pd(base);
    int err;

    if (pd->of) {
        parent_domain_free(pd);
        return 0;
    }
    if (atomic_load(&pd->parents))
        return failed(EBUSY);
    err = shim_call(base->context, CTL_DEALLOC_PD, &m);
    if (is_destroyed(err))
        free(pd);
    return err;
}

/* Registering again needs two at a time: clients' regions stay in place. */
struct shim_mr {
    struct ibv_mr base;
    struct client_mr region[2];
    unsigned now;
    bool replaced; /* the one that is not now has still to end */
    bool other;    /* not the program's memory */
    bool imported; /* another process's region, which only that one can deregister */
};

/*
 * 0, -EINVAL: remote write access needs local write access (C10-49), or -EOPNOTSUPP: the daemon
 * does not write the CPU's caches back, so a FLUSH makes nothing persistent.
 */
static int check_access(unsigned access)
{
    if (access & LATER_ACCESS_FLUSH_PERSISTENT)
        return -EOPNOTSUPP;
    if (access & ~((unsigned)ACCESS_KNOWN | (unsigned)IBV_ACCESS_OPTIONAL_RANGE))
        return -EINVAL;
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        !(access & IBV_ACCESS_LOCAL_WRITE))
        return -EINVAL;
    return 0;
}

static struct ibv_mr *make_mr(struct ibv_pd *pd, void *addr, struct ctl_reg_mr *r, bool other)
{
    struct client *c = &to_context(pd->context)->client;
    struct shim_mr *mr = calloc(1, sizeof(*mr));
    int err;

    if (!mr)
        return NULL;
    err = other ? client_reg_other(c, &mr->region[0], r) : client_reg_mr(c, &mr->region[0], r);
    if (err) {
        free(mr);
        return refuse(err);
    }
    mr->other = other;
    mr->base = (struct ibv_mr){.context = pd->context,
                               .pd = pd,
                               .addr = addr,
                               .length = r->length,
                               .handle = r->handle,
                               .lkey = r->lkey,
                               .rkey = r->rkey};
    return &mr->base;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                             unsigned access)
{
    /* The optional flags and HUGETLB are hints for other platforms: this one ignores them. */
    struct ctl_reg_mr r = {.pd = pd->handle,
                           .access = access & ACCESS_KNOWN & ~(unsigned)IBV_ACCESS_HUGETLB,
                           .addr = (uintptr_t)addr,
                           .length = length,
                           .iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova};
    int err = check_access(access);

    return err ? refuse(err) : make_mr(pd, addr, &r, false);
}

struct ibv_mr *shim_reg_other(struct ibv_pd *pd, struct ctl_reg_mr *r)
{
    int err = check_access(r->access);

    r->access &= ACCESS_KNOWN & ~(unsigned)IBV_ACCESS_HUGETLB;
    return err ? refuse(err) : make_mr(pd, NULL, r, true);
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                      int access)
{
    return reg_mr(pd, addr, length, iova, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                       unsigned int access)
{
    return reg_mr(pd, addr, length, iova, access);
}

uint32_t shim_mr_pd(const struct ibv_mr *mr)
{
    const struct shim_mr *m = (const struct shim_mr *)mr;

    return m->region[m->now].pd;
}

static int end_region(struct shim_mr *mr, unsigned which)
{
    return client_dereg_mr(&to_context(mr->base.context)->client, &mr->region[which]);
}

/* An error: the region that was replaced stays. -EAGAIN: its memory does not answer. */
static int end_replaced(struct shim_mr *mr)
{
    int err = mr->replaced ? end_region(mr, !mr->now) : 0;

    mr->replaced &= !is_destroyed(err);
    return mr->replaced ? err : 0;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *ibv_mr)
{
    struct shim_mr *mr = (struct shim_mr *)ibv_mr;
    int err;

    if (mr->imported)
        return failed(EINVAL);
    err = end_replaced(mr);
    if (!err)
        err = end_region(mr, mr->now);
    if (is_destroyed(err))
        free(mr);
    return failed(-err);
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    struct ctl_msg m = {.import = {.kind = CTL_IMPORT_MR, .handle = handle, .pd = pd->handle}};
    struct shim_mr *mr = calloc(1, sizeof(*mr));
    int err;

    if (!mr)
        return NULL;
    err = shim_call(pd->context, CTL_IMPORT, &m);
    if (err) {
        free(mr);
        return refuse(-err);
    }
    mr->other = mr->imported = true;
    mr->region[0].pd = pd->handle;
    mr->base = (struct ibv_mr){.context = pd->context,
                               .pd = pd,
                               .length = m.import.length,
                               .handle = handle,
                               .lkey = m.import.lkey,
                               .rkey = m.import.rkey};
    return &mr->base;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
    free(mr);
}

static int check_rereg(int flags, const struct ibv_pd *pd, const void *addr, size_t length,
                       unsigned access)
{
    if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
        return -EINVAL;
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length))
        return -EINVAL;
    if ((flags & IBV_REREG_MR_CHANGE_PD) && !pd)
        return -EINVAL;
    return flags & IBV_REREG_MR_CHANGE_ACCESS ? check_access(access) : 0;
}

/* A second region takes the keys of the first, which is to end. Until then the first is as it was.
 */
static int replace(struct shim_mr *mr, struct ctl_reg_mr *r)
{
    unsigned other = !mr->now;
    int err = end_replaced(mr);

    if (!err)
        err = client_reg_mr(&to_context(mr->base.context)->client, &mr->region[other], r);
    if (err)
        return err;
    mr->now = other;
    mr->replaced = true;
    mr->base.handle = r->handle;
    mr->base.addr = (void *)(uintptr_t)r->addr;
    mr->base.length = r->length;
    return 0;
}

EXPORT int ibv_rereg_mr(struct ibv_mr *base, int flags, struct ibv_pd *pd, void *addr,
                        size_t length, int access)
{
    struct shim_mr *mr = (struct shim_mr *)base;
    const struct client_mr *old = &mr->region[mr->now];
    struct ctl_reg_mr r = {.pd = old->pd,
                           .access = old->access,
                           .addr = old->addr,
                           .length = old->length,
                           .iova = old->iova,
                           .flags = CTL_MR_REPLACES,
                           .handle = old->handle};
    int err = mr->other ? -EOPNOTSUPP : check_rereg(flags, pd, addr, length, (unsigned)access);

    if (flags & IBV_REREG_MR_CHANGE_PD)
        r.pd = pd ? pd->handle : 0;
    if (flags & IBV_REREG_MR_CHANGE_ACCESS)
        r.access = (unsigned)access & ACCESS_KNOWN & ~(unsigned)IBV_ACCESS_HUGETLB;
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        r.addr = r.iova = (uintptr_t)addr;
        r.length = length;
    }
    if (r.access & IBV_ACCESS_ZERO_BASED)
        r.iova = 0;
    if (!err)
        err = replace(mr, &r);
    if (err) {
        errno = -err;
        return IBV_REREG_MR_ERR_INPUT; /* the old region is as it was */
    }
    if (flags & IBV_REREG_MR_CHANGE_PD)
        base->pd = pd;
    err = end_replaced(mr);
    if (err) {
        errno = -err;
        return IBV_REREG_MR_ERR_DO_FORK_OLD; /* the new one counts; the old memory is in use */
    }
    return 0;
}

/* All kinds, with and without IBV_ADVISE_MR_FLAG_FLUSH, are done when the call returns. */
int shim_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                   struct ibv_sge *sge, uint32_t n)
{
    static const enum client_prefetch how[] = {
        [IBV_ADVISE_MR_ADVICE_PREFETCH] = PREFETCH_READ,
        [IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE] = PREFETCH_WRITE,
        /* Pages that are present are reachable. */
        [IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT] = PREFETCH_NOTHING,
    };
    int err = 0;

    if ((unsigned)advice >= ARRAY_SIZE(how))
        return failed(EOPNOTSUPP);
    if (!n || flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
        return failed(EINVAL);
    for (uint32_t i = 0; i < n && !err; i++)
        err = client_prefetch(&to_context(pd->context)->client, pd->handle, sge[i].lkey,
                              sge[i].addr, sge[i].length, how[advice]);
    return failed(-err);
}
