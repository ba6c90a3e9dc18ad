/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of flow_parse.c that the headers inside a tunnel share with the outer ones. */
#ifndef UROCE_FLOW_REST_H
#define UROCE_FLOW_REST_H

#include "raw_private.h"

/* The unread rest of a frame. */
struct flow_rest {
    const uint8_t *p;
    uint32_t len;
};

static inline void flow_rest_skip(struct flow_rest *r, uint32_t n)
{
    r->p += n;
    r->len -= n;
}

/* At least ETH_LEN bytes, through the tags; returns the type of what follows. */
uint16_t flow_parse_ethernet(union flow_key *key, struct flow_rest *r);
/* The IP header, if the type is one of IP's, with its ports, if they are there. True: the rest is
 * what follows the last IP header, up to the end of the packet. */
bool flow_parse_network(union flow_key *key, struct flow_rest *r, uint16_t type);

#endif
