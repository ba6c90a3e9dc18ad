/* SPDX-License-Identifier: BSD-3-Clause */
/* usage: gloo_sum RANKS: a sum over all of them by Gloo's ibverbs transport. They meet in a folder
 * of this one. */
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static const int COUNT = 100000;

static bool sum_is_right(const std::vector<float> &values, int ranks)
{
    for (int i = 0; i < COUNT; i++)
        if (values[i] != ranks * (ranks - 1) / 2 + ranks * (i % 7))
            return false;
    return true;
}

/* run() waits for no completion of the rank's own last WRITE, which another rank may still wait
 * for: all of them, and Gloo's objects, stay until `all` has no writer any more. */
[[noreturn]] static void rank_main(int rank, int ranks, const char *folder, int done, int all)
{
    gloo::transport::ibverbs::attr attributes;
    attributes.name = "uroce0";
    attributes.port = 1;
    attributes.index = 0;
    auto device = gloo::transport::ibverbs::CreateDevice(attributes);
    auto store = std::make_shared<gloo::rendezvous::FileStore>(folder);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context->connectFullMesh(*store, device);

    std::vector<float> values(COUNT);
    for (int i = 0; i < COUNT; i++)
        values[i] = rank + i % 7;
    gloo::AllreduceRingChunked<float> sum(context, {values.data()}, COUNT);
    sum.run();
    char right = sum_is_right(values, ranks), none;
    if (write(done, &right, 1) != 1 || read(all, &none, 1) != 0)
        _exit(1);
    _exit(0);
}

int main(int argc, char **argv)
{
    int ranks = argc > 1 ? atoi(argv[1]) : 2, right = 0, done[2], all[2];
    char folder[] = "gloo.XXXXXX", one;

    if (ranks < 2 || !mkdtemp(folder) || pipe(done) || pipe(all))
        return 2;
    for (int rank = 0; rank < ranks; rank++)
        if (fork() == 0) {
            close(all[1]);
            rank_main(rank, ranks, folder, done[1], all[0]);
        }
    close(done[1]);
    for (int rank = 0; rank < ranks && read(done[0], &one, 1) == 1; rank++)
        right += one;
    close(all[1]);
    while (wait(nullptr) > 0)
        ;
    if (right != ranks)
        return 1;
    puts("sum right");
    return 0;
}
