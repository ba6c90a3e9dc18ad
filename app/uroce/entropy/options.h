/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of `uroce entropy`. */
#ifndef UROCE_ENTROPY_OPTIONS_H
#define UROCE_ENTROPY_OPTIONS_H

#include "spread.h"

enum source_kind {
    SOURCE_QPS,
    SOURCE_FILE,
    SOURCE_RANDOM,
    SOURCE_RUNNING,
};

/* A source of flows, in the order of the options. */
struct flow_source {
    enum source_kind kind;
    const char *text;
};

#define SPREAD_SOURCES_MAX 64

struct spread_arguments {
    struct flow_source source[SPREAD_SOURCES_MAX];
    unsigned sources;
    uint64_t random_seed;
    const char *socket, *svg;
    union gid src, dst;
    struct spread_plan plan;
    bool json;
};

extern const char spread_help[];

/* Reads a number, decimal or 0x, from min to max. 0 or -EINVAL. */
int spread_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* 0; 1: the options ask for help; -EINVAL with the reason on stderr. Strings point into argv. */
int spread_parse_arguments(struct spread_arguments *a, int argc, char **argv);

#endif
