/* SPDX-License-Identifier: BSD-3-Clause */
/* The vocabulary of dropped packets. */
#ifndef UROCE_DROP_H
#define UROCE_DROP_H

/* Why a received frame was not delivered; DROP_NONE (0) means it was not dropped. */
enum drop {
    DROP_NONE,
#define DROP(name, help) DROP_##name,
#include "drop.def"
#undef DROP
    DROP_COUNT,
};

/* The reason's name as counters show it ("bad_icrc"); "none" for DROP_NONE. */
const char *drop_name(enum drop reason);

/* One line of help for people. */
const char *drop_help(enum drop reason);

#endif
