/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that a lying program can offer a running uroced to map: it is copied, or refused, and
 * other programs are not affected. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "unit.h"

#define PAGE  4096u
#define PAGES 16u

static struct client client;
static uint32_t pd;
static uint8_t *memory; /* the memory from which the daemon copies instead */

static int setup(void **state)
{
    struct ctl_msg m = {0};

    memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, PAGES * PAGE);
    if (client_open(&client, 0) || conn_call(&client.conn, CTL_ALLOC_PD, &m, NULL, 0, NULL, 0))
        return -1;
    pd = m.handle;
    return 0;
}

static int teardown(void **state)
{
    client_close(&client);
    munmap(memory, PAGES * PAGE);
    return 0;
}

static int make_file(uint64_t bytes, int seals, bool complete)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    for (uint64_t at = 0; complete && at < bytes; at += PAGE)
        assert_int_equal(pwrite(fd, "x", 1, (off_t)at), 1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static struct ctl_msg request(unsigned pieces)
{
    struct ctl_msg m = {.reg_mr = {.pd = pd,
                                   .access = 1,
                                   .addr = (uintptr_t)memory,
                                   .iova = (uintptr_t)memory,
                                   .length = PAGES * PAGE,
                                   .flags = CTL_MR_FD,
                                   .why = CTL_MR_ADOPTED,
                                   .pieces = pieces}};

    return m;
}

/* 1: mapped, 0: copied, or an error. */
static int offer(struct ctl_msg m, int fd, uint32_t *handle)
{
    int err = conn_call(&client.conn, CTL_REG_MR, &m, &fd, 1, NULL, 0);

    if (err)
        return err;
    if (handle)
        *handle = m.reg_mr.handle;
    else
        assert_int_equal(conn_call_handle(&client.conn, CTL_DEREG_MR, m.reg_mr.handle), 0);
    return (int)m.reg_mr.mapped;
}

static void files(void **state)
{
    const uint64_t bytes = PAGES * PAGE;
    int good = make_file(bytes, F_SEAL_SHRINK, true), other[2];
    int short_later = make_file(bytes, 0, true);
    int bad[] = {
        make_file(bytes, F_SEAL_SHRINK, false),    /* has no pages */
        make_file(bytes - 1, F_SEAL_SHRINK, true), /* too short */
        make_file(UINT64_C(1) << 62, F_SEAL_SHRINK, false),
        make_file(bytes, F_SEAL_SHRINK | F_SEAL_WRITE, true),
        open("/dev/zero", O_RDWR | O_CLOEXEC),
    };

    assert_int_equal(offer(request(0), good, NULL), 1);
    /* The daemon is this user's, and may be ended by it. */
    assert_int_equal(offer(request(0), short_later, NULL), 1);
    close(short_later);
    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(offer(request(0), bad[i], NULL), 0);
        close(bad[i]);
    }
    assert_int_equal(pipe(other), 0);
    assert_int_equal(offer(request(0), other[0], NULL), 0);
    /* A hole in the middle. */
    assert_int_equal(fallocate(good, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5 * PAGE, PAGE),
                     0);
    assert_int_equal(offer(request(0), good, NULL), 0);
    close(good);
}

static struct ctl_msg backwards(void)
{
    struct ctl_msg m = request(PAGES);

    for (unsigned i = 0; i < PAGES; i++)
        m.reg_mr.piece[i] = (struct ctl_mr_piece){(PAGES - 1 - i) * PAGE, PAGE};
    return m;
}

static void pieces(void **state)
{
    int fd = make_file(PAGES * PAGE, F_SEAL_SHRINK, true);
    struct ctl_msg m;

    assert_int_equal(offer(backwards(), fd, NULL), 1);
    m = backwards();
    m.reg_mr.pieces = PAGES - 1;
    assert_int_equal(offer(m, fd, NULL), 0);
    m.reg_mr.pieces = PAGES + 1;
    assert_int_equal(offer(m, fd, NULL), 0);
    m.reg_mr.pieces = UINT32_MAX;
    assert_int_equal(offer(m, fd, NULL), 0);
    m = backwards();
    m.reg_mr.piece[3].offset = UINT64_MAX - PAGE + 1;
    assert_int_equal(offer(m, fd, NULL), 0);
    m = backwards();
    m.reg_mr.piece[3].length = UINT64_MAX;
    assert_int_equal(offer(m, fd, NULL), 0);
    m = backwards();
    m.reg_mr.piece[3].offset += 8;
    assert_int_equal(offer(m, fd, NULL), 0);
    close(fd);
}

/* A program has an eighth of the daemon's mappings, and others have theirs. */
static void as_many_as_possible(void **state)
{
    int fd = make_file(PAGES * PAGE, F_SEAL_SHRINK, true);
    struct client second;
    unsigned mapped = 0;
    uint32_t handle;

    while (mapped < 10000 && offer(backwards(), fd, &handle) == 1)
        mapped++;
    assert_in_range(mapped, 100, 9999);
    assert_int_equal(offer(backwards(), fd, NULL), 0);
    assert_int_equal(client_open(&second, 0), 0);
    client_close(&second);
    close(fd);
}

/* And never reports that it is done. */
static void frozen_for_ever(void **state)
{
    struct client second;

    assert_int_equal(client_open(&second, 0), 0);
    for (unsigned i = 0; i < 200; i++) {
        struct ctl_msg m = {.freeze = {.flags = i % 2 ? CTL_FREEZE_UNMAP : 0}};

        assert_int_equal(conn_call(&client.conn, CTL_FREEZE_MRS, &m, NULL, 0, NULL, 0), 0);
        assert_true(m.freeze.granted_us <= 20000);
    }
    client_close(&second);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(files),
        cmocka_unit_test(pieces),
        cmocka_unit_test(as_many_as_possible),
        cmocka_unit_test(frozen_for_ever),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
