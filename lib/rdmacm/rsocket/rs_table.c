/* SPDX-License-Identifier: BSD-3-Clause */
#include "rs_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define PAGE_FDS 1024
#define PAGES    1024
#define LOCKS    16

struct page {
    struct rs_object *object[PAGE_FDS];
};

/* Pages stay; a lock guards the descriptors that have its number modulo LOCKS. */
static _Atomic(struct page *) pages[PAGES];
static pthread_mutex_t locks[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Threads of the parent may have held them, which the child does not have. */
static void renew_locks(void)
{
    for (unsigned i = 0; i < LOCKS; i++)
        pthread_mutex_init(&locks[i], NULL);
}

static void register_fork_handlers(void)
{
    pthread_atfork(NULL, NULL, renew_locks);
}

static pthread_mutex_t *lock_of(int fd)
{
    return &locks[fd % LOCKS];
}

/* Where the object of a descriptor is held, or NULL. */
static struct rs_object **place_of(int fd)
{
    struct page *page;

    if (fd < 0 || fd >= PAGES * PAGE_FDS)
        return NULL;
    page = atomic_load_explicit(&pages[fd / PAGE_FDS], memory_order_acquire);
    return page ? &page->object[fd % PAGE_FDS] : NULL;
}

static int make_page(int fd)
{
    struct page *page = calloc(1, sizeof(*page)), *none = NULL;

    if (!page)
        return -ENOMEM;
    if (!atomic_compare_exchange_strong(&pages[fd / PAGE_FDS], &none, page))
        free(page);
    return 0;
}

int rs_table_add(struct rs_object *object)
{
    static atomic_uint_fast64_t last;
    int fd = object->fd;

    if (fd < 0 || fd >= PAGES * PAGE_FDS)
        return -EMFILE;
    pthread_once(&once, register_fork_handlers);
    if (!place_of(fd) && make_page(fd))
        return -ENOMEM;
    atomic_init(&object->refs, 1);
    object->serial = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    pthread_mutex_lock(lock_of(fd));
    *place_of(fd) = object;
    pthread_mutex_unlock(lock_of(fd));
    return 0;
}

struct rs_object *rs_table_get(int fd, enum rs_kind kind)
{
    struct rs_object **place = place_of(fd), *object;

    if (!place)
        return NULL;
    pthread_mutex_lock(lock_of(fd));
    object = *place;
    if (object && object->kind == kind)
        atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
    else
        object = NULL;
    pthread_mutex_unlock(lock_of(fd));
    return object;
}

uint64_t rs_table_serial(int fd)
{
    struct rs_object **place = place_of(fd);
    uint64_t serial;

    if (!place)
        return 0;
    pthread_mutex_lock(lock_of(fd));
    serial = *place ? (*place)->serial : 0;
    pthread_mutex_unlock(lock_of(fd));
    return serial;
}

static void visit_at(int fd, void (*visit)(struct rs_object *object, void *arg), void *arg)
{
    struct rs_object *object;

    if (pthread_mutex_trylock(lock_of(fd)))
        return;
    object = *place_of(fd);
    if (object)
        atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(lock_of(fd));
    if (!object)
        return;
    visit(object, arg);
    rs_object_put(object);
}

void rs_table_each(void (*visit)(struct rs_object *object, void *arg), void *arg)
{
    for (int page = 0; page < PAGES; page++)
        for (int i = 0; i < PAGE_FDS && place_of(page * PAGE_FDS); i++)
            visit_at(page * PAGE_FDS + i, visit, arg);
}

bool rs_table_remove(struct rs_object *object)
{
    struct rs_object **place = place_of(object->fd);
    bool ours;

    pthread_mutex_lock(lock_of(object->fd));
    ours = *place == object;
    if (ours)
        *place = NULL;
    pthread_mutex_unlock(lock_of(object->fd));
    return ours;
}

void rs_object_put(struct rs_object *object)
{
    if (atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) == 1)
        object->destroy(object);
}
