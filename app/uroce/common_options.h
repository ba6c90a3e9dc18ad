/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the commands that print something of the daemon: --socket PATH, --json, --help. */
#ifndef UROCE_COMMON_OPTIONS_H
#define UROCE_COMMON_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#define COMMON_OPTIONS                                                          \
    {"socket", required_argument, NULL, 's'}, {"json", no_argument, NULL, 'j'}, \
    {                                                                           \
        "help", no_argument, NULL, 'h'                                          \
    }
#define COMMON_LETTERS "jh"

/* Takes what getopt_long has returned, if it is one of them; --help prints the usage and ends the
 * process. False: another option. */
bool common_option(int option, const char **socket, int *as_json, void (*usage)(FILE *out));

/* 0 when getopt_long has left no argument, else -1 with a sentence on stderr. */
int options_end(const char *command, int argc, char **argv);

#endif
