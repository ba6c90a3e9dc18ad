/* SPDX-License-Identifier: BSD-3-Clause */
/* /proc/self/maps: by PROCMAP_QUERY where the kernel has it (6.11), else as text. */
#include "adopt_vma.h"

#include <linux/ioctl.h>
#include <string.h>

#include "adopt_state.h"

struct procmap_query {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};

#define PROCMAP_QUERY          _IOWR('f', 17, struct procmap_query)
#define QUERY_COVERING_OR_NEXT 0x10
#define QUERY_FILE_BACKED      0x20
#define VMA_READ               1
#define VMA_WRITE              2
#define VMA_EXEC               4
#define VMA_SHARED             8
#define ADDRESSES_END          (UINT64_C(1) << 56)

/* Repeats the query while a signal interrupts it. */
static long query_maps(int maps, struct procmap_query *q)
{
    long ret;

    do
        ret = raw_ioctl(maps, PROCMAP_QUERY, q);
    while (ret == -EINTR);
    return ret;
}

static long query_vma(int maps, uint64_t addr, unsigned flags, struct vma *v)
{
    struct procmap_query q = {.size = sizeof(q),
                              .query_flags = QUERY_COVERING_OR_NEXT | flags,
                              .query_addr = addr,
                              .vma_name_size = sizeof(v->name),
                              .vma_name_addr = (uintptr_t)v->name};
    long ret;

    memset(v, 0, sizeof(*v));
    ret = query_maps(maps, &q);
    if (ret == -ENAMETOOLONG) { /* no mapping that lib/adopt looks for has such a name */
        q.vma_name_size = 0;
        q.vma_name_addr = 0;
        ret = query_maps(maps, &q);
        v->name[0] = '/';
    }
    if (ret)
        return ret;
    v->start = q.vma_start;
    v->end = q.vma_end;
    v->offset = q.vma_offset;
    v->ino = q.inode;
    v->major_dev = q.dev_major;
    v->minor_dev = q.dev_minor;
    v->page = q.vma_page_size;
    v->r = q.vma_flags & VMA_READ;
    v->w = q.vma_flags & VMA_WRITE;
    v->x = q.vma_flags & VMA_EXEC;
    v->shared = q.vma_flags & VMA_SHARED;
    return 0;
}

/* ---- as text ---- */

/* The descriptor that is open already needs no other one, which the program might not be allowed to
 * have. */
struct reader {
    int fd;
    bool opened; /* for this reader */
    long err;    /* not all could be read */
    uint64_t from;
    size_t used, at; /* of the buffer */
};

/* One buffer for all readers: calls are serialised. */
static char text[16384];

static uint64_t parse_number(const char **p, unsigned base)
{
    uint64_t value = 0;

    for (;; (*p)++) {
        unsigned c = (unsigned char)**p;
        unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;

        if (digit >= base)
            return value;
        value = value * base + digit;
    }
}

static int reader_open(struct reader *r)
{
    *r = (struct reader){.fd = adopt_maps()};
    if (r->fd < 0) {
        r->fd = (int)raw_open("/proc/self/maps", O_RDONLY);
        r->opened = true;
    }
    return r->fd < 0 ? r->fd : 0;
}

static void reader_close(struct reader *r)
{
    if (r->opened)
        raw_close(r->fd);
}

/* Appends to the buffer. How many bytes: 0 at the end, or when not all could be read. */
static size_t read_more(struct reader *r)
{
    long n = r->used < sizeof(text)
                 ? raw_pread(r->fd, text + r->used, sizeof(text) - r->used, r->from)
                 : -E2BIG; /* a line that does not fit */

    if (n < 0)
        r->err = n;
    if (n <= 0)
        return 0;
    r->from += (uint64_t)n;
    r->used += (size_t)n;
    return (size_t)n;
}

/* "7f1c-7f2d rw-p 0000 00:01 1234   /name" */
static void parse_line(const char *p, struct vma *v)
{
    size_t n;

    memset(v, 0, sizeof(*v));
    v->start = parse_number(&p, 16);
    p++;
    v->end = parse_number(&p, 16);
    p++;
    v->r = p[0] == 'r';
    v->w = p[1] == 'w';
    v->x = p[2] == 'x';
    v->shared = p[3] == 's';
    p += 5;
    v->offset = parse_number(&p, 16);
    p++;
    v->major_dev = (uint32_t)parse_number(&p, 16);
    p++;
    v->minor_dev = (uint32_t)parse_number(&p, 16);
    p++;
    v->ino = parse_number(&p, 10);
    p += strspn(p, " ");
    n = strlen(p);
    if (n >= sizeof(v->name))
        n = sizeof(v->name) - 1;
    memcpy(v->name, p, n);
}

static bool next_line(struct reader *r, struct vma *v)
{
    for (;;) {
        char *line = text + r->at, *end = memchr(line, '\n', r->used - r->at);

        if (end) {
            *end = '\0';
            r->at = (size_t)(end - text) + 1;
            parse_line(line, v);
            return true;
        }
        memmove(text, line, r->used - r->at);
        r->used -= r->at;
        r->at = 0;
        if (!read_more(r))
            return false;
    }
}

static int find_in_text(uint64_t addr, struct vma *v)
{
    struct reader r;
    int err = reader_open(&r);
    bool found = false;

    if (err)
        return err;
    while (!found && next_line(&r, v))
        found = v->end > addr;
    reader_close(&r);
    return found ? 0 : r.err ? (int)r.err : -ENOENT;
}

static int each_file_in_text(int (*visit)(const struct vma *v, void *arg), void *arg)
{
    struct reader r;
    struct vma v;
    int ret = reader_open(&r);

    if (ret)
        return ret;
    while (!ret && next_line(&r, &v))
        if (v.ino)
            ret = visit(&v, arg);
    reader_close(&r);
    return ret ? ret : (int)r.err;
}

/* ---- either ---- */

/* Whether ret is an answer. Notes if the kernel has no such query; other errors say nothing about
 * the kernel: the program may have closed the descriptor, or a sandbox forbids the call. */
static bool kernel_answered(long ret)
{
    if (ret == -ENOTTY || ret == -EINVAL)
        adopt.text_maps = true;
    return !ret || ret == -ENOENT;
}

/* Also where this process adopts nothing, or the program has closed the descriptor. */
static long query_or_open(uint64_t addr, struct vma *v)
{
    long ret = query_vma(adopt.maps, addr, 0, v);
    int fd;

    if (ret != -EBADF)
        return ret;
    fd = (int)raw_open("/proc/self/maps", O_RDONLY);
    if (fd < 0)
        return ret;
    ret = query_vma(fd, addr, 0, v);
    raw_close(fd);
    return ret;
}

int vma_find(uint64_t addr, struct vma *v)
{
    if (!adopt.text_maps) {
        long ret = query_or_open(addr, v);

        if (kernel_answered(ret))
            return (int)ret;
    }
    return find_in_text(addr, v);
}

bool vma_is_still(const struct vma *v, uint64_t start, uint64_t end)
{
    struct vma now;

    if (adopt.text_maps || !kernel_answered(query_vma(adopt.maps, start, 0, &now)))
        return true;
    return now.start <= start && now.end >= end && now.ino == v->ino && now.shared == v->shared &&
           now.offset - now.start == v->offset - v->start;
}

int vma_each_file(int (*visit)(const struct vma *v, void *arg), void *arg)
{
    struct vma v = {0};

    while (!adopt.text_maps) {
        long ret = query_vma(adopt.maps, v.end, QUERY_FILE_BACKED, &v);

        if (!kernel_answered(ret))
            break;
        if (ret || v.start >= ADDRESSES_END)
            return ret == -ENOENT ? 0 : (int)ret;
        ret = visit(&v, arg);
        if (ret)
            return (int)ret;
    }
    return each_file_in_text(visit, arg);
}

/* Whether v has the address up to which a range was checked, and may be accessed. */
static bool continues(const struct vma *v, uint64_t at, bool write)
{
    return v->start <= at && v->r && (v->w || !write);
}

static int check_in_text(uint64_t at, uint64_t end, bool write)
{
    struct reader r;
    bool usable = true;
    struct vma v;
    int err = reader_open(&r);

    if (err)
        return err;
    while (at < end && usable && next_line(&r, &v))
        if (v.end > at) {
            usable = continues(&v, at, write);
            at = v.end;
        }
    reader_close(&r);
    if (usable && at < end && r.err)
        return (int)r.err;
    return usable && at >= end ? 0 : -EFAULT;
}

int vma_check(uint64_t addr, uint64_t length, bool write)
{
    uint64_t at = addr, end = addr + length;
    struct vma v;

    while (!adopt.text_maps) {
        long ret = query_or_open(at, &v);

        if (!kernel_answered(ret))
            break;
        if (ret == -ENOENT || (!ret && !continues(&v, at, write)))
            return -EFAULT;
        if (ret || v.end >= end)
            return (int)ret;
        at = v.end;
    }
    return check_in_text(at, end, write);
}

unsigned vma_count(void)
{
    struct reader r;
    unsigned lines = 0;
    size_t n;

    if (reader_open(&r))
        return 0;
    for (; (n = read_more(&r)); r.used = 0)
        for (size_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    reader_close(&r);
    return lines;
}

bool vma_is_heap(const struct vma *v)
{
    return !strcmp(v->name, "[heap]");
}

bool vma_is_memfd(const struct vma *v)
{
    static const char name[] = "/memfd:";

    return v->ino && !strncmp(v->name, name, sizeof(name) - 1);
}

bool vma_is_adopted(const struct vma *v)
{
    static const char name[] = "/memfd:" ADOPT_NAME;

    return v->ino && !strncmp(v->name, name, sizeof(name) - 1);
}

int vma_prot(const struct vma *v)
{
    return (v->r ? PROT_READ : 0) | (v->w ? PROT_WRITE : 0) | (v->x ? PROT_EXEC : 0);
}
