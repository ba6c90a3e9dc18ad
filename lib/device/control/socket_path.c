/* SPDX-License-Identifier: BSD-3-Clause */
/* See socket_path.h. */
#include "socket_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#define BACKLOG 128

static int new_socket(int type)
{
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 ? -errno : fd;
}

/* 0: the path is free. -ECONNREFUSED: a dead daemon's socket. -EACCES: another user's, who alone
 * can tell. */
static int probe(const struct sockaddr_un *addr, int type)
{
    struct stat st;
    int fd, err;

    if (lstat(addr->sun_path, &st))
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    fd = new_socket(type);
    if (fd < 0)
        return fd;
    err = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) ? errno : 0;
    close(fd);
    return err == ECONNREFUSED || err == EACCES ? -err : -EADDRINUSE;
}

/* The descriptor of a locked file. -EADDRINUSE: another daemon has the lock, or had it and has
 * removed the file since it was opened here. */
static int lock_file(const char *name)
{
    struct stat opened, named;
    int fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600), err = 0;

    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB))
        err = errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
    else if (fstat(fd, &opened) || lstat(name, &named) || opened.st_dev != named.st_dev ||
             opened.st_ino != named.st_ino)
        err = -EADDRINUSE;
    if (!err)
        return fd;
    close(fd);
    return err;
}

/* Of two daemons that find the same dead socket, the slower one would remove the name that the
 * other listens at by then. So only one at a time removes a name, and looks again before. */
static int remove_dead(const struct sockaddr_un *addr, int type)
{
    char name[sizeof(addr->sun_path) + sizeof(".lock")];
    int lock, err;

    snprintf(name, sizeof(name), "%s.lock", addr->sun_path);
    lock = lock_file(name);
    if (lock < 0)
        return lock;
    err = probe(addr, type);
    if (err == -ECONNREFUSED)
        err = unlink(addr->sun_path) && errno != ENOENT ? -errno : 0;
    unlink(name);
    close(lock);
    return err;
}

/* 0: the path is free, or was a dead daemon's. */
static int clear_path(const struct sockaddr_un *addr, int type)
{
    int err = probe(addr, type);

    return err == -ECONNREFUSED ? remove_dead(addr, type) : err;
}

/* In the same folder, with the process's number behind. A long name is cut: whether there is room
 * must not depend on the number. */
static int name_temporary(struct sockaddr_un *un, const char *path)
{
    const size_t most = sizeof(un->sun_path) - sizeof(".4194304"); /* the largest number */
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0, len = min_of(strlen(path), most);

    if (len <= folder)
        return -ENAMETOOLONG;
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(un->sun_path, sizeof(un->sun_path), "%.*s.%d", (int)len, path, getpid());
    return 0;
}

/* Another daemon may have taken the path by now: a link, unlike a new name, does not replace its
 * socket. Some file systems have no links. */
static int publish(const char *temporary, const char *path)
{
    if (!link(temporary, path))
        return 0;
    if (errno == EEXIST)
        return -EADDRINUSE;
    return (errno == EPERM || errno == EOPNOTSUPP) && !rename(temporary, path) ? 0 : -errno;
}

/* The socket gets a temporary name first. */
static int bind_socket(struct socket_path *p, int fd, unsigned mode, int64_t group)
{
    struct sockaddr_un temporary;
    int err = name_temporary(&temporary, p->addr.sun_path);

    if (err)
        return err;
    unlink(temporary.sun_path);
    if (bind(fd, (struct sockaddr *)&temporary, sizeof(temporary)))
        return -errno;
    if ((group >= 0 && chown(temporary.sun_path, (uid_t)-1, (gid_t)group)) ||
        chmod(temporary.sun_path, mode) || listen(fd, BACKLOG) ||
        lstat(temporary.sun_path, &p->file))
        err = -errno;
    else
        err = publish(temporary.sun_path, p->addr.sun_path);
    unlink(temporary.sun_path);
    return err;
}

static int listen_at(struct socket_path *p, const char *path, int type, unsigned mode,
                     int64_t group)
{
    int fd, err;

    if ((size_t)snprintf(p->addr.sun_path, sizeof(p->addr.sun_path), "%s", path) >=
        sizeof(p->addr.sun_path))
        return -ENAMETOOLONG;
    err = clear_path(&p->addr, type);
    if (err)
        return err;
    fd = new_socket(type);
    if (fd < 0)
        return fd;
    err = bind_socket(p, fd, mode, group);
    if (!err)
        return fd;
    close(fd);
    return err;
}

int socket_path_listen(struct socket_path *p, const char *path, int type, unsigned mode,
                       int64_t group)
{
    int fd;

    *p = (struct socket_path){.addr.sun_family = AF_UNIX};
    fd = listen_at(p, path, type, mode, group);
    if (fd < 0) /* the path belongs to another daemon or file */
        p->addr.sun_path[0] = '\0';
    return fd;
}

void socket_path_remove(const struct socket_path *p)
{
    struct stat st;

    if (p->addr.sun_path[0] && !lstat(p->addr.sun_path, &st) && st.st_dev == p->file.st_dev &&
        st.st_ino == p->file.st_ino)
        unlink(p->addr.sun_path);
}
