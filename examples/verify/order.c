/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of order: fences, solicited events, sequences of unsignaled requests. */
#include "verify.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#define HALF        (256u << 10)
#define FENCE_BYTES (200u << 10)
#define LINKS       16u
#define LINK_BYTES  3000u
#define CHAINS      8u /* together more work requests than a send queue holds */

static enum outcome open_two_halves(struct session *s, const struct test *t, struct endpoint *ep)
{
    struct endpoint_options opt = {.type = t->type,
                                   .psn = t->how & PSN_WRAP ? PSN_MASK - LINKS : s->seed & PSN_MASK,
                                   .room = 2 * HALF,
                                   .qp_access = -1};

    return endpoint_open(s, ep, &opt);
}

/* A queue pair is destroyed only when the peer has its ACKs: both sides finish first. */
static enum outcome close_both(struct session *s, struct endpoint *ep, enum outcome result)
{
    if (result == PASSED)
        result = peer_exchange(s, NULL, NULL, 0);
    if (result == PASSED)
        result = expect_no_more(s, ep);
    endpoint_close(ep);
    return result;
}

static struct region second_half(const struct region *r)
{
    return (struct region){.bytes = r->bytes + HALF, .length = HALF, .mr = r->mr};
}

static enum outcome post_buffer(struct session *s, struct endpoint *ep, const struct layout *l,
                                const struct region *r, uint64_t wr_id)
{
    struct ibv_sge sge[MAX_PIECES];
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sge, .num_sge = l->pieces};

    layout_sges(l, r, sge);
    return post_recv(s, ep, &wr);
}

/* ---- a fence: the SEND waits for the READ whose data it sends back ---- */

static enum outcome fence_respond(struct session *s, struct endpoint *ep, uint64_t seed)
{
    struct layout source = layout_make(mix(seed, 1), FENCE_BYTES, 1);
    struct layout sink = layout_make(mix(seed, 2), FENCE_BYTES, 1);
    struct region back = second_half(&ep->remote);
    struct target where = {.addr = (uintptr_t)ep->remote.bytes + source.piece[0].offset,
                           .rkey = ep->remote.mr->rkey};
    struct ibv_wc wc;

    region_guard(&ep->remote, &source, seed);
    region_fill(&ep->remote, &source, seed + 1);
    region_guard(&back, &sink, seed + 2);
    TRY(post_buffer(s, ep, &sink, &back, seed));
    TRY(tell_target(s, &where));
    TRY(await_success(s, ep, RECV_SIDE, seed, IBV_WC_RECV, &wc));
    TRY(region_check(s, "what was read and sent back", &back, &sink, 0, FENCE_BYTES, seed + 2,
                     seed + 1));
    return PASSED;
}

static enum outcome fence_request(struct session *s, struct endpoint *ep, uint64_t seed)
{
    struct layout l = layout_make(mix(seed, 3), FENCE_BYTES, 1);
    struct ibv_sge sge;
    struct ibv_send_wr wr[2] = {
        {.wr_id = 1, .next = &wr[1], .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ},
        {.wr_id = 2,
         .sg_list = &sge,
         .num_sge = 1,
         .opcode = IBV_WR_SEND,
         .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE}};
    struct target where;
    struct ibv_wc wc;

    region_guard(&ep->local, &l, seed);
    layout_sges(&l, &ep->local, &sge);
    TRY(hear_target(s, &where));
    wr[0].wr.rdma.remote_addr = where.addr;
    wr[0].wr.rdma.rkey = where.rkey;
    TRY(post_send(s, ep, wr));
    TRY(await_success(s, ep, SEND_SIDE, 2, IBV_WC_SEND, &wc));
    s->moved += 2;
    return PASSED;
}

enum outcome fence(struct session *s, const struct test *t, bool requester)
{
    enum outcome result = PASSED;
    struct endpoint ep;

    TRY(open_two_halves(s, t, &ep));
    for (unsigned i = 0; i < s->opt.rounds && result == PASSED; i++) {
        uint64_t seed = mix(s->seed, i);

        result = requester ? fence_request(s, &ep, seed) : fence_respond(s, &ep, seed);
    }
    return close_both(s, &ep, result);
}

/* ---- many requests in one call; only the last requests a completion ---- */

static enum outcome chain_respond(struct session *s, struct endpoint *ep, uint64_t seed)
{
    struct layout l = layout_make(mix(seed, 1), LINKS * LINK_BYTES, 1);
    struct target where = {.addr = (uintptr_t)ep->remote.bytes + l.piece[0].offset,
                           .rkey = ep->remote.mr->rkey};
    struct ibv_recv_wr wr = {.wr_id = seed};
    struct ibv_wc wc;

    region_guard(&ep->remote, &l, seed);
    TRY(post_recv(s, ep, &wr));
    TRY(tell_target(s, &where));
    TRY(await_success(s, ep, RECV_SIDE, seed, IBV_WC_RECV, &wc));
    if (wc.byte_len || wc.imm_data != htonl((uint32_t)seed))
        return fail(s, "byte_len %u, imm_data 0x%x", wc.byte_len, ntohl(wc.imm_data));
    /* Data that was written before the message is there when the message is. */
    TRY(region_check(s, "the responder's memory", &ep->remote, &l, 0, LINKS * LINK_BYTES, seed,
                     seed + 1));
    return PASSED;
}

static enum outcome chain_request(struct session *s, struct endpoint *ep, uint64_t seed)
{
    struct layout l = layout_make(mix(seed, 2), LINKS * LINK_BYTES, 1);
    struct ibv_sge sge[LINKS];
    struct ibv_send_wr wr[LINKS + 1];
    struct target where;
    struct ibv_wc wc;

    region_guard(&ep->local, &l, seed);
    region_fill(&ep->local, &l, seed + 1);
    TRY(hear_target(s, &where));
    for (unsigned i = 0; i < LINKS; i++) {
        sge[i] = (struct ibv_sge){.addr = (uintptr_t)ep->local.bytes + l.piece[0].offset +
                                          (uint64_t)i * LINK_BYTES,
                                  .length = LINK_BYTES,
                                  .lkey = ep->local.mr->lkey};
        wr[i] = (struct ibv_send_wr){
            .wr_id = i,
            .next = &wr[i + 1],
            .sg_list = &sge[i],
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_WRITE,
            .wr.rdma = {.remote_addr = where.addr + (uint64_t)i * LINK_BYTES, .rkey = where.rkey}};
    }
    wr[LINKS] = (struct ibv_send_wr){.wr_id = seed,
                                     .opcode = IBV_WR_SEND_WITH_IMM,
                                     .send_flags = IBV_SEND_SIGNALED,
                                     .imm_data = htonl((uint32_t)seed)};
    TRY(post_send(s, ep, wr));
    TRY(await_success(s, ep, SEND_SIDE, seed, IBV_WC_SEND, &wc));
    s->moved += LINKS + 1;
    return PASSED;
}

enum outcome chain(struct session *s, const struct test *t, bool requester)
{
    enum outcome result = PASSED;
    struct endpoint ep;

    TRY(open_two_halves(s, t, &ep));
    for (unsigned i = 0; i < CHAINS && result == PASSED; i++) {
        uint64_t seed = mix(s->seed, i);

        result = requester ? chain_request(s, &ep, seed) : chain_respond(s, &ep, seed);
    }
    return close_both(s, &ep, result);
}

/* ---- solicited events: a queue that is armed for them sleeps through other messages ---- */

static bool event_waits(const struct endpoint *ep, int ms)
{
    struct pollfd wait = {.fd = ep->channel[RECV_SIDE]->fd, .events = POLLIN};

    return poll(&wait, 1, ms) == 1;
}

static enum outcome solicited_respond(struct session *s, struct endpoint *ep)
{
    struct ibv_recv_wr wr = {.wr_id = 0};
    struct ibv_cq *cq;
    void *context;
    struct ibv_wc wc;

    for (wr.wr_id = 1; wr.wr_id <= 2; wr.wr_id++)
        TRY(post_recv(s, ep, &wr));
    if (ibv_req_notify_cq(ep->cq[RECV_SIDE], 1))
        return fail(s, "ibv_req_notify_cq: %s", strerror(errno));
    TRY(peer_tell(s, NULL, 0));
    TRY(peer_hear(s, NULL, 0)); /* the first one was acknowledged: it has been received */
    if (event_waits(ep, 0))
        return fail(s, "an event for a message that was sent without IBV_SEND_SOLICITED");
    TRY(peer_tell(s, NULL, 0));
    if (!event_waits(ep, WAIT_MS))
        return fail(s, "no event for a message that was sent with IBV_SEND_SOLICITED");
    if (ibv_get_cq_event(ep->channel[RECV_SIDE], &cq, &context))
        return fail(s, "ibv_get_cq_event: %s", strerror(errno));
    ibv_ack_cq_events(cq, 1);
    TRY(await_success(s, ep, RECV_SIDE, 1, IBV_WC_RECV, &wc));
    return await_success(s, ep, RECV_SIDE, 2, IBV_WC_RECV, &wc);
}

static enum outcome solicited_request(struct session *s, struct endpoint *ep)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_wc wc;

    for (wr.wr_id = 1; wr.wr_id <= 2; wr.wr_id++) {
        TRY(peer_hear(s, NULL, 0));
        TRY(post_send(s, ep, &wr));
        TRY(await_success(s, ep, SEND_SIDE, wr.wr_id, IBV_WC_SEND, &wc));
        if (wr.wr_id == 1)
            TRY(peer_tell(s, NULL, 0));
        wr.send_flags |= IBV_SEND_SOLICITED;
        s->moved++;
    }
    return PASSED;
}

enum outcome solicited(struct session *s, const struct test *t, bool requester)
{
    enum outcome result;
    struct endpoint ep;

    TRY(open_two_halves(s, t, &ep));
    result = requester ? solicited_request(s, &ep) : solicited_respond(s, &ep);
    return close_both(s, &ep, result);
}
