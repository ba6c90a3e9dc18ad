/* SPDX-License-Identifier: BSD-3-Clause */
/* See machine.h. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common.h"

#define UNLIMITED        UINT64_MAX
#define MAPPINGS_DEFAULT 65530u /* the kernel's */
/* Ports, loops and signals; and those that a single message may carry. */
#define DESCRIPTORS_OWN 384u

/* The number at the start of a file; otherwise: there is none, as in "max". */
static uint64_t read_number(const char *path, uint64_t otherwise)
{
    FILE *f = fopen(path, "re");
    unsigned long long n;

    if (!f)
        return otherwise;
    if (fscanf(f, "%llu", &n) != 1)
        n = otherwise;
    fclose(f);
    return n;
}

uint64_t machine_mappings(void)
{
    static uint64_t limit;

    if (!limit)
        limit = read_number("/proc/sys/vm/max_map_count", MAPPINGS_DEFAULT);
    return limit;
}

/* ---- memory ---- */

/* The smallest of the group's limit and those of the groups above it, up to the hierarchy's root,
 * which in a container is the container's own group. */
static uint64_t group_limit(const char *root, const char *hierarchy, char *group, const char *file)
{
    uint64_t limit = UNLIMITED;
    char path[4096 + 256];

    for (;;) {
        char *last = strrchr(group, '/');
        uint64_t of_group = UNLIMITED;

        if ((size_t)snprintf(path, sizeof(path), "%s%s%s/%s", root, hierarchy, group, file) <
            sizeof(path))
            of_group = read_number(path, UNLIMITED);
        limit = min_of(limit, of_group);
        if (!last)
            return limit;
        *last = '\0';
    }
}

/* "memory", "cpu,memory" */
static bool has_memory(const char *controllers)
{
    size_t len;

    for (const char *at = controllers; *at; at += len + (at[len] == ',')) {
        len = strcspn(at, ",");
        if (len == strlen("memory") && !strncmp(at, "memory", len))
            return true;
    }
    return false;
}

/* "0::/a/b" of version 2, "4:memory:/a/b" of version 1. */
static uint64_t line_limit(const char *root, char *line)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;

    if (!group)
        return UNLIMITED;
    *group++ = '\0';
    controllers++;
    if (!*controllers)
        return group_limit(root, "", group, "memory.max");
    return has_memory(controllers) ? group_limit(root, "/memory", group, "memory.limit_in_bytes")
                                   : UNLIMITED;
}

uint64_t machine_cgroup_memory(const char *root, const char *groups)
{
    uint64_t limit = UNLIMITED;
    char line[4096];

    while (*groups) {
        size_t len = strcspn(groups, "\n");

        if (len < sizeof(line)) {
            uint64_t of_line;

            memcpy(line, groups, len);
            line[len] = '\0';
            of_line = line_limit(root, line);
            limit = min_of(limit, of_line);
        }
        groups += len + (groups[len] == '\n');
    }
    return limit;
}

static uint64_t own_cgroup_memory(void)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char groups[16384];
    size_t len = f ? fread(groups, 1, sizeof(groups) - 1, f) : 0;

    if (f)
        fclose(f);
    groups[len] = '\0';
    return machine_cgroup_memory("/sys/fs/cgroup", groups);
}

static uint64_t resource_limit(int resource)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resource, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return UNLIMITED;
    return limit.rlim_cur;
}

uint64_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t memory = pages > 0 ? (uint64_t)pages * (uint64_t)page : UNLIMITED;

    const uint64_t limits[] = {own_cgroup_memory(), resource_limit(RLIMIT_AS),
                               resource_limit(RLIMIT_DATA)};

    for (unsigned i = 0; i < ARRAY_SIZE(limits); i++)
        memory = min_of(memory, limits[i]);
    return memory;
}

/* ---- totals ---- */

static void limit_total(uint64_t *total, uint64_t granted)
{
    *total = *total ? min_of(*total, granted) : granted;
}

void machine_limit(struct quota_limits *limits, uint64_t mappings, uint64_t descriptors,
                   uint64_t memory)
{
    uint64_t own = min_of(descriptors / 16 + DESCRIPTORS_OWN, descriptors / 2);

    limit_total(&limits->total[QUOTA_MAPPING], max_of(mappings - mappings / 16, (uint64_t)1));
    limit_total(&limits->total[QUOTA_DESCRIPTOR], max_of(descriptors - own, (uint64_t)1));
    if (memory == UNLIMITED)
        return;
    if (!limits->total[QUOTA_MEMORY])
        limits->total[QUOTA_MEMORY] = max_of(memory / 2, (uint64_t)1);
    if (!limits->total[QUOTA_MAPPED])
        limits->total[QUOTA_MAPPED] = max_of(memory, (uint64_t)1);
}
