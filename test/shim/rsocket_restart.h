/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of test_rsockets about datagrams to peers that end, or never answer. */
#ifndef UROCE_RSOCKET_RESTART_H
#define UROCE_RSOCKET_RESTART_H

void test_restart(void **state);
void test_one_way(void **state);

#endif
