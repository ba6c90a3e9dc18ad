/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of a stream's connection. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "rs_stream.h"

#define CONTROL_BYTES (RS_CONTROL_SLOTS * sizeof(struct rs_buffer))

static size_t pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

/*
 * One memory: what the peer writes (the receive ring, the table of announced buffers with the
 * iomap table behind it), and on pages of their own the send ring and control messages.
 */
static int register_memory(struct rs_stream *s)
{
    const struct rs_options *o = &s->rs.options;
    size_t table = o->recv_buffer;
    size_t remote = pages(table + RS_TABLE_ENTRIES * sizeof(struct rs_buffer) +
                          o->iomap_entries * sizeof(struct rs_iomap));
    size_t local = pages(o->send_buffer + CONTROL_BYTES);
    int err = rs_memory_create(&s->memory, remote + local);
    uint8_t *bytes = s->memory.bytes;

    if (err)
        return err;
    s->recv_bytes = bytes;
    s->table = (struct rs_buffer *)(bytes + table);
    s->iomaps = (struct rs_iomap *)(s->table + RS_TABLE_ENTRIES);
    s->send_bytes = bytes + remote;
    s->control_bytes = s->send_bytes + o->send_buffer;
    s->remote_mr =
        ibv_reg_mr(s->device->pd, bytes, remote, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!s->remote_mr)
        return -errno;
    s->local_mr = ibv_reg_mr(s->device->pd, s->send_bytes, local, IBV_ACCESS_LOCAL_WRITE);
    return s->local_mr ? 0 : -errno;
}

static int create_queues(struct rs_stream *s)
{
    const struct rs_options *o = &s->rs.options;
    uint32_t send = o->send_queue + RS_CONTROL_SLOTS, recv = o->recv_queue + RS_CONTROL_SLOTS;
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = send,
                .max_recv_wr = recv,
                .max_send_sge = 2,
                .max_recv_sge = 1,
                .max_inline_data = o->inline_size},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };
    int err = rs_cq_create(s->id->verbs, (int)(send + recv), &s->comp, &s->cq);

    if (err)
        return err;
    attr.send_cq = attr.recv_cq = s->cq;
    if (rdma_create_qp(s->id, s->device->pd, &attr))
        return -errno;
    s->recv_wqes = recv;
    s->send_slots = o->send_queue;
    s->iomap_entries = o->iomap_entries;
    s->inline_size = attr.cap.max_inline_data;
    if (s->inline_size > RS_INLINE_MAX)
        s->inline_size = RS_INLINE_MAX;
    return 0;
}

int rs_stream_open(struct rs_stream *s)
{
    const struct rs_options *o = &s->rs.options;
    int err;

    s->device = rs_device_get(s->id->verbs);
    if (!s->device)
        return errno ? -errno : -ENOMEM;
    err = register_memory(s);
    if (!err)
        err = create_queues(s);
    if (!err)
        err = rs_post_receives(s, s->recv_wqes);
    if (err) {
        rs_stream_release(s);
        return err;
    }
    rs_recv_ring_init(&s->recv, o->recv_buffer);
    rs_send_ring_init(&s->send, o->send_buffer);
    rs_flow_init(&s->flow, (uint16_t)o->recv_queue, (uint16_t)o->send_queue);
    return 0;
}

void rs_stream_release(struct rs_stream *s)
{
    rs_stream_unmap_all(s);
    if (s->id && s->id->qp)
        rdma_destroy_qp(s->id);
    rs_cq_destroy(s->comp, s->cq);
    s->comp = NULL;
    s->cq = NULL;
    if (s->remote_mr)
        ibv_dereg_mr(s->remote_mr);
    if (s->local_mr)
        ibv_dereg_mr(s->local_mr);
    s->remote_mr = s->local_mr = NULL;
    rs_memory_destroy(&s->memory);
    if (s->device)
        rs_device_put(s->device);
    s->device = NULL;
    free(s->mappings);
    s->mappings = NULL;
    s->armed = false;
}

void rs_stream_hello(const struct rs_stream *s, struct rs_hello *h)
{
    *h = (struct rs_hello){
        .big_endian = rs_host_big_endian(),
        .credits = (uint16_t)s->rs.options.recv_queue,
        .iomap_entries = s->rs.options.iomap_entries,
        .table = {(uintptr_t)s->table, s->remote_mr->rkey, RS_TABLE_ENTRIES},
        .buffer = {(uintptr_t)s->recv_bytes, s->remote_mr->rkey, s->recv.half},
    };
}

int rs_stream_greet(struct rs_stream *s, const struct rs_hello *h)
{
    s->peer_big_endian = h->big_endian;
    s->peer_table = h->table;
    s->peer_table_next = 1; /* the first buffer took the place of entry 0 */
    s->target = h->buffer;
    s->table_next = 1;
    rs_flow_limit(&s->flow, h->credits);
    s->peer_iomaps = h->iomap_entries;
    if (h->iomap_entries) {
        s->mappings = calloc(h->iomap_entries, sizeof(*s->mappings));
        if (!s->mappings)
            return -ENOMEM;
    }
    return 0;
}
