/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of test_verbs: shared receive queues, windows, XRC and multicast through the public API. */
#ifndef UROCE_TEST_VERBS_SERVICES_H
#define UROCE_TEST_VERBS_SERVICES_H

void srq_limit_and_resize(void **state);
void srq_overflow_is_refused(void **state);
void windows_come_and_go(void **state);
void windows_take_any_number(void **state);
void empty_region(void **state);
void region_at_the_last_addresses(void **state);
void parent_domains(void **state);
void on_demand_region_follows_the_program(void **state);
void errors_are_in_errno(void **state);
void what_is_refused(void **state);
void overruns_are_ignored(void **state);
void queries_keep_the_state(void **state);
void xrc_domain_of_two_contexts(void **state);
void attached_queue_pairs_stay(void **state);

#endif
