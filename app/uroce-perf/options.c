/* SPDX-License-Identifier: BSD-3-Clause */
/* See options.h: one table of all options, and the conditions between them. */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_list.h"
#include "number.h"
#include "queue_abi.h"
#include "worker.h"

#define SIZE_MAX_BYTES (UINT64_C(64) << 20)
#define PAIRS_MAX      60000
#define OPTIONS_PORT   18700
#define MTU_DEFAULT    4096
#define DAY            (24 * 3600 * NS_PER_SEC)

enum kind { NUMBER, SECONDS, FLAG, SWITCH, CHOICE, TEXT };

static const char *const modes[] = {[MODE_WRITE] = "write",     [MODE_WRITE_IMM] = "write_imm",
                                    [MODE_SEND] = "send",       [MODE_READ] = "read",
                                    [MODE_ATOMIC] = "atomic",   [MODE_UD] = "ud",
                                    [MODE_RX_ONLY] = "rx-only", [MODE_PARSE] = "parse",
                                    [MODE_ICRC] = "icrc",       [MODE_BUILD] = "build",
                                    [MODE_LOOP] = "loop",       [MODE_TX_ONLY] = "tx-only",
                                    [MODE_IO] = "io",           NULL};
static const char *const formats[] = {"table", "csv", "json", NULL};
static const char *const arrivals[] = {
    [ARRIVALS_POISSON] = "poisson", [ARRIVALS_EVEN] = "even", NULL};

#define AT(field) offsetof(struct perf_options, field)
static const struct row {
    const char *name;
    enum kind kind;
    size_t at;
    uint64_t min, max;
    const char *const *choice;
    const char *help;
} rows[] = {
    {"mode", CHOICE, AT(mode), 0, 0, modes,
     "write, write_imm, send, read, atomic, ud; stages: rx-only, parse, icrc, build, loop; "
     "the bare port: tx-only, rx-only, io"},
    {"size", NUMBER, AT(size), 0, SIZE_MAX_BYTES, NULL,
     "bytes of a message (K and M may follow); of a frame's payload, or of a whole frame"},
    {"depth", NUMBER, AT(depth), 1, QUEUE_MAX_WR, NULL, "messages outstanding on each queue pair"},
    {"qps", NUMBER, AT(qps), 1, PAIRS_MAX, NULL, "connected pairs of queue pairs"},
    {"idle", NUMBER, AT(idle), 0, PAIRS_MAX, NULL, "additional pairs that stay idle"},
    {"workers", NUMBER, AT(workers), 1, WORKERS_MAX, NULL, "threads, each spinning on a CPU"},
    {"mtu", NUMBER, AT(mtu), 256, 4096, NULL, "path MTU: 256, 512, 1024, 2048, 4096"},
    {"inline", NUMBER, AT(inline_max), 0, QUEUE_MAX_INLINE, NULL,
     "messages of at most N bytes are posted inline"},
    {"signal", NUMBER, AT(signal), 1, QUEUE_MAX_WR, NULL, "a completion for every N messages"},
    {"buffer", NUMBER, AT(buffer), 4096, UINT64_C(1) << 30, NULL,
     "bytes of memory for a worker's messages, at each end"},
    {"duration", SECONDS, AT(duration), NS_PER_MS, DAY, NULL,
     "seconds, such as 0.5; 0: 5 in batch mode, until stop at the prompt"},
    {"messages", NUMBER, AT(messages), 0, UINT64_C(1) << 40, NULL,
     "end after N messages, of all queue pairs together; 0: by time"},
    {"rate", NUMBER, AT(rate), 0, 1000000000, NULL,
     "messages due a second, of all queue pairs together, whatever becomes of them; 0: always as "
     "many as the depth allows"},
    {"arrivals", CHOICE, AT(arrivals), 0, 0, arrivals, "poisson, even: when they are due"},
    {"loads", TEXT, AT(loads), 0, sizeof(((struct perf_options *)0)->loads), NULL,
     "a run for each rate in per cent of the highest, such as 20,50,80"},
    {"seed", NUMBER, AT(seed), 0, INT64_MAX, NULL, "seed of the messages' contents and gaps"},
    {"bidirectional", FLAG, AT(bidirectional), 0, 0, NULL, "both queue pairs of a pair send"},
    {"verify", FLAG, AT(verify), 0, 0, NULL, "compare every byte that arrives"},
    {"floor", SWITCH, AT(floor), 0, 0, NULL,
     "on or off: measure the time of copies and CRCs alone"},
    {"icrc", SWITCH, AT(icrc), 0, 0, NULL,
     "on or off: without it packets on the loopback port have no ICRC, as in uroced"},
    {"client", TEXT, AT(client), 0, sizeof(((struct perf_options *)0)->client), NULL,
     "send, through libibverbs, to the uroce-perf that serves at this address"},
    {"server", FLAG, AT(server), 0, 0, NULL, "serve clients, through libibverbs, until a signal"},
    {"port", NUMBER, AT(port), 1, 65535, NULL, "of the server"},
    {"cpus", TEXT, AT(cpus), 0, sizeof(((struct perf_options *)0)->cpus), NULL,
     "CPUs for the workers, such as 2,3"},
    {"stats-period", SECONDS, AT(stats_period), 10 * NS_PER_MS, DAY, NULL,
     "print rates every S seconds; 0: only at the end"},
    {"format", CHOICE, AT(format), 0, 0, formats, "table, csv, json"},
    {"batch", FLAG, AT(batch), 0, 0, NULL, "run once and end, also on a terminal"},
    {"interactive", FLAG, AT(interactive), 0, 0, NULL, "show a prompt, also without a terminal"},
};

__attribute__((format(printf, 3, 4))) static int fail(char *error, size_t size, const char *format,
                                                      ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, size, format, args);
    va_end(args);
    return -1;
}

const char *mode_name(unsigned mode)
{
    return modes[mode];
}

const char *arrivals_name(unsigned i)
{
    return arrivals[i];
}

uint64_t options_size(const struct perf_options *o)
{
    if (o->sized)
        return o->size;
    if (o->mode == MODE_ATOMIC)
        return 8;
    if (o->mode == MODE_UD || mode_has_packets(o->mode))
        return o->mtu;
    return mode_has_engine(o->mode) ? 65536 : 1024;
}

void options_default(struct perf_options *o)
{
    *o = (struct perf_options){.depth = 16,
                               .qps = 1,
                               .workers = 1,
                               .mtu = MTU_DEFAULT,
                               .signal = 1,
                               .buffer = UINT64_C(1) << 20,
                               .seed = 1,
                               .port = OPTIONS_PORT,
                               .floor = true,
                               .icrc = true};
}

static const struct row *find_row(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    }
    return NULL;
}

static bool takes_value(const char *name)
{
    const struct row *r = find_row(name);

    return r && r->kind != FLAG;
}

bool options_knows(const char *argument)
{
    size_t n = strcspn(argument, "=");

    for (size_t i = 0; n > 2 && !strncmp(argument, "--", 2) && i < ARRAY_SIZE(rows); i++)
        if (strlen(rows[i].name) == n - 2 && !strncmp(rows[i].name, argument + 2, n - 2))
            return true;
    return false;
}

static int read_number(const char *text, uint64_t *out)
{
    unsigned shift;
    char *end;

    errno = 0;
    *out = strtoull(text, &end, number_base(text));
    if (end == text || errno || text[0] < '0' || text[0] > '9')
        return -1;
    shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : 0;
    if (end[shift != 0] || *out > UINT64_MAX >> shift)
        return -1;
    *out <<= shift;
    return 0;
}

static int set_number(const struct row *r, void *to, const char *value, char *error, size_t size)
{
    uint64_t v;

    if (read_number(value, &v))
        return fail(error, size, "%s: \"%s\" is no number", r->name, value);
    if (v < r->min || v > r->max)
        return fail(error, size, "%s: %s is not between %" PRIu64 " and %" PRIu64, r->name, value,
                    r->min, r->max);
    memcpy(to, &v, sizeof(v));
    return 0;
}

static int set_seconds(const struct row *r, void *to, const char *value, char *error, size_t size)
{
    char *end;
    double s = strtod(value, &end);
    uint64_t ns;

    if (end == value || *end || !isfinite(s) || value[0] < '0' || value[0] > '9')
        return fail(error, size, "%s: \"%s\" is no number of seconds", r->name, value);
    if (s != 0 && (s < (double)r->min / 1e9 || s > (double)r->max / 1e9))
        return fail(error, size, "%s: %s s is not between %g and %g", r->name, value,
                    (double)r->min / 1e9, (double)r->max / 1e9);
    ns = (uint64_t)(s * 1e9 + 0.5);
    memcpy(to, &ns, sizeof(ns));
    return 0;
}

static int set_bool(const struct row *r, void *to, const char *value, char *error, size_t size)
{
    bool on;

    if (!value || !strcmp(value, "on"))
        on = true;
    else if (!strcmp(value, "off"))
        on = false;
    else
        return fail(error, size, "%s: \"%s\" is neither on nor off", r->name, value);
    memcpy(to, &on, sizeof(on));
    return 0;
}

static int set_choice(const struct row *r, void *to, const char *value, char *error, size_t size)
{
    for (unsigned i = 0; r->choice[i]; i++) {
        if (!strcmp(r->choice[i], value)) {
            memcpy(to, &i, sizeof(i));
            return 0;
        }
    }
    return fail(error, size, "%s: \"%s\" is none of: %s", r->name, value, r->help);
}

static int set_text(const struct row *r, void *to, const char *value, char *error, size_t size)
{
    if (strlen(value) >= r->max)
        return fail(error, size, "%s: \"%s\" is too long", r->name, value);
    memset(to, 0, r->max);
    memcpy(to, value, strlen(value));
    return 0;
}

int options_set(struct perf_options *o, const char *name, const char *value, char *error,
                size_t size)
{
    const struct row *r = find_row(name);
    void *to;

    if (!r)
        return fail(error, size, "there is no option \"%s\"", name);
    if (!value && r->kind != FLAG)
        return fail(error, size, "%s: needs a value", name);
    to = (char *)o + r->at;
    switch (r->kind) {
    case NUMBER:
        if (set_number(r, to, value, error, size))
            return -1;
        o->sized |= r->at == AT(size);
        return 0;
    case SECONDS:
        return set_seconds(r, to, value, error, size);
    case CHOICE:
        return set_choice(r, to, value, error, size);
    case TEXT:
        return set_text(r, to, value, error, size);
    case FLAG:
    case SWITCH:
        break;
    }
    return set_bool(r, to, value, error, size);
}

int options_read(struct perf_options *o, int argc, char **argv, char *error, size_t size)
{
    for (int i = 0; i < argc; i++) {
        char name[32];
        const char *value = strchr(argv[i], '=');
        int n = (int)(value ? value - argv[i] : (long)strlen(argv[i])) - 2;

        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return 1;
        if (strncmp(argv[i], "--", 2) || n <= 0 || n >= (int)sizeof(name))
            return fail(error, size, "unexpected argument \"%s\"", argv[i]);
        snprintf(name, sizeof(name), "%.*s", n, argv[i] + 2);
        if (value)
            value++;
        else if (takes_value(name) && i + 1 < argc)
            value = argv[++i];
        if (value && !*value) /* as an unset variable leaves it */
            return fail(error, size, "%s: the value is empty", name);
        if (options_set(o, name, value, error, size))
            return -1;
    }
    return 0;
}

const char *options_get(const struct perf_options *o, unsigned number, char *value, size_t size)
{
    const struct row *r;
    const char *at;
    uint64_t v = 0;
    unsigned choice;

    if (number >= ARRAY_SIZE(rows))
        return NULL;
    r = &rows[number];
    at = (const char *)o + r->at;
    switch (r->kind) {
    case NUMBER:
        memcpy(&v, at, sizeof(v));
        snprintf(value, size, "%" PRIu64, r->at == AT(size) ? options_size(o) : v);
        break;
    case SECONDS:
        memcpy(&v, at, sizeof(v));
        snprintf(value, size, "%.15g", (double)v / 1e9);
        break;
    case CHOICE:
        memcpy(&choice, at, sizeof(choice));
        snprintf(value, size, "%s", r->choice[choice]);
        break;
    case TEXT:
        snprintf(value, size, "%s", at);
        break;
    case FLAG:
    case SWITCH:
        snprintf(value, size, "%s", *(const bool *)at ? "on" : "off");
        break;
    }
    return r->name;
}

bool options_is_text(unsigned number)
{
    return rows[number].kind == TEXT || rows[number].kind == CHOICE;
}

/* ---- conditions between options ---- */

static int check_messages(const struct perf_options *o, char *error, size_t size)
{
    uint64_t ends = o->qps * (o->bidirectional ? 2 : 1);
    uint64_t limit = mode_receives(o->mode) ? QUEUE_MAX_CQE / 2 : QUEUE_MAX_CQE;

    if (o->mode == MODE_ATOMIC && options_size(o) != 8)
        return fail(error, size, "size: an atomic has 8 bytes, not %" PRIu64, options_size(o));
    if (o->mode == MODE_UD && options_size(o) > o->mtu)
        return fail(error, size,
                    "size: a datagram of %" PRIu64 " bytes does not fit path MTU %" PRIu64,
                    options_size(o), o->mtu);
    if (o->inline_max && (o->mode == MODE_READ || o->mode == MODE_ATOMIC))
        return fail(error, size, "inline: what %s sends has no data", modes[o->mode]);
    if (o->signal > o->depth)
        return fail(error, size,
                    "signal: a completion for %" PRIu64 " messages never comes when %" PRIu64
                    " may be outstanding (depth)",
                    o->signal, o->depth);
    /* Completion queues must have room for everything that may be outstanding. */
    if (ends * o->depth > limit)
        return fail(error, size,
                    "qps, depth: %" PRIu64 " messages outstanding are more than the %" PRIu64
                    " that completion queues hold",
                    ends * o->depth, limit);
    if (o->messages && o->messages < ends)
        return fail(error, size, "messages: fewer than the %" PRIu64 " queue pairs that send",
                    ends);
    return 0;
}

static int check_frames(const struct perf_options *o, char *error, size_t size)
{
    bool whole = !mode_has_packets(o->mode);

    if (o->verify || o->bidirectional)
        return fail(error, size, "%s: mode %s has no messages",
                    o->verify ? "verify" : "bidirectional", modes[o->mode]);
    if (whole && (options_size(o) < 60 || options_size(o) > 4200))
        return fail(error, size, "size: in mode %s frames have 60 to 4200 bytes, not %" PRIu64,
                    modes[o->mode], options_size(o));
    if (!whole && options_size(o) > o->mtu)
        return fail(error, size,
                    "size: a payload of %" PRIu64 " bytes does not fit path MTU %" PRIu64,
                    options_size(o), o->mtu);
    return 0;
}

/* The first CPU that comes again in the list; -1: none. */
static int repeated_cpu(const char *list)
{
    int cpu;

    for (unsigned i = 1; (cpu = cpu_list_at(list, i)) >= 0; i++)
        for (unsigned k = 0; k < i; k++)
            if (cpu_list_at(list, k) == cpu)
                return cpu;
    return -1;
}

/* The list must be correct as a whole, and long enough; two threads that poll on one CPU would
 * measure the scheduler. */
static int check_cpus(const struct perf_options *o, char *error, size_t size)
{
    int cpu;

    if (!o->cpus[0])
        return 0;
    if (cpu_list_at(o->cpus, UINT_MAX) == CPU_LIST_BAD)
        return fail(error, size, "cpus: \"%s\" is no list of CPUs", o->cpus);
    cpu = repeated_cpu(o->cpus);
    if (cpu >= 0)
        return fail(error, size, "cpus: CPU %d is there twice", cpu);
    if (cpu_list_at(o->cpus, (unsigned)o->workers - 1) < 0)
        return fail(error, size, "cpus: \"%s\" has fewer than %" PRIu64, o->cpus, o->workers);
    return 0;
}

int options_load(const char *list, unsigned index)
{
    for (;; index--) {
        char *end;
        unsigned long load = strtoul(list, &end, 10);

        if (end == list || end - list > 3 || list[0] < '0' || list[0] > '9' || !load ||
            load > 100 || (*end && (*end != ',' || !end[1])))
            return -1;
        if (!index)
            return (int)load;
        if (!*end)
            return 0;
        list = end + 1;
    }
}

/* A message whose completion waits for that of a later one has no latency of its own. */
static int check_rate(const struct perf_options *o, char *error, size_t size)
{
    const char *name = o->rate ? "rate" : "loads";

    if (o->rate && o->loads[0])
        return fail(error, size, "rate, loads: only one of them");
    if (!mode_has_engine(o->mode))
        return fail(error, size, "%s: mode %s has no messages", name, modes[o->mode]);
    if (o->signal > 1)
        return fail(error, size, "%s, signal: each message needs a completion of its own", name);
    if (o->loads[0] && options_load(o->loads, UINT_MAX) < 0)
        return fail(error, size, "loads: \"%s\" is no list of per cent from 1 to 100", o->loads);
    if (o->loads[0] && (o->messages || o->interactive))
        return fail(error, size, "loads, %s: only one of them",
                    o->messages ? "messages" : "interactive");
    return 0;
}

/* A client is one thread with queue pairs that send. */
static int check_peer(const struct perf_options *o, char *error, size_t size)
{
    static const char *const refused[] = {"server",  "verify", "bidirectional", "idle",
                                          "workers", "icrc",   "interactive",   "mtu"};
    const bool given[] = {o->server,      o->verify, o->bidirectional, o->idle > 0,
                          o->workers > 1, !o->icrc,  o->interactive,   o->mtu != MTU_DEFAULT};

    for (size_t i = 0; o->client[0] && i < ARRAY_SIZE(refused); i++)
        if (given[i])
            return fail(error, size, "client, %s: only one of them", refused[i]);
    if (o->client[0] && (!mode_has_engine(o->mode) || o->mode == MODE_UD))
        return fail(error, size, "client: mode %s has no connections", modes[o->mode]);
    if (o->server && (o->rate || o->loads[0] || o->interactive))
        return fail(error, size, "server: its clients say what is sent");
    return 0;
}

int options_check(const struct perf_options *o, char *error, size_t size)
{
    if (!is_pow2(o->mtu))
        return fail(error, size, "mtu: %" PRIu64 " is none of 256, 512, 1024, 2048, 4096", o->mtu);
    if (o->duration && o->messages)
        return fail(error, size, "duration, messages: only one of them");
    if (o->batch && o->interactive)
        return fail(error, size, "batch, interactive: only one of them");
    if (check_cpus(o, error, size) || check_peer(o, error, size) ||
        ((o->rate || o->loads[0]) && check_rate(o, error, size)))
        return -1;
    if (!o->icrc && !mode_has_engine(o->mode))
        return fail(error, size, "icrc: off has no effect in mode %s", modes[o->mode]);
    return mode_has_engine(o->mode) ? check_messages(o, error, size) : check_frames(o, error, size);
}

void options_help(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct row *r = &rows[i];
        char left[48];

        snprintf(left, sizeof(left), "--%s%s", r->name,
                 r->kind == FLAG      ? ""
                 : r->kind == NUMBER  ? " N"
                 : r->kind == SECONDS ? " S"
                 : r->kind == SWITCH  ? " on|off"
                                      : " WORD");
        printf("  %-22s %s\n", left, r->help);
    }
}
