/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of flow rules, with its entries in the order of the rules. */
#ifndef UROCE_FLOW_KIT_H
#define UROCE_FLOW_KIT_H

#include "raw.h"

#define FLOW_KIT_RULES 8

struct flow_kit {
    struct flow_table *table; /* NULL: no rules */
    struct flow_entry *entry[FLOW_KIT_RULES];
};

static inline void flow_kit_fini(struct flow_kit *k)
{
    flow_table_free(k->table);
    for (unsigned i = 0; i < FLOW_KIT_RULES; i++)
        flow_entry_free(k->entry[i]);
}

/* At most FLOW_KIT_RULES rules, which are made one after the other. */
static inline struct flow_kit flow_kit_init(const struct flow_rule *rule, unsigned rules)
{
    struct flow_kit k = {0};

    for (unsigned i = 0; i < rules; i++) {
        struct flow_table *before = k.table;

        k.entry[i] = flow_entry_create(&rule[i]);
        k.table = flow_table_with(before, k.entry[i]);
        flow_table_free(before);
    }
    return k;
}

#endif
