/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file: valid contents, and error messages with the place of the error. */
#include "cc.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

static struct uroced_config config;
static char error[512];
static char path[] = "/tmp/uroce-config-XXXXXX";

static int load(const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    error[0] = 0;
    return config_load(&config, path, error, sizeof(error));
}

static void test_everything(void **state)
{
    assert_int_equal(load("# comment\n"
                          "[uroced]\n"
                          "socket = /tmp/x.sock\n"
                          "mode=0640\n"
                          "group = rdma\n"
                          "workers = 2\n"
                          "cpus = 2,4-5\n"
                          "poll = always\n"
                          "idle_exit = 30\n"
                          "userfaultfd = pass\n"
                          "user = uroce\n"
                          "seccomp = no\n"
                          "capabilities = keep\n"
                          "metrics = [::1]:9440\n"
                          "telemetry = yes\n"
                          "latency = yes\n"
                          "\n"
                          "[port.7]\n"
                          "device = net_af_packet0,iface=eth1,framesz=8192\n"
                          "mtu = 4200\n"
                          "address.0 = 10.0.0.1/24\n"
                          "address.1 = fd00::1/64\n"
                          "address = 10.0.0.9\n"
                          "neighbour.0 = 10.0.0.2 02:00:00:aa:BB:0c\n"
                          "neighbour.12 =  fd00::2   02:00:00:00:00:03\n"
                          "capture = /tmp/a.pcap   1000\n"
                          "fault = drop rx opcode RC_ACK chance 0.01 seed 7\n"
                          "fault.2 = delay 5ms tx\n"
                          "queues = 4\n"
                          "spread = software\n"
                          "[port.3]\n"
                          "device = loopback\n"
                          "address = 127.0.0.1\n"),
                     0);
    assert_string_equal(config.socket, "/tmp/x.sock");
    assert_int_equal(config.mode, 0640);
    assert_string_equal(config.group, "rdma");
    assert_string_equal(config.metrics, "[::1]:9440");
    assert_true(config.telemetry && config.latency);
    assert_int_equal(config.workers, 2);
    assert_string_equal(config.cpus, "2,4-5");
    assert_true(config.always_poll);
    assert_int_equal(config.idle_exit, 30);
    assert_true(config.pass_userfaultfd);
    assert_string_equal(config.user, "uroce");
    assert_true(config.no_seccomp);
    assert_true(config.keep_capabilities);
    assert_int_equal(config.ports, 2);
    assert_int_equal(config.port[0].number, 3);
    assert_string_equal(config.port[0].device, "loopback");
    assert_int_equal(config.port[0].address[0].prefix, 32);
    assert_string_equal(config.port[1].device, "net_af_packet0,iface=eth1,framesz=8192");
    assert_int_equal(config.port[1].mtu, 4200);
    assert_int_equal(config.port[1].addresses, 3);
    assert_int_equal(config.port[1].address[0].prefix, 24);
    assert_int_equal(config.port[1].address[1].prefix, 64);
    assert_int_equal(config.port[1].address[1].gid.raw[15], 1);
    assert_string_equal(config.port[1].capture, "/tmp/a.pcap");
    assert_int_equal(config.port[1].capture_frames, 1000);
    assert_int_equal(config.port[1].faults, 2);
    assert_string_equal(config.port[1].fault[0], "drop rx opcode RC_ACK chance 0.01 seed 7");
    assert_string_equal(config.port[1].fault[1], "delay 5ms tx");
    assert_int_equal(config.port[0].faults, 0);
    assert_int_equal(config.port[1].queues, 4);
    assert_true(config.port[1].spread);
    assert_false(config.port[0].spread);
    assert_int_equal(config.port[1].neighbours, 2);
    assert_int_equal(config.port[1].neighbour[0].mac[4], 0xbb);
    assert_int_equal(config.port[1].neighbour[1].mac[5], 3);
}

/* 64 of them: longer than a name may be. */
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

#define PORT   "[port.0]\ndevice = loopback\n"
#define OK     PORT "address = 127.0.0.1\n"
#define SOCKET "[port.0]\ndevice = socket\n"

/* The text, and what the message must contain beside the file's name. */
static const char *const bad[][3] = {
    {"", "no [port.N] section", ""},
    {"[uroced]\n", "no [port.N] section", ""},
    {"\xEF\xBB\xBF" OK, "byte order mark", "without BOM"},
    {"\xEF\xBB\xBF# a comment\n" OK, "byte order mark", "without BOM"},
    {"[urocd]\n" OK, "[urocd]", "not a section"},
    {"[uroced]\nsokcet = /x\n" OK, "[uroced] sokcet", "not a key"},
    {"[uroced]\nworkers = 1\n" OK "[uroced]\nworkers = 2\n", "[uroced]", "twice"},
    {"[quota]\ntotal.qps = 5\n[quota]\n" OK, "[quota]", "twice"},
    {"[weight]\nroot = 2\n[weight]\n" OK, "[weight]", "twice"},
    {"[uroced]\nworkers = 0\n" OK, "[uroced] workers", "from 1 to 16"},
    {"[uroced]\nworkers = 17\n" OK, "[uroced] workers", "from 1 to 16"},
    {"[uroced]\nworkers = two\n" OK, "[uroced] workers", "\"two\""},
    {"[uroced]\nworkers = 2x\n" OK, "[uroced] workers", "\"2x\""},
    {"[uroced]\nworkers = -1\n" OK, "[uroced] workers", "\"-1\""},
    {"[uroced]\nmode = 999\n" OK, "[uroced] mode", "octal"},
    {"[uroced]\nmode = 1777\n" OK, "[uroced] mode", "octal"},
    {"[uroced]\nmode = 0\n" OK, "[uroced] mode", "octal"},
    {"[uroced]\nsocket =\n" OK, "[uroced] socket", "no value"},
    {"[uroced]\ncpus = two\n" OK, "[uroced] cpus", "list of CPUs"},
    {"[uroced]\ncpus =\n" OK, "[uroced] cpus", "list of CPUs"},
    {"[uroced]\npoll = never\n" OK, "[uroced] poll", "adaptive or always"},
    {"[uroced]\nuserfaultfd = yes\n" OK, "[uroced] userfaultfd", "pass or no"},
    {"[uroced]\nseccomp = maybe\n" OK, "[uroced] seccomp", "yes or no"},
    {"[uroced]\ncapabilities = no\n" OK, "[uroced] capabilities", "drop or keep"},
    {"[uroced]\nuser =\n" OK, "[uroced] user", "no value"},
    {"[uroced]\nmetrics = yes\n" OK, "[uroced] metrics", "ADDRESS:PORT"},
    {"[uroced]\ntelemetry = on\n" OK, "[uroced] telemetry", "yes or no"},
    {"[uroced]\nlatency = 1\n" OK, "[uroced] latency", "yes or no"},
    {"[uroced]\nmetrics =\n" OK, "[uroced] metrics", "unix:PATH"},
    {"[uroced]\nidle_exit = 99999999999999999999\n" OK, "[uroced] idle_exit", "number"},
    {"[port]\ndevice = loopback\n", "[port]", "not a section"},
    {"[port.x]\ndevice = loopback\n", "[port.x]", "number N"},
    {"[port.]\ndevice = loopback\n", "[port.]", "number N"},
    {"[port.-1]\ndevice = loopback\n", "[port.-1]", "number N"},
    {"[port.4294967296]\ndevice = loopback\n", "[port.4294967296]", "up to 4294967295"},
    {"[port.99999999999999999999]\ndevice = loopback\n", "[port.9", "up to 4294967295"},
    {"[port.0]\naddress = 10.0.0.1\n", "[port.0]", "names no device"},
    {"[port.0]\ndevice = 0000:03:00.0\n", "[port.0]", "no address (address.N), and"},
    {PORT "addresses = kernel\n", "[port.0] addresses", "no kernel interface"},
    {OK "exception = tap\n", "[port.0] exception is not for the loopback", "no other host"},
    {OK "addresses = all\n", "[port.0] addresses", "must be kernel"},
    {"[port.0]\ndevice = net_null0\naddress = 10.0.0.1\naddresses = host\n", "[port.0] addresses",
     "loopback and socket alone"},
    {OK "mtu = 1500\nmtu = 1500\n", "[port.0] mtu", "twice"},
    {OK "[port.00]\ndevice = loopback\naddress = 10.0.0.1\n", "[port.00]", "twice"},
    {OK "adress = 10.0.0.1\n", "[port.0] adress", "not a key"},
    {OK "address.x = 10.0.0.1\n", "[port.0] address.x", "not a key"},
    {OK "address. = 10.0.0.1\n", "[port.0] address.", "not a key"},
    {OK "address.1 = 127.0.0.1/8\n", "[port.0] address.1", "repeats"},
    {OK "address.1 = 10.0.0.256\n", "[port.0] address.1", "10.0.0.256"},
    {OK "address.1 = 10.0.0.1/33\n", "[port.0] address.1", "from 0 to 32"},
    {OK "address.1 = ::2/129\n", "[port.0] address.1", "from 0 to 128"},
    {OK "address.1 = 10.0.0.1/\n", "[port.0] address.1", "\"\""},
    {OK "address.1 = 224.0.0.1\n", "[port.0] address.1", "of a host"},
    {OK "address.1 = ::\n", "[port.0] address.1", "of a host"},
    {OK "address.1 = 0.0.0.0\n", "[port.0] address.1", "of a host"},
    {OK "address.1 = 255.255.255.255\n", "[port.0] address.1", "of a host"},
    {OK "address.1 = 0.0.0.7/24\n", "[port.0] address.1", "of a host"},
    {OK "address.1 =\n", "[port.0] address.1", "no value"},
    {OK "address.1 = fe80::/64\n", "[port.0] address.1", "link-local"},
    {OK "address.1 = link-local 5\n", "[port.0] address.1", "not vlan ID"},
    {OK "address.1 = 10.0.0.1/24 vlan\n", "[port.0] address.1", "not vlan ID"},
    {OK "address.1 = 10.0.0.1/24 vlan 0\n", "[port.0] address.1", "from 1 to 4094"},
    {OK "address.1 = 10.0.0.1/24 vlan 4095\n", "[port.0] address.1", "from 1 to 4094"},
    {OK "address.1 = 10.0.0.1/24 vlan x\n", "[port.0] address.1", "\"x\""},
    {OK "address.1 = 10.0.0.1/24 vlan 5 6\n", "[port.0] address.1", "not vlan ID"},
    {OK "address.1 = link-local\naddress.2 = link-local\n", "[port.0] address.2", "repeats"},
    {OK "address.1 = 127.0.0.1 vlan 3\naddress.2 = 127.0.0.1 vlan 3\n", "address.2", "repeats"},
    {OK "mtu = 100\n", "[port.0] mtu", "from 576"},
    {OK "mtu = 1500\n", "[port.0] mtu", "not for the loopback device"},
    {OK "route.0 = 10.0.0.0/8\n", "[port.0] route.0", "via GATEWAY"},
    {OK "route.0 =\n", "[port.0] route.0", "via GATEWAY"},
    {OK "route.0 = 10.0.0.0/8 by 127.0.0.1\n", "[port.0] route.0", "via GATEWAY"},
    {OK "route.0 = 10.0.0.0/8 via\n", "[port.0] route.0", "via GATEWAY"},
    {OK "route.0 = 10.0.0.0/8 via gate\n", "[port.0] route.0", "\"gate\""},
    {OK "route.0 = 10.0.0.0/8 via 224.0.0.1\n", "[port.0] route.0", "of a host"},
    {OK "route.0 = 10.0.0.0/33 via 127.0.0.2\n", "[port.0] route.0", "from 0 to 32"},
    {OK "route.0 = ten/8 via 127.0.0.2\n", "[port.0] route.0", "an address"},
    {OK "route.0 = fd00::/8 via 127.0.0.2\n", "[port.0] route.0", "IP versions"},
    {OK "route.0 = 224.0.0.0/4 via 127.0.0.2\n", "[port.0] route.0", "a group"},
    {OK "route.0 = 10.0.0.1/24 via 127.0.0.1\n", "[port.0] route.0", "after its prefix"},
    {OK "route.0 = fd00::1/127 via ::2\n", "[port.0] route.0", "after its prefix"},
    {OK "route.0 = default via 127.0.0.1 wlan 5\n", "[port.0] route.0", "not vlan ID"},
    {OK "route.0 = 10.0.0.0/8 via 127.0.0.1\n", "[port.0] route", "127.0.0.1, which is an address"},
    {OK "route.0 = default via 10.0.0.1\n", "[port.0] route", "10.0.0.1, which is on no network"},
    {OK "route.0 = default via 127.0.0.1 vlan 5\n", "[port.0] route", "in that VLAN"},
    {OK "route.0 = 10.0.0.0/8 link now\n", "[port.0] route.0", "not vlan ID"},
    {OK "route.0 = 10.0.0.1/8 link\n", "[port.0] route.0", "after its prefix"},
    {OK "route.0 = 224.0.0.0/4 link\n", "[port.0] route.0", "a group"},
    {OK "route.0 = 10.9.0.1/32 link vlan 5\nroute.1 = default via 10.9.0.1\n", "[port.0] route",
     "10.9.0.1, which is on no network"},
    {OK "route.0 = default via 127.0.0.1\nroute.1 = 0.0.0.0/0 via 127.0.0.1\n", "route.1",
     "repeats"},
    {OK "dad = maybe\n", "[port.0] dad", "yes or no"},
    {OK "dad =\n", "[port.0] dad", "yes or no"},
    {OK "roce = v3\n", "[port.0] roce", "\"v3\""},
    {OK "roce =\n", "[port.0] roce", "no value"},
    {OK "exception = tun\n", "[port.0] exception", "\"tun\""},
    {OK "exception = none x\n", "[port.0] exception", "none x"},
    {OK "exception = tap a b\n", "[port.0] exception", "tap a b"},
    {OK "exception = tap a/b\n", "[port.0] exception", "a/b"},
    {OK "exception = tap sixteen-letters-\n", "[port.0] exception", "longer than 15"},
    {OK "exception =\n", "[port.0] exception", "must be"},
    {OK "sl_to_pcp = 0 1 2 3 4 5 6\n", "[port.0] sl_to_pcp", "8 or 16"},
    {OK "sl_to_pcp = 0 1 2 3 4 5 6 7 8\n", "[port.0] sl_to_pcp", "8 or 16"},
    {OK "sl_to_pcp = 0 1 2 3 4 5 6 8\n", "[port.0] sl_to_pcp", "from 0 to 7"},
    {OK "sl_to_pcp = 0 1 2 3 4 5 6 x\n", "[port.0] sl_to_pcp", "\"x\""},
    {OK "sl_to_pcp = 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0\n", "[port.0] sl_to_pcp", "8 or 16"},
    {OK "sl_to_pcp = 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1\n", "[port.0] sl_to_pcp", "8 or 16"},
    {OK "priority_to_sl = 0 1 2 3 4 5 6 16\n", "[port.0] priority_to_sl", "from 0 to 15"},
    {OK "dscp.0 = 46\n", "[port.0] dscp.0", "two code points"},
    {OK "dscp.0 = 46 64\n", "[port.0] dscp.0", "from 0 to 63"},
    {OK "dscp.0 = -1 4\n", "[port.0] dscp.0", "from 0 to 63"},
    {OK "dscp.0 = 46 26\ndscp.1 = 46 27\n", "[port.0] dscp.1", "repeats"},
    {OK "ets =\n", "[port.0] ets", "no value"},
    {OK "ets = 0\n", "[port.0] ets", "PRIORITIES:strict or PRIORITIES:PERCENT"},
    {OK "ets = 0: 100\n", "[port.0] ets", "from 1 to 100, not \"\""},
    {OK "ets = :strict\n", "[port.0] ets", "from 0 to 7, not \"\""},
    {OK "ets = 0,:strict\n", "[port.0] ets", "from 0 to 7, not \"\""},
    {OK "ets = 8:strict 0:100\n", "[port.0] ets", "from 0 to 7, not \"8\""},
    {OK "ets = 0,-1:strict\n", "[port.0] ets", "from 0 to 7, not \"-1\""},
    {OK "ets = 0:Strict\n", "[port.0] ets", "not \"Strict\""},
    {OK "ets = 0:0 1:100\n", "[port.0] ets", "from 1 to 100, not \"0\""},
    {OK "ets = 0:101\n", "[port.0] ets", "from 1 to 100, not \"101\""},
    {OK "ets = 0:60 1:39\n", "[port.0] ets", "100 percent in all, not 99"},
    {OK "ets = 0:60 1:60 7:strict\n", "[port.0] ets", "100 percent in all, not 120"},
    {OK "ets = 3:60 5:40\n", "[port.0] ets", "must name priority 0"},
    {OK "ets = 0:60 1:20 0:20\n", "[port.0] ets", "names the priority 0 twice"},
    {OK "ets = 0,2,2:100\n", "[port.0] ets", "names the priority 2 twice"},
    {OK "ets = 0:strict 1:strict 2:strict 3:strict 4:strict 5:strict 6:strict 7:strict 0:strict\n",
     "[port.0] ets", "names the priority 0 twice"},
    {OK "ets = 0:strict\nets = 0:100\n", "[port.0] ets", "twice"},
    {OK "entropy = linux\n", "[port.0] entropy", "\"linux\""},
    {OK "entropy = kernel rfc\n", "[port.0] entropy", "kernel, rfc, spray or fixed:PORT"},
    {OK "entropy =\n", "[port.0] entropy", "must be kernel"},
    {OK "entropy = fixed\n", "[port.0] entropy", "fixed:PORT"},
    {OK "entropy = fixed:\n", "[port.0] entropy", "fixed:PORT"},
    {OK "entropy = fixed:4791\n", "[port.0] entropy", "from 49152 to 65535"},
    {OK "entropy = fixed:65536\n", "[port.0] entropy", "from 49152 to 65535"},
    {OK "entropy = fixed:0xc0000\n", "[port.0] entropy", "\"fixed:0xc0000\""},
    {OK "entropy = spray\nentropy = rfc\n", "[port.0] entropy", "twice"},
    {OK "repath = 8\n", "[port.0] repath", "from 0 to 7"},
    {OK "repath = -1\n", "[port.0] repath", "\"-1\""},
    {OK "repath = yes\n", "[port.0] repath", "\"yes\""},
    {OK "repath =\n", "[port.0] repath", "number"},
    {OK "trim_dscp = 0\n", "[port.0] trim_dscp", "from 1 to 63"},
    {OK "trim_dscp = 64\n", "[port.0] trim_dscp", "from 1 to 63"},
    {OK "trim_dscp = yes\n", "[port.0] trim_dscp", "\"yes\""},
    {OK "ecn = 1\n", "[port.0] ecn", "\"1\""},
    {OK "segmentation = no\n", "[port.0] segmentation", "socket and packet alone"},
    {OK "segmentation = yes\n", "[port.0] segmentation", "socket and packet alone"},
    {OK "segmentation = maybe\n", "[port.0] segmentation", "\"maybe\""},
    {SOCKET "roce = v1\n", "[port.0]", "RoCEv1"},
    {SOCKET "address.0 = 10.0.0.1/24 vlan 5\n", "[port.0]", "in no VLAN"},
    {SOCKET "address.0 = link-local\n", "[port.0]", "not link-local"},
    {SOCKET "addresses = kernel\n", "[port.0]", "the host's addresses"},
    {SOCKET "exception = tap\n", "[port.0]", "the host's addresses"},
    {SOCKET "capture = /tmp/a\n", "[port.0]", "the kernel's interfaces"},
    {SOCKET "neighbour.0 = 10.0.0.2 02:00:00:00:00:02\n", "[port.0]", "neighbours"},
    {OK "flow_control = on\n", "[port.0] flow_control", "off, rx, tx or both, not \"on\""},
    {OK "flow_control =\n", "[port.0] flow_control", "off, rx, tx or both"},
    {OK "flow_control = rx tx\n", "[port.0] flow_control", "off, rx, tx or both"},
    {OK "flow_control = rx\n", "[port.0] flow_control", "no pause frame reaches"},
    {SOCKET "flow_control = off\n", "[port.0] flow_control", "no pause frame reaches"},
    {OK "max_rate = 0\n", "[port.0] max_rate", "\"0\""},
    {OK "max_rate = 1000001\n", "[port.0] max_rate", "\"1000001\""},
    {OK "selective_repeat = maybe\n", "[port.0] selective_repeat", "\"maybe\""},
    {OK "control = fast\n", "[port.0] control", "dcqcn"},
    {OK "control =\n", "[port.0] control", "dcqcn"},
    {OK "control = dcqcn 1 2\n", "[port.0] control", "\"2\" is not PARAMETER=NUMBER of dcqcn"},
    {OK "control = swift rpg_ai_rate=5\n", "[port.0] control", "is not PARAMETER=NUMBER of swift"},
    {OK "control = dcqcn rpg_ai_rate=0\n", "[port.0] control", "rpg_ai_rate is from 1 to 1000000"},
    {OK "control = dcqcn rpg_ai_rate=x\n", "[port.0] control", "rpg_ai_rate is from"},
    {OK "control = none rpg_ai_rate=5\n", "[port.0] control", "one of none, dcqcn"},
    {OK "control = rtt 1 increase=1 increase=1 increase=1 increase=1 increase=1 increase=1 "
        "increase=1 increase=1 increase=1 increase=1 increase=1 increase=1 increase=1 "
        "increase=1 increase=1\n",
     "[port.0] control", "too many words"},
    {OK "control = dcqcn 0\n", "[port.0] control", "from 1 to 1000000"},
    {OK "cnp =\n", "[port.0] cnp", "microseconds"},
    {OK "cnp = yes\n", "[port.0] cnp", "\"yes\""},
    {OK "cnp = 0\n", "[port.0] cnp", "from 1 to 1000000"},
    {OK "cnp = 50 48\n", "[port.0] cnp", "a code point and a priority"},
    {OK "cnp = 50 64 0\n", "[port.0] cnp", "from 0 to 63"},
    {OK "cnp = 50 0 8\n", "[port.0] cnp", "from 0 to 7"},
    {OK "icrc = no\n", "[port.0] icrc", "auto or always, not \"no\""},
    {OK "icrc = auto\nicrc = always\n", "[port.0] icrc", "twice"},
    {OK "queues = 0\n", "[port.0] queues", "from 1"},
    {OK "spread = yes\n", "[port.0] spread", "software or no, not \"yes\""},
    {OK "spread =\n", "[port.0] spread", "software or no"},
    {OK "spread = no\nspread = software\n", "[port.0] spread", "twice"},
    {OK "capture =\n", "[port.0] capture", "no value"},
    {OK "capture = /tmp/a many\n", "[port.0] capture", "many"},
    {OK "capture = /tmp/a 0\n", "[port.0] capture", "from 1"},
    {OK "fault =\n", "[port.0] fault", "is no rule"},
    {OK "fault = explode\n", "[port.0] fault", "\"explode\" is no action"},
    {OK "fault.1 = drop opcode RC_NACK\n", "[port.0] fault.1", "\"RC_NACK\" is no opcode"},
    {OK "fault = drop device uroce1\n", "[port.0] fault", "names the device \"uroce1\""},
    {OK "neighbour.0 = 10.0.0.2\n", "[port.0] neighbour.0", "and a MAC"},
    {OK "neighbour.0 = 10.0.0.2 02:00:00:00:00\n", "[port.0] neighbour.0", "and a MAC"},
    {OK "neighbour.0 = 10.0.0.2 02:00:00:00:00:02:03\n", "[port.0] neighbour.0", "and a MAC"},
    {OK "neighbour.0 = 10.0.0.2 01:00:00:00:00:02\n", "[port.0] neighbour.0", "and a MAC"},
    {OK "neighbour.0 = 10.0.0.2 00:00:00:00:00:00\n", "[port.0] neighbour.0", "and a MAC"},
    {OK "neighbour.0 = 10.0.0.2 02:00:00:00:00:02\nneighbour.1 = 10.0.0.2 02:00:00:00:00:03\n",
     "[port.0] neighbour.1", "repeats"},
    {OK "neighbour.0 = ten 02:00:00:00:00:02\n", "[port.0] neighbour.0", "ten"},
    {"[weight]\nroot = 0\n" OK, "[weight] root", "from 1 to 100"},
    {"[weight]\nroot = 101\n" OK, "[weight] root", "from 1 to 100"},
    {"[weight]\nroot = 2\n0 = 3\n" OK, "[weight] 0", "a weight already"},
    {"[weight]\nno such user = 2\n" OK, "[weight] no such user", "name of a user"},
    {"[weight]\n-1 = 2\n" OK, "[weight] -1", "name of a user"},
    {"[weight]\n4294967295 = 2\n" OK, "[weight] 4294967295", "name of a user"},
    {"[quota]\nqps = 5\n" OK, "[quota] qps", "total, user or client"},
    {"[quota]\nuser.qp = 5\n" OK, "[quota] user.qp", "pds, mrs, mws, channels"},
    {"[quota]\nuser. = 5\n" OK, "[quota] user.", "mapped_memory"},
    {"[quota]\nuse.qps = 5\n" OK, "[quota] use.qps", "total, user or client"},
    {"[quota]\nusers.qps = 5\n" OK, "[quota] users.qps", "total, user or client"},
    {"[quota]\nuser.qps = 0\n" OK, "[quota] user.qps", "from 1 to 131056"},
    {"[quota]\nuser.qps = 131057\n" OK, "[quota] user.qps", "\"131057\""},
    {"[quota]\nuser.qps = -1\n" OK, "[quota] user.qps", "from 1"},
    {"[quota]\nuser.qps = 4K\n" OK, "[quota] user.qps", "\"4K\""},
    {"[quota]\nuser.qps =\n" OK, "[quota] user.qps", "from 1"},
    {"[quota]\nuser.qps = 5\nuser.qps = 6\n" OK, "[quota] user.qps", "twice"},
    {"[quota]\nclient.groups = 257\n" OK, "[quota] client.groups", "from 1 to 256"},
    {"[quota]\ntotal.memory = 0\n" OK, "[quota] total.memory", "64M"},
    {"[quota]\ntotal.memory = M\n" OK, "[quota] total.memory", "\"M\""},
    {"[quota]\ntotal.memory = 64MB\n" OK, "[quota] total.memory", "\"64MB\""},
    {"[quota]\ntotal.memory = 64m\n" OK, "[quota] total.memory", "\"64m\""},
    {"[quota]\ntotal.memory = 18014398509481984K\n" OK, "[quota] total.memory", "must be bytes"},
    {"[quota]\ntotal.memory = 99999999999999999999\n" OK, "[quota] total.memory", "must be bytes"},
    {"[quota]\nuser.qps = 6\ntotal.qps = 5\n" OK, "[quota] user.qps", "more than total.qps"},
    {"[quota]\nclient.qps = 6\ntotal.qps = 5\n" OK, "[quota] client.qps", "more than total.qps"},
    {"[quota]\nclient.cqs = 6\nuser.cqs = 5\n" OK, "[quota] client.cqs", "more than user.cqs"},
    {"loopback\n" OK, "line 1", "neither"},
    {"device = loopback\n" OK, "line 1", "neither"},
    {OK "garbage\n", "line 4", "neither"},
    {OK "icrc # = always\n", "line 4", "neither"},
    {OK "= x\n", "line 4", "neither"},
    {"[port.0\ndevice = loopback\n", "line 1", "no closing bracket"},
    {"[port.0] device = loopback\n", "line 1", "more than a section's name"},
    {"[port.0]] # x\ndevice = loopback\n", "line 1", "more than a section's name"},
    {"[port." ZEROS "0]\ndevice = loopback\n", "line 1", "too long"},
    {OK "address." ZEROS "0 = 10.0.0.1/8\n", "line 4", "too long"},
};

static void test_errors_name_the_place(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        if (load(bad[i][0]) != -1)
            fail_msg("row %u is taken", i);
        if (!strstr(error, path) || !strstr(error, bad[i][1]) || !strstr(error, bad[i][2]))
            fail_msg("row %u: \"%s\" lacks \"%s\" or \"%s\"", i, error, bad[i][1], bad[i][2]);
        if (strchr(error, '\n'))
            fail_msg("row %u: several lines", i);
    }
}

/* rte_cfgfile would cut the longer one: to a beta of 102. */
static void test_long_values(void **state)
{
    char text[512];

    for (int length = 255; length <= 256; length++) {
        snprintf(text, sizeof(text), OK "control = rtt beta=%0*d \t # 1\n",
                 length - (int)strlen("rtt beta="), 1024);
        assert_int_equal(load(text), length == 255 ? 0 : -1);
    }
    assert_non_null(strstr(error, "line 4"));
    assert_non_null(strstr(error, "255"));
}

static void check_gid(const union gid *got, const char *text)
{
    union gid want;

    assert_int_equal(gid_parse(&want, text), 0);
    assert_true(gid_eq(got, &want));
}

static void test_network_keys(void **state)
{
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 7};
    struct uroced_port *p = &config.port[0];

    assert_int_equal(load("[port.0]\n"
                          "device = 0000:03:00.0\n"
                          "address.0 = link-local\n"
                          "address.1 = 10.0.0.1/24 vlan 5\n"
                          "address.2 = 10.0.0.1/24\tvlan\t4094\n"
                          "address.3 = fd00::1/64\n"
                          "address.4 = link-local vlan 5\n"
                          "route.0 = default via 10.0.0.254 vlan 5\n"
                          "route.1 = 192.0.2.0/25  via  10.0.0.253 vlan 4094\n"
                          "route.2 = default via fe80::1\n"
                          "route.3 = 2001:db8::/33 via fd00::ff\n"
                          "route.4 = 192.0.2.7 via 10.0.0.254 vlan 5\n"
                          "route.5 = default via 10.9.0.1\n"
                          "route.6 = 10.9.0.1/32 link\n"
                          "route.7 = fd09::/64 link vlan 5\n"
                          "roce = v2\n"
                          "dad = no\n"
                          "exception = tap tap-roce\n"),
                     0);
    assert_int_equal(p->addresses, 5);
    assert_false(p->follow_kernel);
    assert_int_equal(p->address[0].vlan, VLAN_NONE);
    assert_int_equal(p->address[1].vlan, 5);
    assert_int_equal(p->address[2].vlan, 4094);
    assert_int_equal(p->address[2].prefix, 24);
    config_complete_addresses(p, mac);
    check_gid(&p->address[0].gid, "fe80::ff:fe00:7");
    check_gid(&p->address[4].gid, "fe80::ff:fe00:7");
    check_gid(&p->address[3].gid, "fd00::1");
    assert_int_equal(p->routes, 8);
    check_gid(&p->route[6].via, "0.0.0.0");
    check_gid(&p->route[7].via, "::");
    assert_int_equal(p->route[7].vlan, 5);
    check_gid(&p->route[0].dst, "0.0.0.0");
    check_gid(&p->route[0].via, "10.0.0.254");
    assert_int_equal(p->route[0].prefix, 0);
    assert_int_equal(p->route[0].vlan, 5);
    check_gid(&p->route[1].dst, "192.0.2.0");
    assert_int_equal(p->route[1].prefix, 25);
    check_gid(&p->route[2].dst, "::");
    assert_int_equal(p->route[2].prefix, 0);
    assert_int_equal(p->route[2].vlan, VLAN_NONE);
    assert_int_equal(p->route[3].prefix, 33);
    assert_int_equal(p->route[4].prefix, 32);
    assert_int_equal(p->gid_types, 1u << GID_TYPE_ROCE_V2);
    assert_false(p->detect_duplicates);
    assert_true(p->tap);
    assert_string_equal(p->tap_name, "tap-roce");
}

static void test_port_defaults(void **state)
{
    const struct uroced_port *p = &config.port[0];
    struct qos_map qos;

    qos_map_default(&qos);
    assert_int_equal(load(OK), 0);
    assert_true(p->detect_duplicates);
    assert_false(p->tap);
    assert_false(p->follow_kernel);
    assert_int_equal(p->gid_types, 1u << GID_TYPE_ROCE_V1 | 1u << GID_TYPE_ROCE_V2);
    assert_memory_equal(&p->qos, &qos, sizeof(qos));
    assert_int_equal(load("[port.0]\ndevice = net_null0\nexception = tap\nroce = v1\n"), 0);
    assert_true(p->tap);
    assert_string_equal(p->tap_name, "");
    assert_int_equal(p->gid_types, 1u << GID_TYPE_ROCE_V1);
    assert_int_equal(load(OK "exception = none\nroce = v1 v2\n"), 0);
    assert_false(p->tap);
    assert_int_equal(p->gid_types, 1u << GID_TYPE_ROCE_V1 | 1u << GID_TYPE_ROCE_V2);
}

/* Without an address: the loopback's own, or those of the kernel interface below. */
static void test_addresses_of_others(void **state)
{
    const struct uroced_port *p = &config.port[0];

    assert_int_equal(load(PORT), 0);
    assert_int_equal(p->addresses, 2);
    check_gid(&p->address[0].gid, "127.0.0.1");
    check_gid(&p->address[1].gid, "::1");
    assert_int_equal(load("[port.0]\ndevice = net_af_packet0,iface=eth1\n"
                          "route.0 = default via 10.0.0.1\n"),
                     0);
    assert_int_equal(p->addresses, 0);
    assert_true(p->follow_kernel);
    assert_int_equal(load("[port.0]\ndevice = net_af_packet0,iface=eth1\naddress = 10.0.0.1/8\n"),
                     0);
    assert_false(p->follow_kernel);
    assert_int_equal(load("[port.0]\ndevice = net_af_packet0,iface=eth1\naddress = 10.0.0.1/8\n"
                          "addresses = kernel\n"),
                     0);
    assert_int_equal(p->addresses, 1);
    assert_true(p->follow_kernel);
    assert_int_equal(load("[port.0]\ndevice = packet,iface=eth1\nsegmentation = no\n"), 0);
    assert_true(p->follow_kernel);
    assert_true(p->no_segmentation);
}

static void test_qos_keys(void **state)
{
    static const uint8_t pcp[16] = {7, 6, 5, 4, 3, 2, 1, 0, 7, 6, 5, 4, 3, 2, 1, 0};
    static const uint8_t sl[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const struct qos_map *m = &config.port[0].qos;

    assert_int_equal(load(OK "sl_to_pcp = 7 6 5 4 3 2 1 0\n"
                             "priority_to_sl = 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n"
                             "dscp.0 = 46 26\n"
                             "dscp.17 = 0 63\n"),
                     0);
    assert_memory_equal(m->sl_to_pcp, pcp, sizeof(pcp));
    assert_memory_equal(m->priority_to_sl, sl, sizeof(sl));
    assert_int_equal(m->dscp[46], 26);
    assert_int_equal(m->dscp[0], 63);
    assert_int_equal(m->dscp[26], 26);
}

static void test_ets_key(void **state)
{
    static const struct {
        const char *text;
        struct qos_classes is;
    } good[] = {
        {"", {0}},
        {"ets = 0:strict\n", {1, {0}, {0}}},
        {"ets = 0:100\n", {1, {0}, {100}}},
        {"ets = 0:strict 3:60 5:40\n", {3, {0, 0, 0, 2, 0, 1, 0, 0}, {0, 40, 60}}},
        {"ets = 0:40 7:strict 3,4:60\n", {3, {2, 2, 2, 1, 1, 2, 2, 0}, {0, 60, 40}}},
        {"ets = 1:strict 0,2:strict 7:strict\n", {3, {1, 2, 1, 1, 1, 1, 1, 0}, {0, 0, 0}}},
        {"ets = 7:1 0:90 1:1 2:1 3:3 4:1 5:1 6:2\n",
         {8, {7, 6, 5, 4, 3, 2, 1, 0}, {1, 2, 1, 1, 3, 1, 1, 90}}},
    };
    char text[256];

    for (unsigned i = 0; i < ARRAY_SIZE(good); i++) {
        snprintf(text, sizeof(text), OK "%s", good[i].text);
        assert_int_equal(load(text), 0);
        assert_memory_equal(&config.port[0].classes, &good[i].is, sizeof(good[i].is));
    }
}

static void test_entropy_keys(void **state)
{
    const struct uroced_port *p = config.port;

    assert_int_equal(load(OK "entropy = spray\nrepath = 7\nicrc = always\n[port.1]\n"
                             "device = loopback\nicrc = auto\n"
                             "address = 127.0.0.2\nentropy = fixed:0xC123\n"
                             "[port.2]\ndevice = loopback\naddress = 127.0.0.3\nentropy = rfc\n"
                             "[port.3]\ndevice = loopback\naddress = 127.0.0.4\n"
                             "entropy = kernel\nrepath = 0\n[port.4]\ndevice = loopback\n"),
                     0);
    assert_true(p[0].entropy.rule == ENTROPY_SPRAY && p[0].repath == 7);
    assert_true(p[0].icrc_always && !p[1].icrc_always && !p[2].icrc_always);
    assert_true(p[1].entropy.rule == ENTROPY_FIXED && p[1].entropy.port == 0xC123);
    assert_true(p[2].entropy.rule == ENTROPY_RFC && p[2].repath == 0);
    assert_true(p[3].entropy.rule == ENTROPY_KERNEL && p[3].repath == 0);
    assert_true(p[4].entropy.rule == ENTROPY_KERNEL && p[4].repath == 0);
}

static void test_trim_keys(void **state)
{
    assert_int_equal(load(OK "trim_dscp = 50\n[port.1]\ndevice = loopback\naddress = 127.0.0.2\n"
                             "trim_dscp = no\n[port.2]\ndevice = loopback\n"),
                     0);
    assert_int_equal(config.port[0].trim_dscp, 50);
    assert_int_equal(config.port[1].trim_dscp, 0);
    assert_int_equal(config.port[2].trim_dscp, 0);
}

static void test_congestion_keys(void **state)
{
    const struct uroced_port *p = config.port;
    static const struct congestion_config expected[] = {
        {false, 50000, 48, 6}, {true, 10000, 48, 6}, {false, 1000000000, 26, 5}, {false, 0, 48, 6}};

    assert_int_equal(load(OK "[port.1]\ndevice = loopback\naddress = 127.0.0.2\n"
                             "ecn = yes\ncnp = 10\n"
                             "[port.2]\ndevice = loopback\naddress = 127.0.0.3\n"
                             "ecn = no\ncnp = 1000000 26 5\n"
                             "[port.3]\ndevice = loopback\naddress = 127.0.0.4\ncnp = no\n"),
                     0);
    for (unsigned i = 0; i < ARRAY_SIZE(expected); i++) {
        assert_null(p[i].congestion.control);
        assert_int_equal(p[i].congestion.ect, expected[i].ect);
        assert_int_equal(p[i].congestion.cnp_interval, expected[i].cnp_interval);
        assert_int_equal(p[i].congestion.cnp_dscp, expected[i].cnp_dscp);
        assert_int_equal(p[i].congestion.cnp_pcp, expected[i].cnp_pcp);
    }
}

static void test_control_keys(void **state)
{
    const struct uroced_port *p = config.port;

    assert_int_equal(load(OK "control = dcqcn\n"), 0);
    assert_string_equal(p->congestion.control->name, "dcqcn");
    assert_int_equal(p->congestion.line, 0);
    assert_int_equal(load(OK "control = dcqcn 25000\n"), 0);
    assert_int_equal(p->congestion.line, UINT64_C(25000000000));
    assert_int_equal(load(OK "control = dcqcn 25000 rpg_ai_rate=7 rpg_time_reset=90\n"), 0);
    assert_int_equal(p->congestion.line, UINT64_C(25000000000));
    assert_true(p->congestion.own_params);
    assert_int_equal(p->congestion.params[8], 7000000);
    assert_int_equal(p->congestion.params[5], 90000);
    assert_int_equal(p->congestion.params[7], 5);
    assert_int_equal(load(OK "control = swift fabric_delay=50\n"), 0);
    assert_ptr_equal(p->congestion.control, &cc_swift);
    assert_int_equal(p->congestion.line, 0);
    assert_int_equal(load(OK "control = none\n"), 0);
    assert_null(p->congestion.control);
}

static void test_quota_keys(void **state)
{
    const struct quota_limits *l = &config.quota;
    char text[256];

    assert_int_equal(load(OK), 0);
    for (unsigned k = 0; k < QUOTA_KINDS; k++) {
        unsigned long long max = quota_kind_max(k);

        assert_true(!l->total[k] && !l->user[k] && !l->client[k]);
        /* All kinds have a name, and the largest value is one that there can be. */
        max = max > CONFIG_QUOTA_MAX ? CONFIG_QUOTA_MAX : max;
        snprintf(text, sizeof(text), OK "[quota]\nuser.%s = %llu\n", quota_kind_name(k), max);
        assert_int_equal(load(text), 0);
        assert_int_equal(l->user[k], max);
    }
    assert_int_equal(load("[quota]\n"
                          "total.qps = 300\n"
                          "user.qps = 200\n"
                          "client.qps = 100\n"
                          "user.mrs = 300\n"
                          "client.rwq_tables = 7\n"
                          "total.memory = 2G\n"
                          "user.memory = 64M\n"
                          "client.memory = 512K\n"
                          "user.mapped_memory = 4096\n" OK),
                     0);
    assert_int_equal(l->total[QUOTA_QP], 300);
    assert_int_equal(l->user[QUOTA_QP], 200);
    assert_int_equal(l->client[QUOTA_QP], 100);
    assert_int_equal(l->user[QUOTA_MR], 300);
    assert_int_equal(l->client[QUOTA_RWQ_IND], 7);
    assert_int_equal(l->total[QUOTA_MEMORY], UINT64_C(2) << 30);
    assert_int_equal(l->user[QUOTA_MEMORY], 64 << 20);
    assert_int_equal(l->client[QUOTA_MEMORY], 512 << 10);
    assert_int_equal(l->user[QUOTA_MAPPED], 4096);
    assert_int_equal(l->user[QUOTA_CQ], 0);
}

static void test_too_many_routes(void **state)
{
    static char text[40000];
    int n = snprintf(text, sizeof(text), "%s", OK);

    for (unsigned i = 0; i <= NET_ROUTE_MAX; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "route.%u = 10.%u.%u.0/24 via 127.0.0.1\n", i, i / 256, i % 256);
    assert_int_equal(load(text), -1);
    assert_non_null(strstr(error, "one too many"));
}

static void test_missing_file(void **state)
{
    assert_int_equal(config_load(&config, "/nonexistent/uroced.ini", error, sizeof(error)), -1);
    assert_non_null(strstr(error, "/nonexistent/uroced.ini"));
    assert_non_null(strstr(error, "No such file"));
    assert_int_equal(config_load(&config, "/tmp", error, sizeof(error)), -1);
    assert_non_null(strstr(error, "/tmp: cannot be read: Is a directory"));
}

/* What has been read once is gone. */
static void test_pipe(void **state)
{
    static const char text[] = "[port.0]\ndevice = loopback\n";
    char name[64];
    int fd[2];

    assert_int_equal(pipe(fd), 0);
    assert_int_equal(write(fd[1], text, sizeof(text) - 1), sizeof(text) - 1);
    close(fd[1]);
    snprintf(name, sizeof(name), "/dev/fd/%d", fd[0]);
    assert_int_equal(config_load(&config, name, error, sizeof(error)), -1);
    assert_non_null(strstr(error, "is a pipe"));
    close(fd[0]);
}

static void test_zero_byte(void **state)
{
    static const char text[] = "[port.0]\0\ndevice = loopback\n";
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, sizeof(text) - 1, f), sizeof(text) - 1);
    fclose(f);
    assert_int_equal(config_load(&config, path, error, sizeof(error)), -1);
    assert_non_null(strstr(error, "line 1 has a zero byte"));
}

static void test_too_many(void **state)
{
    char text[20000];
    int n = snprintf(text, sizeof(text), "%s", PORT);

    for (unsigned i = 0; i <= CONFIG_ADDRESSES_MAX; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "address.%u = 10.0.1.%u\n", i, i);
    assert_int_equal(load(text), -1);
    assert_non_null(strstr(error, "one too many"));
    n = snprintf(text, sizeof(text), "%s", OK);
    for (unsigned i = 0; i <= CONFIG_NEIGHBOURS_MAX; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "neighbour.%u = 10.%u.%u.1 02:00:00:00:00:01\n", i, i / 256, i % 256);
    assert_int_equal(load(text), -1);
    assert_non_null(strstr(error, "one too many"));
}

static void check_loopback(bool whole_host)
{
    const struct uroced_port *p = config.port;

    assert_int_equal(config.ports, 1);
    assert_int_equal(p->addresses, 2);
    check_gid(&p->address[0].gid, "127.0.0.1");
    check_gid(&p->address[1].gid, "::1");
    assert_int_equal(p->address[0].prefix, 8);
    assert_int_equal(p->address[1].prefix, 128);
    assert_int_equal(p->follow_host, whole_host);
}

static void test_loopback(void **state)
{
    memset(&config, 0, sizeof(config));
    assert_int_equal(config_loopback(&config, NULL, error, sizeof(error)), 0);
    check_loopback(true);
    assert_int_equal(load("[port.0]\ndevice = loopback\n"), 0);
    check_loopback(true);
    assert_int_equal(load("[port.0]\ndevice = loopback\naddresses = host\n"), 0);
    check_loopback(true);
    assert_int_equal(load(OK), 0);
    assert_false(config.port[0].follow_host);
    assert_int_equal(load(OK "addresses = host\n"), 0);
    assert_true(config.port[0].follow_host);
    assert_int_equal(config.port[0].addresses, 1);
}

static void test_loopback_addresses_of_the_command_line(void **state)
{
    static const char *const wrong[][2] = {{"", "no value"},
                                           {"127.0.0.1,", "no value"},
                                           {"ten", "\"ten\""},
                                           {"127.0.0.1,127.0.0.1", "repeats"}};

    memset(&config, 0, sizeof(config));
    assert_int_equal(config_loopback(&config, "127.0.0.1/8,::1", error, sizeof(error)), 0);
    check_loopback(false);
    for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
        memset(&config, 0, sizeof(config));
        assert_int_equal(config_loopback(&config, wrong[i][0], error, sizeof(error)), -1);
        if (!strstr(error, "--loopback") || !strstr(error, wrong[i][1]))
            fail_msg("%s", error);
    }
}

static void check_udp(unsigned addresses)
{
    const struct uroced_port *p = &config.port[0];

    assert_int_equal(config.ports, 1);
    assert_string_equal(p->device, "socket");
    assert_int_equal(p->addresses, addresses);
    assert_int_equal(p->follow_host, !addresses);
    assert_int_equal(p->gid_types, 1u << GID_TYPE_ROCE_V2);
}

static void test_udp(void **state)
{
    memset(&config, 0, sizeof(config));
    assert_int_equal(config_udp(&config, NULL, error, sizeof(error)), 0);
    check_udp(0);
    memset(&config, 0, sizeof(config));
    assert_int_equal(config_udp(&config, "192.0.2.1,2001:db8::1", error, sizeof(error)), 0);
    check_udp(2);
    memset(&config, 0, sizeof(config));
    assert_int_equal(config_udp(&config, "ten", error, sizeof(error)), -1);
    assert_non_null(strstr(error, "--udp"));
    assert_int_equal(load(SOCKET), 0);
    check_udp(0);
    assert_false(config.port[0].no_segmentation);
    assert_int_equal(load(SOCKET "roce = v1 v2\naddress = 192.0.2.1\nsegmentation = no\n"), 0);
    check_udp(1);
    assert_true(config.port[0].no_segmentation);
}

static void test_samples(void **state)
{
    static const char *const sample[] = {"loopback.ini", "packet.ini", "qos.ini", "udp.ini"};
    char file[512];

    for (unsigned i = 0; i < ARRAY_SIZE(sample); i++) {
        snprintf(file, sizeof(file), "%s/%s", TEST_CONFIGS, sample[i]);
        if (config_load(&config, file, error, sizeof(error)))
            fail_msg("%s", error);
    }
}

static int setup(void **state)
{
    int fd = mkstemp(path);

    close(fd);
    return fd < 0;
}

static int teardown(void **state)
{
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_network_keys),
        cmocka_unit_test(test_port_defaults),
        cmocka_unit_test(test_addresses_of_others),
        cmocka_unit_test(test_qos_keys),
        cmocka_unit_test(test_ets_key),
        cmocka_unit_test(test_entropy_keys),
        cmocka_unit_test(test_trim_keys),
        cmocka_unit_test(test_congestion_keys),
        cmocka_unit_test(test_control_keys),
        cmocka_unit_test(test_quota_keys),
        cmocka_unit_test(test_too_many_routes),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_errors_name_the_place),
        cmocka_unit_test(test_long_values),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_zero_byte),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_loopback_addresses_of_the_command_line),
        cmocka_unit_test(test_udp),
        cmocka_unit_test(test_samples),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
