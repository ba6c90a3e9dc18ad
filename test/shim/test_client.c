/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/client without a daemon: names of objects, memory that can be mapped, when a poller
 * yields. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "client_counter.h"
#include "client_cq.h"
#include "client_mr.h"
#include "mr.h"
#include "unit.h"

#define LEN 65536

static void ids_name_one_object_only(void **state)
{
    struct slot_table t;
    uint32_t first, second, third;
    int a, b;

    slot_table_init(&t);
    assert_int_equal(slot_table_reserve(&t, &first), 0);
    assert_null(slot_table_get(&t, first));
    slot_table_publish(&t, first, &a);
    assert_ptr_equal(slot_table_get(&t, first), &a);
    slot_table_remove(&t, first);
    assert_null(slot_table_get(&t, first));
    assert_int_equal(slot_table_reserve(&t, &second), 0);
    slot_table_publish(&t, second, &b);
    assert_int_not_equal(first, second);
    assert_null(slot_table_get(&t, first));
    assert_ptr_equal(slot_table_get(&t, second), &b);
    assert_int_equal(slot_table_reserve(&t, &third), 0);
    assert_null(slot_table_get(&t, UINT32_MAX));
    slot_table_destroy(&t);
}

static void cookies_of_others_are_nobody(void **state)
{
    struct slot_table t;
    uint32_t id, last = 0;

    slot_table_init(&t);
    /* The second chunk, and generations. */
    for (unsigned i = 0; i < SLOT_CHUNK + 10; i++)
        assert_int_equal(slot_table_reserve(&t, &last), 0);
    for (unsigned i = 0; i < 3; i++) {
        slot_table_remove(&t, last);
        assert_int_equal(slot_table_reserve(&t, &id), 0);
        assert_int_equal(slot_id_from_cookie(slot_id_to_cookie(id)), id);
        assert_true(id != last);
        last = id;
    }
    assert_int_equal(slot_id_from_cookie(UINT64_MAX), UINT32_MAX);
    assert_int_equal(slot_id_from_cookie(UINT64_C(1) << 63), UINT32_MAX);
    assert_int_equal(slot_id_from_cookie(UINT64_C(1) << SLOT_INDEX_BITS), UINT32_MAX);
    slot_table_destroy(&t);
}

static int named_memfd(const char *name, int seals)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, LEN), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static int sealed_memfd(int seals)
{
    return named_memfd("test", seals);
}

static void sealed_shared_memory_is_found(void **state)
{
    int fd = sealed_memfd(F_SEAL_SHRINK), found;
    uint8_t *p = mmap(NULL, LEN / 2, PROT_READ | PROT_WRITE, MAP_SHARED, fd, LEN / 2);
    uint64_t offset = 0;
    uint8_t byte;

    found = mr_backing_find((uintptr_t)p + 100, LEN / 2 - 100, true, &offset);
    assert_true(found >= 0);
    assert_int_equal(offset, LEN / 2 + 100);
    p[100] = 0x5A;
    assert_int_equal(pread(found, &byte, 1, (off_t)offset), 1);
    assert_int_equal(byte, 0x5A);
    close(found);
    /* One byte more than the file has. */
    assert_int_equal(mr_backing_find((uintptr_t)p, LEN / 2 + 1, true, &offset), -ENOENT);
    assert_int_equal(mr_backing_find((uintptr_t)p, UINT64_MAX, true, &offset), -ENOENT);
    assert_int_equal(mr_backing_find((uintptr_t)p, 0, true, &offset), -ENOENT);
    /* The daemon must not be able to write what the application cannot. */
    assert_int_equal(mprotect(p, LEN / 2, PROT_READ), 0);
    assert_int_equal(mr_backing_find((uintptr_t)p, 100, true, &offset), -ENOENT);
    munmap(p, LEN / 2);
    close(fd);
}

/* The kernel takes 249 characters, and shows more. */
static void memory_with_a_long_name_is_found(void **state)
{
    char name[250] = {0};
    uint64_t offset;
    uint8_t *p;
    int fd, found;

    memset(name, 'n', sizeof(name) - 1);
    fd = named_memfd(name, F_SEAL_SHRINK);
    p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    found = mr_backing_find((uintptr_t)p, LEN, true, &offset);
    munmap(p, LEN);
    close(fd);
    assert_true(found >= 0);
    close(found);
}

/* In order, backwards, and from one end to the other: near the last one that was found, and not. */
static void each_of_many_descriptors_is_found(void **state)
{
    enum { FILES = 60 };
    int fd[FILES];
    uint8_t *p[FILES];

    for (int i = 0; i < FILES; i++) {
        fd[i] = sealed_memfd(F_SEAL_SHRINK);
        p[i] = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd[i], 0);
        *p[i] = (uint8_t)i;
    }
    for (int turn = 0; turn < 3 * FILES; turn++) {
        int i = turn < FILES ? turn : turn < 2 * FILES ? 2 * FILES - 1 - turn : turn * 29 % FILES;
        uint64_t offset;
        uint8_t byte;
        int found = mr_backing_find((uintptr_t)p[i], LEN, true, &offset);

        assert_true(found >= 0);
        assert_int_equal(pread(found, &byte, 1, (off_t)offset), 1);
        assert_int_equal(byte, i);
        close(found);
    }
    for (int i = 0; i < FILES; i++) {
        munmap(p[i], LEN);
        close(fd[i]);
    }
}

static void other_memory_is_not_offered(void **state)
{
    int fd = sealed_memfd(0);
    uint8_t *shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint8_t *private = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    void *heap = malloc(LEN);
    uint64_t offset;

    assert_int_equal(mr_backing_find((uintptr_t)shared, LEN, true, &offset), -ENOENT);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(mr_backing_find((uintptr_t) private, LEN, true, &offset), -ENOENT);
    assert_int_equal(mr_backing_find((uintptr_t)heap, LEN, true, &offset), -ENOENT);
    assert_int_equal(mr_backing_find(1, 16, true, &offset), -ENOENT);
    /* Without its descriptor the memory cannot be passed on. */
    close(fd);
    assert_int_equal(mr_backing_find((uintptr_t)shared, LEN, true, &offset), -ENOENT);
    munmap(shared, LEN);
    munmap(private, LEN);
    free(heap);
}

/* ---- slabs, over a daemon that says what the test wants ---- */

struct said {
    struct conn conn;
    int daemon; /* its end */
    struct client_slabs slabs;
};

static void said_open(struct said *s)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *s = (struct said){.conn = {.sock = pair[0]}, .daemon = pair[1]};
    pthread_mutex_init(&s->conn.lock, NULL);
}

static void said_close(struct said *s)
{
    close(s->conn.sock);
    close(s->daemon);
    client_slabs_fini(&s->slabs);
    assert_int_equal(s->slabs.count, 0);
    pthread_mutex_destroy(&s->conn.lock);
}

/* The answer to the next request, with a descriptor if it is not negative; then the request. */
static int create(struct said *s, struct ctl_place place, int fd, struct client_piece *piece)
{
    struct ctl_msg m = {.magic = CTL_MAGIC,
                        .version = CTL_VERSION,
                        .type = CTL_CREATE_QP,
                        .seq = s->conn.seq + 1,
                        .create_qp.place = place};

    assert_int_equal(ctl_send(s->daemon, &m, &fd, fd >= 0, 0), 0);
    return client_slab_create(&s->conn, &s->slabs, CTL_CREATE_QP, &m, &m.create_qp.place, piece);
}

static int destroy(struct said *s, uint64_t gone)
{
    struct ctl_msg m = {.magic = CTL_MAGIC,
                        .version = CTL_VERSION,
                        .type = CTL_DESTROY_QP,
                        .seq = s->conn.seq + 1,
                        .destroy.slab_gone = gone};

    assert_int_equal(ctl_send(s->daemon, &m, NULL, 0, 0), 0);
    return client_slab_destroy(&s->conn, &s->slabs, CTL_DESTROY_QP, 1);
}

static bool is_mapped(void *p)
{
    unsigned char resident;

    return !mincore((void *)((uintptr_t)p & ~(uintptr_t)4095), 1, &resident);
}

static void slabs_are_mapped_once(void **state)
{
    struct said s;
    struct client_piece first, second, other;
    int fd = sealed_memfd(F_SEAL_SHRINK), fd2 = sealed_memfd(F_SEAL_SHRINK);
    uint8_t byte;

    said_open(&s);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 5, .offset = 128}, fd, &first), 0);
    assert_int_equal(first.bytes, LEN - 128);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 5, .offset = 4160}, -1, &second), 0);
    assert_ptr_equal(second.base, (uint8_t *)first.base + 4160 - 128);
    *(uint8_t *)second.base = 0x5A;
    assert_int_equal(pread(fd, &byte, 1, 4160), 1);
    assert_int_equal(byte, 0x5A);
    /* Names may come in any order. */
    assert_int_equal(create(&s, (struct ctl_place){.slab = 3}, fd2, &other), 0);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 5, .offset = 128}, -1, &second), 0);
    assert_ptr_equal(second.base, first.base);
    assert_int_equal(destroy(&s, 0), 0);
    assert_int_equal(destroy(&s, 77), 0);
    assert_true(is_mapped(first.base) && is_mapped(other.base));
    assert_int_equal(destroy(&s, 5), 0);
    assert_false(is_mapped(first.base));
    assert_true(is_mapped(other.base));
    said_close(&s);
    assert_false(is_mapped(other.base));
    close(fd);
    close(fd2);
}

static int nobody_else_calls(void *arg, const int *fd, unsigned fds)
{
    struct conn *c = arg;

    assert_int_equal(fds, 0);
    return pthread_mutex_trylock(&c->lock) == EBUSY ? 0 : -EPROTO;
}

/* A reply that names a slab must not overtake the reply that brought the slab. */
static void replies_are_acted_on_in_order(void **state)
{
    struct ctl_msg m = {.magic = CTL_MAGIC, .version = CTL_VERSION, .type = CTL_ALLOC_PD, .seq = 1};
    struct said s;

    said_open(&s);
    assert_int_equal(ctl_send(s.daemon, &m, NULL, 0, 0), 0);
    assert_int_equal(conn_call_then(&s.conn, CTL_ALLOC_PD, &m, nobody_else_calls, &s.conn), 0);
    assert_int_equal(pthread_mutex_trylock(&s.conn.lock), 0);
    pthread_mutex_unlock(&s.conn.lock);
    said_close(&s);
}

/* When a queue moves to another slab, its old slab is unmapped after the new place is known. */
static void slabs_go_when_queues_move(void **state)
{
    struct said s;
    struct client_piece old, new;
    int fd = sealed_memfd(0), fd2 = sealed_memfd(0);

    said_open(&s);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 1}, fd, &old), 0);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 2, .gone = 1}, fd2, &new), 0);
    assert_true(is_mapped(new.base));
    assert_false(is_mapped(old.base));
    assert_int_equal(create(&s, (struct ctl_place){.slab = 2, .offset = LEN, .gone = 2}, -1, &old),
                     0);
    assert_null(old.base);
    assert_true(is_mapped(new.base));
    said_close(&s);
    close(fd);
    close(fd2);
}

/* Impossible replies end the connection: later ones have no known meaning. */
static void strange_slabs_are_refused(void **state)
{
    struct said s;
    struct client_piece piece;
    int fd = sealed_memfd(0);

    said_open(&s);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 9}, -1, &piece), -EIO);
    assert_null(piece.base);
    assert_true(s.conn.broken);
    assert_int_equal(destroy(&s, 0), -EIO);
    said_close(&s);
    said_open(&s);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(create(&s, (struct ctl_place){.slab = 9}, fd, &piece), i ? -EIO : 0);
        assert_int_equal(piece.base != NULL, !i);
    }
    said_close(&s);
    said_open(&s);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 9, .offset = LEN}, fd, &piece), 0);
    assert_null(piece.base);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 9, .offset = 4}, -1, &piece), 0);
    assert_null(piece.base);
    said_close(&s);
    close(fd);
}

/* The descriptor is kept: it does not come again. */
static void failed_mappings_are_tried_again(void **state)
{
    struct said s;
    struct client_piece piece;
    struct rlimit limit, none;
    int fd = sealed_memfd(0);

    said_open(&s);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 8}, fd, &piece), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 9}, fd, &piece), 0);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_null(piece.base);
    assert_int_equal(create(&s, (struct ctl_place){.slab = 9}, -1, &piece), 0);
    assert_int_equal(piece.bytes, LEN);
    said_close(&s);
    close(fd);
}

/* Calls while the process may have no more descriptors. */
static int call_without_room(struct said *s, enum ctl_type type, struct ctl_msg *m)
{
    int lowest = dup(STDIN_FILENO), err, fd;
    struct rlimit usual, low;

    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    low = (struct rlimit){(rlim_t)lowest, usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    err = conn_call(&s->conn, type, m, NULL, 0, &fd, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    return err;
}

/* The answer to the next request but `skip`. */
static void say(struct said *s, enum ctl_type type, uint32_t skip, struct ctl_msg m, int fd)
{
    m.magic = CTL_MAGIC;
    m.version = CTL_VERSION;
    m.type = (uint16_t)type;
    m.seq = s->conn.seq + 1 + skip;
    assert_int_equal(ctl_send(s->daemon, &m, &fd, fd >= 0, 0), 0);
}

static void heard(struct said *s, struct ctl_msg *m)
{
    int fds[CTL_MAX_FDS];
    unsigned n;

    assert_int_equal(ctl_recv(s->daemon, m, fds, &n, MSG_DONTWAIT), 0);
    assert_int_equal(n, 0);
}

/* What each reply with a descriptor has made is ended when the descriptor finds no room. */
static void lost_descriptors_are_undone(void **state)
{
    static const struct {
        enum ctl_type type, undo;
        struct ctl_msg reply;
        uint64_t slab;
    } rows[] = {
        {CTL_CREATE_CHANNEL, CTL_DESTROY_CHANNEL, {.handle = 7}, 0},
        {CTL_CM_CREATE_CHANNEL, CTL_CM_DESTROY_CHANNEL, {.handle = 7}, 0},
        {CTL_IMPORT, CTL_FREE_DM, {.import = {.handle = 7}}, 0},
        {CTL_CREATE_CQ, CTL_DESTROY_CQ, {.create_cq = {.handle = 7, .place.slab = 5}}, 5},
        {CTL_CREATE_QP, CTL_DESTROY_QP, {.create_qp = {.qpn = 7, .place.slab = 5}}, 5},
        {CTL_CREATE_QP_IN, CTL_DESTROY_QP, {.create_qp_in.create = {.qpn = 7, .place.slab = 5}}, 5},
        {CTL_CREATE_SRQ, CTL_DESTROY_SRQ, {.create_srq = {.handle = 7, .place.slab = 5}}, 5},
        {CTL_CREATE_WQ, CTL_DESTROY_WQ, {.create_wq = {.handle = 7, .place.slab = 5}}, 5},
        {CTL_ALLOC_DM, CTL_FREE_DM, {.alloc_dm = {.handle = 7, .place.slab = 5}}, 5},
        {CTL_CREATE_COUNTER,
         CTL_DESTROY_COUNTER,
         {.create_counter = {.handle = 7, .place.slab = 5}},
         5},
    };
    struct ctl_msg m;
    struct said s;

    said_open(&s);
    for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
        say(&s, rows[i].type, 0, rows[i].reply, STDIN_FILENO);
        say(&s, rows[i].undo, 1, (struct ctl_msg){0}, -1);
        m = (struct ctl_msg){0};
        assert_int_equal(call_without_room(&s, rows[i].type, &m), -EMFILE);
        assert_false(s.conn.broken);
        heard(&s, &m);
        assert_int_equal(m.type, rows[i].type);
        heard(&s, &m);
        assert_int_equal(m.type, rows[i].undo);
        assert_int_equal(m.destroy.handle, 7);
        assert_int_equal(m.destroy.slab_gone, rows[i].slab);
    }
    say(&s, CTL_GET_UFFD, 0, (struct ctl_msg){0}, STDIN_FILENO);
    m = (struct ctl_msg){0};
    assert_int_equal(call_without_room(&s, CTL_GET_UFFD, &m), -EMFILE);
    assert_false(s.conn.broken);
    said_close(&s);
}

/* A connection cannot go on when the daemon does not undo, or the call cannot be undone. */
static void what_is_not_undone_ends_the_connection(void **state)
{
    struct ctl_msg m = {0};
    struct said s;

    said_open(&s);
    say(&s, CTL_CREATE_CHANNEL, 0, (struct ctl_msg){.handle = 7}, STDIN_FILENO);
    say(&s, CTL_DESTROY_CHANNEL, 1, (struct ctl_msg){.status = -EBUSY}, -1);
    assert_int_equal(call_without_room(&s, CTL_CREATE_CHANNEL, &m), -EIO);
    assert_true(s.conn.broken);
    said_close(&s);
    said_open(&s);
    say(&s, CTL_RESIZE_CQ, 0, (struct ctl_msg){0}, STDIN_FILENO);
    assert_int_equal(call_without_room(&s, CTL_RESIZE_CQ, &m), -EIO);
    assert_true(s.conn.broken);
    said_close(&s);
}

/* The answers to a request for a counter, and to one that destroys it if it is refused. */
static int create_counter(struct said *s, struct client_counter *counter, uint32_t lanes,
                          uint64_t offset, int fd)
{
    static struct client c;
    struct ctl_msg m = {.magic = CTL_MAGIC,
                        .version = CTL_VERSION,
                        .type = CTL_CREATE_COUNTER,
                        .seq = s->conn.seq + 1,
                        .create_counter = {.handle = 7, .lanes = lanes}};
    int err;

    m.create_counter.place = (struct ctl_place){.slab = 5, .offset = offset};
    assert_int_equal(ctl_send(s->daemon, &m, &fd, fd >= 0, 0), 0);
    m = (struct ctl_msg){.magic = CTL_MAGIC,
                         .version = CTL_VERSION,
                         .type = CTL_DESTROY_COUNTER,
                         .seq = s->conn.seq + 2};
    assert_int_equal(ctl_send(s->daemon, &m, NULL, 0, 0), 0);
    c.conn = s->conn;
    c.slabs = s->slabs;
    err = client_counter_create(&c, counter, CTL_COUNTER_WRS);
    if (!err)
        assert_int_equal(client_counter_destroy(counter), 0);
    s->conn = c.conn;
    s->slabs = c.slabs;
    return err;
}

/* A counter's lines are in its slab, one for each worker that there may be. */
static void strange_counters_are_refused(void **state)
{
    int fd = sealed_memfd(F_SEAL_SHRINK);
    struct client_counter counter;
    struct said s;

    said_open(&s);
    assert_int_equal(create_counter(&s, &counter, 2, LEN - 128, fd), 0);
    assert_int_equal(counter.reader.lines, 2);
    assert_int_equal(counter_reader_get(&counter.reader, COUNTER_DONE), 0);
    assert_int_equal(create_counter(&s, &counter, 2, LEN - 64, -1), -EIO);
    assert_int_equal(create_counter(&s, &counter, 1, LEN - 64, -1), 0);
    assert_int_equal(create_counter(&s, &counter, 1, LEN, -1), -EIO);
    assert_int_equal(create_counter(&s, &counter, 0, 0, -1), -EIO);
    assert_int_equal(create_counter(&s, &counter, CTX_WORKERS_MAX, 0, -1), 0);
    assert_int_equal(create_counter(&s, &counter, CTX_WORKERS_MAX + 1, 0, -1), -EIO);
    assert_int_equal(create_counter(&s, &counter, UINT32_MAX, 0, -1), -EIO);
    said_close(&s);
    close(fd);
}

/* ---- requests that are answered later ---- */

/* Answers the next request, with the status that the test wants. */
static bool answer(struct said *s, int status)
{
    struct timeval limit = {.tv_sec = 5};
    struct ctl_msg m;

    setsockopt(s->daemon, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (recv(s->daemon, &m, sizeof(m), 0) != sizeof(m))
        return false;
    m.status = status;
    return !ctl_send(s->daemon, &m, NULL, 0, 0);
}

struct deregistration {
    struct client *client;
    struct client_mr mr;
    int err;
};

static void *deregister(void *arg)
{
    struct deregistration *d = arg;

    d->err = client_dereg_mr(d->client, &d->mr);
    return NULL;
}

/* As threads that register a region: waits for the lock, three times. */
static void *take_regions(void *arg)
{
    atomic_uint *taken = arg;

    while (atomic_load(taken) < 3) {
        pthread_mutex_lock(&mr_mutex);
        atomic_fetch_add(taken, 1);
        pthread_mutex_unlock(&mr_mutex);
    }
    return NULL;
}

/* While the daemon waits for one region, others can be registered, and the program can fork. And
 * the wait is no cancellation point. */
static void deregistration_holds_no_lock(void **state)
{
    struct client *client = calloc(1, sizeof(*client));
    struct deregistration d = {.client = client};
    struct said s;
    atomic_uint taken = 0;
    pthread_t thread, taker;
    void *result;

    said_open(&s);
    client->conn = s.conn;
    pthread_mutex_init(&client->conn.lock, NULL);
    assert_int_equal(pthread_create(&thread, NULL, deregister, &d), 0);
    assert_true(answer(&s, -EAGAIN));
    pthread_cancel(thread);
    assert_int_equal(pthread_create(&taker, NULL, take_regions, &taken), 0);
    for (unsigned i = 0; i < 3000 && atomic_load(&taken) < 3; i++)
        assert_true(answer(&s, -EAGAIN)); /* between two requests the lock is free */
    assert_int_equal(atomic_load(&taken), 3);
    assert_true(answer(&s, 0));
    pthread_join(taker, NULL);
    pthread_join(thread, &result);
    assert_null(result);
    assert_int_equal(d.err, 0);
    pthread_mutex_destroy(&client->conn.lock);
    free(client);
    said_close(&s);
}

/* ---- a completion queue that is destroyed while it is read ---- */

struct leaving {
    struct client *client;
    struct client_cq cq;
    bool reads; /* the thread that destroys it has not called ibv_end_poll */
    int err;
};

static void *destroy_cq(void *arg)
{
    struct leaving *l = arg;

    if (l->reads) {
        client_cq_lock(&l->cq);
        client_cq_reads(&l->cq, &client_idle);
    }
    l->err = client_cq_destroy(&l->cq);
    return NULL;
}

static struct leaving *leaving_open(struct said *s)
{
    static CACHE_ALIGNED uint8_t segment[4 * CACHE_LINE + sizeof(struct cq_lane)];
    struct leaving *l = calloc(1, sizeof(*l));

    said_open(s);
    l->client = calloc(1, sizeof(*l->client));
    l->client->conn = s->conn;
    pthread_mutex_init(&l->client->conn.lock, NULL);
    slot_table_init(&l->client->cqs);
    l->cq.client = l->client;
    l->cq.reader = (struct cq_reader){.shared = (void *)segment, .size = 1, .lanes = 1};
    assert_int_equal(slot_table_reserve(&l->client->cqs, &l->cq.id), 0);
    slot_table_publish(&l->client->cqs, l->cq.id, &l->cq);
    return l;
}

static void leaving_close(struct leaving *l, struct said *s)
{
    slot_table_destroy(&l->client->cqs);
    pthread_mutex_destroy(&l->client->conn.lock);
    free(l->client);
    free(l);
    said_close(s);
}

/* Who has an event of it may poll until the event is acknowledged, for which the destruction waits:
 * the poll that is under way ends in the segment where it began. */
static void destruction_waits_for_a_poll(void **state)
{
    struct said s;
    struct leaving *l = leaving_open(&s);
    struct cq_shared *segment = l->cq.reader.shared;
    struct timespec pause = {.tv_nsec = 50000000};
    pthread_t thread;

    client_cq_lock(&l->cq);
    assert_int_equal(pthread_create(&thread, NULL, destroy_cq, l), 0);
    nanosleep(&pause, NULL);
    assert_ptr_equal(l->cq.reader.shared, segment);
    assert_null(client_cq_next(&l->cq));
    client_cq_unlock(&l->cq);
    assert_true(answer(&s, 0));
    pthread_join(thread, NULL);
    assert_int_equal(l->err, 0);
    client_cq_lock(&l->cq);
    assert_true(client_cq_is_leaving(&l->cq));
    client_cq_unlock(&l->cq);
    leaving_close(l, &s);
}

static void its_reader_may_destroy_it(void **state)
{
    struct said s;
    struct leaving *l = leaving_open(&s);
    pthread_t thread;

    l->reads = true;
    assert_int_equal(pthread_create(&thread, NULL, destroy_cq, l), 0);
    assert_true(answer(&s, 0));
    pthread_join(thread, NULL);
    assert_int_equal(l->err, 0);
    leaving_close(l, &s);
}

/* A daemon that never has done is asked for as long as one that does not answer. */
static void retries_end(void **state)
{
    struct conn_retry p = {0};

    assert_true(conn_wait(&p));
    assert_in_range(p.pause, 1000000, 20000000);
    for (unsigned i = 0; i < 6; i++)
        assert_true(conn_wait(&p));
    assert_int_equal(p.pause, 20000000);
    p.until -= CONN_REPLY_SECONDS + 1;
    assert_false(conn_wait(&p));
}

static void no_daemon_is_an_error(void **state)
{
    struct client c;
    char path[200];

    setenv(CTL_SOCKET_ENV, "/nonexistent/uroce.sock", 1);
    assert_int_equal(client_open(&c, 0), -ENOENT);
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    setenv(CTL_SOCKET_ENV, path, 1);
    assert_int_equal(client_open(&c, 0), -ENAMETOOLONG);
    unsetenv(CTL_SOCKET_ENV);
}

static struct client *idle_client(uint32_t spin_limit)
{
    struct client *c = calloc(1, sizeof(*c));

    c->shared = aligned_alloc(CACHE_LINE, ctx_segment_bytes(1));
    memset(c->shared, 0, ctx_segment_bytes(1));
    atomic_store(&c->shared->spin_limit, spin_limit);
    slot_table_init(&c->cqs);
    return c;
}

static void idle_client_free(struct client *c)
{
    slot_table_destroy(&c->cqs);
    free(c->shared);
    free(c);
}

static void empty_polls_are_counted(void **state)
{
    struct client *c = idle_client(1000);
    struct client_cq cq = {.client = c};

    client_idle.yields.looks = 63;
    for (unsigned i = 0; i < 10; i++)
        client_poll_empty(&cq);
    assert_int_equal(atomic_load(&c->shared->polls), 10);
    assert_int_equal(client_idle.empty_polls, 10);
    client_poll_found();
    assert_int_equal(client_idle.empty_polls, 0);
    idle_client_free(c);
}

static _Thread_local unsigned yields;
static bool others; /* another thread uses the CPU */
static _Thread_local int64_t fake_ns;

/* Two functions in place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
    *ts = (struct timespec){.tv_sec = fake_ns / 1000000000, .tv_nsec = fake_ns % 1000000000};
    return 0;
}

int sched_yield(void)
{
    yields++;
    fake_ns += others ? 20000 : 300;
    return 0;
}

/* Empty polls of this many queues, in turns; returns the number of yields. */
static unsigned polls(struct client_cq *cq, unsigned queues, unsigned times)
{
    yields = 0;
    for (unsigned i = 0; i < times; i++)
        client_poll_empty(&cq[i % queues]);
    return yields;
}

static void yields_once_a_round(void **state)
{
    struct client *c = idle_client(0);
    struct client_cq cq[6];

    for (unsigned i = 0; i < 6; i++)
        cq[i] = (struct client_cq){.client = c, .id = i + 1};
    polls(cq, 1, 10);
    others = true;
    polls(cq, 1, 100);
    assert_int_equal(polls(cq, 1, 10), 10);
    /* Two to four in turn: when the first of them is polled again. */
    for (unsigned n = 2; n <= 4; n++)
        assert_int_equal(polls(cq, n, 10 * n), 10);
    /* The first one is no longer polled: another one counts soon. */
    polls(cq, 1, 1);
    assert_int_equal(polls(&cq[5], 1, 13), 10);
    idle_client_free(c);
}

static void yields_seldom_when_alone(void **state)
{
    struct client *c = idle_client(0);
    struct client_cq cq = {.client = c};

    others = false;
    polls(&cq, 1, 100);
    assert_int_equal(polls(&cq, 1, 160), 10);
    atomic_store(&c->shared->spin_limit, 63);
    polls(&cq, 1, 1000);
    assert_int_equal(polls(&cq, 1, 640), 10);
    others = true;
    polls(&cq, 1, 100);
    assert_int_equal(polls(&cq, 1, 100), 100);
    idle_client_free(c);
}

static struct client_cq *threads_cq;
static _Atomic unsigned turn;

/* Each polls a queue of its own, in turns. */
static void *poller(void *arg)
{
    unsigned me = arg != NULL;

    for (unsigned i = 0; i < 1000; i++) {
        while (atomic_load(&turn) % 2 != me)
            usleep(1);
        client_poll_empty(&threads_cq[me]);
        atomic_fetch_add(&turn, 1);
    }
    return (void *)(uintptr_t)yields;
}

static void threads_yield_each(void **state)
{
    struct client *c = idle_client(0);
    struct client_cq cq[2] = {{.client = c, .id = 1}, {.client = c, .id = 2}};
    pthread_t thread;
    void *others_yields;
    unsigned before = yields;

    others = true;
    threads_cq = cq;
    pthread_create(&thread, NULL, poller, cq);
    assert_in_range((uintptr_t)poller(NULL) - before, 990, 1000);
    pthread_join(thread, &others_yields);
    assert_in_range((uintptr_t)others_yields, 990, 1000);
    idle_client_free(c);
}

static atomic_bool woken;

/* The dataplane's part: waits for the armed word, clears it, wakes. */
static void *waker(void *arg)
{
    struct client *c = arg;

    while (!atomic_exchange(&c->shared->app_armed, 0))
        cpu_pause();
    atomic_store(&woken, true);
    return NULL;
}

static void blocking_arms_and_ends(void **state)
{
    struct client *c = idle_client(0);
    struct client_cq cq = {.client = c};
    pthread_t thread;

    client_idle.blocking_polls = 1000;
    pthread_create(&thread, NULL, waker, c);
    while (client_idle.blocking_polls > 900)
        client_poll_empty(&cq);
    while (!atomic_load(&woken)) { /* the other thread may not have had a CPU so far */
        client_idle.blocking_polls = 2;
        client_poll_empty(&cq);
    }
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&c->shared->app_armed), 0);
    assert_false(atomic_load(&c->blocking.held));
    idle_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_name_one_object_only),
        cmocka_unit_test(cookies_of_others_are_nobody),
        cmocka_unit_test(sealed_shared_memory_is_found),
        cmocka_unit_test(memory_with_a_long_name_is_found),
        cmocka_unit_test(each_of_many_descriptors_is_found),
        cmocka_unit_test(other_memory_is_not_offered),
        cmocka_unit_test(slabs_are_mapped_once),
        cmocka_unit_test(replies_are_acted_on_in_order),
        cmocka_unit_test(slabs_go_when_queues_move),
        cmocka_unit_test(strange_slabs_are_refused),
        cmocka_unit_test(strange_counters_are_refused),
        cmocka_unit_test(failed_mappings_are_tried_again),
        cmocka_unit_test(lost_descriptors_are_undone),
        cmocka_unit_test(what_is_not_undone_ends_the_connection),
        cmocka_unit_test(deregistration_holds_no_lock),
        cmocka_unit_test(destruction_waits_for_a_poll),
        cmocka_unit_test(its_reader_may_destroy_it),
        cmocka_unit_test(retries_end),
        cmocka_unit_test(no_daemon_is_an_error),
        cmocka_unit_test(empty_polls_are_counted),
        cmocka_unit_test(yields_once_a_round),
        cmocka_unit_test(yields_seldom_when_alone),
        cmocka_unit_test(threads_yield_each),
        cmocka_unit_test(blocking_arms_and_ends),
    };

    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
