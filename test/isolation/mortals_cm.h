/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UROCE_TEST_MORTALS_CM_H
#define UROCE_TEST_MORTALS_CM_H

/* Connects two queue pairs of this program by rdma_cm over the loopback device, and ends all of it;
 * ends the program when a call fails. */
void connect_by_cm(void);

#endif
