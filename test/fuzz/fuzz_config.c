/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as uroced's configuration file: it is accepted, or refused with one line, and an
 * accepted one satisfies the invariants that the daemon relies on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "fuzz.h"

static int file = -1;

static void check_classes(const struct qos_classes *c)
{
    unsigned sum = 0;

    REQUIRE(c->count <= QOS_PRIORITIES);
    for (unsigned i = 0; i < QOS_PRIORITIES; i++) {
        REQUIRE(c->of_priority[i] < max_of(c->count, 1u));
        REQUIRE(i < c->count || !c->percent[i]);
        REQUIRE(!i || i >= c->count || !c->percent[i - 1] || c->percent[i]);
        sum += c->percent[i];
    }
    REQUIRE(!sum || sum == 100);
}

static void check_port(const struct uroced_port *p)
{
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
    struct uroced_port copy = *p;

    REQUIRE(p->device[0] && memchr(p->device, 0, sizeof(p->device)));
    REQUIRE(p->addresses <= CONFIG_ADDRESSES_MAX && p->neighbours <= CONFIG_NEIGHBOURS_MAX &&
            p->routes <= NET_ROUTE_MAX);
    REQUIRE(p->addresses || p->follow_kernel || p->follow_host);
    REQUIRE(p->gid_types && !(p->gid_types & ~6u));
    REQUIRE(memchr(p->tap_name, 0, sizeof(p->tap_name)));
    for (unsigned i = 0; i < 16; i++)
        REQUIRE(p->qos.sl_to_pcp[i] <= 7 && p->qos.priority_to_sl[i] <= 15);
    for (unsigned i = 0; i < 64; i++)
        REQUIRE(p->qos.dscp[i] <= 63);
    check_classes(&p->classes);
    REQUIRE(p->entropy.rule <= ENTROPY_SPRAY && p->repath <= CONFIG_REPATH_MAX);
    REQUIRE(p->entropy.rule != ENTROPY_FIXED || p->entropy.port >= ENTROPY_PORT_MIN);
    config_complete_addresses(&copy, mac);
    for (unsigned i = 0; i < p->addresses; i++) {
        const struct port_address *a = &copy.address[i];

        REQUIRE(!gid_is_zero(&a->gid) && !gid_is_multicast(&a->gid));
        REQUIRE(a->prefix <= (gid_is_ipv4(&a->gid) ? 32 : 128));
        REQUIRE(a->vlan == VLAN_NONE || (a->vlan >= 1 && a->vlan <= VLAN_ID_MAX));
    }
    for (unsigned i = 0; i < p->routes; i++)
        REQUIRE(gid_is_ipv4(&p->route[i].dst) == gid_is_ipv4(&p->route[i].via));
}

static void check_quota(const struct quota_limits *l)
{
    for (unsigned k = 0; k < QUOTA_KINDS; k++) {
        REQUIRE(l->total[k] <= quota_kind_max(k) && l->user[k] <= quota_kind_max(k) &&
                l->client[k] <= quota_kind_max(k));
        REQUIRE(!l->total[k] || (l->user[k] <= l->total[k] && l->client[k] <= l->total[k]));
        REQUIRE(!l->user[k] || l->client[k] <= l->user[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct uroced_config config;
    char path[64], error[512] = "";

    if (file < 0) {
        file = memfd_create("config", MFD_CLOEXEC);
        REQUIRE(file >= 0);
    }
    REQUIRE(!ftruncate(file, 0) && pwrite(file, data, size, 0) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    if (config_load(&config, path, error, sizeof(error))) {
        REQUIRE(!strncmp(error, path, strlen(path)));
        return 0;
    }
    REQUIRE(config.ports >= 1 && config.ports <= CONFIG_PORTS_MAX);
    REQUIRE(config.mode <= 0777 && config.workers <= WORKERS_MAX);
    check_quota(&config.quota);
    for (unsigned i = 0; i < config.ports; i++) {
        REQUIRE(!i || config.port[i - 1].number < config.port[i].number);
        check_port(&config.port[i]);
    }
    return 0;
}
