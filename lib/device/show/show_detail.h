/* SPDX-License-Identifier: BSD-3-Clause */
/* Words for the details of incidents. */
#ifndef UROCE_DEVICE_SHOW_DETAIL_H
#define UROCE_DEVICE_SHOW_DETAIL_H

#include "incident.h"
#include "show/show.h"

/* The name of a work request's operation, of enum wc_opcode. */
const char *show_operation(uint64_t opcode);
/* The details of an incident by the names of its cause; t may be NULL. */
json_t *show_details(const struct incident *i, const struct cause_text *t);

#endif
