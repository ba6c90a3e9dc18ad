/* SPDX-License-Identifier: BSD-3-Clause */
/* What differs between the services (RC, UC, UD, XRC, raw packets), as a table of operations. */
#ifndef UROCE_SERVICE_H
#define UROCE_SERVICE_H

#include "engine_private.h"

struct service_ops {
    /* Admits, places and commits a request that has passed rx_validate. job: its rx_job. */
    void (*rx_request)(struct engine *e, struct qp *qp, unsigned job);
    /* Builds the packet at the sending position; false: its slot has failed, or its time has not
     * come (UD), and a timer will tell. */
    bool (*tx_request)(struct engine *e, struct qp *qp, struct tx_job *job);
    /* The queue pair is in error: completes its receive WQEs as flushed, the one in use with
     * `status`. */
    void (*flush_recv)(struct engine *e, struct qp *qp, uint8_t status);
    /* A receive side of the service's own: created with the queue pair (0 or -ENOMEM), emptied by
     * RESET, destroyed. NULL: there is none. */
    int (*create)(struct qp *qp, const struct qp_init *init);
    void (*reset)(struct qp *qp);
    void (*destroy)(struct qp *qp);
};

/* The service of a queue pair type (enum pkt_service, SERVICE_RAW), or -EOPNOTSUPP. */
int service_of_type(uint32_t type);
const struct service_ops *service_ops_of(uint8_t service);

#endif
