/* SPDX-License-Identifier: BSD-3-Clause */
/* See client_counter.h. */
#include "client_counter.h"

static bool reply_fits(const struct ctl_msg *reply, const struct client_piece *piece)
{
    uint32_t lanes = reply->create_counter.lanes;

    return lanes && lanes <= CTX_WORKERS_MAX && counter_segment_bytes(lanes) <= piece->bytes;
}

static const struct client_queue_kind kind = {
    CTL_CREATE_COUNTER, CTL_DESTROY_COUNTER, offsetof(struct ctl_msg, create_counter.place),
    offsetof(struct ctl_msg, create_counter.handle), reply_fits};

int client_counter_create(struct client *c, struct client_counter *counter, uint32_t type)
{
    struct ctl_msg m = {.create_counter = {.type = type}};
    struct client_piece piece;
    int err = client_queue_create(&c->conn, &c->slabs, &kind, &m, &piece);

    if (err)
        return err;
    *counter =
        (struct client_counter){.client = c,
                                .reader = {.line = piece.base, .lines = m.create_counter.lanes},
                                .handle = m.create_counter.handle};
    return 0;
}

int client_counter_destroy(struct client_counter *counter)
{
    struct client *c = counter->client;

    return client_slab_destroy(&c->conn, &c->slabs, CTL_DESTROY_COUNTER, counter->handle);
}

int client_counter_attach(struct client_counter *counter, uint32_t qpn, uint32_t what)
{
    struct ctl_msg m = {.attach_counter = {.qpn = qpn, .counter = counter->handle, .what = what}};

    return conn_call(&counter->client->conn, CTL_ATTACH_COUNTER, &m, NULL, 0, NULL, 0);
}
