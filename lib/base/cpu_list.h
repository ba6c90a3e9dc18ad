/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of CPUs, as Linux writes them: "2,3", "4-7". Pure; any thread. */
#ifndef UROCE_CPU_LIST_H
#define UROCE_CPU_LIST_H

#define CPU_LIST_SHORT -1
#define CPU_LIST_BAD   -2

/**
 * The CPU at a place of a list.
 *
 * @param list  Terminated.
 * @param index  Counts from 0. UINT_MAX looks through the whole list.
 * @return  The CPU's number, below 1024; CPU_LIST_SHORT: the list has fewer; CPU_LIST_BAD: an error
 *     in the list, found on the way to the index.
 */
int cpu_list_at(const char *list, unsigned index);

#endif
