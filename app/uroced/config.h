/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced's configuration file: INI, read with DPDK's rte_cfgfile (no EAL needed). */
#ifndef UROCED_CONFIG_H
#define UROCED_CONFIG_H

#include "device.h"
#include "neighbour.h"

#define CONFIG_PORTS_MAX       16
#define CONFIG_CAPTURE_FRAMES  1000000 /* unless the file says otherwise */
#define CONFIG_DEVICE_LOOPBACK "loopback"

struct uroced_port {
    unsigned number;  /* N of [port.N] */
    char device[256]; /* "loopback", or a device as DPDK names it */
    uint32_t mtu;     /* 0: as the port has it */
    struct port_address address[GID_TABLE_MAX];
    unsigned addresses;
    struct port_neighbour neighbour[NEIGHBOUR_MAX];
    unsigned neighbours;
    char capture[256];       /* file to write its frames to, or "" */
    unsigned capture_frames; /* at most so many */
};

struct uroced_config {
    char socket[108];                          /* "": the default path */
    unsigned mode;                             /* of the socket; 0: by who runs the daemon */
    unsigned workers;                          /* 0: one */
    unsigned idle_exit;                        /* seconds; 0: never */
    struct uroced_port port[CONFIG_PORTS_MAX]; /* in the order of their numbers */
    unsigned ports;
};

/* A single loopback port with 127.0.0.1 and ::1. */
void config_loopback(struct uroced_config *c);

/*
 * Reads file into *c (zeroed before). Returns 0, or -1 with one line in error that names the file,
 * and the section and key where there is one.
 */
int config_load(struct uroced_config *c, const char *file, char *error, size_t size);

#endif
