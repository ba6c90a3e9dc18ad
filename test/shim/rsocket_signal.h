/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of test_rsocket_calls about calls that a signal's handler interrupts. */
#ifndef UROCE_RSOCKET_SIGNAL_H
#define UROCE_RSOCKET_SIGNAL_H

void test_signal_goes_on(void **state);
void test_signal_interrupts(void **state);
void test_signal_with_timeout(void **state);
void test_signal_ends_polls(void **state);

#endif
