/* SPDX-License-Identifier: BSD-3-Clause */
/* See common_options.h. */
#include "common_options.h"

#include <stdlib.h>

#include "output.h"

bool common_option(int option, const char **socket, int *as_json, void (*usage)(FILE *out))
{
    switch (option) {
    case 's':
        *socket = optarg;
        return true;
    case 'j':
        *as_json = 1;
        return true;
    case 'h':
        usage(stdout);
        exit(output_end("uroce", 0));
    default:
        return false;
    }
}

int options_end(const char *command, int argc, char **argv)
{
    if (optind >= argc)
        return 0;
    fprintf(stderr, "uroce: %s: unexpected argument \"%s\"\n", command, argv[optind]);
    return -1;
}
