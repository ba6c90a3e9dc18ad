/* SPDX-License-Identifier: BSD-3-Clause */
#include "raw_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "verbs_pair.h"

uint8_t raw_key[RAW_KEY_LEN] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

/* ---- frames ---- */

static uint8_t own_mac[6];

/* As with NICs, the node GUID is the MAC with two bytes inserted and one bit changed. */
static void learn_mac(struct ibv_context *ctx)
{
    uint64_t guid = ibv_get_device_guid(ctx->device);
    uint8_t eui[8];

    memcpy(eui, &guid, sizeof(eui));
    memcpy(own_mac, eui, 3);
    memcpy(own_mac + 3, eui + 5, 3);
    own_mac[0] ^= 2;
}

struct raw_frame raw_flow(uint32_t number)
{
    struct raw_frame f =
        (struct raw_frame){.smac = {2, 0, 0, 0, 9, 2},
                           .ether_type = RAW_IPV4,
                           .src = {[12] = 10, [13] = 1, (uint8_t)(number >> 8), (uint8_t)number},
                           .dst = {[12] = 10, [13] = 2, 0, 1},
                           .protocol = RAW_UDP,
                           .ttl = 64,
                           .sport = (uint16_t)(1000 + number / 4),
                           .dport = 7777,
                           .id = number};

    memcpy(f.dmac, own_mac, sizeof(f.dmac));
    return f;
}

static uint8_t *put16(uint8_t *p, uint16_t v)
{
    *p++ = (uint8_t)(v >> 8);
    *p++ = (uint8_t)v;
    return p;
}

static uint8_t *put(uint8_t *p, const void *from, unsigned n)
{
    memcpy(p, from, n);
    return p + n;
}

static void checksum(uint8_t *header)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < 20; i += 2)
        sum += (uint32_t)(header[i] << 8 | header[i + 1]);
    while (sum >> 16)
        sum = (sum & 0xFFFF) + (sum >> 16);
    put16(header + 10, (uint16_t)~sum);
}

static uint8_t *put_ip(uint8_t *p, const struct raw_frame *f, uint16_t payload)
{
    uint8_t *header = p;

    if (f->ether_type == RAW_IPV6) {
        p = put16(p, (uint16_t)(0x6000 | f->tos << 4));
        p = put16(p, 0);
        p = put16(p, payload);
        *p++ = f->protocol;
        *p++ = f->ttl;
        return put(put(p, f->src, 16), f->dst, 16);
    }
    *p++ = 0x45;
    *p++ = f->tos;
    p = put16(p, (uint16_t)(20 + payload));
    p = put(p, "\0\0\x40\0", 4);
    *p++ = f->ttl;
    *p++ = f->protocol;
    p = put16(p, 0);
    p = put(put(p, f->src + 12, 4), f->dst + 12, 4);
    checksum(header);
    return p;
}

unsigned raw_build(uint8_t out[RAW_ROOM], const struct raw_frame *f)
{
    unsigned header = f->protocol == RAW_TCP ? 20 : 8;
    uint8_t *p = put(put(out, f->dmac, 6), f->smac, 6);

    if (f->vlan)
        p = put16(put16(p, 0x8100), f->vlan);
    p = put16(p, f->ether_type);
    if (f->ether_type == RAW_IPV4 || f->ether_type == RAW_IPV6) {
        p = put_ip(p, f, (uint16_t)(header + 4));
        memset(p, 0, header);
        put16(put16(p, f->sport), f->dport);
        if (f->protocol == RAW_TCP)
            p[12] = 5 << 4;
        else
            put16(p + 4, 12);
        p += header;
    }
    p = put(p, &f->id, 4);
    while (p < out + 60)
        *p++ = 0;
    /* The id is at the offset where raw_id reads it. */
    put(p, &f->id, 4);
    return (unsigned)(p + 4 - out);
}

/* ---- a device ---- */

void raw_open(struct raw *r)
{
    size_t bytes = 2ul * RAW_WR * RAW_ROOM;

    *r = (struct raw){.ctx = open_first()};
    learn_mac(r->ctx);
    r->pd = ibv_alloc_pd(r->ctx);
    r->send_cq = ibv_create_cq(r->ctx, RAW_WR, NULL, NULL, 0);
    r->cq = ibv_create_cq(r->ctx, 16 * RAW_WR, NULL, NULL, 0);
    r->memory = calloc(1, bytes);
    assert_non_null(r->pd);
    assert_non_null(r->send_cq);
    assert_non_null(r->cq);
    r->mr = ibv_reg_mr(r->pd, r->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(r->mr);
    r->sender = raw_qp(r, r->cq);
}

void raw_close(struct raw *r)
{
    assert_int_equal(ibv_destroy_qp(r->sender), 0);
    assert_int_equal(ibv_dereg_mr(r->mr), 0);
    assert_int_equal(ibv_destroy_cq(r->send_cq), 0);
    assert_int_equal(ibv_destroy_cq(r->cq), 0);
    assert_int_equal(ibv_dealloc_pd(r->pd), 0);
    assert_int_equal(ibv_close_device(r->ctx), 0);
    free(r->memory);
}

void raw_send(struct raw *r, const struct raw_frame *f)
{
    uint8_t bytes[RAW_ROOM];

    raw_send_bytes(r, bytes, raw_build(bytes, f));
}

void raw_send_bytes(struct raw *r, const uint8_t *bytes, unsigned len)
{
    uint8_t *slot = r->memory + (r->next_send++ % RAW_WR) * RAW_ROOM;
    struct ibv_sge sge = {.addr = (uintptr_t)slot, .length = len, .lkey = r->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    memcpy(slot, bytes, len);
    assert_int_equal(ibv_post_send(r->sender, &wr, &bad), 0);
    raw_await(r->send_cq);
}

/* ---- objects ---- */

struct ibv_qp *raw_qp(struct raw *r, struct ibv_cq *recv_cq)
{
    struct ibv_qp_init_attr init = {
        .send_cq = r->send_cq,
        .recv_cq = recv_cq,
        .cap = {.max_send_wr = RAW_WR, .max_recv_wr = RAW_WR, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RAW_PACKET};
    struct ibv_qp *qp = ibv_create_qp(r->pd, &init);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

    assert_non_null(qp);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
    modify_state(qp, IBV_QPS_RTR);
    modify_state(qp, IBV_QPS_RTS);
    return qp;
}

int raw_wq_state(struct ibv_wq *wq, enum ibv_wq_state state)
{
    struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state};

    return ibv_modify_wq(wq, &attr);
}

struct ibv_wq *raw_wq(struct raw *r, enum ibv_wq_state state)
{
    struct ibv_wq_init_attr init = {
        .wq_type = IBV_WQT_RQ, .max_wr = RAW_WR, .max_sge = 1, .pd = r->pd, .cq = r->cq};
    struct ibv_wq *wq = ibv_create_wq(r->ctx, &init);

    assert_non_null(wq);
    assert_int_equal(wq->state, IBV_WQS_RESET);
    if (state != IBV_WQS_RESET)
        assert_int_equal(raw_wq_state(wq, IBV_WQS_RDY), 0);
    if (state == IBV_WQS_ERR)
        assert_int_equal(raw_wq_state(wq, IBV_WQS_ERR), 0);
    assert_int_equal(wq->state, state);
    return wq;
}

struct ibv_rwq_ind_table *raw_table(struct raw *r, struct ibv_wq **wq, unsigned log_size)
{
    struct ibv_rwq_ind_table_init_attr init = {.log_ind_tbl_size = log_size, .ind_tbl = wq};
    struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(r->ctx, &init);

    assert_non_null(table);
    return table;
}

struct ibv_qp *raw_rss_qp(struct raw *r, struct ibv_rwq_ind_table *table, uint8_t function,
                          uint64_t fields)
{
    struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RAW_PACKET,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH |
                                                    IBV_QP_INIT_ATTR_IND_TABLE,
                                       .pd = r->pd,
                                       .rwq_ind_tbl = table,
                                       .rx_hash_conf = {.rx_hash_function = function,
                                                        .rx_hash_key_len = RAW_KEY_LEN,
                                                        .rx_hash_key = raw_key,
                                                        .rx_hash_fields_mask = fields}};

    return ibv_create_qp_ex(r->ctx, &init);
}

/* ---- receiving ---- */

static struct ibv_recv_wr entry(struct raw *r, struct ibv_sge *sge)
{
    unsigned slot = r->next_recv++ % RAW_WR;

    *sge = (struct ibv_sge){.addr = (uintptr_t)r->memory + (size_t)(RAW_WR + slot) * RAW_ROOM,
                            .length = RAW_ROOM,
                            .lkey = r->mr->lkey};
    return (struct ibv_recv_wr){.wr_id = slot, .sg_list = sge, .num_sge = 1};
}

int raw_post_wq(struct raw *r, struct ibv_wq *wq)
{
    struct ibv_sge sge;
    struct ibv_recv_wr wr = entry(r, &sge), *bad = NULL;
    int err = ibv_post_wq_recv(wq, &wr, &bad);

    assert_ptr_equal(bad, err ? &wr : NULL);
    return err;
}

int raw_post_qp(struct raw *r, struct ibv_qp *qp)
{
    struct ibv_sge sge;
    struct ibv_recv_wr wr = entry(r, &sge), *bad;

    return ibv_post_recv(qp, &wr, &bad);
}

int raw_post_srq(struct raw *r, struct ibv_srq *srq)
{
    struct ibv_sge sge;
    struct ibv_recv_wr wr = entry(r, &sge), *bad;

    return ibv_post_srq_recv(srq, &wr, &bad);
}

uint32_t raw_id(const struct raw *r, const struct ibv_wc *wc)
{
    uint32_t id;

    assert_in_range(wc->byte_len, 64, RAW_ROOM);
    memcpy(&id, r->memory + (RAW_WR + wc->wr_id) * RAW_ROOM + wc->byte_len - 4, 4);
    return id;
}

struct ibv_wc raw_await(struct ibv_cq *cq)
{
    struct ibv_wc wc;

    await(cq, &wc, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    return wc;
}

void raw_expect_only(struct raw *r, const struct raw_frame *f)
{
    struct ibv_wc wc;

    raw_send(r, f);
    wc = raw_await(r->cq);
    assert_int_equal(raw_id(r, &wc), f->id);
}

void raw_expect_last(struct raw *r, const struct raw_frame *f, uint32_t first)
{
    uint32_t id;

    raw_send(r, f);
    do {
        struct ibv_wc wc = raw_await(r->cq);

        id = raw_id(r, &wc);
        assert_in_range(id, first, f->id);
        first = id + 1;
    } while (id != f->id);
}

/* ---- rules ---- */

struct ibv_flow *raw_rule(struct ibv_qp *qp, enum ibv_flow_attr_type type, uint16_t priority,
                          unsigned n, const void *const spec[])
{
    struct {
        struct ibv_flow_attr attr;
        uint8_t specs[512];
    } rule = {.attr = {.type = type, .priority = priority, .port = 1, .num_of_specs = (uint8_t)n}};
    uint8_t *p = (uint8_t *)&rule.attr + sizeof(rule.attr);

    for (unsigned i = 0; i < n; i++) {
        uint16_t size = ((const struct ibv_flow_spec_eth *)spec[i])->size;

        p = put(p, spec[i], size);
    }
    rule.attr.size = (uint16_t)(p - (uint8_t *)&rule.attr);
    return ibv_create_flow(qp, &rule.attr);
}
