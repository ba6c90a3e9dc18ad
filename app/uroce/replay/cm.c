/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the communication manager's messages say about queue pairs: a REQ and the REP that answers
 * it name both queue pairs and their starting PSNs.
 */
#include <stdlib.h>

#include "cm_msg.h"
#include "replay.h"

#define MAX_OPEN     1024
#define MTU_CODE_MAX 5

struct request {
    uint32_t comm_id, qpn, psn, mtu;
    uint8_t side;
};

struct open_requests {
    struct request *req;
    unsigned count, room;
};

static void note_request(struct open_requests *open, const struct rec *rec, const struct cm_msg *m)
{
    unsigned code = (unsigned)cm_msg_get(m, CM_REQ_path_mtu);

    if (open->count == MAX_OPEN)
        return;
    ENSURE_ROOM(open->req, open->count, open->room);
    open->req[open->count++] = (struct request){
        .comm_id = (uint32_t)cm_msg_get(m, CM_REQ_local_comm_id),
        .qpn = (uint32_t)cm_msg_get(m, CM_REQ_local_qpn),
        .psn = (uint32_t)cm_msg_get(m, CM_REQ_starting_psn),
        .mtu = code >= 1 && code <= MTU_CODE_MAX ? 128u << code : 0,
        .side = rec->side,
    };
}

/* The newest request of the other side with this communication ID, or NULL. */
static const struct request *find_request(const struct open_requests *open, const struct rec *rec,
                                          uint32_t comm_id)
{
    for (unsigned i = open->count; i-- > 0;)
        if (open->req[i].comm_id == comm_id && open->req[i].side != rec->side)
            return &open->req[i];
    return NULL;
}

static void note_reply(struct cm_conns *out, const struct open_requests *open,
                       const struct rec *rec, const struct cm_msg *m)
{
    const struct request *q =
        find_request(open, rec, (uint32_t)cm_msg_get(m, CM_REP_remote_comm_id));
    struct cm_conn *conn;

    if (q == NULL || out->count == MAX_OPEN)
        return;
    ENSURE_ROOM(out->conn, out->count, out->room);
    conn = &out->conn[out->count++];
    conn->req_side = q->side;
    conn->qpn[q->side] = q->qpn;
    conn->psn[q->side] = q->psn;
    conn->qpn[rec->side] = (uint32_t)cm_msg_get(m, CM_REP_local_qpn);
    conn->psn[rec->side] = (uint32_t)cm_msg_get(m, CM_REP_starting_psn);
    conn->mtu = q->mtu;
}

void replay_cm_collect(struct cm_conns *out, const struct capture *c, const struct conversation *t)
{
    struct open_requests open = {0};

    for (unsigned i = 0; i < c->count; i++) {
        const struct rec *rec = &c->rec[i];
        struct cm_msg m;

        if (rec->conversation != t || rec->use != USE_connection_management ||
            !cm_msg_parse(&m, rec->pkt.payload, rec->pkt.payload_len))
            continue;
        if (m.message == CM_REQ)
            note_request(&open, rec, &m);
        else if (m.message == CM_REP)
            note_reply(out, &open, rec, &m);
    }
    free(open.req);
}
