/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files that read the lines of a laboratory's text. */
#ifndef UROCE_LAB_LINE_H
#define UROCE_LAB_LINE_H

#include "parse_internal.h"

#define WORDS_MAX 256u

struct line_parser {
    struct lab_spec *spec;
    struct lab_error *error;
    bool seed_given, until_given; /* by the caller: the text's does not count */
    char text[LAB_LINE_MAX];
    char *word[WORDS_MAX];
    unsigned words;
};

/* Takes the reason; -EINVAL. */
__attribute__((format(printf, 2, 3))) int line_fail(struct line_parser *p, const char *format, ...);
/* Takes for a reason what a negative errno of spec.h means here. */
int line_fail_with(struct line_parser *p, int err, const char *what);

bool line_is_key(const char *word);
/* Applies the words from `first` on, all of them keys. */
int line_apply_keys(struct line_parser *p, unsigned first, enum lab_section section, void *object);
/* A word that names a node. */
int line_find_node(struct line_parser *p, unsigned word, unsigned *node);
/* The link between the nodes of two words: its port at the first one. */
int line_find_port(struct line_parser *p, unsigned *port);

/* ---- the lines, by their first words: 0, or a negative errno with a reason ---- */

/* line_net.c */
int line_seed(struct line_parser *p);
int line_until(struct line_parser *p);
int line_sample(struct line_parser *p);
int line_converge(struct line_parser *p);
int line_set_hosts(struct line_parser *p);
int line_set_switches(struct line_parser *p);
int line_set_links(struct line_parser *p);
int line_add_hosts(struct line_parser *p);
int line_add_switches(struct line_parser *p);
int line_add_link(struct line_parser *p);
int line_star(struct line_parser *p);
int line_dumbbell(struct line_parser *p);
int line_clos(struct line_parser *p);
int line_fattree(struct line_parser *p);

/* line_traffic.c */
int line_flow(struct line_parser *p);
int line_incast(struct line_parser *p);
int line_permutation(struct line_parser *p);
int line_alltoall(struct line_parser *p);
int line_poisson(struct line_parser *p);

/* line_faults.c */
int line_link_fails(struct line_parser *p);
int line_mark(struct line_parser *p);
int line_lose(struct line_parser *p);
int line_rule(struct line_parser *p);

#endif
