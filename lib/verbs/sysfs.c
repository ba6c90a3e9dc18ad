/* SPDX-License-Identifier: BSD-3-Clause */
/* The API's helpers for sysfs files. The kernel has none for this library's devices; `uroce run`
 * makes them in /sys, or in a folder that $SYSFS_PATH names. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "shim.h"

EXPORT const char *ibv_get_sysfs_path(void)
{
    const char *path = getenv("SYSFS_PATH");

    return path && *path ? path : "/sys";
}

/* Reads dir/file without its last newline. Returns the length, or -1 (errno). */
EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
    char *path;
    ssize_t n = -1;
    int fd;

    if (!size || asprintf(&path, "%s/%s", dir, file) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    if (fd < 0)
        return -1;
    n = read(fd, buf, size);
    close(fd);
    if (n <= 0)
        return -1;
    if (buf[n - 1] == '\n')
        buf[--n] = '\0';
    else if ((size_t)n < size)
        buf[n] = '\0';
    else
        return -1;
    return (int)n;
}
