/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding the daemon's control socket. The order is the one of ctl_msg.h: a path that was given (by
 * option or in UROCE_SOCKET) and no other; else the system's; else the user's.
 */
#ifndef UROCE_ENDPOINT_H
#define UROCE_ENDPOINT_H

#define ENDPOINT_PATH_MAX 108 /* sun_path */

/* Connects to the daemon at path and exchanges one message, so that what answers is known to be a
 * daemon that is alive and speaks this version. Returns a close-on-exec descriptor; -ENOENT or
 * -ECONNREFUSED: none serves there; -EPROTONOSUPPORT: of another version; -ETIMEDOUT: it does not
 * answer; or another negative errno. */
int endpoint_probe(const char *path);

/* The path that was asked for by option (may be NULL) or in the environment, made absolute. 1: path
 * is filled; 0: none was asked for; -ENAMETOOLONG or another negative errno. */
int endpoint_given(const char *option, char path[ENDPOINT_PATH_MAX]);

/* The user's own path, in $XDG_RUNTIME_DIR or, without it, in /tmp/uroce-UID, which with create is
 * made (mode 0700). 0; -EPERM: that folder is another user's or open to others; or another negative
 * errno. */
int endpoint_user(char path[ENDPOINT_PATH_MAX], int create);

/* Connects to the daemon that a verbs program started now would find; path tells which. As
 * endpoint_probe(). */
int endpoint_connect(const char *option, char path[ENDPOINT_PATH_MAX]);

/* Whether err, from endpoint_probe(), says that nothing serves at the path. */
int endpoint_is_absent(int err);

/* Tells on stderr why path could not be used. */
void endpoint_complain(const char *path, int err);

#endif
