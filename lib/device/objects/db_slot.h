/* SPDX-License-Identifier: BSD-3-Clause */
/* The doorbell slots of a session: one for each queue pair. */
#ifndef UROCE_DEVICE_DB_SLOT_H
#define UROCE_DEVICE_DB_SLOT_H

#include <stdint.h>

struct session;

/* Allocates a doorbell slot, and makes more of them when all are in use. 0 or -ENOMEM. */
int db_slot_alloc(struct session *sn, uint32_t *slot);
void db_slot_free(struct session *sn, uint32_t slot);

#endif
