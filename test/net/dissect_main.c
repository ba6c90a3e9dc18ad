/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce dissect` as a program of its own, so that its test needs nothing else of uroce. */
#include "dissect.h"

int main(int argc, char **argv)
{
    return uroce_dissect(argc, argv);
}
