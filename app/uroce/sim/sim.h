/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `uroce sim`: reads a laboratory (lib/lab), runs it, and writes what came out. series.c collects
 * while it runs; summary.c computes; report.c, csv.c, svg.c and capture.c write.
 */
#ifndef UROCE_SIM_H
#define UROCE_SIM_H

#include <jansson.h>
#include <stdio.h>

#include "lab.h"

/* ---- arguments: options.c ---- */

#define SIM_LINKS_MAX 64

struct sim_arguments {
    const char *file; /* "-": the standard input */
    bool json;
    const char *csv, *svg, *pcap;    /* folders; NULL: none */
    const char *link[SIM_LINKS_MAX]; /* patterns of what is captured; none: all */
    unsigned links;
    const char *fault[LAB_RULES_MAX]; /* in addition to the file's */
    unsigned faults;
    bool has_seed;
    uint64_t seed;
    ns_t until; /* 0: the file's */
};

extern const char sim_help[];
/* 0; 1: help is wanted; -EINVAL, with a message on stderr. */
int sim_parse_arguments(struct sim_arguments *a, int argc, char **argv);

/* "h1-leaf1": a link's name in outputs. */
#define SIM_LINK_NAME (2 * LAB_NAME_MAX + 4)
void sim_link_name(const struct lab_spec *spec, unsigned link, char out[SIM_LINK_NAME]);
/* "h1>leaf1": what leaves a port. */
void sim_port_name(const struct lab_spec *spec, unsigned port, char out[SIM_LINK_NAME]);

/* ---- what is collected while it runs ---- */

/* More flows than this have no series of their own. */
#define SIM_SERIES_FLOWS 1024u

struct series {
    const struct lab_spec *spec;
    unsigned n, room;       /* samples */
    unsigned flows, ports;  /* with a series */
    ns_t *at;               /* [sample] */
    uint32_t *bytes;        /* [sample][flow]: arrived since the last sample */
    uint32_t *peak, *queue; /* [sample][port]: the longest queue since then, and the queue now */
    uint64_t *total;        /* [sample]: arrived since the last sample, of all flows */
    uint64_t *arrived;      /* [flow], of all flows, up to the last sample */
    bool failed;            /* out of memory */
};

/* 0; -ENOMEM */
int series_init(struct series *s, const struct lab_spec *spec);
void series_fini(struct series *s);
/* struct lab_hooks' */
void series_sample(struct series *s, struct lab *lab, ns_t now);
/* The first sample of the second half of the run. */
unsigned series_half(const struct series *s);

/* ---- pcap files, one per link ---- */

struct capture;

/* NULL, with a message on stderr: a file cannot be written. */
struct capture *sim_capture_open(const struct lab_spec *spec, const struct sim_arguments *a);
void sim_capture_frame(struct capture *c, unsigned port, const uint8_t *data, uint32_t len,
                       ns_t now);
/* False, with a message on stderr: not everything was written. */
bool sim_capture_close(struct capture *c);

/* ---- the result ---- */

struct sim_result {
    const struct lab_spec *spec;
    struct lab *lab;
    const struct series *series;
    struct lab_result *flow;
    unsigned done, failed, running, waiting;
    ns_t *times;  /* completion times of those that are done, sorted */
    double *slow; /* how many times longer than in an empty network, sorted */
    unsigned slows;
    uint64_t bytes, marked, pauses, dropped_most;
    double goodput; /* bits per second from the first start to the last end */
    double jain;    /* Jain's index of the flows' goodputs */
    /* In the second half of the run: what has arrived. */
    double late_rate, late_jain, late_queue; /* of the fullest port: mean bytes in its queues */
    unsigned late_port;
    uint64_t counter[LAB_COUNTERS], drop[DROP_COUNT];
};

/* 0; -ENOMEM. */
int sim_compute(struct sim_result *r, const struct lab_spec *spec, struct lab *lab,
                const struct series *series);
void sim_result_free(struct sim_result *r);
/* The value that a part (0.999) of n sorted ones do not exceed; 0 of none. */
ns_t sim_percentile(const ns_t *sorted, unsigned n, double part);
double sim_percentile_slow(const struct sim_result *r, double part);
/* Bits per second of a flow while it ran. */
double sim_flow_rate(const struct sim_result *r, unsigned flow);

/* 0, or a negative errno. */
int sim_print_text(FILE *out, const struct sim_result *r);
int sim_print_json(FILE *out, const struct sim_result *r);
/* False, with a message on stderr: a file cannot be written. */
bool sim_write_csv(const char *folder, const struct sim_result *r);
bool sim_write_svg(const char *folder, const struct sim_result *r);

/* Makes a folder that is not there. False, with a message on stderr: no file can be made in it. */
bool sim_make_folder(const char *folder);
/* A file of a folder, which is made if it is not there; NULL, with a message on stderr. */
FILE *sim_open(const char *folder, const char *name);
/* Closes it. False, with a message on stderr. */
bool sim_close(FILE *f, const char *folder, const char *name);

#endif
