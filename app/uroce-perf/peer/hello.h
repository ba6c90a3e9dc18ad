/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client of uroce-perf and its server tell each other as private data of their connection:
 * all in network byte order. Neither trusts the other: lengths and numbers are compared with
 * limits, and what a peer can reach is the region that was registered for it.
 */
#ifndef UROCE_PERF_HELLO_H
#define UROCE_PERF_HELLO_H

#include <stdint.h>

#define HELLO_MAGIC   0x75706572u
#define HELLO_VERSION 1

/* In the request: what the server is to have. */
struct hello {
    uint32_t magic, version;
    uint32_t mode;    /* enum perf_mode */
    uint32_t receive; /* receive WQEs */
    uint64_t size;    /* of a message */
    uint64_t memory;  /* bytes that messages use in turn */
};

/* In the reply: where its memory is. */
struct hello_answer {
    uint32_t magic, version;
    uint32_t rkey, unused;
    uint64_t address;
};

#define HELLO_RECEIVE_MAX 16384u
#define HELLO_MEMORY_MAX  (UINT64_C(64) << 20)

_Static_assert(sizeof(struct hello) <= 56, "private data of a request by rdma_connect");

#endif
