/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of test_verbs: the structures that programs pass, and what calls leave in them. */
#ifndef UROCE_TEST_VERBS_ARGUMENTS_H
#define UROCE_TEST_VERBS_ARGUMENTS_H

#include <stdint.h>

void queries_fit_older_programs(void **state);
void copies_fit_older_programs(void **state);
void the_kernel_has_no_index_for_it(void **state);
void creation_keeps_the_arguments(void **state);
void receives_go_to_the_shared_queue(void **state);
/* Takes memory that was freed, of all small sizes, and fills it: who still uses it finds that. */
#define FREED_OF_A_SIZE 16
#define FREED           (16 * FREED_OF_A_SIZE)

struct freed {
    uint8_t *at[FREED];
};

void freed_take(struct freed *f, uint8_t byte);
/* Nothing has written there. Frees it. */
void freed_check(struct freed *f, uint8_t byte);

void parent_domain_in_use(void **state);
void window_without_its_parent_domain(void **state);
void queue_without_its_parent_domain(void **state);

#endif
