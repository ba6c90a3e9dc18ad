/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of test_rsocket_calls about listeners. */
#ifndef UROCE_RSOCKET_LISTEN_H
#define UROCE_RSOCKET_LISTEN_H

void test_mapped_stream(void **state);
void test_shut_listener(void **state);
void test_shut_wakes_accept(void **state);

#endif
