/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions, and the handler of each message. */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm/cm_object.h"
#include "control/fault_rules.h"
#include "control/inherit.h"
#include "control/join.h"
#include "control/query.h"
#include "control/session_state.h"
#include "control/socket_end.h"
#include "control/watch_call.h"
#include "objects/ah.h"
#include "objects/counter_object.h"
#include "objects/cq_channel.h"
#include "objects/dm.h"
#include "objects/flow.h"
#include "objects/import.h"
#include "objects/mcast.h"
#include "objects/mw.h"
#include "objects/pd_mr.h"
#include "objects/qp_object.h"
#include "objects/qp_open.h"
#include "objects/srq_object.h"
#include "objects/walk.h"
#include "objects/wq_object.h"
#include "objects/xrcd.h"
#include "show/show.h"
#include "show/shown.h"

static void read_comm(struct session *sn)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/comm", sn->peer.pid);
    f = fopen(path, "re");
    if (!f)
        return;
    if (!fgets(sn->comm, sizeof(sn->comm), f))
        sn->comm[0] = 0;
    sn->comm[strcspn(sn->comm, "\n")] = 0;
    fclose(f);
}

/*
 * A connection costs the daemon two descriptors (its socket, its process), one for the turns of its
 * process if it is the first, and one while a request waits; and the messages in a socket that the
 * application does not read. Owners that have taken everything can still look at it, with a
 * connection that opens no device.
 */
static struct quota_cost connection_cost(const struct session *sn)
{
    struct quota_cost cost = {{[QUOTA_CONNECTION] = 1, [QUOTA_DESCRIPTOR] = 4}};

    if (!sn->account.user->owner)
        cost.n[QUOTA_MEMORY] = sizeof(struct session) + SOCKET_MEMORY;
    return cost;
}

static int open_account(struct session *sn, uid_t uid)
{
    struct quota_cost cost;
    int err;

    sn->rnic->quota.owner = geteuid(); /* the daemon may have changed its user */
    err = quota_account_open(&sn->rnic->quota, uid, &sn->account);
    if (err)
        return err;
    cost = connection_cost(sn);
    return quota_charge(&sn->account, &cost);
}

struct session *session_create(struct rnic *r, const struct ucred *peer)
{
    struct session *sn = calloc(1, sizeof(*sn));

    if (!sn)
        return NULL;
    sn->rnic = r;
    if (open_account(sn, peer->uid)) {
        quota_account_close(&sn->account);
        free(sn);
        return NULL;
    }
    sn->slabs.account = &sn->account;
    sn->slabs.owner = sn;
    dm_open(sn);
    sn->peer = *peer;
    sn->socket = -1;
    sn->async_fd = -1;
    sn->resize.fd = -1;
    TAILQ_INIT(&sn->late_events);
    sn->shown.fd = -1;
    for (unsigned i = 0; i < OBJ_KINDS; i++)
        TAILQ_INIT(&sn->objects[i]);
    read_comm(sn);
    TAILQ_INSERT_TAIL(&r->sessions, sn, link);
    r->session_count++;
    cpu_count_add(r, peer->pid);
    return sn;
}

int session_leave(struct session *sn)
{
    const struct ctx_shared *shared = sn->segment.base;

    if (!sn->device || sn->ending || sn->away.state != AWAY_NOT ||
        !atomic_load_explicit(&shared->forked, memory_order_relaxed))
        return -1;
    session_process_ended(sn);
    async_pause(sn);
    sn->is_left = true;
    return sn->async_fd;
}

bool session_process_ended(struct session *sn)
{
    sn->process_ended = true;
    if (sn->space)
        sn->rnic->config.mem->space_gone(sn->space);
    return sn->device != NULL;
}

/* Each object before the objects that it uses. */
static bool free_some_objects(struct session *sn, const struct slice *s)
{
    static bool (*const free_some[])(struct session * sn, const struct slice *s) = {
        qp_handles_free_some, qp_free_some, rwq_ind_free_some, wq_free_some,     srq_free_some,
        xrcd_free_some,       cq_free_some, channel_free_some, ah_free_some,     mw_free_some,
        mr_free_some,         dm_free_some, pd_free_some,      counter_free_some};

    if (cm_ids_free_some(sn, s) || cm_channels_free_some(sn, s))
        return true;
    if (!sn->device)
        return false;
    flow_free_all(sn); /* few */
    for (unsigned i = 0; i < ARRAY_SIZE(free_some); i++)
        if (free_some[i](sn, s))
            return true;
    return false;
}

static void close_socket(struct session *sn)
{
    struct quota_cost cost = connection_cost(sn);

    if (sn->socket >= 0)
        socket_end(sn->rnic->errands, &sn->peer, sn->socket, &sn->account, &cost, NULL);
}

bool session_close_some(struct session *sn)
{
    struct slice s = slice_begin();

    sn->ending = true;
    session_process_ended(sn);
    if (free_some_objects(sn, &s))
        return true;
    mrs_end_freeze(sn);
    srq_end_resize(sn);
    show_cancel(sn);
    shown_end(sn);
    watch_end(sn);
    ctx_close(sn);
    join_end(sn);
    walks_pass_session(sn->rnic, sn);
    TAILQ_REMOVE(&sn->rnic->sessions, sn, link);
    sn->rnic->session_count--;
    cpu_count_leave(sn->rnic);
    close_socket(sn);
    quota_account_close(&sn->account);
    free(sn);
    return false;
}

void session_close(struct session *sn)
{
    while (session_close_some(sn)) {
    }
}

static const struct {
    int (*fn)(struct session *sn, struct ctl_call *call);
    bool anytime; /* also before CTL_OPEN */
    unsigned fds; /* descriptors that may come with it */
    bool frees;   /* a piece of a slab: struct ctl_destroy */
} handler[] = {
    [CTL_QUERY_DEVICE] = {query_device, true, 0},
    [CTL_QUERY_PORT] = {query_port, false, 0},
    [CTL_QUERY_GID] = {query_gid, false, 0},
    [CTL_OPEN] = {ctx_open, true, 0},
    [CTL_ALLOC_PD] = {pd_alloc, false, 0},
    [CTL_DEALLOC_PD] = {pd_dealloc, false, 0},
    [CTL_REG_MR] = {mr_register, false, 1},
    [CTL_DEREG_MR] = {mr_deregister, false, 0},
    [CTL_CREATE_CHANNEL] = {cq_channel_create, false, 0},
    [CTL_DESTROY_CHANNEL] = {cq_channel_destroy, false, 0},
    [CTL_CREATE_CQ] = {cq_create, false, 0},
    [CTL_DESTROY_CQ] = {cq_destroy, false, 0, true},
    [CTL_RAISE_CQ] = {cq_raise, false, 0},
    [CTL_RESIZE_CQ] = {cq_resize, false, 0},
    [CTL_MODIFY_CQ] = {cq_modify, false, 0},
    [CTL_JOIN] = {ctx_join, true, 0},
    [CTL_IMPORT] = {object_import, false, 0},
    [CTL_UNIMPORT] = {object_unimport, false, 0},
    [CTL_RESIZE_CQ_DONE] = {cq_resize_done, false, 0, true},
    [CTL_ALLOC_DM] = {dm_alloc, false, 0},
    [CTL_FREE_DM] = {dm_free, false, 0, true},
    [CTL_CREATE_COUNTER] = {counter_create, false, 0},
    [CTL_DESTROY_COUNTER] = {counter_destroy, false, 0, true},
    [CTL_ATTACH_COUNTER] = {counter_attach, false, 0},
    [CTL_CREATE_QP] = {qp_object_create, false, 0},
    [CTL_CREATE_QP_IN] = {qp_object_create_in, false, 0},
    [CTL_MODIFY_QP] = {qp_object_modify, false, 0},
    [CTL_OPEN_QP] = {qp_handle_open, false, 0},
    [CTL_QUERY_QP] = {qp_object_query, false, 0},
    [CTL_DESTROY_QP] = {qp_object_destroy, false, 0, true},
    [CTL_CREATE_AH] = {ah_create, false, 0},
    [CTL_DESTROY_AH] = {ah_destroy, false, 0},
    [CTL_CREATE_SRQ] = {srq_object_create, false, 0},
    [CTL_MODIFY_SRQ] = {srq_object_modify, false, 0},
    [CTL_QUERY_SRQ] = {srq_object_query, false, 0},
    [CTL_DESTROY_SRQ] = {srq_object_destroy, false, 0, true},
    [CTL_OPEN_XRCD] = {xrcd_open, false, 1},
    [CTL_CLOSE_XRCD] = {xrcd_close, false, 0},
    [CTL_ALLOC_MW] = {mw_alloc, false, 0},
    [CTL_DEALLOC_MW] = {mw_dealloc, false, 0},
    [CTL_ATTACH_MCAST] = {mcast_attach, false, 0},
    [CTL_DETACH_MCAST] = {mcast_detach, false, 0},
    [CTL_CREATE_WQ] = {wq_object_create, false, 0},
    [CTL_MODIFY_WQ] = {wq_object_modify, false, 0},
    [CTL_DESTROY_WQ] = {wq_object_destroy, false, 0, true},
    [CTL_CREATE_RWQ_IND] = {rwq_ind_object_create, false, 0},
    [CTL_MODIFY_RWQ_IND] = {rwq_ind_object_modify, false, 0},
    [CTL_DESTROY_RWQ_IND] = {rwq_ind_object_destroy, false, 0},
    [CTL_CREATE_FLOW] = {flow_create, false, 0},
    [CTL_DESTROY_FLOW] = {flow_destroy, false, 0},
    [CTL_QUERY_FLOW] = {flow_query, false, 0},
    [CTL_SET_ENTROPY] = {qp_object_set_entropy, false, 0},
    [CTL_SHOW] = {show, true, 0},
    [CTL_FREEZE_MRS] = {mrs_freeze, false, 0},
    [CTL_THAW_MRS] = {mrs_thaw, false, 0},
    [CTL_REMAP_MR] = {mr_remap, false, 1},
    [CTL_GET_UFFD] = {uffd_get, true, 0},
    [CTL_HOT_MRS] = {mrs_hot, false, 0},
    [CTL_CM_CREATE_CHANNEL] = {cm_create_channel, true, 0},
    [CTL_CM_DESTROY_CHANNEL] = {cm_destroy_channel, true, 0},
    [CTL_CM_CREATE_ID] = {cm_create_id, true, 0},
    [CTL_CM_DESTROY_ID] = {cm_destroy_id, true, 0},
    [CTL_CM_BIND] = {cm_bind_id, true, 0},
    [CTL_CM_RESOLVE_ADDR] = {cm_resolve_addr, true, 0},
    [CTL_CM_RESOLVE_ROUTE] = {cm_resolve_route, true, 0},
    [CTL_CM_QUERY] = {cm_query_id, true, 0},
    [CTL_CM_LISTEN] = {cm_listen_id, true, 0},
    [CTL_CM_CONNECT] = {cm_connect_id, true, 0},
    [CTL_CM_ACCEPT] = {cm_accept_id, true, 0},
    [CTL_CM_REJECT] = {cm_reject_id, true, 0},
    [CTL_CM_ESTABLISH] = {cm_establish_id, true, 0},
    [CTL_CM_DISCONNECT] = {cm_disconnect_id, true, 0},
    [CTL_CM_NOTIFY] = {cm_notify_id, true, 0},
    [CTL_CM_QP_ATTR] = {cm_get_qp_attr, true, 0},
    [CTL_CM_SET_OPTION] = {cm_set_option, true, 0},
    [CTL_CM_MIGRATE] = {cm_migrate_id, true, 0},
    [CTL_CM_JOIN] = {cm_join_group, true, 0},
    [CTL_CM_LEAVE] = {cm_leave_group, true, 0},
    [CTL_CM_WITH_QP] = {cm_call_with_qp, true, 0},
    [CTL_INHERIT] = {ctx_inherit, true, 0},
    [CTL_FAULT] = {fault_rules_call, true, 0},
    [CTL_JUDGE] = {judge_call, false, 0},
    [CTL_WATCH] = {watch_call, true, 0},
};

unsigned session_takes_fds(unsigned type)
{
    return type < ARRAY_SIZE(handler) ? handler[type].fds : 0;
}

static void unkeep_slab(struct session *sn, const struct ctl_msg *request)
{
    uint64_t id = request->destroy.slab_gone;

    if (!id)
        return;
    slab_unkeep(&sn->slabs, id);
    slab_unkeep(&sn->dm_slabs, id);
}

static int dispatch(struct session *sn, struct ctl_call *call)
{
    unsigned type = call->request->type;
    int err;

    if (type >= ARRAY_SIZE(handler) || !handler[type].fn)
        return -EOPNOTSUPP;
    if (!handler[type].anytime && !sn->device)
        return -ENOTCONN;
    if (call->in_fds > handler[type].fds)
        return -EINVAL;
    err = call->again ? 0 : fault_verbs_check(sn, call->request);
    if (!err && handler[type].frees)
        unkeep_slab(sn, call->request);
    return err ? err : handler[type].fn(sn, call);
}

void session_post_failed(struct session *sn, const struct ctl_msg *request, int status)
{
    cm_post_failed(sn, request, status);
}

/* The request failed before it took what its errand has found, as an object that it names has ended
 * in the meantime. The next request must not take it. */
static void forget_errand(struct session *sn)
{
    sn->away.state = AWAY_NOT;
    if (sn->device)
        mr_forget_reach(sn);
    else
        ctx_forget_space(sn);
}

void session_dispatch(struct session *sn, struct ctl_call *call)
{
    call->reply = *call->request;
    call->reply.version = CTL_VERSION;
    call->out_fds = 0;
    call->reply.status = dispatch(sn, call);
    if (call->reply.status != -EINPROGRESS && sn->away.state == AWAY_DONE)
        forget_errand(sn);
    /* A call that failed passes no descriptors on. */
    while (call->reply.status && call->out_fds)
        close(call->out_fd[--call->out_fds]);
}
