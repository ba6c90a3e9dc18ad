/* SPDX-License-Identifier: BSD-3-Clause */
/* See options.h. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

const char spread_help[] =
    "usage: uroce entropy FLOWS... [OPTIONS]\n"
    "\n"
    "Shows how the UDP source ports that queue pairs get by each policy spread them over the\n"
    "paths of a network, or over the receive queues of a NIC.\n"
    "\n"
    "flows: pairs of a source's and a destination's queue pair number; options add up\n"
    "  -q, --qps A-B/STEP:C-D/STEP  pairs from two ranges of the same length; a range may be a\n"
    "                               single number, and its step left out (1)\n"
    "  -f, --file FILE              lines of SRC_QPN DEST_QPN [SRC_ADDRESS DEST_ADDRESS], where #\n"
    "                               begins a comment; - is the standard input\n"
    "  -r, --random N               N pairs at random\n"
    "      --random-seed N          others at random (0)\n"
    "      --running                the connected queue pairs of the running daemon\n"
    "      --socket PATH            the daemon's socket, as for `uroce show`\n"
    "      --src ADDR, --dst ADDR   of flows that come without addresses (192.0.2.1, 192.0.2.2)\n"
    "\n"
    "what is compared: lists with commas; each policy with each hash over each number of paths\n"
    "  -p, --policy LIST            kernel, rfc, fixed:PORT, spray (kernel,rfc,fixed:49152,spray)\n"
    "  -H, --hash LIST              toeplitz (of NICs), crc16, crc32, xor (of switches); all\n"
    "  -n, --paths LIST             numbers of paths from 1 to 4096 (8)\n"
    "      --select modulo|high     a path is the hash mod the number of paths, or the hash's "
    "high\n"
    "                               bits (modulo)\n"
    "      --seed N                 what the CRCs begin with and xor adds (0)\n"
    "      --key KEY                of toeplitz: microsoft, symmetric, or 40 bytes and more in "
    "hex,\n"
    "                               as `ethtool -x` prints them (microsoft)\n"
    "      --messages N             messages of each flow; `spray` sends each on a path of its "
    "own\n"
    "                               (64)\n"
    "\n"
    "output\n"
    "  -j, --json                   one JSON object, with the load of every path\n"
    "      --svg FILE               also a picture of the loads\n"
    "  -h, --help                   this text\n"
    "\n"
    "columns: max/mean is the fullest path's load divided by the mean, cv the standard deviation\n"
    "of the loads divided by their mean, idle the number of paths without load. `random` and\n"
    "`random_cv` are expected if each flow chose a random path; `ideal` and `ideal_cv` are the\n"
    "best that whole flows allow. For the flows' first messages: shared counts the flows that\n"
    "share their path with another flow, ports the distinct addresses and source ports,\n"
    "same_port the flows that share these with another flow, so that no hash separates them.\n"
    "\n"
    "Exit status: 0; 1: an input or output failed; 2: wrong usage.\n";

enum {
    OPT_RANDOM_SEED = 256,
    OPT_RUNNING,
    OPT_SOCKET,
    OPT_SRC,
    OPT_DST,
    OPT_SELECT,
    OPT_SEED,
    OPT_KEY,
    OPT_MESSAGES,
    OPT_SVG,
};

static const struct option options[] = {
    {"qps", required_argument, NULL, 'q'},
    {"file", required_argument, NULL, 'f'},
    {"random", required_argument, NULL, 'r'},
    {"random-seed", required_argument, NULL, OPT_RANDOM_SEED},
    {"running", no_argument, NULL, OPT_RUNNING},
    {"socket", required_argument, NULL, OPT_SOCKET},
    {"src", required_argument, NULL, OPT_SRC},
    {"dst", required_argument, NULL, OPT_DST},
    {"policy", required_argument, NULL, 'p'},
    {"hash", required_argument, NULL, 'H'},
    {"paths", required_argument, NULL, 'n'},
    {"select", required_argument, NULL, OPT_SELECT},
    {"seed", required_argument, NULL, OPT_SEED},
    {"key", required_argument, NULL, OPT_KEY},
    {"messages", required_argument, NULL, OPT_MESSAGES},
    {"json", no_argument, NULL, 'j'},
    {"svg", required_argument, NULL, OPT_SVG},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int print_bad_value(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "uroce entropy: --%s: \"%s\" is not %s\n", option, text, wanted);
    return -EINVAL;
}

int spread_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    unsigned long long v;
    char *end;

    if (!isdigit((unsigned char)*text))
        return -EINVAL;
    errno = 0;
    v = strtoull(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    if (errno || *end || v < min || v > max)
        return -EINVAL;
    *out = v;
    return 0;
}

/* ---- lists ---- */

static int add_policy(struct spread_plan *plan, const char *word)
{
    if (plan->policies == SPREAD_LIST_MAX)
        return -E2BIG;
    return entropy_policy_parse(&plan->policy[plan->policies++], word);
}

static int add_hash(struct spread_plan *plan, const char *word)
{
    for (unsigned h = 0; h < SPREAD_HASHES; h++)
        if (strcmp(word, spread_hash_name[h]) == 0) {
            if (plan->hashes == SPREAD_HASHES)
                return -E2BIG;
            plan->hash[plan->hashes++] = (enum spread_hash)h;
            return 0;
        }
    return -EINVAL;
}

static int add_paths(struct spread_plan *plan, const char *word)
{
    uint64_t v = 0;

    if (plan->path_counts == SPREAD_LIST_MAX)
        return -E2BIG;
    if (spread_parse_number(word, 1, SPREAD_PATHS_MAX, &v))
        return -EINVAL;
    plan->paths[plan->path_counts++] = (unsigned)v;
    return 0;
}

/* Adds every word between commas. The message names the first word that `add` refuses. */
static int parse_list(struct spread_plan *plan, const char *option, const char *text,
                      int add(struct spread_plan *, const char *), const char *wanted)
{
    while (true) {
        size_t len = strcspn(text, ",");
        char word[64];
        int err = -EINVAL;

        snprintf(word, sizeof(word), "%.*s", (int)min_of(len, sizeof(word)), text);
        if (len < sizeof(word))
            err = add(plan, word);
        if (err == -E2BIG)
            fprintf(stderr, "uroce entropy: --%s: more than can be compared at once\n", option);
        else if (err)
            print_bad_value(option, word, wanted);
        if (err || !text[len])
            return err;
        text += len + 1;
    }
}

/* ---- options ---- */

/* Hex digits with or without colons. Of more than 40 bytes only the first 40 are used. */
static bool parse_hex(uint8_t key[TOEPLITZ_KEY_LEN], const char *text)
{
    unsigned digits = 0;

    for (; *text; text++) {
        unsigned v;

        if (*text == ':' && digits && digits % 2 == 0 && text[1])
            continue;
        if (!isxdigit((unsigned char)*text))
            return false;
        v = isdigit((unsigned char)*text) ? (unsigned)(*text - '0')
                                          : (unsigned)(tolower(*text) - 'a' + 10);
        if (digits / 2 < TOEPLITZ_KEY_LEN)
            key[digits / 2] = (uint8_t)(key[digits / 2] << 4 | v);
        digits++;
    }
    return digits >= 2 * TOEPLITZ_KEY_LEN && digits % 2 == 0;
}

static int parse_key(struct spread_plan *plan, const char *text)
{
    if (strcmp(text, "microsoft") == 0)
        memcpy(plan->key, toeplitz_key_microsoft, sizeof(plan->key));
    else if (strcmp(text, "symmetric") == 0)
        memcpy(plan->key, toeplitz_key_symmetric, sizeof(plan->key));
    else if (!parse_hex(plan->key, text))
        return print_bad_value("key", text, "microsoft, symmetric, or at least 40 bytes in hex");
    return 0;
}

static int parse_select(struct spread_plan *plan, const char *text)
{
    plan->high = strcmp(text, "high") == 0;
    if (plan->high || strcmp(text, "modulo") == 0)
        return 0;
    return print_bad_value("select", text, "modulo or high");
}

static int parse_address(union gid *g, const char *option, const char *text)
{
    if (gid_parse(g, text))
        return print_bad_value(option, text, "an IPv4 or IPv6 address");
    return 0;
}

static int parse_seed(uint32_t *seed, const char *text)
{
    uint64_t v = 0;

    if (spread_parse_number(text, 0, UINT32_MAX, &v))
        return print_bad_value("seed", text, "a number of 32 bits");
    *seed = (uint32_t)v;
    return 0;
}

static int parse_messages(unsigned *messages, const char *text)
{
    uint64_t v = 0;

    if (spread_parse_number(text, 1, 65536, &v))
        return print_bad_value("messages", text, "a number from 1 to 65536");
    *messages = (unsigned)v;
    return 0;
}

static int add_source(struct spread_arguments *a, enum source_kind kind, const char *text)
{
    if (a->sources == SPREAD_SOURCES_MAX) {
        fprintf(stderr, "uroce entropy: flows from more than %d places\n", SPREAD_SOURCES_MAX);
        return -EINVAL;
    }
    a->source[a->sources++] = (struct flow_source){kind, text};
    return 0;
}

static int apply_option(struct spread_arguments *a, int option, const char *text)
{
    switch (option) {
    case 'q':
        return add_source(a, SOURCE_QPS, text);
    case 'f':
        return add_source(a, SOURCE_FILE, text);
    case 'r':
        return add_source(a, SOURCE_RANDOM, text);
    case OPT_RUNNING:
        return add_source(a, SOURCE_RUNNING, NULL);
    case OPT_RANDOM_SEED:
        return spread_parse_number(text, 0, UINT64_MAX, &a->random_seed)
                   ? print_bad_value("random-seed", text, "a number of 64 bits")
                   : 0;
    case OPT_SOCKET:
        a->socket = text;
        return 0;
    case OPT_SRC:
        return parse_address(&a->src, "src", text);
    case OPT_DST:
        return parse_address(&a->dst, "dst", text);
    case 'p':
        return parse_list(&a->plan, "policy", text, add_policy,
                          "kernel, rfc, spray or fixed:PORT, PORT from 49152 to 65535");
    case 'H':
        return parse_list(&a->plan, "hash", text, add_hash, "toeplitz, crc16, crc32 or xor");
    case 'n':
        return parse_list(&a->plan, "paths", text, add_paths, "a number from 1 to 4096");
    case OPT_SELECT:
        return parse_select(&a->plan, text);
    case OPT_SEED:
        return parse_seed(&a->plan.seed, text);
    case OPT_KEY:
        return parse_key(&a->plan, text);
    case OPT_MESSAGES:
        return parse_messages(&a->plan.messages, text);
    case OPT_SVG:
        a->svg = text;
        return 0;
    case 'j':
        a->json = true;
        return 0;
    default: /* getopt_long has printed the reason */
        return -EINVAL;
    }
}

/* Sets the defaults of what no option set. */
static void set_defaults(struct spread_plan *plan)
{
    bool chosen = plan->hashes;

    if (!plan->policies) {
        plan->policy[plan->policies++].rule = ENTROPY_KERNEL;
        plan->policy[plan->policies++].rule = ENTROPY_RFC;
        plan->policy[plan->policies++] = (struct entropy_policy){ENTROPY_FIXED, ENTROPY_PORT_MIN};
        plan->policy[plan->policies++].rule = ENTROPY_SPRAY;
    }
    for (unsigned h = 0; !chosen && h < SPREAD_HASHES; h++)
        plan->hash[plan->hashes++] = (enum spread_hash)h;
    if (!plan->path_counts)
        plan->paths[plan->path_counts++] = 8;
}

int spread_parse_arguments(struct spread_arguments *a, int argc, char **argv)
{
    int option, err;

    gid_parse(&a->src, "192.0.2.1");
    gid_parse(&a->dst, "192.0.2.2");
    a->plan.messages = 64;
    memcpy(a->plan.key, toeplitz_key_microsoft, sizeof(a->plan.key));
    optind = 0; /* getopt scans a new argument vector */
    while ((option = getopt_long(argc, argv, "q:f:r:p:H:n:jh", options, NULL)) != -1) {
        if (option == 'h')
            return 1;
        err = apply_option(a, option, optarg);
        if (err)
            return err;
    }
    if (optind < argc) {
        fprintf(stderr, "uroce entropy: unexpected argument \"%s\"\n", argv[optind]);
        return -EINVAL;
    }
    if (gid_is_ipv4(&a->src) != gid_is_ipv4(&a->dst)) {
        fputs("uroce entropy: of --src and --dst one is an IPv4 address, the other an IPv6 one\n"
              "(without these options they are 192.0.2.1 and 192.0.2.2)\n",
              stderr);
        return -EINVAL;
    }
    if (!a->sources) {
        fputs("uroce entropy: no flows: give --qps, --file, --random or --running\n", stderr);
        return -EINVAL;
    }
    set_defaults(&a->plan);
    return 0;
}
