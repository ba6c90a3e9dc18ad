/* SPDX-License-Identifier: BSD-3-Clause */
/* Connecting queue pairs, posting to them and waiting for completions. */
#include "verify.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#define RNR_TIMER   12 /* 0.64 ms */
#define RNR_FOREVER 7
#define HOP_LIMIT   64

static enum outcome modify(struct session *s, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int err = ibv_modify_qp(qp, attr, mask);

    return err ? fail(s, "queue pair to %s: %s", state_name(attr->qp_state), strerror(err))
               : PASSED;
}

static bool is_connected(const struct ibv_qp *qp)
{
    return qp->qp_type != IBV_QPT_UD;
}

static bool is_reliable(const struct ibv_qp *qp)
{
    return qp->qp_type != IBV_QPT_UD && qp->qp_type != IBV_QPT_UC;
}

/* Responds to READs and atomics, and sends RNR NAKs. */
static bool responds(const struct ibv_qp *qp)
{
    return qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV;
}

static struct ibv_ah_attr path(const struct session *s)
{
    return (struct ibv_ah_attr){
        .is_global = 1,
        .port_num = s->port_num,
        .grh = {.dgid = s->peer_gid, .sgid_index = s->opt.gid_index, .hop_limit = HOP_LIMIT}};
}

static enum outcome to_init(struct session *s, const struct endpoint *ep, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = s->port_num, .qkey = UD_QKEY};
    int rights = !is_reliable(qp)          ? IBV_ACCESS_REMOTE_WRITE
                 : ep->opt.qp_access == -1 ? REMOTE_RIGHTS
                                           : ep->opt.qp_access;

    attr.qp_access_flags = rights;
    return modify(s, qp, &attr,
                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                      (is_connected(qp) ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY));
}

static enum outcome to_rtr(struct session *s, struct ibv_qp *qp, uint32_t dest_qpn, uint32_t rq_psn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .dest_qp_num = dest_qpn,
                               .rq_psn = rq_psn,
                               .max_dest_rd_atomic = s->rd_atomic,
                               .min_rnr_timer = RNR_TIMER,
                               .ah_attr = path(s)};
    int mask = IBV_QP_STATE;

    while (128u << attr.path_mtu < s->mtu)
        attr.path_mtu++;
    if (is_connected(qp))
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (responds(qp))
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return modify(s, qp, &attr, mask);
}

static enum outcome to_rts(struct session *s, const struct endpoint *ep, struct ibv_qp *qp)
{
    bool long_timer = !ep->opt.timeout;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .sq_psn = ep->opt.psn,
                               .timeout = long_timer ? PATIENT_TIMER : ep->opt.timeout,
                               .retry_cnt = long_timer ? PATIENT_RETRIES : ep->opt.retry_cnt,
                               .rnr_retry = long_timer ? RNR_FOREVER : ep->opt.rnr_retry,
                               .max_rd_atomic = s->rd_atomic};
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (is_reliable(qp))
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return modify(s, qp, &attr, mask);
}

static enum outcome exchange(struct session *s, struct endpoint *ep)
{
    const struct address *m = &ep->mine;
    uint32_t mine[4] = {htonl(m->qpn), htonl(m->recv_qpn), htonl(m->srqn), htonl(m->psn)};
    uint32_t theirs[4];

    TRY(peer_exchange(s, mine, theirs, sizeof(mine)));
    ep->theirs = (struct address){.qpn = ntohl(theirs[0]),
                                  .recv_qpn = ntohl(theirs[1]),
                                  .srqn = ntohl(theirs[2]),
                                  .psn = ntohl(theirs[3])};
    return PASSED;
}

enum outcome endpoint_connect(struct session *s, struct endpoint *ep)
{
    struct ibv_ah_attr to_peer = path(s);

    TRY(exchange(s, ep));
    TRY(to_init(s, ep, ep->qp));
    TRY(to_rtr(s, ep->qp, ep->theirs.recv_qpn, ep->theirs.psn));
    TRY(to_rts(s, ep, ep->qp));
    if (ep->recv_qp != ep->qp) { /* only receives: stays in RTR */
        TRY(to_init(s, ep, ep->recv_qp));
        TRY(to_rtr(s, ep->recv_qp, ep->theirs.qpn, ep->theirs.psn));
    }
    if (!is_connected(ep->qp)) {
        ep->ah = ibv_create_ah(ep->pd, &to_peer);
        if (!ep->ah)
            return fail(s, "address handle: %s", strerror(errno));
    }
    return peer_exchange(s, NULL, NULL,
                         0); /* both queue pairs are ready before either side sends */
}

enum outcome tell_target(struct session *s, const struct target *target)
{
    uint64_t words[2] = {htobe64(target->addr), htobe64(target->rkey)};

    return peer_tell(s, words, sizeof(words));
}

enum outcome hear_target(struct session *s, struct target *target)
{
    uint64_t words[2];

    TRY(peer_hear(s, words, sizeof(words)));
    target->addr = be64toh(words[0]);
    target->rkey = be64toh(words[1]);
    return PASSED;
}

enum outcome post_send(struct session *s, struct endpoint *ep, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    int err;

    for (struct ibv_send_wr *w = wr; w; w = w->next) {
        if (ep->ah) {
            w->wr.ud.ah = ep->ah;
            w->wr.ud.remote_qpn = ep->theirs.qpn;
            w->wr.ud.remote_qkey = UD_QKEY;
        }
        if (ep->opt.type == IBV_QPT_XRC_SEND)
            w->qp_type.xrc.remote_srqn = ep->theirs.srqn;
    }
    err = ibv_post_send(ep->qp, wr, &bad);
    if (err && unsupported(err))
        return skip(s, "ibv_post_send: %s", strerror(err));
    return err ? fail(s, "ibv_post_send: %s", strerror(err)) : PASSED;
}

enum outcome post_recv(struct session *s, struct endpoint *ep, struct ibv_recv_wr *wr)
{
    struct ibv_recv_wr *bad;
    int err = ep->srq ? ibv_post_srq_recv(ep->srq, wr, &bad) : ibv_post_recv(ep->qp, wr, &bad);

    return err ? fail(s, "ibv_post_%srecv: %s", ep->srq ? "srq_" : "", strerror(err)) : PASSED;
}

/* ---- completions ---- */

static const char *side_name(int side)
{
    return side == SEND_SIDE ? "send" : "receive";
}

static bool may_be_lost(const struct endpoint *ep, int side)
{
    return side == RECV_SIDE && !is_reliable(ep->qp);
}

static int timeout_ms(const struct endpoint *ep, int side)
{
    return may_be_lost(ep, side) ? LOST_MS : WAIT_MS;
}

/* Sleeps until the channel has an event, and acknowledges it. */
static enum outcome sleep_for_event(struct session *s, struct endpoint *ep, int side, int64_t end)
{
    struct pollfd wait[2] = {{.fd = ep->channel[side]->fd, .events = POLLIN},
                             {.fd = s->peer.fd, .events = POLLRDHUP}};
    int64_t left = end - now_ms();
    struct ibv_cq *cq;
    void *context;

    if (left <= 0 || poll(wait, 2, left) == 0) {
        fail(s, "no completion of a %s within %d s", side_name(side), timeout_ms(ep, side) / 1000);
        return may_be_lost(ep, side) ? LOST : FAILED;
    }
    if (wait[1].revents)
        return fail(s, "the peer is gone");
    if (wait[0].revents) {
        if (ibv_get_cq_event(ep->channel[side], &cq, &context))
            return fail(s, "ibv_get_cq_event: %s", strerror(errno));
        ibv_ack_cq_events(cq, 1);
    }
    return PASSED;
}

enum outcome await_any(struct session *s, struct endpoint *ep, int side, struct ibv_wc *wc)
{
    int64_t end = now_ms() + timeout_ms(ep, side);

    for (;;) {
        /* A completion between polling and arming would raise no event: poll again. */
        for (int armed = 0; armed < 2; armed++) {
            int n = ibv_poll_cq(ep->cq[side], 1, wc);

            if (n < 0)
                return fail(s, "ibv_poll_cq: %s", strerror(-n));
            if (n)
                return PASSED;
            if (!armed && ibv_req_notify_cq(ep->cq[side], 0))
                return fail(s, "ibv_req_notify_cq: %s", strerror(errno));
        }
        TRY(sleep_for_event(s, ep, side, end));
    }
}

enum outcome await_success(struct session *s, struct endpoint *ep, int side, uint64_t wr_id,
                           enum ibv_wc_opcode opcode, struct ibv_wc *wc)
{
    TRY(await_any(s, ep, side, wc));
    if (wc->status != IBV_WC_SUCCESS)
        return fail(s, "a %s completed with %s", side_name(side), status_name(wc->status));
    if (wc->wr_id != wr_id)
        return fail(s, "wr_id is 0x%lx instead of 0x%lx", (unsigned long)wc->wr_id,
                    (unsigned long)wr_id);
    if (wc->opcode != opcode)
        return fail(s, "the completion's opcode is %d instead of %d", wc->opcode, opcode);
    if (ep->opt.type != IBV_QPT_XRC_SEND && wc->qp_num != ep->qp->qp_num)
        return fail(s, "the completion's qp_num is 0x%x instead of 0x%x", wc->qp_num,
                    ep->qp->qp_num);
    return PASSED;
}

enum outcome expect_no_more(struct session *s, struct endpoint *ep)
{
    struct ibv_wc wc;

    for (int side = SEND_SIDE; side <= RECV_SIDE; side++) {
        if (ibv_poll_cq(ep->cq[side], 1, &wc))
            return fail(s, "a completion of a %s too many: wr_id 0x%lx, %s", side_name(side),
                        (unsigned long)wc.wr_id, status_name(wc.status));
    }
    return PASSED;
}
