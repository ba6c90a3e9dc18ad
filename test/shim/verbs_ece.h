/* SPDX-License-Identifier: BSD-3-Clause */
/* Enhanced connection establishment. */
#ifndef UROCE_TEST_VERBS_ECE_H
#define UROCE_TEST_VERBS_ECE_H

void ece_is_agreed_on(void **state);

#endif
