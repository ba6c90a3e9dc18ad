/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_entropy.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "uroce.h"
#include "verbs_pair.h"

#define ENV        "UROCE_ENTROPY"
#define QPN_UNUSED 0xFFFFF
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

/* ---- what the functions return ---- */

static void message_arrives(struct pair *p, struct side *from, struct side *to)
{
    struct ibv_wc wc[2];

    assert_int_equal(post_recv(to, 1024, 64, 2), 0);
    assert_int_equal(post_send(from, IBV_WR_SEND, to, 0, 16, 1), 0);
    await(p->cq, wc, 2);
    assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
    assert_int_equal(wc[1].status, IBV_WC_SUCCESS);
}

void policies_of_queue_pairs(void **state)
{
    static const char *const policy[] = {"kernel",      "rfc",          "spray", "fixed:49152",
                                         "fixed:65535", "fixed:0xc123", NULL};
    struct pair p;
    struct ibv_qp *fresh;

    pair_open(&p);
    for (unsigned i = 0; i < COUNT(policy); i++) {
        assert_int_equal(uroce_set_qp_entropy(p.a.qp, policy[i]), 0);
        message_arrives(&p, &p.a, &p.b);
        message_arrives(&p, &p.b, &p.a);
    }
    fresh = make_qp(&p, p.cq); /* in RESET */
    assert_int_equal(uroce_set_qp_entropy(fresh, "spray"), 0);
    assert_int_equal(ibv_destroy_qp(fresh), 0);
    pair_close(&p);
}

/* Their headers are the program's own. */
static void raw_packets_have_none(struct pair *p)
{
    struct ibv_qp_init_attr init = {.send_cq = p->cq,
                                    .recv_cq = p->cq,
                                    .cap = {.max_send_wr = 1, .max_send_sge = 1},
                                    .qp_type = IBV_QPT_RAW_PACKET};
    struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

    if (!qp) { /* nor may this user send raw packets */
        assert_true(errno == EPERM || errno == EOPNOTSUPP);
        return;
    }
    assert_int_equal(uroce_set_qp_entropy(qp, "rfc"), EINVAL);
    assert_int_equal(uroce_set_qp_entropy(qp, NULL), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

void policies_that_are_refused(void **state)
{
    static const char *const policy[] = {
        "",           "port",        "Kernel",      "rfc ",     "fixed",          "fixed:",
        "fixed:4791", "fixed:49151", "fixed:65536", "fixed:-1", "fixed:0xc000xx", "spray:3"};
    struct pair p;

    pair_open(&p);
    for (unsigned i = 0; i < COUNT(policy); i++)
        assert_int_equal(uroce_set_qp_entropy(p.a.qp, policy[i]), EINVAL);
    raw_packets_have_none(&p);
    message_arrives(&p, &p.a, &p.b);
    pair_close(&p);
}

void policy_of_the_environment(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct pair p;

    assert_non_null(list[0]);
    setenv(ENV, "sprayed", 1);
    errno = 0;
    assert_null(ibv_open_device(list[0]));
    assert_int_equal(errno, EINVAL);
    ibv_free_device_list(list);
    setenv(ENV, "", 1);
    pair_open(&p);
    pair_close(&p);
    setenv(ENV, "fixed:50000", 1);
    pair_open(&p);
    message_arrives(&p, &p.a, &p.b);
    /* It is only the program's default. */
    assert_int_equal(uroce_set_qp_entropy(p.a.qp, "rfc"), 0);
    message_arrives(&p, &p.a, &p.b);
    pair_close(&p);
    unsetenv(ENV);
}

/* ---- libmlx5.so.1 ---- */

static void *of_libmlx5(const char *name)
{
    void *library = dlopen("libmlx5.so.1", RTLD_NOW), *function;

    assert_non_null(library);
    function = dlsym(library, name);
    assert_non_null(function);
    return function;
}

/* What it refuses, it refuses by an errno; a port is one that a policy may fix. */
void ports_by_libmlx5(void **state)
{
    static const uint16_t refused[] = {0, 4791, 49151};
    int (*set)(struct ibv_qp *, uint16_t) = of_libmlx5("mlx5dv_modify_qp_udp_sport");
    int (*lag)(struct ibv_qp *, uint8_t *, uint8_t *) = of_libmlx5("mlx5dv_query_qp_lag_port");
    void *(*create)(struct ibv_context *, void *, void *) = of_libmlx5("mlx5dv_create_qp");
    bool (*supported)(struct ibv_device *) = of_libmlx5("mlx5dv_is_supported");
    struct ibv_qp *fresh;
    struct pair p;
    uint8_t port;

    pair_open(&p);
    assert_int_equal(set(p.a.qp, 49152), 0);
    assert_int_equal(set(p.a.qp, 65535), 0);
    message_arrives(&p, &p.a, &p.b);
    for (unsigned i = 0; i < COUNT(refused); i++)
        assert_int_equal(set(p.a.qp, refused[i]), EINVAL);
    fresh = make_qp(&p, p.cq);
    assert_int_equal(set(fresh, 50000), EOPNOTSUPP);
    assert_int_equal(ibv_destroy_qp(fresh), 0);
    assert_int_equal(lag(p.a.qp, &port, &port), EOPNOTSUPP);
    assert_false(supported(p.ctx->device));
    errno = 0;
    assert_null(create(p.ctx, NULL, NULL));
    assert_int_equal(errno, EOPNOTSUPP);
    pair_close(&p);
}

/* ---- for the capture ---- */

/* A message in each direction, each beginning with the number of the case. */
static void exchange(struct pair *p, uint8_t number)
{
    p->a.buffer[0] = p->b.buffer[0] = number;
    message_arrives(p, &p->a, &p->b);
    message_arrives(p, &p->b, &p->a);
}

/* A datagram that begins with the number; it has no receiver. */
static void datagram(struct pair *p, struct ibv_qp *ud, struct ibv_ah *ah, uint8_t number)
{
    struct ibv_sge sge = {.addr = (uintptr_t)p->a.buffer, .length = 16, .lkey = p->a.mr->lkey};
    struct ibv_send_wr *bad,
        wr = {
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.ud = {.ah = ah, .remote_qpn = QPN_UNUSED, .remote_qkey = PAIR_QKEY},
        };
    struct ibv_wc wc;

    p->a.buffer[0] = number;
    assert_int_equal(ibv_post_send(ud, &wr, &bad), 0);
    await(p->cq, &wc, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

int policies_on_the_wire(void)
{
    int (*set)(struct ibv_qp *, uint16_t);
    static const char *const policy[] = {"kernel", "rfc", "spray", "fixed:50505", NULL};
    struct ibv_qp *ud;
    struct ibv_ah *ah;
    struct pair p;

    pair_open(&p);
    ud = make_datagram_qp(&p, p.cq, PAIR_WR);
    ah = make_own_ah(&p);
    printf("%u %u %u %u\n", p.a.qp->qp_num, p.b.qp->qp_num, ud->qp_num, QPN_UNUSED);
    exchange(&p, COUNT(policy));
    for (uint8_t i = 0; i < COUNT(policy); i++) {
        assert_int_equal(uroce_set_qp_entropy(p.a.qp, policy[i]), 0);
        assert_int_equal(uroce_set_qp_entropy(ud, policy[i]), 0);
        exchange(&p, i);
        for (unsigned n = 0; n < 8; n++)
            datagram(&p, ud, ah, i);
    }
    set = of_libmlx5("mlx5dv_modify_qp_udp_sport");
    assert_int_equal(set(p.a.qp, 50606), 0);
    exchange(&p, COUNT(policy) + 1);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_destroy_qp(ud), 0);
    pair_close(&p);
    return 0;
}
