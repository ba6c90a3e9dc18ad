/* SPDX-License-Identifier: BSD-3-Clause */
/* A mount namespace in which folders of the kernel get entries that the kernel does not offer. */
#ifndef UROCE_SYS_COVER_H
#define UROCE_SYS_COVER_H

/* Puts this process into mount and user namespaces of its own, in which its user is the same. 0 or
 * a negative errno. */
int cover_user_namespace(void);
/* Mounts in this process's namespace no longer reach others. 0 or a negative errno. */
int cover_make_private(void);

/*
 * Covers a folder by one in memory with the same entries, so that others can be created there.
 * Those named in `without`, up to a NULL, are left out. The folder below stays reachable as its
 * entry `below`, if that is not NULL. 0 or a negative errno.
 */
int cover_folder(const char *folder, const char *const *without, const char *below);
/* Covers a folder by an empty one in memory; the name stays the caller's. 0 or a negative errno. */
int cover_empty(const char *folder);
/* Takes all covers away: the folders, and what is below them, are as they were. */
void cover_undo(void);
/* Creates a folder; a link. 0 or a negative errno. */
int cover_new(const char *folder);
int cover_link(const char *target, const char *name);
/* Makes `name` the same file as `file`. 0 or a negative errno. */
int cover_file(const char *file, const char *name);

/* Why a namespace is refused to this user, as far as the kernel's settings tell. */
const char *cover_reason(int err);

#endif
