/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of test_verbs: what a queue pair still owes its peer when its program ends it. */
#ifndef UROCE_TEST_VERBS_LAST_H
#define UROCE_TEST_VERBS_LAST_H

void destroyed_once_it_has_received(void **state);
void reset_once_it_has_received(void **state);
void failed_once_it_has_received(void **state);
void address_destroyed_once_posted(void **state);

#endif
