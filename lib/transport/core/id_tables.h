/* SPDX-License-Identifier: BSD-3-Clause */
/* A device's tables of the objects that packets and WQEs name by number. */
#ifndef UROCE_ID_TABLES_H
#define UROCE_ID_TABLES_H

#include "engine.h"
#include "id_table.h"

struct address_handle {
    uint32_t handle, pd;
    struct address_vector av;
    struct encap_template encap;
};

/* The handle of that number, if it is of that protection domain; else NULL. The table may be NULL.
 */
const struct address_handle *ah_find(const struct ah_table *t, uint32_t handle, uint32_t pd);

#endif
