/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels and ids, over a daemon that has nothing else. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cma.h"
#include "fake_daemon.h"
#include "unit.h"

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
                        uint64_t arg);

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct sockaddr_in some_addr = {.sin_family = AF_INET};

static int setup(void **state)
{
    fake_daemon_start();
    channel = rdma_create_event_channel();
    assert_non_null(channel);
    assert_int_equal(rdma_create_id(channel, &id, &some_addr, RDMA_PS_TCP), 0);
    some_addr.sin_port = htons(7471);
    some_addr.sin_addr.s_addr = htonl(0x0a000001);
    return 0;
}

static int teardown(void **state)
{
    if (id)
        assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
    fake_daemon_stop();
    return 0;
}

static uint32_t handle_of(struct rdma_cm_id *of)
{
    return to_id(of)->entry.handle;
}

static uint32_t give(struct rdma_cm_id *to, uint32_t type, int status)
{
    return fake_daemon_event(handle_of(to), &(struct ctl_cm_event){.type = type, .status = status});
}

static bool is_readable(struct rdma_event_channel *ch)
{
    struct pollfd p = {.fd = ch->fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void no_waiting(struct rdma_event_channel *ch)
{
    assert_int_equal(fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK), 0);
}

static void expect(struct rdma_event_channel *ch, uint32_t type, int status,
                   struct rdma_cm_event **out)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(ch, &event), 0);
    assert_int_equal(event->event, type);
    assert_int_equal(event->status, status);
    if (out)
        *out = event;
    else
        assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void expect_none(struct rdma_event_channel *ch, int err)
{
    struct rdma_cm_event *event;

    errno = 0;
    assert_int_equal(rdma_get_cm_event(ch, &event), -1);
    assert_int_equal(errno, err);
}

/* ---- channels ---- */

static void test_in_order(void **state)
{
    struct rdma_cm_event *event;

    assert_false(is_readable(channel));
    give(id, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
    give(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    give(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
    assert_true(is_readable(channel));
    expect(channel, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH, &event);
    assert_ptr_equal(event->id, id);
    assert_null(event->listen_id);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_true(is_readable(channel));
    expect(channel, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
    expect(channel, RDMA_CM_EVENT_ADDR_CHANGE, 0, NULL);
    assert_false(is_readable(channel));
}

/* More events than one read takes: the descriptor is readable while there is one. */
static void test_many(void **state)
{
    for (unsigned i = 0; i < 3 * CHANNEL_BATCH; i++)
        give(id, RDMA_CM_EVENT_UNREACHABLE, (int)i);
    for (unsigned i = 0; i < 3 * CHANNEL_BATCH; i++) {
        assert_true(is_readable(channel));
        expect(channel, RDMA_CM_EVENT_UNREACHABLE, (int)i, NULL);
    }
    assert_false(is_readable(channel));
    no_waiting(channel);
    expect_none(channel, EAGAIN);
}

/* Half an event is none, with and without others before it. */
static void test_in_halves(void **state)
{
    no_waiting(channel);
    for (unsigned before = 0; before < CHANNEL_BATCH + 2; before++) {
        for (unsigned i = 0; i < before; i++)
            give(id, RDMA_CM_EVENT_UNREACHABLE, (int)i);
        fake_daemon_hold(true);
        give(id, RDMA_CM_EVENT_REJECTED, 28);
        for (unsigned i = 0; i < before; i++)
            expect(channel, RDMA_CM_EVENT_UNREACHABLE, (int)i, NULL);
        expect_none(channel, EAGAIN);
        assert_false(is_readable(channel));
        fake_daemon_hold(false);
        assert_true(is_readable(channel));
        expect(channel, RDMA_CM_EVENT_REJECTED, 28, NULL);
        expect_none(channel, EAGAIN);
    }
}

static void test_status_is_errno(void **state)
{
    /* Programs negate it: the least integer has no negative. */
    give(id, RDMA_CM_EVENT_UNREACHABLE, INT32_MIN);
    expect(channel, RDMA_CM_EVENT_UNREACHABLE, -CTL_ERRNO_MAX, NULL);
}

static void test_without_waiting(void **state)
{
    no_waiting(channel);
    expect_none(channel, EAGAIN);
    give(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    expect(channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
    expect_none(channel, EAGAIN);
}

static void *wait_for_event(void *arg)
{
    struct rdma_cm_event *event = NULL;

    rdma_get_cm_event(channel, &event);
    return event;
}

static void test_wakes_who_waits(void **state)
{
    void *event;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, wait_for_event, NULL), 0);
    give(id, RDMA_CM_EVENT_UNREACHABLE, 0);
    pthread_join(thread, &event);
    assert_non_null(event);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    /* A thread that waits can be cancelled, and takes no event with it. */
    assert_int_equal(pthread_create(&thread, NULL, wait_for_event, NULL), 0);
    assert_int_equal(pthread_cancel(thread), 0);
    pthread_join(thread, &event);
    assert_ptr_equal(event, PTHREAD_CANCELED);
    give(id, RDMA_CM_EVENT_UNREACHABLE, 0);
    expect(channel, RDMA_CM_EVENT_UNREACHABLE, 0, NULL);
}

static unsigned count_waiting(struct rdma_event_channel *of)
{
    struct cma_channel *ch = to_channel(of);
    unsigned n;

    pthread_mutex_lock(&ch->lock);
    n = ch->waiting;
    pthread_mutex_unlock(&ch->lock);
    return n;
}

static bool has_waiting(struct rdma_event_channel *of)
{
    return count_waiting(of);
}

/* Programs end their channel below the thread that waits for it: it waits on, until it is
 * cancelled. */
static void test_end_of_channel(void **state)
{
    struct rdma_event_channel *kept = channel;
    struct pollfd never = {.fd = -1};
    pthread_t thread;
    void *event;

    channel = rdma_create_event_channel();
    assert_non_null(channel);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_event, NULL), 0);
    while (!has_waiting(channel))
        poll(&never, 1, 1);
    rdma_destroy_event_channel(channel);
    poll(&never, 1, 20);
    assert_int_equal(pthread_tryjoin_np(thread, &event), EBUSY);
    assert_int_equal(pthread_cancel(thread), 0);
    pthread_join(thread, &event);
    assert_ptr_equal(event, PTHREAD_CANCELED);
    channel = kept;
}

/* The thread is on its way to the wait, or has not come so far; an error would end rping. */
static void test_end_before_the_wait(void **state)
{
    struct rdma_event_channel *kept = channel;
    pthread_t thread;
    void *event;

    for (int round = 0; round < 300; round++) {
        channel = rdma_create_event_channel();
        assert_non_null(channel);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_event, NULL), 0);
        while (round % 2 && !has_waiting(channel))
            sched_yield();
        rdma_destroy_event_channel(channel);
        assert_int_equal(pthread_cancel(thread), 0);
        pthread_join(thread, &event);
        assert_ptr_equal(event, PTHREAD_CANCELED);
    }
    channel = kept;
}

static void *destroy_channel(void *arg)
{
    rdma_destroy_event_channel(channel);
    return NULL;
}

static bool is_closed(struct cma_channel *ch)
{
    bool closed;

    pthread_mutex_lock(&ch->lock);
    closed = ch->closed;
    pthread_mutex_unlock(&ch->lock);
    return closed;
}

/* The thread has read an event, whose id and channel are gone before it looks for the id: it waits,
 * too. */
static void test_end_before_the_event(void **state)
{
    struct pollfd never = {.fd = -1};
    struct cma_channel *ch = to_channel(channel);
    struct cma_link *link = ch->link;
    struct cma_entry *entry = &to_id(id)->entry;
    pthread_t thread, end;
    void *event;

    assert_int_equal(pthread_create(&thread, NULL, wait_for_event, NULL), 0);
    while (!has_waiting(channel))
        poll(&never, 1, 1);
    pthread_mutex_lock(&link->lock);
    give(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    while (has_waiting(channel))
        poll(&never, 1, 1);
    cma_table_remove(entry);
    assert_int_equal(pthread_create(&end, NULL, destroy_channel, NULL), 0);
    while (!is_closed(ch))
        poll(&never, 1, 1);
    pthread_mutex_unlock(&link->lock);
    pthread_join(end, NULL);
    do
        assert_int_equal(pthread_tryjoin_np(thread, &event), EBUSY);
    while (!has_waiting(channel) && !poll(&never, 1, 1));
    assert_int_equal(pthread_cancel(thread), 0);
    pthread_join(thread, &event);
    assert_ptr_equal(event, PTHREAD_CANCELED);
    pthread_mutex_lock(&link->lock);
    cma_table_add(&link->ids, entry);
    pthread_mutex_unlock(&link->lock);
    channel = rdma_create_event_channel();
    assert_non_null(channel);
}

static pthread_t waiting_thread;

static void on_signal(int sig)
{
}

static void interrupt(int flags)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = flags};

    sigaction(SIGUSR1, &sa, NULL);
}

static void *signal_until_interrupted(void *arg)
{
    const _Atomic bool *over = arg;

    while (!*over) {
        pthread_kill(waiting_thread, SIGUSR1);
        usleep(1000);
    }
    return NULL;
}

/* As a read: a signal ends the wait when its handler was installed without SA_RESTART. */
static void test_signals(void **state)
{
    _Atomic bool over = false;
    pthread_t thread;

    waiting_thread = pthread_self();
    interrupt(0);
    assert_int_equal(pthread_create(&thread, NULL, signal_until_interrupted, &over), 0);
    expect_none(channel, EINTR);
    interrupt(SA_RESTART);
    give(id, RDMA_CM_EVENT_UNREACHABLE, 0);
    expect(channel, RDMA_CM_EVENT_UNREACHABLE, 0, NULL);
    over = true;
    pthread_join(thread, NULL);
}

/* ---- ids ---- */

/* Events of an id that ends are gone, with their bytes. */
static void test_end_drops_events(void **state)
{
    struct rdma_cm_id *other;

    no_waiting(channel);
    assert_int_equal(rdma_create_id(channel, &other, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(other->qp_type, IBV_QPT_UD);
    give(other, RDMA_CM_EVENT_UNREACHABLE, 0);
    give(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    assert_int_equal(rdma_write_cm_event(other, CMA_EVENT_USER, 0, 0), 0);
    assert_int_equal(rdma_destroy_id(other), 0);
    expect(channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
    assert_false(is_readable(channel));
    expect_none(channel, EAGAIN);
}

/* The end of an id whose connection is over has no reply, and takes the rest of its events. */
static void test_end_is_posted(void **state)
{
    static const uint32_t ends[] = {RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_REJECTED,
                                    RDMA_CM_EVENT_UNREACHABLE};
    struct rdma_cm_id *other;
    struct ctl_msg m;

    no_waiting(channel);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), 0);
        give(other, ends[i], 0);
        expect(channel, ends[i], 0, NULL);
        give(other, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
        assert_int_equal(rdma_destroy_id(other), 0);
        assert_false(is_readable(channel));
        expect_none(channel, EAGAIN);
        assert_int_equal(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), 0); /* served after */
        assert_int_equal(fake_daemon_calls(CTL_CM_DESTROY_ID, &m), 2 * i + 1);
        assert_int_equal(m.seq, 0);
        assert_int_equal(rdma_destroy_id(other), 0);
        assert_int_equal(fake_daemon_calls(CTL_CM_DESTROY_ID, &m), 2 * i + 2);
        assert_int_not_equal(m.seq, 0);
        assert_int_equal(fake_daemon_ids(), 1);
    }
}

/* A request that is sent and not read ends with its listener. */
static void test_end_refuses_requests(void **state)
{
    struct rdma_cm_id *other;

    no_waiting(channel);
    assert_int_equal(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), 0);
    give(other, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    give(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    assert_int_equal(fake_daemon_ids(), 3);
    assert_int_equal(rdma_destroy_id(other), 0);
    assert_int_equal(fake_daemon_ids(), 1);
    assert_true(is_readable(channel));
    expect(channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
    assert_false(is_readable(channel));
}

/* An unread request goes with its listener to another channel, and so does its id. */
static void test_request_moves(void **state)
{
    struct rdma_event_channel *other = rdma_create_event_channel();
    struct rdma_cm_event *event;
    struct ctl_msg m;

    no_waiting(channel);
    give(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    assert_int_equal(rdma_migrate_id(id, other), 0);
    expect_none(channel, EAGAIN);
    assert_true(is_readable(other));
    expect(other, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &event);
    assert_int_equal(fake_daemon_calls(CTL_CM_MIGRATE, &m), 2);
    assert_int_equal(m.cm_id.id, handle_of(event->id));
    assert_int_equal(m.cm_id.channel, to_channel(other)->handle);
    assert_ptr_equal(event->id->channel, other);
    assert_int_equal(rdma_destroy_id(event->id), 0);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_migrate_id(id, channel), 0);
    rdma_destroy_event_channel(other);
}

/* A handle is used again: events of the id that had it are dropped. */
static void test_handle_of_another(void **state)
{
    struct cma_entry *entry = &to_id(id)->entry;

    no_waiting(channel);
    give(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    entry->serial++;
    expect_none(channel, EAGAIN);
    entry->serial--;
    give(id, RDMA_CM_EVENT_UNREACHABLE, 0);
    expect(channel, RDMA_CM_EVENT_UNREACHABLE, 0, NULL);
}

/* The end of what may be a connection is not waited for; of another id the errno is. */
static void test_disconnect_is_posted(void **state)
{
    struct rdma_cm_event *event;
    struct ctl_msg m;

    give(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &event);
    assert_int_equal(rdma_disconnect(event->id), 0);
    assert_int_equal(rdma_destroy_id(event->id), 0); /* waits for its reply */
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(fake_daemon_calls(CTL_CM_DISCONNECT, &m), 1);
    assert_int_equal(m.seq, 0);
    fake_daemon_fail(CTL_CM_DISCONNECT, -EINVAL);
    assert_int_equal(rdma_disconnect(id), -1);
    assert_int_equal(errno, EINVAL);
    fake_daemon_calls(CTL_CM_DISCONNECT, &m);
    assert_int_not_equal(m.seq, 0);
}

static void *destroy(void *arg)
{
    return (void *)(intptr_t)rdma_destroy_id(arg);
}

/* The manual: destruction waits until the events that the program got are acknowledged. */
static void test_end_waits_for_acks(void **state)
{
    struct rdma_cm_event *event;
    pthread_t thread;
    void *result;

    give(id, RDMA_CM_EVENT_UNREACHABLE, 0);
    expect(channel, RDMA_CM_EVENT_UNREACHABLE, 0, &event);
    assert_int_equal(pthread_create(&thread, NULL, destroy, id), 0);
    while (fake_daemon_ids())
        usleep(1000);
    usleep(20000);
    assert_int_equal(pthread_tryjoin_np(thread, &result), EBUSY);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    pthread_join(thread, &result);
    assert_null(result);
    id = NULL;
}

/* As a thread that is still in a call. */
static void *end_the_call(void *arg)
{
    usleep(50000);
    __atomic_store_n((bool *)arg, true, __ATOMIC_SEQ_CST);
    id_end_call(to_id(id));
    return NULL;
}

/* What a call has begun may be over before the call is. */
static void test_end_waits_for_calls(void **state)
{
    bool ended = false;
    pthread_t thread;

    id_begin_call(to_id(id));
    assert_int_equal(pthread_create(&thread, NULL, end_the_call, &ended), 0);
    rdma_destroy_qp(id);
    assert_true(__atomic_load_n(&ended, __ATOMIC_SEQ_CST));
    pthread_join(thread, NULL);
    ended = false;
    id_begin_call(to_id(id));
    assert_int_equal(pthread_create(&thread, NULL, end_the_call, &ended), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
    assert_true(__atomic_load_n(&ended, __ATOMIC_SEQ_CST));
    pthread_join(thread, NULL);
    id = NULL;
}

static void test_refused_id(void **state)
{
    struct rdma_cm_id *other = NULL;

    fake_daemon_fail(CTL_CM_CREATE_ID, -EINVAL);
    assert_int_equal(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), -1);
    assert_int_equal(errno, EINVAL);
    assert_null(other);
    fake_daemon_fail(CTL_CM_BIND, -EADDRINUSE);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&some_addr), -1);
    assert_int_equal(errno, EADDRINUSE);
}

static void test_addresses(void **state)
{
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&some_addr), 0);
    assert_int_equal(rdma_get_src_port(id), htons(7471));
    assert_memory_equal(rdma_get_local_addr(id), &some_addr, sizeof(some_addr));
    assert_int_equal(rdma_get_dst_port(id), 0);
}

/* ---- requests ---- */

static void test_request(void **state)
{
    struct ctl_cm_event request = {.type = RDMA_CM_EVENT_CONNECT_REQUEST,
                                   .conn = {.qpn = 0x123456,
                                            .responder_resources = 3,
                                            .initiator_depth = 5,
                                            .retry_count = 6,
                                            .rnr_retry_count = 7,
                                            .flow_control = 1,
                                            .srq = 1,
                                            .ece_vendor = 0x2c9,
                                            .ece_options = 0xabcd,
                                            .private_len = 4,
                                            .private_data = "abcd"}};
    struct rdma_cm_event *event, *late;
    struct rdma_conn_param *p;
    struct ibv_ece ece;
    struct ctl_msg m;
    uint32_t handle;

    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&some_addr), 0);
    assert_int_equal(rdma_listen(id, 5), 0);
    assert_int_equal(fake_daemon_calls(CTL_CM_LISTEN, &m), 1);
    assert_int_equal(m.cm_id.backlog, 5);
    handle = fake_daemon_event(handle_of(id), &request);
    expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &event);
    assert_ptr_equal(event->listen_id, id);
    assert_ptr_not_equal(event->id, id);
    assert_ptr_equal(event->id->context, id->context);
    assert_ptr_equal(event->id->channel, channel);
    assert_int_equal(handle_of(event->id), handle);
    p = &event->param.conn;
    assert_int_equal(p->qp_num, 0x123456);
    assert_int_equal(p->responder_resources, 3);
    assert_int_equal(p->initiator_depth, 5);
    assert_int_equal(p->retry_count, 6);
    assert_int_equal(p->rnr_retry_count, 7);
    assert_int_equal(p->flow_control, 1);
    assert_int_equal(p->srq, 1);
    assert_int_equal(p->private_data_len, 4);
    assert_memory_equal(p->private_data, "abcd", 4);
    assert_int_equal(rdma_get_remote_ece(event->id, &ece), 0);
    assert_int_equal(ece.vendor_id, 0x2c9);
    assert_int_equal(ece.options, 0xabcd);

    /* The new id's events find it by its handle. */
    give(event->id, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect(channel, RDMA_CM_EVENT_DISCONNECTED, 0, &late);
    assert_ptr_equal(late->id, event->id);
    assert_int_equal(rdma_ack_cm_event(late), 0);

    /* It may end before the event is acknowledged: only the listener waits for that. */
    assert_int_equal(rdma_reject(event->id, "no", 2), 0);
    assert_int_equal(fake_daemon_calls(CTL_CM_REJECT, &m), 1);
    assert_int_equal(m.cm_call.id, handle);
    assert_int_equal(m.cm_call.conn.reason, 28);
    assert_memory_equal(m.cm_call.conn.private_data, "no", 2);
    assert_int_equal(rdma_destroy_id(event->id), 0);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    while (fake_daemon_ids() != 1) /* nothing waited for that */
        usleep(1000);
}

/* An id that the program never sees is not left behind. */
static void test_request_fails(void **state)
{
    no_waiting(channel);
    fake_daemon_lose_device();
    give(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    expect_none(channel, EAGAIN);
    assert_int_equal(fake_daemon_ids(), 1);
}

static void test_private_data_is_bounded(void **state)
{
    struct ctl_cm_event request = {.type = RDMA_CM_EVENT_CONNECT_REQUEST,
                                   .conn = {.private_len = UINT16_MAX}};
    struct rdma_cm_event *event;

    fake_daemon_event(handle_of(id), &request);
    expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &event);
    assert_int_equal(event->param.conn.private_data_len, UINT8_MAX);
    assert_int_equal(rdma_destroy_id(event->id), 0);
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

/* Without a queue pair the program ends the handshake. */
static void test_response_without_qp(void **state)
{
    give(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
    expect(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, NULL);
    assert_int_equal(fake_daemon_calls(CTL_CM_ESTABLISH, NULL), 0);
    assert_int_equal(rdma_establish(id), 0);
    assert_int_equal(fake_daemon_calls(CTL_CM_ESTABLISH, NULL), 1);
}

/* ---- datagrams, groups ---- */

static void test_datagrams(void **state)
{
    struct ctl_cm_event found = {
        .type = RDMA_CM_EVENT_ESTABLISHED,
        .ah = {.sgid_index = 3, .hop_limit = 64, .sl = 2, .port_num = 1, .is_global = 1},
        .conn = {.qpn = 0x1234, .qkey = 0x5678, .private_len = 1, .private_data = "x"}};
    struct rdma_cm_event *event;
    struct rdma_cm_id *ud;

    found.ah.dgid[15] = 9;
    assert_int_equal(rdma_create_id(channel, &ud, NULL, RDMA_PS_UDP), 0);
    fake_daemon_event(handle_of(ud), &found);
    expect(channel, RDMA_CM_EVENT_ESTABLISHED, 0, &event);
    assert_int_equal(event->param.ud.qp_num, 0x1234);
    assert_int_equal(event->param.ud.qkey, 0x5678);
    assert_int_equal(event->param.ud.private_data_len, 1);
    assert_int_equal(event->param.ud.ah_attr.grh.sgid_index, 3);
    assert_int_equal(event->param.ud.ah_attr.grh.hop_limit, 64);
    assert_int_equal(event->param.ud.ah_attr.grh.dgid.raw[15], 9);
    assert_int_equal(event->param.ud.ah_attr.sl, 2);
    assert_int_equal(event->param.ud.ah_attr.is_global, 1);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_destroy_id(ud), 0);
}

static void test_groups(void **state)
{
    struct sockaddr_in group = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xe0000105)};
    struct ctl_cm_event joined = {.type = RDMA_CM_EVENT_MULTICAST_JOIN};
    struct rdma_cm_event *event;
    struct ctl_msg m;
    int context;

    no_waiting(channel);
    assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, &context), 0);
    fake_daemon_calls(CTL_CM_JOIN, &m);
    joined.cookie = m.cm_mcast.cookie;
    fake_daemon_event(handle_of(id), &joined);
    expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0, &event);
    assert_ptr_equal(event->param.ud.private_data, &context);
    assert_int_equal(rdma_ack_cm_event(event), 0);

    /* Left before its event was read. */
    fake_daemon_event(handle_of(id), &joined);
    assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
    fake_daemon_calls(CTL_CM_LEAVE, &m);
    assert_int_equal(m.cm_mcast.handle, 7);
    assert_false(is_readable(channel));
    expect_none(channel, EAGAIN);
    /* An event of a group that has no member. */
    fake_daemon_event(handle_of(id), &joined);
    expect_none(channel, EAGAIN);
}

/* ---- local events ---- */

static void test_own_events(void **state)
{
    struct rdma_cm_event *event;
    uint64_t arg;

    assert_int_equal(rdma_write_cm_event(id, CMA_EVENT_INTERNAL, 0, 0), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_write_cm_event(id, CMA_EVENT_USER, 17, 0x1122334455667788), 0);
    assert_int_equal(rdma_write_cm_event(id, CMA_EVENT_USER, 18, 0), 0);
    assert_true(is_readable(channel));
    expect(channel, CMA_EVENT_USER, 17, &event);
    memcpy(&arg, &event->param, sizeof(arg));
    assert_int_equal(arg, 0x1122334455667788);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_true(is_readable(channel));
    expect(channel, CMA_EVENT_USER, 18, NULL);
    assert_false(is_readable(channel));
}

/* ---- synchronous ids, migration ---- */

static void test_migration(void **state)
{
    struct rdma_event_channel *other = rdma_create_event_channel();

    no_waiting(channel);
    assert_non_null(other);
    give(id, RDMA_CM_EVENT_UNREACHABLE, -1);
    assert_int_equal(rdma_write_cm_event(id, CMA_EVENT_USER, 1, 0), 0);
    assert_int_equal(rdma_migrate_id(id, other), 0);
    assert_ptr_equal(id->channel, other);
    assert_false(is_readable(channel));
    expect_none(channel, EAGAIN);
    assert_true(is_readable(other));
    expect(other, CMA_EVENT_USER, 1, NULL);
    expect(other, RDMA_CM_EVENT_UNREACHABLE, -1, NULL);
    assert_int_equal(rdma_migrate_id(id, channel), 0);
    rdma_destroy_event_channel(other);
}

/* The program's event is there when the call returns, and the daemon has sent none. */
static void test_at_once(void **state)
{
    struct sockaddr *dst = (struct sockaddr *)&some_addr;
    struct rdma_event_channel *other = rdma_create_event_channel();
    struct rdma_cm_event *event;
    struct rdma_cm_id *sync;

    fake_daemon_at_once(true);
    assert_int_equal(rdma_resolve_addr(id, NULL, dst, 1000), 0);
    assert_int_equal(rdma_resolve_route(id, 1000), 0);
    assert_true(is_readable(channel));
    expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0, &event);
    assert_ptr_equal(event->id, id);
    assert_null(event->listen_id);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_migrate_id(id, other), 0);
    assert_false(is_readable(channel));
    expect(other, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    assert_int_equal(rdma_migrate_id(id, channel), 0);
    rdma_destroy_event_channel(other);

    assert_int_equal(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(sync, NULL, dst, 1000), 0);
    assert_int_equal(sync->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(sync, 1000), 0);
    assert_int_equal(sync->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
    rdma_destroy_ep(sync);

    /* A call that fails has no event. */
    fake_daemon_fail(CTL_CM_RESOLVE_ADDR, -EINVAL);
    assert_int_equal(rdma_resolve_addr(id, NULL, dst, 1000), -1);
    assert_int_equal(errno, EINVAL);
    assert_false(is_readable(channel));
    /* The end of an id takes what it has not read. */
    assert_int_equal(rdma_resolve_addr(id, NULL, dst, 1000), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
    assert_false(is_readable(channel));
    id = NULL;
    fake_daemon_at_once(false);
}

static void test_synchronous(void **state)
{
    struct rdma_cm_id *sync;

    assert_int_equal(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_migrate_id(sync, NULL), -1);
    assert_int_equal(errno, EINVAL);
    give(sync, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
    assert_int_equal(rdma_resolve_addr(sync, NULL, (struct sockaddr *)&some_addr, 1000), -1);
    assert_int_equal(errno, ENETUNREACH);
    assert_int_equal(sync->event->event, RDMA_CM_EVENT_ADDR_ERROR);
    give(sync, RDMA_CM_EVENT_REJECTED, 8);
    assert_int_equal(rdma_resolve_route(sync, 1000), -1);
    assert_int_equal(errno, ECONNREFUSED);
    give(sync, RDMA_CM_EVENT_REJECTED, 0); /* a reason that does not exist */
    assert_int_equal(rdma_resolve_route(sync, 1000), -1);
    assert_int_equal(errno, ECONNREFUSED);
    give(sync, RDMA_CM_EVENT_ADDR_CHANGE, 0); /* is the end of no call */
    give(sync, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    assert_int_equal(rdma_resolve_route(sync, 1000), 0);
    assert_int_equal(sync->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);

    /* A request of a synchronous listener has a channel of its own. */
    give(sync, RDMA_CM_EVENT_ADDR_CHANGE, 0);
    give(sync, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    {
        struct rdma_cm_id *request;

        assert_int_equal(rdma_get_request(sync, &request), 0);
        assert_ptr_not_equal(request->channel, sync->channel);
        assert_int_equal(request->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
        rdma_destroy_ep(request);
        give(sync, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
        assert_int_equal(rdma_get_request(sync, &request), -1);
        assert_int_equal(errno, ETIMEDOUT);
        assert_int_equal(sync->event->event, RDMA_CM_EVENT_UNREACHABLE);
    }
    rdma_destroy_ep(sync);
    assert_int_equal(fake_daemon_ids(), 1);
    assert_int_equal(rdma_get_request(id, &sync), -1);
    assert_int_equal(errno, EINVAL);
}

/* The program that gives a route reads the event. */
static void test_given_route(void **state)
{
    struct ibv_path_data path = {.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
                                          IBV_PATH_FLAG_BIDIRECTIONAL};
    struct rdma_cm_id *sync;

    assert_int_equal(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP), 0);
    give(sync, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    assert_int_equal(
        rdma_set_option(sync, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)), 0);
    assert_null(sync->event);
    expect(sync->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    assert_int_equal(rdma_destroy_id(sync), 0);
}

/* ---- the daemon's end, and a child ---- */

static void test_daemon_ends(void **state)
{
    struct rdma_cm_event *event;
    struct rdma_cm_id *other;

    assert_int_equal(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), 0);
    fake_daemon_restart();
    expect(channel, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, &event);
    expect(channel, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
    assert_true(event->id == id || event->id == other);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    expect_none(channel, EIO);
    assert_int_equal(rdma_resolve_route(other, 10), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(rdma_destroy_id(other), 0);

    /* A new id of the channel is one of the new daemon. */
    assert_int_equal(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fake_daemon_ids(), 1);
    give(other, RDMA_CM_EVENT_UNREACHABLE, 0);
    expect(channel, RDMA_CM_EVENT_UNREACHABLE, 0, NULL);
    assert_int_equal(rdma_destroy_id(other), 0);
}

#define WAITING 4

static void *wait_for_the_end(void *arg)
{
    struct rdma_cm_event *event;

    return (void *)(uintptr_t)(rdma_get_cm_event(arg, &event) ? errno : 0);
}

/* All threads that wait for events of a channel learn that the daemon has ended. */
static void test_daemon_ends_for_all(void **state)
{
    pthread_t thread[WAITING];
    void *err;

    assert_int_equal(rdma_destroy_id(id), 0);
    id = NULL;
    alarm(20);
    for (unsigned round = 0; round < 20; round++) {
        rdma_destroy_event_channel(channel);
        channel = rdma_create_event_channel();
        assert_non_null(channel);
        for (unsigned i = 0; i < WAITING; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, wait_for_the_end, channel), 0);
        while (count_waiting(channel) < WAITING)
            sched_yield();
        fake_daemon_restart();
        for (unsigned i = 0; i < WAITING; i++) {
            assert_int_equal(pthread_join(thread[i], &err), 0);
            assert_int_equal((uintptr_t)err, EIO);
        }
        assert_false(is_readable(channel)); /* which would keep programs busy */
    }
    alarm(0);
}

/* The child can give back what it inherited, which the parent keeps. */
static void test_fork(void **state)
{
    int status = -1;
    pid_t pid;

    give(id, RDMA_CM_EVENT_UNREACHABLE, 0);
    pid = fork();
    if (!pid) {
        struct rdma_cm_event *event;
        int err = rdma_get_cm_event(channel, &event) == -1 && errno == EIO ? 0 : 1;

        err |= rdma_destroy_id(id) ? 2 : 0;
        rdma_destroy_event_channel(channel);
        _exit(err);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(is_readable(channel));
    expect(channel, RDMA_CM_EVENT_UNREACHABLE, 0, NULL);
    assert_int_equal(rdma_write_cm_event(id, CMA_EVENT_USER, 0, 0), 0);
    assert_true(is_readable(channel));
    expect(channel, CMA_EVENT_USER, 0, NULL);
}

static void test_no_daemon(void **state)
{
    struct ibv_context **list;
    int n = -1;

    setenv(CTL_SOCKET_ENV, "/nonexistent/uroce.sock", 1);
    assert_null(rdma_create_event_channel());
    assert_int_equal(errno, ENODEV);
    list = rdma_get_devices(&n);
    assert_non_null(list);
    assert_null(list[0]);
    assert_int_equal(n, 0);
    rdma_free_devices(list);
}

static void test_names(void **state)
{
    assert_string_equal(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED");
    assert_string_equal(rdma_event_str(CMA_EVENT_INTERNAL), "RDMA_CM_EVENT_INTERNAL");
    assert_string_equal(rdma_event_str(20), "UNKNOWN EVENT");
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_daemon),
        cmocka_unit_test(test_names),
        WITH(test_in_order),
        WITH(test_many),
        WITH(test_in_halves),
        WITH(test_status_is_errno),
        WITH(test_without_waiting),
        WITH(test_wakes_who_waits),
        WITH(test_end_of_channel),
        WITH(test_end_before_the_wait),
        WITH(test_end_before_the_event),
        WITH(test_signals),
        WITH(test_end_drops_events),
        WITH(test_end_is_posted),
        WITH(test_handle_of_another),
        WITH(test_request_moves),
        WITH(test_end_refuses_requests),
        WITH(test_disconnect_is_posted),
        WITH(test_end_waits_for_acks),
        WITH(test_end_waits_for_calls),
        WITH(test_refused_id),
        WITH(test_addresses),
        WITH(test_request),
        WITH(test_request_fails),
        WITH(test_private_data_is_bounded),
        WITH(test_response_without_qp),
        WITH(test_datagrams),
        WITH(test_groups),
        WITH(test_own_events),
        WITH(test_migration),
        WITH(test_at_once),
        WITH(test_synchronous),
        WITH(test_given_route),
        WITH(test_daemon_ends),
        WITH(test_daemon_ends_for_all),
        WITH(test_fork),
    };

    return cmocka_run_group_tests_name("rdmacm_events", tests, NULL, NULL);
}
