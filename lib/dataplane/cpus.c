/* SPDX-License-Identifier: BSD-3-Clause */
/* CPU sets from sched_getaffinity(2), limits from /sys/fs/cgroup. */
#include "cpus.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

void cpus_begin(cpu_set_t *set)
{
    CPU_ZERO(set);
    cpus_add(set, 0);
}

void cpus_add(cpu_set_t *set, pid_t pid)
{
    cpu_set_t other;

    if (!sched_getaffinity(pid, sizeof(other), &other))
        CPU_OR(set, set, &other);
}

/* The whole CPUs that `quota` in each `period` allows; UINT_MAX: no limit. */
static unsigned quota_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return UINT_MAX;
    return (unsigned)max_of(quota / period, 1ll);
}

static unsigned read_quota_v2(const char *dir)
{
    char path[PATH_MAX];
    long long quota, period;
    unsigned cpus = UINT_MAX;
    FILE *f;

    snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", dir);
    f = fopen(path, "re");
    if (!f)
        return cpus;
    if (fscanf(f, "%lld %lld", &quota, &period) == 2)
        cpus = quota_cpus(quota, period);
    fclose(f);
    return cpus;
}

static long long read_number(const char *path)
{
    long long value = -1;
    FILE *f = fopen(path, "re");

    if (!f)
        return -1;
    if (fscanf(f, "%lld", &value) != 1)
        value = -1;
    fclose(f);
    return value;
}

/* The limits of a group's ancestors hold for the group too. */
static unsigned quota_v2(void)
{
    char line[PATH_MAX - 32];
    unsigned cpus = UINT_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");

    if (!f)
        return cpus;
    while (fgets(line, sizeof(line), f)) {
        char *dir = line + 3, *slash;

        if (strncmp(line, "0::/", 4))
            continue;
        dir[strcspn(dir, "\n")] = 0;
        do {
            unsigned here = read_quota_v2(dir);

            cpus = min_of(cpus, here);
            slash = strrchr(dir, '/');
            if (slash)
                *slash = 0;
        } while (slash);
    }
    fclose(f);
    return cpus;
}

unsigned cpus_count(const cpu_set_t *set)
{
    unsigned count = (unsigned)CPU_COUNT(set);
    unsigned v1 = quota_cpus(read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
                             read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
    unsigned v2 = quota_v2();

    count = min_of(count, v1);
    count = min_of(count, v2);
    return max_of(count, 1u);
}
