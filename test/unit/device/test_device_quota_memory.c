/* SPDX-License-Identifier: BSD-3-Clause */
/* What quotas say of memory: what is charged covers what objects and answers take. And what is
 * shown of quotas. */
#include "quota_kit.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "qp_memory.h"
#include "resp_commit.h"

/* ---- memory ---- */

/* The C library's allocator, without what is shared with the client. */
static uint64_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* The tables grow by doubling, so that many objects are looked at. */
static void test_heap_is_charged(void **state)
{
    enum { OBJECTS = 200 };
    struct client c;
    uint32_t handle;

    for (unsigned i = 0; i < ARRAY_SIZE(makers); i++) {
        uint64_t heap, charged;

        set_limits(&(struct quota_limits){.total[QUOTA_PD] = 60000});
        client_open(&c, geteuid());
        heap = heap_bytes();
        charged = c.session->account.used[QUOTA_MEMORY];
        for (unsigned k = 0; k < OBJECTS; k++)
            assert_int_equal(makers[i].create(&c, &handle), 0);
        heap = heap_bytes() - heap;
        charged = c.session->account.used[QUOTA_MEMORY] - charged;
        print_message("# %s: %u bytes of heap, %u charged\n", makers[i].name,
                      (unsigned)(heap / OBJECTS), (unsigned)(charged / OBJECTS));
        assert_true(heap <= charged);
        session_close(c.session);
    }
}

/* A queue pair with all the work in flight that it can have. */
static void test_busy_queue_pair_is_charged(void **state)
{
    static const uint32_t depth[] = {1, 2, 16, 128, 1000};
    struct client c;

    set_limits(&(struct quota_limits){.total[QUOTA_PD] = 60000});
    client_open(&c, geteuid());
    for (unsigned i = 0; i < ARRAY_SIZE(depth); i++) {
        struct ctl_msg m = {.create_qp = {.pd = c.pd,
                                          .send_cq = c.cq,
                                          .recv_cq = c.cq,
                                          .type = QPT_RC,
                                          .caps = {.max_send_wr = depth[i],
                                                   .max_recv_wr = 1,
                                                   .max_send_sge = LIMIT_SGE,
                                                   .max_recv_sge = LIMIT_SGE}}};
        uint64_t before = heap_bytes(), charged;
        struct resp_resource *res;
        struct qp_object *q;
        struct qp *qp;

        assert_int_equal(call(&c, CTL_CREATE_QP, &m), 0);
        q = qp_object_get(c.session, m.create_qp.qpn);
        qp = q->dp.qp;
        ((struct qp_shared *)q->segment.base)->sq_prod = m.create_qp.sq_size;
        while (req_grow_slots(qp)) {
        }
        assert_int_equal(qp->req.slot_count, min_of(m.create_qp.sq_size, SEND_SLOTS_MAX));
        assert_int_equal(resp_resources_alloc(&res, RD_ATOM_INCLUDED), 0);
        resp_resources_set(qp, res, RD_ATOM_INCLUDED);
        /* What the alignment of three blocks may leave unused. */
        charged = q->memory + 512 + 3 * CACHE_LINE;
        assert_true(heap_bytes() - before <= charged);
        assert_true(charged < (heap_bytes() - before) * 3 / 2 + 4096 || !heap_bytes());
    }
    session_close(c.session);
}

static uint64_t resident_bytes(void)
{
    unsigned long size, resident;
    FILE *f = fopen("/proc/self/statm", "re");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &size, &resident), 2);
    fclose(f);
    return resident * 4096;
}

/* One user creates the largest queues, and uses all of them, until the daemon refuses: the process
 * has grown by no more than the user's quota. */
static void test_memory_is_bounded(void **state)
{
    const uint64_t quota = 24 << 20;
    struct ctl_msg m;
    struct client c;
    uint64_t before;
    unsigned n = 0;

    set_limits(&(struct quota_limits){.user[QUOTA_MEMORY] = quota});
    client_open(&c, alice());
    before = resident_bytes();
    for (;;) {
        struct ctl_msg rq = {.create_cq.cqe = n % 2 ? 65536 : 4096};
        void *segment;

        m = rq;
        if (call(&c, CTL_CREATE_CQ, &m))
            break;
        segment = session_cq_segment(c.session, m.create_cq.handle);
        memset(segment, 1, m.create_cq.segment_bytes);
        n++;
    }
    assert_true(n >= 2);
    assert_true(resident_bytes() - before < quota + (2 << 20));
    session_close(c.session);
    assert_all_returned();
}

/* ---- what is shown ---- */

/* The row of "quotas" for a kind of a user, or of all. */
static json_t *quota_row(const json_t *shown, const char *uid, const char *kind)
{
    json_t *row, *found = NULL;
    char text[32];
    size_t i;

    json_array_foreach(json_object_get(shown, "quotas"), i, row)
    {
        json_t *of = json_object_get(row, "uid");

        snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(of));
        if (!strcmp(json_is_string(of) ? json_string_value(of) : text, uid) &&
            !strcmp(json_string_value(json_object_get(row, "kind")), kind)) {
            assert_null(found);
            found = row;
        }
    }
    return found;
}

static json_int_t number(const json_t *row, const char *name)
{
    assert_non_null(row);
    return json_integer_value(json_object_get(row, name));
}

static void test_show(void **state)
{
    struct client a, b, own;
    char uid[32], other[32];
    json_t *shown, *row;
    uint32_t handle;

    set_limits(&(struct quota_limits){.user[QUOTA_PD] = 3, .user[QUOTA_MEMORY] = 64 << 20});
    client_open(&a, alice());
    client_open(&b, alice());
    client_open(&own, geteuid());
    assert_int_equal(create_pd(&a, &handle), 0);
    assert_int_equal(create_pd(&a, &handle), -ENOMEM);
    snprintf(uid, sizeof(uid), "%u", (unsigned)alice());
    snprintf(other, sizeof(other), "%u", (unsigned)geteuid());
    shown = shown_to(alice());
    row = quota_row(shown, uid, "pds");
    assert_int_equal(number(row, "used"), 3);
    assert_int_equal(number(row, "limit"), 3);
    assert_int_equal(number(row, "refused"), 1);
    assert_string_equal(json_string_value(json_object_get(row, "device")), "uroce0");
    assert_int_equal(number(quota_row(shown, uid, "connections"), "used"), 2);
    assert_int_equal(number(quota_row(shown, uid, "memory"), "limit"), 64 << 20);
    assert_null(json_object_get(quota_row(shown, uid, "mappings"), "limit"));
    assert_null(quota_row(shown, uid, "flows"));
    assert_null(quota_row(shown, "all", "pds"));
    assert_null(quota_row(shown, other, "pds"));
    row = json_array_get(json_object_get(shown, "clients"), 0);
    assert_int_equal(number(row, "refused"), 1);
    assert_int_equal(number(row, "memory"), a.session->account.used[QUOTA_MEMORY]);
    assert_int_equal(number(row, "descriptors"), 7);
    assert_int_equal(number(row, "mappings"), a.session->account.used[QUOTA_MAPPING]);
    json_decref(shown);
    shown = shown_to(geteuid());
    row = quota_row(shown, "all", "pds");
    assert_int_equal(number(row, "used"), 4);
    assert_int_equal(number(row, "limit"), LIMIT_PD);
    assert_int_equal(number(row, "refused"), 1);
    assert_non_null(quota_row(shown, uid, "pds"));
    assert_int_equal(number(quota_row(shown, other, "pds"), "limit"), LIMIT_PD);
    json_decref(shown);
    session_close(a.session);
    session_close(b.session);
    session_close(own.session);
}

/* The file of an answer, from a client that keeps it. */
static int keep_answer(struct session *sn)
{
    struct ctl_call k = {0};

    assert_int_equal(kit_call(sn, CTL_SHOW, &(struct ctl_msg){0}, &k, true), 0);
    assert_int_equal(k.out_fds, 1);
    return k.out_fd[0];
}

static uint64_t bytes_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* A client that keeps all answers keeps the memory of one. */
static void test_answers_are_charged(void **state)
{
    struct quota_limits limits = {0};
    struct ctl_call k = {0};
    struct session *sn;
    uint64_t had;
    int fd[2];

    set_limits(&limits);
    sn = connect_as(alice());
    had = sn->account.used[QUOTA_MEMORY];
    for (unsigned i = 0; i < 3; i++) {
        fd[0] = keep_answer(sn);
        assert_true(bytes_of(fd[0]) > 0);
        assert_int_equal(sn->account.used[QUOTA_MEMORY], had + bytes_of(fd[0]));
        fd[1] = keep_answer(sn);
        assert_int_equal(bytes_of(fd[0]), 0);
        assert_int_equal(sn->account.used[QUOTA_MEMORY], had + bytes_of(fd[1]));
        close(fd[0]);
        close(fd[1]);
    }
    fd[0] = keep_answer(sn);
    session_close(sn);
    assert_int_equal(bytes_of(fd[0]), 0);
    close(fd[0]);
    assert_all_returned();
    limits.client[QUOTA_MEMORY] = had;
    set_limits(&limits);
    sn = connect_as(alice());
    assert_int_equal(kit_call(sn, CTL_SHOW, &(struct ctl_msg){0}, &k, true), -ENOMEM);
    assert_int_equal(k.out_fds, 0);
    session_close(sn);
    sn = connect_as(geteuid());
    close(keep_answer(sn)); /* owners can look */
    session_close(sn);
    assert_all_returned();
}

/* The file of an answer that is being written, or -1. */
static int unfinished_answer(void)
{
    char path[32], target[64];

    for (int fd = 0; fd < 256; fd++) {
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        target[max_of(n, (ssize_t)0)] = 0;
        if (strstr(target, "uroce-show"))
            return fd;
    }
    return -1;
}

static void note_retry(void *ctx)
{
    *(bool *)ctx = true;
}

/* Its file is charged before it grows, and ends where the quota does. */
static void test_unfinished_answers_are_charged(void **state)
{
    struct quota_limits limits = {.client[QUOTA_MEMORY] = 16 << 20};
    struct ctl_msg m = {0};
    struct ctl_call k = {0};
    uint64_t had, most = 0;
    bool retry = false;
    struct session *sn;
    struct client own;
    uint32_t handle;

    set_limits(&limits);
    client_open(&own, alice());
    for (unsigned i = 0; i < 4096; i++)
        assert_int_equal(create_mr(&own, &handle), 0);
    sn = connect_as(alice());
    had = sn->account.used[QUOTA_MEMORY];
    rnic_on_retry(rnic, note_retry, &retry);
    assert_int_equal(kit_call(sn, CTL_SHOW, &m, &k, true), -EINPROGRESS);
    while (!retry) {
        uint64_t now = bytes_of(unfinished_answer());

        assert_true(now <= sn->account.used[QUOTA_MEMORY] - had);
        most = max_of(most, now);
        assert_true(event_loop_step(loop, 0));
    }
    assert_true(most > 256 << 10);
    assert_int_equal(kit_call(sn, CTL_SHOW, &m, &k, true), 0);
    close(k.out_fd[0]);
    session_close(sn);
    rnic->quota.limit[QUOTA_MEMORY].client = had + (512 << 10);
    sn = connect_as(alice());
    k.out_fds = 0;
    for (retry = false; kit_call(sn, CTL_SHOW, &m, &k, true) == -EINPROGRESS; retry = false) {
        while (!retry)
            assert_true(event_loop_step(loop, 0));
    }
    assert_int_equal(k.reply.status, -ENOMEM);
    assert_int_equal(unfinished_answer(), -1);
    assert_int_equal(sn->account.used[QUOTA_MEMORY], had);
    /* In the middle of another. */
    assert_int_equal(kit_call(sn, CTL_SHOW, &m, &k, true), -EINPROGRESS);
    session_close(sn);
    assert_int_equal(unfinished_answer(), -1);
    rnic_on_retry(rnic, NULL, NULL);
    session_close(own.session);
    assert_all_returned();
}
int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, quota_setup, quota_teardown)
    const struct CMUnitTest tests[] = {
        T(test_heap_is_charged),     T(test_busy_queue_pair_is_charged),
        T(test_memory_is_bounded),   T(test_show),
        T(test_answers_are_charged), T(test_unfinished_answers_are_charged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
