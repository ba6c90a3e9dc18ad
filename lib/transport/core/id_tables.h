/* SPDX-License-Identifier: BSD-3-Clause */
/* A device's tables of the objects that packets and WQEs name by number. */
#ifndef UROCE_ID_TABLES_H
#define UROCE_ID_TABLES_H

#include "engine.h"
#include "id_table.h"
#include "pace.h"

/* A protection domain that no queue pair has. */
#define PD_NONE UINT32_MAX

struct address_handle {
    uint32_t handle;
    uint32_t pd;         /* PD_NONE: it has a rate, which the others need no test for */
    uint32_t limited_pd; /* the protection domain then, else PD_NONE */
    struct pace pace;
    struct address_vector av;
    struct encap_template encap;
};

/* The handle of that number, if it is of that protection domain and has no rate; else NULL. The
 * table may be NULL. */
const struct address_handle *ah_find(const struct ah_table *t, uint32_t handle, uint32_t pd);
/* The same of one that has a rate. */
struct address_handle *ah_find_limited(const struct ah_table *t, uint32_t handle, uint32_t pd);

#endif
