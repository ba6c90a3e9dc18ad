/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and device memory of a context that ibv_import_device has joined; regions are
 * in pd_mr.c. */
#include "shim.h"

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
    struct ctl_msg m = {.import = {.kind = CTL_IMPORT_PD, .handle = handle}};
    struct shim_pd *pd = calloc(1, sizeof(*pd));
    int err;

    if (!pd)
        return NULL;
    err = shim_call(context, CTL_IMPORT, &m);
    if (err) {
        free(pd);
        return refuse(-err);
    }
    pd->base.context = context;
    pd->base.handle = m.import.handle;
    return &pd->base;
}

/* What uses it stays, and keeps it until then: so do its parent domains. */
EXPORT void ibv_unimport_pd(struct ibv_pd *base)
{
    struct ctl_msg m = {.import = {.kind = CTL_IMPORT_PD, .handle = base->handle}};

    shim_call(base->context, CTL_UNIMPORT, &m);
    if (!atomic_fetch_or(&to_pd(base)->parents, PD_ENDED))
        free(to_pd(base));
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
    struct shim_dm *dm = calloc(1, sizeof(*dm));
    int err;

    if (!dm)
        return NULL;
    err = client_dm_import(&to_context(context)->client, &dm->memory, handle);
    if (err) {
        free(dm);
        return refuse(err);
    }
    shim_init_dm(dm, context);
    return &dm->base;
}

EXPORT void ibv_unimport_dm(struct ibv_dm *base)
{
    struct shim_dm *dm = (struct shim_dm *)base;

    client_dm_unimport(&dm->memory);
    free(dm);
}
