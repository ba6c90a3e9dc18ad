/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a laboratory consists of: nodes, links, flows and changes; and the language in which people
 * write it down (doc/lab.md). Everything is a value. Pure; any thread.
 *
 * The text is untrusted: each number is checked, and the first error is told with its line. All
 * random choices of the text (a permutation, arrivals) are made while it is read, by its seed.
 */
#ifndef UROCE_LAB_SPEC_H
#define UROCE_LAB_SPEC_H

#include "cc.h"
#include "entropy.h"
#include "fabric.h"
#include "inject_act.h"
#include "random.h"

#define LAB_NAME_MAX    24u /* with the NUL */
#define LAB_NODES_MAX   4096u
#define LAB_LINKS_MAX   16384u
#define LAB_FLOWS_MAX   65536u
#define LAB_CHANGES_MAX 1024u
#define LAB_RULES_MAX   INJECT_RULES_MAX
#define LAB_LINE_MAX    4096u
#define LAB_PATTERN_MAX 256u /* of a rule, with the NUL */
#define LAB_MESSAGE_MAX (64u << 20)
#define LAB_TIME_MAX    (3600 * NS_PER_SEC)
#define LAB_ENDLESS     UINT64_MAX
#define LAB_TRIM_AUTO   UINT8_MAX
#define LAB_TRIM        50u /* the usual code point of trimmed frames: priority 6, as CNPs */

/* ---- what hosts do ---- */

struct lab_host {
    const struct cc_ops *control;   /* NULL: none */
    uint64_t params[CC_PARAMS_MAX]; /* the controller's */
    bool ecn;                       /* packets may be marked */
    ns_t cnp;                       /* between two CNPs of a queue pair; 0: it sends none */
    struct entropy_policy entropy;
    uint32_t repath, window, reorder; /* as in struct engine_config */
    bool selective; /* connections between two such hosts agree on maps of kept packets */
    uint8_t trim;   /* the code point of trimmed frames; 0: it does not know them; LAB_TRIM_AUTO: as
                       the switches do */
    uint32_t mtu;   /* path MTU, bytes */
    uint32_t timeout, retry; /* as the attributes of queue pairs */
};

struct lab_node {
    char name[LAB_NAME_MAX];
    bool is_switch;
    unsigned number, degree; /* among its kind; links */
    union {
        struct lab_host host;
        struct fabric_switch sw;
    };
};

struct lab_link {
    unsigned a, b; /* nodes */
    struct fabric_link config;
};

enum lab_verb { LAB_WRITE, LAB_SEND, LAB_READ };
extern const char *const lab_verb_name[3];

/* Messages in a row on a connection of its own. Under LAB_READ `from` reads from `to`. */
struct lab_flow {
    char name[LAB_NAME_MAX];
    unsigned from, to; /* nodes */
    enum lab_verb verb;
    uint64_t size;    /* bytes; LAB_ENDLESS */
    uint32_t message; /* bytes of each but the last one */
    uint32_t depth;   /* messages that are posted at once */
    ns_t start;
    uint8_t dscp;
    bool has_entropy;
    struct entropy_policy entropy;
    unsigned line; /* of the text; 0: it is of none */
};

enum lab_change_kind { LAB_DOWN, LAB_BLACK, LAB_UP, LAB_MARK, LAB_LOSE };

struct lab_change {
    ns_t at;
    enum lab_change_kind kind;
    unsigned port;   /* LAB_MARK, LAB_LOSE: of what leaves it; else of the link */
    unsigned frames; /* LAB_MARK, LAB_LOSE */
};

/* A rule as those of `uroce fault`, about packets or the link of these hosts' ports. */
struct lab_rule {
    struct inject_rule rule;
    char hosts[LAB_PATTERN_MAX]; /* a pattern; "*": all */
    char text[INJECT_TEXT_MAX];  /* the rule's */
};

/* ---- all of it ---- */

struct lab_spec {
    uint64_t seed;
    ns_t until, sample, converge;
    struct lab_node *node;
    struct lab_link *link;
    struct lab_flow *flow;
    struct lab_change *change;
    struct lab_rule *rule;
    unsigned nodes, links, flows, changes, rules;
    unsigned node_room, link_room, flow_room, change_room, rule_room;
    unsigned hosts, switches;
    /* While it is made: what later nodes and links get. */
    struct lab_host host_default;
    struct fabric_switch switch_default;
    struct fabric_link link_default;
    struct random random;
    bool drawn;   /* something was chosen by the seed */
    bool bounded; /* something ends with `until` */
};

struct lab_error {
    unsigned line; /* from 1 on; 0: of the whole */
    char text[200];
};

/*
 * Reads a text. seed: instead of the text's own, or NULL; until: the same, or 0. 0; -EINVAL, with
 * *error, -ENOMEM. In the end lab_spec_free(), whatever it returned.
 */
int lab_spec_read(struct lab_spec *spec, const char *text, size_t len, const uint64_t *seed,
                  ns_t until, struct lab_error *error);
void lab_spec_free(struct lab_spec *spec);

/*
 * Reads a rule and adds it: "[PATTERN] RULE" as behind `fault` of a line. Without a pattern it is
 * for the host that it names as its device, or for all, later ones too. 0; -EINVAL, -ENOSPC or
 * -ENOMEM, with the reason in error.
 */
int lab_read_rule(struct lab_spec *spec, const char *text, char error[INJECT_ERROR_MAX]);

/* "10us", "1.5ms", "2s", "300ns", "0": false where the text is no such time. */
bool lab_read_time(const char *text, ns_t *time);

/* ---- making one by calls ---- */

void lab_spec_init(struct lab_spec *spec, uint64_t seed);
/* Numbers of the new ones; -ENOMEM, -ENOSPC, -EEXIST: the name is taken. */
int lab_add_node(struct lab_spec *spec, const char *name, bool is_switch);
int lab_add_link(struct lab_spec *spec, unsigned a, unsigned b, const struct fabric_link *config);
int lab_add_flow(struct lab_spec *spec, const struct lab_flow *flow);
int lab_add_change(struct lab_spec *spec, const struct lab_change *change);
int lab_add_rule(struct lab_spec *spec, const struct lab_rule *rule);
/* -ENOENT */
int lab_find_node(const struct lab_spec *spec, const char *name);
/* The link between two nodes, in either order: its port at a. */
int lab_find_port(const struct lab_spec *spec, unsigned a, unsigned b);
/* Whether a name is one of a pattern's: "h1", "h[1-8]", "leaf1,leaf2", "*". */
bool lab_name_matches(const char *name, const char *pattern);

#endif
