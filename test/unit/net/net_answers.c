/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host for net_scapy.py: reads commands, a line each, and prints the frames that it sends.
 * Commands:
 *
 *   address ADDR PREFIX VLAN    past detection; VLAN 0: none
 *   detect ADDR PREFIX VLAN
 *   join GROUP VLAN, leave GROUP VLAN
 *   route DST PREFIX VIA VLAN
 *   resolve SRC DST VLAN        "path MAC MTU", or "error NUMBER"
 *   rx HEX                      a frame arrives
 *   run MS                      this much time passes
 *
 * Each ends with a line "ok". A frame that is sent is a line "tx HEX".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_host.h"

#define LINE_MAX_LEN 8192

static ns_t now = NS_PER_SEC;

static void on_send(void *ctx, const uint8_t *frame, uint32_t len)
{
    printf("tx ");
    for (uint32_t i = 0; i < len; i++)
        printf("%02x", frame[i]);
    printf("\n");
}

static void on_resolved(void *ctx, const union gid *next_hop, uint16_t vlan, bool found)
{
    printf("resolved\n");
}

static void on_moved(void *ctx, const union gid *next_hop, uint16_t vlan, const uint8_t mac[6])
{
    printf("moved\n");
}

static void on_state(void *ctx, const struct net_address *a, enum net_address_state state)
{
    printf("state %d\n", (int)state);
}

static const struct net_host_ops ops = {on_send, on_resolved, on_moved, on_state};

_Noreturn static void bad(const char *line)
{
    fprintf(stderr, "net_answers: what is '%s'?\n", line);
    exit(2);
}

static union gid address(const char *text, const char *line)
{
    union gid g;

    if (gid_parse(&g, text))
        bad(line);
    return g;
}

static void check(int err)
{
    if (err)
        printf("error %d\n", -err);
}

static void receive(struct net_host *h, const char *hex)
{
    size_t len = strlen(hex) / 2;
    uint8_t *frame = malloc(
        len ? len : 1); /* of the frame's size, so that the sanitizer sees a read beyond it */

    if (!frame)
        exit(2);
    for (size_t i = 0; i < len; i++) {
        unsigned byte;

        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            bad(hex);
        frame[i] = (uint8_t)byte;
    }
    net_host_rx(h, frame, (uint32_t)len, now);
    free(frame);
}

static void run(struct net_host *h, unsigned ms)
{
    ns_t end = now + ms * NS_PER_MS;

    while (net_host_next_timer(h) <= end) {
        now = max_of(now, net_host_next_timer(h));
        net_host_timers(h, now);
    }
    now = end;
}

static void resolve(struct net_host *h, const union gid *src, const union gid *dst, uint16_t vlan)
{
    struct net_path p;
    int err = net_host_resolve(h, src, vlan, dst, now, &p);

    check(err);
    if (!err)
        printf("path %02x:%02x:%02x:%02x:%02x:%02x %u\n", p.mac[0], p.mac[1], p.mac[2], p.mac[3],
               p.mac[4], p.mac[5], p.mtu);
}

static uint16_t vlan_of(unsigned number)
{
    return number ? (uint16_t)number : VLAN_NONE;
}

static void command(struct net_host *h, const char *line)
{
    char word[16], a[64], b[64];
    static char hex[LINE_MAX_LEN];
    unsigned n, vlan;

    if (sscanf(line, "rx %8191s", hex) == 1) {
        receive(h, hex);
    } else if (sscanf(line, "run %u", &n) == 1) {
        run(h, n);
    } else if (sscanf(line, "route %63s %u %63s %u", a, &n, b, &vlan) == 4) {
        struct net_route r = {address(a, line), address(b, line), (uint8_t)n, vlan_of(vlan)};

        check(net_host_add_route(h, &r));
    } else if (sscanf(line, "resolve %63s %63s %u", a, b, &vlan) == 3) {
        union gid src = address(a, line), dst = address(b, line);

        resolve(h, &src, &dst, vlan_of(vlan));
    } else if (sscanf(line, "%15s %63s %u %u", word, a, &n, &vlan) == 4) {
        struct net_address own = {address(a, line), (uint8_t)n, vlan_of(vlan)};

        check(net_host_add_address(h, &own, !strcmp(word, "address"), now));
    } else if (sscanf(line, "%15s %63s %u", word, a, &vlan) == 3) {
        union gid group = address(a, line);

        check(!strcmp(word, "join") ? net_host_join(h, &group, vlan_of(vlan), now)
                                    : net_host_leave(h, &group, vlan_of(vlan), now));
    } else {
        bad(line);
    }
}

int main(void)
{
    const struct net_host_config config = {
        .mac = {2, 0, 0, 0, 0, 1}, .mtu = 1500, .seed = 1, .ops = &ops};
    struct net_host *h = net_host_create(&config);
    static char line[LINE_MAX_LEN];

    if (!h)
        return 2;
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        command(h, line);
        printf("ok\n");
        fflush(stdout);
    }
    net_host_destroy(h);
    return 0;
}
