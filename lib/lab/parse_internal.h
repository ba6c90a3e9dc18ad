/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files that read a laboratory's text. */
#ifndef UROCE_LAB_PARSE_INTERNAL_H
#define UROCE_LAB_PARSE_INTERNAL_H

#include "spec.h"

#define LAB_SIZES_MAX 32u
#define LAB_BILLION   UINT64_C(1000000000)

/* ---- values.c: false where the text is no such value ---- */

/* "4096", "64K", "1.5M", "2G": powers of 1024. */
bool lab_read_size(const char *text, uint64_t *bytes);
/* "100g", "25G", "400m": bits per second, powers of 1000. */
bool lab_read_rate(const char *text, uint64_t *bps);
/* "0.3" and "1": billionths. */
bool lab_read_part(const char *text, uint64_t *billionths);
bool lab_read_count(const char *text, uint64_t *count);
bool lab_read_yes(const char *text, bool *yes);
/* Of a node or a flow. */
bool lab_is_name(const char *text);

/* ---- keys.c ---- */

/* What a line about traffic says beside the flow itself. */
struct lab_traffic {
    struct lab_flow flow;
    uint32_t count; /* flows in the place of one */
    ns_t stagger;   /* between the starts of two flows */
    char to[LAB_NAME_MAX];
    uint32_t shift;
    uint64_t load; /* billionths of the links' rate */
    ns_t stop;
    struct {
        uint64_t bytes;
        uint32_t weight;
    } size[LAB_SIZES_MAX];
    unsigned sizes;
};

/* What a line about a link's fault says. */
struct lab_fault {
    ns_t at, until;
    bool silent;
    uint32_t frames;
};

/* How large a topology is. */
struct lab_shape {
    uint32_t hosts, leaves, spines, left, right, k;
    uint64_t up, neck; /* rates; 0: as the other links */
};

enum lab_section { LAB_HOSTS, LAB_SWITCHES, LAB_LINKS, LAB_TRAFFIC, LAB_FAULT, LAB_SHAPE };

/* Applies "key=value" to the section's struct. False: *why says what is wrong, LAB_WHY bytes. */
#define LAB_WHY 160
bool lab_apply_key(enum lab_section section, void *object, const char *word, char why[LAB_WHY]);

/* ---- topology.c, traffic.c: 0, a negative errno, or -EINVAL with a reason ---- */

int lab_make_star(struct lab_spec *spec, const struct lab_shape *s, char why[LAB_WHY]);
int lab_make_dumbbell(struct lab_spec *spec, const struct lab_shape *s, char why[LAB_WHY]);
int lab_make_clos(struct lab_spec *spec, const struct lab_shape *s, char why[LAB_WHY]);
int lab_make_fattree(struct lab_spec *spec, const struct lab_shape *s, char why[LAB_WHY]);

/* hosts: nodes, n of them. */
int lab_make_flow(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                  unsigned n, char why[LAB_WHY]);
int lab_make_incast(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                    unsigned n, char why[LAB_WHY]);
int lab_make_permutation(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                         unsigned n, char why[LAB_WHY]);
int lab_make_alltoall(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                      unsigned n, char why[LAB_WHY]);
int lab_make_poisson(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                     unsigned n, char why[LAB_WHY]);

#endif
