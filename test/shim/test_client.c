/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/client without a daemon: names of objects, memory that can be mapped, the polling discipline.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/unit.h"
#include "client.h"
#include "client_cq.h"
#include "client_mr.h"

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

static int sealed_memfd(int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, LEN), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void sealed_shared_memory_is_found(void **state)
{
    int fd = sealed_memfd(F_SEAL_SHRINK), found;
    uint8_t *p = mmap(NULL, LEN / 2, PROT_READ | PROT_WRITE, MAP_SHARED, fd, LEN / 2);
    uint64_t offset = 0;
    uint8_t byte;

    found = mr_backing_find((uintptr_t)p + 100, LEN / 2 - 100, &offset);
    assert_true(found >= 0);
    assert_int_equal(offset, LEN / 2 + 100);
    p[100] = 0x5A;
    assert_int_equal(pread(found, &byte, 1, (off_t)offset), 1);
    assert_int_equal(byte, 0x5A);
    close(found);
    /* One byte more than there is. */
    assert_int_equal(mr_backing_find((uintptr_t)p, LEN / 2 + 1, &offset), -ENOENT);
    assert_int_equal(mr_backing_find((uintptr_t)p, UINT64_MAX, &offset), -ENOENT);
    assert_int_equal(mr_backing_find((uintptr_t)p, 0, &offset), -ENOENT);
    /* The daemon must not be able to write what the application cannot. */
    assert_int_equal(mprotect(p, LEN / 2, PROT_READ), 0);
    assert_int_equal(mr_backing_find((uintptr_t)p, 100, &offset), -ENOENT);
    munmap(p, LEN / 2);
    close(fd);
}

static void other_memory_is_not_offered(void **state)
{
    int fd = sealed_memfd(0);
    uint8_t *shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint8_t *private = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    void *heap = malloc(LEN);
    uint64_t offset;

    assert_int_equal(mr_backing_find((uintptr_t)shared, LEN, &offset), -ENOENT);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(mr_backing_find((uintptr_t) private, LEN, &offset), -ENOENT);
    assert_int_equal(mr_backing_find((uintptr_t)heap, LEN, &offset), -ENOENT);
    assert_int_equal(mr_backing_find(1, 16, &offset), -ENOENT);
    /* Without its descriptor the memory cannot be handed on. */
    close(fd);
    assert_int_equal(mr_backing_find((uintptr_t)shared, LEN, &offset), -ENOENT);
    munmap(shared, LEN);
    munmap(private, LEN);
    free(heap);
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

    for (unsigned i = 0; i < 10; i++)
        client_poll_empty(c);
    assert_int_equal(atomic_load(&c->shared->polls), 10);
    assert_int_equal(atomic_load(&c->idle.empties), 10);
    client_poll_found(c);
    assert_int_equal(atomic_load(&c->idle.empties), 0);
    idle_client_free(c);
}

/* The dataplane's part: waits for the armed word, takes it, wakes. */
static void *waker(void *arg)
{
    struct client *c = arg;

    while (!atomic_exchange(&c->shared->app_armed, 0))
        cpu_pause();
    return NULL;
}

static void blocking_arms_and_ends(void **state)
{
    struct client *c = idle_client(0);
    pthread_t thread;

    atomic_store(&c->idle.block, 1000);
    pthread_create(&thread, NULL, waker, c);
    while (atomic_load(&c->idle.block) > 900)
        client_poll_empty(c);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&c->shared->app_armed), 0);
    assert_false(atomic_load(&c->idle.blocking.held));
    idle_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_name_one_object_only),
        cmocka_unit_test(cookies_of_others_are_nobody),
        cmocka_unit_test(sealed_shared_memory_is_found),
        cmocka_unit_test(other_memory_is_not_offered),
        cmocka_unit_test(no_daemon_is_an_error),
        cmocka_unit_test(empty_polls_are_counted),
        cmocka_unit_test(blocking_arms_and_ends),
    };

    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
