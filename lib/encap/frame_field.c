/* SPDX-License-Identifier: BSD-3-Clause */
/* See frame_field.h. */
#include "frame_field.h"

#include "common.h"

static const uint8_t header_bytes[FRAME_HEADER_COUNT] = {
#define X(header, bytes) bytes,
    FRAME_HEADERS(X)
#undef X
};

static const struct field_row {
    uint8_t header, byte, bit, bits;
} rows[FRAME_FIELD_COUNT] = {
#define X(header, field, byte, bit, bits) {FRAME_HEADER_##header, byte, bit, bits},
    FRAME_FIELDS(X)
#undef X
};

/* Extension headers follow the BTH in this order. */
static const struct {
    uint16_t flag;
    uint8_t header;
} extensions[] = {
    {PF_DETH, FRAME_HEADER_DETH},
    {PF_XRCETH, FRAME_HEADER_XRCETH},
    {PF_FETH, FRAME_HEADER_FETH},
    {PF_RETH, FRAME_HEADER_RETH},
    {PF_ATOMICETH, FRAME_HEADER_ATOMICETH},
    {PF_AETH, FRAME_HEADER_AETH},
    {PF_ATOMICACKETH, FRAME_HEADER_ATOMICACKETH},
    {PF_IMM, FRAME_HEADER_IMM},
    {PF_IETH, FRAME_HEADER_IETH},
};

static void note_header(struct frame_layout *l, enum frame_header header, size_t at)
{
    l->has[header] = true;
    l->at[header] = (uint16_t)at;
}

void frame_layout(struct frame_layout *l, const uint8_t *frame, const struct encap_view *v,
                  const struct pkt *p)
{
    size_t bth = (size_t)(v->bth - frame), at = bth + BTH_LEN;

    *l = (struct frame_layout){0};
    note_header(l, FRAME_HEADER_ETH, 0);
    if (v->vlan_tci != VLAN_NONE)
        note_header(l, FRAME_HEADER_VLAN, header_bytes[FRAME_HEADER_ETH]);
    note_header(l, v->l3_kind == ICRC_IPV4 ? FRAME_HEADER_IPV4 : FRAME_HEADER_IPV6,
                (size_t)(v->l3 - frame));
    if (v->l3_kind != ICRC_GRH)
        note_header(l, FRAME_HEADER_UDP, bth - header_bytes[FRAME_HEADER_UDP]);
    note_header(l, FRAME_HEADER_BTH, bth);
    for (unsigned i = 0; i < ARRAY_SIZE(extensions); i++) {
        if (!(pkt_info(p)->flags & extensions[i].flag))
            continue;
        note_header(l, extensions[i].header, at);
        at += header_bytes[extensions[i].header];
    }
}

bool frame_field_at(const struct frame_layout *l, enum frame_field field, struct frame_bits *at)
{
    const struct field_row *r = &rows[field];

    at->byte = (uint32_t)l->at[r->header] + r->byte;
    at->bit = r->bit;
    at->bits = r->bits;
    return l->has[r->header];
}

void frame_field_put(uint8_t *frame, const struct frame_layout *l, enum frame_field field,
                     uint64_t value)
{
    struct frame_bits f;

    if (!frame_field_at(l, field, &f))
        return;
    for (unsigned bit = f.bit + f.bits; bit-- > f.bit; value >>= 1) {
        uint8_t mask = (uint8_t)(0x80 >> bit % 8);
        uint8_t *byte = &frame[f.byte + bit / 8];

        *byte = (uint8_t)((*byte & ~mask) | (value & 1 ? mask : 0));
    }
}
