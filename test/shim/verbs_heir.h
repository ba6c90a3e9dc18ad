/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that leaves its context to a child, as programs do that become daemons. */
#ifndef UROCE_TEST_VERBS_HEIR_H
#define UROCE_TEST_VERBS_HEIR_H

void daemon_goes_on(void **state);
void daemon_calls_first(void **state);
void grandchild_goes_on(void **state);
void one_child_goes_on(void **state);
void batch_of_the_parent(void **state);
int idle_child(void);

#endif
