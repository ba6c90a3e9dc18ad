/* SPDX-License-Identifier: BSD-3-Clause */
/* XRC domains. */
#include "shim.h"

struct ibv_xrcd *shim_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
    const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    struct ctl_msg m = {.open_xrcd = {.oflags = (uint32_t)attr->oflags}};
    struct shim_xrcd *x;
    int err;

    if ((attr->comp_mask & needed) != needed || (attr->comp_mask & ~needed))
        return refuse(attr->comp_mask & ~needed ? -EOPNOTSUPP : -EINVAL);
    x = calloc(1, sizeof(*x));
    if (!x)
        return NULL;
    err = conn_call(&to_context(context)->client.conn, CTL_OPEN_XRCD, &m, &attr->fd,
                    attr->fd >= 0 ? 1 : 0, NULL, 0);
    if (err) {
        free(x);
        return refuse(err);
    }
    x->base.context = context;
    x->handle = m.open_xrcd.handle;
    return &x->base;
}

int shim_close_xrcd(struct ibv_xrcd *xrcd)
{
    struct shim_xrcd *x = (struct shim_xrcd *)xrcd;
    struct ctl_msg m = {.handle = x->handle};
    int err = shim_call(xrcd->context, CTL_CLOSE_XRCD, &m);

    if (is_destroyed(err))
        free(x);
    return err;
}
