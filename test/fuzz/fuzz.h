/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the fuzz targets. */
#ifndef UROCE_FUZZ_H
#define UROCE_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An invariant for every input: the fuzzer keeps an input that breaks it. */
#define REQUIRE(condition)                                                          \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

#endif
