/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as the text of a laboratory (`uroce sim`). It is refused with a reason, or all that it
 * made is in range; a small one runs for a moment, and every frame is accounted for.
 */
#include <string.h>

#include "fuzz.h"
#include "lab.h"

#define NODES 12
#define FLOWS 24

static bool ends(const char *name)
{
    return memchr(name, '\0', LAB_NAME_MAX);
}

static void check(const struct lab_spec *s)
{
    REQUIRE(s->hosts + s->switches == s->nodes && s->flows && s->sample && s->until);
    for (unsigned i = 0; i < s->nodes; i++)
        REQUIRE(ends(s->node[i].name) && s->node[i].name[0]);
    for (unsigned i = 0; i < s->links; i++)
        REQUIRE(s->link[i].a < s->nodes && s->link[i].b < s->nodes && s->link[i].config.bps);
    for (unsigned i = 0; i < s->flows; i++) {
        const struct lab_flow *f = &s->flow[i];

        REQUIRE(ends(f->name) && f->from < s->nodes && f->to < s->nodes && f->from != f->to);
        REQUIRE(!s->node[f->from].is_switch && !s->node[f->to].is_switch);
        REQUIRE(f->size && f->message && f->message <= LAB_MESSAGE_MAX && f->depth);
    }
    for (unsigned i = 0; i < s->changes; i++)
        REQUIRE(s->change[i].port < 2 * s->links);
    REQUIRE(s->rules <= LAB_RULES_MAX);
    for (unsigned i = 0; i < s->rules; i++) {
        const struct lab_rule *r = &s->rule[i];

        REQUIRE(memchr(r->hosts, '\0', LAB_PATTERN_MAX) && memchr(r->text, '\0', INJECT_TEXT_MAX));
        REQUIRE(inject_kind_of(r->rule.act) & (INJECT_OF_PACKETS | INJECT_OF_LINKS));
    }
}

static void run(struct lab_spec *s)
{
    const struct lab_hooks none = {0};
    const struct fabric_totals *t;
    struct lab *lab;

    s->until = min_of(s->until, 20 * NS_PER_US);
    for (unsigned i = 0; i < s->flows; i++)
        s->flow[i].message = min_of(s->flow[i].message, 1u << 16);
    for (unsigned i = 0; i < s->links; i++)
        s->link[i].config.bps = min_of(s->link[i].config.bps, UINT64_C(400000000000));
    lab = lab_create(s, &none);
    REQUIRE(lab);
    REQUIRE(!lab_run(lab));
    t = fabric_totals(lab_fabric(lab));
    REQUIRE(t->sent == t->delivered + t->dropped + t->lost + t->unrouted + t->misplaced +
                           fabric_frames_inside(lab_fabric(lab)));
    for (unsigned i = 0; i < s->rules; i++) {
        struct lab_hits h;

        lab_rule_hits(lab, i, &h);
        REQUIRE(h.acted + h.missed <= h.matched);
    }
    lab_destroy(lab);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lab_error error;
    struct lab_spec s;

    if (!lab_spec_read(&s, (const char *)data, size, NULL, 0, &error)) {
        check(&s);
        if (s.nodes <= NODES && s.flows <= FLOWS)
            run(&s);
    } else {
        REQUIRE(error.text[0]);
    }
    lab_spec_free(&s);
    return 0;
}
