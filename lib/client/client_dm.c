/* SPDX-License-Identifier: BSD-3-Clause */
/* See client_dm.h. */
#include "client_dm.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* The length is the request's. */
static bool reply_fits(const struct ctl_msg *reply, const struct client_piece *piece)
{
    return reply->alloc_dm.length <= piece->bytes;
}

static const struct client_queue_kind kind = {
    CTL_ALLOC_DM, CTL_FREE_DM, offsetof(struct ctl_msg, alloc_dm.place),
    offsetof(struct ctl_msg, alloc_dm.handle), reply_fits};

int client_dm_alloc(struct client *c, struct client_dm *dm, uint64_t length, uint32_t log_align)
{
    struct ctl_msg m = {.alloc_dm = {.length = length, .log_align = log_align}};
    struct client_piece piece;
    int err = client_queue_create(&c->conn, &c->slabs, &kind, &m, &piece);

    if (err)
        return err;
    *dm = (struct client_dm){
        .client = c, .base = piece.base, .length = length, .handle = m.alloc_dm.handle};
    return 0;
}

int client_dm_import(struct client *c, struct client_dm *dm, uint32_t handle)
{
    struct ctl_msg m = {.import = {.kind = CTL_IMPORT_DM, .handle = handle}};
    const struct ctl_import *r = &m.import;
    int fd, err = conn_call(&c->conn, CTL_IMPORT, &m, NULL, 0, &fd, 1);

    if (err)
        return err;
    *dm = (struct client_dm){
        .client = c, .length = r->length, .handle = r->handle, .mapped = r->offset + r->length};
    if (dm->mapped < r->length)
        close(fd);
    else
        dm->mapping = client_map(fd, dm->mapped);
    if (!dm->mapping) {
        conn_call_handle(&c->conn, CTL_FREE_DM, dm->handle);
        return -ENOMEM;
    }
    dm->base = (uint8_t *)dm->mapping + r->offset;
    return 0;
}

static void unmap_imported(struct client_dm *dm)
{
    if (dm->mapping)
        munmap(dm->mapping, dm->mapped);
    dm->mapping = NULL;
}

int client_dm_unimport(struct client_dm *dm)
{
    struct ctl_msg m = {.import = {.kind = CTL_IMPORT_DM, .handle = dm->handle}};

    if (!dm->mapping)
        return -EINVAL;
    unmap_imported(dm);
    return conn_call(&dm->client->conn, CTL_UNIMPORT, &m, NULL, 0, NULL, 0);
}

int client_dm_free(struct client_dm *dm)
{
    struct client *c = dm->client;
    int err = client_slab_destroy(&c->conn, &c->slabs, CTL_FREE_DM, dm->handle);

    if (!err || err == -EIO)
        unmap_imported(dm);
    return err;
}
