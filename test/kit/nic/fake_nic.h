/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NIC with several queues, receive-side scaling and flow rules, which follows its configuration
 * as far as a test wants. It is net_ring, whose queues return the frames that are put in, with the
 * rest of DPDK's functions replaced by the linker (--wrap, see meson.build). The queue of a frame
 * follows here from its bytes and the definition of the hash, without code of lib/steer.
 */
#ifndef UROCE_TEST_FAKE_NIC_H
#define UROCE_TEST_FAKE_NIC_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_NIC_RETA_MAX  4096
#define FAKE_NIC_RULES_MAX 8

struct fake_nic {
    /* Its features. */
    uint16_t queues;
    uint64_t types; /* of hashes, RTE_ETH_RSS_... */
    uint16_t reta_size;
    uint8_t key_size;
    unsigned rule_room;
    /* Its missing features and its errors. */
    bool refuses_rss, keeps_key, keeps_reta, answers_empty;
    int conf_error, query_error, validate_error; /* negative errno */
    uint8_t wrong_key;  /* another than this bit mask's 0 spoils the key that it hashes with */
    bool reports_hash;  /* in the mbuf, that of the key it tells */
    bool reports_wrong; /* or another */
    /* Its configuration. */
    bool rss_on;
    uint64_t types_on;
    uint8_t key[255];
    uint16_t reta[FAKE_NIC_RETA_MAX];
    unsigned rules, flushes;
};

extern struct fake_nic fake_nic;

/* A NIC with these queues and defaults for all else. */
void fake_nic_reset(uint16_t queues);

/* A frame arrives at the port: returns the queue that it was put on. */
uint16_t fake_nic_deliver(uint16_t port, const uint8_t *frame, uint16_t len);

#endif
