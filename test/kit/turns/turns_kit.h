/* SPDX-License-Identifier: BSD-3-Clause */
/* One engine and queue pairs that send, for tests of whose packets are sent next. Packets have 1024
 * bytes. */
#ifndef UROCE_TEST_TURNS_KIT_H
#define UROCE_TEST_TURNS_KIT_H

#include "engine.h"
#include "pkt.h"
#include "unit.h"

#define SLOTS      64u
#define QUEUES_MAX 320u
#define LONG_QUEUE 4096u
#define MESSAGE    1024u
#define ROOM       (ENCAP_MAX_LEN + PKT_MAX_HEADER + PKT_MTU_MAX + 8)
#define PD         1
#define CLASSES    3u

/* A queue pair, and the application's end of its send queue. */
struct sender {
    struct qp *qp;
    struct qp_shared *shared;
    uint8_t *sq, *rq;
    uint32_t size, prod;
};

/* The engine, and what it needs. */
struct turns_world {
    struct engine *e;
    struct encap_port port;
    struct gid_table gids;
    struct mr_table mrs;
    struct mem_region mr;
    struct qp_table *qps;
    struct comp_queue cq;
    struct cq_shared *ring;
    struct cq_reader reader;
    uint8_t *memory;
    struct frame frame[FRAME_BURST];
    uint8_t bytes[FRAME_BURST][ROOM];
    struct sender sender[QUEUES_MAX];
    unsigned senders;
    ns_t now;
    uint8_t pcp; /* of connections that are made */
    /* What fault_time() returns: by a packet that sender 0 has sent, and in turn. */
    ns_t fault_of_packet, fault[2];
    uint64_t packets_seen;
    unsigned fault_calls;
};
extern struct turns_world w;

/* For cmocka. With classes priority 7 is strict, 3 has 60 percent, the others 40. */
int turns_setup(void **state);
int turns_setup_classes(void **state);
int turns_teardown(void **state);

#define TEST(f)         cmocka_unit_test_setup_teardown(f, turns_setup, turns_teardown)
#define CLASSES_TEST(f) cmocka_unit_test_setup_teardown(f, turns_setup_classes, turns_teardown)

/* to_itself: what it sends may be received. turns_teardown frees it. */
struct sender *make_sender(struct share *share, uint32_t type, uint32_t size, bool to_itself);
/* An unreliable connection: nothing but the engine's turns limits it. */
struct sender *sender_of(struct share *share, uint32_t size);
void sender_fini(struct sender *s);
uint64_t sent_by(const struct sender *s);

/* Work requests that are not signalled, and one look of the engine. */
void post_writes(struct sender *s, unsigned n);
/* Into w.frame; how many. */
unsigned transmit(void);
/* These have work in each of some bursts. */
void always_send(struct sender *const *s, unsigned n, unsigned bursts);

void program_init(struct share *s, struct share *user, uint32_t weight);
/* a is `expected` times b, within a twentieth. */
void assert_ratio(uint64_t a, uint64_t b, double expected);

/* All zero. */
void *zeroed(size_t bytes);

#endif
