/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine leaves to the daemon: limits of control groups, and the totals of quotas. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine.h"

#define MIB (UINT64_C(1) << 20)

static char root[] = "/tmp/uroce-machine-XXXXXX";

static int make_root(void **state)
{
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

/* Makes the folders too. */
static void write_file(const char *path, const char *text)
{
    char name[256];
    FILE *f;

    snprintf(name, sizeof(name), "%s/%s", root, path);
    for (char *at = name + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(name, 0700);
        *at = '/';
    }
    f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_version_2(void **state)
{
    write_file("a/b/c/memory.max", "max\n");
    assert_int_equal(machine_cgroup_memory(root, "0::/a/b/c\n"), UINT64_MAX);
    write_file("a/memory.max", "67108864\n");
    assert_int_equal(machine_cgroup_memory(root, "0::/a/b/c\n"), 64 * MIB);
    assert_int_equal(machine_cgroup_memory(root, "0::/a/b/c"), 64 * MIB);
    write_file("a/b/memory.max", "1048576\n");
    assert_int_equal(machine_cgroup_memory(root, "0::/a/b/c\n"), MIB);
    assert_int_equal(machine_cgroup_memory(root, "0::/a\n"), 64 * MIB);
    /* In a container: the group's path is the host's, and the root is the container's group. */
    assert_int_equal(machine_cgroup_memory(root, "0::/docker/1234\n"), UINT64_MAX);
    write_file("memory.max", "4096\n");
    assert_int_equal(machine_cgroup_memory(root, "0::/docker/1234\n"), 4096);
    assert_int_equal(machine_cgroup_memory(root, "0::/\n"), 4096);
}

static void test_version_1(void **state)
{
    static const char groups[] = "9:cpu,cpuacct:/a\n4:memory:/x/y\n2:name=memory:/z\n";

    write_file("memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_file("memory/x/memory.limit_in_bytes", "8388608\n");
    write_file("memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
    write_file("memory/z/memory.limit_in_bytes", "4096\n");
    assert_int_equal(machine_cgroup_memory(root, groups), 8 * MIB);
    assert_int_equal(machine_cgroup_memory(root, "4:hugetlb,memory:/x/y\n"), 8 * MIB);
    assert_int_equal(machine_cgroup_memory(root, "4:memory:/\n"), 9223372036854771712u);
}

static void test_no_group(void **state)
{
    assert_int_equal(machine_cgroup_memory(root, ""), UINT64_MAX);
    assert_int_equal(machine_cgroup_memory(root, "\n:\nx\n4:cpu:/\n"), UINT64_MAX);
    assert_int_equal(machine_cgroup_memory("/nonexistent", "0::/a\n4:memory:/a\n"), UINT64_MAX);
}

static void test_this_process(void **state)
{
    struct rlimit limit, small = {.rlim_cur = 512 * MIB, .rlim_max = RLIM_INFINITY};
    uint64_t memory = machine_memory();

    assert_true(memory > 16 * MIB && memory < UINT64_MAX);
    assert_true(machine_mappings() >= 1024);
    assert_int_equal(getrlimit(RLIMIT_DATA, &limit), 0);
    small.rlim_max = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_DATA, &small), 0);
    assert_true(machine_memory() <= 512 * MIB);
    assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
    assert_int_equal(machine_memory(), memory);
}

static void test_totals(void **state)
{
    struct quota_limits l = {0};

    machine_limit(&l, 64000, 16000, 64 * MIB);
    assert_int_equal(l.total[QUOTA_MAPPING], 60000);
    assert_int_equal(l.total[QUOTA_DESCRIPTOR], 16000 - 1000 - 384);
    assert_int_equal(l.total[QUOTA_MEMORY], 32 * MIB);
    assert_int_equal(l.total[QUOTA_MAPPED], 64 * MIB);
    assert_int_equal(l.total[QUOTA_QP], 0);
    assert_int_equal(l.total[QUOTA_CONNECTION], 0);
    /* What is configured holds, unless the kernel refuses it. */
    l = (struct quota_limits){.total = {[QUOTA_MAPPING] = 100,
                                        [QUOTA_DESCRIPTOR] = 100000,
                                        [QUOTA_MEMORY] = 60 * MIB,
                                        [QUOTA_MAPPED] = 1},
                              .user[QUOTA_MEMORY] = 5};
    machine_limit(&l, 64000, 1024, 64 * MIB);
    assert_int_equal(l.total[QUOTA_MAPPING], 100);
    assert_int_equal(l.total[QUOTA_DESCRIPTOR], 1024 - 64 - 384);
    assert_int_equal(l.total[QUOTA_MEMORY], 60 * MIB);
    assert_int_equal(l.total[QUOTA_MAPPED], 1);
    assert_int_equal(l.user[QUOTA_MEMORY], 5);
    l = (struct quota_limits){0};
    machine_limit(&l, 0, 600, UINT64_MAX);
    assert_int_equal(l.total[QUOTA_DESCRIPTOR], 300);
    l = (struct quota_limits){0};
    machine_limit(&l, 0, 1, UINT64_MAX);
    assert_int_equal(l.total[QUOTA_MAPPING], 1);
    assert_int_equal(l.total[QUOTA_DESCRIPTOR], 1);
    assert_int_equal(l.total[QUOTA_MEMORY], 0); /* no limit */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_2), cmocka_unit_test(test_version_1),
        cmocka_unit_test(test_no_group),  cmocka_unit_test(test_this_process),
        cmocka_unit_test(test_totals),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
