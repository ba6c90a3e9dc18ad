/* SPDX-License-Identifier: BSD-3-Clause */
/* A frame as a JSON object, header by header. Numbers of more than 32 bits are text. */
#include <inttypes.h>
#include <stdio.h>

#include "dissect_frame.h"
#include "dissect_mad.h"

static void add(json_t *object, const char *name, uint32_t value)
{
    json_object_set_new(object, name, json_integer(value));
}

static json_t *wide(uint64_t value)
{
    char text[19];

    snprintf(text, sizeof(text), "0x%016" PRIx64, value);
    return json_string(text);
}

static void add_view(json_t *object, const struct encap_view *v)
{
    char src[46], dst[46];

    gid_format(src, &v->sgid);
    gid_format(dst, &v->dgid);
    json_object_set_new(object, "src", json_string(src));
    json_object_set_new(object, "dst", json_string(dst));
    add(object, "version", v->l3_kind == ICRC_GRH ? 1 : 2);
    if (v->l3_kind != ICRC_GRH)
        add(object, "sport", v->udp_sport);
    if (v->vlan_tci != VLAN_NONE) {
        add(object, "vlan", v->vlan_tci & 0xFFF);
        add(object, "priority", v->vlan_tci >> 13);
    }
    add(object, "traffic_class", v->traffic_class);
}

static json_t *aeth(const struct pkt *p)
{
    uint8_t value = p->aeth.syndrome & AETH_VALUE_MASK;
    const char *name = "reserved";

    switch (p->aeth.syndrome & AETH_CLASS_MASK) {
    case AETH_ACK:
        name = "credit";
        break;
    case AETH_RNR:
        name = "rnr_timer";
        break;
    case AETH_NAK:
        name = "nak_code";
        break;
    }
    return json_pack("{s:i, s:i, s:i}", "syndrome", p->aeth.syndrome, name, value, "msn",
                     (int)p->aeth.msn);
}

/* One member for each extension header that the opcode has. */
static void add_extensions(json_t *object, const struct pkt *p)
{
    uint16_t flags = pkt_info(p)->flags;

    if (flags & PF_DETH)
        json_object_set_new(object, "deth",
                            json_pack("{s:I, s:I}", "qkey", (json_int_t)p->deth.qkey, "src_qp",
                                      (json_int_t)p->deth.src_qpn));
    if (flags & PF_XRCETH)
        json_object_set_new(object, "xrceth", json_pack("{s:i}", "srq", (int)p->xrc_srqn));
    if (flags & PF_FETH)
        json_object_set_new(object, "feth",
                            json_pack("{s:i, s:i}", "placement", p->feth.placement, "selectivity",
                                      p->feth.selectivity));
    if (flags & PF_RETH)
        json_object_set_new(object, "reth",
                            json_pack("{s:o, s:I, s:I}", "va", wide(p->reth.va), "rkey",
                                      (json_int_t)p->reth.rkey, "length", (json_int_t)p->reth.len));
    if (flags & PF_ATOMICETH)
        json_object_set_new(object, "atomiceth",
                            json_pack("{s:o, s:I, s:o, s:o}", "va", wide(p->atomic.va), "rkey",
                                      (json_int_t)p->atomic.rkey, "swap_add",
                                      wide(p->atomic.swap_add), "compare",
                                      wide(p->atomic.compare)));
    if (flags & PF_AETH)
        json_object_set_new(object, "aeth", aeth(p));
    if (flags & PF_ATOMICACKETH)
        json_object_set_new(object, "atomicacketh",
                            json_pack("{s:o}", "original", wide(p->atomic_ack)));
    if (flags & PF_IMM)
        add(object, "immediate", p->imm);
    if (flags & PF_IETH)
        json_object_set_new(object, "ieth", json_pack("{s:I}", "rkey", (json_int_t)p->ieth_rkey));
}

static void add_bth(json_t *object, const struct pkt *p)
{
    json_object_set_new(object, "opcode", json_string(pkt_info(p)->name));
    add(object, "qp", p->dest_qpn);
    add(object, "psn", p->psn.v);
    add(object, "pkey", p->pkey);
    json_object_set_new(object, "ack_req", json_boolean(p->ack_req));
    json_object_set_new(object, "solicited", json_boolean(p->solicited));
    json_object_set_new(object, "mig_req", json_boolean(p->mig_req));
    json_object_set_new(object, "fecn", json_boolean(p->fecn));
    json_object_set_new(object, "becn", json_boolean(p->becn));
    add(object, "payload", p->payload_len);
}

json_t *dissect_frame_json(const struct finding *f)
{
    json_t *object = json_pack("{s:i, s:f, s:s}", "frame", (int)f->number, "time", f->time,
                               "verdict", verdict_name(f->verdict));
    char text[512];

    if (f->reason != DROP_NONE)
        json_object_set_new(object, "reason", json_string(drop_name(f->reason)));
    if (f->has_view)
        add_view(object, &f->view);
    if (!f->has_pkt)
        return object;
    pkt_format(text, sizeof(text), &f->pkt);
    add_bth(object, &f->pkt);
    add_extensions(object, &f->pkt);
    json_object_set_new(object, "packet", json_string(text));
    if (f->verdict != VERDICT_CUT && dissect_is_mad(&f->pkt))
        json_object_set_new(object, "mad", dissect_mad_json(&f->pkt));
    return object;
}
