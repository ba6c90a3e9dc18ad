/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a rule of `uroce fault`, and what follows a zero byte as a frame. The rule is
 * refused with a reason, or all that it holds is in range; the frame has the same length
 * afterwards.
 */
#include <string.h>

#include "fuzz.h"
#include "inject.h"

static void check(const struct inject_rule *r)
{
    REQUIRE(r->act > INJECT_NOTHING && r->act < INJECT_ACTS);
    REQUIRE(memchr(r->device, '\0', sizeof(r->device)));
    REQUIRE(r->chance <= INJECT_BILLION && r->qp <= PSN_MASK && r->psn <= PSN_MASK);
    REQUIRE(!r->by_psn || (r->psn_count && r->psn_count <= PSN_MASK + 1));
    REQUIRE(memchr(r->program, '\0', sizeof(r->program)) && r->verb < INJECT_VERB_COUNT);
    REQUIRE(r->error >= 0 && r->error < 4096);
    REQUIRE(r->act != INJECT_COMPLETE || r->status);
    REQUIRE(r->behind <= INJECT_BEHIND_MAX && r->delay <= INJECT_DELAY_MAX);
    REQUIRE(r->after <= INJECT_TIME_MAX && r->lasts <= INJECT_TIME_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[INJECT_TEXT_MAX + 1], error[INJECT_ERROR_MAX] = "";
    size_t len = strnlen((const char *)data, min_of(size, INJECT_TEXT_MAX));
    struct inject_rule r;
    struct inject_packet p = {.direction = INJECT_RX, .program = "rping"};
    struct inject_request w = {.qpn = 1, .program = "rping"};
    struct inject_hits hits = {0};
    uint8_t frame[512];
    struct frame f = {.data = frame};

    memcpy(text, data, len);
    text[len] = '\0';
    if (inject_parse(&r, text, error)) {
        REQUIRE(error[0] && strnlen(error, sizeof(error)) < sizeof(error));
        return 0;
    }
    check(&r);
    f.len = (uint32_t)min_of(size - min_of(len + 1, size), sizeof(frame));
    memcpy(frame, data + size - f.len, f.len);
    w.operation = f.len ? frame[0] : 0;
    inject_decide_request(&r, &hits, &w, 0);
    REQUIRE(hits.picked <= hits.matched);
    if (inject_read(&p, &f)) {
        inject_matches(&r, &p);
        inject_corrupt(&r, 3, &f);
        inject_nak(&r, &f);
    }
    return 0;
}
