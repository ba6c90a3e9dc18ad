/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this folder only. */
#ifndef UROCE_MEM_INTERNAL_H
#define UROCE_MEM_INTERNAL_H

#include "common.h"
#include "mem.h"

/* Keeps a window as it is until window_release. False: it is being changed, and no key of it is
 * good meanwhile. Any thread. */
bool window_hold(struct mem_region *w);

#endif
