/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue other than queue 0: rings from and to the worker of queue 0. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "spread_internal.h"

#define COOKIE_LOCAL 0x10000u /* a slot of the queue's own frames */

/* ---- waking ---- */

/* The sender puts a frame in and then loads `armed`; the worker that goes to sleep stores `armed`
 * and then looks for frames. All four accesses are seq_cst, so one side sees the other. */
void spread_wake(int fd, _Atomic bool *armed)
{
    uint64_t one = 1;

    if (!atomic_load(armed) || !atomic_exchange(armed, false))
        return;
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void spread_drain(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

bool spread_queue_arm(struct spread_queue *q)
{
    spread_drain(q->wake_fd);
    atomic_store(&q->armed, true);
    return slot_fifo_empty(&q->in.out) && slot_fifo_empty(&q->local);
}

/* ---- receiving ---- */

static unsigned take_frames(struct slot_fifo *from, const struct slot_ring *ring, uint32_t kind,
                            struct frame *f, unsigned n)
{
    struct slot_entry e;
    unsigned count = 0;

    while (count < n && slot_fifo_take(from, &e))
        f[count++] = (struct frame){.data = slot_ring_data(ring, e.slot),
                                    .len = e.len,
                                    .cookie = (void *)(uintptr_t)(kind | e.slot)};
    return count;
}

/* Local and received frames each get half of the burst if both wait, as with ports that keep local
 * frames themselves. */
unsigned spread_queue_rx(struct spread_queue *q, struct frame *f, unsigned n)
{
    unsigned count = take_frames(&q->local, &q->tx, COOKIE_LOCAL, f, n / 2);

    count += take_frames(&q->in.out, &q->in, 0, f + count, n - count);
    return count + take_frames(&q->local, &q->tx, COOKIE_LOCAL, f + count, n - count);
}

void spread_queue_release(struct spread_queue *q, struct frame *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        uint32_t cookie = (uint32_t)(uintptr_t)f[i].cookie;

        if (cookie & COOKIE_LOCAL)
            slot_ring_free(&q->tx, (uint16_t)cookie);
        else
            slot_fifo_put(&q->in.back, (struct slot_entry){.slot = (uint16_t)cookie});
    }
}

/* ---- sending ---- */

unsigned spread_queue_lend(struct spread_queue *q, struct frame *f, unsigned n)
{
    slot_ring_collect(&q->tx);
    n = min_of(n, q->tx.free_count);
    for (unsigned i = 0; i < n; i++) {
        uint16_t slot = q->tx.free[--q->tx.free_count];

        f[i] = (struct frame){.data = slot_ring_data(&q->tx, slot),
                              .room = q->tx.room,
                              .cookie = (void *)(uintptr_t)slot};
    }
    return n;
}

void spread_queue_tx(struct spread *s, struct spread_queue *q, struct frame *f, unsigned n,
                     unsigned used)
{
    for (unsigned i = 0; i < n; i++) {
        struct slot_entry e = {.slot = (uint16_t)(uintptr_t)f[i].cookie, .len = f[i].len};

        if (i >= used) {
            slot_ring_free(&q->tx, e.slot);
        } else if (!memcmp(f[i].data, s->mac, sizeof(s->mac))) {
            counter_inc(&q->counters.local);
            slot_fifo_put(&q->local, e);
        } else {
            slot_fifo_put(&q->tx.out, e);
        }
    }
    spread_wake(s->kick_fd, &s->armed);
}
