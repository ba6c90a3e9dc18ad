/* SPDX-License-Identifier: BSD-3-Clause */
/* See cpu_list.h. */
#include "cpu_list.h"

#include <sched.h>
#include <stdlib.h>

/* Reads a decimal number and moves *text behind it. -1: there is no number, or no CPU can have it.
 */
static int read_cpu(const char **text)
{
    char *end;
    unsigned long cpu;

    if (**text < '0' || **text > '9')
        return -1;
    cpu = strtoul(*text, &end, 10);
    *text = end;
    return cpu < CPU_SETSIZE ? (int)cpu : -1;
}

int cpu_list_at(const char *list, unsigned index)
{
    while (*list) {
        int first = read_cpu(&list), last = first;

        if (first >= 0 && *list == '-') {
            list++;
            last = read_cpu(&list);
        }
        if (first < 0 || last < first || (*list && (*list != ',' || !list[1])))
            return CPU_LIST_BAD;
        if (index <= (unsigned)(last - first))
            return first + (int)index;
        index -= (unsigned)(last - first) + 1;
        list += *list == ',';
    }
    return CPU_LIST_SHORT;
}
