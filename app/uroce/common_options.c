/* SPDX-License-Identifier: BSD-3-Clause */
/* See common_options.h. */
#include "common_options.h"

#include <stdlib.h>

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
        exit(EXIT_SUCCESS);
    default:
        return false;
    }
}
