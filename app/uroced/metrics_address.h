/* SPDX-License-Identifier: BSD-3-Clause */
/* Where metrics are served: "ADDRESS:PORT", "[ADDRESS]:PORT" or "unix:PATH". */
#ifndef UROCED_METRICS_ADDRESS_H
#define UROCED_METRICS_ADDRESS_H

#include <sys/socket.h>

#include "socket_path.h"

/* The longest path, which leaves room for a temporary name. */
#define METRICS_PATH_MAX 95

struct metrics_address {
    struct sockaddr_storage sa;
    socklen_t length;
    struct socket_path path; /* of a unix socket: what metrics_socket_open() has made */
};

/* Addresses are numbers. 0 or -EINVAL. */
int metrics_address_parse(struct metrics_address *a, const char *text);

#endif
