/* SPDX-License-Identifier: BSD-3-Clause */
/* See namespace.h. */
#include "namespace.h"

#include <linux/capability.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cover.h"

#define BELOW_DEV ".uroce"

static int fill_class(void)
{
    static const char *const replaced[] = {"infiniband", "infiniband_verbs", NULL};
    static const char *const none[] = {NULL};
    int err = cover_folder("/sys/class", replaced, NULL);

    if (err == 0 && access("/sys/class/pci_bus", F_OK) == 0)
        err = cover_folder("/sys/class/pci_bus", none, NULL);
    return err;
}

/*
 * The kernel looks for the terminals of a ptmx in the folder that has it, on the same mount: a file
 * mounted elsewhere has none. On some hosts, not every user may open the one among the terminals.
 */
static const char *ptmx_target(void)
{
    struct stat st;

    if (stat("/dev/pts/ptmx", &st) == 0 && (st.st_mode & 0666) == 0666)
        return "pts/ptmx";
    return access("/dev/" BELOW_DEV "/ptmx", F_OK) == 0 ? BELOW_DEV "/ptmx" : NULL;
}

static int fill_dev(void)
{
    static const char *const replaced[] = {"ptmx", NULL};
    int err = cover_folder("/dev", replaced, BELOW_DEV);
    const char *ptmx = ptmx_target();

    if (err == 0 && ptmx != NULL)
        err = cover_link(ptmx, "/dev/ptmx");
    return err ? err : cover_new("/dev/infiniband");
}

int namespace_fill(const char **what)
{
    static const char *const none[] = {NULL};
    int err = cover_make_private();

    *what = "/";
    if (err == 0) {
        *what = "/sys/devices";
        err = cover_folder(*what, none, NULL);
    }
    if (err == 0) {
        *what = "/sys/class";
        err = fill_class();
    }
    if (err == 0 && access("/dev/infiniband", F_OK) == 0) {
        *what = "/dev/infiniband";
        err = cover_empty(*what);
    } else if (err == 0) {
        *what = "/dev";
        err = fill_dev();
    }
    return err;
}

int namespace_needs_user(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return geteuid() != 0 && syscall(SYS_capget, &header, data) == 0 && data[0].permitted == 0 &&
           data[1].permitted == 0;
}
