/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of the side that is played. The peer accesses sparse memory at the recorded addresses,
 * in regions derived from the recorded requests. Payloads to send and receive buffers are plain
 * memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mem_window.h"
#include "replay.h"

#define PAGE_BYTES    4096u
#define LANDING_LIMIT (UINT64_C(1) << 42)
#define WINDOW_RIGHTS (MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)

struct page {
    uint64_t number;
    uint8_t bytes[PAGE_BYTES];
};

/* ---- sparse memory ---- */

static unsigned slot_of(const struct run *r, uint64_t number)
{
    unsigned mask = r->page_slots - 1;
    unsigned slot = (unsigned)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;

    while (r->page[slot] != NULL && r->page[slot]->number != number)
        slot = (slot + 1) & mask;
    return slot;
}

static void grow_page_table(struct run *r)
{
    struct page **old = r->page;
    unsigned slots = r->page_slots;

    r->page_slots = slots ? 2 * slots : 64;
    r->page = replay_grow(NULL, r->page_slots * sizeof(struct page *));
    memset(r->page, 0, r->page_slots * sizeof(struct page *));
    for (unsigned i = 0; i < slots; i++)
        if (old[i] != NULL)
            r->page[slot_of(r, old[i]->number)] = old[i];
    free(old);
}

static uint8_t *page_at(struct run *r, uint64_t number)
{
    unsigned slot;

    if (2 * r->pages >= r->page_slots)
        grow_page_table(r);
    slot = slot_of(r, number);
    if (r->page[slot] == NULL) {
        r->page[slot] = replay_grow(NULL, sizeof(struct page));
        memset(r->page[slot], 0, sizeof(struct page));
        r->page[slot]->number = number;
        r->pages++;
    }
    return r->page[slot]->bytes;
}

void memory_store(struct run *r, uint64_t va, const uint8_t *bytes, uint32_t len)
{
    while (len) {
        uint32_t off = (uint32_t)(va % PAGE_BYTES), n = min_of(len, PAGE_BYTES - off);

        memcpy(page_at(r, va / PAGE_BYTES) + off, bytes, n);
        va += n;
        bytes += n;
        len -= n;
    }
}

void memory_load(const struct run *r, uint64_t va, uint8_t *bytes, uint32_t len)
{
    while (len) {
        uint32_t off = (uint32_t)(va % PAGE_BYTES), n = min_of(len, PAGE_BYTES - off);
        const struct page *page = r->pages ? r->page[slot_of(r, va / PAGE_BYTES)] : NULL;

        if (page != NULL)
            memcpy(bytes, page->bytes + off, n);
        else
            memset(bytes, 0, n);
        va += n;
        bytes += n;
        len -= n;
    }
}

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    struct run *r = space;

    for (unsigned i = 0; i < n; i++) {
        io[i].status = r->broken_memory ? -EFAULT : 0;
        if (!r->broken_memory)
            memory_load(r, io[i].addr, io[i].local, io[i].len);
    }
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    struct run *r = space;

    for (unsigned i = 0; i < n; i++) {
        io[i].status = r->broken_memory ? -EFAULT : 0;
        if (!r->broken_memory)
            memory_store(r, io[i].addr, io[i].local, io[i].len);
    }
}

static int execute_atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                          uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    struct run *r = space;
    uint64_t value;

    if (r->broken_memory)
        return -EFAULT;
    memory_load(r, addr, (uint8_t *)&value, sizeof(value));
    *old = value;
    if (op == MEM_FETCH_ADD)
        value += swap_add;
    else if (value == compare)
        value = swap_add;
    memory_store(r, addr, (const uint8_t *)&value, sizeof(value));
    return 0;
}

static const struct mem_backend sparse = {
    .name = "replay",
    .copy_in = copy_in,
    .copy_out = copy_out,
    .atomic = execute_atomic,
};

/* ---- keys ---- */

static int by_key(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    return x->recorded < y->recorded ? -1 : x->recorded > y->recorded;
}

struct key *memory_key(const struct run *r, uint32_t recorded)
{
    struct key wanted = {.recorded = recorded};

    if (r->keys == 0)
        return NULL;
    return bsearch(&wanted, r->key, r->keys, sizeof(*r->key), by_key);
}

static void add_key(struct run *r, uint32_t recorded, uint64_t va, uint64_t len, uint32_t rights,
                    bool window)
{
    ENSURE_ROOM(r->key, r->keys, r->key_room);
    r->key[r->keys++] = (struct key){
        .recorded = recorded,
        .region = {.kind = window ? MEM_WINDOW_2 : MEM_REGION,
                   .pd = REPLAY_PD,
                   .access = rights,
                   .iova = va,
                   .addr = va,
                   .len = len,
                   .backend = &sparse,
                   .space = r},
    };
}

static uint32_t rights_for(uint8_t op)
{
    switch (op) {
    case SQE_READ:
        return MEM_REMOTE_READ;
    case SQE_CMP_SWP:
    case SQE_FETCH_ADD:
        return MEM_REMOTE_ATOMIC;
    case SQE_FLUSH:
        return MEM_FLUSH_GLOBAL;
    default:
        return MEM_REMOTE_WRITE;
    }
}

/* An accepted request shows a key, a range and an access right. */
static void learn_keys(struct run *r, const struct stream *s)
{
    for (unsigned i = 0; i < s->msgs; i++) {
        const struct message *m = &s->msg[i];
        uint64_t len = m->op == SQE_ATOMIC_WRITE ? 8 : m->len;

        if (m->outcome == OUTCOME_NAK || m->filler)
            continue;
        if (m->op == SQE_SEND_INV)
            add_key(r, m->inv_rkey, 0, 0, 0, true);
        else if ((message_has_response(m) || m->op == SQE_WRITE || m->op == SQE_WRITE_IMM) && len &&
                 m->va + len > m->va)
            add_key(r, m->rkey, m->va, len, rights_for(m->op), false);
    }
}

static void merge_region(struct mem_region *into, const struct mem_region *from)
{
    uint64_t end = into->iova + into->len, other = from->iova + from->len;

    into->access |= from->access;
    if (from->kind == MEM_WINDOW_2)
        into->kind = MEM_WINDOW_2;
    if (from->len == 0)
        return;
    if (into->len == 0) {
        into->iova = into->addr = from->iova;
        into->len = from->len;
        return;
    }
    into->iova = into->addr = min_of(into->iova, from->iova);
    into->len = max_of(end, other) - into->iova;
}

static void merge_keys(struct run *r)
{
    unsigned n = 0;

    if (r->keys)
        qsort(r->key, r->keys, sizeof(*r->key), by_key);
    for (unsigned i = 0; i < r->keys; i++) {
        if (n && r->key[n - 1].recorded == r->key[i].recorded)
            merge_region(&r->key[n - 1].region, &r->key[i].region);
        else
            r->key[n++] = r->key[i];
    }
    r->keys = n;
}

void memory_insert(struct run *r, struct key *k, uint32_t qpn)
{
    memory_remove(r, k);
    if (mr_insert(&r->mrs, &k->region, 0))
        return;
    k->inserted = true;
    if (k->region.kind != MEM_WINDOW_2)
        return;
    k->region.access &= WINDOW_RIGHTS;
    k->region.bound = true;
    k->region.qpn = qpn;
    k->parent = k->region;
    k->parent.kind = MEM_REGION;
    k->parent.windows = 1;
    k->region.parent = &k->parent;
}

void memory_remove(struct run *r, struct key *k)
{
    if (k->inserted)
        mr_remove(&r->mrs, &k->region);
    k->inserted = false;
}

/* ---- a run's memory ---- */

/* Bytes that arrive: in receive buffers (with the GRH of datagrams), and as results of READs and
 * atomics. */
static uint64_t landing_needed(const struct run *r)
{
    uint64_t sum = PAGE_BYTES;

    for (unsigned i = 0; i < r->conversation->dgram_msgs; i++)
        sum += round_up(r->conversation->dgram_msg[i]->len + 40, 8);
    for (unsigned i = 0; i < r->conversation->conns; i++) {
        const struct stream *ours = &r->conversation->conn[i]->stream[r->side];
        const struct stream *theirs = &r->conversation->conn[i]->stream[!r->side];

        for (unsigned k = 0; k < ours->msgs && sum < LANDING_LIMIT; k++)
            if (message_has_response(&ours->msg[k]) && ours->msg[k].op != SQE_FLUSH)
                sum += round_up(ours->msg[k].len, 8);
        for (unsigned k = 0; k < theirs->msgs && sum < LANDING_LIMIT; k++)
            if (message_takes_recv(&theirs->msg[k]))
                sum += round_up(r->conversation->conn[i]->service == PKT_UC ? theirs->longest_recv
                                                                            : theirs->msg[k].len,
                                8);
    }
    return sum;
}

static int local_region(struct run *r, struct mem_region *mr, uint8_t *bytes, uint64_t len)
{
    *mr = (struct mem_region){.pd = REPLAY_PD,
                              .access = MEM_LOCAL_WRITE,
                              .iova = (uintptr_t)bytes,
                              .addr = (uintptr_t)bytes,
                              .len = len,
                              .direct = bytes,
                              .backend = &sparse,
                              .space = r};
    return mr_insert(&r->mrs, mr, 0);
}

int memory_create(struct run *r)
{
    static const uint64_t secret[2] = {UINT64_C(0x5eed), UINT64_C(0x5eed5eed)};
    void *bytes;

    for (unsigned i = 0; i < r->conversation->conns; i++)
        learn_keys(r, &r->conversation->conn[i]->stream[!r->side]);
    merge_keys(r);
    if (r->keys + 8 > MR_TABLE_MAX_SLOTS || mr_table_init(&r->mrs, r->keys + 8, secret))
        return -ENOMEM;
    r->landing_len = round_up(landing_needed(r), PAGE_BYTES);
    if (r->landing_len > LANDING_LIMIT)
        return -ENOMEM;
    bytes = mmap(NULL, r->landing_len, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return -ENOMEM;
    r->landing_bytes = bytes;
    if (local_region(r, &r->landing, r->landing_bytes, r->landing_len) ||
        local_region(r, &r->payload, r->capture->arena, r->capture->arena_len))
        return -ENOMEM;
    for (unsigned i = 0; i < r->keys; i++)
        if (r->key[i].region.kind == MEM_REGION)
            memory_insert(r, &r->key[i], 0);
    return 0;
}

void memory_destroy(struct run *r)
{
    if (r->landing_bytes != NULL)
        munmap(r->landing_bytes, r->landing_len);
    if (r->mrs.slots)
        mr_table_fini(&r->mrs);
    for (unsigned i = 0; i < r->page_slots; i++)
        free(r->page[i]);
    free(r->page);
    free(r->key);
}
