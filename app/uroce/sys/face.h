/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the daemon says about its devices, as far as the files of sysfs tell it: read over the
 * control connection. Any number of times; the values of each time replace the last ones.
 */
#ifndef UROCE_FACE_H
#define UROCE_FACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "ctl_msg.h"

#define FACE_DEVICES_MAX 16
#define FACE_GIDS_MAX    64 /* entries of a table */

struct face_gid {
    bool used, is_v2;
    uint8_t raw[16];
    char ndev[16]; /* the interface that has the address, or "" */
};

/* A device with its only port. */
struct face_device {
    struct ctl_device info;
    struct ctl_port port;
    bool active;
    struct face_gid gid[FACE_GIDS_MAX];
    const json_t *counters, *drops; /* the port's */
    const json_t *totals;           /* of its queue pairs */
};

struct face {
    unsigned devices;
    struct face_device device[FACE_DEVICES_MAX];
    json_t *root; /* has the counters */
};

/* Asks for the devices, which do not change while a daemon runs. 0 or a negative errno. */
int face_open(struct face *f, int sock);
/* Asks for what changes. 0; or a negative errno: the face is as before, and the connection of no
 * more use. */
int face_update(struct face *f, int sock);
void face_close(struct face *f);

/* Rate of a port as the kernel writes it: "100 Gb/sec (4X EDR)". */
const char *face_rate(uint32_t mbps);

#endif
