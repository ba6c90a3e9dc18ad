/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory: bytes of the daemon that are mapped here, too. */
#ifndef UROCE_CLIENT_DM_H
#define UROCE_CLIENT_DM_H

#include "client.h"

struct client_dm {
    struct client *client;
    uint8_t *base;
    uint64_t length;
    uint32_t handle;
    void *mapping; /* of an imported one, of its own */
    size_t mapped;
};

/* Allocates device memory that begins at a multiple of 2^log_align, zeroed. 0 or a negative errno.
 */
int client_dm_alloc(struct client *c, struct client_dm *dm, uint64_t length, uint32_t log_align);

/* Device memory of the context that c has joined, by its handle there. 0 or a negative errno. */
int client_dm_import(struct client *c, struct client_dm *dm, uint32_t handle);
/* Leaves it: regions of it stay. 0, -EINVAL: it was not imported; or another negative errno. */
int client_dm_unimport(struct client_dm *dm);

/* 0, also when the daemon is gone; -EBUSY while regions use it; -EIO: the daemon does not answer,
 * and the memory is gone too. */
int client_dm_free(struct client_dm *dm);

#endif
