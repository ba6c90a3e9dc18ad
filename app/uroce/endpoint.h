/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding the daemon's control socket, in the order of ctl_msg.h: the path that was given (by
 * option or in UROCE_SOCKET) and no other; else the system's; else the user's.
 */
#ifndef UROCE_ENDPOINT_H
#define UROCE_ENDPOINT_H

#define ENDPOINT_PATH_MAX 108 /* sun_path */

/* Connects to the daemon at path and exchanges one message, which proves that the peer is a live
 * daemon of this protocol version. Returns a close-on-exec descriptor; -ENOENT or -ECONNREFUSED: no
 * daemon serves there; -EPROTONOSUPPORT: it has another version; -ETIMEDOUT: it does not answer; or
 * another negative errno. */
int endpoint_probe(const char *path);

/* The path that the option (may be NULL) or the environment names, made absolute. 1: path is
 * filled; 0: neither names one; -EDESTADDRREQ: the option is empty; -ENAMETOOLONG or another
 * negative errno. */
int endpoint_given(const char *option, char path[ENDPOINT_PATH_MAX]);

/* The user's own path, in the first of these folders that is this user's alone: $XDG_RUNTIME_DIR,
 * /run/user/UID, $HOME/.cache/uroce/HOST and /tmp/uroce-UID; one with a socket is preferred. The
 * last two are created (mode 0700) if `create` is set. 0; -EPERM: the last folder is another user's
 * or open to others, and none before serves; or another negative errno. */
int endpoint_user(char path[ENDPOINT_PATH_MAX], int create);

/* The path, in the same folders, of the user's daemon over UDP sockets of this network namespace.
 * The folders are created. Returns as endpoint_user(), or why there is no /proc/self/ns/net. */
int endpoint_user_udp(char path[ENDPOINT_PATH_MAX]);

/* Connects to the daemon that a verbs program would find if it started now; path receives its
 * socket. Returns as endpoint_probe(). */
int endpoint_connect(const char *option, char path[ENDPOINT_PATH_MAX]);

/* Whether err, from endpoint_probe(), means that no daemon serves at the path. */
int endpoint_is_absent(int err);

/* Prints to stderr why path could not be used. */
void endpoint_print_error(const char *path, int err);

#endif
