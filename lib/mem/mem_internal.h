/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this folder only. */
#ifndef UROCE_MEM_INTERNAL_H
#define UROCE_MEM_INTERNAL_H

#include "common.h"
#include "mem.h"

/* Keeps a window as it is until window_release. False: it is being changed, and no key of it is
 * good meanwhile. Any thread. */
bool window_hold(struct mem_region *w);

/* mr_check of what was looked up; NULL: nothing was found. */
enum mr_fault region_check(const struct mem_region *mr, uint32_t pd, uint64_t va, uint64_t len,
                           uint32_t access);

#endif
