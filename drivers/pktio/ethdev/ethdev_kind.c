/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties of DPDK's drivers, by name, and the arguments of their devices. */
#include "ethdev_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * net_af_xdp gives its buffers to the kernel in chunks of at most a page. The headers of an mbuf
 * take 320 bytes of a chunk, and the kernel reserves 256 in front of a frame. A mempool pads its
 * objects until their number of cache lines is coprime to the number of memory channels; 61 is
 * coprime to all of them.
 */
#define XDP_CHUNK    (61 * 64)
#define XDP_ROOM     (XDP_CHUNK - 64 - 128 - RTE_PKTMBUF_HEADROOM)
#define XDP_HEADROOM 256

static const struct ethdev_kind kinds[] = {
    {.name = "af_packet",
     .kernel_below = true,
     .kernel_sees = true,
     .copies = true,
     .any_mtu = true,
     .queues_arg = "qpairs",
     .max_queues = 16},
    {.name = "af_xdp",
     .kernel_below = true,
     .max_mtu = XDP_ROOM - XDP_HEADROOM - ETHDEV_OVERHEAD,
     .room = XDP_ROOM},
    {.name = "tap", .kernel_peer = true, .soft_checksum = true},
    {.name = "memif",
     .copies = true,
     .relayed = true,
     .any_mtu = true,
     .peer_frames = true,
     .one_queue = true},
    {.name = "vhost",
     .listens = true,
     .few_queues = true,
     .copies = true,
     .partial_checksum = true,
     .any_mtu = true,
     .peer_frames = true},
    {.name = "virtio_user", .late_events = true},
    {.name = "pcap", .any_mtu = true, .peer_frames = true},
    {.name = "ring", .any_mtu = true, .peer_frames = true},
};
static const struct ethdev_kind memif_zero_copy = {
    .name = "memif", .relayed = true, .any_mtu = true, .peer_frames = true, .one_queue = true};
static const struct ethdev_kind no_quirks;

const struct ethdev_kind *ethdev_kind_of(const char *device)
{
    const struct ethdev_kind *k = &no_quirks;
    char value[8];

    if (strncmp(device, "net_", 4) && strncmp(device, "eth_", 4))
        return &no_quirks;
    for (size_t i = 0; i < ARRAY_SIZE(kinds) && k == &no_quirks; i++) {
        if (!strncmp(device + 4, kinds[i].name, strlen(kinds[i].name)))
            k = &kinds[i];
    }
    if (k->relayed && ethdev_devarg(device, "zero-copy", value, sizeof(value)) &&
        !strcmp(value, "yes"))
        return &memif_zero_copy;
    return k;
}

/* The comma in front of key=, or NULL. */
static char *find_devarg(const char *device, const char *key)
{
    size_t len = strlen(key);

    for (const char *p = strchr(device, ','); p; p = strchr(p + 1, ',')) {
        if (!strncmp(p + 1, key, len) && p[1 + len] == '=')
            return (char *)(uintptr_t)p;
    }
    return NULL;
}

bool ethdev_devarg(const char *device, const char *key, char *out, size_t size)
{
    const char *p = find_devarg(device, key);

    out[0] = 0;
    if (p) {
        p += strlen(key) + 2;
        snprintf(out, size, "%.*s", (int)strcspn(p, ","), p);
    }
    return p;
}

void ethdev_devarg_remove(char *device, const char *key)
{
    char *p = find_devarg(device, key);

    if (p) {
        char *end = p + 1 + strcspn(p + 1, ",");

        memmove(p, end, strlen(end) + 1);
    }
}

int ethdev_devarg_add(char *device, size_t size, const char *format, ...)
{
    size_t len = strlen(device);
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(device + len, size - len, format, args);
    va_end(args);
    return n < 0 || (size_t)n >= size - len ? -1 : 0;
}

/*
 * net_memif negotiates the number of its rings with each peer, and a queue without a ring uses the
 * first queue's: it therefore gets one queue. Of the drivers with an argument for the number of
 * queues, only net_af_packet can get it from us: for others the other end must agree, or the kernel
 * would give up more queues than the user intended.
 */
unsigned ethdev_choose_queues(const struct ethdev_kind *k, char *device, size_t size,
                              unsigned wanted)
{
    char text[16];

    if (k->one_queue)
        return 1;
    if (!k->queues_arg)
        return wanted;
    if (ethdev_devarg(device, k->queues_arg, text, sizeof(text)))
        return (unsigned)min_of((unsigned long)wanted, max_of(strtoul(text, NULL, 0), 1ul));
    wanted = min_of(wanted, k->max_queues);
    if (ethdev_devarg_add(device, size, ",%s=%u", k->queues_arg, wanted))
        return 0;
    return wanted;
}
