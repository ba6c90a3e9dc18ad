/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: see gsi.h. */
#include "net/gsi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm_types.h"
#include "control/device_state.h"
#include "mad.h"
#include "net/resolve.h"
#include "pkt.h"

#define WAITING_MAX 1024
#define OPCODE_MAD  OPCODE(PKT_UD, OP_SEND_ONLY)

/* What a MAD waits for; LOST: it has waited for a neighbour that was given up. */
enum wait {
    WAIT_ROOM,
    WAIT_HOP,
    WAIT_FOUND,
    WAIT_LOST,
};

struct gsi_waiting {
    TAILQ_ENTRY(gsi_waiting) link;
    enum wait wait;
    union gid next_hop; /* WAIT_HOP */
    struct cm_path path;
    uint8_t mad[MAD_LEN];
};

void gsi_init(struct device *d)
{
    TAILQ_INIT(&d->gsi.waiting);
}

static void forget(struct gsi *g, struct gsi_waiting *w)
{
    TAILQ_REMOVE(&g->waiting, w, link);
    g->waiting_count--;
    free(w);
}

void gsi_fini(struct device *d)
{
    while (!TAILQ_EMPTY(&d->gsi.waiting))
        forget(&d->gsi, TAILQ_FIRST(&d->gsi.waiting));
}

static bool send_by_worker(struct device *d, const uint8_t *frame, uint32_t len)
{
    if (!slow_path_try_down(&d->net.slow, frame, len))
        return false;
    worker_kick(d->port[0]->worker);
    return true;
}

/* False: there is no room now. */
static bool send_frame(struct device *d, const struct address_vector *av, const uint8_t *mad)
{
    struct entropy_flow flow = {
        .src_qpn = QPN_GSI, .dest_qpn = QPN_GSI, .flow_label = av->flow_label};
    size_t bth_len = pkt_len(OPCODE_MAD, MAD_LEN), head;
    uint8_t frame[ENCAP_MAX_LEN + PKT_MAX_HEADER + MAD_LEN + ICRC_LEN];
    struct pkt p = {.opcode = OPCODE_MAD,
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = QPN_GSI,
                    .psn = psn(d->gsi.psn++),
                    .deth = {.qkey = MAD_QKEY, .src_qpn = QPN_GSI},
                    .payload_len = MAD_LEN};
    struct encap_template t;
    bool sent;

    if (encap_template_make(&t, av))
        return true;
    if (encap_template_has_udp(&t))
        encap_template_set_sport(&t, entropy_port(&d->entropy, &flow));
    head = encap_tx(frame, &t, bth_len, (uint16_t)p.psn.v);
    head += pkt_build_headers(frame + head, &p);
    if (gsi_stays_inside(d))
        sent = gsi_send_inside(d, frame, (uint32_t)encap_copy(frame, &t, bth_len, mad, MAD_LEN));
    else {
        memcpy(frame + head, mad, MAD_LEN);
        sent = send_by_worker(d, frame, (uint32_t)encap_seal(frame, &t, bth_len));
    }
    d->gsi.tx += sent;
    return sent;
}

/* The place of the path's address in the GID table: another one than the path says, if it has left
 * the port since and come back. -EADDRNOTAVAIL: it has not. */
static int find_source(const struct device *d, const struct cm_path *path)
{
    int index = gid_table_find(&d->gids, &path->sgid, (enum gid_type)path->gid_type, path->vlan);

    return index < 0 ? -EADDRNOTAVAIL : index;
}

/* 0; -EINPROGRESS: the next hop is being resolved; -ENOBUFS: the worker has no room now; or another
 * negative errno. */
static int try_send(struct device *d, const struct cm_path *path, const uint8_t *mad,
                    union gid *next_hop)
{
    struct ah_attr attr = {.is_global = 1,
                           .port_num = 1,
                           .flow_label = path->flow_label,
                           .sl = path->sl,
                           .traffic_class = path->traffic_class,
                           .hop_limit = path->hop_limit};
    struct address_vector av;
    struct net_path net = {.mtu = 0};
    int source = find_source(d, path), err;

    if (source < 0)
        return source;
    attr.sgid_index = (uint8_t)source;
    memcpy(attr.dgid, path->dgid.raw, sizeof(attr.dgid));
    err = device_resolve_path(d, &attr, &av, &net);
    *next_hop = net.next_hop;
    if (!err && !send_frame(d, &av, mad))
        err = -ENOBUFS;
    return err;
}

/* For the next hop, or for room. Answers to senders that do not exist may fill the list, and wait
 * for seconds; what is for a host that does exist does not. So the oldest one makes room. */
static void wait_to_send(struct device *d, const struct cm_path *path, const uint8_t *mad,
                         enum wait wait, const union gid *next_hop)
{
    struct gsi_waiting *w = malloc(sizeof(*w));

    if (!w || d->gsi.waiting_count == WAITING_MAX)
        d->gsi.tx_unreachable++;
    if (!w)
        return;
    if (d->gsi.waiting_count == WAITING_MAX)
        forget(&d->gsi, TAILQ_FIRST(&d->gsi.waiting));
    w->path = *path;
    w->wait = wait;
    w->next_hop = *next_hop;
    memcpy(w->mad, mad, MAD_LEN);
    TAILQ_INSERT_TAIL(&d->gsi.waiting, w, link);
    d->gsi.waiting_count++;
}

void gsi_send(struct device *d, const struct cm_path *path, const uint8_t *mad)
{
    union gid next_hop = {0};
    int err = d->gsi.is_full ? -ENOBUFS : try_send(d, path, mad, &next_hop);

    d->gsi.is_full = err == -ENOBUFS;
    if (err == -EINPROGRESS || err == -ENOBUFS)
        wait_to_send(d, path, mad, err == -ENOBUFS ? WAIT_ROOM : WAIT_HOP, &next_hop);
    else if (err)
        d->gsi.tx_unreachable++;
}

void gsi_note_hop(struct device *d, const union gid *next_hop, uint16_t vlan, bool found)
{
    struct gsi_waiting *w;

    TAILQ_FOREACH (w, &d->gsi.waiting, link)
        if (w->wait == WAIT_HOP && w->path.vlan == vlan && gid_eq(&w->next_hop, next_hop))
            w->wait = found ? WAIT_FOUND : WAIT_LOST;
}

/* One whose neighbour was given up does not ask for it again: in a flood of forged requests each
 * would take the place of another neighbour's request, whose MADs did the same. */
static int send_or_lose(struct device *d, struct gsi_waiting *w)
{
    int err = w->wait == WAIT_LOST ? -EHOSTUNREACH : try_send(d, &w->path, w->mad, &w->next_hop);

    if (err == -EINPROGRESS)
        w->wait = WAIT_HOP;
    else if (err == -ENOBUFS)
        w->wait = WAIT_ROOM;
    return err;
}

void gsi_send_waiting(struct device *d)
{
    struct gsi_waiting *w, *next;

    d->gsi.is_full = false;
    for (w = TAILQ_FIRST(&d->gsi.waiting); w; w = next) {
        int err = w->wait == WAIT_HOP ? -EINPROGRESS : send_or_lose(d, w);

        next = TAILQ_NEXT(w, link);
        d->gsi.is_full = err == -ENOBUFS;
        if (d->gsi.is_full)
            return;
        if (err == -EINPROGRESS)
            continue;
        d->gsi.tx_unreachable += err != 0;
        forget(&d->gsi, w);
    }
}
