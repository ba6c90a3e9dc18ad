/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything at the same time: both sides post a list of WRITEs, READs, atomics and SENDs of all
 * lengths in one call. Both are thereby requester and responder, with more READs than may be
 * outstanding.
 *
 * One in eight is empty, if 0 is among the sizes.
 *
 * Request i uses slot i of the requester's local region and slot i of the responder's remote one.
 * Their contents follow from the requester's seed, which both sides know.
 */
#include "verify.h"

#include <arpa/inet.h>
#include <string.h>

#define REQUESTS  48u
#define SLOT      12288u /* a multiple of 8, and more than a layout of MOST bytes */
#define MOST      9000u
#define KINDS     4u
#define WORD_SLOT 2u /* the first one of an atomic has the word of all of them */

enum { OF_LENGTH = 1000, OF_DATA = 2000, OF_LOCAL = 3000, OF_REMOTE = 4000, OF_ADD = 5000 };
enum { GUARD, WORD };

static const enum ibv_wr_opcode kinds[KINDS] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_IMM};
static const enum ibv_wc_opcode completions[KINDS] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,
                                                      IBV_WC_FETCH_ADD, IBV_WC_SEND};

static enum ibv_wr_opcode kind(unsigned i)
{
    return kinds[i % KINDS];
}

static bool is_atomic(unsigned i)
{
    return kind(i) == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool may_be_empty(const struct session *s)
{
    for (unsigned i = 0; i < s->opt.sizes; i++)
        if (s->opt.size[i] == 0)
            return true;
    return false;
}

static uint32_t length_of(const struct session *s, uint64_t seed, unsigned i)
{
    uint64_t n = mix(seed, OF_LENGTH + i);

    if (is_atomic(i))
        return 8;
    return (n & 7) == 0 && may_be_empty(s) ? 0 : (n >> 8) % MOST + 1;
}

static struct layout layout_of(const struct session *s, uint64_t seed, unsigned of, unsigned i)
{
    return layout_make(mix(seed, of + i), length_of(s, seed, i), 1);
}

static struct region slot(const struct region *r, unsigned i)
{
    return (struct region){.bytes = r->bytes + i * SLOT, .length = SLOT, .mr = r->mr};
}

static uint64_t word_before(uint64_t seed, unsigned request)
{
    uint64_t value = mix(seed, WORD);

    for (unsigned i = 0; i < request; i++)
        value += is_atomic(i) ? mix(seed, OF_ADD + i) : 0;
    return value;
}

/* ---- the responder's part: for the peer's requests, of its seed ---- */

static enum outcome prepare(struct session *s, struct endpoint *ep, uint64_t seed)
{
    uint64_t word = mix(seed, WORD);

    for (unsigned i = 0; i < REQUESTS; i++) {
        struct layout l = layout_of(s, seed, OF_REMOTE, i);
        struct region r = slot(&ep->remote, i);
        struct ibv_sge sge[MAX_PIECES];
        struct ibv_recv_wr wr = {.wr_id = i, .sg_list = sge, .num_sge = l.pieces};

        region_guard(&r, &l, mix(seed, GUARD));
        if (kind(i) == IBV_WR_RDMA_READ)
            region_fill(&r, &l, mix(seed, OF_DATA + i));
        layout_sges(&l, &r, sge);
        if (kind(i) == IBV_WR_SEND_WITH_IMM)
            TRY(post_recv(s, ep, &wr));
    }
    memcpy(slot(&ep->remote, WORD_SLOT).bytes, &word, 8);
    return PASSED;
}

static enum outcome await_receives(struct session *s, struct endpoint *ep, uint64_t seed)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct ibv_wc wc;

        if (kind(i) != IBV_WR_SEND_WITH_IMM)
            continue;
        TRY(await_success(s, ep, RECV_SIDE, i, IBV_WC_RECV, &wc));
        if (wc.byte_len != length_of(s, seed, i) || wc.imm_data != htonl(i))
            return fail(s, "receive %u: byte_len %u instead of %u, imm_data 0x%x", i, wc.byte_len,
                        length_of(s, seed, i), ntohl(wc.imm_data));
    }
    return PASSED;
}

static enum outcome check_remote(struct session *s, struct endpoint *ep, uint64_t seed)
{
    struct region first = slot(&ep->remote, WORD_SLOT);
    uint64_t word;

    memcpy(&word, first.bytes, 8);
    if (word != word_before(seed, REQUESTS))
        return fail(s, "the sum of all atomics is wrong");
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct layout l = layout_of(s, seed, OF_REMOTE, i);
        struct region r = slot(&ep->remote, i);

        if (is_atomic(i))
            l.pieces = 0;
        TRY(region_check(s, "the responder's memory", &r, &l, i == WORD_SLOT ? 8 : 0,
                         length_of(s, seed, i), mix(seed, GUARD), mix(seed, OF_DATA + i)));
    }
    return PASSED;
}

/* ---- the requester's ---- */

static void make_request(const struct session *s, struct endpoint *ep, uint64_t seed,
                         const struct target *where, unsigned i, struct ibv_send_wr *wr,
                         struct ibv_sge *sge)
{
    struct layout l = layout_of(s, seed, OF_LOCAL, i), far = layout_of(s, seed, OF_REMOTE, i);
    struct region r = slot(&ep->local, i);
    uint64_t there = where->addr + i * SLOT + (far.pieces ? far.piece[0].offset : 0);

    region_guard(&r, &l, mix(seed, GUARD));
    if (kind(i) == IBV_WR_RDMA_WRITE || kind(i) == IBV_WR_SEND_WITH_IMM)
        region_fill(&r, &l, mix(seed, OF_DATA + i));
    layout_sges(&l, &r, sge);
    *wr = (struct ibv_send_wr){.wr_id = i,
                               .next = i + 1 < REQUESTS ? wr + 1 : NULL,
                               .sg_list = sge,
                               .num_sge = l.pieces,
                               .opcode = kind(i),
                               .send_flags = IBV_SEND_SIGNALED,
                               .imm_data = htonl(i)};
    if (is_atomic(i)) {
        wr->wr.atomic.remote_addr = where->addr + WORD_SLOT * SLOT;
        wr->wr.atomic.rkey = where->rkey;
        wr->wr.atomic.compare_add = mix(seed, OF_ADD + i);
    } else if (kind(i) != IBV_WR_SEND_WITH_IMM) {
        wr->wr.rdma.remote_addr = there;
        wr->wr.rdma.rkey = where->rkey;
    }
}

static enum outcome check_local(struct session *s, struct endpoint *ep, uint64_t seed)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct layout l = layout_of(s, seed, OF_LOCAL, i);
        struct region r = slot(&ep->local, i);
        uint64_t found;

        if (is_atomic(i)) {
            memcpy(&found, r.bytes + l.piece[0].offset, 8);
            if (found != word_before(seed, i))
                return fail(s, "atomic %u did not return the sum of those before it", i);
            region_fill(&r, &l, mix(seed, OF_DATA + i));
        }
        TRY(region_check(s, "the requester's memory", &r, &l, 0, length_of(s, seed, i),
                         mix(seed, GUARD), mix(seed, OF_DATA + i)));
    }
    return PASSED;
}

static enum outcome run(struct session *s, struct endpoint *ep, uint64_t mine, uint64_t theirs)
{
    struct target where = {.addr = (uintptr_t)ep->remote.bytes, .rkey = ep->remote.mr->rkey};
    struct ibv_send_wr wr[REQUESTS];
    struct ibv_sge sge[REQUESTS];
    struct ibv_wc wc;

    TRY(prepare(s, ep, theirs));
    TRY(tell_target(s, &where));
    TRY(hear_target(s, &where));
    for (unsigned i = 0; i < REQUESTS; i++)
        make_request(s, ep, mine, &where, i, &wr[i], &sge[i]);
    TRY(post_send(s, ep, wr));
    for (unsigned i = 0; i < REQUESTS; i++)
        TRY(await_success(s, ep, SEND_SIDE, i, completions[i % KINDS], &wc));
    TRY(await_receives(s, ep, theirs));
    TRY(check_local(s, ep, mine));
    TRY(peer_exchange(s, NULL, NULL, 0)); /* now the peer's requests are complete too */
    TRY(check_remote(s, ep, theirs));
    s->moved += REQUESTS;
    return expect_no_more(s, ep);
}

enum outcome mixed(struct session *s, const struct test *t, bool requester)
{
    struct endpoint_options opt = {.type = t->type,
                                   .srq = t->how & SHARED,
                                   .psn =
                                       t->how & PSN_WRAP ? PSN_MASK - REQUESTS : s->seed & PSN_MASK,
                                   .room = REQUESTS * SLOT,
                                   .qp_access = -1};
    enum outcome result = PASSED;
    struct endpoint ep;

    if (s->device.atomic_cap == IBV_ATOMIC_NONE)
        return skip(s, "the device has no atomic operations");
    TRY(endpoint_open(s, &ep, &opt));
    for (unsigned i = 0; i < s->opt.rounds && result == PASSED; i++)
        result = run(s, &ep, mix(s->seed, 2 * i + requester), mix(s->seed, 2 * i + !requester));
    endpoint_close(&ep);
    return result;
}
