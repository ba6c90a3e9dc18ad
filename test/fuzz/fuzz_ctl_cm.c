/* SPDX-License-Identifier: BSD-3-Clause */
/* See fuzz_ctl_cm.h. */
#include "fuzz_ctl_cm.h"

#include <stdlib.h>

#include "cm.h"
#include "control/device_state.h"
#include "encap.h"
#include "frame_ring.h"
#include "gsi.h"
#include "ip_cm.h"
#include "net/gsi.h"
#include "pkt.h"
#include "sim.h"

#define PORT       7471
#define OPCODE_MAD OPCODE(PKT_UD, OP_SEND_ONLY)

/* A server of programs' requests would retry them. */
static void on_retry(void *ctx)
{
}

struct pktio *fuzz_add_port(struct rnic *r)
{
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 3}, {2, 0, 0, 0, 0, 4}}};
    struct port_address a[2] = {{.prefix = 24, .vlan = VLAN_NONE},
                                {.prefix = 64, .vlan = VLAN_NONE}};
    struct port_config pc = {.address = a, .addresses = 2};
    struct pktio *end[2];

    if (r->devices > 1)
        return NULL;
    gid_parse(&a[0].gid, "10.0.1.1");
    gid_parse(&a[1].gid, "fd00::1");
    if (pktio_sim_pair(end, &sc))
        abort();
    pc.io = end[0];
    if (rnic_add_port(r, &pc))
        abort();
    rnic_on_retry(r, on_retry, NULL);
    return end[1];
}

/* ---- the control thread ---- */

static void ready(struct event_source *s)
{
    if (s->ready)
        s->ready(s, 0);
}

void fuzz_control(struct rnic *r, struct input *in)
{
    uint8_t what = take(in);

    for (unsigned i = 0; i < r->devices; i++) {
        ready(&r->device[i]->net.frames);
        if (what & 1)
            ready(&r->device[i]->net.timer);
    }
    if (what & 2)
        ready(&r->cm.timer);
    if (what & 4)
        cm_host_resolved(r);
}

static struct device *pick_device(struct rnic *r, uint8_t which)
{
    return r->device[which % r->devices];
}

void fuzz_frame(struct rnic *r, struct input *in)
{
    struct device *d = pick_device(r, take(in));
    uint8_t frame[UINT8_MAX];
    uint32_t len = (uint32_t)take_bytes(in, frame, take(in));

    if (len >= 14)
        frame_ring_put(d->net.slow.up, frame, len);
}

/* ---- MADs ---- */

/* The n-th of the manager's ids. */
struct search {
    const struct cm_id *id;
    unsigned n;
};

static void visit(void *ctx, const struct cm_id *id)
{
    struct search *s = ctx;

    if (!s->n--)
        s->id = id;
}

static void count(void *ctx, const struct cm_id *id)
{
    ++*(unsigned *)ctx;
}

static const struct cm_id *pick_id(struct rnic *r, uint8_t which)
{
    struct search s = {0};
    unsigned ids = 0;

    cm_each_id(r->cm.manager, &ids, count);
    if (!ids)
        return NULL;
    s.n = which % ids;
    cm_each_id(r->cm.manager, &s, visit);
    return s.id;
}

/* From the peer of the id (0), or another host; to the port's address. */
static void choose_way(struct device *d, const struct cm_id *id, uint8_t source,
                       struct address_vector *av)
{
    static const char *const host[] = {"127.0.0.2", "::1",       "10.0.1.2", "10.0.1.77",
                                       "fd00::2",   "224.0.0.1", "0.0.0.0",  "127.0.0.1"};
    const struct gid_entry *e = &d->gids.entry[source / 16 % d->gids.len];

    *av = (struct address_vector){.dgid = e->gid,
                                  .smac = {2, 0, 0, 0, 0, 9},
                                  .gid_type = e->type,
                                  .vlan = e->vlan,
                                  .hop_limit = 64};
    memcpy(av->dmac, e->mac, sizeof(av->dmac));
    gid_parse(&av->sgid, host[source % ARRAY_SIZE(host)]);
    if (!(source % 16) && id && !gid_is_zero(&cm_id_path(id)->sgid)) {
        av->dgid = cm_id_path(id)->sgid;
        av->sgid = cm_id_path(id)->dgid;
        av->gid_type = cm_id_path(id)->gid_type;
    }
}

static void write_request(uint8_t *mad, enum cm_message message, const struct address_vector *av,
                          uint8_t which)
{
    static const enum ip_cm_port_space space[] = {IP_CM_PS_TCP, IP_CM_PS_IB, IP_CM_PS_UDP,
                                                  IP_CM_PS_IPOIB};
    struct ip_cm_header h = {.ip_version = gid_is_ipv4(&av->dgid) ? 4 : 6, .src_port = 99};
    bool req = message == CM_REQ;

    memcpy(h.src_addr, av->sgid.raw, 16);
    memcpy(h.dst_addr, av->dgid.raw, 16);
    ip_cm_build(cm_msg_private_room(mad, message), &h);
    cm_msg_set(mad, req ? CM_REQ_service_id : CM_SIDR_REQ_service_id,
               ip_cm_service_id(space[which % 2 + 2 * !req], PORT));
    cm_msg_set(mad, req ? CM_REQ_local_comm_id : CM_SIDR_REQ_request_id, which);
    if (!req)
        return;
    cm_msg_set(mad, CM_REQ_local_qpn, which);
    cm_msg_set(mad, CM_REQ_path_mtu, 3);
    cm_msg_set_bytes(mad, CM_REQ_primary_local_gid, av->sgid.raw, 16);
    cm_msg_set_bytes(mad, CM_REQ_primary_remote_gid, av->dgid.raw, 16);
}

/* The numbers of a connection; 24 and 28 are where nearly all messages have them. */
static void write_numbers(uint8_t *mad, enum cm_message message, const struct cm_id *id)
{
    uint8_t *theirs = mad + MAD_HEADER, *ours = theirs + 4;
    struct cm_id_info info;
    uint32_t remote;

    cm_id_query(id, &info);
    remote = info.remote_comm_id ? info.remote_comm_id : 0x01020304;
    if (message == CM_SIDR_REP)
        ours = theirs;
    else
        memcpy(theirs, &(uint32_t){__builtin_bswap32(remote)}, 4);
    memcpy(ours, &(uint32_t){__builtin_bswap32(info.local_comm_id)}, 4);
    if (message == CM_DREQ)
        cm_msg_set(mad, CM_DREQ_remote_qpn, info.conn.qpn);
}

static void give(struct device *d, const struct address_vector *av, const uint8_t *mad)
{
    uint8_t frame[ENCAP_MAX_LEN + PKT_MAX_HEADER + MAD_LEN + ICRC_LEN];
    size_t bth_len = pkt_len(OPCODE_MAD, MAD_LEN), head;
    struct pkt p = {.opcode = OPCODE_MAD,
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = QPN_GSI,
                    .deth = {.qkey = MAD_QKEY, .src_qpn = QPN_GSI},
                    .payload_len = MAD_LEN};
    struct encap_template t;

    if (encap_template_make(&t, av))
        return;
    if (encap_template_has_udp(&t))
        encap_template_set_sport(&t, 0xC123);
    head = encap_tx(frame, &t, bth_len, 0);
    head += pkt_build_headers(frame + head, &p);
    memcpy(frame + head, mad, MAD_LEN);
    frame_ring_put(d->net.slow.up, frame, (uint32_t)encap_seal(frame, &t, bth_len));
}

void fuzz_mad(struct rnic *r, struct input *in)
{
    struct device *d = pick_device(r, take(in));
    uint8_t source = take(in), kind = take(in), which = take(in), damages = take(in) % 8;
    const struct cm_id *id = pick_id(r, which);
    enum cm_message message = (enum cm_message)kind;
    uint8_t mad[MAD_LEN] = {0};
    struct address_vector av;

    choose_way(d, id, source, &av);
    if (kind >= CM_MESSAGE_COUNT) {
        take_bytes(in, mad, which);
    } else {
        cm_msg_init(mad, message, which);
        if (message == CM_REQ || message == CM_SIDR_REQ)
            write_request(mad, message, &av, which);
        else if (id)
            write_numbers(mad, message, id);
    }
    while (damages--) {
        uint8_t at = take(in);

        mad[at] ^= take(in);
    }
    give(d, &av, mad);
}
