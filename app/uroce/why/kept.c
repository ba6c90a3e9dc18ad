/* SPDX-License-Identifier: BSD-3-Clause */
/* What a daemon that has ended for lack of programs has left: see why.h. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ctl_msg.h"
#include "endpoint.h"
#include "why.h"

#define NS_PER_S 1000000000LL

/* No other user may put a file there. */
static bool is_closed_folder(const char *socket)
{
    char folder[ENDPOINT_PATH_MAX];
    struct stat st;

    snprintf(folder, sizeof(folder), "%s", socket);
    folder[strrchr(folder, '/') - folder + 1] = '\0';
    return stat(folder, &st) == 0 && (st.st_uid == 0 || st.st_uid == geteuid()) &&
           !(st.st_mode & 022);
}

/* Another user may have put a file there. A daemon of root's that goes on as another user (--user)
 * leaves one of that user. */
static bool is_trusted(int fd, const char *socket)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           (st.st_uid == geteuid() || is_closed_folder(socket));
}

/* The daemon's clock has stood still since it wrote the file. */
static void go_on(json_t *root)
{
    json_int_t then = why_time(root, "time_s"), now = why_time(root, "now_ns");
    json_int_t since = (json_int_t)time(NULL) - then;

    if (then > 0 && since > 0 && since < INT32_MAX)
        json_object_set_new(root, "now_ns", json_integer(now + since * NS_PER_S));
}

json_t *why_kept(const char *socket)
{
    char name[ENDPOINT_PATH_MAX + sizeof(CTL_INCIDENTS_SUFFIX)];
    json_t *root;
    int fd;

    snprintf(name, sizeof(name), "%s" CTL_INCIDENTS_SUFFIX, socket);
    fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    root = is_trusted(fd, socket) ? json_loadfd(fd, 0, NULL) : NULL;
    close(fd);
    if (root)
        go_on(root);
    return root;
}
