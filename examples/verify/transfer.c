/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One message, by any of the operations of RDMA:
 *
 *   requester                       responder
 *                                   prepares memory, posts a receive if the operation needs one
 *                                   sends the target (address, key)
 *   posts, awaits its completion    awaits the receive's completion
 *   reports that it is done         checks every byte, reports whether the message came
 *   checks its own memory
 */
#include "verify.h"

#include <arpa/inet.h>
#include <string.h>

#define TRIES         5  /* an unreliable service may lose a message */
#define SLACK         13 /* a receive buffer may be longer than the message */
#define WINDOW_LEAST  8
#define SCATTER_PARTS 3

/* The parameters of one message, which both sides know. */
struct turn {
    const struct test *test;
    struct endpoint *ep;
    struct window window;
    uint32_t size, imm;
    struct layout local, remote; /* at the requester, at the responder */
    uint64_t data, guard_local, guard_remote, send_id, recv_id;
};

static bool is_send(enum ibv_wr_opcode op)
{
    return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_SEND_WITH_INV;
}

static bool has_imm(enum ibv_wr_opcode op)
{
    return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* An unreliable WRITE has no completion at the responder. A SEND after it has one. */
static bool needs_marker(const struct test *t)
{
    return t->type == IBV_QPT_UC && t->op == IBV_WR_RDMA_WRITE;
}

static struct turn make_turn(const struct session *s, const struct test *t, struct endpoint *ep,
                             uint32_t size, uint64_t number)
{
    uint64_t seed = mix(s->seed, number);
    unsigned parts = t->how & SGES ? SCATTER_PARTS : 1;
    struct turn turn = {.test = t,
                        .ep = ep,
                        .size = size,
                        .imm = mix(seed, 0),
                        .data = mix(seed, 1),
                        .guard_local = mix(seed, 2),
                        .guard_remote = mix(seed, 3),
                        .send_id = mix(seed, 4),
                        .recv_id = mix(seed, 5)};

    turn.local = layout_make(mix(seed, 6), size, parts);
    turn.remote = layout_make(mix(seed, 7), size, is_send(t->op) ? parts : 1);
    if (is_send(t->op) && turn.remote.pieces && mix(seed, 8) & 1) {
        turn.remote.piece[turn.remote.pieces - 1].length += SLACK;
        turn.remote.extent += SLACK;
    }
    return turn;
}

/* ---- the responder ---- */

static enum outcome post_receive(struct session *s, struct turn *turn)
{
    struct ibv_sge sge[MAX_PIECES + 1];
    struct ibv_recv_wr wr = {.wr_id = turn->recv_id, .sg_list = sge};

    if (is_send(turn->test->op)) {
        if (turn->test->type == IBV_QPT_UD)
            sge[wr.num_sge++] = (struct ibv_sge){.addr = (uintptr_t)turn->ep->remote.bytes,
                                                 .length = GRH_BYTES,
                                                 .lkey = turn->ep->remote.mr->lkey};
        layout_sges(&turn->remote, &turn->ep->remote, sge + wr.num_sge);
        wr.num_sge += turn->remote.pieces;
    }
    return post_recv(s, turn->ep, &wr);
}

static enum outcome prepare(struct session *s, struct turn *turn)
{
    const struct test *t = turn->test;
    struct region *r = &turn->ep->remote;
    uint32_t offset = turn->remote.pieces ? turn->remote.piece[0].offset : 0;
    uint32_t length = turn->size < WINDOW_LEAST ? WINDOW_LEAST : turn->size;
    struct target where = {.addr = (uintptr_t)r->bytes + offset, .rkey = r->mr->rkey};

    region_guard(r, &turn->remote, turn->guard_remote);
    if (t->op == IBV_WR_RDMA_READ)
        region_fill(r, &turn->remote, turn->data);
    if (t->how & (WINDOW_1 | WINDOW_2)) {
        TRY(window_bind(s, turn->ep, &turn->window,
                        t->how & WINDOW_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2,
                        (uintptr_t)r->bytes + offset, length));
        where.rkey = turn->window.mw->rkey;
    }
    if (is_send(t->op) || has_imm(t->op) || needs_marker(t))
        TRY(post_receive(s, turn));
    return tell_target(s, &where);
}

/* Of RoCEv2 the packet's IP header is where a GRH would be; of IPv4 in the last 20 bytes. */
static enum outcome check_grh(struct session *s, const uint8_t *grh)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (s->is_roce_v1 || memcmp(s->gid.raw, mapped, sizeof(mapped))) {
        if (grh[0] >> 4 != 6 || memcmp(grh + 8, s->peer_gid.raw, 16) ||
            memcmp(grh + 24, s->gid.raw, 16))
            return fail(s, "the GRH is not an IPv6 header from the peer to us");
    } else if (grh[20] != 0x45 || memcmp(grh + 32, s->peer_gid.raw + 12, 4) ||
               memcmp(grh + 36, s->gid.raw + 12, 4)) {
        return fail(s, "the GRH does not end in an IPv4 header from the peer to us");
    }
    return PASSED;
}

static enum outcome check_received(struct session *s, struct turn *turn, const struct ibv_wc *wc)
{
    const struct test *t = turn->test;
    bool ud = t->type == IBV_QPT_UD, inv = t->op == IBV_WR_SEND_WITH_INV;
    uint32_t length = (needs_marker(t) ? 0 : turn->size) + (ud ? GRH_BYTES : 0);
    unsigned flags = wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV);

    if (wc->byte_len != length)
        return fail(s, "byte_len is %u instead of %u", wc->byte_len, length);
    if (inv && !flags && (wc->wc_flags & IBV_WC_IP_CSUM_OK))
        flags = IBV_WC_WITH_INV; /* rxe gives programs the kernel's value of this flag */
    if (flags != (has_imm(t->op) ? IBV_WC_WITH_IMM : inv ? IBV_WC_WITH_INV : 0u))
        return fail(s, "wc_flags is 0x%x", wc->wc_flags);
    if (has_imm(t->op) && wc->imm_data != htonl(turn->imm))
        return fail(s, "imm_data is 0x%x instead of 0x%x", ntohl(wc->imm_data), turn->imm);
    if (inv && wc->invalidated_rkey != turn->window.mw->rkey)
        return fail(s, "invalidated_rkey is 0x%x instead of 0x%x", wc->invalidated_rkey,
                    turn->window.mw->rkey);
    if (ud && !(wc->wc_flags & IBV_WC_GRH))
        return fail(s, "wc_flags 0x%x is without IBV_WC_GRH", wc->wc_flags);
    if (ud && wc->src_qp != turn->ep->theirs.qpn)
        return fail(s, "src_qp is 0x%x instead of 0x%x", wc->src_qp, turn->ep->theirs.qpn);
    return ud ? check_grh(s, turn->ep->remote.bytes) : PASSED;
}

static enum outcome receive(struct session *s, struct turn *turn)
{
    enum ibv_wc_opcode opcode =
        turn->test->op == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    struct ibv_wc wc;

    TRY(await_success(s, turn->ep, RECV_SIDE, turn->recv_id, opcode, &wc));
    return check_received(s, turn, &wc);
}

static enum outcome respond(struct session *s, struct turn *turn)
{
    const struct test *t = turn->test;
    enum outcome result = PASSED;
    uint8_t verdict;

    TRY(prepare(s, turn));
    if (is_send(t->op) || has_imm(t->op) || needs_marker(t))
        result = receive(s, turn);
    if (result != PASSED && result != LOST)
        return result;
    TRY(peer_hear(s, NULL, 0));
    if (result == PASSED)
        result = region_check(s, "the responder's memory", &turn->ep->remote, &turn->remote,
                              t->type == IBV_QPT_UD ? GRH_BYTES : 0, turn->size, turn->guard_remote,
                              turn->data);
    if (result == FAILED && needs_marker(t))
        result = LOST; /* the marker may come although packets of the WRITE did not */
    if (result == FAILED)
        return FAILED;
    if (turn->window.mw && t->op != IBV_WR_SEND_WITH_INV)
        TRY(window_unbind(s, turn->ep, &turn->window));
    verdict = result;
    TRY(peer_tell(s, &verdict, 1));
    return result;
}

/* ---- the requester ---- */

static enum outcome post_request(struct session *s, struct turn *turn)
{
    const struct test *t = turn->test;
    struct target where;
    struct ibv_sge sge[MAX_PIECES];
    struct ibv_send_wr wr[2] = {{.wr_id = turn->send_id,
                                 .sg_list = sge,
                                 .num_sge = turn->local.pieces,
                                 .opcode = t->op,
                                 .send_flags = IBV_SEND_SIGNALED},
                                {.wr_id = turn->send_id + 1, .opcode = IBV_WR_SEND}};

    TRY(hear_target(s, &where));
    layout_sges(&turn->local, &turn->ep->local, sge);
    if (t->how & INLINE)
        wr[0].send_flags |= IBV_SEND_INLINE;
    if (has_imm(t->op))
        wr[0].imm_data = htonl(turn->imm);
    if (t->op == IBV_WR_SEND_WITH_INV)
        wr[0].invalidate_rkey = where.rkey;
    if (!is_send(t->op)) {
        wr[0].wr.rdma.remote_addr = where.addr;
        wr[0].wr.rdma.rkey = where.rkey;
    }
    if (needs_marker(t))
        wr[0].next = &wr[1];
    return post_send(s, turn->ep, wr);
}

static enum ibv_wc_opcode completes_as(enum ibv_wr_opcode op)
{
    return op == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ
           : is_send(op)          ? IBV_WC_SEND
                                  : IBV_WC_RDMA_WRITE;
}

static enum outcome request(struct session *s, struct turn *turn)
{
    const struct test *t = turn->test;
    struct region *r = &turn->ep->local;
    bool inlined = t->how & INLINE;
    uint8_t verdict;
    struct ibv_wc wc;

    region_guard(r, &turn->local, turn->guard_local);
    if (t->op != IBV_WR_RDMA_READ)
        region_fill(r, &turn->local, turn->data);
    TRY(post_request(s, turn));
    if (inlined) /* the buffer is ours again as soon as the request is posted */
        region_guard(r, &turn->local, turn->guard_local);
    TRY(await_success(s, turn->ep, SEND_SIDE, turn->send_id, completes_as(t->op), &wc));
    if (t->op == IBV_WR_RDMA_READ && wc.byte_len != turn->size)
        return fail(s, "byte_len of a READ is %u instead of %u", wc.byte_len, turn->size);
    TRY(region_check(s, "the requester's memory", r, &turn->local, 0, inlined ? 0 : turn->size,
                     turn->guard_local, turn->data));
    TRY(peer_tell(s, NULL, 0));
    TRY(peer_hear(s, &verdict, 1));
    return verdict == PASSED ? PASSED : LOST; /* every other result has ended the test */
}

/* ---- all sizes ---- */

static bool size_suits(const struct session *s, const struct test *t, uint32_t size)
{
    if (t->type == IBV_QPT_UD && size > s->mtu)
        return false;
    /* A window that is bound to no bytes is unbound. */
    return size || is_send(t->op) || !(t->how & (WINDOW_1 | WINDOW_2));
}

/* Half of a message's packets are before the wrap. */
static uint32_t first_psn(const struct session *s, const struct test *t, uint32_t size)
{
    if (!(t->how & PSN_WRAP))
        return s->seed & PSN_MASK;
    return PSN_MASK - size / s->mtu / 2;
}

static enum outcome open_for(struct session *s, const struct test *t, struct endpoint *ep,
                             uint32_t size, size_t room)
{
    struct endpoint_options opt = {.type = t->type,
                                   .srq = t->how & SHARED,
                                   .psn = first_psn(s, t, size),
                                   .room = room,
                                   .qp_access = -1};

    return endpoint_open(s, ep, &opt);
}

/* One size, repeated when the message was lost. */
static enum outcome one_size(struct session *s, const struct test *t, struct endpoint *ep,
                             bool requester, uint32_t size, uint64_t number)
{
    enum outcome result = LOST;

    for (unsigned i = 0; i < TRIES && result == LOST; i++) {
        struct turn turn;

        if (i || (t->how & PSN_WRAP)) { /* new queue pairs, which cannot receive old packets */
            size_t room = ep->opt.room;

            endpoint_close(ep);
            TRY(open_for(s, t, ep, size, room));
        }
        turn = make_turn(s, t, ep, size, number);
        result = requester ? request(s, &turn) : respond(s, &turn);
        window_close(&turn.window);
        s->lost += result == LOST;
    }
    if (result == LOST)
        return fail(s, "%u bytes were lost %u times in a row", size, TRIES);
    s->moved += result == PASSED;
    return result;
}

enum outcome transfers(struct session *s, const struct test *t, bool requester)
{
    static const uint32_t inline_sizes[] = {0, 1, 2, 3, 8, 31, 32, 33, 63, 64};
    const uint32_t *size = t->how & INLINE ? inline_sizes : s->opt.size;
    unsigned sizes = t->how & INLINE ? sizeof(inline_sizes) / sizeof(uint32_t) : s->opt.sizes;
    enum outcome result;
    struct endpoint ep;
    uint32_t most = 0;
    bool any = false;

    for (unsigned i = 0; i < sizes; i++) {
        if (!size_suits(s, t, size[i]))
            continue;
        any = true;
        most = size[i] > most ? size[i] : most;
    }
    if (!any)
        return skip(s, "none of the sizes suits it");
    TRY(open_for(s, t, &ep, 0, layout_room(most + SLACK)));
    result = PASSED;
    for (uint64_t i = 0; i < (uint64_t)s->opt.rounds * sizes && result == PASSED; i++) {
        if (size_suits(s, t, size[i % sizes]))
            result = one_size(s, t, &ep, requester, size[i % sizes], i);
    }
    if (result == PASSED)
        result = expect_no_more(s, &ep);
    endpoint_close(&ep);
    return result;
}
