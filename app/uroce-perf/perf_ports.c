/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports, the devices on them, and the devices' memory provider. */
#include "perf.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "ethdev.h"
#include "loop.h"

#define LINK_WAIT (5 * NS_PER_SEC)

/* ---- memory: of this process, so nothing is copied ---- */

static void no_copy(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        io[i].status = -EFAULT;
}

static int no_atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                     uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    return -EFAULT;
}

static const struct mem_backend backend = {"none", no_copy, no_copy, no_atomic};
static uint8_t *registered;

static void *space_open(const struct ucred *peer, const struct mem_backend **copy, int *err)
{
    *copy = &backend;
    return &registered;
}

static void space_nothing(void *space)
{
}

static void *map_region(struct mem_region *mr, int fd, const struct mem_piece *piece, unsigned n,
                        int *err)
{
    mr->direct = (uint8_t *)(uintptr_t)mr->addr;
    return &registered;
}

static void unmap_region(void *mapping, struct mem_region *mr)
{
}

const struct mem_provider perf_memory = {.space_open = space_open,
                                         .space_gone = space_nothing,
                                         .space_close = space_nothing,
                                         .map = map_region,
                                         .unmap = unmap_region};

/* ---- ports ---- */

static struct pktio *open_loop(unsigned workers, bool icrc)
{
    struct pktio_loop_config lc = {
        .name = "loopback", .mac = {2, 0, 0, 0, 0, 1}, .queues = workers, .omit_icrc = !icrc};

    return pktio_loop_create(&lc);
}

static int open_ports(struct perf_ports *ports, const struct perf_options *o, char *error,
                      size_t size)
{
    for (unsigned i = 0; i < ports->count; i++) {
        struct pktio_ethdev_config ec = {.device = ports->device[i],
                                         .queues = (unsigned)o->workers,
                                         .mtu = (uint32_t)o->mtu + MTU_AROUND};

        if (ec.mtu < 1500)
            ec.mtu = 0;
        ports->io[i] = ports->devices ? pktio_ethdev_open(&ec, error, size)
                                      : open_loop((unsigned)o->workers, o->icrc);
        if (!ports->io[i]) {
            if (!ports->devices)
                snprintf(error, size, "no memory for the loopback port");
            return -1;
        }
    }
    return 0;
}

/* Two ports that are peers come up once both are open. */
static int await_link(struct perf_ports *ports, unsigned port, char *error, size_t size)
{
    struct pktio *io = ports->io[port];
    ns_t deadline = worker_time() + LINK_WAIT;

    for (;;) {
        struct pollfd pfd = {.fd = io->ops->link_fd ? io->ops->link_fd(io) : -1, .events = POLLIN};

        io->ops->info(io, &ports->info[port]);
        if (ports->info[port].link_up)
            return 0;
        if (worker_time() > deadline) {
            snprintf(error, size, "%.100s: its link is down", ports->info[port].name);
            return -1;
        }
        /* A port without a descriptor is polled. */
        if (poll(&pfd, 1, pfd.fd < 0 ? 10 : 100) > 0)
            io->ops->link_ack(io);
    }
}

union gid perf_ports_address(const struct perf_ports *ports, unsigned port)
{
    return gid_from_ipv4(ports->devices ? (uint8_t[]){10, 0, 0, (uint8_t)(1 + port)}
                                        : (uint8_t[]){127, 0, 0, 1});
}

static int add_port(struct perf_ports *ports, unsigned port)
{
    unsigned other = ports->count - 1 - port;
    struct port_address own = {.gid = perf_ports_address(ports, port),
                               .prefix = ports->devices ? 24 : 8,
                               .vlan = VLAN_NONE};
    struct port_neighbour neighbour = {.addr = perf_ports_address(ports, other)};
    struct port_config pc = {.io = ports->io[port],
                             .address = &own,
                             .addresses = 1,
                             .neighbour = &neighbour,
                             .neighbours = other != port};

    memcpy(neighbour.mac, ports->info[other].mac, sizeof(neighbour.mac));
    ports->io[port] = NULL;
    return rnic_add_port(ports->rnic, &pc);
}

int perf_ports_open(struct perf_ports *ports, const struct perf_options *o, char *error,
                    size_t size)
{
    static const uint64_t secret[2] = {1, 1}; /* every run has the same numbers */
    struct rnic_config rc = {.workers = (unsigned)o->workers,
                             .mem = &perf_memory,
                             .version = UROCE_VERSION,
                             .secret = secret};
    int err;

    ports->count = max_of(ports->devices, 1u);
    ports->workers = (unsigned)o->workers;
    ports->mtu = o->mtu;
    ports->icrc = o->icrc;
    if (ports->devices && !o->icrc) {
        snprintf(error, size, "icrc: off is for the loopback port alone");
        return -1;
    }
    if (open_ports(ports, o, error, size))
        return -1;
    for (unsigned i = 0; i < ports->count; i++) {
        if (await_link(ports, i, error, size))
            return -1;
    }
    ports->rnic = rnic_create(&rc, &err);
    for (unsigned i = 0; i < ports->count && !err; i++)
        err = add_port(ports, i);
    if (err)
        snprintf(error, size, "no device: %s", strerror(-err));
    return err ? -1 : 0;
}

void perf_ports_close(struct perf_ports *ports)
{
    for (unsigned i = 0; i < PORTS_MAX; i++) {
        if (ports->io[i])
            ports->io[i]->ops->close(ports->io[i]);
        ports->io[i] = NULL;
    }
    if (ports->rnic)
        rnic_destroy(ports->rnic);
    ports->rnic = NULL;
}
