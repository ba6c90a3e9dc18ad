/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions of the fake applications, and a backend that copies and can be made to fail. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kit_internal.h"

#define CANARY_LEN  64
#define CANARY_BYTE 0xC7
/* Added to pointers to make the addresses of KIT_MR_COPY regions: following one crashes. */
#define COPY_BIAS (UINT64_C(1) << 62)

struct kit_fault {
    uint64_t addr, len;
    int status;
    struct kit_fault *next;
};

_Noreturn void kit_fail(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fputs("kit: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

void *kit_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);

    if (!p)
        kit_fail("out of memory");
    return p;
}

void *kit_grow(void *p, size_t bytes)
{
    p = realloc(p, bytes);
    if (!p)
        kit_fail("out of memory");
    return p;
}

/* ---- the backend ---- */

static int fault_at(const struct kit_node *n, uint64_t addr, uint64_t len)
{
    int status = 0;

    /* Later faults come first in the list and decide. */
    for (const struct kit_fault *f = n->faults; f; f = f->next)
        if (addr < f->addr + f->len && f->addr < addr + len) {
            status = f->status;
            break;
        }
    return status;
}

/* The pointer behind a transfer's address; the engine must have checked that it is inside. */
static uint8_t *reach(const struct mem_region *mr, uint64_t addr, uint64_t len)
{
    uint64_t off = addr - mr->addr;

    if (off > mr->len || len > mr->len - off)
        kit_fail("an engine reaches %llu bytes at offset %lld of a region of %llu",
                 (unsigned long long)len, (long long)off, (unsigned long long)mr->len);
    return (uint8_t *)(uintptr_t)(addr - COPY_BIAS);
}

static void count_call(struct kit_node *n, const struct mem_io *io, unsigned count)
{
    n->copy_calls++;
    n->copies += count;
    for (unsigned i = 0; i < count; i++)
        if (io[i].mr->space != n && io[i].mr->space) /* NULL: deregistered since */
            kit_fail("one backend call mixes spaces");
}

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    count_call(space, io, n);
    for (unsigned i = 0; i < n; i++) {
        const uint8_t *bytes = reach(io[i].mr, io[i].addr, io[i].len);

        io[i].status = fault_at(space, io[i].addr, io[i].len);
        if (!io[i].status)
            memcpy(io[i].local, bytes, io[i].len);
    }
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    count_call(space, io, n);
    for (unsigned i = 0; i < n; i++) {
        uint8_t *bytes = reach(io[i].mr, io[i].addr, io[i].len);

        io[i].status = fault_at(space, io[i].addr, io[i].len);
        if (!io[i].status)
            memcpy(bytes, io[i].local, io[i].len);
    }
}

static int copy_atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                       uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    uint64_t value;
    uint8_t *bytes = reach(mr, addr, sizeof(value));
    int status = fault_at(space, addr, sizeof(value));

    if (addr % sizeof(value))
        kit_fail("an atomic at an unaligned address");
    if (status)
        return status;
    memcpy(&value, bytes, sizeof(value));
    *old = value;
    if (op == MEM_FETCH_ADD)
        value += swap_add;
    else if (value == compare)
        value = swap_add;
    memcpy(bytes, &value, sizeof(value));
    return 0;
}

static const struct mem_backend copy_backend = {
    .name = "kit-copy",
    .copy_in = copy_in,
    .copy_out = copy_out,
    .atomic = copy_atomic,
};

/* ---- regions ---- */

static uint8_t *canary_before(const struct kit_mr *mr)
{
    return mr->bytes - CANARY_LEN;
}

struct kit_mr *kit_mr_create(struct kit_node *n, uint32_t len, uint32_t access,
                             enum kit_mr_kind kind)
{
    struct kit_mr *mr = kit_alloc(sizeof(*mr));
    size_t whole = round_up(len + 2 * CANARY_LEN, CANARY_LEN);
    uint8_t *block = aligned_alloc(CANARY_LEN, whole);
    uint64_t addr;

    if (!block)
        kit_fail("out of memory");
    memset(block, CANARY_BYTE, whole);
    mr->bytes = block + CANARY_LEN;
    memset(mr->bytes, 0, len);
    mr->len = len;
    mr->node = n;
    addr = (uintptr_t)mr->bytes + (kind == KIT_MR_COPY ? COPY_BIAS : 0);
    mr->region = (struct mem_region){
        .pd = KIT_PD,
        .access = access,
        /* Far from any pointer, so that a missing mr_host_addr crashes. */
        .iova = ((uint64_t)++n->mr_count << 32) + (addr & 4095),
        .addr = addr,
        .len = len,
        .direct = kind == KIT_MR_DIRECT ? mr->bytes : NULL,
        .backend = &copy_backend,
        .space = n,
    };
    if (mr_insert(&n->mrs, &mr->region, (uint8_t)random_next(&n->kit->random)))
        kit_fail("memory region table full");
    mr->next = n->mr;
    n->mr = mr;
    return mr;
}

void kit_mr_deregister(struct kit_mr *mr)
{
    kit_late_end_all(mr->node);
    mr_remove(&mr->node->mrs, &mr->region);
    mr->region.space = NULL;
}

void kit_mr_fault(struct kit_mr *mr, uint32_t off, uint32_t len, int status)
{
    struct kit_fault *f = kit_alloc(sizeof(*f));

    *f = (struct kit_fault){mr->region.addr + off, len, status, mr->node->faults};
    mr->node->faults = f;
}

bool kit_canaries_intact(const struct kit_node *n)
{
    for (const struct kit_mr *mr = n->mr; mr; mr = mr->next)
        for (unsigned i = 0; i < CANARY_LEN; i++)
            if (canary_before(mr)[i] != CANARY_BYTE || mr->bytes[mr->len + i] != CANARY_BYTE)
                return false;
    return true;
}

void kit_memory_fini(struct kit_node *n)
{
    while (n->mr) {
        struct kit_mr *mr = n->mr;

        n->mr = mr->next;
        if (mr->region.space)
            mr_remove(&n->mrs, &mr->region);
        free(canary_before(mr));
        free(mr);
    }
    while (n->faults) {
        struct kit_fault *f = n->faults;

        n->faults = f->next;
        free(f);
    }
}
