/* SPDX-License-Identifier: BSD-3-Clause */
/* What the application of fuzz_client.c does with the younger half of the verbs API. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_client.h"
#include "later.h"

/* Since rdma-core 64 and 65; Debian 12's headers do not have them. */
struct later_buf;
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct later_buf **out);
void ibv_free_buf(struct later_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct later_buf *buf, void *addr, size_t length,
                              int access);
struct later_comp_cntr;
struct later_comp_cntr_init_attr {
    uint32_t comp_mask, type, flags;
};
struct later_qp_attach_comp_cntr_attr {
    uint32_t comp_mask, op_mask;
};
struct later_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
                                             struct later_comp_cntr_init_attr *attr);
int ibv_destroy_comp_cntr(struct later_comp_cntr *cntr);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct later_comp_cntr *cntr,
                            struct later_qp_attach_comp_cntr_attr *attr);
int ibv_set_comp_cntr(struct later_comp_cntr *cntr, uint64_t value);
int ibv_read_comp_cntr(struct later_comp_cntr *cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct later_comp_cntr *cntr, uint64_t *value);
int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);

/* ---- completion queues ---- */

static void make_cq(unsigned i)
{
    const uint64_t all = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                         IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_CVLAN |
                         IBV_WC_EX_WITH_FLOW_TAG;
    struct ibv_cq_init_attr_ex attr = {.cqe = take(&in) + 1u,
                                       .wc_flags = all & ~(uint64_t)take(&in)};
    struct ibv_cq_ex *cq;

    if (app.cq[i])
        return;
    cq = ibv_create_cq_ex(app.ctx, &attr);
    if (cq) {
        app.cq[i] = ibv_cq_ex_to_cq(cq);
        app.read_flags[i] = attr.wc_flags | 1ull << 63;
    }
}

static void read_fields(struct ibv_cq_ex *cq, uint64_t flags)
{
    ibv_wc_read_opcode(cq);
    ibv_wc_read_vendor_err(cq);
    ibv_wc_read_wc_flags(cq);
    if (flags & IBV_WC_EX_WITH_BYTE_LEN)
        ibv_wc_read_byte_len(cq);
    if (flags & IBV_WC_EX_WITH_IMM)
        ibv_wc_read_imm_data(cq);
    if (flags & IBV_WC_EX_WITH_QP_NUM)
        ibv_wc_read_qp_num(cq);
    if (flags & IBV_WC_EX_WITH_SRC_QP)
        ibv_wc_read_src_qp(cq);
    if (flags & IBV_WC_EX_WITH_SLID)
        ibv_wc_read_slid(cq);
    if (flags & IBV_WC_EX_WITH_SL)
        ibv_wc_read_sl(cq);
    if (flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
        ibv_wc_read_dlid_path_bits(cq);
    if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
        ibv_wc_read_completion_ts(cq);
    if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
        ibv_wc_read_completion_wallclock_ns(cq);
    if (flags & IBV_WC_EX_WITH_CVLAN)
        ibv_wc_read_cvlan(cq);
    if (flags & IBV_WC_EX_WITH_FLOW_TAG)
        ibv_wc_read_flow_tag(cq);
}

static void read_cq(unsigned i)
{
    struct ibv_poll_cq_attr attr = {0};
    struct ibv_cq_ex *cq;

    if (!app.cq[i] || !app.read_flags[i])
        return;
    cq = (struct ibv_cq_ex *)app.cq[i];
    if (ibv_start_poll(cq, &attr))
        return;
    for (unsigned n = 0; n < 8; n++) {
        read_fields(cq, app.read_flags[i]);
        if (ibv_next_poll(cq))
            break;
    }
    ibv_end_poll(cq);
}

/* ---- queue pairs ---- */

static void make_qp(unsigned i, struct ibv_qp_init_attr_ex *attr)
{
    if (app.qp[i] || !app.pd || !app.cq[0])
        return;
    attr->pd = app.parent && attr->cap.max_send_wr & 1 ? app.parent : app.pd;
    attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
    app.qp[i] = ibv_create_qp_ex(app.ctx, attr);
    app.send_ops[i] = app.qp[i] ? attr->send_ops_flags : 0;
}

static void make_qp_ex(unsigned i)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET,
                                             IBV_QPT_XRC_SEND};
    uint8_t type = take(&in), wrs = take(&in) % (2 * WRS);
    const uint64_t raw = IBV_QP_EX_WITH_SEND, ud = raw | IBV_QP_EX_WITH_SEND_WITH_IMM,
                   uc = ud | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                        IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW,
                   rc = uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
                        IBV_QP_EX_WITH_ATOMIC_WRITE | LATER_QP_EX_WITH_FLUSH;
    const uint64_t ops[] = {rc, uc, ud, raw, rc};
    unsigned at = type % ARRAY_SIZE(types);
    struct ibv_qp_init_attr_ex attr = {.qp_type = types[at],
                                       .send_cq = app.cq[0],
                                       .recv_cq = app.cq[0],
                                       .cap = {wrs, wrs, 3, 2, 32},
                                       .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .send_ops_flags = ops[at]};

    make_qp(i, &attr);
}

/* A work request of the kind that a byte says, if the queue pair can send it. */
static void begin_send(struct ibv_qp_ex *qp, uint64_t ops, uint8_t kind)
{
    const uint32_t rkey = app.mr[0] ? app.mr[0]->rkey : 0;
    struct ibv_mw_bind_info bind = {app.mr[0], KIT_BASE, 64, IBV_ACCESS_REMOTE_WRITE};
    const uint64_t op = 1ull << kind % 13;

    if (!(ops & op))
        return;
    if (op == IBV_QP_EX_WITH_RDMA_WRITE)
        ibv_wr_rdma_write(qp, rkey, KIT_BASE);
    else if (op == IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
        ibv_wr_rdma_write_imm(qp, rkey, KIT_BASE, 7);
    else if (op == IBV_QP_EX_WITH_SEND)
        ibv_wr_send(qp);
    else if (op == IBV_QP_EX_WITH_SEND_WITH_IMM)
        ibv_wr_send_imm(qp, 7);
    else if (op == IBV_QP_EX_WITH_RDMA_READ)
        ibv_wr_rdma_read(qp, rkey, KIT_BASE);
    else if (op == IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
        ibv_wr_atomic_cmp_swp(qp, rkey, KIT_BASE, 1, 2);
    else if (op == IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
        ibv_wr_atomic_fetch_add(qp, rkey, KIT_BASE, 1);
    else if (op == IBV_QP_EX_WITH_LOCAL_INV)
        ibv_wr_local_inv(qp, app.mw ? app.mw->rkey : 0);
    else if (op == IBV_QP_EX_WITH_BIND_MW && app.mw)
        ibv_wr_bind_mw(qp, app.mw, rkey + 1, &bind);
    else if (op == IBV_QP_EX_WITH_SEND_WITH_INV)
        ibv_wr_send_inv(qp, rkey);
    else if (op == IBV_QP_EX_WITH_ATOMIC_WRITE)
        ibv_wr_atomic_write(qp, rkey, KIT_BASE, &bind);
    else if (op == LATER_QP_EX_WITH_FLUSH)
        ((struct later_qp_ex *)qp)->wr_flush(qp, rkey, KIT_BASE, 64, kind & 3, kind >> 7);
}

static void set_payload(struct ibv_qp_ex *qp, uint8_t how)
{
    static uint8_t text[64];
    struct ibv_sge sge[4];
    struct ibv_data_buf data[2] = {{text, how & 31}, {text, how >> 4}};

    for (unsigned i = 0; i < ARRAY_SIZE(sge); i++)
        sge[i] = (struct ibv_sge){KIT_BASE + i, 8, app.mr[0] ? app.mr[0]->lkey : 0};
    if (how & 128)
        ibv_wr_set_inline_data_list(qp, 2, data);
    else if (how & 64)
        ibv_wr_set_inline_data(qp, text, how & 63);
    else if (how & 32)
        ibv_wr_set_sge_list(qp, how & 3, sge);
    else
        ibv_wr_set_sge(qp, sge[0].lkey, sge[0].addr, 8);
}

/* How many work requests; of each the kind and the payload. An odd flag aborts the batch. */
static void send_batch(unsigned i, uint8_t flags)
{
    struct ibv_qp_ex *qp = app.qp[i] && app.send_ops[i] ? ibv_qp_to_qp_ex(app.qp[i]) : NULL;

    if (!qp)
        return;
    ibv_wr_start(qp);
    for (unsigned n = take(&in) % (2 * WRS); n; n--) {
        qp->wr_id = n;
        qp->wr_flags = IBV_SEND_SIGNALED;
        begin_send(qp, app.send_ops[i], take(&in));
        if (app.qp[i]->qp_type == IBV_QPT_UD && app.ah)
            ibv_wr_set_ud_addr(qp, app.ah, n, 5);
        if (app.qp[i]->qp_type == IBV_QPT_XRC_SEND)
            ibv_wr_set_xrc_srqn(qp, n);
        set_payload(qp, take(&in));
    }
    if (flags & 128)
        ibv_wr_abort(qp);
    else
        ibv_wr_complete(qp);
}

/* ---- raw packets ---- */

static void make_wq(unsigned i)
{
    struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ,
                                    .max_wr = take(&in) % WRS + 1,
                                    .max_sge = 1,
                                    .pd = app.pd,
                                    .cq = app.cq[0]};

    if (app.wq[i]) {
        if (is_gone(ibv_destroy_wq(app.wq[i])))
            app.wq[i] = NULL;
    } else if (app.pd && app.cq[0]) {
        app.wq[i] = ibv_create_wq(app.ctx, &attr);
    }
}

static void modify_wq(unsigned i)
{
    struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = take(&in) % 4};
    struct ibv_sge sge = {KIT_BASE, 8, app.mr[0] ? app.mr[0]->lkey : 0};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    if (!app.wq[i])
        return;
    ibv_modify_wq(app.wq[i], &attr);
    ibv_post_wq_recv(app.wq[i], &wr, &bad);
}

static void make_table(void)
{
    struct ibv_wq *list[OBJECTS];
    struct ibv_rwq_ind_table_init_attr attr = {.log_ind_tbl_size = 2, .ind_tbl = list};

    if (app.table) {
        if (is_gone(ibv_destroy_rwq_ind_table(app.table)))
            app.table = NULL;
        return;
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        list[i] = app.wq[i] ? app.wq[i] : app.wq[0];
        if (!list[i])
            return;
    }
    app.table = ibv_create_rwq_ind_table(app.ctx, &attr);
}

static void make_rss_qp(unsigned i)
{
    static uint8_t key[40];
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_RAW_PACKET,
        .comp_mask = IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
        .rwq_ind_tbl = app.table,
        .rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, take(&in)}};

    if (app.table)
        make_qp(i, &attr);
}

/* The kinds of the specifications, up to three; their bytes. */
static void make_flow(unsigned i)
{
    static const struct {
        enum ibv_flow_spec_type type;
        uint16_t size;
    } kinds[] = {{IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth)},
                 {IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4)},
                 {IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext)},
                 {IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6)},
                 {IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp)},
                 {IBV_FLOW_SPEC_UDP, sizeof(struct ibv_flow_spec_tcp_udp)},
                 {IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag)},
                 {IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop)}};
    struct {
        struct ibv_flow_attr attr;
        uint8_t specs[3 * sizeof(struct ibv_flow_spec)];
    } rule = {.attr = {.size = sizeof(rule.attr), .port = 1}};

    if (app.flow) {
        if (is_gone(ibv_destroy_flow(app.flow)))
            app.flow = NULL;
        return;
    }
    if (!app.qp[i])
        return;
    rule.attr.type = take(&in) % 5;
    rule.attr.num_of_specs = take(&in) % 4;
    for (unsigned n = 0; n < rule.attr.num_of_specs; n++) {
        unsigned kind = take(&in) % ARRAY_SIZE(kinds);
        struct ibv_flow_spec spec = {.hdr = {kinds[kind].type, kinds[kind].size}};

        memset((uint8_t *)&spec + sizeof(spec.hdr), take(&in), kinds[kind].size - sizeof(spec.hdr));
        memcpy((uint8_t *)&rule + rule.attr.size, &spec, kinds[kind].size);
        rule.attr.size = (uint16_t)(rule.attr.size + kinds[kind].size);
    }
    app.flow = ibv_create_flow(app.qp[i], &rule.attr);
}

/* ---- memory ---- */

static void use_dm(unsigned i, uint8_t which)
{
    struct ibv_alloc_dm_attr attr = {.length = 4096};
    uint8_t bytes[64] = {0};

    if (!app.dm) {
        app.dm = ibv_alloc_dm(app.ctx, &attr);
    } else if (which & 128) {
        ibv_memcpy_to_dm(app.dm, take_word(), bytes, sizeof(bytes));
        ibv_memcpy_from_dm(bytes, app.dm, take_word(), sizeof(bytes));
    } else if (which & 64) {
        if (is_gone(ibv_free_dm(app.dm)))
            app.dm = NULL;
    } else if (app.pd && !app.mr[i]) {
        app.mr[i] = ibv_reg_dm_mr(app.pd, app.dm, take_word(), 64, IBV_ACCESS_ZERO_BASED | 7);
    }
}

static void use_counter(unsigned i, uint8_t which)
{
    struct later_comp_cntr_init_attr attr = {.type = which & 1};
    struct later_qp_attach_comp_cntr_attr attach = {0};
    uint64_t value;

    if (!app.counter) {
        app.counter = ibv_create_comp_cntr(app.ctx, &attr);
    } else if (which >> 6 == 1) {
        attach.op_mask = take(&in);
        if (app.qp[i])
            ibv_qp_attach_comp_cntr(app.qp[i], app.counter, &attach);
    } else if (which >> 6 == 2) {
        ibv_set_comp_cntr(app.counter, take(&in));
        ibv_read_comp_cntr(app.counter, &value);
        ibv_read_err_comp_cntr(app.counter, &value);
    } else if (is_gone(ibv_destroy_comp_cntr(app.counter))) {
        app.counter = NULL;
    }
}

static void use_buf(void)
{
    struct later_buf *buf;
    uint64_t speed;
    void *at = app.pd ? ibv_alloc_buf(app.pd, take_word(), &buf) : NULL;
    struct ibv_mr *mr = at ? ibv_reg_buf_mr(app.pd, buf, at, 64, 7) : NULL;

    ibv_query_port_speed(app.ctx, 1, &speed);
    if (mr && !is_gone(ibv_dereg_mr(mr)))
        return; /* the daemon keeps it: so does the buffer stay, until the process ends */
    if (at)
        ibv_free_buf(buf);
}

static void rereg(unsigned i)
{
    struct ibv_sge sge = {KIT_BASE, 64, 0};
    uint8_t flags = take(&in) % 8;

    if (!app.mr[i] || !app.pd)
        return;
    sge.lkey = app.mr[i]->lkey;
    ibv_rereg_mr(app.mr[i], flags, app.pd, (void *)(uintptr_t)(KIT_BASE + 64), 128, take(&in));
    ibv_advise_mr(app.pd, flags % 3, flags & 1, &sge, 1);
}

static void bind_mw(unsigned i)
{
    struct ibv_mw_bind bind = {.bind_info = {app.mr[0], KIT_BASE, 64, IBV_ACCESS_REMOTE_WRITE}};

    if (!app.mw && app.pd)
        app.mw = ibv_alloc_mw(app.pd, take(&in) & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    else if (app.mw && app.qp[i])
        ibv_bind_mw(app.qp[i], app.mw, &bind);
}

/* ---- the rest ---- */

static void make_parent(uint8_t which)
{
    struct ibv_td_init_attr td = {0};
    struct ibv_parent_domain_init_attr attr = {.pd = app.pd};

    if (!app.td)
        app.td = ibv_alloc_td(app.ctx, &td);
    attr.td = which & 64 ? app.td : NULL;
    if (app.pd && !app.parent)
        app.parent = ibv_alloc_parent_domain(app.ctx, &attr);
}

static void make_xrcd(void)
{
    struct ibv_xrcd_init_attr attr = {.comp_mask =
                                          IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                                      .fd = -1,
                                      .oflags = O_CREAT};
    struct ibv_srq_init_attr_ex srq = {.attr = {.max_wr = take(&in) % WRS + 1, .max_sge = 1},
                                       .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                    IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
                                       .srq_type = IBV_SRQT_XRC,
                                       .pd = app.pd,
                                       .cq = app.cq[0]};
    uint32_t number;

    if (!app.xrcd)
        app.xrcd = ibv_open_xrcd(app.ctx, &attr);
    srq.xrcd = app.xrcd;
    if (app.xrcd && app.pd && app.cq[0] && !app.srq[3])
        app.srq[3] = ibv_create_srq_ex(app.ctx, &srq);
    if (app.srq[3])
        ibv_get_srq_num(app.srq[3], &number);
}

/* A completion and the headers in front of a datagram, whose bytes are the input's. */
static void answer_to(void)
{
    struct ibv_wc wc = {.src_qp = 2, .wc_flags = IBV_WC_GRH, .sl = take(&in)};
    struct ibv_ah_attr attr;
    struct ibv_grh grh = {0};
    struct ibv_ah *ah;
    uint8_t mac[6];
    uint16_t vlan;

    ibv_query_gid(app.ctx, 1, 0, &grh.sgid);
    ibv_query_gid(app.ctx, 1, 0, &grh.dgid);
    grh.version_tclass_flow = htonl(UINT32_C(6) << 28);
    take_bytes(&in, &grh, sizeof(grh));
    if (!ibv_init_ah_from_wc(app.ctx, 1, &wc, &grh, &attr))
        ibv_resolve_eth_l2_from_gid(app.ctx, &attr, mac, &vlan);
    if (!app.pd)
        return;
    ah = ibv_create_ah_from_wc(app.pd, &wc, &grh, 1);
    if (ah && app.ah)
        ibv_destroy_ah(ah);
    else if (ah)
        app.ah = ah;
}

static volatile int names_sink;

static void ask_names(uint8_t which)
{
    ibv_node_type_str(which);
    ibv_port_state_str(which);
    ibv_event_type_str(which);
    ibv_wc_status_str(which);
    /* These are declared const: without a use they would not be called. */
    names_sink = ibv_rate_to_mult(which) + (int)mult_to_ibv_rate(which) + ibv_rate_to_mbps(which) +
                 (int)mbps_to_ibv_rate(which * 2500);
}

static void use_mcast(unsigned i)
{
    union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};

    if (!app.qp[i])
        return;
    ibv_attach_mcast(app.qp[i], &group, 0);
    ibv_detach_mcast(app.qp[i], &group, 0);
}

void ex_act(enum ex_action action, uint8_t which)
{
    unsigned i = which % OBJECTS;

    switch (action) {
    case EX_CQ:
        make_cq(i);
        break;
    case EX_READ:
        read_cq(i);
        break;
    case EX_RESIZE_CQ:
        if (app.cq[i])
            ibv_resize_cq(app.cq[i], (int)take_word() + 1);
        break;
    case EX_QP:
        make_qp_ex(i);
        break;
    case EX_SEND:
        send_batch(i, which);
        break;
    case EX_WQ:
        make_wq(i);
        break;
    case EX_MODIFY_WQ:
        modify_wq(i);
        break;
    case EX_TABLE:
        make_table();
        break;
    case EX_RSS_QP:
        make_rss_qp(i);
        break;
    case EX_FLOW:
        make_flow(i);
        break;
    case EX_DM:
        use_dm(i, which);
        break;
    case EX_PARENT:
        make_parent(which);
        break;
    case EX_XRCD:
        make_xrcd();
        break;
    case EX_REREG:
        rereg(i);
        break;
    case EX_BIND:
        bind_mw(i);
        break;
    case EX_AH:
        answer_to();
        break;
    case EX_BUF:
        use_buf();
        break;
    case EX_NAMES:
        ask_names(which);
        break;
    case EX_COUNTER:
        use_counter(i, which);
        break;
    default:
        use_mcast(i);
    }
}

void ex_drop_users(void)
{
    if (app.flow && is_gone(ibv_destroy_flow(app.flow)))
        app.flow = NULL;
}

void ex_drop_used(void)
{
    if (app.table && is_gone(ibv_destroy_rwq_ind_table(app.table)))
        app.table = NULL;
    for (unsigned i = 0; i < OBJECTS; i++)
        if (app.wq[i] && is_gone(ibv_destroy_wq(app.wq[i])))
            app.wq[i] = NULL;
    if (app.dm && is_gone(ibv_free_dm(app.dm)))
        app.dm = NULL;
    if (app.counter && is_gone(ibv_destroy_comp_cntr(app.counter)))
        app.counter = NULL;
    if (app.xrcd && is_gone(ibv_close_xrcd(app.xrcd)))
        app.xrcd = NULL;
    if (app.parent && is_gone(ibv_dealloc_pd(app.parent)))
        app.parent = NULL;
    if (app.td && is_gone(ibv_dealloc_td(app.td)))
        app.td = NULL;
}
