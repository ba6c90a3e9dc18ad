/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a configured port: see port_open() in uroced.h. */
#include "uroced.h"

#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "capture.h"
#include "ethdev.h"
#include "loop.h"
#include "packet.h"
#include "socket.h"
#include "spread.h"

/* Whether only the engines see the port's frames. */
static bool is_private(const struct uroced_port *p)
{
    return !p->spread && !p->capture[0];
}

static struct pktio *open_loopback(const struct uroced_port *p, unsigned queues, unsigned index,
                                   char *error, size_t size)
{
    struct pktio_loop_config lc = {.name = CONFIG_DEVICE_LOOPBACK,
                                   .mac = {2, 0, 0, 0, 0, (uint8_t)(1 + index)},
                                   .queues = queues,
                                   .omit_icrc = !p->icrc_always && is_private(p),
                                   .netdev = "lo",
                                   .ifindex = if_nametoindex("lo")};
    struct pktio *io = pktio_loop_create(&lc);

    if (!io)
        snprintf(error, size, "out of memory");
    return io;
}

static struct pktio *open_socket(const struct uroced_port *p, char *error, size_t size)
{
    struct pktio_socket_config sc = {
        .addresses = p->addresses, .mtu = p->mtu, .no_segmentation = p->no_segmentation};

    for (unsigned i = 0; i < p->addresses; i++)
        sc.address[i] = p->address[i].gid;
    return pktio_socket_open(&sc, error, size);
}

/* The name of a kernel's interface is what many give first. */
static bool is_bare_interface(const struct uroced_port *p, char *error, size_t size)
{
    if (!if_nametoindex(p->device))
        return false;
    snprintf(error, size, "%s is an interface of the kernel: say " CONFIG_DEVICE_PACKET "%s",
             p->device, p->device);
    return true;
}

static struct pktio *open_packet(const struct uroced_port *p, unsigned queues, char *error,
                                 size_t size)
{
    struct pktio_packet_config pc = {.netdev = p->device + strlen(CONFIG_DEVICE_PACKET),
                                     .queues = queues,
                                     .mtu = p->mtu,
                                     .no_segmentation = p->no_segmentation};

    return pktio_packet_open(&pc, error, size);
}

static void tell_end(void *arg, int err, uint64_t frames)
{
    const struct uroced_port *p = arg;

    fprintf(stderr, "uroced: port.%u: the capture has ended early: %s: %s; it has %" PRIu64 " %s\n",
            p->number, p->capture, err == EAGAIN ? "its reader is too slow" : strerror(err), frames,
            frames == 1 ? "frame" : "frames");
}

/* Wraps a port whose frames no other tool can capture. */
static struct pktio *capture(struct pktio *io, const struct uroced_port *p, char *error,
                             size_t size)
{
    struct pktio_capture_config cc = {.file = p->capture,
                                      .frames = p->capture_frames,
                                      .ended = tell_end,
                                      .arg = (void *)(uintptr_t)p};
    struct pktio *outer = pktio_capture_open(io, &cc, error, size);

    if (!outer)
        io->ops->close(io);
    return outer;
}

/* Wraps a port that has fewer queues than there are workers. */
static struct pktio *spread(struct pktio *io, unsigned queues, char *error, size_t size)
{
    struct pktio_spread_config sc = {.queues = queues};
    struct pktio_info info;
    struct pktio *outer;

    io->ops->info(io, &info);
    if (info.queues >= queues)
        return io;
    outer = pktio_spread_open(io, &sc, error, size);
    if (!outer)
        io->ops->close(io);
    return outer;
}

struct pktio *port_open(const struct uroced_port *p, unsigned queues, unsigned loopback,
                        char *error, size_t size)
{
    unsigned n = p->queues ? min_of(p->queues, queues) : queues;
    struct pktio_ethdev_config ec = {
        .device = p->device, .queues = n, .mtu = p->mtu, .pause = p->flow_control};
    struct pktio *io = port_is_loopback(p) ? open_loopback(p, n, loopback, error, size)
                       : port_is_socket(p) ? open_socket(p, error, size)
                       : port_is_packet(p) ? open_packet(p, n, error, size)
                       : is_bare_interface(p, error, size) ? NULL
                                                           : pktio_ethdev_open(&ec, error, size);

    if (io && p->spread)
        io = spread(io, n, error, size);
    return io && p->capture[0] ? capture(io, p, error, size) : io;
}
