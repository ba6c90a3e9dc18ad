/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times operations of MPI between its ranks, and checks the data.
 *
 * usage: mpi_table [-t SECONDS] [PATTERN:BYTES ...]
 *
 * Each line of the output: pattern, bytes, microseconds for an operation, operations. Without
 * arguments every pattern runs with every size. BYTES are those that a rank sends to one other. A
 * measurement doubles the number of operations until they take SECONDS.
 *
 * Each message starts and ends with the operation's number, which the receiver compares. All its
 * bytes are compared before the measurement. No message is like one of an earlier measurement, or
 * like memory that nothing was written to. A rank that finds wrong data says what there is, and
 * ends the program.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_MAX (1 << 20)

static int rank, ranks, next, before;
static unsigned measurement; /* from 1 on */

/* What a pattern works on: memory for `bytes` to and from each rank. */
struct work {
    size_t bytes;
    char *out, *in;
    MPI_Win window; /* over `in` */
};

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "rank %d: wrong data: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *at(char *memory, const struct work *w, int index)
{
    return memory + (size_t)index * w->bytes;
}

/* ---- what is in a message ---- */

static char byte_of(int from, uint64_t number, size_t i)
{
    return (char)(i % 251 + (size_t)from * 7 + number + measurement * 31);
}

static uint64_t number_of(int from, uint64_t number)
{
    return (uint64_t)measurement << 48 | number << 8 | (uint64_t)from;
}

static void stamp(char *message, size_t bytes, int from, uint64_t number)
{
    uint64_t value = number_of(from, number);

    memcpy(message, &value, sizeof(value));
    memcpy(message + bytes - sizeof(value), &value, sizeof(value));
}

static int has_stamp(const char *message, size_t bytes, int from, uint64_t number)
{
    uint64_t value = number_of(from, number);

    return !memcmp(message, &value, sizeof(value)) &&
           !memcmp(message + bytes - sizeof(value), &value, sizeof(value));
}

static void check_stamp(const char *message, size_t bytes, int from, uint64_t number)
{
    must(has_stamp(message, bytes, from, number), "the number of a message");
}

static void fill(char *message, size_t bytes, int from, uint64_t number)
{
    for (size_t i = 0; i < bytes; i++)
        message[i] = byte_of(from, number, i);
    stamp(message, bytes, from, number);
}

/* Of the bytes between the numbers. Returns how many are wrong. */
static size_t compare(const char *message, size_t bytes, int from, uint64_t number, int print)
{
    size_t first = 0, last = 0, wrong = 0, zeros = 0;

    for (size_t i = sizeof(uint64_t); i + sizeof(uint64_t) < bytes; i++) {
        if (message[i] == byte_of(from, number, i))
            continue;
        first = wrong++ ? first : i;
        last = i;
        zeros += !message[i];
    }
    if (print)
        fprintf(stderr,
                "rank %d: %zu of %zu bytes from rank %d at %p are wrong, %zu of them zeros: from "
                "byte %zu, %d, to byte %zu, %d; the numbers are %s\n",
                rank, wrong, bytes, from, (const void *)message, zeros, first, message[first], last,
                message[last], has_stamp(message, bytes, from, number) ? "right" : "wrong");
    return wrong;
}

/* Says what is wrong, and whether it still is a second later. */
static void check_all(const char *message, size_t bytes, int from, uint64_t number)
{
    if (has_stamp(message, bytes, from, number) && !compare(message, bytes, from, number, 0))
        return;
    compare(message, bytes, from, number, 1);
    sleep(1);
    compare(message, bytes, from, number, 1);
    must(0, "a message");
}

/* ---- the patterns: operations number `first` to first + count - 1 ---- */

typedef void check_fn(const char *message, size_t bytes, int from, uint64_t number);

/* Ranks 0 and 1, 2 and 3 and so on, all pairs at once. An operation is a message there and one
 * back. */
static void pingpong(struct work *w, uint64_t first, uint64_t count, check_fn *check)
{
    int peer = rank ^ 1, size = (int)w->bytes;

    if (peer >= ranks)
        return;
    for (uint64_t n = first; n < first + count; n++) {
        stamp(w->out, w->bytes, rank, n);
        if (rank & 1) {
            MPI_Recv(w->in, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(w->out, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        } else {
            MPI_Send(w->out, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
            MPI_Recv(w->in, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        check(w->in, w->bytes, peer, n);
    }
}

/* The sum of numbers that each rank has: element i of rank r is r + i + n. */
static void allreduce(struct work *w, uint64_t first, uint64_t count, check_fn *check)
{
    int64_t *out = (int64_t *)w->out, *in = (int64_t *)w->in;
    int elements = (int)(w->bytes / sizeof(*out)), last = elements - 1;
    int64_t sum = (int64_t)ranks * (ranks - 1) / 2;

    for (int i = 0; i < elements; i++)
        out[i] = rank + i;
    for (uint64_t n = first; n < first + count; n++) {
        int64_t added = (int64_t)n;

        out[last] = rank + last + added;
        out[0] = rank + added;
        MPI_Allreduce(out, in, elements, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        must(in[0] == sum + ranks * added, "the first sum");
        must(in[last] == sum + ranks * (last + added), "the last sum");
        for (int i = 1; check == check_all && i < last; i++)
            must(in[i] == sum + (int64_t)ranks * i, "a sum");
    }
}

static void alltoall(struct work *w, uint64_t first, uint64_t count, check_fn *check)
{
    for (uint64_t n = first; n < first + count; n++) {
        for (int i = 0; i < ranks; i++)
            stamp(at(w->out, w, i), w->bytes, rank, n);
        MPI_Alltoall(w->out, (int)w->bytes, MPI_BYTE, w->in, (int)w->bytes, MPI_BYTE,
                     MPI_COMM_WORLD);
        for (int i = 0; i < ranks; i++)
            check(at(w->in, w, i), w->bytes, i, n);
    }
}

/* Each rank writes to the next one's memory, in turn to one of two places: it may write the next
 * message while the other rank still checks this one. */
static void put_fence(struct work *w, uint64_t first, uint64_t count, check_fn *check)
{
    MPI_Win_fence(0, w->window);
    for (uint64_t n = first; n < first + count; n++) {
        stamp(w->out, w->bytes, rank, n);
        MPI_Put(w->out, (int)w->bytes, MPI_BYTE, next, (MPI_Aint)((n & 1) * w->bytes),
                (int)w->bytes, MPI_BYTE, w->window);
        MPI_Win_fence(0, w->window);
        check(at(w->in, w, n & 1), w->bytes, before, n);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w->window);
}

/* The rank that is written to does not take part. It looks when all are done. */
static void put_lock(struct work *w, uint64_t first, uint64_t count, check_fn *check)
{
    for (uint64_t n = first; n < first + count; n++) {
        stamp(w->out, w->bytes, rank, n);
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w->window);
        MPI_Put(w->out, (int)w->bytes, MPI_BYTE, next, 0, (int)w->bytes, MPI_BYTE, w->window);
        MPI_Win_unlock(next, w->window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w->window);
    check(w->in, w->bytes, before, first + count - 1);
    MPI_Win_unlock(rank, w->window);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The message of rank r lies in its window, and has the number `first` each time. */
static void get_lock(struct work *w, uint64_t first, uint64_t count, check_fn *check)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w->window);
    check == check_all ? fill(w->in, w->bytes, rank, first) : stamp(w->in, w->bytes, rank, first);
    MPI_Win_unlock(rank, w->window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint64_t n = 0; n < count; n++) {
        memset(w->out, 0, sizeof(uint64_t));
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w->window);
        MPI_Get(w->out, (int)w->bytes, MPI_BYTE, next, 0, (int)w->bytes, MPI_BYTE, w->window);
        MPI_Win_unlock(next, w->window);
        check(w->out, w->bytes, next, first);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static const struct pattern {
    const char *name;
    void (*run)(struct work *, uint64_t first, uint64_t count, check_fn *);
    int messages; /* in each direction; 0: one for each rank */
    int window;
} PATTERNS[] = {
    {"pingpong", pingpong, 1, 0},   {"allreduce", allreduce, 1, 0}, {"alltoall", alltoall, 0, 0},
    {"put_fence", put_fence, 2, 1}, {"put_lock", put_lock, 1, 1},   {"get_lock", get_lock, 1, 1},
};
#define PATTERNS_COUNT (sizeof(PATTERNS) / sizeof(PATTERNS[0]))

static void work_begin(struct work *w, const struct pattern *p, size_t bytes)
{
    int messages = p->messages ? p->messages : ranks;

    w->bytes = bytes;
    w->out = malloc(bytes * (size_t)messages);
    w->in = calloc((size_t)messages, bytes);
    must(w->out && w->in, "no memory");
    for (int i = 0; i < messages; i++)
        fill(at(w->out, w, i), bytes, rank, 0);
    if (p->window)
        MPI_Win_create(w->in, (MPI_Aint)(bytes * (size_t)messages), 1, MPI_INFO_NULL,
                       MPI_COMM_WORLD, &w->window);
}

static void work_end(struct work *w, const struct pattern *p)
{
    if (p->window)
        MPI_Win_free(&w->window);
    free(w->out);
    free(w->in);
}

/* How many operations rank 0 wants next; 0: it has enough. */
static uint64_t agree(uint64_t count, double passed, double seconds)
{
    uint64_t wanted = passed >= seconds || count >= BATCH_MAX ? 0 : 2 * count;

    MPI_Bcast(&wanted, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return wanted;
}

static void measure(const struct pattern *p, size_t bytes, double seconds)
{
    struct work w;
    uint64_t first = 0, count, wanted = 1;
    double passed;

    measurement++;
    work_begin(&w, p, bytes);
    p->run(&w, first++, 1, check_all); /* connects, too */
    do {
        double start;

        count = wanted;
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        p->run(&w, first, count, check_stamp);
        passed = MPI_Wtime() - start;
        first += count;
        wanted = agree(count, passed, seconds);
    } while (wanted);
    if (rank == 0) {
        printf("%s %zu %.2f %llu\n", p->name, bytes, passed / (double)count * 1e6,
               (unsigned long long)count);
        fflush(stdout);
    }
    work_end(&w, p);
}

/* PATTERN:BYTES; false: there is no such pattern, or no such size. */
static int measure_named(const char *text, double seconds)
{
    const char *colon = strchr(text, ':');
    unsigned long bytes = colon ? strtoul(colon + 1, NULL, 10) : 0;

    if (bytes < sizeof(uint64_t) || bytes > 1u << 30 || bytes % sizeof(uint64_t))
        return 0;
    for (size_t i = 0; i < PATTERNS_COUNT; i++)
        if (!strncmp(text, PATTERNS[i].name, (size_t)(colon - text)) &&
            !PATTERNS[i].name[colon - text]) {
            measure(&PATTERNS[i], bytes, seconds);
            return 1;
        }
    return 0;
}

static void measure_every(double seconds)
{
    static const size_t sizes[] = {8, 64 << 10, 1 << 20, 4 << 20};

    for (size_t i = 0; i < PATTERNS_COUNT; i++)
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++)
            measure(&PATTERNS[i], sizes[j], seconds);
}

int main(int argc, char **argv)
{
    double seconds = 0.2;
    int option, good = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    while ((option = getopt(argc, argv, "t:")) != -1)
        if (option == 't')
            seconds = strtod(optarg, NULL);
        else
            good = 0;
    if (good && optind == argc)
        measure_every(seconds);
    for (int i = optind; good && i < argc; i++)
        good = measure_named(argv[i], seconds);
    if (good && rank == 0)
        puts("all data right");
    if (!good && rank == 0)
        fprintf(stderr, "usage: mpi_table [-t SECONDS] [PATTERN:BYTES ...]\n");
    MPI_Finalize();
    return !good;
}
