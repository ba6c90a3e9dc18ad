/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the pages that memory moves to are allocated: on the NUMA node of the old pages, which the
 * program may have chosen, and as huge pages where the administrator allows them for shared memory.
 */
#include <linux/mempolicy.h>
#include <string.h>

#include "adopt_state.h"

#define SHMEM_ENABLED "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

/* ---- NUMA nodes ---- */

static bool has_nodes(void)
{
    uint64_t mask[ADOPT_NODES / 64] = {0};
    unsigned nodes = 0;

    if (RAW(get_mempolicy, 0, mask, ADOPT_NODES, 0, MPOL_F_MEMS_ALLOWED, 0))
        return false;
    for (unsigned i = 0; i < ARRAY_SIZE(mask); i++)
        nodes += (unsigned)__builtin_popcountll(mask[i]);
    return nodes > 1;
}

void numa_policy_begin(struct numa_policy *p, uint64_t like)
{
    uint64_t mask[ADOPT_NODES / 64] = {0};
    int node = -1;

    p->changed = false;
    if (!adopt.has_nodes || RAW(get_mempolicy, &node, 0, 0, like, MPOL_F_NODE | MPOL_F_ADDR, 0) ||
        node < 0 || node >= ADOPT_NODES ||
        RAW(get_mempolicy, &p->mode, p->mask, ADOPT_NODES, 0, 0, 0))
        return;
    mask[node / 64] = UINT64_C(1) << node % 64;
    p->changed = !RAW(set_mempolicy, MPOL_PREFERRED, mask, ADOPT_NODES, 0, 0, 0);
}

void numa_policy_end(const struct numa_policy *p)
{
    if (p->changed)
        RAW(set_mempolicy, p->mode, p->mode == MPOL_DEFAULT ? NULL : p->mask, ADOPT_NODES, 0, 0, 0);
}

/* ---- huge pages ---- */

/* Whether shared memory gets huge pages, with or without madvise. The file reads
 * "always within_size [advise] never deny force". */
static bool has_huge(void)
{
    char text[128];

    raw_read_text(SHMEM_ENABLED, text, sizeof(text));
    return !strstr(text, "[never]") && !strstr(text, "[deny]") && strchr(text, '[');
}

bool huge_page_fits(uint64_t start, uint64_t len, uint64_t offset)
{
    return adopt.has_huge && len == ADOPT_WINDOW && !(start % ADOPT_WINDOW) &&
           !(offset % ADOPT_WINDOW);
}

void huge_page_allow(uint64_t start, uint64_t len)
{
    raw_madvise(start, len, MADV_HUGEPAGE);
}

/* Touches the window through a mapping that asks for huge pages, at an address with their
 * alignment. Errors are ignored: small pages work too. */
void huge_page_make(uint64_t offset)
{
    uint64_t at;
    long p;

    if (!adopt.stage) {
        p = raw_mmap(0, 2 * ADOPT_WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
        if (raw_is_error(p))
            return;
        adopt.stage = (uint64_t)p;
    }
    at = round_up(adopt.stage, ADOPT_WINDOW);
    p = raw_mmap(at, ADOPT_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                 adopt.memfd, offset);
    if (p != (long)at)
        return;
    huge_page_allow(at, ADOPT_WINDOW);
    raw_madvise(at, ADOPT_WINDOW, POPULATE_WRITE);
    raw_mmap(at, ADOPT_WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
             -1, 0);
}

void adopt_alloc_init(void)
{
    adopt.has_nodes = has_nodes();
    adopt.has_huge = has_huge();
}
