/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of test_rsocket_calls about connections that are made before the server accepts. */
#ifndef UROCE_RSOCKET_BACKLOG_H
#define UROCE_RSOCKET_BACKLOG_H

void test_connect_before_accept(void **state);
void test_close_before_accept(void **state);
void test_connect_each_other(void **state);
void test_more_than_backlog(void **state);
void test_never_accepted(void **state);
void test_listening_child(void **state);
void test_full_backlog_sleeps(void **state);

#endif
