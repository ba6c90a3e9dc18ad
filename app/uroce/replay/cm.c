/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the connection manager's messages say about queue pairs (volume 1, 12.6.5 and 12.6.8): a REQ
 * and the REP that answers it name both queue pairs and their first PSNs.
 */
#include <stdlib.h>

#include "bytes.h"
#include "replay.h"

#define MAD_LEN      256
#define MAD_CLASS    1
#define MAD_ATTR     16
#define MAD_DATA     24
#define CLASS_CM     0x07
#define ATTR_REQ     0x0010
#define ATTR_REP     0x0013
#define MAX_OPEN     1024
#define REQ_QPN      32
#define REQ_PSN      44
#define REQ_MTU      50
#define REP_REMOTE   4
#define REP_QPN      12
#define REP_PSN      20
#define MTU_CODE_MAX 5

struct request {
    uint32_t comm_id, qpn, psn, mtu;
    uint8_t side;
};

struct open_requests {
    struct request *req;
    unsigned count, room;
};

static const uint8_t *cm_data(const struct rec *rec, uint16_t attr)
{
    const uint8_t *mad = rec->pkt.payload;

    if (rec->pkt.payload_len < MAD_LEN || mad[MAD_CLASS] != CLASS_CM ||
        get_be16(mad + MAD_ATTR) != attr)
        return NULL;
    return mad + MAD_DATA;
}

static void take_req(struct open_requests *open, const struct rec *rec, const uint8_t *data)
{
    unsigned code = data[REQ_MTU] >> 4;

    if (open->count == MAX_OPEN)
        return;
    ENSURE_ROOM(open->req, open->count, open->room);
    open->req[open->count++] = (struct request){
        .comm_id = get_be32(data),
        .qpn = get_be24(data + REQ_QPN),
        .psn = get_be24(data + REQ_PSN),
        .mtu = code >= 1 && code <= MTU_CODE_MAX ? 128u << code : 0,
        .side = rec->side,
    };
}

static void take_rep(struct cm_conns *out, const struct open_requests *open, const struct rec *rec,
                     const uint8_t *data)
{
    for (unsigned i = open->count; i-- > 0;) {
        const struct request *q = &open->req[i];
        struct cm_conn *m;

        if (q->comm_id != get_be32(data + REP_REMOTE) || q->side == rec->side)
            continue;
        ENSURE_ROOM(out->conn, out->count, out->room);
        m = &out->conn[out->count++];
        m->req_side = q->side;
        m->qpn[q->side] = q->qpn;
        m->psn[q->side] = q->psn;
        m->qpn[rec->side] = get_be24(data + REP_QPN);
        m->psn[rec->side] = get_be24(data + REP_PSN);
        m->mtu = q->mtu;
        return;
    }
}

void replay_cm_collect(struct cm_conns *out, const struct capture *c, const struct talk *t)
{
    struct open_requests open = {0};

    for (unsigned i = 0; i < c->count; i++) {
        const struct rec *rec = &c->rec[i];
        const uint8_t *data;

        if (rec->talk != t || rec->use != USE_connection_management)
            continue;
        if ((data = cm_data(rec, ATTR_REQ)) != NULL)
            take_req(&open, rec, data);
        else if ((data = cm_data(rec, ATTR_REP)) != NULL && out->count < MAX_OPEN)
            take_rep(out, &open, rec, data);
    }
    free(open.req);
}
