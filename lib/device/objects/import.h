/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects of the session that was joined (control/join.h). An imported protection domain or device
 * memory is an object of the importing session, an alias, which keeps the original; a region stays
 * its owner's, and the importing session gets its keys.
 */
#ifndef UROCE_DEVICE_IMPORT_H
#define UROCE_DEVICE_IMPORT_H

#include "session.h"

int object_import(struct session *sn, struct ctl_call *call);
int object_unimport(struct session *sn, struct ctl_call *call);

#endif
