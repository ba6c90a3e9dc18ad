/* SPDX-License-Identifier: BSD-3-Clause */
/* Which requests create objects of a connection, and which destroy them. */
#ifndef UROCE_CONN_OBJECTS_H
#define UROCE_CONN_OBJECTS_H

#include <stdbool.h>

#include "ctl_msg.h"

/* How many objects more the connection has after a request of this type that has succeeded. */
int conn_object_change(enum ctl_type type);

/* Whether the end of the connection does what a request of this type asks for. */
bool conn_destroys(enum ctl_type type);

#endif
