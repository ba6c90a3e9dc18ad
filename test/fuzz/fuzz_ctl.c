/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sequences of control messages from several applications, with writes into their shared memory and
 * the worker's looks for work in between: everything an application can do to the daemon, without
 * sockets and threads.
 *
 * Input: actions, each a byte that says what, and its operands. See make_corpus.py.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/device_kit.h"
#include "doorbell.h"
#include "object.h"

#define CLIENTS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum action { ACT_MESSAGE, ACT_WRITE, ACT_POLL, ACT_CLOSE, ACT_POST, ACT_COUNT };

static struct rnic *rnic;
static struct client *client[CLIENTS];
static int memfd;
static ns_t now;

struct input {
    const uint8_t *p;
    size_t left;
};

static uint8_t take(struct input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->p++;
}

/* At most n bytes into out; returns how many. */
static size_t take_bytes(struct input *in, void *out, size_t n)
{
    n = min_of(n, in->left);
    memcpy(out, in->p, n);
    in->p += n;
    in->left -= n;
    return n;
}

static struct client *pick(uint8_t which)
{
    struct client **c = &client[which % CLIENTS];

    if (!*c)
        *c = client_create(rnic, &(struct ucred){.pid = getpid()});
    return *c;
}

/* Type, sender, whether a descriptor comes with it, the body's length and bytes. */
static void send_message(struct input *in)
{
    struct ctl_msg m = {0};
    struct ctl_call call = {.in_fd = &memfd};
    uint8_t type = take(in);
    struct client *c = pick(take(in));

    call.in_fds = take(in) & 1;
    take_bytes(in, m.bytes, take(in));
    /* Rings of thousands of entries teach nothing and take their time. */
    if (type == CTL_CREATE_QP) {
        m.create_qp.caps.max_send_wr &= 0xc03f;
        m.create_qp.caps.max_recv_wr &= 0xc03f;
    }
    kit_call(c, (enum ctl_type)type, &m, &call, false);
}

static struct segment *pick_segment(struct client *c, uint8_t which)
{
    struct object *o;

    if (c->device && which & 1) {
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

/* Whose memory, which segment, the offset in words, the length and bytes. */
static void write_shared(struct input *in)
{
    struct client *c = pick(take(in));
    struct segment *s = pick_segment(c, take(in));
    uint8_t bytes[UINT8_MAX];
    size_t offset = (take(in) | (size_t)take(in) << 8) * 4;
    size_t n = take_bytes(in, bytes, take(in));

    if (s->base && offset + n <= s->bytes)
        memcpy((char *)s->base + offset, bytes, n);
}

/* How long to wait, how often to look. */
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

static struct object *pick_object(struct client *c, enum object_kind kind, uint8_t which)
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

/* The queue pair's rings are where CTL_CREATE_QP said: the fuzzer asks for the same sizes each
 * time. */
static void write_entry(struct qp_object *q, const struct mem_region *mr, uint8_t op, uint8_t flags,
                        uint64_t offset, uint32_t len)
{
    struct qp_shared *shared = q->segment.base;
    const struct qp_caps *caps = qp_capabilities(q->dp.qp);
    uint32_t sq_stride = sqe_stride(caps->max_send_sge, caps->max_inline_data);
    uint8_t *ring = (uint8_t *)(shared + 1);
    struct sge sge = {.addr = mr->iova + offset, .length = len, .lkey = mr->key};
    uint32_t index;

    if (op & 128) {
        struct rqe entry = {.num_sge = 1};
        uint8_t *slot;

        index = atomic_fetch_add(&shared->rq_prod, 1);
        ring += (size_t)caps->max_send_wr * sq_stride;
        slot = work_queue_slot(ring, caps->max_recv_wr, rqe_stride(caps->max_recv_sge), index);
        memcpy(slot, &entry, sizeof(entry));
        memcpy(slot + sizeof(entry), &sge, sizeof(sge));
    } else {
        struct sqe entry = {
            .opcode = op, .flags = flags, .num_sge = 1, .remote_addr = mr->iova, .rkey = mr->key};
        uint8_t *slot;

        index = atomic_fetch_add(&shared->sq_prod, 1);
        slot = work_queue_slot(ring, caps->max_send_wr, sq_stride, index);
        memcpy(slot, &entry, sizeof(entry));
        memcpy(slot + sizeof(entry), &sge, sizeof(sge));
    }
}

/*
 * A well-formed work request, which random bytes hardly ever are: the keys are secret. Whose, which
 * queue pair, operation (128 and more: a receive), flags, memory region, length, offset.
 */
static void post(struct input *in)
{
    struct client *c = pick(take(in));
    struct object *qo = pick_object(c, OBJ_QP, take(in));
    uint8_t op = take(in), flags = take(in);
    struct object *mo = pick_object(c, OBJ_MR, take(in));
    uint32_t len = take(in) * 33u;
    uint64_t offset = take(in);
    const struct mem_region *mr;
    struct qp_object *q;

    if (!qo || !mo)
        return;
    q = container_of(qo, struct qp_object, o);
    mr = &container_of(mo, struct mr, o)->region;
    write_entry(q, mr, op, flags, offset, len);
    doorbell_ring(c->ctx.doorbells, q->dp.slot);
}

static void close_client(unsigned which)
{
    struct client *c = client[which];

    client[which] = NULL;
    if (c)
        client_close(c);
}

/* Everything anew each time: handles, numbers and the clock are then the same for the same input.
 */
static void begin(void)
{
    now = NS_PER_SEC;
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
        }
    }
    text = rnic_show(rnic);
    if (!text)
        abort();
    free(text);
    for (unsigned i = 0; i < CLIENTS; i++)
        close_client(i);
    /* Packets on their way find nobody any more. */
    while (worker_poll(rnic_worker(rnic, 0), now += 100))
        ;
    rnic_destroy(rnic);
    return 0;
}
