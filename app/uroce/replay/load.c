/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading: a capture file to frames. */
#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "replay.h"

#define FRAME_MAX  65536u
#define SENT_LEAST (UINT64_C(64) << 20)
#define PAUSE_MAX  (60 * NS_PER_SEC)

const char *replay_use_name(enum replay_use use)
{
    static const char *const names[] = {
#define X(name, help) #name,
        REPLAY_USES(X)
#undef X
    };

    return names[use];
}

const char *replay_use_help(enum replay_use use)
{
    static const char *const helps[] = {
#define X(name, help) help,
        REPLAY_USES(X)
#undef X
    };

    return helps[use];
}

void *replay_grow(void *p, size_t bytes)
{
    p = realloc(p, bytes);
    if (p == NULL) {
        fputs("uroce replay: out of memory\n", stderr);
        exit(2);
    }
    return p;
}

/* What can be done with a packet on its own. */
static enum replay_use classify(const struct rec *rec)
{
    const struct pkt *p = &rec->pkt;

    switch (pkt_info(p)->service) {
    case PKT_CNP:
        return USE_congestion_notification;
    case PKT_XRC:
        return USE_xrc;
    default:
        break;
    }
    if (p->dest_qpn == 0)
        return USE_subnet_management;
    if (p->dest_qpn == 1)
        return USE_connection_management;
    if ((p->pkey & 0x7FFF) != (PKEY_DEFAULT & 0x7FFF))
        return USE_partition;
    if (gid_eq(&rec->view.sgid, &rec->view.dgid))
        return USE_same_address;
    return USE_replay;
}

static void parse_frame(struct rec *rec, bool whole)
{
    static const struct encap_port any = {.promiscuous = true};
    enum drop reason = encap_rx(&rec->view, rec->data, rec->len, &any);

    if (reason == DROP_NONE)
        reason = pkt_parse(&rec->pkt, rec->view.bth, rec->view.bth_len);
    if (reason == DROP_not_roce)
        rec->use = USE_not_roce;
    else if (reason != DROP_NONE)
        rec->use = whole ? USE_malformed : USE_cut_short;
    else if (whole || classify(rec) != USE_replay)
        rec->use = (uint8_t)classify(rec);
    else
        rec->use = USE_cut_conversation;
    if ((rec->use == USE_replay || rec->use == USE_connection_management) &&
        !icrc_verify(rec->view.l3_kind, rec->view.l3, rec->view.l3_len))
        rec->use = USE_bad_icrc;
}

static uint64_t stamp_of(const struct pcap_pkthdr *header)
{
    /* pcap's microseconds field holds nanoseconds here. */
    return (uint64_t)header->ts.tv_sec * NS_PER_SEC + (uint64_t)header->ts.tv_usec;
}

/* Missing bytes of a frame are zeros: its headers tell its conversation. */
static void copy_frame(struct rec *rec, const struct pcap_pkthdr *header, const uint8_t *bytes)
{
    rec->len = header->len <= FRAME_MAX ? max_of(header->len, header->caplen) : header->caplen;
    rec->data = replay_grow(NULL, rec->len + 1);
    memset(rec->data, 0, rec->len + 1);
    memcpy(rec->data, bytes, header->caplen);
}

static int read_frames(struct capture *c, pcap_t *pcap)
{
    struct pcap_pkthdr *header;
    const uint8_t *bytes;
    unsigned room = 0;
    uint64_t last = 0;
    ns_t at = 0;
    int rc;

    while ((rc = pcap_next_ex(pcap, &header, &bytes)) == 1) {
        uint64_t stamp = stamp_of(header);
        struct rec *rec;

        /* The clock of a capture may step back, and long pauses are cut. */
        if (c->count && (int64_t)(stamp - last) > 0)
            at += min_of(stamp - last, PAUSE_MAX);
        if (c->count == 0 || (int64_t)(stamp - last) > 0)
            last = stamp;
        ENSURE_ROOM(c->rec, c->count, room);
        rec = &c->rec[c->count++];
        *rec = (struct rec){.number = c->count, .at = at};
        copy_frame(rec, header, bytes);
        parse_frame(rec, header->caplen >= header->len);
    }
    return rc == PCAP_ERROR_BREAK ? 0 : -EIO;
}

int replay_load(struct capture *c, FILE *f, char error[256])
{
    char errbuf[PCAP_ERRBUF_SIZE] = "";
    pcap_t *pcap = pcap_fopen_offline_with_tstamp_precision(f, PCAP_TSTAMP_PRECISION_NANO, errbuf);
    int rc = 0;

    *c = (struct capture){.sent_least = SENT_LEAST};
    if (pcap == NULL) {
        snprintf(error, 256, "%.250s", errbuf);
        fclose(f);
        return -EIO;
    }
    if (pcap_datalink(pcap) != DLT_EN10MB) {
        snprintf(error, 256, "link type %d is not Ethernet", pcap_datalink(pcap));
        rc = -EIO;
    } else if (read_frames(c, pcap)) {
        snprintf(error, 256, "%.250s", pcap_geterr(pcap));
        rc = -EIO;
    }
    pcap_close(pcap);
    return rc;
}

static void free_conn(struct conn *conn)
{
    for (unsigned side = 0; side < 2; side++) {
        free(conn->stream[side].req);
        free(conn->stream[side].ans);
        free(conn->stream[side].ans_by_psn);
        free(conn->stream[side].msg);
    }
    free(conn);
}

static void free_conversation(struct conversation *t)
{
    for (unsigned i = 0; i < t->conns; i++)
        free_conn(t->conn[i]);
    for (unsigned i = 0; i < t->dgram_msgs; i++)
        free(t->dgram_msg[i]);
    free(t->conn);
    free(t->dgram);
    free(t->dgram_msg);
    free(t);
}

void replay_free(struct capture *c)
{
    for (unsigned i = 0; i < c->conversations; i++)
        free_conversation(c->conversation[i]);
    for (unsigned i = 0; i < c->count; i++)
        free(c->rec[i].data);
    if (c->arena != NULL)
        munmap(c->arena, c->arena_len);
    free(c->conversation);
    free(c->rec);
    *c = (struct capture){0};
}
