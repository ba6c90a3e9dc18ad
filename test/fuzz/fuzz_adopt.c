/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adoption: leases on any ranges of a program's memory, in any order, while the program maps,
 * unmaps, protects and fills it, registers more, and forks. Whatever is refused or fails on the
 * way, the program's bytes stay what it has written, and pages without a lease are private again at
 * the end.
 *
 * Input: actions, each an opcode byte and its operands. See make_adopt_corpus.py.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "adopt_state.h"
#include "fuzz.h"
#include "fuzz_input.h"

#define PAGE    UINT64_C(4096)
#define PAGES   96u
#define LEASES  8
#define ACTIONS 60

enum action {
    ACT_ACQUIRE,
    ACT_RELEASE,
    ACT_COPIED,
    ACT_REFUSED,
    ACT_FORK,
    ACT_MAP,
    ACT_UNMAP,
    ACT_SHARED,
    ACT_PROTECT,
    ACT_FILL,
    ACT_COUNT
};

/* A page of the program's, as it must look. */
struct page {
    bool mapped, shared;
    int protection;
    uint8_t value; /* of each byte */
};

extern const bool adopt_is_fuzzed;
const bool adopt_is_fuzzed = true;

static struct page model[PAGES];
static struct adopt_lease lease[LEASES];
static uint8_t *memory;
static bool refuses; /* the daemon, when it is asked to stop copying */

/* ---- what must hold ---- */

static void check_pages(void)
{
    for (unsigned i = 0; i < PAGES; i++) {
        const uint8_t *p = memory + i * PAGE;

        if (!model[i].mapped || !(model[i].protection & PROT_READ))
            continue;
        REQUIRE(p[0] == model[i].value && p[PAGE / 2] == model[i].value &&
                p[PAGE - 1] == model[i].value);
    }
}

/* The pieces are the lease's range, in order and without gaps, and hold the program's bytes. */
static void check_lease(const struct adopt_lease *l)
{
    uint64_t at = l->start;

    for (unsigned i = 0; i < l->pieces; i++) {
        const struct adopt_piece *piece = &l->piece[i];
        uint8_t byte;

        REQUIRE(piece->addr == at && piece->length && !(piece->length % PAGE));
        REQUIRE(pread(adopt_memfd(), &byte, 1, (off_t)piece->offset) == 1);
        REQUIRE(byte == model[(at - (uintptr_t)memory) / PAGE].value);
        at += piece->length;
    }
    REQUIRE(at == l->end);
}

/* ---- leases ---- */

static void drop(struct adopt_lease *l)
{
    if (l->kind != LEASE_NONE)
        adopt_release(l);
    *l = (struct adopt_lease){0};
}

/* Lease; first page; pages; bytes that are missing at both ends; flags. */
static void take_lease(struct input *in, bool copied)
{
    struct adopt_lease *l = &lease[take(in) % LEASES];
    unsigned first = take(in) % PAGES, n = take(in) % (PAGES - first) + 1, less = take(in);
    uint64_t addr = (uintptr_t)memory + first * PAGE + less, len = n * PAGE - 2 * less;
    uint8_t flags = take(in);
    enum ctl_mr_why why;

    drop(l);
    if (copied) {
        adopt_note_copied(l, addr, len);
        return;
    }
    refuses = flags & 128;
    why = adopt_acquire(l, addr, len, flags & 15);
    REQUIRE(why > CTL_MR_UNKNOWN && why < CTL_MR_WHYS);
    REQUIRE((why == CTL_MR_ADOPTED) == (l->kind == LEASE_HELD));
    if (why == CTL_MR_ADOPTED)
        check_lease(l);
}

static void forks(void)
{
    if (!adopt_must_freeze())
        return;
    adopt_freeze();
    for (unsigned i = 0; i < LEASES; i++)
        adopt_lease_freeze(&lease[i]);
}

/* ---- the program ---- */

static void set_pages(unsigned first, unsigned n, struct page page)
{
    for (unsigned i = first; i < first + n; i++)
        model[i] = page;
}

static void map_pages(unsigned first, unsigned n, int flags)
{
    void *p = mmap(memory + first * PAGE, n * PAGE, PROT_READ | PROT_WRITE,
                   MAP_FIXED | MAP_ANONYMOUS | flags, -1, 0);

    REQUIRE(p != MAP_FAILED);
    set_pages(first, n, (struct page){true, flags == MAP_SHARED, PROT_READ | PROT_WRITE, 0});
}

static void protect(unsigned first, unsigned n, uint8_t how)
{
    static const int protection[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};

    for (unsigned i = first; i < first + n; i++) {
        if (!model[i].mapped)
            continue;
        model[i].protection = protection[how % ARRAY_SIZE(protection)];
        REQUIRE(!mprotect(memory + i * PAGE, PAGE, model[i].protection));
    }
}

static void fill(unsigned first, unsigned n, uint8_t value)
{
    for (unsigned i = first; i < first + n; i++) {
        if (!model[i].mapped || !(model[i].protection & PROT_WRITE))
            continue;
        memset(memory + i * PAGE, value, PAGE);
        model[i].value = value;
    }
}

static void change_memory(uint8_t action, struct input *in)
{
    unsigned first = take(in) % PAGES, n = take(in) % (PAGES - first) + 1;
    uint8_t how = take(in);

    if (action == ACT_MAP || action == ACT_SHARED) {
        map_pages(first, n, action == ACT_MAP ? MAP_PRIVATE : MAP_SHARED);
    } else if (action == ACT_UNMAP) {
        /* The addresses stay ours. */
        REQUIRE(mmap(memory + first * PAGE, n * PAGE, PROT_NONE,
                     MAP_FIXED | MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, -1, 0) != MAP_FAILED);
        set_pages(first, n, (struct page){0});
    } else if (action == ACT_PROTECT) {
        protect(first, n, how);
    } else {
        fill(first, n, how);
    }
}

static void act(struct input *in)
{
    uint8_t action = take(in) % ACT_COUNT;

    switch (action) {
    case ACT_ACQUIRE:
    case ACT_COPIED:
        take_lease(in, action == ACT_COPIED);
        break;
    case ACT_RELEASE:
        drop(&lease[take(in) % LEASES]);
        break;
    case ACT_REFUSED: {
        struct adopt_lease *l = &lease[take(in) % LEASES];

        if (l->kind == LEASE_HELD)
            adopt_refused(l);
        break;
    }
    case ACT_FORK:
        forks();
        break;
    default:
        change_memory(action, in);
    }
    check_pages();
}

/* ---- an input ---- */

static int64_t stop(void)
{
    return refuses ? -1 : NS_PER_SEC;
}

static void go(void)
{
}

static bool begin_process(void)
{
    static const struct adopt_config config = {.stop = stop, .go = go};

    if (memory)
        return adopt.usable == CTL_MR_ADOPTED;
    memory = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    if (adopt_init(&config) != CTL_MR_ADOPTED)
        fprintf(stderr, "fuzz_adopt: this process may not adopt memory: nothing is tested\n");
    return adopt.usable == CTL_MR_ADOPTED;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    if (!begin_process())
        return 0;
    map_pages(0, PAGES, MAP_PRIVATE);
    fill(0, PAGES / 2, 1);
    for (unsigned n = 0; in.left && n < ACTIONS; n++)
        act(&in);
    for (unsigned i = 0; i < LEASES; i++)
        drop(&lease[i]);
    check_pages();
    REQUIRE(!adopt_held_bytes());
    return 0;
}
