/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sequences of control messages from several applications, with writes into their shared memory and
 * polls of the worker in between: everything that an application can do to the daemon, without
 * sockets and threads. And what hosts of the network can do to the connection manager.
 *
 * Input: actions, each an opcode byte and its operands. See make_corpus.py.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device_kit.h"
#include "device_private.h"
#include "doorbell.h"
#include "engine_private.h"
#include "fuzz_ctl_cm.h"

#define CLIENTS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum action {
    ACT_MESSAGE,
    ACT_WRITE,
    ACT_POLL,
    ACT_CLOSE,
    ACT_POST,
    ACT_CONTROL,
    ACT_MAD,
    ACT_FRAME,
    ACT_PORT,
    ACT_COUNT
};

static struct rnic *rnic;
static struct session *session[CLIENTS];
#define CHANNELS_MAX 8
static int channel_fd[CHANNELS_MAX]; /* the programs' ends of event channels */
static unsigned channel_fds;
static struct pktio *far_end; /* of the second port, or NULL */
static int memfd;
static ns_t now;

static struct session *pick(uint8_t which)
{
    struct session **c = &session[which % CLIENTS];

    if (!*c)
        *c = session_create(rnic, &(struct ucred){.pid = getpid()});
    return *c;
}

/* Events go on as long as the program has its end; those before are read. */
static void keep_channel(struct ctl_call *call)
{
    struct ctl_cm_told told;

    for (unsigned i = 0; i < channel_fds; i++)
        while (recv(channel_fd[i], &told, sizeof(told), MSG_DONTWAIT) > 0) {
        }
    while (call->out_fds) {
        int fd = call->out_fd[--call->out_fds];

        if (call->request->type == CTL_CM_CREATE_CHANNEL && channel_fds < CHANNELS_MAX)
            channel_fd[channel_fds++] = fd;
        else
            close(fd);
    }
}

/* Type, sender, whether a descriptor comes with it, the body's length and bytes. */
static void send_message(struct input *in)
{
    struct ctl_msg m = {0};
    struct ctl_call call = {.in_fd = &memfd};
    uint8_t type = take(in);
    struct session *c = pick(take(in));

    call.in_fds = take(in) & 1;
    take_bytes(in, m.bytes, take(in));
    /* Rings of thousands of entries are slow and find nothing new. */
    if (type == CTL_CREATE_QP) {
        m.create_qp.caps.max_send_wr &= 0xc03f;
        m.create_qp.caps.max_recv_wr &= 0xc03f;
    } else if (type == CTL_CREATE_SRQ) {
        m.create_srq.max_wr &= 0xc03f;
    } else if (type == CTL_MODIFY_SRQ) {
        m.modify_srq.max_wr &= 0xc03f;
    } else if (type == CTL_CREATE_CQ) {
        m.create_cq.cqe &= 0xc00003ff;
    } else if (type == CTL_CREATE_WQ) {
        m.create_wq.max_wr &= 0xc03f;
    }
    kit_call(c, (enum ctl_type)type, &m, &call, true);
    keep_channel(&call);
}

static struct object *pick_object(struct session *c, enum object_kind kind, uint8_t which)
{
    struct object *o;

    if (!c->device || !c->count[kind])
        return NULL;
    which %= c->count[kind];
    TAILQ_FOREACH (o, &c->objects[kind], link) {
        if (!which--)
            break;
    }
    return o;
}

static struct segment *pick_segment(struct session *c, uint8_t which)
{
    struct object *o;

    if (c->device && (which & 7) == 7) {
        o = pick_object(c, OBJ_WQ, which >> 3);
        if (o) /* without a segment when it has a shared receive queue */
            return &container_of(o, struct wq_object, o)->segment;
    } else if (c->device && (which & 3) == 3) {
        o = pick_object(c, OBJ_SRQ, which >> 2);
        if (o)
            return &container_of(o, struct srq_object, o)->segment;
    } else if (c->device && which & 1) {
        TAILQ_FOREACH (o, &c->objects[OBJ_QP], link) {
            if (!(which -= 2))
                return &container_of(o, struct qp_object, o)->segment;
        }
    } else if (c->device && which & 2) {
        TAILQ_FOREACH (o, &c->objects[OBJ_CQ], link) {
            if (!(which -= 2))
                return &container_of(o, struct cq, o)->segment;
        }
    }
    return &c->segment;
}

/* As the application does it, without AddressSanitizer's checks. */
__attribute__((no_sanitize("address"))) static void write_unseen(volatile char *to,
                                                                 const uint8_t *bytes, size_t n)
{
    while (n--)
        *to++ = (char)*bytes++;
}

/* Application, segment, offset in words, length and bytes. The bytes behind it in its slab are the
 * application's too. */
static void write_shared(struct input *in)
{
    struct session *c = pick(take(in));
    struct segment *s = pick_segment(c, take(in));
    uint8_t bytes[UINT8_MAX];
    size_t offset = (take(in) | (size_t)take(in) << 8) * 4;
    size_t n = take_bytes(in, bytes, take(in)), room = s->bytes;

    if (s->slab) {
        const struct segment *whole = slab_memory(s);

        room = whole->bytes - (size_t)((char *)s->base - (char *)whole->base);
    }
    if (s->base && offset + n <= room)
        write_unseen((char *)s->base + offset, bytes, n);
}

/* Waiting time, number of polls. */
static void poll_worker(struct input *in)
{
    now += (ns_t)take(in) * take(in) * NS_PER_US;
    for (unsigned n = take(in) % 8 + 1; n; n--)
        worker_poll(rnic_worker(rnic, 0), now += 100);
}

static ns_t clock_now(void)
{
    return now;
}

static void put_recv(uint8_t *slot, const struct sge *sge)
{
    struct rqe entry = {.num_sge = 1};

    memcpy(slot, &entry, sizeof(entry));
    memcpy(slot + sizeof(entry), sge, sizeof(*sge));
}

static void post_srq_recv(struct srq_object *s, const struct sge *sge)
{
    struct srq_shared *shared = s->segment.base;
    uint32_t index = atomic_fetch_add(&shared->prod, 1);

    put_recv(work_queue_slot((uint8_t *)s->segment.base + s->layout.ring_off, s->layout.size,
                             s->layout.stride, index),
             sge);
}

/* The queue pair's rings are at the offsets of CTL_CREATE_QP's reply. */
static void post_recv(struct qp_object *q, const struct sge *sge)
{
    struct qp_shared *shared = q->segment.base;
    const struct qp_caps *caps = qp_capabilities(q->dp.qp);
    uint8_t *ring =
        (uint8_t *)(shared + 1) +
        (size_t)caps->max_send_wr * sqe_stride(caps->max_send_sge, caps->max_inline_data);

    if (q->srq)
        post_srq_recv(q->srq, sge);
    else if (caps->max_recv_wr) /* XRC queue pairs have none */
        put_recv(work_queue_slot(ring, caps->max_recv_wr, rqe_stride(caps->max_recv_sge),
                                 atomic_fetch_add(&shared->rq_prod, 1)),
                 sge);
}

/* Its ring is at the common offset of that kind; the rest follows from the WQEs' size. */
static void post_wq_recv(struct wq_object *w, const struct sge *sge)
{
    struct qp_shared *shared = w->segment.base;
    uint32_t size, stride = rqe_stride(1);

    if (w->srq) {
        post_srq_recv(w->srq, sge);
        return;
    }
    size = (uint32_t)((w->segment.bytes - sizeof(*shared)) / stride);
    while (!is_pow2(size)) /* bytes are rounded up */
        size &= size - 1;
    put_recv(work_queue_slot((uint8_t *)(shared + 1), size, stride,
                             atomic_fetch_add(&shared->rq_prod, 1)),
             sge);
}

/* The objects to which a queue pair of each kind may send. */
static void address(struct session *c, struct qp_object *q, struct sqe *entry, uint8_t which)
{
    struct object *ah = pick_object(c, OBJ_AH, which), *srq = pick_object(c, OBJ_SRQ, which);

    if (q->dp.qp->type == QPT_UD) {
        entry->ud.ah = ah ? address_handle_number(container_of(ah, struct ah, o)->handle) : which;
        entry->ud.remote_qpn = which & 128 ? 0xFFFFFF : q->o.handle;
        entry->ud.remote_qkey = q->dp.qp->qkey;
    }
    entry->remote_srqn = srq ? srq->handle : which;
}

/* Binds or invalidates one of the application's windows. */
static void window(struct session *c, struct sqe *entry, const struct mem_region *mr, uint8_t which,
                   uint32_t len)
{
    struct object *o = pick_object(c, OBJ_MW, which);
    uint32_t key = o ? container_of(o, struct mw, o)->window.key : mr->key;

    if (entry->opcode == SQE_BIND_MW) {
        entry->rkey = key;
        entry->imm = key ^ (which & 127);
        entry->bind.length = len;
        entry->bind.region_key = mr->key;
        entry->bind.access = which & 63;
    } else if (entry->opcode == SQE_LOCAL_INV || entry->opcode == SQE_SEND_INV) {
        entry->imm = key;
    } else if (which & 64) {
        entry->rkey = key;
    }
}

static void post_send(struct session *c, struct qp_object *q, struct sqe *entry,
                      const struct sge *sge)
{
    struct qp_shared *shared = q->segment.base;
    const struct qp_caps *caps = qp_capabilities(q->dp.qp);
    uint8_t *slot;

    if (!shared || !caps->max_send_wr) /* its creator has left it; it receives by RSS */
        return;
    slot = work_queue_slot((uint8_t *)(shared + 1), caps->max_send_wr,
                           sqe_stride(caps->max_send_sge, caps->max_inline_data),
                           atomic_fetch_add(&shared->sq_prod, 1));
    memcpy(slot, entry, sizeof(*entry));
    memcpy(slot + sizeof(*entry), sge, sizeof(*sge));
    doorbell_ring(c->ctx[0].doorbells, q->dp.slot);
}

/*
 * A well-formed work request; random bytes rarely are one, as keys are secret. Application, queue
 * pair, operation (128 and more: a receive; 254: into a work queue), flags, memory region, length,
 * offset, and window, address handle or shared queue.
 */
static void post(struct input *in)
{
    struct session *c = pick(take(in));
    struct object *qo = pick_object(c, OBJ_QP, take(in));
    uint8_t op = take(in), flags = take(in);
    struct object *mo = pick_object(c, OBJ_MR, take(in));
    uint32_t length = take(in), len = length <= 64 ? length : length * 33;
    uint64_t offset = take(in);
    uint8_t which = take(in);
    struct object *so = pick_object(c, OBJ_SRQ, which);
    const struct mem_region *mr;
    struct sge sge;

    if (!mo)
        return;
    mr = &container_of(mo, struct mr, o)->region;
    sge = (struct sge){.addr = mr->iova + offset, .length = len, .lkey = mr->key};
    if (op == UINT8_MAX - 1) {
        struct object *wo = pick_object(c, OBJ_WQ, which);

        if (wo)
            post_wq_recv(container_of(wo, struct wq_object, o), &sge);
    } else if (op == UINT8_MAX && so) { /* XRC ones are reached by no queue pair here */
        post_srq_recv(container_of(so, struct srq_object, o), &sge);
    } else if (qo && op & 128) {
        post_recv(container_of(qo, struct qp_object, o), &sge);
    } else if (qo) {
        struct qp_object *q = container_of(qo, struct qp_object, o);
        struct sqe entry = {
            .opcode = op, .flags = flags, .num_sge = 1, .remote_addr = mr->iova, .rkey = mr->key};

        address(c, q, &entry, which);
        window(c, &entry, mr, which, len);
        post_send(c, q, &entry, &sge);
    }
}

/* Time, in milliseconds as a power of two, and what is due then. */
static void control(struct input *in)
{
    now += NS_PER_MS << take(in) % 18;
    fuzz_control(rnic, in);
}

static void add_port(void)
{
    struct pktio *end = fuzz_add_port(rnic);

    far_end = end ? end : far_end;
}

static void close_client(unsigned which)
{
    struct session *c = session[which];

    session[which] = NULL;
    if (c)
        session_close(c);
}

/* For raw queue pairs: a UDP packet to the port's MAC. */
static const uint8_t frame[60] = {
    2,    0, 0, 0,  0, 1,  2,    0, 0,  0,  0,    9,    8,  0,                    /* Ethernet */
    0x45, 0, 0, 32, 0, 0,  0x40, 0, 64, 17, 0x66, 0xc8, 10, 0, 0, 1, 10, 0, 0, 2, /* IPv4 */
    4,    0, 5, 0,  0, 12, 0,    0, 1,  2,  3,    4};

/* All state is created anew for each input: handles, numbers and the clock are then the same for
 * the same input. */
static void begin(void)
{
    now = NS_PER_SEC;
    memset(kit_memory, 0, sizeof(kit_memory));
    memcpy(kit_memory, frame, sizeof(frame));
    rnic = kit_rnic(NULL, clock_now);
    if (memfd)
        return;
    memfd = memfd_create("fuzz", MFD_CLOEXEC);
    if (memfd < 0 || ftruncate(memfd, KIT_BYTES))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    char *text;

    begin();
    for (unsigned n = 0; in.left && n < 200; n++) {
        switch (take(&in) % ACT_COUNT) {
        case ACT_MESSAGE:
            send_message(&in);
            break;
        case ACT_WRITE:
            write_shared(&in);
            break;
        case ACT_POLL:
            poll_worker(&in);
            break;
        case ACT_POST:
            post(&in);
            break;
        case ACT_CLOSE:
            close_client(take(&in) % CLIENTS);
            break;
        case ACT_CONTROL:
            control(&in);
            break;
        case ACT_MAD:
            fuzz_mad(rnic, &in);
            break;
        case ACT_FRAME:
            fuzz_frame(rnic, &in);
            break;
        case ACT_PORT:
            add_port();
            break;
        }
    }
    text = rnic_show(rnic, 0);
    if (!text)
        abort();
    free(text);
    for (unsigned i = 0; i < CLIENTS; i++)
        close_client(i);
    while (channel_fds)
        close(channel_fd[--channel_fds]);
    /* Packets in flight no longer find a receiver. */
    while (worker_poll(rnic_worker(rnic, 0), now += 100))
        ;
    rnic_destroy(rnic);
    if (far_end)
        far_end->ops->close(far_end);
    far_end = NULL;
    return 0;
}
