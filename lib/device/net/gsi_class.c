/* SPDX-License-Identifier: BSD-3-Clause */
/* MADs of other classes than the connection manager's: see gsi.h. */
#include "cm/cm_address.h"
#include "cm_types.h"
#include "control/device_state.h"
#include "encap.h"
#include "net/gsi.h"

void gsi_path_of(const struct device *d, const struct address_vector *av, struct cm_path *path)
{
    cm_address_port_path(d, av->sgid_index, &av->dgid, path);
    path->sgid = av->sgid;
    path->gid_type = av->gid_type;
    path->vlan = av->vlan;
    path->flow_label = av->flow_label;
    path->traffic_class = av->traffic_class;
    path->sl = av->sl;
    path->hop_limit = av->hop_limit;
}

int gsi_register(struct rnic *r, uint8_t mgmt_class, const struct gsi_handler *handler)
{
    return cm_class_register(r->cm.manager, mgmt_class, handler);
}

void gsi_unregister(struct rnic *r, uint8_t mgmt_class)
{
    cm_class_unregister(r->cm.manager, mgmt_class);
}
