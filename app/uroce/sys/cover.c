/* SPDX-License-Identifier: BSD-3-Clause */
/* See cover.h. */
#include "cover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define BELOW      ".below"
#define COVERS_MAX 8

/* ---- namespaces ---- */

static int write_map(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    int err = n < 0 ? -errno : 0;

    if (fd >= 0)
        close(fd);
    return err;
}

int cover_user_namespace(void)
{
    unsigned uid = geteuid(), gid = getegid();
    char map[64];
    int err;

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return -errno;
    err = write_map("/proc/self/setgroups", "deny");
    if (err != 0 && err != -ENOENT)
        return err;
    snprintf(map, sizeof(map), "%u %u 1", uid, uid);
    err = write_map("/proc/self/uid_map", map);
    snprintf(map, sizeof(map), "%u %u 1", gid, gid);
    return err ? err : write_map("/proc/self/gid_map", map);
}

int cover_make_private(void)
{
    /* Slaves: what the host mounts later is seen here, too. */
    return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0 ? -errno : 0;
}

static int setting(const char *name)
{
    char text[16] = "";
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    return n > 0 ? atoi(text) : -1;
}

const char *cover_reason(int err)
{
    if (setting("/proc/sys/kernel/unprivileged_userns_clone") == 0)
        return "the kernel's setting kernel.unprivileged_userns_clone is 0";
    if (setting("/proc/sys/user/max_user_namespaces") == 0)
        return "the kernel's setting user.max_user_namespaces is 0";
    if (setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
        return "AppArmor restricts user namespaces "
               "(kernel.apparmor_restrict_unprivileged_userns is 1)";
    if (err == -ENOSPC || err == -EUSERS)
        return "there are too many namespaces (user.max_user_namespaces, "
               "user.max_mnt_namespaces)";
    if (err == -EPERM || err == -EACCES)
        return "a mount namespace, or a mount in it, is not permitted here (seccomp or security "
               "profile of a container, or a root folder changed by chroot)";
    return strerror(-err);
}

/* ---- mounts ---- */

/* The folders that are covered, in their order. */
static const char *covered[COVERS_MAX];
static unsigned covers;

int cover_empty(const char *folder)
{
    if (covers == COVERS_MAX)
        return -ENOSPC;
    if (mount("uroce", folder, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755") != 0)
        return -errno;
    covered[covers++] = folder;
    return 0;
}

static void uncover_last(void)
{
    umount2(covered[--covers], MNT_DETACH);
}

void cover_undo(void)
{
    while (covers > 0)
        uncover_last();
}

int cover_new(const char *folder)
{
    return mkdir(folder, 0755) != 0 ? -errno : 0;
}

int cover_link(const char *target, const char *name)
{
    return symlink(target, name) != 0 ? -errno : 0;
}

int cover_file(const char *file, const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);

    if (fd < 0)
        return -errno;
    close(fd);
    return mount(file, name, NULL, MS_BIND, NULL) != 0 ? -errno : 0;
}

static int copy_link(const char *from, const char *to)
{
    char target[PATH_MAX];
    ssize_t n = readlink(from, target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return cover_link(target, to);
}

static int copy_entry(const char *from, const char *to)
{
    struct stat st;

    if (lstat(from, &st) != 0)
        return errno == ENOENT ? 0 : -errno; /* removed since it was listed */
    if (S_ISLNK(st.st_mode))
        return copy_link(from, to);
    if (!S_ISDIR(st.st_mode))
        return cover_file(from, to);
    if (mkdir(to, 0755) != 0)
        return -errno;
    return mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0 ? -errno : 0;
}

static bool is_among(const char *name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

static int copy_entries(const char *below, const char *folder, const char *const *without)
{
    DIR *dir = opendir(below);
    const struct dirent *e;
    int err = dir == NULL ? -errno : 0;

    while (err == 0 && (e = readdir(dir)) != NULL) {
        char from[PATH_MAX], to[PATH_MAX];

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            is_among(e->d_name, without))
            continue;
        if (snprintf(from, sizeof(from), "%s/%s", below, e->d_name) >= (int)sizeof(from) ||
            snprintf(to, sizeof(to), "%s/%s", folder, e->d_name) >= (int)sizeof(to))
            err = -ENAMETOOLONG;
        else
            err = copy_entry(from, to);
    }
    if (dir != NULL)
        closedir(dir);
    return err;
}

/* The copy is made first: below the cover, the folder has no path. */
static int fill_cover(int copy, const char *folder, const char *const *without, const char *below)
{
    if (mkdir(below, 0755) != 0 ||
        move_mount(copy, "", AT_FDCWD, below, MOVE_MOUNT_F_EMPTY_PATH) != 0)
        return -errno;
    return copy_entries(below, folder, without);
}

int cover_folder(const char *folder, const char *const *without, const char *below)
{
    int copy = open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    char path[PATH_MAX];
    int err;

    if (copy < 0)
        return -errno;
    snprintf(path, sizeof(path), "%s/%s", folder, below != NULL ? below : BELOW);
    err = cover_empty(folder);
    if (err == 0) {
        err = fill_cover(copy, folder, without, path);
        if (err == 0 && below == NULL && (umount2(path, MNT_DETACH) != 0 || rmdir(path) != 0))
            err = -errno;
        if (err != 0) /* a part of the entries is worse than no cover */
            uncover_last();
    }
    close(copy);
    return err;
}
