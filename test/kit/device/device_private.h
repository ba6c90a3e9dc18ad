/* SPDX-License-Identifier: BSD-3-Clause */
/* The private headers of lib/device, for tests that look into its objects. */
#ifndef UROCE_TEST_DEVICE_PRIVATE_H
#define UROCE_TEST_DEVICE_PRIVATE_H

#include "control/async.h"
#include "control/limits.h"
#include "control/permission.h"
#include "control/session_state.h"
#include "device_host.h"
#include "net/gids.h"
#include "net/resolve.h"
#include "objects/ah.h"
#include "objects/cq_channel.h"
#include "objects/flow.h"
#include "objects/mcast.h"
#include "objects/mw.h"
#include "objects/pd_mr.h"
#include "objects/qp_object.h"
#include "objects/srq_object.h"
#include "objects/steer.h"
#include "objects/wq_object.h"
#include "objects/xrcd.h"

#endif
