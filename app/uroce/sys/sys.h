/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's face in the file system: /sys/class/infiniband, /sys/class/infiniband_verbs and
 * /dev/infiniband for one program and its children.
 */
#ifndef UROCE_SYS_H
#define UROCE_SYS_H

enum sys_mode { SYS_AUTO, SYS_YES, SYS_NO };

struct sys_options {
    enum sys_mode mode;
    int verbose;
    const char *names; /* of devices, separated by commas; or NULL */
};

/*
 * Gives this process, and the program that it becomes, the files. sock is a connection to the
 * daemon at path; a second process uses it from now on. SYS_AUTO: where a namespace is not
 * permitted, the files are in a folder that SYSFS_PATH names. Sets *keep to a descriptor that the
 * program must inherit, or -1. 0, or -1 after a failure that was reported on stderr.
 */
int sys_begin(const struct sys_options *o, int sock, const char *path, int *keep);

/* Whether the text can be names of devices, for sys_options. */
int sys_names_valid(const char *names);
/* Whether one of these names comes twice. */
int sys_names_repeat(const char *names);
/* Whether one of them is the own name of a device that gets none of them. */
int sys_names_taken(const char *names);

#endif
