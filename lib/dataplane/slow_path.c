/* SPDX-License-Identifier: BSD-3-Clause */
/* Which frames go to the control thread, and how it learns of them; see slow_path.h. */
#include "slow_path.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bytes.h"
#include "common.h"

enum {
    ETH_LEN = 14,
    TAG_LEN = 4,
    TYPE_IPV4 = 0x0800,
    TYPE_ARP = 0x0806,
    TYPE_VLAN = 0x8100,
    TYPE_IPV6 = 0x86DD,
    PROTO_ICMP = 1,
    PROTO_IGMP = 2,
    NEXT_HOP_BY_HOP = 0, /* in front of every MLD message */
    NEXT_ICMPV6 = 58,
};

int slow_path_init(struct slow_path *s, const uint8_t mac[6], bool everything)
{
    *s = (struct slow_path){.everything = everything};
    memcpy(s->mac, mac, sizeof(s->mac));
    s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->event_fd < 0)
        return -errno;
    s->up = frame_ring_create();
    s->down = frame_ring_create();
    return s->up && s->down ? 0 : -ENOMEM;
}

void slow_path_fini(struct slow_path *s)
{
    frame_ring_destroy(s->up);
    frame_ring_destroy(s->down);
    if (s->event_fd >= 0)
        close(s->event_fd);
    s->up = s->down = NULL;
    s->event_fd = -1;
}

/* The frames that the IP host processes. */
static bool is_for_host(const struct frame *f)
{
    uint32_t at = ETH_LEN;
    uint16_t type = get_be16(f->data + 12);

    if (type == TYPE_VLAN && f->len >= ETH_LEN + TAG_LEN) {
        type = get_be16(f->data + 16);
        at += TAG_LEN;
    }
    if (type == TYPE_ARP)
        return true;
    if (type == TYPE_IPV4 && f->len > at + 9)
        return f->data[at + 9] == PROTO_ICMP || f->data[at + 9] == PROTO_IGMP;
    if (type == TYPE_IPV6 && f->len > at + 6)
        return f->data[at + 6] == NEXT_ICMPV6 || f->data[at + 6] == NEXT_HOP_BY_HOP;
    return false;
}

bool slow_path_wants(const struct slow_path *s, const struct frame *f)
{
    return f->len >= ETH_LEN && memcmp(f->data + 6, s->mac, 6) && (s->everything || is_for_host(f));
}

void slow_path_up(struct slow_path *s, const struct frame *f)
{
    s->notify = true;
    if (frame_ring_put(s->up, f->data, f->len))
        counter_inc(&s->up_frames);
    else
        counter_inc(&s->up_lost);
}

void slow_path_notify(struct slow_path *s)
{
    uint64_t one = 1;

    if (!s->notify)
        return;
    s->notify = false;
    /* A full eventfd is readable too. */
    while (write(s->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void slow_path_down(struct slow_path *s, const uint8_t *frame, uint32_t len)
{
    if (!frame_ring_put(s->down, frame, len))
        s->down_lost++;
}
