/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the engine pays for frames that a host floods it with: each kind in a function of its own,
 * cost_KIND, for callgrind. flood_cost.py runs it.
 *
 * A WRITE that the victim has executed is changed into each kind, sealed again where an
 * attacker would, and received in bursts. Between bursts the engine sends what it owes.
 */
#include <stdio.h>

#include "batch_kit.h"
#include "bth.h"
#include "encap_layout.h"
#include "hdr_template.h"

#define PSN 1000

static struct side requester, victim;
static struct frame frames[FRAME_BURST], sent[FRAME_BURST];
static uint8_t bytes[FRAME_BURST][ROOM], sent_bytes[FRAME_BURST][ROOM];
static uint8_t model[ROOM]; /* the valid WRITE that frames are made from */
static uint32_t model_len;
static struct random dice = {1};

static void seal(struct frame *f)
{
    memset(f->data + AT_IP_SUM, 0, 2);
    put_be16(f->data + AT_IP_SUM, (uint16_t)~ipv4_sum(f->data + AT_IP));
    icrc_seal(ICRC_IPV4, f->data + AT_IP, total_of(f) - ICRC_LEN);
}

/* ---- kinds ---- */

static void bad_icrc(struct frame *f)
{
    f->data[f->len - 1] ^= 0x55;
}

static void unknown_qpn(struct frame *f)
{
    put_be24(f->data + AT_BTH + 5, 0x1000 + random_below(&dice, 0xFFFF));
    seal(f);
}

static void bad_opcode(struct frame *f)
{
    f->data[AT_BTH_OPCODE] = 0x1F;
    seal(f);
}

static void other_sender(struct frame *f)
{
    f->data[AT_IP + IPV4_SRC_OFF + 3] ^= 0x40;
    seal(f);
}

/* A WRITE that was executed before: it is acknowledged again. */
static void duplicate(struct frame *f)
{
    put_be24(f->data + AT_BTH_PSN, PSN);
    seal(f);
}

/* A gap: one NAK, then silence. */
static void ahead(struct frame *f)
{
    put_be24(f->data + AT_BTH_PSN, PSN + 1000 + random_below(&dice, 1 << 20));
    seal(f);
}

/* An ACK packet with the syndrome, to a PSN that is not in flight. */
static void forged(struct frame *f, uint8_t syndrome)
{
    f->len = hdr_bth_at(HDR_IPV4) + BTH_LEN + AETH_LEN + ICRC_LEN;
    put_be16(f->data + AT_IP + IPV4_TOTAL_OFF, (uint16_t)(f->len - ETH_LEN));
    put_be16(f->data + AT_UDP + UDP_LENGTH_OFF, (uint16_t)(f->len - ETH_LEN - IPV4_LEN));
    f->data[AT_BTH_OPCODE] = OPCODE(PKT_RC, OP_ACK);
    put_be24(f->data + AT_BTH_PSN, random_below(&dice, 1 << 24));
    put_be32(f->data + AT_BTH_END, (uint32_t)syndrome << 24);
    seal(f);
}

static void forged_nak(struct frame *f)
{
    forged(f, AETH_NAK);
}

static void other_udp(struct frame *f)
{
    put_be16(f->data + AT_UDP + UDP_DPORT_OFF, 9);
    seal(f);
}

static void fragment(struct frame *f)
{
    f->data[AT_IP + IPV4_FRAGMENT_OFF] = 0x20;
    seal(f);
}

static void arp(struct frame *f)
{
    put_be16(f->data + ETH_TYPE_OFF, 0x0806);
    f->len = 60;
}

static void icmp(struct frame *f)
{
    f->data[AT_IP + IPV4_PROTO_OFF] = 1;
    seal(f);
}

/* ---- a flood ---- */

static void prepare(void (*change)(struct frame *f))
{
    make_frames(frames, bytes);
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        memcpy(frames[i].data, model, model_len);
        frames[i].len = model_len;
        change(&frames[i]);
    }
}

static void receive(void)
{
    engine_rx(victim.e, frames, FRAME_BURST, 2);
    make_frames(sent, sent_bytes);
    while (engine_tx(victim.e, sent, FRAME_BURST, 2))
        make_frames(sent, sent_bytes);
}

#define KINDS(X)                                                                               \
    X(bad_icrc)                                                                                \
    X(unknown_qpn)                                                                             \
    X(bad_opcode) X(other_sender) X(duplicate) X(ahead) X(forged_nak) X(other_udp) X(fragment) \
        X(arp) X(icmp)

#define COST(kind)                                                     \
    __attribute__((noinline)) static void cost_##kind(unsigned bursts) \
    {                                                                  \
        while (bursts--)                                               \
            receive();                                                 \
        __asm__ volatile(""); /* the functions stay apart */           \
    }
KINDS(COST)

/* The frame of a WRITE that the victim executes. */
static void make_model(uint32_t len)
{
    struct sqe *e = work_queue_slot(requester.sq, SLOTS, sqe_stride(2, 0), requester.prod++);

    *e =
        (struct sqe){.opcode = SQE_WRITE, .num_sge = 1, .remote_addr = IOVA, .rkey = victim.mr.key};
    *(struct sge *)(e + 1) = (struct sge){.addr = IOVA, .length = len, .lkey = requester.mr.key};
    atomic_store(&requester.shared->sq_prod, requester.prod);
    engine_doorbell(requester.e, requester.qp, 1);
    make_frames(frames, bytes);
    if (engine_tx(requester.e, frames, FRAME_BURST, 1) != 1)
        exit(1);
    model_len = frames[0].len;
    memcpy(model, frames[0].data, model_len);
    engine_rx(victim.e, frames, 1, 1);
}

int main(int argc, char **argv)
{
    unsigned bursts = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    uint32_t len = argc > 2 ? (uint32_t)atoi(argv[2]) : 64;

    side_init(&requester, 1, 128, ALL_RIGHTS, 0);
    side_init(&victim, 2, 128, ALL_RIGHTS, 0);
    connect_to(&requester, &victim, ALL_RIGHTS, PSN);
    connect_to(&victim, &requester, ALL_RIGHTS, PSN);
    make_model(len);
#define RUN(kind)  \
    prepare(kind); \
    cost_##kind(bursts);
    KINDS(RUN)
    return 0;
}
