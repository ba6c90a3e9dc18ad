/* SPDX-License-Identifier: BSD-3-Clause */
/* See endpoint.h: finds the daemon's control socket and connects to it. */
#include "endpoint.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl_msg.h"
#include "state.h"

/* A daemon answers immediately; the limit is for a stopped daemon or a foreign program. */
#define ANSWER_SECONDS 5
/* What serves is a daemon: it may have very much to show, on a busy machine. */
#define SHOW_SECONDS 60

int endpoint_probe(const char *path)
{
    struct ctl_msg m = {
        .magic = CTL_MAGIC, .version = CTL_VERSION, .type = CTL_QUERY_DEVICE, .seq = 1};
    int fds[CTL_MAX_FDS];
    unsigned nfds = 0;
    int sock = state_connect(path, ANSWER_SECONDS);
    int err;

    if (sock < 0)
        return sock == -EAGAIN ? -ETIMEDOUT : sock;
    err = ctl_request(sock, &m, NULL, 0, fds, &nfds);
    for (unsigned i = 0; err == 0 && i < nfds; i++)
        close(fds[i]);
    if (err == 0)
        err = state_limit(sock, SHOW_SECONDS);
    if (err == 0)
        return sock;
    close(sock);
    if (err == -EAGAIN)
        return -ETIMEDOUT;
    /* The daemon closed the connection before it answered: it is idle and exiting. */
    return err == -ECONNRESET || err == -EPIPE ? -ECONNREFUSED : err;
}

int endpoint_given(const char *option, char path[ENDPOINT_PATH_MAX])
{
    const char *given = option != NULL ? option : getenv(CTL_SOCKET_ENV);
    char here[4096] = "";
    int n;

    if (option != NULL && option[0] == '\0') /* as an unset variable leaves it */
        return -EDESTADDRREQ;
    if (given == NULL || given[0] == '\0')
        return 0;
    if (given[0] != '/' && getcwd(here, sizeof(here)) == NULL)
        return -errno;
    n = snprintf(path, ENDPOINT_PATH_MAX, "%s%s%s", here, here[0] != '\0' ? "/" : "", given);
    return n < ENDPOINT_PATH_MAX ? 1 : -ENAMETOOLONG;
}

/* ---- the user's own folder ---- */

/* A folder must be this user's, and no other user may write there, or another user could serve our
 * programs. */
static int check_mode(const struct stat *st, mode_t forbidden)
{
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & forbidden) ? 0
                                                                                         : -EPERM;
}

/* One that the user has named. */
static int check_named(const char *folder)
{
    struct stat st;

    return stat(folder, &st) != 0 ? -errno : check_mode(&st, 022);
}

/* One of a name that others can know. */
static int check_private(const char *folder)
{
    struct stat st;

    return lstat(folder, &st) != 0 ? -errno : check_mode(&st, 077);
}

/* The first `kept` bytes of folder exist; creates what follows, level by level. */
static int create_folders(char *folder, size_t kept)
{
    for (char *end = folder + kept; *end != '\0';) {
        char rest;

        end += 1 + strcspn(end + 1, "/");
        rest = *end;
        *end = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST)
            return -errno;
        *end = rest;
    }
    return 0;
}

typedef int place_function(char folder[ENDPOINT_PATH_MAX], bool create);

static int in_runtime(char folder[ENDPOINT_PATH_MAX], bool create)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (runtime == NULL || runtime[0] != '/')
        return -ENOENT;
    if (snprintf(folder, ENDPOINT_PATH_MAX, "%s", runtime) >= ENDPOINT_PATH_MAX)
        return -ENAMETOOLONG;
    return check_named(folder);
}

static int in_run_user(char folder[ENDPOINT_PATH_MAX], bool create)
{
    return ctl_run_user_folder(folder);
}

/* Hosts may share a home. */
static int in_home(char folder[ENDPOINT_PATH_MAX], bool create)
{
    const char *home = getenv("HOME");
    char host[65];
    int err;

    if (home == NULL || home[0] != '/' || home[1] == '\0' || gethostname(host, sizeof(host)) != 0)
        return -ENOENT;
    host[sizeof(host) - 1] = '\0';
    if (snprintf(folder, ENDPOINT_PATH_MAX, "%s/.cache/uroce/%s", home, host) >= ENDPOINT_PATH_MAX)
        return -ENAMETOOLONG;
    err = check_named(home);
    if (err == 0 && create)
        err = create_folders(folder, strlen(home));
    return err ? err : check_private(folder);
}

static int in_tmp(char folder[ENDPOINT_PATH_MAX], bool create)
{
    snprintf(folder, ENDPOINT_PATH_MAX, "/tmp/uroce-%u", (unsigned)geteuid());
    if (create && mkdir(folder, 0700) != 0 && errno != EEXIST)
        return -errno;
    return check_private(folder);
}

/* The socket of this name in the first folder that serves; `exists`: and has it. */
static int choose_place(const char *name, char path[ENDPOINT_PATH_MAX], bool exists, bool create)
{
    static place_function *const places[] = {in_runtime, in_run_user, in_home, in_tmp};
    int err = -ENOENT;

    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char folder[ENDPOINT_PATH_MAX];
        struct stat st;

        err = places[i](folder, create);
        if (err == -ENAMETOOLONG)
            continue;
        if (snprintf(path, ENDPOINT_PATH_MAX, "%s/%s", folder, name) >= ENDPOINT_PATH_MAX)
            err = -ENAMETOOLONG;
        else if (err == 0 && exists && (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode)))
            err = -ENOENT;
        if (err == 0)
            return 0;
    }
    return err;
}

static int user_place(const char *name, char path[ENDPOINT_PATH_MAX], bool create)
{
    if (choose_place(name, path, true, false) == 0)
        return 0;
    return choose_place(name, path, false, create);
}

int endpoint_user(char path[ENDPOINT_PATH_MAX], int create)
{
    return user_place(CTL_SOCKET_USER, path, create != 0);
}

/* Network namespaces have addresses of their own, and may share all folders. */
int endpoint_user_udp(char path[ENDPOINT_PATH_MAX])
{
    struct stat network;
    char name[64];

    if (stat("/proc/self/ns/net", &network) != 0)
        return -errno;
    snprintf(name, sizeof(name), "uroce-udp-%ju.sock", (uintmax_t)network.st_ino);
    return user_place(name, path, true);
}

int endpoint_is_absent(int err)
{
    return err == -ENOENT || err == -ECONNREFUSED || err == -ENOTDIR;
}

int endpoint_connect(const char *option, char path[ENDPOINT_PATH_MAX])
{
    int given = endpoint_given(option, path);
    int sock;

    if (given < 0)
        return given;
    if (given)
        return endpoint_probe(path);
    strcpy(path, CTL_SOCKET_SYSTEM);
    sock = endpoint_probe(path);
    if (!endpoint_is_absent(sock) && sock != -EACCES)
        return sock;
    given = endpoint_user(path, 0);
    return given < 0 ? given : endpoint_probe(path);
}

/* The last folder that was looked at is another user's, or open to others. */
static void print_foreign(const char *path)
{
    char folder[ENDPOINT_PATH_MAX];
    const struct passwd *owner;
    struct stat st;

    snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    if (lstat(folder, &st) != 0 || st.st_uid == geteuid()) {
        fprintf(stderr, "uroce: other users can write or read %s, where a daemon's socket would be",
                folder);
    } else {
        owner = getpwuid(st.st_uid);
        fprintf(stderr,
                "uroce: %s belongs to %s (user %u), so a daemon of yours cannot serve there",
                folder, owner != NULL ? owner->pw_name : "another user", (unsigned)st.st_uid);
    }
    fputs("; set XDG_RUNTIME_DIR or HOME to a folder of your own, or use --socket PATH\n", stderr);
}

void endpoint_print_error(const char *path, int err)
{
    switch (err) {
    case -ENOENT:
    case -ENOTDIR:
    case -ECONNREFUSED:
        fprintf(stderr, "uroce: no uroced serves at %s\n", path);
        break;
    case -EPROTONOSUPPORT:
    case -EPROTO:
        fprintf(stderr, "uroce: what serves at %s speaks another version of the protocol\n", path);
        break;
    case -ETIMEDOUT:
        fprintf(stderr, "uroce: what serves at %s does not answer\n", path);
        break;
    case -ENAMETOOLONG:
        fprintf(stderr, "uroce: the socket's path is longer than %d bytes\n",
                ENDPOINT_PATH_MAX - 1);
        break;
    case -EDESTADDRREQ:
        fputs("uroce: --socket has an empty path\n", stderr);
        break;
    case -EPERM:
        print_foreign(path);
        break;
    case -ENOMEM:
        fprintf(stderr, "uroce: uroced at %s has no room for another connection of this user\n",
                path);
        break;
    default:
        fprintf(stderr, "uroce: %s: %s\n", path, strerror(-err));
    }
}
