/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics_http.h of a build without libmicrohttpd. */
#include "metrics_http.h"

#include <stddef.h>
#include <unistd.h>

struct metrics_http *metrics_http_open(struct event_loop *loop, struct rnic *r, int listener,
                                       const char **error)
{
    close(listener);
    *error = "this uroced was built without libmicrohttpd (meson setup -Dmetrics=enabled)";
    return NULL;
}

void metrics_http_close(struct metrics_http *h)
{
}
