/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of any age over a loopback device: run_later.py compiles it with the headers of several
 * versions of rdma-core. What headers lack is declared here; what they have is compared with that
 * by being used. Prints TAP. Waits for a line after "# registered".
 *
 * HAVE_FLUSH: the header has ibv_wr_flush. HAVE_DMAH, HAVE_SPEED, HAVE_BUF, HAVE_CNTR: it has
 * IBVERBS_1.15, 1.16, 1.17, 1.18.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#if !HAVE_FLUSH
enum {
    IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,
    IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9,
    IBV_QP_EX_WITH_FLUSH = 1 << 11,
};
enum { IBV_FLUSH_GLOBAL = 1, IBV_FLUSH_PERSISTENT = 2 };
enum { IBV_FLUSH_RANGE, IBV_FLUSH_MR };
#define IBV_WC_FLUSH 8
#define IBV_WR_FLUSH 14

/* It is behind wr_abort and wr_atomic_write. */
static void ibv_wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len,
                         uint8_t type, uint8_t level)
{
    typedef void function(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);

    (*(function **)(&ex->wr_abort + 2))(ex, rkey, addr, len, type, level);
}
#endif

#if !HAVE_DMAH
struct ibv_dmah {
    struct ibv_context *context;
};
struct ibv_dmah_init_attr {
    uint32_t comp_mask;
    uint32_t cpu_id;
    uint8_t ph;
    uint8_t tph_mem_type;
};
enum { IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1, IBV_DMAH_INIT_ATTR_MASK_PH = 2 };
enum {
    IBV_REG_MR_MASK_IOVA = 1,
    IBV_REG_MR_MASK_ADDR = 2,
    IBV_REG_MR_MASK_FD = 4,
    IBV_REG_MR_MASK_FD_OFFSET = 8,
    IBV_REG_MR_MASK_DMAH = 16,
};
struct ibv_mr_init_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    struct ibv_dmah *dmah;
};
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
#endif

#if !HAVE_SPEED
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
#endif

#if !HAVE_BUF
struct ibv_buf;
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access);
#endif

#if !HAVE_CNTR
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
#endif

const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

#define BYTES  8192
#define GUARD  0x5A
#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static unsigned points, failures;
static struct ibv_context *ctx;
static struct ibv_pd *pd;

static void point(bool good, const char *what)
{
    points++;
    failures += !good;
    printf("%s %u - %s\n", good ? "ok" : "not ok", points, what);
}

static bool is_guard(const uint8_t *bytes, size_t n)
{
    while (n && *bytes == GUARD)
        bytes++, n--;
    return !n;
}

/* ---- structures that grew ---- */

static void sizes(void)
{
    struct {
        struct ibv_port_attr attr;
        uint8_t guard[64];
    } port;
    struct {
        struct ibv_device_attr_ex attr;
        uint8_t guard[64];
    } device;
    struct {
        struct ibv_gid_entry entry;
        uint8_t guard[64];
    } gid;

    memset(&port, GUARD, sizeof(port));
    memset(&device, GUARD, sizeof(device));
    memset(&gid, GUARD, sizeof(gid));
    point(!ibv_query_port(ctx, 1, &port.attr) && port.attr.state == IBV_PORT_ACTIVE &&
              is_guard(port.guard, sizeof(port.guard)),
          "ibv_query_port writes its structure and no more");
    point(!ibv_query_device_ex(ctx, NULL, &device.attr) && device.attr.phys_port_cnt_ex == 1 &&
              is_guard(device.guard, sizeof(device.guard)),
          "ibv_query_device_ex writes its structure and no more");
    point(!ibv_query_gid_ex(ctx, 1, 0, &gid.entry, 0) && gid.entry.port_num == 1 &&
              is_guard(gid.guard, sizeof(gid.guard)),
          "ibv_query_gid_ex writes its structure and no more");
}

/* ---- capabilities for which older headers have no names ---- */

#define FLUSH_GLOBAL     (UINT64_C(1) << 38)
#define FLUSH_PERSISTENT (UINT64_C(1) << 39)
#define ATOMIC_WRITE     (UINT64_C(1) << 40)
#define ODP_BOTH         (1u << 6 | 1u << 7)

static void capabilities(void)
{
    struct ibv_device_attr_ex attr;

    point(!ibv_query_device_ex(ctx, NULL, &attr) && attr.device_cap_flags_ex & ATOMIC_WRITE,
          "ATOMIC WRITE is reported");
    point((attr.device_cap_flags_ex & (FLUSH_GLOBAL | FLUSH_PERSISTENT)) == FLUSH_GLOBAL,
          "FLUSH is reported, but not to persistence");
    point((attr.odp_caps.per_transport_caps.rc_odp_caps & ODP_BOTH) == ODP_BOTH &&
              !(attr.odp_caps.per_transport_caps.uc_odp_caps & ODP_BOTH),
          "both are reported for memory on demand");
}

/* ---- calls without data ---- */

static void speed(void)
{
    uint64_t found = 0, other = 77;

    point(!ibv_query_port_speed(ctx, 1, &found) && found >= 25 && found <= 10000000,
          "a port has a speed");
    point(ibv_query_port_speed(ctx, 9, &other) == EINVAL && errno == EINVAL && other == 77,
          "a port that does not exist has none");
}

static void names(void)
{
    point(!strcmp(ibv_wr_opcode_str(IBV_WR_SEND), "send") &&
              !strcmp(ibv_wr_opcode_str((enum ibv_wr_opcode)IBV_WR_FLUSH), "flush") &&
              !strcmp(ibv_wr_opcode_str((enum ibv_wr_opcode)1000), "unknown"),
          "work requests have names");
}

/* ---- registration ---- */

static struct ibv_mr *reg_as(int access, void *addr, uint64_t mask, uint64_t iova,
                             struct ibv_dmah *dmah)
{
    struct ibv_mr_init_attr attr = {
        .length = BYTES,
        .access = access,
        .comp_mask = mask,
        .iova = iova,
        .addr = addr,
        .dmah = dmah,
    };

    errno = 0;
    return ibv_reg_mr_ex(pd, &attr);
}

static struct ibv_mr *reg(void *addr, uint64_t mask, uint64_t iova, struct ibv_dmah *dmah)
{
    return reg_as(REMOTE, addr, mask, iova, dmah);
}

static bool refused(void *addr, uint64_t mask, struct ibv_dmah *dmah, int err)
{
    return !reg(addr, mask, 0, dmah) && errno == err;
}

/* A thread that may run on one CPU alone. */
static void cpus(void)
{
    struct ibv_dmah_init_attr hint = {.comp_mask = IBV_DMAH_INIT_ATTR_MASK_CPU_ID};
    int here = sched_getcpu();
    cpu_set_t before, one;

    CPU_ZERO(&one);
    CPU_SET(here, &one);
    if (here < 0 || sched_getaffinity(0, sizeof(before), &before) ||
        sched_setaffinity(0, sizeof(one), &one)) {
        point(false, "a thread of one CPU");
        return;
    }
    hint.cpu_id = (uint32_t)here + 1;
    point(!ibv_alloc_dmah(ctx, &hint) && errno == EPERM, "a CPU on which the thread may not run");
    hint.cpu_id = 0xffff;
    point(!ibv_alloc_dmah(ctx, &hint) && errno == EINVAL, "a CPU that does not exist");
    hint.comp_mask = 0;
    point(!ibv_dealloc_dmah(ibv_alloc_dmah(ctx, &hint)), "a CPU that is not named counts not");
    sched_setaffinity(0, sizeof(before), &before);
}

static void registration(void)
{
    struct ibv_dmah_init_attr hint = {.comp_mask = IBV_DMAH_INIT_ATTR_MASK_CPU_ID |
                                                   IBV_DMAH_INIT_ATTR_MASK_PH,
                                      .cpu_id = (uint32_t)sched_getcpu(),
                                      .ph = 2};
    struct ibv_dmah_init_attr wrong = {.comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH, .ph = 4};
    struct ibv_dmah_init_attr unknown = {.comp_mask = 1u << 31};
    struct ibv_dmah *dmah = ibv_alloc_dmah(ctx, &hint);
    void *memory = aligned_alloc(4096, BYTES);
    struct ibv_mr *mr;

    point(dmah && dmah->context == ctx, "a handle of hints");
    point(!ibv_alloc_dmah(ctx, &wrong) && errno == EINVAL, "a hint that does not exist");
    point(!ibv_alloc_dmah(ctx, &unknown) && errno == EOPNOTSUPP, "a field that does not exist");
    mr = reg(memory, IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH, 0, dmah);
    point(mr && mr->addr == memory && mr->length == BYTES && mr->pd == pd && !ibv_dereg_mr(mr),
          "ibv_reg_mr_ex with an address and hints");
    mr = reg_as(REMOTE | IBV_ACCESS_ON_DEMAND, memory, IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH,
                0, dmah);
    point(!mr && errno == EOPNOTSUPP, "hints for memory on demand");
    mr = reg(memory, IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA, 0x10000, NULL);
    point(mr && !ibv_dereg_mr(mr), "ibv_reg_mr_ex with an IOVA");
    point(refused(memory, 0, NULL, EINVAL), "neither address nor descriptor");
    point(refused(memory, IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD, NULL, EINVAL), "both");
    point(refused(memory, IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD_OFFSET, NULL, EINVAL),
          "an offset without a descriptor");
    point(refused(memory, IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH, NULL, EINVAL),
          "hints without a handle");
    point(refused(memory, IBV_REG_MR_MASK_ADDR | UINT64_C(1) << 40, NULL, EOPNOTSUPP),
          "a field of a later version");
    point(!ibv_dealloc_dmah(dmah), "the handle ends");
    free(memory);
}

/* ---- traffic: extended queues, and a buffer of the device's choice ---- */

static struct ibv_cq_ex *cq;
static struct ibv_qp *qp[2];

static struct ibv_qp *make_qp(void)
{
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = ibv_cq_ex_to_cq(cq),
        .recv_cq = ibv_cq_ex_to_cq(cq),
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH,
    };

    return ibv_create_qp_ex(ctx, &attr);
}

static bool connect_qp(struct ibv_qp *q, uint32_t peer, unsigned access)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = access,
                               .max_rd_atomic = 1,
                               .max_dest_rd_atomic = 1,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = peer,
                               .timeout = 14,
                               .retry_cnt = 7,
                               .rnr_retry = 7,
                               .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1}};

    if (ibv_query_gid(ctx, 1, 0, &attr.ah_attr.grh.dgid) ||
        ibv_modify_qp(q, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
        return false;
    attr.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(q, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        return false;
    attr.qp_state = IBV_QPS_RTS;
    return !ibv_modify_qp(q, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static bool make_pair(unsigned access)
{
    qp[0] = make_qp();
    qp[1] = make_qp();
    return qp[0] && qp[1] && connect_qp(qp[0], qp[1]->qp_num, access) &&
           connect_qp(qp[1], qp[0]->qp_num, access);
}

static void end_pair(void)
{
    ibv_destroy_qp(qp[0]);
    ibv_destroy_qp(qp[1]);
}

/* The status of the next completion, which is of that work request and operation; else -1. */
static int completion(uint64_t wr_id, int opcode)
{
    struct ibv_poll_cq_attr poll = {0};
    int status;

    while (ibv_start_poll(cq, &poll))
        ;
    status = cq->wr_id == wr_id ? (int)cq->status : -1;
    if (!status && (int)ibv_wc_read_opcode(cq) != opcode)
        status = -1;
    ibv_end_poll(cq);
    return status;
}

static bool write_half(uint8_t *memory, const struct ibv_mr *mr)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp[0]);

    ibv_wr_start(ex);
    ex->wr_id = 99;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)memory + BYTES / 2);
    ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, BYTES / 2);
    if (ibv_wr_complete(ex))
        return false;
    return completion(99, IBV_WC_RDMA_WRITE) == IBV_WC_SUCCESS &&
           !memcmp(memory, memory + BYTES / 2, BYTES / 2);
}

/* ---- FLUSH ---- */

#define CONNECTION (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL)

/* Posts one. 0 or a positive errno. */
static int post_flush(uint32_t rkey, const void *addr, size_t len, unsigned type, unsigned level)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp[0]);

    ibv_wr_start(ex);
    ex->wr_id = 100;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_flush(ex, rkey, (uintptr_t)addr, len, (uint8_t)type, (uint8_t)level);
    return ibv_wr_complete(ex);
}

/* The status of one, or -1. */
static int flush(const struct ibv_mr *mr, const void *addr, size_t len, unsigned type,
                 unsigned level)
{
    return post_flush(mr->rkey, addr, len, type, level) ? -1 : completion(100, IBV_WC_FLUSH);
}

/* Of a queue pair of its own, as an error ends it. */
static int flush_alone(const struct ibv_mr *mr, size_t len, unsigned type, unsigned access)
{
    int status = make_pair(access) ? flush(mr, mr->addr, len, type, IBV_FLUSH_RANGE) : -1;

    end_pair();
    return status;
}

static bool flushes(unsigned access)
{
    uint8_t *memory = aligned_alloc(4096, BYTES);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, REMOTE | (int)access);
    bool good = mr && make_pair(CONNECTION);

    if (!good)
        return false;
    memset(memory, 7, BYTES);
    good = write_half(memory, mr) && !flush(mr, memory, BYTES, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE) &&
           !flush(mr, memory, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE) &&
           !flush(mr, NULL, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR) &&
           !flush(mr, memory, 12345678, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
    end_pair();
    good &= !ibv_dereg_mr(mr);
    free(memory);
    return good;
}

static void flush_refused(uint8_t *memory)
{
    const unsigned all = CONNECTION | IBV_ACCESS_FLUSH_PERSISTENT;
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, REMOTE | IBV_ACCESS_FLUSH_GLOBAL);
    struct ibv_mr *without = ibv_reg_mr(pd, memory, BYTES, REMOTE);

    errno = 0;
    point(!ibv_reg_mr(pd, memory, BYTES, REMOTE | IBV_ACCESS_FLUSH_PERSISTENT) &&
              errno == EOPNOTSUPP,
          "no region is persistent");
    point(make_pair(CONNECTION) && post_flush(mr->rkey, memory, 8, 0, 0) == EINVAL &&
              post_flush(mr->rkey, memory, 8, IBV_FLUSH_GLOBAL | 4, 0) == EINVAL &&
              post_flush(mr->rkey, memory, 8, IBV_FLUSH_GLOBAL, 2) == EINVAL,
          "a FLUSH of a type or level that does not exist is not posted");
    end_pair();
    point(flush_alone(without, 8, IBV_FLUSH_GLOBAL, CONNECTION) == IBV_WC_REM_ACCESS_ERR,
          "a FLUSH without the region's right");
    point(flush_alone(mr, BYTES + 1, IBV_FLUSH_GLOBAL, CONNECTION) == IBV_WC_REM_ACCESS_ERR,
          "a FLUSH of more than the region");
    point(flush_alone(mr, 8, IBV_FLUSH_PERSISTENT, all) == IBV_WC_REM_ACCESS_ERR,
          "a FLUSH to persistence");
    point(flush_alone(mr, 8, IBV_FLUSH_GLOBAL, REMOTE) == IBV_WC_REM_INV_REQ_ERR,
          "a FLUSH without the queue pair's right");
    point(!ibv_dereg_mr(mr) && !ibv_dereg_mr(without), "the regions end");
}

static void flushing(uint8_t *memory)
{
    point(flushes(IBV_ACCESS_FLUSH_GLOBAL), "FLUSHes of a range and of a region");
    point(flushes(IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_ON_DEMAND), "the same of memory on demand");
    flush_refused(memory);
}

/* ---- buffers ---- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void refused_buffers(struct ibv_buf *buf, uint8_t *memory)
{
    struct ibv_pd *other = ibv_alloc_pd(ctx);
    struct ibv_buf *none = NULL;

    point(!ibv_reg_buf_mr(other, buf, memory, BYTES, REMOTE) && errno == EINVAL,
          "a buffer of another protection domain");
    point(!ibv_reg_buf_mr(pd, buf, memory + BYTES / 2, BYTES, REMOTE) && errno == EINVAL,
          "more than the buffer");
    point(!ibv_reg_buf_mr(pd, buf, memory - 1, 1, REMOTE) && errno == EINVAL, "before the buffer");
    errno = 0;
    point(ibv_export_buf_dmabuf_fd(buf) == -1 && errno == ENODATA, "it is no DMA-buf");
    point(!ibv_alloc_buf(pd, 0, &none) && errno == EINVAL && !none, "a buffer without bytes");
    point(!ibv_alloc_buf(pd, SIZE_MAX, &none) && errno == ENOMEM && !none,
          "a buffer of more than all memory");
    limit_files(BYTES / 2);
    point(!ibv_alloc_buf(pd, BYTES, &none) && errno == ENOMEM && !none,
          "a buffer beyond the limit of files, without a signal");
    limit_files(RLIM_INFINITY);
    ibv_dealloc_pd(other);
}

static void buffers(void)
{
    struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct ibv_buf *buf = NULL;
    uint8_t *memory = ibv_alloc_buf(pd, BYTES, &buf);
    struct ibv_mr *mr = memory ? ibv_reg_buf_mr(pd, buf, memory, BYTES, REMOTE) : NULL;
    unsigned promises = 0;

    point(mr && (uintptr_t)memory % 4096 == 0, "a buffer of the device's choice");
    if (!mr)
        return;
    printf("# registered %zx\n", (size_t)(uintptr_t)memory);
    fflush(stdout);
    getchar();
    cq = ibv_create_cq_ex(ctx, &attr);
    for (unsigned i = 0; i < BYTES / 2; i++)
        memory[i] = (uint8_t)(i * 11 + 3);
    point(make_pair(IBV_ACCESS_REMOTE_WRITE) && write_half(memory, mr),
          "extended queues, and data in it");
    for (unsigned flags = 0; flags < 4; flags++) /* with RETURN_CAPS, and DEVICE_ONLY */
        if (ibv_query_qp_data_in_order(qp[0], IBV_WR_RDMA_WRITE, flags) ||
            ibv_query_qp_data_in_order(qp[0], IBV_WR_RDMA_READ, flags) ||
            ibv_query_qp_data_in_order(qp[0], IBV_WR_SEND, flags))
            promises++;
    point(!promises, "no promise of order");
    refused_buffers(buf, memory);
    end_pair();
    flushing(memory);
    ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
    point(!ibv_dereg_mr(mr), "the region ends");
    ibv_free_buf(buf);
}

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
    pd = ctx ? ibv_alloc_pd(ctx) : NULL;
    if (!pd) {
        fprintf(stderr, "later_abi: no device\n");
        return 1;
    }
    sizes();
    capabilities();
    speed();
    names();
    registration();
    cpus();
    buffers();
    point(!ibv_dealloc_pd(pd) && !ibv_close_device(ctx), "all objects end");
    ibv_free_device_list(list);
    printf("1..%u\n", points);
    return failures ? 1 : 0;
}
