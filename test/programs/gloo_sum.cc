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

static int rank_main(int rank, int ranks, const char *folder)
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
    for (int i = 0; i < COUNT; i++)
        if (values[i] != ranks * (ranks - 1) / 2 + ranks * (i % 7))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    int ranks = argc > 1 ? atoi(argv[1]) : 2, failed = 0;
    char folder[] = "gloo.XXXXXX";

    if (ranks < 2 || !mkdtemp(folder))
        return 2;
    for (int rank = 0; rank < ranks; rank++)
        if (fork() == 0)
            _exit(rank_main(rank, ranks, folder));
    for (int rank = 0; rank < ranks; rank++) {
        int status;

        wait(&status);
        failed |= status != 0;
    }
    if (!failed)
        puts("sum right");
    return failed;
}
