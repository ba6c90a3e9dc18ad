/* SPDX-License-Identifier: BSD-3-Clause */
/* The services: see service.h. */
#include "service.h"

#include <errno.h>

#include "completion.h"
#include "raw_private.h"
#include "requester.h"
#include "responder.h"

static const struct service_ops rc = {
    .rx_request = resp_rx, .tx_request = req_segment, .flush_recv = qp_flush_rq};
static const struct service_ops uc = {
    .rx_request = resp_rx_uc, .tx_request = req_segment, .flush_recv = qp_flush_rq};
static const struct service_ops ud = {
    .rx_request = resp_rx_ud, .tx_request = req_segment_ud, .flush_recv = qp_flush_rq};
static const struct service_ops raw = {/* its frames are punted, so no request reaches it */
                                       .tx_request = raw_segment,
                                       .flush_recv = raw_flush_recv,
                                       .create = raw_create,
                                       .reset = raw_reset,
                                       .destroy = raw_destroy};

int service_of_type(uint32_t type)
{
    switch (type) {
    case QPT_RC:
        return PKT_RC;
    case QPT_UC:
        return PKT_UC;
    case QPT_UD:
        return PKT_UD;
    case QPT_XRC_SEND:
    case QPT_XRC_RECV:
        return PKT_XRC;
    case QPT_RAW_PACKET:
        return SERVICE_RAW;
    default:
        return -EOPNOTSUPP;
    }
}

const struct service_ops *service_ops_of(uint8_t service)
{
    switch (service) {
    case PKT_UC:
        return &uc;
    case PKT_UD:
        return &ud;
    case SERVICE_RAW:
        return &raw;
    default:
        return &rc;
    }
}
