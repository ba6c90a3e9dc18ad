/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's counters by DPDK's telemetry socket. Each answer asks the daemon's own control
 * socket, as `uroce show` does: the control thread answers between other requests, workers are not
 * stopped, and a daemon that ends is no danger.
 */
#ifndef UROCED_TELEMETRY_H
#define UROCED_TELEMETRY_H

/* Registers the commands, once, where the environment is DPDK's; socket: the path of the control
 * socket, valid as long as the process. 0; or a negative errno with the reason on stderr. */
int telemetry_open(const char *socket);

#endif
