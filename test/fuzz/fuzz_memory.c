/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory, as the daemon reaches it: mappings of files that an application passes in any
 * pieces, and copies, while the application truncates the files, punches holes into them, seals
 * them and changes its own mappings. No access may raise a signal, no copy may leave its bounds,
 * and what is mapped must be the file's bytes.
 *
 * Input: actions, each an opcode byte and its operands. See make_memory_corpus.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "copy.h"
#include "fuzz.h"
#include "fuzz_input.h"
#include "pinned.h"
#include "uroced.h"

#define PAGE    4096u
#define PAGES   16u /* of each file, and of the application's memory */
#define FILES   4
#define REGIONS 8
#define ACTIONS 100
#define GUARD   0xA5

enum action {
    ACT_MAP,
    ACT_UNMAP,
    ACT_TOUCH,
    ACT_TRUNCATE,
    ACT_PUNCH,
    ACT_FILL,
    ACT_SEAL,
    ACT_PROTECT,
    ACT_COPY,
    ACT_ATOMIC,
    ACT_FREEZE,
    ACT_REACH,
    ACT_COUNT
};

/* A region, and the mapping that the daemon has made for it. */
struct mapped {
    struct mem_region mr;
    void *mapping;
    int file;
    bool
        sealed; /* against shrinking; a worker survives what others do, and this program does not */
    uint64_t offset; /* in the file, of the first piece */
};

static struct {
    void *space;
    const struct mem_backend *backend;
    struct mem_pinned_space pinned;
    struct mapped region[REGIONS];
    int file[FILES];
    uint8_t *memory; /* the application's; a page before and after it is never accessible */
} w;

/* ---- mappings ---- */

/* Pages or bytes: operands of 128 and more are bytes beside a page's boundary. */
static uint64_t position(struct input *in)
{
    uint8_t at = take(in);

    return at < 128 ? (uint64_t)at * PAGE : (uint64_t)(at & 31) * PAGE + take(in);
}

/* Region; file; access; address; number of pieces; each piece's offset and length. */
static void map_region(struct input *in)
{
    struct mapped *r = &w.region[take(in) % REGIONS];
    struct mem_piece piece[CTL_MR_PIECES];
    uint64_t whole = 0;
    unsigned n;
    int err;

    if (r->mapping)
        return;
    r->file = take(in) % FILES;
    r->mr = (struct mem_region){.space = w.space, .access = take(in), .addr = position(in)};
    n = take(in) % (CTL_MR_PIECES + 1);
    for (unsigned i = 0; i < n; i++) {
        piece[i] = (struct mem_piece){.offset = position(in), .len = position(in)};
        if (take(in) == 255)
            piece[i].offset += UINT64_C(0xFFFFFFFFFFFF0000);
        whole += piece[i].len;
    }
    r->mr.len = take(in) & 1 ? whole + 1 : whole;
    r->offset = n ? piece[0].offset : 0;
    if (!r->mr.len || !n) /* the control thread refuses both */
        return;
    r->sealed = fcntl(w.file[r->file], F_GET_SEALS) & F_SEAL_SHRINK;
    r->mapping = uroced_memory.map(&r->mr, w.file[r->file], piece, n, &err);
    REQUIRE(r->mapping ? r->mr.direct != NULL : err < 0);
}

static void unmap_region(struct mapped *r)
{
    if (!r->mapping)
        return;
    uroced_memory.unmap(r->mapping, &r->mr);
    REQUIRE(!r->mr.direct);
    uroced_memory.dispose(r->mapping);
    r->mapping = NULL;
}

/* As a worker does it: any byte of the region. The first piece's bytes are those of the file. */
static void touch(struct input *in)
{
    struct mapped *r = &w.region[take(in) % REGIONS];
    uint64_t at = position(in);
    volatile uint8_t *byte;
    uint8_t stored = take(in), read;

    if (!r->mapping || !r->sealed || at >= r->mr.len)
        return;
    byte = (uint8_t *)r->mr.direct + at;
    read = *byte;
    if (!(r->mr.access & (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)))
        return;
    *byte = stored;
    REQUIRE(at || (pread(w.file[r->file], &read, 1, (off_t)r->offset) == 1 && read == stored));
}

/* ---- what the application does ---- */

static void change_file(uint8_t action, struct input *in)
{
    static const int seals[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE,
                                F_SEAL_SEAL};
    int fd = w.file[take(in) % FILES];
    uint64_t at = position(in) % (2 * PAGES * PAGE), len = position(in) % (PAGES * PAGE) + 1;

    if (action == ACT_TRUNCATE)
        (void)!ftruncate(fd, (off_t)at);
    else if (action == ACT_PUNCH)
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)len);
    else if (action == ACT_FILL)
        fallocate(fd, 0, (off_t)at, (off_t)len);
    else
        fcntl(fd, F_ADD_SEALS, seals[at / PAGE % ARRAY_SIZE(seals)]);
}

static void protect(struct input *in)
{
    static const int protection[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    unsigned first = take(in) % PAGES, n = take(in) % (PAGES - first) + 1;

    mprotect(w.memory + first * PAGE, n * PAGE, protection[take(in) % ARRAY_SIZE(protection)]);
}

/* ---- copies ---- */

/* Of the application's memory, and at most a page beside it. */
static uint64_t address(struct input *in)
{
    return (uint64_t)(uintptr_t)w.memory - PAGE + position(in) % ((PAGES + 2) * PAGE);
}

/* Direction and backend; number; each one's address and length. */
static void copy(struct input *in)
{
    static uint8_t bytes[8][2 * PAGE + 2];
    uint8_t how = take(in);
    unsigned n = take(in) % 8 + 1;
    struct mem_io io[8];
    const struct mem_backend *b = how & 2 ? &mem_pinned_backend : w.backend;
    void *space = how & 2 ? &w.pinned : w.space;

    memset(bytes, GUARD, sizeof(bytes));
    for (unsigned i = 0; i < n; i++) {
        io[i] = (struct mem_io){.addr = address(in), .local = bytes[i] + 1, .status = 1};
        io[i].len = (uint32_t)(position(in) % (2 * PAGE));
        /* With one in hand, no write leaves the application's pages for others of this process. */
        if (io[i].addr + io[i].len > (uintptr_t)w.memory + (PAGES + 1) * PAGE)
            io[i].len = 0;
    }
    (how & 1 ? b->copy_out : b->copy_in)(space, io, n);
    for (unsigned i = 0; i < n; i++) {
        REQUIRE(io[i].status <= 0);
        REQUIRE(bytes[i][0] == GUARD && bytes[i][io[i].len + 1] == GUARD);
    }
}

static void atomic(struct input *in)
{
    uint8_t how = take(in);
    const struct mem_backend *b = how & 2 ? &mem_pinned_backend : w.backend;
    struct mem_region mr = {.space = how & 2 ? &w.pinned : w.space};
    uint64_t old, at = address(in) & ~UINT64_C(7);

    b->atomic(mr.space, &mr, at, how & 1 ? MEM_FETCH_ADD : MEM_CMP_SWP, take(in), take(in), &old);
}

/* ---- the world ---- */

/* The files' pages exist, and the first file has the seal that mapping needs. */
static void open_files(void)
{
    static const uint8_t zeros[PAGES * PAGE];

    for (unsigned i = 0; i < FILES; i++) {
        w.file[i] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        REQUIRE(w.file[i] >= 0 && write(w.file[i], zeros, sizeof(zeros)) == sizeof(zeros));
        if (i < FILES - 1)
            fcntl(w.file[i], F_ADD_SEALS, F_SEAL_SHRINK);
    }
}

static void open_space(void)
{
    struct ucred own = {getpid(), getuid(), getgid()};
    int err;

    w.space = uroced_memory.space_open(&own, &w.backend, &err);
    REQUIRE(w.space && !err);
    w.pinned = (struct mem_pinned_space){.fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC),
                                         .pid = getpid()};
    mem_life_begin(&w.pinned.life);
}

static void begin(void)
{
    if (!w.memory) {
        uint8_t *room =
            mmap(NULL, (PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        REQUIRE(room != MAP_FAILED);
        w.memory = room + PAGE;
    }
    mprotect(w.memory, PAGES * PAGE, PROT_READ | PROT_WRITE);
    open_files();
    open_space();
}

static void end(void)
{
    for (unsigned i = 0; i < REGIONS; i++)
        unmap_region(&w.region[i]);
    uroced_memory.space_gone(w.space);
    uroced_memory.space_close(w.space);
    close(w.pinned.fd);
    for (unsigned i = 0; i < FILES; i++)
        close(w.file[i]);
}

static void act(struct input *in)
{
    uint8_t action = take(in) % ACT_COUNT;

    switch (action) {
    case ACT_MAP:
        map_region(in);
        break;
    case ACT_UNMAP:
        unmap_region(&w.region[take(in) % REGIONS]);
        break;
    case ACT_TOUCH:
        touch(in);
        break;
    case ACT_PROTECT:
        protect(in);
        break;
    case ACT_COPY:
        copy(in);
        break;
    case ACT_ATOMIC:
        atomic(in);
        break;
    case ACT_FREEZE:
        uroced_memory.freeze(w.space, take(in) * UINT64_C(1000));
        uroced_memory.thaw(w.space);
        break;
    case ACT_REACH:
        REQUIRE(!uroced_memory.space_reach(w.space));
        break;
    default:
        change_file(action, in);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    begin();
    for (unsigned n = 0; in.left && n < ACTIONS; n++)
        act(&in);
    end();
    return 0;
}
