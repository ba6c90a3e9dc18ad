/* SPDX-License-Identifier: BSD-3-Clause */
/* The VLANs in which a port is a member of a group: those of its addresses, which come and go. */
#include "control/device_state.h"

/* Whether the port has an address of this IP version in the VLAN. */
static bool is_in_vlan(const struct device *d, bool ipv4, uint16_t vlan)
{
    for (unsigned i = 0; i < d->gids.len; i++) {
        const struct gid_entry *e = &d->gids.entry[i];

        if (e->valid && e->vlan == vlan && gid_is_ipv4(&e->gid) == ipv4)
            return true;
    }
    return false;
}

static bool has_joined(const struct net_membership *m, uint16_t vlan)
{
    for (unsigned i = 0; i < m->vlans; i++)
        if (m->vlan[i] == vlan)
            return true;
    return false;
}

static void leave_gone(struct device *d, struct net_membership *m, bool all)
{
    bool ipv4 = gid_is_ipv4(&m->group);

    for (unsigned i = m->vlans; i-- > 0;) {
        if (!all && is_in_vlan(d, ipv4, m->vlan[i]))
            continue;
        net_host_leave(d->net.host, &m->group, m->vlan[i], net_time(d));
        m->vlan[i] = m->vlan[--m->vlans];
    }
}

int net_join(struct device *d, struct net_membership *m)
{
    bool ipv4 = gid_is_ipv4(&m->group);
    int first = 0;

    leave_gone(d, m, false);
    for (unsigned i = 0; i < d->gids.len; i++) {
        const struct gid_entry *e = &d->gids.entry[i];
        int err;

        if (!e->valid || gid_is_ipv4(&e->gid) != ipv4 || has_joined(m, e->vlan))
            continue;
        err = net_host_join(d->net.host, &m->group, e->vlan, net_time(d));
        if (!err)
            m->vlan[m->vlans++] = e->vlan;
        else if (!first)
            first = err;
    }
    net_arm_timer(d);
    return first;
}

void net_leave(struct device *d, struct net_membership *m)
{
    leave_gone(d, m, true);
    net_arm_timer(d);
}
