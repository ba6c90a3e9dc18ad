/* SPDX-License-Identifier: BSD-3-Clause */
/* Which privileges the daemon keeps when its ports are open, by their kinds. */
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "restrict.h"
#include "uroced.h"

#define CAP(name) (UINT64_C(1) << CAP_##name)

/*
 * SYS_PTRACE and DAC_OVERRIDE: other users' memory, /proc/PID/mem. SYS_NICE: a worker that shares
 * its CPU. NET_RAW and NET_ADMIN: groups, MACs and addresses of ports change while they are open.
 * IPC_LOCK: memory for DMA or XDP. BPF: XDP's table of sockets.
 */
uint64_t privileges_needed(const struct uroced_config *c)
{
    uint64_t keep = CAP(SYS_PTRACE) | CAP(DAC_OVERRIDE) | CAP(SYS_NICE);

    for (unsigned i = 0; i < c->ports; i++) {
        const struct uroced_port *p = &c->port[i];
        bool xdp = !strncmp(p->device, "net_af_xdp", strlen("net_af_xdp"));

        if (!port_is_loopback(p) && !port_is_socket(p))
            keep |= CAP(NET_RAW) | CAP(NET_ADMIN);
        if (port_is_pci(p) || xdp)
            keep |= CAP(IPC_LOCK);
        if (xdp)
            keep |= UINT64_C(1) << 39; /* CAP_BPF, 5.8 */
    }
    return keep;
}

/* Drivers that go on with system calls of the list. Others, of NICs above all, may bring any
 * library with them. */
bool privileges_calls_known(const struct uroced_config *c)
{
    static const char *const driver[] = {"net_af_packet", "net_tap",  "net_memif", "net_vhost",
                                         "net_ring",      "net_null", "net_pcap"};
    unsigned known = 0;

    for (unsigned i = 0; i < c->ports; i++) {
        const struct uroced_port *p = &c->port[i];
        bool is_known = port_is_loopback(p) || port_is_socket(p) || port_is_packet(p);

        for (unsigned k = 0; k < ARRAY_SIZE(driver); k++)
            is_known |= !strncmp(p->device, driver[k], strlen(driver[k]));
        known += is_known;
    }
    return known == c->ports;
}

int privileges_user(struct uroced_config *c)
{
    const struct passwd *user = c->user[0] ? getpwnam(c->user) : NULL;

    if (!user && c->user[0]) {
        fprintf(stderr, "uroced: there is no user %s\n", c->user);
        return -1;
    }
    c->user_id = user ? user->pw_uid : 0;
    c->user_group = user ? user->pw_gid : 0;
    return 0;
}

int privileges_drop(const struct uroced_config *c)
{
    const struct restrict_config r = {.capabilities = !c->keep_capabilities,
                                      .keep = privileges_needed(c),
                                      .seccomp = !c->no_seccomp,
                                      .known_calls = privileges_calls_known(c),
                                      .change_user = c->user[0],
                                      .user = c->user,
                                      .uid = c->user_id,
                                      .gid = c->user_group};

    return restrict_process(&r);
}
