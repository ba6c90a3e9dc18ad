/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer makes a requester look at by maps of kept packets, however it changes its mind. */
#include <time.h>

#include "kept_map.h"
#include "qp.h"
#include "turns_kit.h"

#define FEW    48u
#define MANY   384u
#define MAPS   400u
#define ROUNDS 5u

static struct share program;

/* ---- the peer's frames ---- */

static void receive_map(const struct sender *s, const struct kept_map *m)
{
    const struct address_vector av = {.sgid = w.gids.entry[0].gid,
                                      .dgid = w.gids.entry[0].gid,
                                      .gid_type = GID_TYPE_ROCE_V2,
                                      .vlan = VLAN_NONE,
                                      .hop_limit = 64};
    static uint8_t bytes[ROOM], map[KEPT_MAP_MAX_LEN];
    struct encap_template t;
    struct pkt p = {.opcode = OP_ACK,
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = qp_number(s->qp),
                    .psn = m->first,
                    .aeth.syndrome = AETH_NAK | NAK_PSN_SEQUENCE,
                    .payload_len = (uint32_t)kept_map_build(map, m)};
    struct frame f = {.data = bytes, .icrc_omitted = true};
    size_t len = pkt_len(p.opcode, p.payload_len);
    uint8_t *bth;

    assert_int_equal(encap_template_make(&t, &av), 0);
    bth = bytes + encap_tx(bytes, &t, len, 0);
    memcpy(bth + pkt_build_headers(bth, &p), map, p.payload_len);
    f.len = (uint32_t)(bth - bytes + len);
    engine_rx(w.e, &f, 1, ++w.now);
}

/* ---- what it costs ---- */

static uint64_t cpu_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* The peer has all of `first` to n - 1. */
static struct kept_map map_from(unsigned first, unsigned n)
{
    struct kept_map m = {.words = KEPT_MAP_WORDS};

    for (unsigned i = first; i < n; i++)
        m.bits[i / 64] |= UINT64_C(1) << i % 64;
    return m;
}

/* The peer keeps all of n messages, then the last one alone, and so on. */
static uint64_t time_of_maps(struct sender *s, unsigned n)
{
    const struct kept_map all = map_from(0, n), last = map_from(n - 1, n);
    uint64_t began = cpu_time();

    for (unsigned i = 0; i < MAPS; i++) {
        receive_map(s, i % 2 ? &last : &all);
        s->qp->req.retries = 0; /* as an ACK of one message does */
    }
    return cpu_time() - began;
}

static unsigned in_flight(const struct sender *s)
{
    return (unsigned)psn_diff(s->qp->req.max_psn, s->qp->req.una);
}

/* The window grows by what the peer keeps behind a gap. */
static void send_all(struct sender *s, unsigned n)
{
    post_writes(s, n);
    while (in_flight(s) < n) {
        struct kept_map kept;
        unsigned before = in_flight(s);

        while (transmit())
            ;
        assert_true(in_flight(s) > before);
        kept = map_from(1, in_flight(s));
        receive_map(s, &kept);
    }
}

static uint64_t least_time(unsigned n)
{
    struct sender *s = make_sender(&program, QPT_RC, 1024, true);
    uint64_t least = UINT64_MAX, received;

    s->qp->attr.retry_cnt = 7;
    engine_qp_agree(w.e, s->qp, true);
    send_all(s, n);
    received = counter_get(&qp_counters(s->qp)->rx_packets);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t time = time_of_maps(s, n);

        least = min_of(least, time);
    }
    assert_int_equal(counter_get(&qp_counters(s->qp)->rx_packets), received + ROUNDS * MAPS);
    assert_int_equal(in_flight(s), n);
    sender_fini(s);
    return least;
}

/* Each packet of a map is looked at, but not each message for each packet. */
static void test_maps_of_many(void **state)
{
    uint64_t few, many;

    program_init(&program, NULL, 1);
    few = least_time(FEW);
    many = least_time(MANY);
    share_leave(&program);
    if (many > few * (MANY / FEW) * 2)
        fail_msg("maps of %u messages take %llu times those of %u", MANY,
                 (unsigned long long)(many / few), FEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_maps_of_many)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
