/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of test_verbs: asynchronous events that a program reads late. */
#ifndef UROCE_TEST_VERBS_EVENTS_H
#define UROCE_TEST_VERBS_EVENTS_H

void no_event_is_lost(void **state);
void events_end_with_their_queue_pair(void **state);
void events_wait_for_an_heir(void **state);
void waiting_ends_with_the_channel(void **state);

#endif
