/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps of kept packets that the responder owes: see resp_map.h. */
#include "resp_map.h"
#include "resp_store.h"

/* PSNs of requests from one report to the next: a report for each READ of a packet would take as
 * many packets as the responses do. */
#define REPORT_EVERY 8

void resp_owe_map(struct engine *e, struct qp *qp)
{
    struct responder *resp = &qp->resp;

    if (!qp->selective || !resp->nak_sent || kept_is_refused(resp))
        return;
    resp->map_due = resp->urgent = true;
    if (!resp->ack_pending) /* else the map goes before what is pending */
        resp_commit_nak(e, qp, AETH_NAK | NAK_PSN_SEQUENCE, resp->epsn);
}

void resp_owe_losses(struct engine *e, struct qp *qp)
{
    struct responder *resp = &qp->resp;

    if (!qp->selective)
        return;
    resp->owes_losses = resp->urgent = true;
    if (!resp->res_pending) /* else it goes before what is pending */
        resp_commit_duplicate_ack(qp, psn_prev(resp->epsn));
    engine_tx_ready(e, qp);
}

bool resp_take_losses(struct qp *qp, struct kept_map *m)
{
    struct responder *resp = &qp->resp;
    struct resp_store *s = resp->store;

    resp->owes_losses = false;
    if (!s || !qp->selective || !qp_can_receive(qp) || qp->fault || kept_is_refused(resp))
        return false;
    *m = (struct kept_map){.first = resp->epsn};
    for (unsigned i = 0; i < KEPT_MAP_PACKETS; i++)
        if (resp_take_loss(s, psn_add(resp->epsn, i))) {
            m->bits[i / 64] |= UINT64_C(1) << i % 64;
            m->words = i / 64 + 1;
        }
    s->losses = false;
    return m->words > 0;
}

void resp_show_map(struct qp *qp)
{
    struct responder *resp = &qp->resp;

    if (resp->store || (resp->ack_pending && resp->syndrome != AETH_ACK_PLAIN))
        return;
    resp->shows_map = true;
    resp_commit_duplicate_ack(qp, psn_prev(resp->epsn));
}

/* A READ has the PSNs of its responses. */
static uint32_t psns_kept(const struct qp *qp, const struct kept *k)
{
    return pkt_info(&k->pkt)->kind == KIND_READ_REQUEST ? packets_for(k->pkt.reth.len, qp->mtu) : 1;
}

static void fill_map(const struct qp *qp, struct resp_store *s, struct kept_map *m)
{
    psn_t p = qp->resp.epsn;
    uint32_t i = 0;

    while (i < KEPT_MAP_PACKETS && !psn_before(s->last, psn_add(p, i))) {
        uint32_t n = 1;

        if (!kept_has(s, psn_add(p, i))) {
            i++;
            continue;
        }
        for (n = psns_kept(qp, kept_at(s, psn_add(p, i))); n && i < KEPT_MAP_PACKETS; n--, i++)
            m->bits[i / 64] |= UINT64_C(1) << i % 64;
    }
    m->words = min_of((i + 63) / 64, (uint32_t)KEPT_MAP_WORDS);
}

bool resp_take_map(struct qp *qp, struct kept_map *m)
{
    struct responder *resp = &qp->resp;
    struct resp_store *s = resp->store;

    resp->urgent = resp->repeats || resp->reports;
    if (!resp->map_due)
        return false;
    resp->map_due = false;
    if (!qp->selective || !resp->nak_sent || (s && psn_before(s->last, resp->epsn)))
        return false;
    *m = (struct kept_map){.first = resp->epsn, .duplicates = resp->in_vain, .words = 1};
    if (s)
        fill_map(qp, s, m);
    if (s && psn_eq(s->told, resp->epsn))
        resp_drop_nak(resp);
    return true;
}

void resp_gap_is_told(struct qp *qp)
{
    if (qp->resp.store)
        qp->resp.store->told = qp->resp.epsn;
}

void resp_report(struct qp *qp)
{
    struct responder *resp = &qp->resp;

    if (!qp->selective || qp->service != PKT_RC || !resp->res_pending)
        return;
    resp->reports = resp->urgent = true;
    resp->reported = resp->report_end = resp->epsn;
}

bool resp_take_report(struct qp *qp, psn_t unsent, struct kept_map *m)
{
    struct responder *resp = &qp->resp;

    if (!resp->reports)
        return false;
    if (!psn_before(unsent, resp->report_end)) {
        resp->reports = false;
        resp->urgent = resp->repeats;
        return false;
    }
    if (psn_diff(resp->epsn, resp->reported) < REPORT_EVERY || kept_is_refused(resp))
        return false;
    resp->reported = resp->epsn;
    *m = (struct kept_map){.first = resp->epsn, .words = 1};
    return true;
}
