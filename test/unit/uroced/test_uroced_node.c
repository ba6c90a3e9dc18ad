/* SPDX-License-Identifier: BSD-3-Clause */
/* On which node of the machine the ports are, as a made-up /sys has it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "numa_node.h"
#include "unit.h"

static char sysfs[] = "/tmp/uroce-node.XXXXXX";
static char made[20][200]; /* in the order of their creation */
static unsigned count;

static void make(const char *name, const char *text)
{
    char *path = made[count++];
    FILE *f;

    snprintf(path, sizeof(made[0]), "%s/%s", sysfs, name);
    if (!text) {
        assert_int_equal(mkdir(path, 0700), 0);
        return;
    }
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void make_link(const char *name, const char *to)
{
    char *path = made[count++];

    snprintf(path, sizeof(made[0]), "%s/%s", sysfs, name);
    assert_int_equal(symlink(to, path), 0);
}

static int setup(void **state)
{
    static const char *const folders[] = {
        "class",
        "class/net",
        "class/net/eth1",
        "class/net/eth1/device",
        "class/net/virtio1",
        "bus",
        "bus/pci",
        "bus/pci/devices",
        "bus/pci/devices/0000:03:00.0",
        "bus/pci/devices/0000:81:00.0",
        "bus/pci/devices/0000:82:00.0",
        "bus/pci/devices/0000:81:00.0/virtio5",
    };

    assert_non_null(mkdtemp(sysfs));
    for (unsigned i = 0; i < ARRAY_SIZE(folders); i++)
        make(folders[i], NULL);
    make("class/net/eth1/device/numa_node", "1\n");
    make("bus/pci/devices/0000:03:00.0/numa_node", "0\n");
    make("bus/pci/devices/0000:81:00.0/numa_node", "1\n");
    make("bus/pci/devices/0000:82:00.0/numa_node", "-1\n");
    make_link("class/net/virtio1/device", "../../../bus/pci/devices/0000:81:00.0/virtio5");
    return 0;
}

static int teardown(void **state)
{
    while (count)
        assert_int_equal(remove(made[--count]), 0);
    return rmdir(sysfs);
}

static void node_of_all(void **state)
{
    static const struct {
        const char *device[3];
        int node;
    } row[] = {
        {{"0000:03:00.0"}, 0},
        {{"0000:81:00.0,some=option"}, 1},
        {{"net_af_packet0,iface=eth1,framesz=8192"}, 1},
        {{"net_af_xdp0,iface=eth1"}, 1},
        {{"packet,iface=eth1"}, 1},
        {{"packet,iface=virtio1"}, 1},
        {{"0000:81:00.0", "loopback", "net_af_xdp0,iface=eth1"}, 1},
        {{"0000:82:00.0", "0000:81:00.0"}, 1}, /* one that the kernel does not know the node of */
        {{"0000:03:00.0", "0000:81:00.0"}, -1},
        {{"loopback"}, -1},
        {{"net_memif0,role=server"}, -1},
        {{"net_af_packet0,iface=eth2"}, -1},
        {{"net_af_packet0,iface=../../bus/pci/devices/0000:03:00.0"}, -1},
        {{"net_af_packet0,iface="}, -1},
        {{""}, -1},
        {{NULL}, -1},
    };
    static struct uroced_config c;

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        for (c.ports = 0; c.ports < 3 && row[i].device[c.ports]; c.ports++)
            snprintf(c.port[c.ports].device, sizeof(c.port[0].device), "%s",
                     row[i].device[c.ports]);
        assert_int_equal(numa_node_of_ports(&c, sysfs), row[i].node);
    }
    /* On every machine the node of a loopback device is unknown. */
    snprintf(c.port[0].device, sizeof(c.port[0].device), "loopback");
    c.ports = 1;
    numa_node_bind(&c);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(node_of_all)};

    return cmocka_run_group_tests_name("uroced_node", tests, setup, teardown);
}
