/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory, and regions without memory. */
#include "shim.h"

#define DM_UNIT 4 /* of offsets and lengths, as of NICs */

static struct shim_dm *to_dm(struct ibv_dm *dm)
{
    return (struct shim_dm *)dm;
}

/* 0 or an errno. */
static int check_copy(const struct client_dm *dm, uint64_t offset, size_t length)
{
    if (offset > dm->length || length > dm->length - offset)
        return EFAULT;
    return offset % DM_UNIT || length % DM_UNIT ? EINVAL : 0;
}

static int copy_to_dm(struct ibv_dm *base, uint64_t offset, const void *from, size_t length)
{
    struct client_dm *dm = &to_dm(base)->memory;
    int err = check_copy(dm, offset, length);

    if (!err)
        memcpy(dm->base + offset, from, length);
    return failed(err);
}

static int copy_from_dm(void *to, struct ibv_dm *base, uint64_t offset, size_t length)
{
    struct client_dm *dm = &to_dm(base)->memory;
    int err = check_copy(dm, offset, length);

    if (!err)
        memcpy(to, dm->base + offset, length);
    return failed(err);
}

void shim_init_dm(struct shim_dm *dm, struct ibv_context *context)
{
    dm->base = (struct ibv_dm){.context = context,
                               .memcpy_to_dm = copy_to_dm,
                               .memcpy_from_dm = copy_from_dm,
                               .handle = dm->memory.handle};
}

struct ibv_dm *shim_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
    struct shim_dm *dm;
    int err;

    if (attr->comp_mask)
        return refuse(-EINVAL);
    dm = calloc(1, sizeof(*dm));
    if (!dm)
        return NULL;
    err = client_dm_alloc(&to_context(context)->client, &dm->memory, attr->length,
                          attr->log_align_req);
    if (err) {
        free(dm);
        return refuse(err);
    }
    shim_init_dm(dm, context);
    return &dm->base;
}

int shim_free_dm(struct ibv_dm *dm)
{
    int err = -client_dm_free(&to_dm(dm)->memory);

    if (is_destroyed(err))
        free(to_dm(dm));
    return failed(err);
}

struct ibv_mr *shim_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
                              unsigned int access)
{
    struct ctl_reg_mr r = {.pd = pd->handle,
                           .access = access,
                           .addr = offset,
                           .length = length,
                           .flags = CTL_MR_DEVICE_MEMORY,
                           .why = CTL_MR_DEVICE,
                           .handle = dm->handle};

    if (dm->context != pd->context)
        return refuse(-EINVAL);
    return shim_reg_other(pd, &r);
}

/* Peers may use it, too: perftest's --use-null-mr gives them the key, and NICs accept that. */
struct ibv_mr *shim_alloc_null_mr(struct ibv_pd *pd)
{
    struct ctl_reg_mr r = {.pd = pd->handle,
                           .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
                           .length = UINT64_MAX,
                           .flags = CTL_MR_NULL,
                           .why = CTL_MR_NOTHING};

    return shim_reg_other(pd, &r);
}
