/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of test_verbs: completion queues that change their size. */
#ifndef UROCE_TEST_VERBS_RESIZE_H
#define UROCE_TEST_VERBS_RESIZE_H

void cq_resize_keeps_what_waits(void **state);
void cq_resize_right_after_posting(void **state);
void cq_resize_of_an_extended_queue(void **state);
void queue_pair_ends_while_read(void **state);
void cq_resize_under_traffic(void **state);
void cq_resize_keeps_the_arming(void **state);

#endif
