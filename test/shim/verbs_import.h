/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of test_verbs: objects that two processes share. */
#ifndef UROCE_TEST_VERBS_IMPORT_H
#define UROCE_TEST_VERBS_IMPORT_H

void child_uses_its_parents_region(void **state);
void objects_outlive_their_process(void **state);
void unimported_before_its_parent_domain(void **state);
void import_is_refused(void **state);

#endif
