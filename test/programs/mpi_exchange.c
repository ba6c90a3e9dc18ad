/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of three sizes between neighbours, collectives and one-sided access; every byte is
 * checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS  50
#define LONGEST (1 << 20)
#define SHARE   4096 /* what each rank sends each other one in an all-to-all, in ints */

static int rank, ranks;

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "rank %d: wrong data: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *filled(size_t bytes)
{
    void *memory = calloc(1, bytes);

    must(memory != NULL, "no memory");
    return memory;
}

/* Each rank sends to the next one and receives from the one before, at the same time. */
static void ring(int bytes)
{
    unsigned char *out = filled(bytes), *in = filled(bytes);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < bytes; i++)
            out[i] = (unsigned char)(rank + round + i);
        MPI_Sendrecv(out, bytes, MPI_BYTE, next, round, in, bytes, MPI_BYTE, before, round,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < bytes; i++)
            must(in[i] == (unsigned char)(before + round + i), "ring");
    }
    free(out);
    free(in);
}

static void print_time(const char *what, double start)
{
    if (rank == 0)
        printf("%s: %.1f us a round\n", what, (MPI_Wtime() - start) / ROUNDS * 1e6);
}

static void collectives(void)
{
    double start = MPI_Wtime();
    int *out = filled(sizeof(int) * ranks * SHARE), *in = filled(sizeof(int) * ranks * SHARE);

    for (int round = 0; round < ROUNDS; round++) {
        double sum, mine = rank + round;

        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        must(sum == ranks * (ranks - 1) / 2.0 + (double)ranks * round, "sum");
    }
    print_time("allreduce", start);
    for (int i = 0; i < ranks * SHARE; i++)
        out[i] = rank * 1000000 + i;
    start = MPI_Wtime();
    for (int round = 0; round < ROUNDS; round++)
        MPI_Alltoall(out, SHARE, MPI_INT, in, SHARE, MPI_INT, MPI_COMM_WORLD);
    print_time("all-to-all", start);
    for (int i = 0; i < ranks * SHARE; i++)
        must(in[i] == i / SHARE * 1000000 + rank * SHARE + i % SHARE, "all-to-all");
    free(out);
    free(in);
}

/* Each rank writes into the next one's memory and adds to a sum in that of rank 0. */
static void one_sided(void)
{
    int *memory = filled(2 * sizeof(int)), one = 1, mine = rank;
    MPI_Win window;

    MPI_Win_create(memory, 2 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, window);
    MPI_Put(&mine, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, window);
    MPI_Accumulate(&one, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    must(memory[0] == (rank + ranks - 1) % ranks, "put");
    must(rank != 0 || memory[1] == ranks, "accumulate");
    MPI_Win_free(&window);
    free(memory);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {8, 4097, LONGEST};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char what[32];
        double start;

        ring(sizes[i]); /* connects */
        start = MPI_Wtime();
        ring(sizes[i]);
        snprintf(what, sizeof(what), "%d bytes", sizes[i]);
        print_time(what, start);
    }
    collectives();
    one_sided();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        puts("all data right");
    MPI_Finalize();
    return 0;
}
