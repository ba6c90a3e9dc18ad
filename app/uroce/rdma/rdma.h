/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `uroce rdma`: prints of the daemon what iproute2's rdma(8) prints of the kernel, with the same
 * words and the same names in JSON. A record is a JSON object with the members of iproute2's in
 * their order, which print.c also writes as text.
 */
#ifndef UROCE_RDMA_H
#define UROCE_RDMA_H

#include <jansson.h>
#include <stdbool.h>

struct rdma_call {
    const char *socket;
    int as_json, is_pretty, details;
    bool one_line;
    char **word; /* behind the options, those that are not read yet; the last one is NULL */
};

/* ---- words: rdma.c ---- */

/* Whether a word is the name, or a beginning of it. */
bool rdma_is(const char *word, const char *name);
/* Prints "uroce: rdma: " and the sentence to stderr. Returns EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int rdma_wrong(const char *sentence, ...);
/* The same for what cannot be found: returns 1. */
__attribute__((format(printf, 1, 2))) int rdma_failed(const char *sentence, ...);

/* ---- the objects; each returns the process's exit status ---- */

int rdma_dev_show(struct rdma_call *c);
int rdma_link_show(struct rdma_call *c);
int rdma_statistic_show(struct rdma_call *c);
int rdma_resource_show(struct rdma_call *c);

/* ---- devices and ports: place.c ---- */

enum {
    RDMA_ALL_PORTS = -1, /* and what belongs to none */
    RDMA_NO_PORT = 0,    /* what belongs to none */
};

/* DEV, DEV/PORT, DEV/- of a command line. */
struct rdma_place {
    size_t device; /* index in the list of devices */
    int port;
};

/*
 * Gives the devices of the daemon's state, and of the rows of its lists, the names that a program
 * under `uroce run --device-name` has for them: so that scripts which it starts find those.
 */
void rdma_choose_names(json_t *root);
/* Finds a place among the daemon's devices. False: there is none, as stderr says. */
bool rdma_find_place(struct rdma_place *p, const json_t *devices, const char *word);
/* The same without a port, for `rdma res show DEV`, silently. */
bool rdma_find_device(size_t *device, const json_t *devices, const char *word);

/* ---- filters: filter.c ---- */

struct rdma_filter {
    const char *name;
    bool is_number;
};

struct rdma_filters {
    const struct rdma_filter *known; /* the last one has no name */
    char **pair;                     /* words: a name, a value, ... */
    size_t pairs;
};

/* Checks the words. 0 or EXIT_USAGE with the reason on stderr. */
int rdma_filters_read(struct rdma_filters *f, const struct rdma_filter *known, char **word);
/* The value that the words have for one of the known names, or NULL. */
const char *rdma_filters_value(const struct rdma_filters *f, const char *name);
/* Whether a number is in a value: numbers and ranges, as in 1,4-6. */
bool rdma_in_ranges(const char *value, json_int_t number);
/* Whether a record passes all filters but those about places. */
bool rdma_filters_pass(const struct rdma_filters *f, const json_t *record);

/* ---- records: print.c ---- */

/* How the text of a record begins. */
enum rdma_head {
    RDMA_NUMBERED, /* 0: uroce0: */
    RDMA_DEV,      /* dev uroce0 */
    RDMA_LINK,     /* link uroce0/1 */
    RDMA_COUNTERS, /* the same, and each other member in a line */
};

/* Prints a list of records, which it frees. The process's exit status. */
int rdma_print(const struct rdma_call *c, enum rdma_head head, json_t *records);

#endif
