/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a configured port a device: see port_attach() in uroced.h. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "claim.h"
#include "netdev.h"
#include "uroced.h"

/* The kernel interface behind or below the port. */
struct kernel_side {
    char name[NETDEV_NAME_MAX];
    uint32_t ifindex; /* 0: there is none */
    bool answers;     /* it gets the port's frames, and its kernel answers for its addresses */
    int tap_fd;       /* or -1 */
};

static int print_error(const struct uroced_port *p, const char *what, int err)
{
    fprintf(stderr, "uroced: port.%u: %s: %s\n", p->number, what, strerror(-err));
    return err;
}

/* The tap interface gets the port's addresses, except those in VLANs. */
static int open_tap(const struct uroced_port *p, const struct pktio_info *info,
                    struct kernel_side *k)
{
    snprintf(k->name, sizeof(k->name), "%s", p->tap_name);
    k->tap_fd = netdev_tap_open(k->name, info->mac, info->mtu);
    if (k->tap_fd < 0)
        return print_error(p, "cannot create the tap device of the exception path", k->tap_fd);
    k->ifindex = if_nametoindex(k->name);
    k->answers = true;
    for (unsigned i = 0; i < p->addresses; i++) {
        const struct port_address *a = &p->address[i];
        int err = a->vlan == VLAN_NONE ? netdev_add_address(k->ifindex, &a->gid, a->prefix) : 0;

        if (err && err != -EEXIST)
            return print_error(p, "cannot set the addresses of the tap device", err);
    }
    return 0;
}

static int find_kernel_side(const struct uroced_port *p, const struct pktio_info *info,
                            struct kernel_side *k)
{
    *k = (struct kernel_side){.tap_fd = -1};
    if (p->tap)
        return open_tap(p, info, k);
    if (port_is_loopback(p) || port_is_socket(p))
        return 0;
    k->ifindex = info->ifindex;
    k->answers = info->kernel_sees;
    if (p->follow_kernel && !k->ifindex)
        return print_error(p, "no kernel interface to take addresses from", -ENODEV);
    return 0;
}

static bool has_address(const struct netdev_state *state, const struct port_address *a)
{
    for (unsigned i = 0; i < state->addresses; i++)
        if (a->vlan == VLAN_NONE && gid_eq(&state->address[i].addr, &a->gid))
            return true;
    return false;
}

/* Addresses that the kernel interface has already are no duplicates. *shared: it has some. */
static int mark_answered(struct uroced_port *p, const struct kernel_side *k, bool *shared)
{
    static struct netdev_state state;
    int err = k->ifindex ? netdev_read(k->ifindex, &state) : 0;

    *shared = k->ifindex && p->follow_kernel;
    if (err && k->answers)
        return print_error(p, "cannot read the addresses of the kernel interface", err);
    for (unsigned i = 0; k->ifindex && !err && i < p->addresses; i++) {
        bool has = has_address(&state, &p->address[i]);

        p->address[i].answered |= k->answers && has;
        *shared |= has;
    }
    return 0;
}

/* Packets of the kernel's sockets leave with the port's addresses, so that any local user can send
 * what looks like the port's. RoCE has nothing against that. */
static void warn_of_senders(const struct uroced_port *p)
{
    fprintf(stderr,
            "uroced: port.%u: the kernel has addresses of the port, too: unless a firewall rule "
            "forbids it, every user of this host can forge packets of the port's connections "
            "(doc/uroced.md, \"Other senders on the host\")\n",
            p->number);
}

static int add_faults(const struct port_attach_config *c)
{
    char error[INJECT_ERROR_MAX];

    for (unsigned i = 0; i < c->port->faults; i++) {
        int err = rnic_add_fault(c->rnic, (int)c->device, c->port->fault[i], error);

        if (err < 0) {
            fprintf(stderr, "uroced: port.%u: fault: %s\n", c->port->number, error);
            return err;
        }
    }
    return 0;
}

static int add_port(const struct port_attach_config *c, struct pktio *io,
                    const struct kernel_side *k)
{
    const struct uroced_port *p = c->port;
    struct port_config pc = {.io = io,
                             .address = p->address,
                             .addresses = p->addresses,
                             .neighbour = p->neighbour,
                             .neighbours = p->neighbours,
                             .route = p->route,
                             /* kernel_follow adds them when there are the kernel's addresses */
                             .routes = p->follow_kernel ? 0 : p->routes,
                             .gid_types = p->gid_types,
                             .qos = &p->qos,
                             .classes = p->classes,
                             .entropy = p->entropy,
                             .repath = p->repath,
                             .trim_dscp = (uint8_t)p->trim_dscp,
                             .selective = p->selective,
                             .congestion = p->congestion,
                             .max_rate = p->max_rate,
                             .flow_control = p->flow_control,
                             .detect_duplicates = p->detect_duplicates};
    int err;

    if (k->tap_fd >= 0) {
        pc.exception_fd = &k->tap_fd;
        pc.ifindex = k->ifindex;
        memcpy(pc.netdev, k->name, sizeof(pc.netdev));
    }
    err = rnic_add_port(c->rnic, &pc);
    return err ? print_error(p, "cannot be a device", err) : add_faults(c);
}

/* The device has its own addresses also where the kernel does not name the host's. */
static void follow_host(const struct port_attach_config *c, struct kernel_follow **follow)
{
    const struct uroced_port *p = c->port;
    unsigned room = GID_TABLE_MAX / (unsigned)__builtin_popcount(p->gid_types);
    struct kernel_follow_config fc = {.loop = c->loop,
                                      .rnic = c->rnic,
                                      .device = c->device,
                                      .host = true,
                                      .outside = port_is_socket(p),
                                      .room = room - p->addresses,
                                      .own = p->address,
                                      .owns = p->addresses};
    int err;

    *follow = kernel_follow_start(&fc, &err);
    if (!*follow)
        fprintf(stderr,
                "uroced: port.%u: cannot follow the addresses of the host, so the device has its "
                "own alone: %s\n",
                p->number, strerror(-err));
}

static int follow_kernel(const struct port_attach_config *c, const struct kernel_side *k,
                         struct kernel_follow **follow)
{
    struct kernel_follow_config fc = {.loop = c->loop,
                                      .rnic = c->rnic,
                                      .device = c->device,
                                      .ifindex = k->ifindex,
                                      .use = c->port->follow_kernel,
                                      .answers = k->answers,
                                      .own = c->port->address,
                                      .owns = c->port->addresses,
                                      .route = c->port->route,
                                      .routes = c->port->routes};
    int err;

    if (!k->ifindex || !(fc.use || fc.answers))
        return 0;
    *follow = kernel_follow_start(&fc, &err);
    return *follow ? 0 : print_error(c->port, "cannot follow the kernel interface", err);
}

/* The kernel interface that the device's arguments name, if there is one of that name. */
static bool find_named_interface(const struct uroced_port *p, char name[IF_NAMESIZE])
{
    static const char option[] = ",iface=";
    const char *iface = strstr(p->device, option);
    size_t len = 0;

    if (iface) {
        iface += sizeof(option) - 1;
        len = strcspn(iface, ",");
    }
    if (!len || len >= IF_NAMESIZE)
        return false;
    memcpy(name, iface, len);
    name[len] = '\0';
    return if_nametoindex(name);
}

/* Before the port opens, which changes the interface. */
static int claim_named_interface(const struct uroced_port *p)
{
    char name[IF_NAMESIZE];
    int owner = 0, err = find_named_interface(p, name) ? claim_interface(name, &owner) : 0;

    if (err == -EBUSY)
        fprintf(stderr, "uroced: port.%u: %s is in use by another uroced, process %d\n", p->number,
                name, owner);
    else if (err)
        print_error(p, "cannot claim the kernel interface", err);
    return err;
}

/* Opens the port on an interface that is this daemon's. What becomes of its MTU is no secret. */
static struct pktio *open_claimed(const struct port_attach_config *c, struct pktio_info *info,
                                  int *err)
{
    const struct uroced_port *p = c->port;
    char error[512];
    struct pktio *io;

    *err = claim_named_interface(p);
    if (*err)
        return NULL;
    io = port_open(p, c->queues, c->loopbacks, error, sizeof(error));
    if (!io) {
        fprintf(stderr, "uroced: port.%u: %s\n", p->number, error);
        *err = -EIO;
        return NULL;
    }
    io->ops->info(io, info);
    if (info->mtu_before)
        fprintf(stderr, "uroced: port.%u: the MTU of %s is %u now, it was %u\n", p->number,
                info->netdev, info->mtu, info->mtu_before);
    return io;
}

int port_attach(const struct port_attach_config *c, struct kernel_follow **follow)
{
    struct uroced_port *p = c->port;
    struct kernel_side kernel;
    struct pktio_info info;
    bool shared = false;
    int err;
    struct pktio *io = open_claimed(c, &info, &err);

    *follow = NULL;
    if (!io)
        return err;
    config_complete_addresses(p, info.mac);
    err = find_kernel_side(p, &info, &kernel);
    if (!err)
        err = mark_answered(p, &kernel, &shared);
    if (err) {
        if (kernel.tap_fd >= 0)
            close(kernel.tap_fd);
        io->ops->close(io);
        return err;
    }
    if (shared || port_is_socket(p))
        warn_of_senders(p);
    err = add_port(c, io, &kernel);
    if (err)
        return err;
    if (!p->follow_host)
        return follow_kernel(c, &kernel, follow);
    follow_host(c, follow);
    return 0;
}
