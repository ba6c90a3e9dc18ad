/* SPDX-License-Identifier: BSD-3-Clause */
/* What the other files use of a port's host: its time, its timer and its paths. */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>

#include "control/device_state.h"

ns_t net_time(const struct device *d)
{
    return d->rnic->config.clock();
}

void net_arm_timer(struct device *d)
{
    ns_t next = net_host_next_timer(d->net.host);
    struct itimerspec when = {0};

    if (d->net.timer.fd < 0)
        return;
    if (next != NS_NEVER) {
        when.it_value.tv_sec = (time_t)(next / NS_PER_SEC);
        when.it_value.tv_nsec = (long)(next % NS_PER_SEC);
        if (!next)
            when.it_value.tv_nsec = 1; /* all zero would disarm */
    }
    timerfd_settime(d->net.timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* The only resolution of link-local GIDs that RoCEv1 defines (A16.5.1): they contain the MAC. Not
 * those of an isolated device, which are of other interfaces of its host. */
static bool mac_in_gid(const struct gid_entry *source, const union gid *dgid, uint8_t mac[6])
{
    const uint8_t *id = dgid->raw + 8;

    if (source->type != GID_TYPE_ROCE_V1 || dgid->raw[0] != 0xFE || (dgid->raw[1] & 0xC0) != 0x80 ||
        id[3] != 0xFF || id[4] != 0xFE)
        return false;
    memcpy(mac, (uint8_t[]){id[0] ^ 2, id[1], id[2], id[5], id[6], id[7]}, 6);
    return true;
}

int net_resolve(struct device *d, const struct gid_entry *source, const union gid *dgid,
                struct net_path *path)
{
    int err;

    *path = (struct net_path){.next_hop = *dgid, .mtu = d->info.mtu};
    if (gid_is_multicast(dgid)) { /* of either IP version: RoCEv1 has groups of both */
        gid_multicast_mac(dgid, path->mac);
        return 0;
    }
    if (!d->net.isolated && mac_in_gid(source, dgid, path->mac))
        return 0;
    err = net_host_resolve(d->net.host, &source->gid, source->vlan, dgid, net_time(d), path);
    if (path->is_timed)
        net_arm_timer(d);
    if (err && (d->net.isolated || (err == -EINPROGRESS && !d->rnic->retry)))
        return -EHOSTUNREACH;
    return err;
}
