/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the daemon returns to programs that make connections: librdmacm is the client of a daemon in
 * this process (fuzz_daemon.h), whose answers and events are changed on the way, or invented.
 * Nothing that comes back may crash the library, make it write outside of its own memory, or keep a
 * program waiting when the daemon has ended.
 *
 * The program keeps the rules of the manual: it acknowledges each event before it destroys the id,
 * and destroys the ids of a channel before the channel.
 *
 * Input: actions, as those of fuzz_client.c. See make_rdmacm_corpus.py.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#include "cma.h"
#include "fuzz.h"
#include "fuzz_daemon.h"
#include "fuzz_rdmacm.h"

#define ACTIONS  120
#define IDS      5
#define CHANNELS 2
#define PORT     7471

enum action {
    ACT_CHANNEL,
    ACT_ID,
    ACT_BIND,
    ACT_ADDR,
    ACT_ROUTE,
    ACT_LISTEN,
    ACT_QP,
    ACT_SRQ,
    ACT_CONNECT,
    ACT_ACCEPT,
    ACT_REJECT,
    ACT_ESTABLISH,
    ACT_NOTIFY,
    ACT_DISCONNECT,
    ACT_DESTROY,
    ACT_MIGRATE,
    ACT_OPTION,
    ACT_ECE,
    ACT_JOIN,
    ACT_LEAVE,
    ACT_ATTR,
    ACT_EVENTS,
    ACT_EP,
    ACT_REQUEST,
    ACT_DEVICES,
    ACT_ADDRINFO,
    ACT_WORK,
    ACT_TELL,
    ACT_END,
    ACT_COUNT
};

static struct {
    struct rdma_event_channel *channel[CHANNELS];
    struct rdma_cm_id *id[IDS];
} app;

/* ---- waiting ---- */

static bool is_readable(struct pollfd *p, nfds_t n)
{
    return kernel_poll(p, n, 0) != 0;
}

/* A program that waits lets the daemon work. When that brings nothing, the daemon ends, which must
 * bring something. */
PUBLIC int poll(struct pollfd *p, nfds_t n, int timeout)
{
    if (timeout >= 0)
        return kernel_poll(p, n, timeout);
    for (unsigned turns = 0; turns < 8 && !is_readable(p, n); turns++)
        daemon_work(1);
    if (!is_readable(p, n))
        daemon_end();
    REQUIRE(is_readable(p, n));
    return kernel_poll(p, n, 0);
}

/* ---- the program's objects ---- */

static unsigned find_id(const struct rdma_cm_id *id)
{
    unsigned i = 0;

    while (i < IDS && app.id[i] != id)
        i++;
    return i;
}

static void drop_id(unsigned i)
{
    struct rdma_cm_id *id = app.id[i];

    if (!id)
        return;
    rdma_destroy_qp(id);
    rdma_destroy_srq(id);
    if (!rdma_destroy_id(id))
        app.id[i] = NULL;
}

static bool is_used(const struct rdma_event_channel *channel)
{
    for (unsigned i = 0; i < IDS; i++)
        if (app.id[i] && app.id[i]->channel == channel)
            return true;
    return false;
}

static void drop_channel(unsigned i)
{
    if (!app.channel[i] || is_used(app.channel[i]))
        return;
    rdma_destroy_event_channel(app.channel[i]);
    app.channel[i] = NULL;
}

static void make_channel(unsigned i)
{
    if (app.channel[i]) {
        drop_channel(i);
        return;
    }
    app.channel[i] = rdma_create_event_channel();
    if (app.channel[i])
        fcntl(app.channel[i]->fd, F_SETFL, O_NONBLOCK);
}

/* The remainder of 4 is the port space; 4: synchronous, 8: the second channel. */
static void make_id(unsigned i, uint8_t how)
{
    static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB,
                                                  RDMA_PS_IPOIB};
    struct rdma_event_channel *channel = how & 4 ? NULL : app.channel[how / 8 % CHANNELS];

    if (app.id[i] || (!channel && !(how & 4)))
        return;
    if (rdma_create_id(channel, &app.id[i], NULL, spaces[how % 4]))
        app.id[i] = NULL;
}

/* ---- addresses ---- */

/* Which of these; its port is PORT and the upper half. */
static struct sockaddr *address(uint8_t which, struct sockaddr_storage *room)
{
    static const char *const text[] = {
        "127.0.0.1", "0.0.0.0", "::1", "::", "10.0.0.2", "224.1.2.3", "ff0e::7", "192.0.2.1"};
    const char *of = text[which % ARRAY_SIZE(text)];
    struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)room;
    struct sockaddr_in *sin = (struct sockaddr_in *)room;
    uint16_t number = htons((uint16_t)(which & 8 ? 0 : PORT + which / 16));

    memset(room, 0, sizeof(*room));
    if (strchr(of, ':')) {
        sin6->sin6_family = AF_INET6;
        sin6->sin6_port = number;
        inet_pton(AF_INET6, of, &sin6->sin6_addr);
    } else {
        sin->sin_family = AF_INET;
        sin->sin_port = number;
        inet_pton(AF_INET, of, &sin->sin_addr);
    }
    return (struct sockaddr *)room;
}

/* Source, 255: none; destination. */
static void resolve(struct rdma_cm_id *id)
{
    struct sockaddr_storage room[2];
    uint8_t src = take(&in);
    struct sockaddr *from = src == UINT8_MAX ? NULL : address(src, &room[0]);

    rdma_resolve_addr(id, from, address(take(&in), &room[1]), 2000);
}

static struct rdma_addrinfo *look_up(uint8_t which, int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = flags | RAI_NUMERICHOST,
                                  .ai_port_space = RDMA_PS_TCP},
                         *found = NULL;

    return rdma_getaddrinfo(which & 1 ? "::1" : "127.0.0.1", "7471", &hints, &found) ? NULL : found;
}

/* ---- connections ---- */

static void make_qp(struct rdma_cm_id *id, uint8_t how)
{
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 16}, .qp_type = id->qp_type};

    if (id->qp)
        rdma_destroy_qp(id);
    else if (how & 1)
        attr.qp_type = IBV_QPT_UC;
    if (!id->qp)
        rdma_create_qp(id, how & 2 ? NULL : id->pd, &attr);
}

static void make_srq(struct rdma_cm_id *id)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};

    if (id->srq)
        rdma_destroy_srq(id);
    else
        rdma_create_srq(id, NULL, &attr);
}

/* What the program wants of the other side: READs each way; bytes of private data; 128: as much as
 * there is. */
static struct rdma_conn_param *take_param(struct rdma_conn_param *p)
{
    static const char text[UINT8_MAX];
    uint8_t how = take(&in), len = take(&in);

    *p = (struct rdma_conn_param){.private_data = text,
                                  .private_data_len = len,
                                  .responder_resources = how & 128 ? RDMA_MAX_RESP_RES : how & 7,
                                  .initiator_depth = how & 128 ? RDMA_MAX_INIT_DEPTH : how & 7,
                                  .retry_count = 7,
                                  .rnr_retry_count = 7,
                                  .qp_num = 77};
    return how & 64 ? NULL : p;
}

/* One of the daemon's options, with a value of any length. */
static void set_option(struct rdma_cm_id *id, uint8_t which)
{
    struct ibv_path_data path = {.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
                                          IBV_PATH_FLAG_BIDIRECTIONAL};
    uint32_t value = take(&in);

    if (which & 128)
        rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path));
    else
        rdma_set_option(id, RDMA_OPTION_ID, which % 8, &value, which & 8 ? 1 : sizeof(value));
}

static void exchange_ece(struct rdma_cm_id *id, uint8_t vendor)
{
    struct ibv_ece ece = {.vendor_id = vendor};

    rdma_set_local_ece(id, &ece);
    rdma_get_remote_ece(id, &ece);
}

static void join(struct rdma_cm_id *id, uint8_t which)
{
    struct sockaddr_storage room;
    struct rdma_cm_join_mc_attr_ex attr = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
                                                        RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
                                           .join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
                                           .addr = address(which, &room)};

    if (which & 128)
        rdma_join_multicast_ex(id, &attr, NULL);
    else
        rdma_join_multicast(id, attr.addr, NULL);
}

static void leave(struct rdma_cm_id *id, uint8_t which)
{
    struct sockaddr_storage room;

    rdma_leave_multicast(id, address(which, &room));
}

static void ask_attributes(struct rdma_cm_id *id)
{
    for (enum ibv_qp_state state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
        struct ibv_qp_attr attr = {.qp_state = state};
        int mask;

        rdma_init_qp_attr(id, &attr, &mask);
    }
}

static void migrate(struct rdma_cm_id *id, uint8_t where)
{
    rdma_migrate_id(id, where % (CHANNELS + 1) ? app.channel[where % (CHANNELS + 1) - 1] : NULL);
}

/* ---- events ---- */

static void read_data(const void *data, uint8_t len)
{
    const volatile uint8_t *byte = data;

    while (data && len--)
        (void)*byte++;
}

/* A program reads all that an event has. */
static void read_event(const struct rdma_cm_event *e)
{
    const struct rdma_route *route = &e->id->route;
    unsigned i = find_id(e->id);

    REQUIRE(e->event == RDMA_CM_EVENT_CONNECT_REQUEST || i < IDS);
    REQUIRE(e->event != RDMA_CM_EVENT_CONNECT_REQUEST || find_id(e->listen_id) < IDS);
    read_data(e->param.conn.private_data,
              e->id->qp_type == IBV_QPT_UD && e->event == RDMA_CM_EVENT_MULTICAST_JOIN
                  ? 0
                  : e->param.conn.private_data_len);
    for (int n = 0; n < route->num_paths; n++)
        read_data(&route->path_rec[n], sizeof(route->path_rec[n]));
    rdma_event_str(e->event);
}

/* The program keeps a request's id, if it has room. */
static void keep_request(struct rdma_cm_id *id)
{
    unsigned i = find_id(NULL);

    if (i < IDS)
        app.id[i] = id;
    else if (!rdma_reject(id, "no", 2) || errno)
        rdma_destroy_id(id);
}

static void take_events(struct rdma_event_channel *channel, unsigned n)
{
    struct rdma_cm_event *e;
    struct rdma_cm_id *fresh;

    for (; channel && n && !rdma_get_cm_event(channel, &e); n--) {
        read_event(e);
        fresh = e->event == RDMA_CM_EVENT_CONNECT_REQUEST ? e->id : NULL;
        rdma_ack_cm_event(e);
        if (fresh)
            keep_request(fresh);
    }
}

static void get_request(struct rdma_cm_id *listener)
{
    struct rdma_cm_id *id;

    if (rdma_get_request(listener, &id))
        return;
    read_event(id->event);
    rdma_ack_cm_event(id->event);
    id->event = NULL;
    keep_request(id);
}

static void make_endpoint(unsigned i, uint8_t how)
{
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 16}};
    struct rdma_addrinfo *info = look_up(how, how & 2 ? RAI_PASSIVE : 0);

    if (info && !app.id[i] && rdma_create_ep(&app.id[i], info, NULL, how & 4 ? &attr : NULL))
        app.id[i] = NULL;
    if (info)
        rdma_freeaddrinfo(info);
}

/* Not in rdma_cma.h of rdma-core 44. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                          const struct rdma_addrinfo *hints);

static void resolve_info(struct rdma_cm_id *id)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP};

    rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints);
}

static void list_devices(void)
{
    int n;
    struct ibv_context **list = rdma_get_devices(&n);

    for (int i = 0; list && i < n; i++)
        ibv_get_device_name(list[i]->device);
    if (list)
        rdma_free_devices(list);
}

/* ---- what the daemon says by itself ---- */

/*
 * An event of the program's id that has not happened. Its type; what it has: 1 a device, 2 a path,
 * 4 steps, 8 the id's cookie, 16 another serial number; and the changes.
 */
static void tell(const struct rdma_cm_id *base)
{
    const struct cma_id *id = to_id((struct rdma_cm_id *)base);
    uint8_t type = take(&in), has = take(&in);
    struct ctl_cm_told told = {.serial = id->entry.serial + (has & 16 ? 1 : 0)};

    told.event = (struct ctl_cm_event){.type = type,
                                       .id = id->entry.handle,
                                       .cookie = has & 8 ? id->entry.cookie : 0,
                                       .qp_is_led = has >> 7,
                                       .channel = to_channel(base->channel)->handle};
    told.info = (struct ctl_cm_info){
        .has_device = has & 1, .has_path = has & 2, .node_guid = id->device ? id->device->guid : 0};
    memset(told.steps.mask, has & 4 ? 0xff : 0, sizeof(told.steps.mask));
    daemon_tell(told.event.channel, &told);
}

/* ---- an input ---- */

static void act_on_connection(uint8_t action, struct rdma_cm_id *id, uint8_t operand)
{
    struct rdma_conn_param param;

    switch (action) {
    case ACT_CONNECT:
        rdma_connect(id, take_param(&param));
        break;
    case ACT_ACCEPT:
        rdma_accept(id, take_param(&param));
        break;
    case ACT_REJECT:
        rdma_reject(id, "no", operand % 3);
        break;
    case ACT_ESTABLISH:
        rdma_establish(id);
        break;
    case ACT_NOTIFY:
        rdma_notify(id, IBV_EVENT_COMM_EST);
        break;
    case ACT_DISCONNECT:
        rdma_disconnect(id);
        break;
    case ACT_REQUEST:
        get_request(id);
        break;
    case ACT_TELL:
        tell(id);
        break;
    default:
        break;
    }
}

static void act_on_id(uint8_t action, struct rdma_cm_id *id)
{
    bool has_operand =
        action != ACT_ADDR && action != ACT_CONNECT && action != ACT_ACCEPT && action != ACT_TELL;
    uint8_t operand = has_operand ? take(&in) : 0;
    struct sockaddr_storage room;

    switch (action) {
    case ACT_BIND:
        rdma_bind_addr(id, address(operand, &room));
        break;
    case ACT_ADDR:
        resolve(id);
        break;
    case ACT_ROUTE:
        rdma_resolve_route(id, 2000);
        break;
    case ACT_LISTEN:
        rdma_listen(id, operand);
        break;
    case ACT_QP:
        make_qp(id, operand);
        break;
    case ACT_SRQ:
        make_srq(id);
        break;
    case ACT_MIGRATE:
        migrate(id, operand);
        break;
    case ACT_OPTION:
        set_option(id, operand);
        break;
    case ACT_ECE:
        exchange_ece(id, operand);
        break;
    case ACT_JOIN:
        join(id, operand);
        break;
    case ACT_LEAVE:
        leave(id, operand);
        break;
    case ACT_ATTR:
        ask_attributes(id);
        break;
    case ACT_ADDRINFO:
        resolve_info(id);
        break;
    default:
        act_on_connection(action, id, operand);
    }
}

static void act(uint8_t action, uint8_t which)
{
    unsigned i = which % IDS;

    switch (action) {
    case ACT_CHANNEL:
        make_channel(which % CHANNELS);
        break;
    case ACT_ID:
        make_id(i, take(&in));
        break;
    case ACT_DESTROY:
        drop_id(i);
        break;
    case ACT_EVENTS:
        take_events(app.channel[which % CHANNELS], which / 8);
        break;
    case ACT_EP:
        make_endpoint(i, take(&in));
        break;
    case ACT_DEVICES:
        list_devices();
        break;
    case ACT_WORK:
        now += NS_PER_MS << take(&in) % 18;
        daemon_work(which % 16);
        break;
    case ACT_END:
        daemon_end();
        daemon_refuse(which & 1);
        break;
    default:
        if (app.id[i])
            act_on_id(action, app.id[i]);
    }
}

/* Only its own bytes are in the input while an action takes place. */
static void next_act(struct input *all)
{
    uint8_t action = take(all) % ACT_COUNT, which = take(all), n = take(all);

    in = (struct input){all->p, min_of((size_t)n, all->left)};
    all->p += in.left;
    all->left -= in.left;
    leftovers_note_link();
    act(action, which);
    in.left = 0;
}

/* What could not be destroyed, since an answer said so, can be when the daemon is gone. */
static void end_program(void)
{
    for (unsigned i = 0; i < IDS; i++)
        drop_id(i);
    daemon_end();
    for (unsigned i = 0; i < IDS; i++) {
        drop_id(i);
        REQUIRE(!app.id[i]);
    }
    for (unsigned i = 0; i < CHANNELS; i++)
        drop_channel(i);
    daemon_refuse(true);
    leftovers_drop();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input all = {data, size};

    daemon_start();
    for (unsigned n = 0; all.left && n < ACTIONS; n++)
        next_act(&all);
    end_program();
    daemon_stop();
    return 0;
}
