/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "fake_nic.h"
#include "frame_layout.h"

#include <errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mempool.h>
#include <rte_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS (14 + 40 + 8 + 12) /* the longest that a rule looks at */

/* A rule is the bytes of the headers that it asks for. */
struct rte_flow {
    uint8_t value[HEADERS], mask[HEADERS];
    uint16_t queue;
};

struct fake_nic fake_nic;
static struct rte_flow *rules[FAKE_NIC_RULES_MAX];

void fake_nic_reset(uint16_t queues)
{
    fake_nic = (struct fake_nic){.queues = queues, .reta_size = 128, .key_size = 40};
    for (size_t i = 0; i < sizeof(fake_nic.key); i++)
        fake_nic.key[i] = (uint8_t)(0x5B + i * 29);
}

/* ---- the hash ---- */

static uint32_t toeplitz(const uint8_t *key, const uint8_t *input, unsigned len)
{
    uint32_t hash = 0;

    for (unsigned bit = 0; bit < len * 8; bit++) {
        uint64_t window = 0;

        if (!(input[bit / 8] & 0x80 >> bit % 8))
            continue;
        for (unsigned i = 0; i < 5; i++)
            window = window << 8 | key[bit / 8 + i];
        hash ^= (uint32_t)(window >> (8 - bit % 8));
    }
    return hash;
}

/* The bytes of a UDP packet that the enabled types hash: both addresses, and the ports behind them.
 * 0: none. */
static unsigned hashed(const uint8_t *frame, const uint8_t **first, unsigned *addresses)
{
    bool v6 = frame[ETH_TYPE_OFF] == 0x86;
    uint64_t ports = v6 ? RTE_ETH_RSS_NONFRAG_IPV6_UDP : RTE_ETH_RSS_NONFRAG_IPV4_UDP;
    uint64_t plain = v6 ? RTE_ETH_RSS_IPV6 : RTE_ETH_RSS_IPV4;

    *first = frame + ETH_LEN + (v6 ? IPV6_SRC_OFF : IPV4_SRC_OFF);
    *addresses = v6 ? 32 : 8;
    if (fake_nic.types_on & ports)
        return *addresses + 4;
    return fake_nic.types_on & plain ? *addresses : 0;
}

static uint32_t frame_hash(const uint8_t *frame, uint8_t spoil)
{
    uint8_t key[sizeof(fake_nic.key)];
    const uint8_t *first;
    unsigned addresses, len = hashed(frame, &first, &addresses);

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = fake_nic.key[i] ^ spoil;
    return toeplitz(key, first, len);
}

/* ---- a frame's way ---- */

static const struct rte_flow *find_rule(const uint8_t *frame, uint16_t len)
{
    for (unsigned i = 0; i < FAKE_NIC_RULES_MAX; i++) {
        const struct rte_flow *r = rules[i];
        bool match = r;

        for (unsigned j = 0; match && j < HEADERS; j++)
            match = !r->mask[j] || (j < len && (frame[j] & r->mask[j]) == r->value[j]);
        if (match)
            return r;
    }
    return NULL;
}

uint16_t fake_nic_deliver(uint16_t port, const uint8_t *frame, uint16_t len)
{
    const struct rte_flow *rule = find_rule(frame, len);
    uint32_t hash = frame_hash(frame, fake_nic.wrong_key);
    uint16_t queue = fake_nic.rss_on ? fake_nic.reta[hash % fake_nic.reta_size] : 0;
    char name[RTE_MEMPOOL_NAMESIZE];
    struct rte_mbuf *m;

    if (rule)
        queue = rule->queue;
    snprintf(name, sizeof(name), "uroce_%u_%u", port, queue);
    m = rte_pktmbuf_alloc(rte_mempool_lookup(name));
    assert_non_null(m);
    memcpy(rte_pktmbuf_append(m, len), frame, len);
    if (fake_nic.reports_hash) {
        m->ol_flags |= RTE_MBUF_F_RX_RSS_HASH;
        m->hash.rss = frame_hash(frame, 0) ^ fake_nic.reports_wrong;
    }
    assert_int_equal(rte_eth_tx_burst(port, queue, &m, 1), 1);
    return queue;
}

/* ---- in place of DPDK's ---- */

int __real_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info);
int __wrap_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info);
int __real_rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx,
                                 const struct rte_eth_conf *conf);
int __wrap_rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx,
                                 const struct rte_eth_conf *conf);
int __wrap_rte_eth_dev_rss_hash_conf_get(uint16_t port, struct rte_eth_rss_conf *conf);
int __wrap_rte_eth_dev_rss_reta_update(uint16_t port, struct rte_eth_rss_reta_entry64 *reta,
                                       uint16_t size);
int __wrap_rte_eth_dev_rss_reta_query(uint16_t port, struct rte_eth_rss_reta_entry64 *reta,
                                      uint16_t size);
int __wrap_rte_flow_validate(uint16_t port, const struct rte_flow_attr *attr,
                             const struct rte_flow_item *items,
                             const struct rte_flow_action *actions, struct rte_flow_error *error);
struct rte_flow *__wrap_rte_flow_create(uint16_t port, const struct rte_flow_attr *attr,
                                        const struct rte_flow_item *items,
                                        const struct rte_flow_action *actions,
                                        struct rte_flow_error *error);
int __wrap_rte_flow_destroy(uint16_t port, struct rte_flow *rule, struct rte_flow_error *error);
int __wrap_rte_flow_flush(uint16_t port, struct rte_flow_error *error);

int __wrap_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
    int ret = __real_rte_eth_dev_info_get(port, info);

    if (!fake_nic.queues)
        return ret;
    info->max_rx_queues = info->max_tx_queues = fake_nic.queues;
    info->flow_type_rss_offloads = fake_nic.types;
    info->reta_size = fake_nic.reta_size;
    info->hash_key_size = fake_nic.key_size;
    info->rx_offload_capa |= RTE_ETH_RX_OFFLOAD_RSS_HASH;
    return ret;
}

static void take_rss(const struct rte_eth_rss_conf *rc)
{
    assert_int_equal(rc->rss_hf & ~fake_nic.types, 0);
    fake_nic.rss_on = true;
    fake_nic.types_on = rc->rss_hf;
    if (rc->rss_key && !fake_nic.keeps_key) {
        assert_int_equal(rc->rss_key_len, fake_nic.key_size);
        memcpy(fake_nic.key, rc->rss_key, rc->rss_key_len);
    }
    /* Not its final value. */
    for (unsigned i = 0; i < fake_nic.reta_size; i++)
        fake_nic.reta[i] = (uint16_t)((fake_nic.reta_size - i) / 3 % fake_nic.queues);
}

int __wrap_rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx,
                                 const struct rte_eth_conf *conf)
{
    struct rte_eth_conf inner = *conf;

    fake_nic.rss_on = false;
    if (fake_nic.queues && conf->rxmode.mq_mode == RTE_ETH_MQ_RX_RSS) {
        if (fake_nic.refuses_rss)
            return -EINVAL;
        take_rss(&conf->rx_adv_conf.rss_conf);
        inner.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
        inner.rxmode.offloads &= ~RTE_ETH_RX_OFFLOAD_RSS_HASH;
        inner.rx_adv_conf.rss_conf = (struct rte_eth_rss_conf){0};
    }
    return __real_rte_eth_dev_configure(port, rx, tx, &inner);
}

int __wrap_rte_eth_dev_rss_hash_conf_get(uint16_t port, struct rte_eth_rss_conf *conf)
{
    if (fake_nic.conf_error || fake_nic.answers_empty)
        return fake_nic.conf_error;
    assert_true(conf->rss_key_len >= fake_nic.key_size);
    memcpy(conf->rss_key, fake_nic.key, fake_nic.key_size);
    conf->rss_key_len = fake_nic.key_size;
    conf->rss_hf = fake_nic.types_on;
    return 0;
}

static uint16_t *entry(struct rte_eth_rss_reta_entry64 *reta, unsigned i)
{
    assert_true(reta[i / 64].mask >> i % 64 & 1);
    return &reta[i / 64].reta[i % 64];
}

int __wrap_rte_eth_dev_rss_reta_update(uint16_t port, struct rte_eth_rss_reta_entry64 *reta,
                                       uint16_t size)
{
    assert_int_equal(size, fake_nic.reta_size);
    if (fake_nic.keeps_reta)
        return -ENOTSUP;
    for (unsigned i = 0; i < size; i++)
        fake_nic.reta[i] = *entry(reta, i);
    return 0;
}

int __wrap_rte_eth_dev_rss_reta_query(uint16_t port, struct rte_eth_rss_reta_entry64 *reta,
                                      uint16_t size)
{
    assert_int_equal(size, fake_nic.reta_size);
    for (unsigned i = 0; i < size && !fake_nic.query_error; i++)
        *entry(reta, i) = fake_nic.reta[i];
    return fake_nic.query_error;
}

/* ---- rules ---- */

static void want(struct rte_flow *r, unsigned at, const void *value, const void *mask, unsigned len)
{
    assert_true(at + len <= HEADERS);
    memcpy(r->value + at, value, len);
    memcpy(r->mask + at, mask, len);
    for (unsigned i = at; i < at + len; i++)
        r->value[i] &= r->mask[i];
}

static void want_byte(struct rte_flow *r, unsigned at, uint8_t value)
{
    want(r, at, &value, "\xFF", 1);
}

/* Each header lies behind the one before, whose type field must name it. False: unknown. */
static bool read_item(struct rte_flow *r, const struct rte_flow_item *item, unsigned *at)
{
    unsigned len;

    switch (item->type) {
    case RTE_FLOW_ITEM_TYPE_ETH:
        len = 14;
        break;
    case RTE_FLOW_ITEM_TYPE_IPV4:
        want(r, 12, "\x08\x00", "\xFF\xFF", 2);
        len = 20;
        break;
    case RTE_FLOW_ITEM_TYPE_IPV6:
        want(r, 12, "\x86\xDD", "\xFF\xFF", 2);
        len = 40;
        break;
    case RTE_FLOW_ITEM_TYPE_UDP:
        want_byte(r, *at == 34 ? 14 + 9 : 14 + 6, 17);
        len = 8;
        break;
#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)
    case RTE_FLOW_ITEM_TYPE_IB_BTH:
        len = 12;
        break;
#endif
    default:
        return false;
    }
    if (item->spec) {
        uint8_t value[HEADERS], mask[HEADERS];

        /* Bytes that an earlier item matches are kept. */
        memcpy(value, item->spec, len);
        memcpy(mask, item->mask, len);
        for (unsigned i = 0; i < len; i++) {
            r->value[*at + i] |= value[i] & mask[i];
            r->mask[*at + i] |= mask[i];
        }
    }
    *at += len;
    return true;
}

static int read_rule(struct rte_flow *r, const struct rte_flow_attr *attr,
                     const struct rte_flow_item *items, const struct rte_flow_action *actions)
{
    const struct rte_flow_action_queue *to = actions[0].conf;
    unsigned at = 0;

    memset(r, 0, sizeof(*r));
    if (!attr->ingress || attr->egress || actions[0].type != RTE_FLOW_ACTION_TYPE_QUEUE ||
        actions[1].type != RTE_FLOW_ACTION_TYPE_END || to->index >= fake_nic.queues)
        return -EINVAL;
    for (; items->type != RTE_FLOW_ITEM_TYPE_END; items++) {
        if (!read_item(r, items, &at))
            return -ENOTSUP;
    }
    r->queue = to->index;
    return fake_nic.validate_error;
}

int __wrap_rte_flow_validate(uint16_t port, const struct rte_flow_attr *attr,
                             const struct rte_flow_item *items,
                             const struct rte_flow_action *actions, struct rte_flow_error *error)
{
    struct rte_flow r;

    return read_rule(&r, attr, items, actions);
}

struct rte_flow *__wrap_rte_flow_create(uint16_t port, const struct rte_flow_attr *attr,
                                        const struct rte_flow_item *items,
                                        const struct rte_flow_action *actions,
                                        struct rte_flow_error *error)
{
    unsigned i = 0;

    while (i < FAKE_NIC_RULES_MAX && rules[i])
        i++;
    if (fake_nic.rules == fake_nic.rule_room || i == FAKE_NIC_RULES_MAX) {
        rte_errno = ENOMEM;
        return NULL;
    }
    rules[i] = malloc(sizeof(*rules[i]));
    assert_non_null(rules[i]);
    assert_int_equal(read_rule(rules[i], attr, items, actions), 0);
    fake_nic.rules++;
    return rules[i];
}

int __wrap_rte_flow_destroy(uint16_t port, struct rte_flow *rule, struct rte_flow_error *error)
{
    for (unsigned i = 0; i < FAKE_NIC_RULES_MAX; i++) {
        if (rules[i] == rule) {
            rules[i] = NULL;
            free(rule);
            fake_nic.rules--;
            return 0;
        }
    }
    fail_msg("there is no such rule");
    return -ENOENT;
}

int __wrap_rte_flow_flush(uint16_t port, struct rte_flow_error *error)
{
    for (unsigned i = 0; i < FAKE_NIC_RULES_MAX; i++) {
        free(rules[i]);
        rules[i] = NULL;
    }
    fake_nic.rules = 0;
    fake_nic.flushes++;
    return 0;
}
