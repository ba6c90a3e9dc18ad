/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applications over the device kit: what a program does through the verbs API, in a call each, with
 * the worker run in between. Every function that can fail by contract returns the daemon's status;
 * the others fail the test.
 */
#ifndef UROCE_TEST_DEVICE_APP_H
#define UROCE_TEST_DEVICE_APP_H

#include "device_kit.h"
#include "device_private.h"

#define APP_QKEY 0x1234u

struct app {
    struct session *session;
    int async_fd; /* records of asynchronous events */
    uint32_t pd;
    uint32_t mr, key; /* all of the kit's memory, all rights */
};

struct app_cq {
    struct app *app;
    uint32_t handle;
    struct cq_reader reader;
};

struct app_qp {
    struct app *app;
    uint32_t qpn;
    uint8_t *segment; /* the daemon's mapping of it */
    struct ctl_create_qp layout;
};

struct app_srq {
    struct app *app;
    struct ctl_create_srq layout;
};

void app_open(struct app *a, struct rnic *r); /* root's */
void app_open_as(struct app *a, struct rnic *r, uid_t uid);
/* As if the process had exited. */
void app_close(struct app *a);

/* One control message; *m is then the reply. */
int app_call(struct app *a, enum ctl_type type, struct ctl_msg *m);
/* With a descriptor. */
int app_call_fd(struct app *a, enum ctl_type type, struct ctl_msg *m, int fd);
int app_call_handle(struct app *a, enum ctl_type type, uint32_t handle);

void app_cq(struct app *a, struct app_cq *cq, uint32_t size);
/* The next completion within several polls of the worker; false: there is none. */
bool app_poll(struct app_cq *cq, struct cqe *out);
/* Lets the worker finish its work, without reading completions. */
void app_run(struct app *a);

/* srq and xrcd: handles or 0; cq NULL: none (XRC receive side). */
int app_qp(struct app *a, struct app_qp *qp, uint32_t type, const struct app_cq *cq, uint32_t srq,
           uint32_t xrcd);
/* Through INIT and RTR to RTS: connected to dest with this path MTU, or UD with APP_QKEY. */
void app_ready(struct app_qp *qp, uint32_t dest, uint32_t mtu_code);
void app_ready_by(struct app_qp *qp, uint32_t dest, uint32_t mtu_code, struct ah_attr ah);
int app_modify(struct app_qp *qp, uint32_t mask, struct qp_attr attr);

/* A work request with one SGE at KIT_BASE + off (none when len is 0); the doorbell rings. */
void app_send(struct app_qp *qp, struct sqe wr, uint64_t off, uint32_t len);
/* One whose number of SGEs is kept: local operations. */
void app_post(struct app_qp *qp, struct sqe wr);
void app_recv(struct app_qp *qp, uint64_t wr_id, uint64_t off, uint32_t len);

/* Type, cq, xrcd as in the message. The granted max_wr is in srq->layout. */
int app_srq(struct app *a, struct app_srq *srq, uint32_t max_wr, uint32_t xrcd,
            const struct app_cq *cq);
void app_srq_recv(struct app_srq *srq, uint64_t wr_id, uint64_t off, uint32_t len);
/* 0: as it is. */
int app_srq_modify(struct app_srq *srq, uint32_t mask, uint32_t max_wr, uint32_t limit);

/* An address handle in the domain pd, its number in *number. Returns its handle. */
uint32_t app_ah(struct app *a, uint32_t pd, const char *dgid, uint32_t *number);
uint32_t app_ah_by(struct app *a, uint32_t pd, struct ah_attr attr, uint32_t *number);
struct ah_attr app_address(const char *dgid);

/* The next asynchronous event, after the control thread had its turn; false: none. */
bool app_event(struct app *a, struct event_loop *loop, struct ctl_async_event *event);

#endif
