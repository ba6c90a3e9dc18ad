/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that fail, each for one reason: why_cases NAME does what the case says, prints
 * "wr_id STATUS VENDOR_ERR" of the first completion with an error, or "none", and ends without
 * tidying up. Run by run_why.py, which asks `uroce why` afterwards.
 */
#include <stdio.h>
#include <string.h>

#include "why_kit.h"

static bool run(const struct why_case *cases, const char *name)
{
    for (; cases->name; cases++)
        if (strcmp(cases->name, name) == 0) {
            cases->run();
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    a = b = (struct end){.mr_access = ALL, .qp_access = ALL, .mtu = IBV_MTU_1024, .depth = 4};
    if (argc == 3 &&
        (run(why_keys, argv[1]) || run(why_peers, argv[1]) || run(why_attributes, argv[1]))) {
        if (strcmp(argv[2], "wait") == 0)
            report();
        return 0;
    }
    fprintf(stderr, "usage: why_cases NAME wait|leave\n");
    return 2;
}
