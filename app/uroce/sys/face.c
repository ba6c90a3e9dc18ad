/* SPDX-License-Identifier: BSD-3-Clause */
/* See face.h. */
#include "face.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "state.h"

/* As in lib/verbs/query.c, whose answer and ours must agree. */
#define SPEED_UNKNOWN_MBPS 10000

const char *face_rate(uint32_t mbps)
{
    static const struct {
        uint32_t mbps;
        const char *text;
    } rate[] = {
        {2500, "2.5 Gb/sec (1X SDR)"},       {10000, "10 Gb/sec (1X FDR10)"},
        {20000, "20 Gb/sec (4X DDR)"},       {25000, "25 Gb/sec (1X EDR)"},
        {40000, "40 Gb/sec (4X FDR10)"},     {50000, "50 Gb/sec (1X HDR)"},
        {100000, "100 Gb/sec (4X EDR)"},     {200000, "200 Gb/sec (4X HDR)"},
        {UINT32_MAX, "400 Gb/sec (4X NDR)"},
    };
    unsigned i = 0;

    if (mbps == 0)
        mbps = SPEED_UNKNOWN_MBPS;
    while (mbps > rate[i].mbps)
        i++;
    return rate[i].text;
}

/* ---- requests ---- */

static int ask(int sock, struct ctl_msg *m)
{
    int fds[CTL_MAX_FDS];
    unsigned nfds = 0;
    int err;

    m->magic = CTL_MAGIC;
    m->version = CTL_VERSION;
    m->seq = 1;
    err = ctl_request(sock, m, NULL, 0, fds, &nfds);
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    return err ? err : m->status;
}

/* A port is asked for on a connection that has opened a device, so only JSON tells about it. */
int face_open(struct face *f, int sock)
{
    *f = (struct face){0};
    while (f->devices < FACE_DEVICES_MAX) {
        struct ctl_msg m = {.type = CTL_QUERY_DEVICE, .device.index = f->devices};
        int err = ask(sock, &m);

        if (err == -ENODEV)
            break;
        if (err != 0)
            return err;
        f->device[f->devices++].info = m.device;
    }
    return face_update(f, sock);
}

/* ---- answers ---- */

static uint32_t number(const json_t *o, const char *name)
{
    return (uint32_t)json_integer_value(json_object_get(o, name));
}

static const char *string(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text != NULL ? text : "";
}

/* As 16 bytes; IPv4 addresses are mapped. */
_Static_assert(sizeof(((struct face_gid *)0)->ndev) == sizeof(((struct ctl_port *)0)->netdev),
               "names of interfaces");

static bool read_address(const char *text, uint8_t raw[16])
{
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

    memcpy(raw, mapped, sizeof(mapped));
    return inet_pton(AF_INET, text, raw + sizeof(mapped)) == 1 ||
           inet_pton(AF_INET6, text, raw) == 1;
}

static void read_gids(struct face_device *d, const json_t *list)
{
    const json_t *item;
    size_t i;

    memset(d->gid, 0, sizeof(d->gid));
    json_array_foreach(list, i, item)
    {
        uint32_t index = number(item, "index"), ifindex = number(item, "ifindex");
        struct face_gid *g;

        if (index >= FACE_GIDS_MAX)
            continue;
        g = &d->gid[index];
        g->used = read_address(string(item, "address"), g->raw);
        g->is_v2 = strcmp(string(item, "type"), "RoCE v2") == 0;
        if (ifindex == 0 || if_indextoname(ifindex, g->ndev) == NULL)
            memcpy(g->ndev, d->port.netdev, sizeof(g->ndev));
    }
}

static void read_port(struct face_device *d, const json_t *port)
{
    d->port.speed_mbps = number(port, "speed_mbps");
    snprintf(d->port.netdev, sizeof(d->port.netdev), "%s", string(port, "netdev"));
    d->active = strcmp(string(port, "state"), "active") == 0;
    d->counters = json_object_get(port, "counters");
    d->drops = json_object_get(d->counters, "drops");
    read_gids(d, json_object_get(port, "gids"));
}

int face_update(struct face *f, int sock)
{
    int err;
    json_t *root = state_ask(sock, CTL_SHOW_PORTS, &err);

    if (root == NULL)
        return err;
    for (unsigned i = 0; i < f->devices; i++) {
        const json_t *device = json_array_get(json_object_get(root, "devices"), i);

        read_port(&f->device[i], json_array_get(json_object_get(device, "ports"), 0));
        f->device[i].totals = json_array_get(json_object_get(root, "totals"), i);
    }
    json_decref(f->root);
    f->root = root;
    return 0;
}

void face_close(struct face *f)
{
    json_decref(f->root);
    f->root = NULL;
}
