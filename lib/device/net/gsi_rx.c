/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving: see gsi.h. */
#include "cm/cm_address.h"
#include "cm/cm_host.h"
#include "cm_types.h"
#include "control/device_state.h"
#include "mad.h"
#include "net/gsi.h"
#include "pkt.h"

#define OPCODE_MAD OPCODE(PKT_UD, OP_SEND_ONLY)

static bool is_mad(const struct encap_view *v, const struct pkt *p)
{
    return p->opcode == OPCODE_MAD && (p->pkey & 0x7FFF) == (PKEY_DEFAULT & 0x7FFF) &&
           p->deth.qkey == MAD_QKEY && p->deth.src_qpn == QPN_GSI && p->payload_len == MAD_LEN &&
           v->gid_index >= 0 && !gid_is_multicast(&v->dgid);
}

bool gsi_rx(struct device *d, const uint8_t *frame, uint32_t len)
{
    struct encap_view v;
    struct cm_path way;
    struct pkt p;

    if (!encap_is_roce(frame, len))
        return false;
    d->gsi.rx++;
    /* Addresses may have changed since the worker looked. */
    if (encap_rx(&v, frame, len, &d->encap) != DROP_NONE ||
        pkt_parse(&p, v.bth, v.bth_len) != DROP_NONE || !is_mad(&v, &p)) {
        d->gsi.rx_bad++;
        return true;
    }
    cm_address_port_path(d, (unsigned)v.gid_index, &v.sgid, &way);
    way.flow_label = v.flow_label;
    way.traffic_class = v.traffic_class & 0xFC;
    cm_host_rx(d->rnic, &way, p.payload, p.payload_len);
    return true;
}
