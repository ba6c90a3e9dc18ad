/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of sysfs that describe a face, in the formats of the Linux kernel. */
#ifndef UROCE_SYS_TREE_H
#define UROCE_SYS_TREE_H

#include <limits.h>

#include "face.h"

/* A file whose value changes. It stays open, and keeps its inode. */
struct sys_file {
    int fd;
    bool is_leased; /* watch.c */
    unsigned length;
    char text[32];
    uint64_t value; /* of a counter */
};

struct sys_port {
    char path[PATH_MAX];
    struct sys_file *file; /* in the order of tree.c */
    struct face_gid gid[FACE_GIDS_MAX];
};

struct sys_tree {
    const char *root;       /* where class and devices are */
    const char *dev;        /* where the device files are to be, or NULL */
    const char *names;      /* of devices, separated by commas, in place of the daemon's; or NULL */
    const char *unreadable; /* a file of the kernel; or NULL */
    int err;                /* the first that making a file met, or 0 */
    unsigned domain;        /* of PCI; no other device of the host is in it */
    struct sys_port port[FACE_DEVICES_MAX];
    unsigned ports;
    unsigned files; /* of each port */
    bool is_new;    /* the daemon is another one than at the last update: counters may fall */
};

/* Makes all files; root/class and root/devices are there. 0 or a negative errno. */
int sys_tree_make(struct sys_tree *t, const struct face *f);
/* Writes what has changed. */
void sys_tree_update(struct sys_tree *t, const struct face *f);

#endif
