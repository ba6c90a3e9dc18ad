/* SPDX-License-Identifier: BSD-3-Clause */
/* An input that is read as a sequence of bytes. */
#ifndef UROCE_FUZZ_INPUT_H
#define UROCE_FUZZ_INPUT_H

#include <string.h>

#include "common.h"

struct input {
    const uint8_t *p;
    size_t left;
};

/* The next byte; 0 behind the end. */
static inline uint8_t take(struct input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->p++;
}

/* At most n bytes into out; returns how many. */
static inline size_t take_bytes(struct input *in, void *out, size_t n)
{
    n = min_of(n, in->left);
    memcpy(out, in->p, n);
    in->p += n;
    in->left -= n;
    return n;
}

#endif
