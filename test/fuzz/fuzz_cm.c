/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communication manager in a hostile network: MADs, time and a program's calls in between.
 *
 * Input: steps, each an opcode byte and its operands; see make_cm_corpus.py. A MAD is either given
 * whole, or begun as a message of a kind with numbers of a connection that exists, and then
 * damaged. For every input: one received MAD makes at most three sent ones and two events, all that
 * is sent is a whole message, the manager's tables keep their bounds, and timers do not spin.
 */
#include <string.h>

#include "cm_internal.h"
#include "fuzz.h"
#include "gsi.h"
#include "peer_mad.h"

#define MAX_STEPS  400
#define IDS_MAX    32
#define HALF_OPEN  8
#define BACKLOG    4
#define SENT_MAX   3 /* MADs because of one received */
#define EVENTS_MAX 2
#define TIMERS_MAX 20000
#define PORT       7471

enum step {
    STEP_RAW,
    STEP_MESSAGE,
    STEP_AGAIN,
    STEP_TIME,
    STEP_CREATE,
    STEP_CALL,
    STEP_COUNT,
};

enum call {
    CALL_CONNECT,
    CALL_LISTEN,
    CALL_SIDR,
    CALL_ACCEPT,
    CALL_REJECT,
    CALL_DELAY,
    CALL_ESTABLISH,
    CALL_NOTIFY,
    CALL_DISCONNECT,
    CALL_REPLY,
    CALL_DESTROY,
    CALL_QP,
    CALL_COUNT,
};

struct fuzz {
    const uint8_t *p;
    size_t left;
    struct cm *cm;
    ns_t now;
    struct cm_id *id[IDS_MAX * 2];
    unsigned ids, sent, events;
    uint8_t last[MAD_LEN]; /* received */
};

static uint8_t u8(struct fuzz *f)
{
    if (!f->left)
        return 0;
    f->left--;
    return *f->p++;
}

static uint16_t u16(struct fuzz *f)
{
    uint8_t high = u8(f);

    return (uint16_t)(high << 8 | u8(f));
}

static void bytes(struct fuzz *f, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = u8(f);
}

/* ---- the host ---- */

static void on_send(void *ctx, const struct cm_path *path, const uint8_t *mad)
{
    struct fuzz *f = ctx;
    struct cm_msg msg;

    f->sent++;
    if (!cm_msg_parse(&msg, mad, MAD_LEN))
        REQUIRE(mad_get(mad, MAD_response) && mad_get(mad, MAD_base_version) == MAD_BASE_VERSION);
}

static void forget(struct fuzz *f, unsigned n)
{
    f->id[n] = f->id[--f->ids];
}

static void on_event(void *ctx, const struct cm_event *e)
{
    struct fuzz *f = ctx;
    const uint8_t *data = e->private.data, *info = e->info.data;
    unsigned sum = 0;

    f->events++;
    for (size_t i = 0; i < e->private.len; i++)
        sum += data[i];
    for (size_t i = 0; i < e->info.len; i++)
        sum += info[i];
    REQUIRE(sum <= 255 * (e->private.len + e->info.len));
    REQUIRE(e->id && !e->id->lingers);
    if (e->listener) {
        REQUIRE(f->ids < IDS_MAX);
        f->id[f->ids++] = e->id;
        REQUIRE(e->listener->waiting <= e->listener->backlog);
        REQUIRE(e->listener->half_open <= HALF_OPEN);
    }
}

static const struct cm_host_ops ops = {.send = on_send, .event = on_event};

static struct cm_path path_to(uint8_t host)
{
    struct cm_path path = {.ca_guid = 0x10,
                           .vlan = VLAN_NONE,
                           .pkey = 0xFFFF,
                           .port_num = 1,
                           .hop_limit = 64,
                           .mtu = 5,
                           .packet_life_time = 18,
                           .ack_delay = 15};

    path.sgid = gid_from_ipv4((const uint8_t[4]){10, 0, 0, 1});
    path.dgid = gid_from_ipv4((const uint8_t[4]){10, 0, 0, (uint8_t)(2 + host % 3)});
    return path;
}

/* ---- received MADs ---- */

static void check(const struct fuzz *f)
{
    unsigned linked = f->cm->by_remote_id.count;

    REQUIRE(f->cm->ids <= IDS_MAX);
    REQUIRE(linked <= f->cm->ids && f->cm->by_remote_qpn.count <= linked);
    REQUIRE(f->cm->by_service.count <= f->cm->ids && f->cm->ports.count <= f->cm->ids);
    REQUIRE(f->cm->timers.count <= f->cm->ids);
    for (unsigned i = 0; i < f->ids; i++)
        REQUIRE(cm_id_state(f->id[i]) < CM_STATE_COUNT);
}

/* What two ports tell each other: what is taken is what is sent, apart from bytes without a
 * meaning. */
static void read_peer(const uint8_t *mad)
{
    uint8_t same[MAD_LEN];
    uint32_t features, again;

    if (!peer_mad_read(mad, &features))
        return;
    peer_mad_ask(same, mad_get(mad, MAD_transaction_id), features);
    REQUIRE(peer_mad_read(same, &again) && again == features);
    REQUIRE(!memcmp(same + 8, mad + 8, 8) && !memcmp(same + 37, mad + 37, 15));
}

static void receive(struct fuzz *f, const uint8_t *mad, size_t len, uint8_t host)
{
    struct cm_path way = path_to(host);
    uint8_t *exact = malloc(len ? len : 1); /* reading behind it is an error */

    REQUIRE(exact);
    memcpy(exact, mad, len);
    memcpy(f->last, mad, len < MAD_LEN ? len : MAD_LEN);
    f->sent = f->events = 0;
    if (len >= MAD_LEN)
        read_peer(exact);
    cm_rx(f->cm, &way, exact, len, f->now);
    REQUIRE(f->sent <= SENT_MAX && f->events <= EVENTS_MAX);
    free(exact);
    check(f);
}

static void receive_raw(struct fuzz *f)
{
    uint8_t mad[MAD_LEN + 8] = {0}, host = u8(f);
    size_t len = u16(f) % (sizeof(mad) + 1);

    bytes(f, mad, len);
    receive(f, mad, len, host);
}

/* A message whose communication IDs are those of a connection, or what the input says. */
static void number(struct fuzz *f, uint8_t *mad, enum cm_message message, const struct cm_id *id)
{
    uint8_t *ours = mad + MAD_HEADER + 4, *theirs = mad + MAD_HEADER;
    uint32_t remote = id->remote_comm_id ? id->remote_comm_id : 0x01020304;

    if (message == CM_REQ || message == CM_SIDR_REQ)
        return;
    if (message == CM_SIDR_REP)
        ours = theirs;
    else
        memcpy(theirs, &(uint32_t){__builtin_bswap32(remote)}, 4);
    memcpy(ours, &(uint32_t){__builtin_bswap32(id->local_comm_id)}, 4);
    if (message == CM_DREQ)
        cm_msg_set(mad, CM_DREQ_remote_qpn, id->conn.qpn);
}

static void address_request(uint8_t *mad, enum cm_message message, uint8_t host)
{
    struct cm_path way = path_to(host);
    struct ip_cm_header h = {.ip_version = 4, .src_port = 99};
    bool req = message == CM_REQ;

    memcpy(h.src_addr, way.dgid.raw, 16);
    memcpy(h.dst_addr, way.sgid.raw, 16);
    ip_cm_build(cm_msg_private_room(mad, message), &h);
    cm_msg_set(mad, req ? CM_REQ_service_id : CM_SIDR_REQ_service_id,
               ip_cm_service_id(req ? IP_CM_PS_TCP : IP_CM_PS_UDP, PORT));
    if (!req)
        return;
    cm_msg_set(mad, CM_REQ_path_mtu, 5);
    cm_msg_set_bytes(mad, CM_REQ_primary_local_gid, way.dgid.raw, 16);
    cm_msg_set_bytes(mad, CM_REQ_primary_remote_gid, way.sgid.raw, 16);
}

/* Kind, host, which connection, how many bytes are damaged, and where and how. */
static void receive_message(struct fuzz *f)
{
    enum cm_message message = (enum cm_message)(u8(f) % CM_MESSAGE_COUNT);
    uint8_t host = u8(f), which = u8(f), damages = u8(f) % 8, mad[MAD_LEN];

    cm_msg_init(mad, message, which);
    if (message == CM_REQ || message == CM_SIDR_REQ)
        address_request(mad, message, host);
    if (f->ids)
        number(f, mad, message, f->id[which % f->ids]);
    while (damages--) {
        uint8_t at = u8(f);

        mad[at] ^= u8(f);
    }
    receive(f, mad, sizeof(mad), host);
}

/* ---- time ---- */

static void run_timers(struct fuzz *f, ns_t until)
{
    unsigned n = 0;

    while (cm_next_timer(f->cm) <= until) {
        f->now = cm_next_timer(f->cm) > f->now ? cm_next_timer(f->cm) : f->now;
        cm_timers(f->cm, f->now);
        REQUIRE(cm_next_timer(f->cm) > f->now);
        REQUIRE(++n < TIMERS_MAX);
    }
    f->now = until;
    check(f);
}

/* ---- the program ---- */

static void create(struct fuzz *f)
{
    static const enum ip_cm_port_space spaces[] = {IP_CM_PS_TCP, IP_CM_PS_UDP, IP_CM_PS_NONE,
                                                   IP_CM_PS_IB};
    enum ip_cm_port_space ps = spaces[u8(f) % 4];
    struct cm_addr addr = {
        .number = u8(f) & 1 ? PORT : 0, .vlan = CM_VLAN_ANY, .port = CM_PORT_ANY};
    struct cm_id *id;
    int err;

    id = f->ids < IDS_MAX ? cm_id_create(f->cm, ps, f, &err) : NULL;
    if (!id)
        return;
    f->id[f->ids++] = id;
    if (ps == IP_CM_PS_NONE)
        cm_bind_service(id, PORT);
    else if (u8(f) & 1)
        addr.gid = path_to(0).sgid;
    if (ps != IP_CM_PS_NONE)
        cm_bind(id, &addr, NULL, u8(f));
}

static void connect_id(struct fuzz *f, struct cm_id *id, bool sidr)
{
    uint8_t how = u8(f), data[100] = {0};
    struct cm_path path = path_to(how);
    struct cm_connect_param param = {
        .conn = {.qpn = u8(f), .qp_type = how & 0x80 ? CM_QP_UC : CM_QP_RC},
        .dst = {.gid = path.dgid, .number = PORT},
        .service_id = PORT,
        .max_cm_retries = how & 15,
        .response_timeout = how & 0x40 ? 1 : 0,
        .peer_to_peer = how & 0x20,
        .private = {data, u8(f) % sizeof(data)},
    };

    if (sidr)
        cm_sidr_request(id, &path, &param, f->now);
    else
        cm_connect(id, &path, &param, f->now);
}

static void call(struct fuzz *f)
{
    enum call what = (enum call)(u8(f) % CALL_COUNT);
    unsigned n = f->ids ? u8(f) % f->ids : 0;
    struct cm_private none = {0};
    struct cm_conn_param conn = {.qpn = 7};
    struct cm_sidr_answer answer = {.qpn = 7};
    struct cm_id *id = f->id[n];
    struct qp_attr attr;
    uint32_t mask;

    if (!f->ids)
        return;
    switch (what) {
    case CALL_CONNECT:
    case CALL_SIDR:
        connect_id(f, id, what == CALL_SIDR);
        break;
    case CALL_LISTEN:
        cm_listen(id, u8(f) % BACKLOG);
        break;
    case CALL_ACCEPT:
        cm_accept(id, &conn, NULL, none, f->now);
        break;
    case CALL_REJECT:
        cm_reject(id, u8(f), none, none, f->now);
        break;
    case CALL_DELAY:
        cm_delay(id, u8(f), f->now);
        break;
    case CALL_ESTABLISH:
        cm_establish(id, none, f->now);
        break;
    case CALL_NOTIFY:
        cm_notify(id, f->now);
        break;
    case CALL_DISCONNECT:
        cm_disconnect(id, none, f->now);
        break;
    case CALL_REPLY:
        cm_sidr_reply(id, &answer, f->now);
        break;
    case CALL_DESTROY:
        forget(f, n);
        cm_id_destroy(id, f->now);
        break;
    case CALL_QP:
        cm_qp_attr(id, (enum qp_state)(u8(f) % QPS_COUNT), &attr, &mask);
        break;
    case CALL_COUNT:
        break;
    }
    check(f);
}

static void step(struct fuzz *f)
{
    switch ((enum step)(u8(f) % STEP_COUNT)) {
    case STEP_RAW:
        receive_raw(f);
        break;
    case STEP_MESSAGE:
        receive_message(f);
        break;
    case STEP_AGAIN:
        receive(f, f->last, MAD_LEN, u8(f));
        break;
    case STEP_TIME:
        run_timers(f, f->now + (NS_PER_MS << u8(f) % 20));
        break;
    case STEP_CREATE:
        create(f);
        break;
    case STEP_CALL:
        call(f);
        break;
    case STEP_COUNT:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {.p = data, .left = size, .now = NS_PER_SEC};
    struct cm_config config = {.ops = &ops,
                               .ctx = &f,
                               .secret = {1, 2, 3, 4},
                               .max_ids = IDS_MAX,
                               .half_open = HALF_OPEN,
                               .backlog = BACKLOG};

    f.cm = cm_create(&config);
    REQUIRE(f.cm);
    for (unsigned i = 0; i < MAX_STEPS && f.left; i++)
        step(&f);
    while (f.ids) {
        struct cm_id *id = f.id[--f.ids];

        cm_id_destroy(id, f.now);
    }
    run_timers(&f, f.now + (NS_PER_SEC << 14));
    REQUIRE(!f.cm->ids && !f.cm->by_remote_id.count && !f.cm->by_remote_qpn.count);
    cm_destroy(f.cm);
    return 0;
}
