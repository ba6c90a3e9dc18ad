/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the capture files of test/vectors. */
#ifndef UROCE_TEST_CAPTURE_H
#define UROCE_TEST_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

/* Called with each frame; bytes is a copy on the heap of exactly len bytes, which may be changed.
 */
typedef void capture_fn(const char *file, unsigned number, uint8_t *bytes, size_t len, void *ctx);

/*
 * Calls fn with every frame of every .pcap file in the folder, in the order of names; frames are
 * numbered from 1. Returns the number of files, or a negative errno when one cannot be read or has
 * a frame that is not whole.
 */
int capture_walk(const char *folder, capture_fn *fn, void *ctx);

#endif
