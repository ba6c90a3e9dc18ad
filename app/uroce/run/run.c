/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce run`: finds or starts a daemon, then executes the program with uroce's libraries. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "command.h"
#include "ctl_msg.h"
#include "endpoint.h"
#include "installation.h"
#include "start_daemon.h"

/* High, because some programs expect particular low descriptors. */
#define KEPT_DESCRIPTOR 200

static void usage(FILE *out)
{
    fputs(
        "usage: uroce run [--socket PATH] [--] PROGRAM [ARG...]\n\n"
        "Runs PROGRAM with uroce's libibverbs.so.1 and librdmacm.so.1 against the uroced that\n"
        "serves at PATH, at $" CTL_SOCKET_ENV ", at " CTL_SOCKET_SYSTEM
        " or at the user's own path\n"
        "(" CTL_SOCKET_USER
        " in $XDG_RUNTIME_DIR, /run/user/UID, ~/.cache/uroce/HOST or /tmp/uroce-UID).\n"
        "When no daemon does, one is started with a loopback device and no network. It serves all\n"
        "of the user's programs and ends some seconds after the last of them.\n",
        out);
}

/* Sets path to the socket of a running daemon, or to the one where a daemon is to be started.
 * Returns a connected descriptor, 0 or a negative errno. */
static int find_daemon(const char *option, char path[ENDPOINT_PATH_MAX])
{
    int result = endpoint_given(option, path);

    if (result != 0)
        return result < 0 ? result : 0;
    strcpy(path, CTL_SOCKET_SYSTEM);
    result = endpoint_probe(path);
    if (result == -EACCES)
        fprintf(stderr, "uroce: no permission for %s; using a loopback device of your own\n", path);
    else if (!endpoint_is_absent(result))
        return result;
    return endpoint_user(path, 1);
}

static int prepend_libraries(const char *folders)
{
    const char *old = getenv("LD_LIBRARY_PATH");
    char *both;
    int err;

    if (old == NULL || old[0] == '\0')
        return setenv("LD_LIBRARY_PATH", folders, 1);
    if (asprintf(&both, "%s:%s", folders, old) < 0)
        return -1;
    err = setenv("LD_LIBRARY_PATH", both, 1);
    free(both);
    return err;
}

/*
 * The program inherits this connection and never uses it. While it is open, the daemon knows that
 * the program is running, even before the program opens a device.
 */
static int keep_open(int sock)
{
    struct rlimit most = {.rlim_cur = RLIM_INFINITY};
    int from = KEPT_DESCRIPTOR;

    getrlimit(RLIMIT_NOFILE, &most);
    if (most.rlim_cur <= KEPT_DESCRIPTOR)
        from = (int)most.rlim_cur - 1;
    if (fcntl(sock, F_DUPFD, from) >= 0)
        return 0;
    fprintf(stderr, "uroce: descriptor %d of %ju for the connection to the daemon: %s\n", from,
            (uintmax_t)most.rlim_cur, strerror(errno));
    return -1;
}

/* Returns only if the program does not start. */
static int execute(char **argv)
{
    int err;

    execvp(argv[0], argv);
    err = errno;
    fprintf(stderr, "uroce: %s: %s\n", argv[0], strerror(err));
    return err == ENOENT ? 127 : 126;
}

static int run_program(const char *socket_option, char **program)
{
    static struct locations loc;
    char path[ENDPOINT_PATH_MAX] = "";
    int err = locate_installation(&loc);
    int sock;

    if (err != 0) {
        fprintf(stderr, "uroce: %s, or the libraries in %s: %s\n", loc.daemon, loc.libraries,
                strerror(-err));
        return 1;
    }
    sock = find_daemon(socket_option, path);
    if (sock == 0)
        sock = start_or_connect(loc.daemon, path);
    if (sock < 0) {
        if (sock != -ECANCELED)
            endpoint_print_error(path, sock);
        return 1;
    }
    if (keep_open(sock) != 0)
        return 1;
    if (setenv(CTL_SOCKET_ENV, path, 1) != 0 || prepend_libraries(loc.libraries) != 0) {
        perror("uroce: environment");
        return 1;
    }
    return execute(program);
}

int cmd_run(int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *socket_option = NULL;
    int option;

    /* "+": options after the program's name belong to the program. */
    while ((option = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
        switch (option) {
        case 's':
            socket_option = optarg;
            break;
        case 'h':
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return EXIT_USAGE;
        }
    }
    if (optind == argc) {
        fputs("uroce: no program given\n", stderr);
        usage(stderr);
        return EXIT_USAGE;
    }
    return run_program(socket_option, argv + optind);
}
