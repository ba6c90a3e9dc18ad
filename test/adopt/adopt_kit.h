/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of lib/adopt share. */
#ifndef UROCE_ADOPT_KIT_H
#define UROCE_ADOPT_KIT_H

#include "../unit/unit.h"
#include "adopt_state.h"

#define KIB UINT64_C(1024)

/* Skips the test where this process may not adopt. */
void can_adopt(void);

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
/* Bytes that the memfd takes. */
uint64_t memfd_bytes(void);

/* What freezing for a fork does with one lease. */
void freeze(struct adopt_lease *l);

#endif
