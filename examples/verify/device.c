/* SPDX-License-Identifier: BSD-3-Clause */
/* The device, its first port, one of its GIDs; and the parameters on which the programs agree. */
#include "verify.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RXE_VENDOR 0xffffffu
#define RD_ATOMIC  16 /* READs and atomics at a time, if both devices can */

bool unsupported(int err)
{
    return err == EOPNOTSUPP || err == ENOSYS || err == ENOTTY || err == EPROTONOSUPPORT;
}

const char *status_name(enum ibv_wc_status status)
{
#define NAME(x) [IBV_WC_##x] = "IBV_WC_" #x
    static const char *const names[] = {
        NAME(SUCCESS),           NAME(LOC_LEN_ERR),
        NAME(LOC_QP_OP_ERR),     NAME(LOC_EEC_OP_ERR),
        NAME(LOC_PROT_ERR),      NAME(WR_FLUSH_ERR),
        NAME(MW_BIND_ERR),       NAME(BAD_RESP_ERR),
        NAME(LOC_ACCESS_ERR),    NAME(REM_INV_REQ_ERR),
        NAME(REM_ACCESS_ERR),    NAME(REM_OP_ERR),
        NAME(RETRY_EXC_ERR),     NAME(RNR_RETRY_EXC_ERR),
        NAME(LOC_RDD_VIOL_ERR),  NAME(REM_INV_RD_REQ_ERR),
        NAME(REM_ABORT_ERR),     NAME(INV_EECN_ERR),
        NAME(INV_EEC_STATE_ERR), NAME(FATAL_ERR),
        NAME(RESP_TIMEOUT_ERR),  NAME(GENERAL_ERR),
    };

    return (unsigned)status < sizeof(names) / sizeof(names[0]) && names[status] ? names[status]
                                                                                : "unknown";
}

const char *state_name(int state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

    return state >= 0 && state < 7 ? names[state] : "none";
}

static struct ibv_context *open_named(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *ctx = NULL;
    bool found = false;

    for (unsigned i = 0; list && list[i] && !found; i++) {
        found = !name || !strcmp(ibv_get_device_name(list[i]), name);
        if (found)
            ctx = ibv_open_device(list[i]);
    }
    if (!found)
        fprintf(stderr, "verify: there is no RDMA device%s%s\n", name ? " " : "", name ? name : "");
    else if (!ctx)
        fprintf(stderr, "verify: the device cannot be opened: %s\n", strerror(errno));
    if (list)
        ibv_free_device_list(list);
    return ctx;
}

static bool is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return !memcmp(gid->raw, mapped, sizeof(mapped));
}

/* RoCEv2 over IPv4 if there is such an entry, else over a global IPv6 address, else any RoCEv2. */
static int rate(const struct ibv_gid_entry *e)
{
    if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
        return 1;
    if (is_ipv4(&e->gid))
        return 4;
    return e->gid.raw[0] == 0xfe ? 2 : 3;
}

static int choose_gid(struct session *s)
{
    int best = -1, best_rate = 0;

    for (int i = 0; i < s->port.gid_tbl_len; i++) {
        struct ibv_gid_entry e;

        if (!ibv_query_gid_ex(s->ctx, s->port_num, i, &e, 0) && rate(&e) > best_rate) {
            best = i;
            best_rate = rate(&e);
        }
    }
    return best;
}

static bool open_port(struct session *s)
{
    static const union ibv_gid none;
    struct ibv_gid_entry entry;

    if (ibv_query_device(s->ctx, &s->device) || ibv_query_port(s->ctx, s->port_num, &s->port)) {
        fprintf(stderr, "verify: the port cannot be queried: %s\n", strerror(errno));
        return false;
    }
    if (s->port.state != IBV_PORT_ACTIVE) {
        fprintf(stderr, "verify: the port is not active: %s\n", ibv_port_state_str(s->port.state));
        return false;
    }
    if (s->opt.gid_index < 0)
        s->opt.gid_index = choose_gid(s);
    if (ibv_query_gid(s->ctx, s->port_num, s->opt.gid_index, &s->gid) ||
        !memcmp(&s->gid, &none, sizeof(none))) {
        fprintf(stderr, "verify: there is no GID with index %d\n", s->opt.gid_index);
        return false;
    }
    s->is_roce_v1 = !ibv_query_gid_ex(s->ctx, s->port_num, s->opt.gid_index, &entry, 0) &&
                    entry.gid_type == IBV_GID_TYPE_ROCE_V1;
    s->is_rxe = s->device.vendor_id == RXE_VENDOR;
    s->rd_atomic = s->device.max_qp_rd_atom < RD_ATOMIC ? s->device.max_qp_rd_atom : RD_ATOMIC;
    s->mtu = 128u << s->port.active_mtu;
    if (s->opt.mtu > s->mtu) {
        fprintf(stderr, "verify: the port's MTU allows a path MTU of at most %u\n", s->mtu);
        return false;
    }
    if (s->opt.mtu)
        s->mtu = s->opt.mtu;
    return true;
}

bool device_open(struct session *s)
{
    s->port_num = 1;
    s->ctx = open_named(s->opt.device);
    if (!s->ctx)
        return false;
    if (open_port(s))
        return true;
    device_close(s);
    return false;
}

void device_close(struct session *s)
{
    if (ibv_close_device(s->ctx))
        fprintf(stderr, "verify: the device did not close: %s\n", strerror(errno));
}

/* ---- agreeing ---- */

/* In network byte order. */
struct hello {
    uint32_t version, mtu, rounds, sizes, is_rxe, rd_atomic;
    uint64_t seed;
    uint8_t gid[16];
    uint32_t size[MAX_SIZES];
};

/* Around every boundary of the segmentation, and one of very many packets. */
static void default_sizes(struct options *o, uint32_t mtu)
{
    const uint32_t sizes[] = {0,           1,       2,           3,        mtu - 1,
                              mtu,         mtu + 1, 2 * mtu - 1, 2 * mtu,  2 * mtu + 1,
                              3 * mtu + 2, 65536,   16 * mtu,    1u << 20, (1u << 20) + 3};

    o->sizes = sizeof(sizes) / sizeof(sizes[0]);
    memcpy(o->size, sizes, sizeof(sizes));
}

static bool is_mtu(uint32_t mtu)
{
    return mtu >= 256 && mtu <= 4096 && !(mtu & (mtu - 1));
}

static bool sizes_fit(const struct session *s)
{
    for (unsigned i = 0; i < s->opt.sizes; i++) {
        if (s->opt.size[i] > MAX_MESSAGE || s->opt.size[i] > s->port.max_msg_sz) {
            fprintf(stderr, "verify: messages of %u bytes are too long\n", s->opt.size[i]);
            return false;
        }
    }
    return true;
}

static void pack(const struct session *s, struct hello *h)
{
    *h = (struct hello){.version = htonl(VERIFY_VERSION),
                        .mtu = htonl(s->mtu),
                        .rounds = htonl(s->opt.rounds),
                        .sizes = htonl(s->opt.sizes),
                        .is_rxe = htonl(s->is_rxe),
                        .rd_atomic = htonl(s->rd_atomic),
                        .seed = htobe64(s->opt.seed)};
    memcpy(h->gid, s->gid.raw, 16);
    for (unsigned i = 0; i < s->opt.sizes; i++)
        h->size[i] = htonl(s->opt.size[i]);
}

bool device_agree(struct session *s)
{
    struct hello mine, theirs;

    pack(s, &mine);
    if (peer_exchange(s, &mine, &theirs, sizeof(mine)) != PASSED) {
        fprintf(stderr, "verify: %s\n", s->why);
        return false;
    }
    if (ntohl(theirs.version) != VERIFY_VERSION || ntohl(theirs.sizes) > MAX_SIZES ||
        !is_mtu(ntohl(theirs.mtu))) {
        fprintf(stderr, "verify: the peer is another version of this program\n");
        return false;
    }
    memcpy(s->peer_gid.raw, theirs.gid, 16);
    s->peer_is_rxe = ntohl(theirs.is_rxe);
    if (is_ipv4(&s->gid) != is_ipv4(&s->peer_gid)) {
        fprintf(stderr,
                "verify: one side's GID is of IPv4 and the other's of IPv6: use -g at both\n");
        return false;
    }
    if (ntohl(theirs.mtu) < s->mtu)
        s->mtu = ntohl(theirs.mtu);
    if (ntohl(theirs.rd_atomic) < s->rd_atomic)
        s->rd_atomic = ntohl(theirs.rd_atomic);
    if (!s->opt.host) {
        s->opt.rounds = ntohl(theirs.rounds);
        s->opt.seed = be64toh(theirs.seed);
        s->opt.sizes = ntohl(theirs.sizes);
        for (unsigned i = 0; i < s->opt.sizes; i++)
            s->opt.size[i] = ntohl(theirs.size[i]);
    }
    if (!s->opt.sizes)
        default_sizes(&s->opt, s->mtu);
    return sizes_fit(s);
}
