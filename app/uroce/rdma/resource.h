/* SPDX-License-Identifier: BSD-3-Clause */
/* What is shared by the files of `uroce rdma resource`. */
#ifndef UROCE_RDMA_RESOURCE_H
#define UROCE_RDMA_RESOURCE_H

#include "rdma.h"

/* The daemon's state, and what of it is looked up for each row. */
struct rdma_state {
    const json_t *root;
    bool sees_secrets; /* PSNs and keys */
    json_t *program;   /* names, by pid */
    json_t *srq_qps;   /* lists of queue pair numbers, by device and SRQ */
    const struct rdma_filters *filters;
};

/* A kind of objects. */
struct rdma_kind {
    const char *name;
    const char *list; /* of the daemon's state */
    enum rdma_head head;
    const struct rdma_filter *filters;
    /* Adds the members of a row of that list to a record. False: it is none of these. */
    bool (*fill)(json_t *record, const json_t *row, const struct rdma_state *s);
    /* The port of a row, or RDMA_NO_PORT. NULL: the kind has no ports. */
    int (*port)(const json_t *row);
    bool is_everywhere; /* a row without a device belongs to every one, if fill says so */
};

/* In the order of the summary; the last one has no name: resource_kinds.c. */
extern const struct rdma_kind rdma_kinds[];

#endif
