/* SPDX-License-Identifier: BSD-3-Clause */
/* A frame of a capture, classified; and as JSON. */
#ifndef UROCE_DISSECT_FRAME_H
#define UROCE_DISSECT_FRAME_H

#include <jansson.h>

#include "encap.h"
#include "pkt.h"

enum verdict {
    VERDICT_OK,
    VERDICT_BAD_ICRC,
    VERDICT_CUT, /* the capture lacks its end; its headers are good, its ICRC is not known */
    VERDICT_UNPARSABLE,
    VERDICT_SKIPPED, /* not RoCE */
    VERDICT_COUNT,
};

struct finding {
    unsigned number;
    double time; /* seconds since the first frame */
    enum verdict verdict;
    enum drop reason;       /* why unparsable or skipped */
    bool has_view, has_pkt; /* which of the following are valid */
    struct encap_view view;
    struct pkt pkt;
};

const char *verdict_name(enum verdict v);

/* Addresses of the payload, which must still be there; of a cut frame it is not looked at. */
json_t *dissect_frame_json(const struct finding *f);

#endif
