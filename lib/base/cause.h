/* SPDX-License-Identifier: BSD-3-Clause */
/* The vocabulary of causes: why work requests and queue pairs fail. */
#ifndef UROCE_CAUSE_H
#define UROCE_CAUSE_H

#include <stdint.h>

#define CAUSE_DETAILS 10
#define CAUSE_MAX     255

/* Numbers are those of ibv_wc.vendor_err; CAUSE_none (0): none is known. */
enum cause {
    CAUSE_none,
#define CAUSE(number, name, details, sentence, advice) CAUSE_##name = (number),
#include "cause.def"
#undef CAUSE
};

/* ---- values of details ---- */

/* Whose memory is not there. */
enum why_side {
    WHY_SEND_SOURCE = 1, /* of a work request of the send queue: what it sends */
    WHY_SEND_TARGET,     /* and where its result goes */
    WHY_RECEIVE,
    WHY_REMOTE_TARGET, /* of the peer's request: where it writes, */
    WHY_REMOTE_SOURCE, /* and what it reads */
};

/* What a packet has that its connection has not. */
enum why_other {
    WHY_OTHER_SOURCE = 1,
    WHY_OTHER_TARGET,
    WHY_OTHER_VLAN,
    WHY_OTHER_VERSION,
};

#define WHY_RIGHTS (UINT64_C(1) << 32) /* set in details that are rights: none is known, too */

/* ---- texts ---- */

struct cause_text {
    const char *name, *details, *sentence, *advice;
};

/* The texts of a cause; NULL: there is none with this number. */
const struct cause_text *cause_text(uint32_t number);

#endif
