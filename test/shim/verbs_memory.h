/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of test_verbs: regions that are not the program's memory. */
#ifndef UROCE_TEST_VERBS_MEMORY_H
#define UROCE_TEST_VERBS_MEMORY_H

void dm_is_read_and_written(void **state);
void dm_has_its_limits(void **state);
void dm_of_atomics(void **state);
void dm_rights(void **state);
void dm_outlives_nothing(void **state);
void null_region_is_empty(void **state);
void many_reads(void **state);

#endif
