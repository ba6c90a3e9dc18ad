/* SPDX-License-Identifier: BSD-3-Clause */
/* Which frames go to the control thread, and how it learns of them; see slow_path.h. */
#include "slow_path.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "encap_layout.h"
#include "frame_peek.h"

int slow_path_init(struct slow_path *s, const uint8_t mac[6], enum slow_path_frames frames)
{
    *s = (struct slow_path){.frames = frames};
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

bool slow_path_wants(const struct slow_path *s, const struct frame *f)
{
    if (s->frames == SLOW_PATH_NONE || f->len < ETH_LEN ||
        !memcmp(f->data + MAC_LEN, s->mac, MAC_LEN))
        return false;
    return s->frames == SLOW_PATH_ALL || frame_is_for_ip_host(f->data, f->len);
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

bool slow_path_try_down(struct slow_path *s, const uint8_t *frame, uint32_t len)
{
    return frame_ring_put(s->down, frame, len);
}

void slow_path_down(struct slow_path *s, const uint8_t *frame, uint32_t len)
{
    if (!slow_path_try_down(s, frame, len))
        s->down_lost++;
}
