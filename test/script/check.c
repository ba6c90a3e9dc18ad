/* SPDX-License-Identifier: BSD-3-Clause */
/* Statements that check: memory, counters, drops, states, events; and the checks at the end. */
#include <inttypes.h>
#include <string.h>

#include "script.h"

/* ---- memory ---- */

static uint8_t *range(struct script *s, uint32_t *len, const char **name)
{
    uint32_t off;
    struct kit_mr *mr;

    *name = s->at < s->words ? s->word[s->at] : "?";
    mr = need_range(s, &off, len);
    if (off > mr->len || *len > mr->len - off)
        fail(s, "script: %s is outside the region", *name);
    return mr->bytes + off;
}

static void check_hex(struct script *s, const char *name, const uint8_t *bytes, uint32_t len)
{
    const char *hex = need(s, "bytes in hexadecimal");

    for (uint32_t i = 0; i < len; i++) {
        unsigned want;

        if (sscanf(hex + 2 * i, "%2x", &want) != 1)
            fail(s, "script: too few bytes");
        if (bytes[i] != want)
            fail(s, "%s: byte %u: expected 0x%02x, got 0x%02x", name, i, want, bytes[i]);
    }
}

/* mem RANGE data SEED[+OFF] | zero | u64 N | hex BYTES */
void st_mem(struct script *s)
{
    uint32_t len, seed = 0, off = 0;
    const char *name, *what;
    uint8_t *bytes = range(s, &len, &name);

    what = need(s, "data, zero or u64");
    if (!strcmp(what, "u64")) {
        uint64_t want = need_number(s, "a value"), got;

        memcpy(&got, bytes, sizeof(got));
        if (got != want)
            fail(s, "%s: expected 0x%" PRIx64 ", got 0x%" PRIx64, name, want, got);
        return;
    }
    if (!strcmp(what, "hex")) {
        check_hex(s, name, bytes, len);
        return;
    }
    if (!strcmp(what, "data"))
        need_data(s, &seed, &off);
    else if (strcmp(what, "zero"))
        fail(s, "script: memory holds data, zero, u64 or hex");
    for (uint32_t i = 0; i < len; i++) {
        uint8_t want = seed ? data_byte(seed, off + i) : 0;

        if (bytes[i] != want)
            fail(s, "%s: byte %u: expected 0x%02x, got 0x%02x", name, i, want, bytes[i]);
    }
}

/* fill RANGE data SEED[+OFF] | u64 N */
void st_fill(struct script *s)
{
    uint32_t len, seed = 0, off = 0;
    const char *name;
    uint8_t *bytes = range(s, &len, &name);

    if (accept(s, "u64")) {
        uint64_t value = need_number(s, "a value");

        memcpy(bytes, &value, sizeof(value));
        return;
    }
    if (!accept(s, "data"))
        fail(s, "script: memory is filled with data or u64");
    need_data(s, &seed, &off);
    for (uint32_t i = 0; i < len; i++)
        bytes[i] = data_byte(seed, off + i);
}

/* ---- counters ---- */

static void compare(struct script *s, const char *what, uint64_t want, uint64_t got)
{
    if (want != got)
        fail(s, "%s: expected %" PRIu64 ", got %" PRIu64, what, want, got);
}

static struct script_qp *maybe_on(struct script *s)
{
    return object(s, OBJ_QP, accept(s, "on") ? need(s, "a queue pair") : NULL);
}

/* counter NAME N [on QP] */
void st_counter(struct script *s)
{
#define X(name) {#name, offsetof(struct qp_counters, name), sizeof(uint64_t)},
    static const struct field counters[] = {QP_COUNTERS(X){0}};
#undef X
    const char *name = need(s, "a counter");
    const struct field *f = find_field(counters, name);
    uint64_t want = need_number(s, "a count");

    if (!f)
        fail(s, "script: there is no counter '%s'", name);
    compare(s, name, want, field_get(f, qp_counters(maybe_on(s)->qp)));
}

/* drop REASON N */
void st_drop(struct script *s)
{
    const char *name = need(s, "a reason");
    uint64_t want = need_number(s, "a count");

    for (unsigned i = 1; i < DROP_COUNT; i++)
        if (!strcmp(drop_name((enum drop)i), name)) {
            compare(s, name, want, counter_get(&engine_counters(s->engine)->drop[i]));
            return;
        }
    fail(s, "script: there is no reason '%s' to drop", name);
}

/* total NAME [priority P] N: the engine's counters */
void st_total(struct script *s)
{
#define F(name)                                                                                    \
    {                                                                                              \
#name, offsetof(struct engine_counters, name), sizeof(((struct engine_counters *)0)->name) \
    }
    static const struct field totals[] = {
        F(rx_packets), F(rx_bytes), F(rx_delivered), F(tx_packets), F(tx_bytes), {0},
    };
#undef F
    const char *name = need(s, "a counter");
    const struct field *f = find_field(totals, name);
    const counter_t *c;
    unsigned n;

    if (!f)
        fail(s, "script: there is no total '%s'", name);
    c = (const counter_t *)((const char *)engine_counters(s->engine) + f->offset);
    n = (unsigned)(f->size / sizeof(*c));
    if (accept(s, "priority")) {
        uint64_t priority = need_number(s, "a priority");

        if (priority >= n)
            fail(s, "script: '%s' has no priority %" PRIu64, name, priority);
        c += priority;
        n = 1;
    }
    compare(s, name, need_number(s, "a count"), counter_sum(c, n));
}

/* state S [on QP] */
void st_state(struct script *s)
{
    uint32_t want = named(s, state_names, need(s, "a state"), "state"), got;

    got = qp_current_state(maybe_on(s)->qp);
    if (got != want)
        fail(s, "state: expected %s, got %u", name_of(state_names, want), got);
}

/* query ATTR N [on QP] */
void st_query(struct script *s)
{
#define F(name)                                                                    \
    {                                                                              \
#name, offsetof(struct qp_attr, name), sizeof(((struct qp_attr *)0)->name) \
    }
    static const struct field fields[] = {
        F(sq_psn),        F(rq_psn),
        F(sq_draining),   F(dest_qpn),
        F(qkey),          F(state),
        F(cur_state),     F(timeout),
        F(retry_cnt),     F(min_rnr_timer),
        F(path_mtu),      F(rnr_retry),
        F(max_rd_atomic), F(max_dest_rd_atomic),
        F(port_num),      F(access_flags),
        F(pkey_index),    {0},
    };
#undef F
    const char *name = need(s, "an attribute");
    const struct field *f = find_field(fields, name);
    uint64_t want = need_number(s, "a value");
    struct qp_attr attr;

    if (!f)
        fail(s, "script: there is no attribute '%s'", name);
    engine_qp_query(maybe_on(s)->qp, &attr);
    compare(s, name, want, field_get(f, &attr));
}

/* ---- events ---- */

/* event NAME [of OBJECT] */
void st_event(struct script *s)
{
    uint32_t want = named(s, event_names, need(s, "an event"), "event");
    const struct noted *e = &s->event[s->events_taken];

    if (s->events_taken == s->events)
        fail(s, "expected event %s, there is none", name_of(event_names, want));
    s->events_taken++;
    if (e->event != want)
        fail(s, "expected event %s, got %u", name_of(event_names, want), e->event);
    if (accept(s, "of")) {
        const char *name = need(s, "an object");

        if (strcmp(object_name(s, e->who), name))
            fail(s, "event %s of %s, not of %s", name_of(event_names, want), object_name(s, e->who),
                 name);
    }
}

/* ---- the end ---- */

static void no_completion(struct script *s)
{
    for (unsigned i = 0; i < s->objects; i++) {
        struct kit_cq *cq = s->object[i].p;
        const struct cqe *c;

        if (s->object[i].kind != OBJ_CQ || !(c = cq_reader_peek(&cq->reader)))
            continue;
        fail(s, "a completion that no line expects: wr %" PRIu64 " %s status %s", c->wr_id,
             name_of(wc_names, c->opcode),
             c->status ? name_of(status_names, c->status) : "SUCCESS");
    }
}

void check_end(struct script *s)
{
    const struct engine_counters *c = engine_counters(s->engine);
    uint64_t sum = counter_get(&c->rx_delivered);

    expect_no_frame(s);
    no_completion(s);
    if (s->events_taken < s->events)
        fail(s, "an event that no line expects: %s",
             name_of(event_names, s->event[s->events_taken].event));
    for (unsigned i = 0; i < DROP_COUNT; i++)
        sum += counter_get(&c->drop[i]);
    compare(s, "delivered and dropped frames together", counter_sum(c->rx_packets, QOS_PRIORITIES),
            sum);
    if (!kit_canaries_intact(s->node))
        fail(s, "the engine wrote past a memory region");
}
