/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects behind the verbs API. Each begins with the structure that the application sees; the
 * rest is private. Functions return what the verbs manual pages say: a positive errno, or NULL with
 * errno set.
 */
#ifndef UROCE_SHIM_H
#define UROCE_SHIM_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "client.h"
#include "client_cq.h"
#include "client_dm.h"
#include "client_end.h"
#include "client_inherit.h"
#include "client_qp.h"
#include "client_srq.h"
#include "client_wq.h"
#include "uroce.h"

/* The header wraps these functions in macros; this library defines the functions. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT __attribute__((visibility("default")))

/*
 * libmlx5 and libefa, which perftest and libfabric load beside this library, recognise their own
 * devices by the word behind an ibv_device: here it must be a pointer that is not theirs.
 */
struct shim_device {
    struct ibv_device base;
    const void *driver;
    uint32_t index;
    uint64_t guid;
    char daemons_name[CTL_NAME_MAX]; /* base.name may be another one */
};

struct shim_context {
    struct verbs_context vctx;
    struct client client;
    struct ctl_device info;
    struct ctl_entropy entropy;  /* for each queue pair that it creates */
    int imported_fd;             /* cmd_fd of ibv_import_device; else -1 */
    _Atomic bool fatal_reported; /* the one event for the daemon's end */
};

struct shim_channel {
    struct ibv_comp_channel base;
    uint32_t handle;
};

struct shim_cq {
    struct ibv_cq_ex ex;
    struct client_cq queue;
    const struct cqe *current; /* between start_poll and end_poll */
    int64_t wall_offset;       /* of the wall clock from that of the CQEs' timestamps */
    bool wall_known;           /* since start_poll */
    uint32_t comp_delivered;   /* events that the application got: under the table's lock */
    uint32_t async_delivered;
};

/* The work request under construction by the ibv_wr_* calls, between start and complete. */
struct wr_builder {
    struct sqe *wqe; /* NULL: none, or the batch has failed */
    uint32_t prod;
    int err;
    struct shim_mw *bound; /* windows that the batch binds */
};

/* struct ibv_qp_ex as newer headers have it: Debian 12's ends before wr_flush. */
struct later_qp_ex {
    uint8_t before[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void))];
    void (*wr_flush)(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
                     uint8_t level);
};

struct shim_qp {
    union {
        struct ibv_qp_ex ex;
        struct later_qp_ex later;
    };
    bool has_wr_api;
    uint32_t pd; /* qp_base.pd's handle: the program may have ended what that points to */
    struct client_qp queue;
    struct wr_builder wr;
    struct ibv_qp_cap cap;
    bool sq_sig_all;
    uint32_t ece;             /* ECE_SAID with features, once the program has set them */
    uint32_t async_delivered; /* under the table's lock */
};

struct shim_ah {
    struct ibv_ah base;
    struct ibv_ah_attr attr;
    uint32_t number; /* its name in work requests */
};

struct shim_srq {
    struct ibv_srq base;
    struct client_srq queue;
    uint32_t async_delivered; /* under the table's lock */
};

struct shim_wq {
    struct ibv_wq base;
    struct client_wq queue;
    uint32_t async_delivered; /* under the table's lock */
};

struct shim_dm {
    struct ibv_dm base;
    struct client_dm memory;
};

struct shim_mw {
    struct ibv_mw base;
    uint32_t pd; /* as shim_qp.pd */
    /* While a batch binds it: the key that it has again if the batch is not posted. */
    bool in_batch;
    uint32_t key_before;
    struct shim_mw *next; /* of the batch */
};

struct shim_xrcd {
    struct ibv_xrcd base;
    uint32_t handle;
};

static inline struct shim_context *to_context(struct ibv_context *c)
{
    return container_of(c, struct shim_context, vctx.context);
}

static inline struct shim_channel *to_channel(struct ibv_comp_channel *channel)
{
    return (struct shim_channel *)channel;
}

static inline struct shim_cq *to_cq(struct ibv_cq *cq)
{
    return (struct shim_cq *)cq;
}

static inline struct shim_srq *to_srq(struct ibv_srq *srq)
{
    return (struct shim_srq *)srq;
}

/* A protection domain, or a parent domain. */
struct shim_pd {
    struct ibv_pd base;
    struct shim_pd *of; /* a parent domain's protection domain; NULL: it is none */
    struct shim_td *td;
    _Atomic uint32_t parents; /* parent domains of it, and PD_ENDED */
};

/* The program has unimported it, and the last of its parent domains frees it. */
#define PD_ENDED (1u << 31)

static inline struct shim_pd *to_pd(struct ibv_pd *pd)
{
    return (struct shim_pd *)pd;
}

static inline struct shim_mw *to_mw(struct ibv_mw *mw)
{
    return (struct shim_mw *)mw;
}

static inline struct shim_wq *to_wq(struct ibv_wq *wq)
{
    return (struct shim_wq *)wq;
}

static inline struct shim_ah *to_ah(struct ibv_ah *ah)
{
    return (struct shim_ah *)ah;
}

static inline struct shim_qp *to_qp(struct ibv_qp *qp)
{
    return (struct shim_qp *)qp;
}

static inline struct shim_qp *qp_of_ex(struct ibv_qp_ex *qp)
{
    return (struct shim_qp *)qp;
}

/* Whether a request to destroy an object has ended it: also when the daemon does not answer. */
static inline bool is_destroyed(int err)
{
    return !err || err == EIO || err == -EIO;
}

/* 0, or a positive errno that a call returns and, as the manual pages say, leaves in errno. */
static inline int failed(int err)
{
    if (err)
        errno = err;
    return err;
}

/* errno and NULL from a negative errno of lib/client. */
static inline void *refuse(int err)
{
    errno = -err;
    return NULL;
}

/* ---- exported, but declared in no public header ---- */
/* $SYSFS_PATH, or "/sys". */
EXPORT const char *ibv_get_sysfs_path(void);
/* Reads dir/file into buf and cuts a newline off its end. Returns the length, or -1 (errno). */
EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* ---- context.c ---- */
/* A control request of the context; 0 or a positive errno. */
int shim_call(struct ibv_context *c, enum ctl_type type, struct ctl_msg *m);

/* ---- device.c ---- */
/* The process's one object for the daemon's device. NULL: errno. */
struct ibv_device *shim_device_of(uint32_t index, const struct ctl_device *info);

/* ---- query.c: entries of the context's operation table ---- */
int shim_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t size);
/* Mbit/s; a likely speed when the port's driver does not know. */
uint32_t shim_port_speed(const struct ctl_port *port);
int shim_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *input,
                         struct ibv_device_attr_ex *attr, size_t size);
int shim_query_rt_values(struct ibv_context *c, struct ibv_values_ex *values);

/* ---- parent_domain.c ---- */
struct ibv_td *shim_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr);
int shim_dealloc_td(struct ibv_td *td);
struct ibv_pd *shim_alloc_parent_domain(struct ibv_context *c,
                                        struct ibv_parent_domain_init_attr *attr);
void parent_domain_free(struct shim_pd *pd);

/* ---- pd_mr.c, dm.c ---- */
/* The handle of its protection domain: mr->pd may be a parent domain that is gone. */
uint32_t shim_mr_pd(const struct ibv_mr *mr);
/* A region of what is not the program's memory (client_reg_other). NULL: errno. */
struct ibv_mr *shim_reg_other(struct ibv_pd *pd, struct ctl_reg_mr *r);
void shim_init_dm(struct shim_dm *dm, struct ibv_context *c);
struct ibv_dm *shim_alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *attr);
int shim_free_dm(struct ibv_dm *dm);
struct ibv_mr *shim_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
                              unsigned int access);
struct ibv_mr *shim_alloc_null_mr(struct ibv_pd *pd);
int shim_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                   struct ibv_sge *sge, uint32_t n);

/* ---- cq.c, cq_ex.c ---- */
int shim_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int shim_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *shim_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
int shim_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
/* wc_flags: the fields that the application reads, for which the queue has calls. */
void cq_ex_init(struct shim_cq *cq, uint64_t wc_flags);

/* ---- comp_channel.c ---- */
/* The application acknowledges n events. */
void shim_ack_events(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t n);
/* Waits until the application has acknowledged all events that it got for a destroyed object. */
void shim_wait_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
                    uint32_t delivered);

/* ---- qp.c, qp_ex.c, marshall.c ---- */
/* The fields that have the same name in struct ibv_qp_attr, in the kernel's structure and in the
 * protocol's. */
#define COPY_QP_ATTR(to, from)                                   \
    do {                                                         \
        (to)->path_mtu = (from)->path_mtu;                       \
        (to)->path_mig_state = (from)->path_mig_state;           \
        (to)->qkey = (from)->qkey;                               \
        (to)->rq_psn = (from)->rq_psn;                           \
        (to)->sq_psn = (from)->sq_psn;                           \
        (to)->pkey_index = (from)->pkey_index;                   \
        (to)->en_sqd_async_notify = (from)->en_sqd_async_notify; \
        (to)->max_rd_atomic = (from)->max_rd_atomic;             \
        (to)->max_dest_rd_atomic = (from)->max_dest_rd_atomic;   \
        (to)->min_rnr_timer = (from)->min_rnr_timer;             \
        (to)->port_num = (from)->port_num;                       \
        (to)->timeout = (from)->timeout;                         \
        (to)->retry_cnt = (from)->retry_cnt;                     \
        (to)->rnr_retry = (from)->rnr_retry;                     \
    } while (0)

struct ibv_qp *shim_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *shim_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *attr);
int shim_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
/* Fills in the ibv_wr_* calls. 0, or EOPNOTSUPP: the service does not have all of send_ops. */
int qp_ex_init(struct shim_qp *qp, enum ibv_qp_type type, uint64_t send_ops);

/* ---- srq.c, xrcd.c, mw.c ---- */
struct ibv_srq *shim_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr);
int shim_get_srq_num(struct ibv_srq *srq, uint32_t *number);
/* The name of a work request, for people. */
const char *shim_wr_opcode_str(unsigned opcode);
int shim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_xrcd *shim_open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *attr);
int shim_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_mw *shim_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int shim_dealloc_mw(struct ibv_mw *mw);
int shim_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* Fills in the bind part of a WQE. */
void build_bind(struct sqe *s, struct ibv_mw *mw, uint32_t key,
                const struct ibv_mw_bind_info *info);

/* ---- wq.c, flow.c ---- */
struct ibv_wq *shim_create_wq(struct ibv_context *c, struct ibv_wq_init_attr *attr);
int shim_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int shim_destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *shim_create_rwq_ind_table(struct ibv_context *c,
                                                    struct ibv_rwq_ind_table_init_attr *attr);
int shim_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);
struct ibv_flow *shim_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int shim_destroy_flow(struct ibv_flow *flow);
struct ibv_counters *shim_create_counters(struct ibv_context *c,
                                          struct ibv_counters_init_attr *attr);
int shim_destroy_counters(struct ibv_counters *counters);
int shim_attach_counters_point_flow(struct ibv_counters *counters,
                                    struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
int shim_read_counters(struct ibv_counters *counters, uint64_t *value, uint32_t n, uint32_t flags);

/* ---- post.c ---- */
/* The flags of a WQE for those of a work request, which have others than any queue pair takes.
 * UINT_MAX: the queue pair does not take them either. */
unsigned raw_send_flags(const struct shim_qp *qp, unsigned flags);
/* Writes a receive WQE. 0 or EINVAL. */
int build_recv(const struct client_ring *rq, struct rqe *r, const struct ibv_recv_wr *wr);
/* Writes receive WQEs and publishes them, under the ring's lock. 0, EINVAL, ENOMEM, or EIO: the
 * daemon is gone. */
int post_receives(struct client_ring *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int shim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int shim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* Nearly always one or two: a loop beats a call of memcpy. */
static inline void copy_sges(void *to, const struct ibv_sge *from, unsigned n)
{
    struct ibv_sge *sge = to; /* struct sge has the same layout */

    for (unsigned i = 0; i < n; i++)
        sge[i] = from[i];
}

/* Whether the request may have its only SGE in the header. */
static inline bool has_room_for_sge(const struct shim_qp *qp, const struct sqe *s)
{
    return qp->ex.qp_base.qp_type != IBV_QPT_UD && sqe_has_free_words(s->opcode);
}

static inline void put_sge_in_header(struct sqe *s, const struct ibv_sge *sge)
{
    s->flags |= SQE_SGE_IN_HEADER;
    copy_sges(&s->sge, sge, 1);
}

/* Copies n bytes, from `size`, a constant, to twice that. */
ALWAYS_INLINE void copy_ends(uint8_t *to, const uint8_t *from, uint32_t n, uint32_t size)
{
    uint8_t first[16], last[16];

    memcpy(first, from, size);
    memcpy(last, from + n - size, size);
    memcpy(to, first, size);
    memcpy(to + n - size, last, size);
}

/* Inline data is short. */
static inline void copy_inline(uint8_t *to, const uint8_t *from, uint32_t n)
{
    if (n > 32)
        memcpy(to, from, n);
    else if (n >= 16)
        copy_ends(to, from, n, 16);
    else if (n >= 8)
        copy_ends(to, from, n, 8);
    else if (n >= 4)
        copy_ends(to, from, n, 4);
    else if (n >= 2)
        copy_ends(to, from, n, 2);
    else if (n)
        *to = *from;
}

/* Whether work may be posted in this state of the queue pair. */
static inline bool send_allowed(enum ibv_qp_state s)
{
    return s == IBV_QPS_RTS || s == IBV_QPS_SQD || s == IBV_QPS_SQE || s == IBV_QPS_ERR;
}

/* ---- query.c ---- */
/* The device id of $UROCE_VENDOR_PART_ID, if it is set. 0; -EINVAL, with a line on standard error:
 * its value is no such number. */
int shim_part_id_chosen(struct ctl_device *info);

/* ---- uroce.c ---- */
/* $UROCE_ENTROPY, or the port's policy when it is not set. 0; -EINVAL, with a line on standard
 * error: its value is unknown. */
int shim_entropy_default(struct ctl_entropy *entropy);

/* ---- ah.c ---- */
/* The protocol's form of an address vector, and back. */
void ah_attr_to_ctl(struct ah_attr *to, const struct ibv_ah_attr *from);
void ah_attr_from_ctl(struct ibv_ah_attr *to, const struct ah_attr *from);

#endif
