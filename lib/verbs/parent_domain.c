/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thread domains and parent domains. A parent domain is its protection domain by another name: the
 * daemon knows the protection domain alone. Queues are in memory that is shared with the daemon, so
 * a parent domain's allocator is never asked for any. A thread domain promises that one thread uses
 * its objects; their locks are not taken away, which are never contended then.
 */
#include "later.h"
#include "shim.h"

struct shim_td {
    struct ibv_td base;
    _Atomic uint32_t users;
};

struct ibv_td *shim_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    struct shim_td *td;

    if (attr->comp_mask)
        return refuse(-EINVAL);
    td = calloc(1, sizeof(*td));
    if (!td)
        return NULL;
    td->base.context = context;
    return &td->base;
}

int shim_dealloc_td(struct ibv_td *base)
{
    struct shim_td *td = (struct shim_td *)base;

    if (atomic_load(&td->users))
        return failed(EBUSY);
    free(td);
    return 0;
}

static int check(const struct ibv_context *context, const struct ibv_parent_domain_init_attr *attr)
{
    /* A daemon in a confidential guest reaches the guest's memory as it is: no other is needed. */
    const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                           IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
                           LATER_PARENT_DOMAIN_CC_UNPROTECTED;

    if (attr->comp_mask & ~known || !attr->pd || attr->pd->context != context ||
        to_pd(attr->pd)->of || (attr->td && attr->td->context != context))
        return -EINVAL;
    if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) && (!attr->alloc || !attr->free))
        return -EINVAL;
    return 0;
}

struct ibv_pd *shim_alloc_parent_domain(struct ibv_context *context,
                                        struct ibv_parent_domain_init_attr *attr)
{
    int err = check(context, attr);
    struct shim_pd *pd;

    if (err)
        return refuse(err);
    pd = calloc(1, sizeof(*pd));
    if (!pd)
        return NULL;
    pd->base = *attr->pd; /* also its handle */
    pd->of = to_pd(attr->pd);
    pd->td = (struct shim_td *)attr->td;
    atomic_fetch_add(&pd->of->parents, 1);
    if (pd->td)
        atomic_fetch_add(&pd->td->users, 1);
    return &pd->base;
}

void parent_domain_free(struct shim_pd *pd)
{
    if (atomic_fetch_sub(&pd->of->parents, 1) == (PD_ENDED | 1))
        free(pd->of);
    if (pd->td)
        atomic_fetch_sub(&pd->td->users, 1);
    free(pd);
}
