/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of DPDK's telemetry socket (dpdk-telemetry.py), where the EAL has one: env_config says
 * so. Answers are JSON here, and DPDK's values there.
 */
#ifndef UROCE_ENV_TELEMETRY_H
#define UROCE_ENV_TELEMETRY_H

#include <jansson.h>

struct telemetry_command {
    const char *name; /* "/uroce/..." */
    const char *help;
    /* A new value: an object of numbers, strings and booleans, or a list of strings or of numbers.
     * NULL: the client gets null, as for wrong parameters of DPDK's own commands. parameters: what
     * follows the comma; "": nothing. On a thread of DPDK, one for each client, also while the
     * process ends: it may take its time, but must not use what ends. */
    json_t *(*answer)(const char *parameters);
};

/*
 * Adds commands, which stay valid until the process ends. An answer that has more members, longer
 * texts or more bytes than DPDK can pass on becomes null, and is never cut. 0 or a negative errno.
 */
int env_telemetry_register(const struct telemetry_command *commands, unsigned count);

#endif
