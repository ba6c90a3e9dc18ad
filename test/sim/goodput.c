/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Goodput against loss, in virtual time: one RC queue pair writes, sends or reads over a link of a
 * fixed rate that loses frames in both directions. The numbers follow from the code alone, so the
 * table in doc/goodput.md changes with the transport's behaviour, and the change is a diff.
 *
 *     goodput                        prints the table
 *     goodput --check FILE           fails when the file's table differs
 *     goodput --write FILE           writes it to the file
 *     goodput --reads                prints one part, for builds that are slow
 *
 * Each of them fails when two uroce that have agreed do not keep what doc/goodput.md promises.
 */
#include <stdlib.h>
#include <string.h>

#include "engine_private.h"
#include "kit.h"

#define RATE     UINT64_C(10000000000) /* bits per second */
#define DURATION (200 * NS_PER_MS)
#define DEPTH    1024
#define FLIGHT   (1u << 22) /* bytes of requests posted ahead */
#define BEGIN    "<!-- the table: goodput --write doc/goodput.md -->\n"
#define END      "<!-- the end of the table -->\n"

/* Chances in 1/100000 of a frame: the hook's, whose dice are finer than the link's. */
static const unsigned losses[] = {0, 10, 100, 500, 1000, 2000, 5000};
static const uint32_t sizes[] = {4096, 65536, 1u << 20};
static const ns_t round_trips[] = {10 * NS_PER_US, 100 * NS_PER_US, NS_PER_MS};

#define COLUMNS (ARRAY_SIZE(round_trips) * ARRAY_SIZE(sizes))

struct line {
    unsigned loss;
    struct random random;
};

/* Of its goodput without loss each cell of two uroce that have agreed keeps that many per cent. */
static const struct {
    unsigned loss, percent;
} promises[] = {{1000, 95}, {5000, 85}};

/* What the peer does with packets behind a gap. */
enum peer { PEER_AGREED, PEER_KEEPS, PEER_DROPS };

struct writer {
    struct kit_qp *qp, *peer;
    struct kit_mr *from, *to;
    enum sqe_op op;
    uint32_t size;
    uint64_t posted, completed;
};

static enum kit_verdict lose(void *ctx, unsigned index, uint8_t *data, uint32_t *len,
                             const struct kit_seen *seen)
{
    struct line *line = ctx;

    return random_below(&line->random, 100000) < line->loss ? KIT_DROP : KIT_PASS;
}

static uint64_t poll_all(struct kit_cq *cq)
{
    struct cqe e[16];
    uint64_t all = 0;
    unsigned n;

    while ((n = kit_poll(cq, e, ARRAY_SIZE(e))))
        for (unsigned i = 0; i < n; i++, all++)
            if (e[i].status != WC_SUCCESS)
                kit_fail("request %llu: status %u", (unsigned long long)e[i].wr_id, e[i].status);
    return all;
}

static bool write_on(void *arg)
{
    struct writer *w = arg;
    uint64_t depth = min_of((uint32_t)DEPTH, max_of(FLIGHT / w->size, 4u));

    if (w->op == SQE_SEND)
        for (uint64_t n = poll_all(w->peer->recv_cq); n; n--)
            kit_recv(w->peer, 0, w->to, 0, w->size);
    w->completed += poll_all(w->qp->send_cq);
    for (; w->posted - w->completed < depth; w->posted++)
        kit_do(w->qp, w->op, w->posted, w->from, 0, w->size, w->op == SQE_SEND ? NULL : w->to, 0);
    return false;
}

/* Payload bits of completed requests per second, in millions. */
static unsigned measure(enum sqe_op op, unsigned loss, uint32_t size, ns_t round_trip,
                        enum peer peer)
{
    struct kit_link_config link = {.delay = round_trip / 2, .bps = RATE};
    struct kit *k = kit_create(&(struct kit_config){.seed = 1, .reorder = 1, .link = {link, link}});
    struct kit_qp_config config = {.sq_size = DEPTH, .rq_size = DEPTH};
    struct line line[2] = {{loss, {11}}, {loss, {12}}};
    /* 4.2 ms: longer than the longest round trip with a full queue before it. */
    struct kit_rc rc = {
        .path_mtu = 5, .timeout = 10, .max_rd_atomic = 128, .agreed = peer == PEER_AGREED};
    struct writer w = {.op = op, .size = size};
    unsigned mbps;

    k->node[1].engine->cfg.reorder = peer != PEER_DROPS;
    w.qp = kit_qp_create(&k->node[0], &config);
    w.peer = kit_qp_create(&k->node[1], &config);
    kit_connect(w.qp, w.peer, &rc);
    w.from = kit_mr_create(&k->node[0], size, MEM_LOCAL_WRITE, KIT_MR_DIRECT);
    w.to = kit_mr_create(&k->node[1], size, MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ,
                         KIT_MR_DIRECT);
    for (unsigned i = 0; op == SQE_SEND && i < DEPTH; i++)
        kit_recv(w.peer, 0, w.to, 0, size);
    for (unsigned i = 0; i < 2; i++) {
        k->link[i].hook = lose;
        k->link[i].hook_ctx = &line[i];
    }
    if (kit_run(k, write_on, &w, DURATION) != KIT_BUDGET)
        kit_fail("the writer stopped");
    mbps = (unsigned)(w.completed * size * 8 * 1000 / DURATION);
    kit_destroy(k);
    return mbps;
}

static void size_text(char *out, size_t room, uint32_t size)
{
    if (size >> 20)
        snprintf(out, room, "%u MiB", size >> 20);
    else
        snprintf(out, room, "%u KiB", size >> 10);
}

static void keep_promise(unsigned loss, unsigned column, unsigned mbps, unsigned lossless)
{
    for (unsigned i = 0; i < ARRAY_SIZE(promises); i++)
        if (promises[i].loss == loss && mbps * 100 < lossless * promises[i].percent)
            kit_fail("column %u at %g %% loss: %u of %u Mbit/s, %u %% are promised", column,
                     loss / 1000.0, mbps, lossless, promises[i].percent);
}

/* lossless: the row without loss, which is the first. */
static void print_row(FILE *out, enum sqe_op op, unsigned loss, enum peer peer, unsigned *lossless)
{
    fprintf(out, "| %g %% |", loss / 1000.0);
    for (unsigned i = 0; i < COLUMNS; i++) {
        unsigned mbps = measure(op, loss, sizes[i % ARRAY_SIZE(sizes)],
                                round_trips[i / ARRAY_SIZE(sizes)], peer);

        fprintf(out, " %u |", mbps);
        if (!loss)
            lossless[i] = mbps;
        if (peer == PEER_AGREED)
            keep_promise(loss, i + 1, mbps, lossless[i]);
    }
    fputc('\n', out);
}

static void print_table(FILE *out, const char *title, enum sqe_op op, enum peer peer)
{
    unsigned lossless[COLUMNS];

    fprintf(out, "%s\n\n| frames lost |", title);
    for (unsigned i = 0; i < ARRAY_SIZE(round_trips); i++)
        for (unsigned j = 0; j < ARRAY_SIZE(sizes); j++) {
            char size[16];

            size_text(size, sizeof(size), sizes[j]);
            fprintf(out, " %u µs, %s |", (unsigned)(round_trips[i] / NS_PER_US), size);
        }
    fputs("\n|---:|", out);
    for (unsigned i = 0; i < COLUMNS; i++)
        fputs("---:|", out);
    fputc('\n', out);
    for (unsigned i = 0; i < ARRAY_SIZE(losses); i++)
        print_row(out, op, losses[i], peer, lossless);
}

static void print_reads(FILE *out)
{
    print_table(out, "\nREAD, two uroce that have agreed:", SQE_READ, PEER_AGREED);
}

static char *make_table(void)
{
    char *text;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    if (!f)
        kit_fail("out of memory");
    print_table(f, "WRITE, two uroce that have agreed:", SQE_WRITE, PEER_AGREED);
    print_table(f, "\nSEND, two uroce that have agreed:", SQE_SEND, PEER_AGREED);
    print_reads(f);
    print_table(f, "\nWRITE, the peer is uroce and has not agreed:", SQE_WRITE, PEER_KEEPS);
    print_table(f, "\nWRITE, the peer drops all that arrives behind a gap:", SQE_WRITE, PEER_DROPS);
    print_table(f, "\nREAD, the peer has not agreed:", SQE_READ, PEER_DROPS);
    fclose(f);
    return text;
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    size_t len = 0, n;
    char *text = NULL;

    if (!f)
        kit_fail("%s cannot be read", path);
    do {
        text = kit_grow(text, len + 4097);
        n = fread(text + len, 1, 4096, f);
        len += n;
    } while (n);
    text[len] = '\0';
    fclose(f);
    return text;
}

/* The table's place in the text: [*from, *to). */
static void find_table(char *text, const char *path, char **from, char **to)
{
    *from = strstr(text, BEGIN);
    *to = *from ? strstr(*from, END) : NULL;
    if (!*to)
        kit_fail("%s has no place for the table", path);
    *from += strlen(BEGIN);
}

static int check(const char *path, const char *table)
{
    char *text = read_file(path), *from, *to;
    bool same;

    find_table(text, path, &from, &to);
    same = (size_t)(to - from) == strlen(table) && !memcmp(from, table, strlen(table));
    if (!same)
        fprintf(stderr,
                "%s has another table. If the change is meant: goodput --write doc/goodput.md\n"
                "%.*sis now\n%s",
                path, (int)(to - from), from, table);
    free(text);
    return !same;
}

static int write_table(const char *path, const char *table)
{
    char *text = read_file(path), *from, *to;
    FILE *f;

    find_table(text, path, &from, &to);
    f = fopen(path, "w");
    if (!f)
        kit_fail("%s cannot be written", path);
    fwrite(text, 1, (size_t)(from - text), f);
    fputs(table, f);
    fputs(to, f);
    free(text);
    return fclose(f) != 0;
}

int main(int argc, char **argv)
{
    char *table;
    int status = 0;

    if (argc == 2 && !strcmp(argv[1], "--reads")) {
        print_reads(stdout);
        return 0;
    }
    if (argc != 1 && (argc != 3 || (strcmp(argv[1], "--check") && strcmp(argv[1], "--write")))) {
        fputs("usage: goodput [--check FILE | --write FILE | --reads]\n", stderr);
        return 2;
    }
    table = make_table();
    if (argc == 1)
        fputs(table, stdout);
    else if (!strcmp(argv[1], "--check"))
        status = check(argv[2], table);
    else
        status = write_table(argv[2], table);
    free(table);
    return status;
}
