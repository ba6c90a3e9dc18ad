/* SPDX-License-Identifier: BSD-3-Clause */
/* The vocabulary of causes: why work requests and queue pairs fail. */
#ifndef UROCE_CAUSE_H
#define UROCE_CAUSE_H

#include <stdint.h>

#define CAUSE_DETAILS 4
#define CAUSE_MAX     255

/* Numbers are those of ibv_wc.vendor_err; CAUSE_none (0): none is known. */
enum cause {
    CAUSE_none,
#define CAUSE(number, name, details, sentence, advice) CAUSE_##name = (number),
#include "cause.def"
#undef CAUSE
};

struct cause_text {
    const char *name, *details, *sentence, *advice;
};

/* The texts of a cause; NULL: there is none with this number. */
const struct cause_text *cause_text(uint32_t number);

#endif
