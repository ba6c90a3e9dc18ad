/* SPDX-License-Identifier: BSD-3-Clause */
/* What uroce-perf is asked to do: the same names and rules on the command line (--name value) and
 * at the prompt (set name value). */
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

struct perf_options {
    unsigned mode, format; /* enum perf_mode, enum perf_format */
    uint64_t size, depth, qps, idle, workers, mtu, inline_max, signal, buffer;
    uint64_t duration, stats_period; /* ns; 0: not given, none */
    uint64_t messages;               /* 0: as many as fit into the duration */
    uint64_t seed;
    bool sized; /* size was given; else it goes by the mode */
    bool bidirectional, verify, floor, icrc;
    bool batch, interactive;
    char cpus[64];
};

/* Whether messages go through an engine; else frames, and no queue pairs. */
static inline bool mode_has_engine(unsigned mode)
{
    return mode <= MODE_UD;
}

/* Whether the size is that of the payload of packets, in frames without an engine; else of whole
 * frames. */
static inline bool mode_has_packets(unsigned mode)
{
    return mode == MODE_PARSE || mode == MODE_ICRC || mode == MODE_BUILD;
}

/* Whether receive entries take the messages. */
static inline bool mode_receives(unsigned mode)
{
    return mode == MODE_WRITE_IMM || mode == MODE_SEND || mode == MODE_UD;
}

/* The size that was given, or the mode's own. */
uint64_t options_size(const struct perf_options *o);

void options_default(struct perf_options *o);

/* Sets one by its name; value NULL: it was given without. 0, or -1 and in error (size bytes) why
 * not; *o has not changed then. */
int options_set(struct perf_options *o, const char *name, const char *value, char *error,
                size_t size);

/* Whether they fit each other. 0, or -1 and in error why not. */
int options_check(const struct perf_options *o, char *error, size_t size);

/* Reads the program's own arguments (without its name). 0, 1: help was asked for, -1 and why. */
int options_read(struct perf_options *o, int argc, char **argv, char *error, size_t size);

/* What one is set to, as options_set takes it, by number from 0 on; its name, or NULL past the
 * last.
 */
const char *options_get(const struct perf_options *o, unsigned number, char *value, size_t size);

/* Whether such a value is words, whatever it looks like: 2 may be a list of CPUs. */
bool options_is_text(unsigned number);

/* The CPU with this place, from 0 on, in a list such as 2,3 or 2-5; or that it has fewer, or, found
 * on the way there, that it is no such list. */
#define CPU_LIST_SHORT -1
#define CPU_LIST_BAD   -2
int cpu_list_at(const char *list, unsigned index);

const char *mode_name(unsigned mode);

/* Prints all of them, one in a line. */
void options_help(void);

#endif
