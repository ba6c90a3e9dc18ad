/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of test_rsocket_calls about threads that are cancelled. */
#ifndef UROCE_RSOCKET_CANCEL_H
#define UROCE_RSOCKET_CANCEL_H

void test_cancel_receive(void **state);
void test_cancel_behind_another(void **state);
void test_cancel_datagram(void **state);
void test_cancel_send(void **state);
void test_cancel_accept(void **state);
void test_cancel_connect(void **state);
void test_cancel_polls(void **state);
void test_cancel_before(void **state);
void test_cancel_never(void **state);

#endif
