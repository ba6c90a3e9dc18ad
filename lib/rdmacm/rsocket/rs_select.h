/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UROCE_RS_SELECT_H
#define UROCE_RS_SELECT_H

#include <sys/select.h>

/* rselect; a negative errno. The timeout is not changed. */
int rs_select(int n, fd_set *r, fd_set *w, fd_set *e, const struct timeval *timeout);

#endif
