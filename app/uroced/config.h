/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced's configuration file: INI, read with DPDK's rte_cfgfile (no EAL needed). */
#ifndef UROCED_CONFIG_H
#define UROCED_CONFIG_H

#include <string.h>
#include <sys/types.h>

#include "device.h"

#define CONFIG_PORTS_MAX        16
#define CONFIG_CAPTURE_FRAMES   1000000 /* unless the file says otherwise */
#define CONFIG_REPATH_MAX       7       /* as retry_cnt */
#define CONFIG_MAX_RATE         1000000 /* Mb/s */
#define CONFIG_CNP_INTERVAL_MAX 1000000
#define CONFIG_MBPS_MAX         1000000
#define CONFIG_NEIGHBOURS_MAX   256
#define CONFIG_WEIGHTS_MAX      64
#define CONFIG_FAULTS_MAX       16
#define CONFIG_QUOTA_MAX        (UINT64_C(1) << 50)
#define CONFIG_DEVICE_LOOPBACK  "loopback"
#define CONFIG_DEVICE_SOCKET    "socket"
#define CONFIG_DEVICE_PACKET    "packet,iface="     /* and the name of a kernel interface */
#define CONFIG_ADDRESSES_MAX    (GID_TABLE_MAX / 2) /* each with both RoCE versions */

struct uroced_port {
    unsigned number;       /* N of [port.N] */
    char device[256];      /* "loopback", "socket", "packet,iface=NAME", or as DPDK names it */
    uint32_t mtu;          /* 0: the port's own */
    unsigned queues;       /* at most; 0: as many as there are workers */
    bool spread;           /* by software, over the queues that the port lacks */
    bool no_segmentation;  /* of a port over sockets of the kernel: it gets one packet at a time */
    bool has_segmentation; /* the file says yes or no */
    bool icrc_always;      /* also for packets that never leave this process */
    /* fe80:: without an interface identifier stands for the link-local address made from the MAC.
     */
    struct port_address address[CONFIG_ADDRESSES_MAX];
    unsigned addresses;
    bool follow_kernel; /* also the addresses of the kernel interface below the port */
    bool follow_host;   /* also those of all interfaces of the host */
    struct port_neighbour neighbour[CONFIG_NEIGHBOURS_MAX];
    unsigned neighbours;
    struct net_route route[NET_ROUTE_MAX];
    unsigned routes;
    bool detect_duplicates;
    unsigned gid_types; /* bits 1 << enum gid_type */
    bool tap;           /* frames other than RoCE go to a TAP interface */
    char tap_name[16];  /* "": the kernel chooses */
    struct qos_map qos;
    struct qos_classes classes;
    struct entropy_policy entropy;
    unsigned repath;    /* 0: never */
    unsigned trim_dscp; /* 0: none */
    bool selective;
    struct congestion_config congestion;
    enum pktio_pause flow_control;
    uint64_t max_rate;                              /* bits per second; 0: none */
    uint64_t dscp_set;                              /* code points that have a key */
    char capture[256];                              /* file to write its frames to, or "" */
    unsigned capture_frames;                        /* the most frames in it */
    char fault[CONFIG_FAULTS_MAX][INJECT_TEXT_MAX]; /* rules for it */
    unsigned faults;
};

static inline bool port_is_socket(const struct uroced_port *p)
{
    return !strcmp(p->device, CONFIG_DEVICE_SOCKET);
}

/* Over packet sockets, without DPDK. */
static inline bool port_is_packet(const struct uroced_port *p)
{
    return !strncmp(p->device, CONFIG_DEVICE_PACKET, strlen(CONFIG_DEVICE_PACKET));
}

static inline bool port_is_loopback(const struct uroced_port *p)
{
    return !strcmp(p->device, CONFIG_DEVICE_LOOPBACK);
}

struct uroced_config {
    char socket[108];      /* "": the default path */
    unsigned mode;         /* of the socket; 0: depends on the user who runs the daemon */
    char group[64];        /* of the socket: a name or number; "": that depends, too */
    int64_t group_id;      /* set by socket_permissions(); -1: the daemon's */
    unsigned workers;      /* 0: one, or one for each of cpus */
    char cpus[128];        /* a list (cpu_list.h), one for each worker; "": any */
    int cpu[WORKERS_MAX];  /* set by options_configure() from the list */
    bool always_poll;      /* workers never yield their CPUs and never sleep */
    unsigned idle_exit;    /* seconds; 0: never */
    bool pass_userfaultfd; /* to programs that ask for it */
    bool latency;          /* work requests are timed always */
    char metrics[128];     /* where metrics are served (metrics_address.h); "": nowhere */
    bool telemetry;        /* DPDK's socket exists */
    char user[64];         /* to run as when the ports are open; "": no change */
    uid_t user_id;         /* set by privileges_user() from the name */
    gid_t user_group;
    bool no_seccomp, keep_capabilities;
    struct quota_limits quota;
    struct user_weight weight[CONFIG_WEIGHTS_MAX];
    unsigned weights;
    struct uroced_port port[CONFIG_PORTS_MAX]; /* in the order of their numbers */
    unsigned ports;
};

/*
 * A single loopback port; addresses: those that it has, separated by commas; NULL: all of the host.
 * Returns 0, or -1 with one line in error.
 */
int config_loopback(struct uroced_config *c, const char *addresses, char *error, size_t size);

/*
 * A single port over UDP sockets; addresses: as above, without a prefix. Returns as above.
 */
int config_udp(struct uroced_config *c, const char *addresses, char *error, size_t size);

/* Fills in the addresses that depend on the port's MAC. */
void config_complete_addresses(struct uroced_port *p, const uint8_t mac[6]);

/*
 * Reads file into *c, which is cleared first. Returns 0, or -1 with one line in error that names
 * the file, and the section and key where there is one.
 */
int config_load(struct uroced_config *c, const char *file, char *error, size_t size);

#endif
