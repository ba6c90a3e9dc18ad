/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of test_raw. Each gets a struct raw as its state. */
#ifndef UROCE_TEST_RAW_TESTS_H
#define UROCE_TEST_RAW_TESTS_H

#define RAW_TESTS(X)                       \
    /* raw_objects.c */                    \
    X(capabilities)                        \
    X(work_queue_states)                   \
    X(work_queue_attributes)               \
    X(work_queues_refused)                 \
    X(tables_refused)                      \
    X(spreading_queue_pairs_refused)       \
    X(spreading_queue_pairs_have_no_state) \
    X(what_is_used_stays)                  \
    X(heir_posts_to_a_work_queue)          \
    /* raw_flows.c */                      \
    X(rules_refused)                       \
    X(rules_end_where_they_say)            \
    X(rules_take_what_they_match)          \
    X(rules_by_priority)                   \
    X(rules_drop_and_tag)                  \
    X(rules_count)                         \
    X(rules_are_bound_once)                \
    X(default_rules_and_sniffers)          \
    X(new_post_calls)                      \
    /* raw_tunnels.c */                    \
    X(tunnels_are_matched)                 \
    X(inner_headers_are_matched)           \
    X(inner_rules_refused)                 \
    /* raw_sums.c */                       \
    X(checksums)                           \
    X(checksums_of_new_post_calls)         \
    X(checksums_of_datagrams_refused)      \
    /* raw_rss.c */                        \
    X(spread_by_toeplitz)                  \
    X(spread_by_xor)                       \
    X(work_queues_wrap_around)             \
    X(flushed_and_forgotten)               \
    X(destroyed_work_queues_leave_nothing) \
    X(work_queues_fail_with_an_event)      \
    X(events_of_the_past)                  \
    X(steered_anew_under_traffic)          \
    X(shared_receive_queues)

#define X(name) void name(void **state);
RAW_TESTS(X)
#undef X

#endif
