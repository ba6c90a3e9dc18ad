/* SPDX-License-Identifier: BSD-3-Clause */
/* See dissect.h: classifies each frame of a capture and prints it. */
#include "dissect.h"

#include <getopt.h>
#include <jansson.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common.h"
#include "dissect_frame.h"
#include "dissect_mad.h"

#define FRAME_MAX (1u << 18) /* as pcap's own limit */

enum {
    STATUS_GOOD = 0,
    STATUS_BAD_FRAMES = 1,
    STATUS_ERROR = 2,
};

static const char *const verdict_names[] = {
    [VERDICT_OK] = "ok",           [VERDICT_BAD_ICRC] = "bad_icrc",
    [VERDICT_CUT] = "cut",         [VERDICT_UNPARSABLE] = "unparsable",
    [VERDICT_SKIPPED] = "skipped",
};

const char *verdict_name(enum verdict v)
{
    return verdict_names[v];
}

struct dissection {
    bool json;
    unsigned frames;
    unsigned by_verdict[VERDICT_COUNT];
    unsigned unparsable[DROP_COUNT];
};

/* The capture has the first `captured` bytes of the frame; the others are zeros. */
static void classify(struct finding *f, const uint8_t *frame, size_t len, size_t captured)
{
    static const struct encap_port any = {.promiscuous = true};

    f->reason = encap_rx(&f->view, frame, len, &any);
    if (f->reason != DROP_NONE) {
        f->verdict = encap_is_roce(frame, len) ? VERDICT_UNPARSABLE : VERDICT_SKIPPED;
        return;
    }
    f->has_view = true;
    f->reason = pkt_parse(&f->pkt, f->view.bth, f->view.bth_len);
    if (f->reason != DROP_NONE) {
        f->verdict = VERDICT_UNPARSABLE;
        return;
    }
    if ((size_t)(f->view.bth - frame) + pkt_info(&f->pkt)->header_len > captured) {
        f->verdict = VERDICT_UNPARSABLE;
        f->reason = DROP_truncated;
        return;
    }
    f->has_pkt = true;
    if (captured < len)
        f->verdict = VERDICT_CUT;
    else
        f->verdict = icrc_verify(f->view.l3_kind, f->view.l3, f->view.l3_len) ? VERDICT_OK
                                                                              : VERDICT_BAD_ICRC;
}

/* A snap length cuts frames short: their headers are read all the same. */
static void classify_captured(struct finding *f, const struct pcap_pkthdr *h, const uint8_t *bytes)
{
    static uint8_t whole[FRAME_MAX];

    if (h->caplen >= h->len || h->len > sizeof(whole)) {
        classify(f, bytes, h->caplen, h->caplen);
        return;
    }
    memcpy(whole, bytes, h->caplen);
    memset(whole + h->caplen, 0, h->len - h->caplen);
    classify(f, whole, h->len, h->caplen);
}

static void print_text(const struct finding *f)
{
    char src[46], dst[46], text[512];

    printf("%u %.6f", f->number, f->time);
    if (f->has_view) {
        gid_format(src, &f->view.sgid);
        gid_format(dst, &f->view.dgid);
        printf(" %s > %s", src, dst);
        if (f->view.vlan_tci != VLAN_NONE)
            printf(" vlan %u", f->view.vlan_tci & 0xFFF);
        if (f->view.l3_kind == ICRC_GRH)
            printf(" v1");
        else
            printf(" sport %u", f->view.udp_sport);
    }
    if (f->has_pkt) {
        pkt_format(text, sizeof(text), &f->pkt);
        printf(" %s %s\n", text,
               f->verdict == VERDICT_CUT  ? "cut"
               : f->verdict == VERDICT_OK ? "icrc ok"
                                          : "icrc bad");
        if (f->verdict != VERDICT_CUT && dissect_is_mad(&f->pkt))
            dissect_mad_text(&f->pkt);
    } else {
        printf(" %s %s\n", verdict_names[f->verdict], drop_name(f->reason));
    }
}

/* Prints object on a line of its own and frees it. */
static void print_object(json_t *object)
{
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(object);
}

static void summarize_text(const struct dissection *d)
{
    const unsigned *n = d->by_verdict;

    printf("%u frames: %u RoCE, %u skipped; %u good, %u bad ICRC, %u unparsable\n", d->frames,
           d->frames - n[VERDICT_SKIPPED], n[VERDICT_SKIPPED], n[VERDICT_OK], n[VERDICT_BAD_ICRC],
           n[VERDICT_UNPARSABLE]);
    if (n[VERDICT_CUT])
        printf("  %u cut short by the capture: their ICRC is not known\n", n[VERDICT_CUT]);
    for (unsigned r = 0; r < DROP_COUNT; r++)
        if (d->unparsable[r])
            printf("  %u %s: %s\n", d->unparsable[r], drop_name((enum drop)r),
                   drop_help((enum drop)r));
}

static void summarize_json(const struct dissection *d)
{
    const unsigned *n = d->by_verdict;
    json_t *reasons = json_object();

    for (unsigned r = 0; r < DROP_COUNT; r++)
        if (d->unparsable[r])
            json_object_set_new(reasons, drop_name((enum drop)r), json_integer(d->unparsable[r]));
    print_object(json_pack("{s:{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}}", "summary", "frames",
                           (int)d->frames, "roce", (int)(d->frames - n[VERDICT_SKIPPED]), "skipped",
                           (int)n[VERDICT_SKIPPED], "ok", (int)n[VERDICT_OK], "bad_icrc",
                           (int)n[VERDICT_BAD_ICRC], "cut", (int)n[VERDICT_CUT], "unparsable",
                           (int)n[VERDICT_UNPARSABLE], "reasons", reasons));
}

/* Seconds from a to b, where tv_usec holds nanoseconds. A file may have any times. */
static double seconds_between(const struct timeval *a, const struct timeval *b)
{
    return (double)b->tv_sec - (double)a->tv_sec + (double)(b->tv_usec - a->tv_usec) * 1e-9;
}

/* Processes all frames. Returns STATUS_GOOD or STATUS_ERROR. */
static int dissect_frames(struct dissection *d, pcap_t *pcap, const char *file)
{
    struct pcap_pkthdr *header;
    struct timeval start = {0};
    const uint8_t *bytes;
    int rc;

    while ((rc = pcap_next_ex(pcap, &header, &bytes)) == 1) {
        struct finding f = {.number = ++d->frames};

        if (d->frames == 1)
            start = header->ts;
        f.time = seconds_between(&start, &header->ts);
        classify_captured(&f, header, bytes);
        d->by_verdict[f.verdict]++;
        if (f.verdict == VERDICT_UNPARSABLE)
            d->unparsable[f.reason]++;
        if (d->json)
            print_object(dissect_frame_json(&f));
        else
            print_text(&f);
    }
    if (rc == PCAP_ERROR_BREAK)
        return STATUS_GOOD;
    fprintf(stderr, "uroce dissect: %s: %s\n", file, pcap_geterr(pcap));
    return STATUS_ERROR;
}

/* Opened again, a pipe would wait for someone who writes. */
static bool is_compressed(const char *file)
{
    struct stat st;
    FILE *f = !stat(file, &st) && S_ISREG(st.st_mode) ? fopen(file, "re") : NULL;
    bool gzip = f && fgetc(f) == 0x1F && fgetc(f) == 0x8B;

    if (f)
        fclose(f);
    return gzip;
}

static int dissect_file(struct dissection *d, const char *file)
{
    char errbuf[PCAP_ERRBUF_SIZE];
    pcap_t *pcap =
        pcap_open_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, errbuf);
    int status;

    if (!pcap) {
        size_t n = strlen(file);

        /* libpcap names the file where it cannot be opened, and nowhere else. */
        if (!strncmp(errbuf, file, n) && errbuf[n] == ':')
            fprintf(stderr, "uroce dissect: %s\n", errbuf);
        else
            fprintf(stderr, "uroce dissect: %s: %s\n", file, errbuf);
        if (is_compressed(file))
            fprintf(stderr, "uroce dissect: it is compressed: zcat %s | uroce dissect -\n", file);
        return STATUS_ERROR;
    }
    if (pcap_datalink(pcap) != DLT_EN10MB) {
        const char *name = pcap_datalink_val_to_name(pcap_datalink(pcap));

        fprintf(stderr, "uroce dissect: %s: link type %d (%s) is not Ethernet\n", file,
                pcap_datalink(pcap), name ? name : "unknown");
        pcap_close(pcap);
        return STATUS_ERROR;
    }
    status = dissect_frames(d, pcap, file);
    pcap_close(pcap);
    if (d->json)
        summarize_json(d);
    else
        summarize_text(d);
    if (fflush(stdout) || ferror(stdout)) {
        perror("uroce dissect: standard output");
        return STATUS_ERROR;
    }
    return status;
}

int uroce_dissect(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    static const char usage[] = "usage: uroce dissect [--json] FILE\n";
    struct dissection d = {.json = false};
    int opt, status;

    optind = 0; /* getopt scans a new argument vector */
    while ((opt = getopt_long(argc, argv, "jh", options, NULL)) != -1) {
        if (opt == 'h') {
            fputs(usage, stdout);
            return STATUS_GOOD;
        }
        if (opt != 'j') {
            fputs(usage, stderr);
            return STATUS_ERROR;
        }
        d.json = true;
    }
    if (optind != argc - 1) {
        fputs("uroce dissect: one FILE is wanted\n", stderr);
        fputs(usage, stderr);
        return STATUS_ERROR;
    }
    status = dissect_file(&d, argv[optind]);
    if (status == STATUS_GOOD &&
        (d.by_verdict[VERDICT_BAD_ICRC] || d.by_verdict[VERDICT_UNPARSABLE]))
        status = STATUS_BAD_FRAMES;
    return status;
}
