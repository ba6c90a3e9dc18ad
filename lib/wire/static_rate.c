/* SPDX-License-Identifier: BSD-3-Clause */
#include "static_rate.h"

#include "common.h"

/* What a link of 1, 2, 4, 8 or 12 lanes of each speed carries. */
static const uint32_t mbps[] = {
    [2] = 2500,    [3] = 10000,   [4] = 30000,   [5] = 5000,    [6] = 20000,    [7] = 40000,
    [8] = 60000,   [9] = 80000,   [10] = 120000, [11] = 14062,  [12] = 56250,   [13] = 112500,
    [14] = 168750, [15] = 25781,  [16] = 103125, [17] = 206250, [18] = 309375,  [19] = 28125,
    [20] = 53125,  [21] = 425000, [22] = 637500, [23] = 850000, [24] = 1275000,
};

uint32_t static_rate_mbps(uint32_t code)
{
    return code < ARRAY_SIZE(mbps) ? mbps[code] : 0;
}
