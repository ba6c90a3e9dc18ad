/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The replayer with an arbitrary capture file: no file may crash or hang it, and both sides of
 * every conversation are played to the end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "replay.h"

#define MAX_BYTES  (1u << 20)
#define SENT_LEAST (1u << 20) /* large READs are slow, and all alike */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void play(struct capture *c)
{
    if (replay_reconstruct(c))
        return;
    for (unsigned i = 0; i < c->conversations; i++)
        for (unsigned side = 0; side < 2; side++) {
            struct run r;

            replay_run(&r, c, c->conversation[i], side);
            replay_run_free(&r);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct capture c;
    char error[256];
    FILE *f;

    if (size == 0 || size > MAX_BYTES)
        return -1;
    f = fmemopen((void *)(uintptr_t)data, size, "rb");
    if (f == NULL)
        abort();
    replay_load(&c, f, error);
    c.sent_least = SENT_LEAST;
    play(&c);
    replay_free(&c);
    return 0;
}
