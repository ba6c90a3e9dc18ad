/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating, destroying and cleaning completion queues; polling is in client_cq.h. */
#include "client_cq.h"

#include <errno.h>
#include <string.h>

#include "conn_undo.h"
#include "invariant.h"

static bool reply_fits(const struct ctl_msg *reply, const struct client_piece *piece)
{
    const struct ctl_create_cq *r = &reply->create_cq;

    return is_pow2(r->cqe) && r->cqe <= QUEUE_MAX_CQE && r->lanes && r->lanes <= CQ_MAX_LANES &&
           cq_segment_bytes(r->cqe, r->lanes) <= piece->bytes;
}

static const struct client_queue_kind kind = {
    CTL_CREATE_CQ, CTL_DESTROY_CQ, offsetof(struct ctl_msg, create_cq.place),
    offsetof(struct ctl_msg, create_cq.handle), reply_fits};

int client_cq_create(struct client *c, struct client_cq *cq, uint32_t cqe, uint32_t channel,
                     uint32_t vector, uint32_t flags)
{
    struct ctl_msg m = {
        .create_cq = {.cqe = cqe, .channel = channel, .vector = vector, .flags = flags}};
    const struct ctl_create_cq *r = &m.create_cq;
    struct client_piece piece;
    int err;

    memset(cq, 0, sizeof(*cq));
    pthread_mutex_init(&cq->resizing, NULL);
    cq->client = c;
    err = slot_table_reserve(&c->cqs, &cq->id);
    if (err)
        return err;
    m.create_cq.cookie = slot_id_to_cookie(cq->id);
    err = client_queue_create(&c->conn, &c->slabs, &kind, &m, &piece);
    if (err) {
        slot_table_remove(&c->cqs, cq->id);
        return err;
    }
    cq->handle = r->handle;
    cq->has_channel = channel;
    cq->reader = (struct cq_reader){.shared = piece.base, .size = r->cqe, .lanes = r->lanes};
    slot_table_publish(&c->cqs, cq->id, cq);
    return 0;
}

/* A segment without completions, for queues that are being destroyed. */
static struct cq_shared *nothing(void)
{
    static CACHE_ALIGNED uint8_t segment[4 * CACHE_LINE + sizeof(struct cq_lane)];

    invariant(cq_segment_bytes(1, 1) <= sizeof(segment));
    return (struct cq_shared *)segment;
}

/* Whether the calling thread reads a CQE where it lies, and has the lock until it says that it does
 * not any more. Any thread of a queue for which there is no lock. */
static bool is_read_here(const struct client_cq *cq)
{
    const struct client_idle *thread = atomic_load_explicit(&cq->reading, memory_order_relaxed);

    return thread && (cq->single_threaded || thread == &client_idle);
}

/* The calling thread may have the lock already, from ibv_start_poll. */
static bool lock_unless_read(struct client_cq *cq)
{
    if (is_read_here(cq))
        return false;
    client_cq_lock(cq);
    return true;
}

/*
 * Exchanges the reader. Others may still look: threads that are about to sleep look at all queues,
 * and one that has an event of this queue may poll and arm until it has acknowledged the event.
 */
static void exchange_reader(struct client_cq *cq, struct cq_reader *reader)
{
    bool locked = lock_unless_read(cq);
    struct cq_reader had;

    spin_lock(&cq->place);
    had = cq->reader;
    cq->reader = *reader;
    *reader = had;
    spin_unlock(&cq->place);
    if (locked)
        client_cq_unlock(cq);
}

bool client_cq_is_leaving(const struct client_cq *cq)
{
    return cq->reader.shared == nothing();
}

int client_cq_destroy(struct client_cq *cq)
{
    struct cq_reader reader = {.shared = nothing(), .size = 1, .lanes = 1};
    struct client *c = cq->client;
    int err;

    if (atomic_load(&cq->users)) /* also when the daemon is gone, and cannot say so */
        return -EBUSY;
    exchange_reader(cq, &reader);
    err = client_slab_destroy(&c->conn, &c->slabs, CTL_DESTROY_CQ, cq->handle);
    if (err && err != -EIO) {
        exchange_reader(cq, &reader);
        return err;
    }
    slot_table_remove(&c->cqs, cq->id);
    return err;
}

static int resize_locked(struct client_cq *cq, uint32_t cqe)
{
    struct ctl_msg m = {.create_cq = {.handle = cq->handle, .cqe = cqe}};
    const struct ctl_create_cq *r = &m.create_cq;
    struct client *c = cq->client;
    struct client_piece piece;
    int err =
        client_slab_create(&c->conn, &c->slabs, CTL_RESIZE_CQ, &m, &m.create_cq.place, &piece);

    if (err)
        return err;
    if (!reply_fits(&m, &piece) || r->lanes != cq->reader.lanes)
        return -EIO;
    cq_reader_move(&cq->reader, piece.base, r->cqe);
    return 0;
}

int client_cq_resize(struct client_cq *cq, uint32_t cqe, int *size)
{
    struct client *c = cq->client;
    struct conn_retry retry = {0};
    int err = is_read_here(cq) ? -EBUSY : conn_room();

    if (err)
        return err;
    pthread_mutex_lock(&cq->resizing);
    do {
        client_cq_lock(cq);
        spin_lock(&cq->place);
        err = resize_locked(cq, cqe);
        spin_unlock(&cq->place);
        client_cq_unlock(cq);
    } while (err == -EAGAIN && conn_wait(&retry));
    if (!err) {
        client_slab_destroy(&c->conn, &c->slabs, CTL_RESIZE_CQ_DONE, cq->handle);
        *size = (int)cq->reader.size;
    }
    pthread_mutex_unlock(&cq->resizing);
    return err;
}

int client_cq_moderate(struct client_cq *cq, uint16_t count, uint16_t period_us)
{
    struct ctl_msg m = {
        .modify_cq = {.handle = cq->handle, .count = count, .period_us = period_us}};

    return conn_call(&cq->client->conn, CTL_MODIFY_CQ, &m, NULL, 0, NULL, 0);
}

/* Outstanding are the CQEs from the consumer index on, up to the first one whose sequence number is
 * not its own. */
static void clean_lane(struct cq_reader *r, uint32_t lane, uint32_t uidx)
{
    struct cq_lane *l = cq_lane_at(r->shared, r->size, lane);

    for (uint32_t i = r->cons[lane];; i++) {
        struct cqe *e = &l->entry[i & (r->size - 1)];

        if (atomic_load_explicit(&e->seq, memory_order_acquire) != i + 1)
            return;
        if (e->uidx == uidx)
            e->uidx = UIDX_DEAD;
    }
}

void client_cq_clean(struct client_cq *cq, uint32_t uidx)
{
    bool locked = lock_unless_read(cq);

    for (uint32_t lane = 0; lane < cq->reader.lanes; lane++)
        clean_lane(&cq->reader, lane, uidx);
    if (locked)
        client_cq_unlock(cq);
}

/* Uses the shared consumer indices: the private ones belong to the thread that has the lock. Under
 * `place`. */
static bool is_pending(const struct client_cq *cq)
{
    const struct cq_reader *r = &cq->reader;

    for (uint32_t lane = 0; lane < r->lanes; lane++) {
        struct cq_lane *l = cq_lane_at(r->shared, r->size, lane);
        uint32_t cons = atomic_load_explicit(&l->cons, memory_order_acquire);
        struct cqe *e = &l->entry[cons & (r->size - 1)];

        if (atomic_load_explicit(&e->seq, memory_order_acquire) == cons + 1)
            return true;
    }
    return false;
}

bool client_cq_pending(struct client_cq *cq)
{
    bool pending;

    spin_lock(&cq->place);
    pending = is_pending(cq);
    spin_unlock(&cq->place);
    return pending;
}

/* Under `place`. */
static uint64_t consumed(const struct client_cq *cq)
{
    const struct cq_reader *r = &cq->reader;
    uint64_t n = 0;

    for (uint32_t lane = 0; lane < r->lanes; lane++)
        n +=
            atomic_load_explicit(&cq_lane_at(r->shared, r->size, lane)->cons, memory_order_relaxed);
    return n;
}

void client_cq_tell(struct client_cq *cq)
{
    uint64_t told;

    spin_lock(&cq->place);
    told = is_pending(cq) ? consumed(cq) + 1 : 0;
    spin_unlock(&cq->place);
    atomic_store_explicit(&cq->told, told, memory_order_relaxed);
}

/* A completion that comes after the arming raises the event; one that came before is seen here. */
void client_cq_arm(struct client_cq *cq, enum cq_arm arm)
{
    bool raise;

    spin_lock(&cq->place);
    cq_reader_arm(&cq->reader, arm);
    raise = cq->has_channel && arm == CQ_ARM_NEXT && is_pending(cq) &&
            atomic_load_explicit(&cq->told, memory_order_relaxed) != consumed(cq) + 1;
    spin_unlock(&cq->place);
    if (raise)
        conn_call_handle(&cq->client->conn, CTL_RAISE_CQ, cq->handle);
}
