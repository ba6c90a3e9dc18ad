/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups by librdmacm's API. */
#ifndef UROCE_TEST_CM_GROUP_H
#define UROCE_TEST_CM_GROUP_H

void test_synchronous_group(void **state);

#endif
