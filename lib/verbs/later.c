/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that rdma-core has since version 59: registration by a structure, hints for steering, and
 * a port's speed as a number. */
#include "later.h"

#include <sched.h>

/* ---- hints for steering a device's writes to a CPU's cache (TPH) ---- */

#define CPU_SETS 8 /* as many CPUs as Linux may be built for */

/* As the kernel says it: 0; -EINVAL: there is no such CPU; -EPERM: the thread may not run there. */
static int check_cpu(uint32_t cpu)
{
    cpu_set_t allowed[CPU_SETS];

    if (cpu >= CPU_SETS * CPU_SETSIZE)
        return -EINVAL;
    if (sched_getaffinity(0, sizeof(allowed), allowed))
        return -errno;
    return CPU_ISSET_S(cpu, sizeof(allowed), allowed) ? 0 : -EPERM;
}

/* The daemon's threads write to memory through the caches anyway: the hint is checked, not used. */
EXPORT struct later_dmah *later_ibv_alloc_dmah(struct ibv_context *context,
                                               struct later_dmah_init_attr *attr);
LATER(ibv_alloc_dmah, "1.15");
EXPORT struct later_dmah *later_ibv_alloc_dmah(struct ibv_context *context,
                                               struct later_dmah_init_attr *attr)
{
    struct later_dmah *dmah;
    int err;

    if (attr->comp_mask & ~(uint32_t)LATER_DMAH_KNOWN)
        return refuse(-EOPNOTSUPP);
    if (((attr->comp_mask & LATER_DMAH_PH) && attr->ph > LATER_PH_MAX) ||
        ((attr->comp_mask & LATER_DMAH_MEM_TYPE) && attr->tph_mem_type > LATER_MEM_TYPE_MAX))
        return refuse(-EINVAL);
    err = attr->comp_mask & LATER_DMAH_CPU_ID ? check_cpu(attr->cpu_id) : 0;
    if (err)
        return refuse(err);
    dmah = calloc(1, sizeof(*dmah));
    if (dmah)
        dmah->context = context;
    return dmah;
}

EXPORT int later_ibv_dealloc_dmah(struct later_dmah *dmah);
LATER(ibv_dealloc_dmah, "1.15");
EXPORT int later_ibv_dealloc_dmah(struct later_dmah *dmah)
{
    free(dmah);
    return 0;
}

/* ---- registration ---- */

/* A buffer says itself where its memory is, so a descriptor beside it contradicts it. */
static int check_mr_attr(const struct ibv_pd *pd, const struct later_mr_init_attr *attr)
{
    uint64_t mask = attr->comp_mask;

    if (mask & ~(uint64_t)LATER_MR_KNOWN)
        return -EOPNOTSUPP;
    if ((mask & LATER_MR_DMAH) && (!attr->dmah || attr->dmah->context != pd->context))
        return -EINVAL;
    if ((mask & LATER_MR_DMAH) && (attr->access & IBV_ACCESS_ON_DEMAND))
        return -EOPNOTSUPP; /* pages that come and go have no place for which a hint could be */
    if (!(mask & LATER_MR_FD) == !(mask & LATER_MR_ADDR) ||
        ((mask & LATER_MR_FD_OFFSET) && !(mask & LATER_MR_FD)))
        return -EINVAL;
    if ((mask & LATER_MR_BUF) &&
        (!attr->buf || attr->buf->pd != pd || !later_buf_has(attr->buf, attr->addr, attr->length)))
        return -EINVAL;
    return 0;
}

LATER(ibv_reg_mr_ex, "1.15");
EXPORT struct ibv_mr *later_ibv_reg_mr_ex(struct ibv_pd *pd, struct later_mr_init_attr *attr)
{
    uint64_t offset = attr->comp_mask & LATER_MR_FD_OFFSET ? attr->fd_offset : 0, iova;
    int err = check_mr_attr(pd, attr);

    if (err)
        return refuse(err);
    if (attr->comp_mask & LATER_MR_FD) {
        iova = attr->comp_mask & LATER_MR_IOVA ? attr->iova : offset;
        return ibv_reg_dmabuf_mr(pd, offset, attr->length, iova, attr->fd, attr->access);
    }
    iova = attr->comp_mask & LATER_MR_IOVA ? attr->iova : (uintptr_t)attr->addr;
    return ibv_reg_mr_iova2(pd, attr->addr, attr->length, iova, (unsigned)attr->access);
}

/* ---- speed ---- */

EXPORT int later_ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);
LATER(ibv_query_port_speed, "1.16");
EXPORT int later_ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
    struct ctl_msg m = {.port = {.port = port}};
    int err = shim_call(context, CTL_QUERY_PORT, &m);

    if (!err)
        *speed = shim_port_speed(&m.port) / 100;
    return err;
}

/* ---- descriptors for other devices ---- */

/* Only a kernel driver can make a DMA-buf. */
EXPORT int later_ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
LATER(ibv_dm_export_dmabuf_fd, "1.16");
EXPORT int later_ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
    errno = EOPNOTSUPP;
    return -1;
}
