/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive-side scaling: a port with several queues is given our key and a table in which the queues
 * take turns. What it is asked afterwards counts, not what it was told: drivers round, replace and
 * ignore. And what arrives is compared with that, for some frames.
 */
#include "ethdev_internal.h"

#include <errno.h>
#include <rte_version.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "rss_frame.h"

#define RETA_MAX 4096 /* entries of a table that we read */
/* Frames of a queue that may arrive unforeseen before nothing is foreseen any more: the port may
 * hash a frame of a rare kind otherwise. */
#define MISMATCHES_MAX 4
#define IPV6_UDP       (RTE_ETH_RSS_NONFRAG_IPV6_UDP | RTE_ETH_RSS_IPV6_UDP_EX)
#define IPV6_PLAIN     (RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_IPV6_EX)
/* Narrow the fields of a hash, to something that we never ask for. */
#define NARROWED                                                                   \
    (RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L3_DST_ONLY | RTE_ETH_RSS_L4_SRC_ONLY | \
     RTE_ETH_RSS_L4_DST_ONLY | RTE_ETH_RSS_L3_PRE32 | RTE_ETH_RSS_L3_PRE40 |       \
     RTE_ETH_RSS_L3_PRE48 | RTE_ETH_RSS_L3_PRE56 | RTE_ETH_RSS_L3_PRE64 | RTE_ETH_RSS_L3_PRE96)

/* ---- asking for it ---- */

/* Hashes of UDP's ports; of addresses alone where the port has no more. */
static uint64_t choose_types(uint64_t offered)
{
    uint64_t v4 = offered & RTE_ETH_RSS_NONFRAG_IPV4_UDP, v6 = offered & IPV6_UDP;

    return (v4 ? v4 : offered & RTE_ETH_RSS_IPV4) | (v6 ? v6 : offered & IPV6_PLAIN);
}

/* Keys longer than Microsoft's are for longer inputs; what is behind its 40 bytes does not matter.
 */
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

/* Some drivers answer without filling anything in: a key of zeros would hash all alike. */
static bool read_hash(struct ethdev *d)
{
    static const uint8_t none[TOEPLITZ_KEY_LEN];
    uint8_t key[UINT8_MAX] = {0};
    struct rte_eth_rss_conf rc = {.rss_key = key, .rss_key_len = sizeof(key)};
    struct rss *rss = d->rss.rss;

    if (rte_eth_dev_rss_hash_conf_get(d->port, &rc) || rc.rss_key_len < TOEPLITZ_KEY_LEN ||
        !memcmp(key, none, sizeof(none)) || rc.rss_hf & NARROWED || !is_toeplitz(&rc))
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
        /* A table longer than ours is the same as ours. */
        group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = (uint16_t)(i % INDIRECTION_MAX % queues);
    }
    return reta;
}

/* False: our table cannot say what the port's does. */
static bool take_reta(struct ethdev *d, const struct rte_eth_rss_reta_entry64 *reta, uint16_t size)
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

static bool set_table(struct ethdev *d)
{
    struct rte_eth_rss_reta_entry64 *reta;
    struct rte_eth_dev_info info;
    bool told;

    /* Its size may depend on how many queues there are. */
    if (rte_eth_dev_info_get(d->port, &info) || !is_pow2(info.reta_size) ||
        info.reta_size > RETA_MAX)
        return false;
    reta = make_reta(info.reta_size, d->queues);
    if (!reta)
        return false;
    (void)rte_eth_dev_rss_reta_update(d->port, reta, info.reta_size);
    told = !rte_eth_dev_rss_reta_query(d->port, reta, info.reta_size) &&
           take_reta(d, reta, info.reta_size);
    free(reta);
    return told;
}

/* Frames that came before the table did are where the old one put them. */
static void forget_received(struct ethdev *d, uint16_t queue)
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

    if (!r->on || !read_hash(d) || !set_table(d))
        return;
    for (unsigned v6 = 0; v6 < ARRAY_SIZE(r->told); v6++)
        r->told[v6] = r->rss[v6].fields;
    for (unsigned i = 0; i < d->queues; i++) {
        forget_received(d, (uint16_t)i);
        for (unsigned v6 = 0; v6 < ARRAY_SIZE(r->told); v6++)
            d->queue[i].unchecked[v6] = r->told[v6] ? ETHDEV_CHECKED : 0;
    }
}

int ethdev_rss(struct pktio *io, bool ipv6, struct rss *rss)
{
    const struct ethdev_rss *r = &ethdev_of(io)->rss;

    if (!r->told[ipv6] || atomic_load(&r->wrong))
        return -ENOTSUP;
    *rss = r->rss[ipv6];
    return 0;
}

/* ---- what is true ---- */

/* By its Ethernet type: 0: IPv4, 1: IPv6, -1: others, and those with a tag, behind which not every
 * port looks. */
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
