/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames: their memory, their lists, and what switches read in them. */
#include <stdlib.h>
#include <string.h>

#include "encap.h"
#include "encap_layout.h"
#include "fabric_internal.h"
#include "frame_peek.h"
#include "frame_trim.h"

static const uint8_t mac_prefix[4] = {2, 'f', 'a', 'b'};

struct fabric_frame *fabric_frame_get(struct fabric *f)
{
    struct fabric_frame *frame = f->spare;

    if (frame)
        f->spare = frame->next;
    else
        frame = malloc(sizeof(*frame));
    if (!frame) {
        f->failed = true;
        return NULL;
    }
    memset(frame, 0, offsetof(struct fabric_frame, data));
    return frame;
}

void fabric_frame_free(struct fabric *f, struct fabric_frame *frame)
{
    frame->next = f->spare;
    f->spare = frame;
}

void frame_pool_fini(struct fabric *f)
{
    while (f->spare) {
        struct fabric_frame *frame = f->spare;

        f->spare = frame->next;
        free(frame);
    }
}

void frames_append(struct frames *l, struct fabric_frame *frame)
{
    frame->next = NULL;
    if (l->first)
        l->last->next = frame;
    else
        l->first = frame;
    l->last = frame;
}

struct fabric_frame *frames_take(struct frames *l)
{
    struct fabric_frame *frame = l->first;

    if (frame)
        l->first = frame->next;
    return frame;
}

void frames_clear(struct fabric *f, struct frames *l)
{
    while (l->first)
        fabric_frame_free(f, frames_take(l));
}

void fabric_host_mac(unsigned host, uint8_t mac[6])
{
    memcpy(mac, mac_prefix, sizeof(mac_prefix));
    put_be16(mac + sizeof(mac_prefix), (uint16_t)host);
}

/* The last step of SplitMix64: every bit of the input changes half of the output's. */
static uint64_t mix(uint64_t z)
{
    struct random r = {.state = z};

    return random_next(&r);
}

static uint64_t hash_flow(const struct encap_view *v)
{
    uint64_t h = mix(v->sgid.word[0] ^ v->udp_sport);

    h = mix(h ^ v->sgid.word[1]);
    h = mix(h ^ v->dgid.word[0]);
    return mix(h ^ v->dgid.word[1]);
}

bool frame_classify(struct fabric *f, struct fabric_frame *frame)
{
    static const struct gid_table none;
    const struct encap_port any = {.promiscuous = true, .gids = &none};
    struct encap_view v;
    bool parsed = encap_rx(&v, frame->data, frame->len, &any) == DROP_NONE;

    if (frame->len < ETH_LEN || memcmp(frame->data, mac_prefix, sizeof(mac_prefix)) ||
        get_be16(frame->data + sizeof(mac_prefix)) >= f->hosts)
        return false;
    frame->to = get_be16(frame->data + sizeof(mac_prefix));
    frame->priority = frame_priority(frame->data, frame->len);
    frame->hash = parsed ? hash_flow(&v) : 0;
    frame->may_trim = parsed && frame_may_be_trimmed(&v);
    frame->may_mark = parsed && (v.traffic_class & ECN_MASK) && !encap_is_ce(v.traffic_class);
    return true;
}
