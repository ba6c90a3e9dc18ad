/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `uroce entropy`: how source ports spread flows over the paths of a network, or over the queues of
 * a NIC. flows.c collects the flows, spread.c hashes and counts them, report.c and svg.c print the
 * result.
 */
#ifndef UROCE_ENTROPY_SPREAD_H
#define UROCE_ENTROPY_SPREAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "entropy.h"
#include "gid.h"
#include "toeplitz.h"

#define SPREAD_FLOWS_MAX    (1u << 20)
#define SPREAD_MESSAGES_MAX (1u << 26) /* of all flows */
#define SPREAD_PATHS_MAX    4096
#define SPREAD_LIST_MAX     16 /* policies, and numbers of paths, in one call */
#define SPREAD_ERROR_MAX    256

/* ---- flows ---- */

struct flow {
    uint32_t src_qpn, dest_qpn;
    union gid src, dst;
};

struct flows {
    struct flow *flow;
    unsigned count, room;
};

/*
 * Adding flows. src and dst are the addresses of flows that do not name theirs. 0, or -EINVAL or
 * -ENOMEM with the reason, one line, in error.
 */

/* "A[-B[/STEP]]:C[-D[/STEP]]": pairs of source and destination QPNs, one from each range. */
int flows_add_range(struct flows *f, const char *text, const union gid *src, const union gid *dst,
                    char error[SPREAD_ERROR_MAX]);

/* n random pairs of QPNs from 0x10 to 0xFFFFFE; the source's is drawn first. */
int flows_add_random(struct flows *f, unsigned n, uint64_t seed, const union gid *src,
                     const union gid *dst, char error[SPREAD_ERROR_MAX]);

/* Lines of "SRC_QPN DEST_QPN [SRC_ADDRESS DEST_ADDRESS]"; # begins a comment. */
int flows_add_lines(struct flows *f, FILE *in, const union gid *src, const union gid *dst,
                    char error[SPREAD_ERROR_MAX]);

/* The connected queue pairs of `uroce show qps --json`. Returns the number of all others, or an
 * error. */
int flows_add_shown(struct flows *f, const json_t *qps, char error[SPREAD_ERROR_MAX]);

void flows_free(struct flows *f);

/* ---- spreading ---- */

enum spread_hash {
    SPREAD_TOEPLITZ,
    SPREAD_CRC16,
    SPREAD_CRC32,
    SPREAD_XOR,
    SPREAD_HASHES,
};

extern const char *const spread_hash_name[SPREAD_HASHES];

/* The comparison: every policy with every hash over every number of paths. */
struct spread_plan {
    struct entropy_policy policy[SPREAD_LIST_MAX];
    enum spread_hash hash[SPREAD_HASHES];
    unsigned paths[SPREAD_LIST_MAX];
    unsigned policies, hashes, path_counts;
    unsigned messages; /* of each flow; only `spray` treats them differently */
    uint32_t seed;     /* of the switches: CRCs and XOR */
    uint8_t key[TOEPLITZ_KEY_LEN];
    bool high; /* the path is given by the hash's high bits, else by the hash mod paths */
};

/* One policy with one hash over one number of paths. */
struct spread {
    struct entropy_policy policy;
    enum spread_hash hash;
    unsigned paths;
    double *load;       /* of each path, in flows */
    unsigned *first;    /* of each path: the flows whose first message takes it */
    unsigned ports;     /* distinct addresses and source ports of the flows' first messages */
    unsigned same_port; /* flows that share these with another flow */
    unsigned idle;      /* paths without load */
    unsigned shared;    /* flows that share the path of their first message with another flow */
    double imbalance;   /* the largest load divided by the mean */
    double cv; /* coefficient of variation: the standard deviation of the loads divided by their
                  mean */
};

/* References: flows divided as evenly as whole flows can be, and flows on random paths. */
struct spread_baseline {
    unsigned paths;
    double ideal_imbalance, ideal_cv;
    /* Expected values: cv is the root of the expected square, the imbalance comes from seeded
     * trials. */
    double random_imbalance, random_cv, random_idle, random_shared;
};

struct spread_result {
    unsigned flows, spreads, baselines;
    struct spread *spread; /* by number of paths, policy, hash */
    struct spread_baseline baseline[SPREAD_LIST_MAX];
};

/* 0 or -ENOMEM. The caller ensures that there is a flow and that the plan is within the limits. */
int spread_compute(struct spread_result *r, const struct spread_plan *plan, const struct flows *f);

void spread_free(struct spread_result *r);

/* The baseline for this number of paths of a result. */
const struct spread_baseline *spread_baseline(const struct spread_result *r, unsigned paths);

/* ---- showing: 0 or a negative errno ---- */

int spread_print_table(FILE *out, const struct spread_plan *plan, const struct spread_result *r);
int spread_print_json(FILE *out, const struct spread_plan *plan, const struct spread_result *r);
int spread_print_svg(FILE *out, const struct spread_plan *plan, const struct spread_result *r);

#endif
