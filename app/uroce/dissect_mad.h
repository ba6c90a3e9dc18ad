/* SPDX-License-Identifier: BSD-3-Clause */
/* Management datagrams of a capture, field by field. */
#ifndef UROCE_DISSECT_MAD_H
#define UROCE_DISSECT_MAD_H

#include <jansson.h>

#include "pkt.h"

/* Whether a packet is a whole MAD to queue pair 1. */
bool dissect_is_mad(const struct pkt *p);

/* Prints the fields on indented lines; private data up to its last byte that is not zero. */
void dissect_mad_text(const struct pkt *p);

/* The fields as an object: of the common header, and of "cm" when it is a message of the
 * communication manager, in it "ip_cm" when it has that header. Numbers of more than 32 bits and
 * bytes are text. */
json_t *dissect_mad_json(const struct pkt *p);

#endif
