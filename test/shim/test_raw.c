/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw packets, flow rules and receive-side scaling over a running uroced: cases that rdma-core's
 * tests do not have. */
#include "raw_tests.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "raw_kit.h"
#include "unit.h"
#include "verbs_pair.h"

static struct raw raw;

static int setup(void **state)
{
    raw_open(&raw);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(&raw);
    return 0;
}

static int expect_errno(const void *made, int err, const char *what)
{
    if (!made && errno == err)
        return 0;
    fprintf(stderr, "%s: %s\n", what, made ? "made" : strerror(errno));
    return 1;
}

/* For a process without the right to raw packets: the device reports no support. */
static int denied(void)
{
    struct ibv_context *ctx = open_first();
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
    struct ibv_device_attr_ex attr;
    struct ibv_qp_init_attr qp = {
        .send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RAW_PACKET};
    struct ibv_wq_init_attr wq = {
        .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq};
    struct ibv_wq none = {.handle = 1}, *wqs[1] = {&none};
    struct ibv_rwq_ind_table_init_attr table = {.ind_tbl = wqs};
    struct ibv_qp_init_attr ud = qp;
    struct ibv_qp *ud_qp;
    int bad = 0;

    ud.qp_type = IBV_QPT_UD;
    ud_qp = ibv_create_qp(pd, &ud);
    bad += ibv_query_device_ex(ctx, NULL, &attr) || attr.max_wq_type_rq ||
           attr.rss_caps.supported_qpts || attr.rss_caps.rx_hash_function || attr.raw_packet_caps ||
           attr.orig_attr.device_cap_flags &
               (IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_RAW_IP_CSUM);
    bad += expect_errno(ibv_create_qp(pd, &qp), EPERM, "queue pair");
    bad += expect_errno(ibv_create_wq(ctx, &wq), EPERM, "work queue");
    bad += expect_errno(ibv_create_rwq_ind_table(ctx, &table), EPERM, "indirection table");
    bad += expect_errno(raw_rule(ud_qp, IBV_FLOW_ATTR_NORMAL, 0, 0, NULL), EPERM, "flow rule");
    return bad;
}

/* A work queue for each completion vector: prints their numbers, and waits for the end of its
 * input. */
static int vectors(void)
{
    char byte;

    raw_open(&raw);
    for (int i = 0; i < raw.ctx->num_comp_vectors; i++) {
        struct ibv_cq *cq = ibv_create_cq(raw.ctx, 16, NULL, NULL, i);
        struct ibv_wq_init_attr init = {
            .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = raw.pd, .cq = cq};
        struct ibv_wq *wq = ibv_create_wq(raw.ctx, &init);

        if (!wq)
            return 1;
        printf("%u\n", wq->wq_num);
    }
    printf("end\n");
    fflush(stdout);
    return read(0, &byte, 1) ? 1 : 0;
}

/* For a rule that lets the call fail: prints the error. */
static int receive(void)
{
    struct ibv_wq *wq;
    int err;

    raw_open(&raw);
    wq = raw_wq(&raw, IBV_WQS_RDY);
    errno = 0;
    err = raw_post_wq(&raw, wq);
    printf("ibv_post_wq_recv: %d, errno %d\n", err, errno);
    return err;
}

int main(int argc, char **argv)
{
#define X(name) cmocka_unit_test_setup_teardown(name, setup, teardown),
    const struct CMUnitTest tests[] = {RAW_TESTS(X)};
#undef X

    if (argc > 1 && !strcmp(argv[1], "denied"))
        return denied();
    if (argc > 1 && !strcmp(argv[1], "vectors"))
        return vectors();
    if (argc > 1 && !strcmp(argv[1], "receive"))
        return receive();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
