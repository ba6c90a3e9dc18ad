/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as input of `uroce entropy`: the first byte selects which (a file of flows, a range, a
 * policy, the daemon's answer). It is accepted, or refused with a reason, and accepted flows are in
 * range and can be spread.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "spread.h"

#define FLOWS_SPREAD 200

static const union gid src = {.raw = {[10] = 0xFF, 0xFF, 192, 0, 2, 1}};
static const union gid dst = {.raw = {[10] = 0xFF, 0xFF, 192, 0, 2, 2}};

static int read_file(struct flows *f, const char *data, size_t size, char *error)
{
    FILE *in = fmemopen((void *)data, size, "r");
    int err;

    REQUIRE(in);
    err = flows_add_lines(f, in, &src, &dst, error);
    fclose(in);
    return err;
}

static int read_shown(struct flows *f, const char *data, size_t size, char *error)
{
    json_t *qps = json_loadb(data, size, JSON_DECODE_ANY, NULL);
    int others = flows_add_shown(f, qps, error);

    json_decref(qps);
    return others < 0 ? others : 0;
}

static int read_range(struct flows *f, const char *data, size_t size, char *error)
{
    char *text = strndup(data, size);
    int err = flows_add_range(f, text, &src, &dst, error);

    free(text);
    return err;
}

static void check_policy(const char *data, size_t size, struct entropy_policy *policy)
{
    char *text = strndup(data, size), again[ENTROPY_TEXT_MAX];
    struct entropy_policy twice;

    if (!entropy_policy_parse(policy, text)) {
        entropy_policy_format(again, policy);
        REQUIRE(strlen(again) < sizeof(again) && !entropy_policy_parse(&twice, again));
        REQUIRE(twice.rule == policy->rule && twice.port == policy->port);
    }
    free(text);
}

static void check_spread(struct flows *f, struct entropy_policy policy)
{
    struct spread_plan plan = {.policy = {policy},
                               .policies = 1,
                               .hashes = SPREAD_HASHES,
                               .paths = {7},
                               .path_counts = 1,
                               .messages = 3};
    struct spread_result r;

    for (unsigned h = 0; h < SPREAD_HASHES; h++)
        plan.hash[h] = (enum spread_hash)h;
    if (f->count > FLOWS_SPREAD)
        f->count = FLOWS_SPREAD;
    REQUIRE(!spread_compute(&r, &plan, f));
    for (unsigned i = 0; i < r.spreads; i++) {
        double sum = 0;

        for (unsigned p = 0; p < 7; p++)
            sum += r.spread[i].load[p];
        REQUIRE(fabs(sum - f->count) < 1e-6);
        REQUIRE(r.spread[i].ports >= 1 && r.spread[i].ports <= f->count);
        REQUIRE(r.spread[i].idle < 7 && r.spread[i].imbalance <= 7 + 1e-9);
    }
    spread_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct entropy_policy policy = {ENTROPY_KERNEL};
    char error[SPREAD_ERROR_MAX] = "";
    const char *text = (const char *)data + 1;
    struct flows f = {0};
    int err = 0;

    if (size < 2)
        return 0;
    if (data[0] % 4 == 0)
        err = read_file(&f, text, size - 1, error);
    else if (data[0] % 4 == 1)
        err = read_range(&f, text, size - 1, error);
    else if (data[0] % 4 == 2)
        err = read_shown(&f, text, size - 1, error);
    else
        check_policy(text, size - 1, &policy);
    REQUIRE(err <= 0 && strlen(error) < sizeof(error) && !err == !error[0]);
    for (unsigned i = 0; i < f.count; i++)
        REQUIRE(f.flow[i].src_qpn <= 0xFFFFFF && f.flow[i].dest_qpn <= 0xFFFFFF);
    if (f.count)
        check_spread(&f, policy);
    flows_free(&f);
    return 0;
}
