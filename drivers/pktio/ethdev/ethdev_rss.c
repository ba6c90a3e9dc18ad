/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive-side scaling: a port with several queues gets our key, and a table in which the queues
 * alternate. The hash and the table that the port reports afterwards count, because drivers round,
 * replace and ignore what they get. The first frames that arrive are compared with the report.
 */
#include "ethdev_internal.h"

#include <errno.h>
#include <rte_version.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "rss_frame.h"

#define RETA_MAX 4096 /* the largest table that is read, in entries */
/* How many frames of a queue may contradict the report before it is no longer used: the port may
 * hash a rare kind of frame differently. */
#define MISMATCHES_MAX 4
#define IPV6_UDP       (RTE_ETH_RSS_NONFRAG_IPV6_UDP | RTE_ETH_RSS_IPV6_UDP_EX)
#define IPV6_PLAIN     (RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_IPV6_EX)
/* Restrict the fields of a hash, which is never requested here. */
#define NARROWING_TYPES                                                            \
    (RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L3_DST_ONLY | RTE_ETH_RSS_L4_SRC_ONLY | \
     RTE_ETH_RSS_L4_DST_ONLY | RTE_ETH_RSS_L3_PRE32 | RTE_ETH_RSS_L3_PRE40 |       \
     RTE_ETH_RSS_L3_PRE48 | RTE_ETH_RSS_L3_PRE56 | RTE_ETH_RSS_L3_PRE64 | RTE_ETH_RSS_L3_PRE96)

/* ---- the request ---- */

/* Hashes of addresses and UDP ports, or of addresses if the port has no others. */
static uint64_t choose_types(uint64_t offered)
{
    uint64_t v4 = offered & RTE_ETH_RSS_NONFRAG_IPV4_UDP, v6 = offered & IPV6_UDP;

    return (v4 ? v4 : offered & RTE_ETH_RSS_IPV4) | (v6 ? v6 : offered & IPV6_PLAIN);
}

/* A driver may need a longer key than Microsoft's. The bytes behind its 40 are not used for our
 * inputs. */
static void choose_key(struct ethdev_rss *r)
{
    for (size_t i = 0; i < sizeof(r->asked); i++)
        r->asked[i] = toeplitz_key_microsoft[i % TOEPLITZ_KEY_LEN];
}

void ethdev_rss_configure(struct ethdev *d, const struct rte_eth_dev_info *info,
                          struct rte_eth_conf *conf)
{
    struct rte_eth_rss_conf *rc = &conf->rx_adv_conf.rss_conf;
    uint64_t types = choose_types(info->flow_type_rss_offloads);

    if (d->queues == 1 || !types)
        return;
    choose_key(&d->rss);
    d->rss.on = true;
    rc->rss_hf = types;
    conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf->rxmode.offloads |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH;
    if (info->hash_key_size >= TOEPLITZ_KEY_LEN) {
        rc->rss_key = d->rss.asked;
        rc->rss_key_len = info->hash_key_size;
    }
}

/* ---- what is in force ---- */

static unsigned fields_of(uint64_t types, uint64_t udp, uint64_t plain)
{
    if (types & udp)
        return RSS_ALL;
    return types & plain ? RSS_ADDRESSES : 0;
}

static bool is_toeplitz(const struct rte_eth_rss_conf *rc)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
    return rc->algorithm == RTE_ETH_HASH_FUNCTION_DEFAULT ||
           rc->algorithm == RTE_ETH_HASH_FUNCTION_TOEPLITZ;
#else
    return true;
#endif
}

/* Some drivers return success without filling in a key. A key of zeros cannot be theirs: it would
 * give all frames the same hash. */
static bool read_hash(struct ethdev *d)
{
    static const uint8_t none[TOEPLITZ_KEY_LEN];
    uint8_t key[UINT8_MAX] = {0};
    struct rte_eth_rss_conf rc = {.rss_key = key, .rss_key_len = sizeof(key)};
    struct rss *rss = d->rss.rss;

    if (rte_eth_dev_rss_hash_conf_get(d->port, &rc) || rc.rss_key_len < TOEPLITZ_KEY_LEN ||
        !memcmp(key, none, sizeof(none)) || rc.rss_hf & NARROWING_TYPES || !is_toeplitz(&rc))
        return false;
    rss_init_toeplitz(&rss[0], key,
                      fields_of(rc.rss_hf, RTE_ETH_RSS_NONFRAG_IPV4_UDP, RTE_ETH_RSS_IPV4));
    rss_init_toeplitz(&rss[1], key, fields_of(rc.rss_hf, IPV6_UDP, IPV6_PLAIN));
    return true;
}

static struct rte_eth_rss_reta_entry64 *make_reta(uint16_t size, unsigned queues)
{
    struct rte_eth_rss_reta_entry64 *reta =
        calloc((size + RTE_ETH_RETA_GROUP_SIZE - 1u) / RTE_ETH_RETA_GROUP_SIZE, sizeof(*reta));

    for (unsigned i = 0; reta && i < size; i++) {
        struct rte_eth_rss_reta_entry64 *group = &reta[i / RTE_ETH_RETA_GROUP_SIZE];

        group->mask |= UINT64_C(1) << i % RTE_ETH_RETA_GROUP_SIZE;
        /* A table longer than ours repeats ours. */
        group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = (uint16_t)(i % INDIRECTION_MAX % queues);
    }
    return reta;
}

/* False: our table cannot represent the port's. */
static bool read_reta(struct ethdev *d, const struct rte_eth_rss_reta_entry64 *reta, uint16_t size)
{
    struct indirection *t = &d->rss.rss[0].table;

    t->size = min_of((uint32_t)size, (uint32_t)INDIRECTION_MAX);
    for (unsigned i = 0; i < size; i++) {
        uint16_t queue = reta[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];

        if (queue >= d->queues || (i >= t->size && queue != t->queue[i % t->size]))
            return false;
        t->queue[i % t->size] = queue;
    }
    d->rss.rss[1].table = *t;
    return true;
}

static bool write_and_read_table(struct ethdev *d)
{
    struct rte_eth_rss_reta_entry64 *reta;
    struct rte_eth_dev_info info;
    bool known;

    /* Its size may depend on the number of queues. */
    if (rte_eth_dev_info_get(d->port, &info) || !is_pow2(info.reta_size) ||
        info.reta_size > RETA_MAX)
        return false;
    reta = make_reta(info.reta_size, d->queues);
    if (!reta)
        return false;
    (void)rte_eth_dev_rss_reta_update(d->port, reta, info.reta_size);
    known = !rte_eth_dev_rss_reta_query(d->port, reta, info.reta_size) &&
            read_reta(d, reta, info.reta_size);
    free(reta);
    return known;
}

/* Discards frames that arrived by the old table. */
static void discard_received(struct ethdev *d, uint16_t queue)
{
    struct rte_mbuf *m[FRAME_BURST];
    uint16_t n;

    for (unsigned i = 0; i < 2u * d->sizes.rx_desc; i += n) {
        n = rte_eth_rx_burst(d->port, queue, m, FRAME_BURST);
        if (!n)
            return;
        rte_pktmbuf_free_bulk(m, n);
    }
}

void ethdev_rss_start(struct ethdev *d)
{
    struct ethdev_rss *r = &d->rss;

    if (!r->on || !read_hash(d) || !write_and_read_table(d))
        return;
    for (unsigned v6 = 0; v6 < ARRAY_SIZE(r->known); v6++)
        r->known[v6] = r->rss[v6].fields;
    for (unsigned i = 0; i < d->queues; i++) {
        discard_received(d, (uint16_t)i);
        for (unsigned v6 = 0; v6 < ARRAY_SIZE(r->known); v6++)
            d->queue[i].unchecked[v6] = r->known[v6] ? ETHDEV_RSS_CHECKS : 0;
    }
}

int ethdev_rss(struct pktio *io, bool ipv6, struct rss *rss)
{
    const struct ethdev_rss *r = &ethdev_of(io)->rss;

    if (!r->known[ipv6] || atomic_load(&r->wrong))
        return -ENOTSUP;
    *rss = r->rss[ipv6];
    return 0;
}

/* ---- the comparison with received frames ---- */

/* By the Ethernet type: 0 for IPv4, 1 for IPv6, -1 for others and for tagged frames, which not
 * every port hashes by their addresses. */
static int ip_version(const struct rte_mbuf *m)
{
    uint16_t type;

    if (rte_pktmbuf_data_len(m) < RTE_ETHER_HDR_LEN)
        return -1;
    type = get_be16(rte_pktmbuf_mtod(m, const uint8_t *) + 12);
    return type == RTE_ETHER_TYPE_IPV4 ? 0 : type == RTE_ETHER_TYPE_IPV6 ? 1 : -1;
}

void ethdev_rss_check(struct ethdev *d, unsigned queue, const struct rte_mbuf *m)
{
    struct ethdev_queue *q = &d->queue[queue];
    int v6 = ip_version(m);
    struct rss_frame r;
    uint32_t hash;

    if (v6 < 0 || !q->unchecked[v6] ||
        !rss_frame_read(&r, rte_pktmbuf_mtod(m, const uint8_t *), rte_pktmbuf_data_len(m)))
        return;
    q->unchecked[v6]--;
    hash = rss_hash(&d->rss.rss[v6], &r.tuple);
    if ((!(m->ol_flags & RTE_MBUF_F_RX_RSS_HASH) || m->hash.rss == hash) &&
        (indirection_lookup(&d->rss.rss[v6].table, hash) == queue || atomic_load(&d->rss.steered)))
        return;
    counter_inc(&q->counters.rss_mismatch);
    if (counter_get(&q->counters.rss_mismatch) > MISMATCHES_MAX)
        atomic_store(&d->rss.wrong, true);
}
