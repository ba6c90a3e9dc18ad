/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each function runs its stage this many times on the same bytes. Callgrind's inclusive count,
 * divided by the number, is the cost of the stage (and a loop's two or three instructions).
 */
#include "stage_cost.h"

#include <stdio.h>
#include <stdlib.h>

#include "comp_queue.h"
#include "hdr_template.h"
#include "mr_check.h"
#include "pkt.h"

#define STAGE   __attribute__((noinline)) static void
#define PAYLOAD 64
#define ROOM    (ENCAP_MAX_LEN + PKT_MAX_HEADER + PKT_MTU_MAX + 8)
#define PD      1
#define QPN     0x11
#define CQ_SIZE 256

/* Keeps the compiler from removing a value, or from moving it out of the loop. */
#define USE(value) __asm__ volatile("" : : "r"(value) : "memory")

_Noreturn static void broken(const char *stage)
{
    fprintf(stderr, "%s does not do what it is measured for\n", stage);
    exit(1);
}

static struct world {
    uint8_t frame[ROOM];
    struct gid_table gids;
    struct encap_port port;
    struct encap_template out;
    struct hdr_template expect;
    struct pkt pkt;
    size_t bth_len, len;
    struct mr_table mrs;
    struct mr_cache cache;
    struct mem_region mr;
    struct comp_queue cq;
    struct cq_reader reader;
} w;

STAGE cost_build(unsigned n)
{
    while (n--)
        USE(pkt_build_headers(w.frame + w.out.len, &w.pkt));
}

STAGE cost_parse(unsigned n)
{
    struct pkt p;

    while (n--) {
        if (pkt_parse(&p, w.frame + w.out.len, w.bth_len))
            broken("parse");
        USE(p.payload);
    }
}

STAGE cost_encap_tx(unsigned n)
{
    while (n--)
        USE(encap_tx(w.frame, &w.out, w.bth_len, (uint16_t)n));
}

STAGE cost_encap_rx(unsigned n)
{
    struct encap_view v;

    while (n--) {
        if (encap_rx(&v, w.frame, w.len, &w.port))
            broken("encap_rx");
        USE(v.bth);
    }
}

STAGE cost_hdr_template_parse(unsigned n)
{
    struct encap_view v;

    while (n--) {
        if (!hdr_template_parse(&w.expect, w.frame, w.len, &v))
            broken("hdr_template_parse");
        USE(v.bth);
    }
}

STAGE cost_mr_check(unsigned n)
{
    struct mem_region *mr;

    while (n--) {
        if (mr_check(&w.cache, w.mr.key, PD, w.mr.iova + 8, PAYLOAD, MEM_LOCAL_WRITE, &mr))
            broken("mr_check");
        USE(mr);
    }
}

STAGE cost_mr_check_remote(unsigned n)
{
    struct mr_span span;

    while (n--) {
        if (mr_check_remote(&w.cache, w.mr.key, PD, QPN, w.mr.iova + 8, PAYLOAD, MEM_REMOTE_WRITE,
                            &span))
            broken("mr_check_remote");
        mr_span_end(&span);
        USE(span.mr);
    }
}

/* Both ends of a completion queue in turn, a ring's half each time. */
STAGE cost_cq_post(unsigned n)
{
    struct cqe e = {.qpn = QPN, .opcode = WC_RDMA_WRITE, .vlan = CQE_VLAN_NONE};

    while (n--) {
        e.wr_id = n;
        if (cq_post(&w.cq, 0, &e, false))
            broken("cq_post");
    }
}

STAGE cost_cq_poll(unsigned n)
{
    while (n--) {
        const struct cqe *e = cq_reader_peek(&w.reader);

        if (!e)
            broken("cq_poll");
        USE(e->wr_id);
        cq_reader_advance(&w.reader);
    }
}

/* Lengths are those of the payload; the CRC covers the headers, too. */
#define ICRC_STAGES(bytes)                                                         \
    STAGE cost_icrc_seal_##bytes(unsigned n)                                       \
    {                                                                              \
        while (n--)                                                                \
            icrc_seal(ICRC_IPV4, w.frame + 14, 28 + BTH_LEN + (bytes));            \
    }                                                                              \
    STAGE cost_icrc_verify_##bytes(unsigned n)                                     \
    {                                                                              \
        while (n--) {                                                              \
            if (!icrc_verify(ICRC_IPV4, w.frame + 14, 28 + BTH_LEN + (bytes) + 4)) \
                broken("icrc_verify");                                             \
        }                                                                          \
    }

ICRC_STAGES(64)
ICRC_STAGES(1024)
ICRC_STAGES(4096)

void *zeroed(size_t bytes)
{
    void *p = aligned_alloc(4096, round_up(bytes, 4096));

    if (!p)
        exit(1);
    return memset(p, 0, round_up(bytes, 4096));
}

static void make_frame(void)
{
    static const uint8_t here[4] = {10, 0, 0, 1};
    struct gid_entry gid = {.gid = gid_from_ipv4(here),
                            .type = GID_TYPE_ROCE_V2,
                            .valid = true,
                            .vlan = VLAN_NONE,
                            .mac = {2, 0, 0, 0, 0, 1}};
    struct address_vector av = {.sgid = gid.gid,
                                .dgid = gid.gid,
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = VLAN_NONE,
                                .hop_limit = 64,
                                .udp_sport = 0xC000};

    gid_table_add(&w.gids, &gid);
    w.port.gids = &w.gids;
    memcpy(w.port.mac, gid.mac, 6);
    memcpy(av.smac, gid.mac, 6);
    memcpy(av.dmac, gid.mac, 6);
    w.pkt = (struct pkt){.opcode = OPCODE(PKT_RC, OP_WRITE_ONLY),
                         .ack_req = true,
                         .pkey = PKEY_DEFAULT,
                         .dest_qpn = QPN,
                         .reth = {.va = 4096, .rkey = 1, .len = PAYLOAD},
                         .payload_len = PAYLOAD};
    w.bth_len = pkt_len(w.pkt.opcode, PAYLOAD);
    if (encap_template_make(&w.out, &av))
        broken("encap_template_make");
    hdr_template_make(&w.expect, &w.port, &av);
    pkt_build_headers(w.frame + encap_tx(w.frame, &w.out, w.bth_len, 0), &w.pkt);
    w.len = encap_seal(w.frame, &w.out, w.bth_len);
}

static void make_memory(void)
{
    static const uint64_t secret[2] = {1, 2};

    mr_table_init(&w.mrs, 16, secret);
    w.cache.table = &w.mrs;
    w.mr = (struct mem_region){.pd = PD,
                               .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE,
                               .iova = 4096,
                               .addr = 4096,
                               .len = 65536,
                               .direct = w.frame};
    mr_insert(&w.mrs, &w.mr, 1);
}

static void make_queue(void)
{
    struct cq_shared *shared = zeroed(cq_segment_bytes(CQ_SIZE, 1));

    comp_queue_init(&w.cq, shared, CQ_SIZE, 1);
    w.reader = (struct cq_reader){.shared = shared, .size = CQ_SIZE, .lanes = 1};
}

void stage_costs(unsigned times)
{
    make_frame();
    make_memory();
    make_queue();
    cost_build(times);
    cost_encap_tx(times);
    w.len = encap_seal(w.frame, &w.out, w.bth_len);
    cost_parse(times);
    cost_encap_rx(times);
    cost_hdr_template_parse(times);
    cost_mr_check(times);
    cost_mr_check_remote(times);
    for (unsigned done = 0; done < times; done += CQ_SIZE / 2) {
        unsigned n = min_of(times - done, CQ_SIZE / 2u);

        cost_cq_post(n);
        cost_cq_poll(n);
    }
    cost_icrc_seal_64(times);
    cost_icrc_verify_64(times);
    cost_icrc_seal_1024(times);
    cost_icrc_verify_1024(times);
    cost_icrc_seal_4096(times);
    cost_icrc_verify_4096(times);
}
