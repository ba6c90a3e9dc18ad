/* SPDX-License-Identifier: BSD-3-Clause */
/* Laboratories that run for tests: what they show is kept, and every frame is accounted for. */
#ifndef UROCE_TEST_LAB_KIT_H
#define UROCE_TEST_LAB_KIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "unit.h"

struct trial {
    struct lab_spec spec;
    struct lab *lab;
    uint64_t hash; /* of all frames, with ports and times */
    unsigned frames, samples;
    bool looks;
};

static inline void on_frame(void *ctx, unsigned port, const uint8_t *data, uint32_t len, ns_t now)
{
    struct trial *t = ctx;

    t->frames++;
    t->hash = (t->hash ^ now ^ port) * UINT64_C(0x100000001b3);
    for (uint32_t i = 0; i < len; i++)
        t->hash = (t->hash ^ data[i]) * UINT64_C(0x100000001b3);
}

static inline void on_sample(void *ctx, struct lab *lab, ns_t now)
{
    ((struct trial *)ctx)->samples++;
}

static inline void check_conserved(struct trial *t)
{
    const struct fabric_totals *n = fabric_totals(lab_fabric(t->lab));

    assert_int_equal(n->sent, n->delivered + n->dropped + n->lost + n->unrouted + n->misplaced +
                                  fabric_frames_inside(lab_fabric(t->lab)));
}

static inline void run(struct trial *t, const char *text, uint64_t seed, bool looks)
{
    struct lab_error error;
    struct lab_hooks hooks = {t, on_sample, looks ? on_frame : NULL};
    int err;

    memset(t, 0, sizeof(*t));
    err = lab_spec_read(&t->spec, text, strlen(text), &seed, 0, &error);
    if (err)
        print_message("# line %u: %s\n", error.line, error.text);
    assert_int_equal(err, 0);
    t->lab = lab_create(&t->spec, &hooks);
    assert_non_null(t->lab);
    assert_int_equal(lab_run(t->lab), 0);
    check_conserved(t);
}

static inline void end(struct trial *t)
{
    lab_destroy(t->lab);
    lab_spec_free(&t->spec);
}

static inline struct lab_result result(struct trial *t, unsigned flow)
{
    struct lab_result r;

    lab_result(t->lab, flow, &r);
    return r;
}

static inline void all_done(struct trial *t)
{
    for (unsigned i = 0; i < t->spec.flows; i++) {
        struct lab_result r = result(t, i);

        assert_int_equal(r.outcome, LAB_DONE);
        assert_int_equal(r.bytes, t->spec.flow[i].size);
        assert_true(r.end > r.start);
    }
}

#endif
