/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread: listens on the unix socket, serves every connection, and ends on a signal. */
#ifndef UROCE_SERVER_H
#define UROCE_SERVER_H

#include "device.h"

struct server;

struct server_config {
    struct event_loop *loop; /* the rnic's */
    struct rnic *rnic;
    const char *path;   /* of the socket */
    unsigned mode;      /* its permissions */
    int64_t group;      /* its group; -1: the process's own */
    unsigned idle_exit; /* seconds without an application after which the server ends; 0: never */
    int stop_fd;        /* readable when the server is to end (a signalfd) */
    int listen_fd;      /* a socket that listens already, the server's to close; 0: there is none */
};

/*
 * Binds the socket, unless it listens already, and then path, mode and group are its maker's; a
 * file that a dead daemon left there is removed. NULL and *err: -EADDRINUSE (a daemon answers
 * there), -EEXIST (something that is not a socket is there), -ENAMETOOLONG, -EPERM (the process may
 * not give files to that group), or another negative errno.
 */
struct server *server_open(const struct server_config *config, int *err);

/* Serves until stop_fd is readable, or there was no connection for idle_exit seconds. */
void server_run(struct server *s);

/* Closes all connections, destroys their objects, removes the socket. */
void server_close(struct server *s);

#endif
