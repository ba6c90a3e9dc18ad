/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libmicrohttpd's functions. The library, and the dozen that it needs, are loaded when metrics are
 * served, and are not in the process of any other daemon.
 */
#ifndef UROCED_METRICS_MHD_H
#define UROCED_METRICS_MHD_H

#include <microhttpd.h>

#define METRICS_MHD(X)             \
    X(add_response_header)         \
    X(create_response_from_buffer) \
    X(destroy_response)            \
    X(get_connection_info)         \
    X(get_daemon_info)             \
    X(get_timeout)                 \
    X(lookup_connection_value)     \
    X(queue_response)              \
    X(resume_connection)           \
    X(run)                         \
    X(start_daemon)                \
    X(stop_daemon)                 \
    X(suspend_connection)

struct metrics_mhd {
#define X(name) __typeof__(&MHD_##name) name;
    METRICS_MHD(X)
#undef X
};

/* Loads the library. NULL with the reason in *error, a string that stays. */
const struct metrics_mhd *metrics_mhd_load(const char **error);

#endif
