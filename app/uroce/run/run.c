/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce run`: finds or starts a daemon, then executes the program with uroce's libraries. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
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
#include "sys.h"

/* High, because some programs expect particular low descriptors. */
#define KEPT_DESCRIPTOR  200
#define KEPT_DESCRIPTORS 2 /* at most */

struct run_options {
    const char *socket; /* or NULL */
    bool udp;
    struct sys_options sys;
};

static void usage(FILE *out)
{
    fputs(
        "usage: uroce run [--socket PATH | --udp] [--sys=auto|yes|no]\n"
        "                 [--device-name NAME[,NAME...]] [--verbose] [--] PROGRAM [ARG...]\n\n"
        "Runs PROGRAM with uroce's libibverbs.so.1 and librdmacm.so.1 against the uroced that\n"
        "serves at PATH, at $" CTL_SOCKET_ENV ", at " CTL_SOCKET_SYSTEM
        " or at the user's own path\n"
        "(" CTL_SOCKET_USER
        " in $XDG_RUNTIME_DIR, /run/user/UID, ~/.cache/uroce/HOST or /tmp/uroce-UID).\n"
        "When no daemon does, one is started with a loopback device and no network. It serves all\n"
        "of the user's programs and ends some seconds after the last of them.\n"
        "--udp: a daemon of the user's own over the host's UDP sockets, port 4791, with the\n"
        "host's addresses; it is started when none serves in this network namespace. Programs\n"
        "reach other hosts, and it takes no privilege.\n\n"
        "The program finds the devices in /sys/class/infiniband and /dev/infiniband of a mount\n"
        "namespace of its own. --sys=yes: or does not start; --sys=no: it sees those of the host.\n"
        "--device-name: the names of the devices, in place of uroce0, uroce1, ...\n"
        "--verbose: say why the program has no namespace of its own.\n",
        out);
}

/* Sets path to the socket of a running daemon, or to the one where a daemon is to be started.
 * Returns a connected descriptor, 0 or a negative errno. */
static int find_daemon(const struct run_options *o, char path[ENDPOINT_PATH_MAX])
{
    int result = o->udp ? endpoint_user_udp(path) : endpoint_given(o->socket, path);

    if (result != 0 || o->udp)
        return result < 0 ? result : 0;
    strcpy(path, CTL_SOCKET_SYSTEM);
    result = endpoint_probe(path);
    if (result == -EACCES)
        fprintf(stderr, "uroce: no permission for %s; using a loopback device of your own\n", path);
    else if (!endpoint_is_absent(result))
        return result;
    return endpoint_user(path, 1);
}

/* Puts folders before those of a variable; an empty one is as none. */
static int prepend(const char *variable, const char *folders)
{
    const char *old = getenv(variable);
    char *both;
    int err;

    if (old == NULL || old[0] == '\0')
        return setenv(variable, folders, 1);
    if (asprintf(&both, "%s:%s", folders, old) < 0)
        return -1;
    err = setenv(variable, both, 1);
    free(both);
    return err;
}

/* 0, or -1 with errno. */
static int set_environment(const struct sys_options *sys, const char *path,
                           const struct locations *loc)
{
    if (setenv(CTL_SOCKET_ENV, path, 1) != 0 || prepend("LD_LIBRARY_PATH", loc->libraries) != 0)
        return -1;
    if (sys->names != NULL && setenv(DEVICE_NAMES_ENV, sys->names, 1) != 0)
        return -1;
    /* Without PATH, execvp has a default, which a program would lose. */
    return sys->mode == SYS_NO || getenv("PATH") == NULL ? 0 : prepend("PATH", loc->programs);
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
    if (most.rlim_cur < KEPT_DESCRIPTOR + KEPT_DESCRIPTORS)
        from = (int)most.rlim_cur - KEPT_DESCRIPTORS;
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

static int run_program(const struct run_options *o, char **program)
{
    const struct sys_options *sys = &o->sys;
    static struct locations loc;
    char path[ENDPOINT_PATH_MAX] = "";
    int err = locate_installation(&loc);
    int sock, alive;

    if (err != 0) {
        if (loc.daemon[0])
            fprintf(stderr, "uroce: %s, or the libraries in %s: %s\n", loc.daemon, loc.libraries,
                    strerror(-err));
        else
            fprintf(stderr, "uroce: /proc/self/exe, by which uroce finds its other files: %s\n",
                    strerror(-err));
        return 1;
    }
    sock = find_daemon(o, path);
    if (sock == 0)
        sock = start_or_connect(loc.daemon, path, o->udp ? "--udp" : "--loopback");
    if (sock < 0) {
        if (sock != -ECANCELED)
            endpoint_print_error(path, sock);
        return 1;
    }
    if (keep_open(sock) != 0)
        return 1;
    if (set_environment(sys, path, &loc) != 0) {
        perror("uroce: environment");
        return 1;
    }
    if (sys_begin(sys, sock, path, &alive) != 0 || (alive >= 0 && keep_open(alive) != 0))
        return 1;
    return execute(program);
}

/* False: the text is no mode. */
static bool read_mode(const char *text, enum sys_mode *mode)
{
    static const char *const name[] = {[SYS_AUTO] = "auto", [SYS_YES] = "yes", [SYS_NO] = "no"};

    for (unsigned i = 0; i < sizeof(name) / sizeof(name[0]); i++)
        if (strcmp(text, name[i]) == 0) {
            *mode = (enum sys_mode)i;
            return true;
        }
    fprintf(stderr, "uroce: run: --sys is auto, yes or no, not \"%s\"\n", text);
    return false;
}

/* from: the option's or the variable's name. */
static bool read_names(const char *text, const char *from, const char **names)
{
    *names = text;
    if (!sys_names_valid(text))
        fprintf(stderr,
                "uroce: run: %s: \"%s\": a device's name has letters, digits, '_', '-' and '.', "
                "less than %d of them\n",
                from, text, CTL_NAME_MAX);
    else if (sys_names_repeat(text))
        fprintf(stderr, "uroce: run: %s: \"%s\": two devices have one name\n", from, text);
    else if (sys_names_taken(text))
        fprintf(stderr, "uroce: run: %s: \"%s\": one is the name of a device that gets none\n",
                from, text);
    else
        return true;
    return false;
}

int cmd_run(int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'},
        {"udp", no_argument, NULL, 'u'},
        {"sys", required_argument, NULL, 'y'},
        {"device-name", required_argument, NULL, 'n'},
        {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *names = getenv(DEVICE_NAMES_ENV);
    struct run_options o = {.sys.mode = SYS_AUTO};
    bool valid = true;
    int option;

    /* "+": options after the program's name belong to the program. */
    while (valid && (option = getopt_long(argc, argv, "+hv", options, NULL)) != -1) {
        switch (option) {
        case 's':
            o.socket = optarg;
            break;
        case 'u':
            o.udp = true;
            break;
        case 'y':
            valid = read_mode(optarg, &o.sys.mode);
            break;
        case 'n':
            valid = read_names(optarg, "--device-name", &o.sys.names);
            break;
        case 'v':
            o.sys.verbose = 1;
            break;
        case 'h':
            usage(stdout);
            return 0;
        default:
            valid = false;
        }
    }
    /* The library's names are those of the files, too. */
    if (valid && o.sys.names == NULL && names != NULL && names[0] != '\0')
        valid = read_names(names, DEVICE_NAMES_ENV, &o.sys.names);
    if (o.udp && o.socket != NULL) {
        fputs("uroce: run: --socket names a daemon, --udp another one\n", stderr);
        valid = false;
    }
    if (!valid) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (optind == argc) {
        fputs("uroce: run: no program given\n", stderr);
        usage(stderr);
        return EXIT_USAGE;
    }
    if (argv[optind][0] == '\0') { /* as an unset variable leaves it; no daemon is started */
        fputs("uroce: run: the program's name is empty\n", stderr);
        return EXIT_USAGE;
    }
    return run_program(&o, argv + optind);
}
