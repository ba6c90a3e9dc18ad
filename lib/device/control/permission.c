/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel requires CAP_NET_RAW for raw packets; so does the daemon, of processes that are
 * neither root's nor of the user that runs the daemon.
 */
#include "control/permission.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/session_state.h"
#include "trust.h"

/* Reads a small file of a process as a whole; false: the process has ended, or the file is not
 * accessible. */
static bool read_text(int process, const char *name, char *text, size_t room)
{
    int fd = openat(process, name, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = fd < 0 ? -1 : 1;

    while (n > 0 && len < room - 1) {
        n = read(fd, text + len, room - 1 - len);
        if (n > 0)
            len += (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    text[len] = '\0';
    return n >= 0;
}

/*
 * A process may gain rights by executing a program that has them (set-uid, file capabilities),
 * while another process of the same user holds the connection. These are rights of the program, not
 * of the user: the kernel lets the user neither trace nor dump the process, and its files in /proc
 * are root's.
 */
static bool is_its_users(int process, uid_t uid)
{
    struct stat file;

    return !fstatat(process, "status", &file, 0) && file.st_uid == uid;
}

/* Checked before and after, as the process may execute another program in between. */
static bool read_status(int process, uid_t uid, char *status, size_t room)
{
    return is_its_users(process, uid) && read_text(process, "status", status, room) &&
           is_its_users(process, uid);
}

/*
 * A process may have every capability in a user namespace of its own, without any right outside; so
 * capabilities count in the daemon's namespace only.
 */
static bool same_user_namespace(int process)
{
    struct stat theirs, ours;

    return !fstatat(process, "ns/user", &theirs, 0) && !stat("/proc/self/ns/user", &ours) &&
           theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

bool permission_of_status(const char *status)
{
    static const char field[] = "\nCapEff:";
    const char *at = strstr(status, field);

    return at && strtoull(at + sizeof(field) - 1, NULL, 16) >> CAP_NET_RAW & 1;
}

bool permission_raw(const struct session *sn)
{
    char path[32], status[4096];
    bool allowed;
    int process;

    if (trust_user(sn->peer.uid))
        return true;
    if (sn->peer.pid <= 0)
        return false;
    snprintf(path, sizeof(path), "/proc/%d", sn->peer.pid);
    process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process < 0)
        return false;
    allowed = same_user_namespace(process) &&
              read_status(process, sn->peer.uid, status, sizeof(status)) &&
              permission_of_status(status);
    close(process);
    /* After the process ended, another one may have its number. */
    return allowed && !sn->process_ended;
}
