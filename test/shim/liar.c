/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a program, makes its RDMA device report wrong results: from the tenth receive on,
 * the property that $LIE names is wrong. A complete test notices each of them.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define HONEST_RECEIVES 10
#define REMEMBERED      256

static struct ibv_context_ops real;
static unsigned receives;

/* The buffers of receives that were posted and have at least a byte. */
static struct {
    uint64_t wr_id;
    uint8_t *buffer;
    uint32_t length;
} posted[REMEMBERED];
static unsigned posted_count;

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    for (struct ibv_recv_wr *w = wr; w; w = w->next) {
        if (!w->num_sge)
            continue;
        posted[posted_count % REMEMBERED].wr_id = w->wr_id;
        posted[posted_count % REMEMBERED].buffer = (uint8_t *)(uintptr_t)w->sg_list[0].addr;
        posted[posted_count++ % REMEMBERED].length = w->sg_list[0].length;
    }
    return real.post_recv(qp, wr, bad);
}

static void lie_of_memory(const struct ibv_wc *wc, const char *lie)
{
    for (unsigned i = 0; i < REMEMBERED; i++) {
        if (!posted[i].buffer || posted[i].wr_id != wc->wr_id)
            continue;
        if (!strcmp(lie, "data"))
            posted[i].buffer[wc->byte_len / 2] ^= 1;
        if (!strcmp(lie, "before"))
            posted[i].buffer[-1] ^= 0x80;
        if (!strcmp(lie, "behind"))
            posted[i].buffer[posted[i].length] ^= 0x80;
    }
}

static bool is_receive(const struct ibv_wc *wc)
{
    return wc->opcode & IBV_WC_RECV;
}

static void lie_of(struct ibv_wc *wc)
{
    const char *lie = getenv("LIE");

    if (!lie || !is_receive(wc) || receives < HONEST_RECEIVES)
        return;
    if (!strcmp(lie, "imm"))
        wc->imm_data ^= 1;
    if (!strcmp(lie, "flags"))
        wc->wc_flags ^= IBV_WC_WITH_IMM;
    if (!strcmp(lie, "byte_len"))
        wc->byte_len++;
    if (!strcmp(lie, "opcode"))
        wc->opcode ^= IBV_WC_RECV ^ IBV_WC_RECV_RDMA_WITH_IMM;
    if (!strcmp(lie, "wr_id"))
        wc->wr_id++;
    if (!strcmp(lie, "qp_num"))
        wc->qp_num++;
    if (!strcmp(lie, "status"))
        wc->status = IBV_WC_LOC_LEN_ERR;
    if (wc->byte_len)
        lie_of_memory(wc, lie);
}

/* LIE=lose: the tenth never happened. */
static bool keep(const struct ibv_wc *wc)
{
    const char *lie = getenv("LIE");

    return !is_receive(wc) || ++receives != HONEST_RECEIVES || !lie || strcmp(lie, "lose");
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    int n = real.poll_cq(cq, count, wc), kept = 0;

    for (int i = 0; i < n; i++) {
        if (!keep(&wc[i]))
            continue;
        wc[kept] = wc[i];
        lie_of(&wc[kept++]);
    }
    return n < 0 ? n : kept;
}

__attribute__((visibility("default"))) struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*open_device)(struct ibv_device *) = NULL;
    struct ibv_context *ctx;

    *(void **)&open_device = dlsym(RTLD_NEXT, "ibv_open_device");
    ctx = open_device ? open_device(device) : NULL;
    if (!ctx)
        return NULL;
    real = ctx->ops;
    ctx->ops.poll_cq = poll_cq;
    ctx->ops.post_recv = post_recv;
    return ctx;
}
