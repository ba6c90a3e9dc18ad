/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of lib/adopt. */
#ifndef UROCE_ADOPT_KIT_H
#define UROCE_ADOPT_KIT_H

#include <pthread.h>

#include "adopt_state.h"
#include "unit.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

/* For main: whether this process may adopt; if not, a skip of all tests has been printed. With an
 * argument mappings are read as text, as on kernels before 6.11. */
bool kit_can_adopt(int argc);

/* Private memory of its own mapping, all ones, with nothing behind it. */
uint8_t *anonymous(size_t len);
void unmap(void *p, size_t len);

enum ctl_mr_why acquire(struct adopt_lease *l, const void *p, size_t len);

/* Whether p is in a mapping of the memfd, shared or as a view. */
bool is_shared(const void *p);
bool is_view(const void *p);
/* Whether it is plain memory. */
bool is_plain(const void *p);
/* The byte of p in the memfd. */
int in_memfd(const struct adopt_lease *l, const void *p);
/* Bytes that the memfd occupies. */
uint64_t memfd_bytes(void);

/* Freezes one lease as for a fork. */
void freeze(struct adopt_lease *l);

/* A read that the disk does, without the page cache, while something else happens. */
struct direct_read {
    int fd;
    uint8_t *to; /* where the bytes go */
    size_t len;
    ssize_t got;
    pthread_t thread;
};

/* Makes a file of len bytes. Skips the test where there is no direct I/O. The caller closes fd. */
void direct_open(struct direct_read *r, size_t len);
/* Begins to read all of it, and waits this many turns of a loop. */
void direct_begin(struct direct_read *r, unsigned turns);
/* Waits for the end. Checks that all of the data arrived. */
void direct_end(struct direct_read *r);

#endif
