/* SPDX-License-Identifier: BSD-3-Clause */
/* See last_incidents.h. */
#include "last_incidents.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl_msg.h"
#include "device.h"
#include "session.h"

static bool write_all(int fd, const char *text)
{
    size_t left = strlen(text);

    while (left) {
        ssize_t n = write(fd, text, left);

        if (n <= 0)
            return false;
        text += n;
        left -= (size_t)n;
    }
    return true;
}

/* The new file takes the place of the old one as a whole. Others may write to the folder: the file
 * is no one that was there before. */
static void replace(const char *name, const char *fresh, const char *text)
{
    int fd;
    bool good;

    unlink(fresh);
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    good = write_all(fd, text);
    if (close(fd) || !good || rename(fresh, name))
        unlink(fresh);
}

void last_incidents_keep(struct rnic *r, const char *socket)
{
    char name[256], fresh[256];
    char *text = rnic_incidents(r, geteuid());

    if (text &&
        snprintf(name, sizeof(name), "%s" CTL_INCIDENTS_SUFFIX, socket) < (int)sizeof(name) &&
        snprintf(fresh, sizeof(fresh), "%s.new", name) < (int)sizeof(fresh))
        replace(name, fresh, text);
    free(text);
}
