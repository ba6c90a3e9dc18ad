/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of uroced. */
#ifndef UROCED_OPTIONS_H
#define UROCED_OPTIONS_H

#include "config.h"

struct options {
    const char *config, *socket, *group, *user, *metrics, *cpus, *poll;
    bool loopback, udp, telemetry;
    const char *addresses; /* of --loopback or --udp, or NULL */
    unsigned workers, idle_exit, mode;
    bool seccomp, no_seccomp; /* neither: as the configuration says */
    int ready_fd;
    int eal_argc;
    char **eal_argv;
};

/* Reads the command line, whose strings *o refers to. --help and --version end the process. 0; or
 * -1 with a line on stderr. */
int options_read(struct options *o, int argc, char **argv);

/* The configuration: that of the file, or a loopback device; then the command line, which overrides
 * it; then the defaults. 0; or -1 with a line on stderr. */
int options_configure(struct uroced_config *c, const struct options *o);

#endif
