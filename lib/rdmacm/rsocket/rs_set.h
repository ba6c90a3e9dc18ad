/* SPDX-License-Identifier: BSD-3-Clause */
/* repoll_create, repoll_ctl and repoll_wait; a negative errno. Any thread. */
#ifndef UROCE_RS_SET_H
#define UROCE_RS_SET_H

#include <stdbool.h>
#include <sys/epoll.h>

/* flags: EPOLL_CLOEXEC, or 0. The set's descriptor. */
int rs_set_create(int flags);
int rs_set_ctl(int set, int op, int fd, const struct epoll_event *event);
int rs_set_wait(int set, struct epoll_event *events, int max, int timeout_ms);

/* False: fd is no set. */
bool rs_set_close(int fd);

#endif
