/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of this folder have in common: a device, queue pairs, work. A call that fails
 * ends the program: an attack that does not take place must not look like one that does no harm. */
#ifndef UROCE_TEST_PROGRAM_KIT_H
#define UROCE_TEST_PROGRAM_KIT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct opened {
    struct ibv_device *device;
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    char *memory;
    size_t bytes;
};

/* Returns the object, or ends the program. */
void *must(void *object, const char *what);
/* Ends the program when the status is not 0. */
void check(int status, const char *what);
/* Another user (not 0), and the end with the parent. The daemon serves no program that may not be
 * traced, as one is that changes its user. */
void become(uid_t uid);
/* Tells the test that the attack takes place. */
void say_ready(void);

void open_program(struct opened *a, size_t bytes);
struct ibv_cq *make_cq(struct opened *a, int entries, struct ibv_comp_channel *channel);
/* An RC queue pair in RESET with queues of these sizes. */
struct ibv_qp *make_qp(struct opened *a, struct ibv_cq *cq, unsigned send_wr, unsigned recv_wr);
void modify_state(struct ibv_qp *qp, enum ibv_qp_state state);
/* From RESET to RTS, connected to a queue pair of the device: the shortest RNR timer, and such
 * retries without end. */
void connect_to(struct ibv_qp *qp, uint32_t qpn);
void connect_to_itself(struct ibv_qp *qp);
struct ibv_qp *make_connected(struct opened *a, struct ibv_cq *cq, unsigned send_wr,
                              unsigned recv_wr);
/* A work request over the first bytes of the memory. */
void post(struct opened *a, struct ibv_qp *qp, enum ibv_wr_opcode op, size_t length);
void post_receives(struct opened *a, struct ibv_qp *qp, unsigned n);
/* Polls until n completions are there, whatever their status. */
void drain(struct ibv_cq *cq, unsigned n);

#endif
