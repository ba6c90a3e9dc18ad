/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of uroce-perf: the same names and rules on the command line (--name value) and at the
 * prompt (set name value). */
#ifndef UROCE_PERF_OPTIONS_H
#define UROCE_PERF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum perf_mode {
    /* through the engine */
    MODE_WRITE,
    MODE_WRITE_IMM,
    MODE_SEND,
    MODE_READ,
    MODE_ATOMIC,
    MODE_UD,
    /* stages, without it */
    MODE_RX_ONLY,
    MODE_PARSE,
    MODE_ICRC,
    MODE_BUILD,
    MODE_LOOP,
    MODE_TX_ONLY,
    MODE_IO,
};

enum perf_format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

enum perf_arrivals { ARRIVALS_POISSON, ARRIVALS_EVEN };

struct perf_options {
    unsigned mode, format, arrivals; /* enum perf_mode, enum perf_format, enum perf_arrivals */
    uint64_t size, depth, qps, idle, workers, mtu, inline_max, signal, buffer;
    uint64_t duration, stats_period; /* ns; 0: not given, none */
    uint64_t messages;               /* 0: as many as fit into the duration */
    uint64_t rate;                   /* messages due a second; 0: as many as the depth allows */
    uint64_t seed;
    bool sized; /* size was given; else the mode determines it */
    bool bidirectional, verify, floor, icrc;
    bool batch, interactive;
    char cpus[64];
    uint64_t port;
    bool server;
    char client[64]; /* the server's address; empty: both ends are in this process */
    char loads[64];  /* per cent, such as 20,50,80; empty: one run */
};

/* Whether the mode moves messages through an engine; the other modes move frames, without queue
 * pairs. */
static inline bool mode_has_engine(unsigned mode)
{
    return mode <= MODE_UD;
}

/* Of the modes without an engine: whether the size is that of a packet's payload; else it is that
 * of the frame. */
static inline bool mode_has_packets(unsigned mode)
{
    return mode == MODE_PARSE || mode == MODE_ICRC || mode == MODE_BUILD;
}

/* Whether messages complete receive WQEs. */
static inline bool mode_receives(unsigned mode)
{
    return mode == MODE_WRITE_IMM || mode == MODE_SEND || mode == MODE_UD;
}

/* The size that was given, or the mode's default. */
uint64_t options_size(const struct perf_options *o);

void options_default(struct perf_options *o);

/* Whether an argument of the command line begins as an option of uroce-perf: --NAME or --NAME=... */
bool options_knows(const char *argument);

/* Sets an option by its name; value NULL: it was given without a value. 0; or -1 with the reason in
 * error, and *o unchanged. */
int options_set(struct perf_options *o, const char *name, const char *value, char *error,
                size_t size);

/* The number `index`, counted from 0, of a list of loads: 1 to 100 per cent; 0 past the last one;
 * -1 if the list is none. */
int options_load(const char *list, unsigned index);

/* Checks the conditions between options. 0, or -1 with the reason in error. */
int options_check(const struct perf_options *o, char *error, size_t size);

/* Reads the arguments that follow the program's name. 0; 1: they ask for help; -1 with the reason
 * in error. */
int options_read(struct perf_options *o, int argc, char **argv, char *error, size_t size);

/* The name of option `number`, counted from 0, and its value as options_set takes it; NULL past the
 * last option. */
const char *options_get(const struct perf_options *o, unsigned number, char *value, size_t size);

/* Whether an option's value is text, even if it looks like a number: 2 may be a list of CPUs. */
bool options_is_text(unsigned number);

const char *mode_name(unsigned mode);
const char *arrivals_name(unsigned arrivals);

/* Prints all options, one per line. */
void options_help(void);

#endif
