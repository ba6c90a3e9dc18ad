/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread has no pointers to sockets: the set of epoll(7) has a descriptor and a part of its
 * serial number for each, and the table says before each step whether that socket is still there.
 * So rclose, which takes it out of the table first, waits for one step at most.
 *
 * The set is edge-triggered: a socket that cannot go on, since its backlog is full or descriptors
 * are wanting, does not wake the thread again; the call that makes room goes on itself.
 */
#include "rs_service.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common.h"

#define STACK_SIZE (256 * 1024)
#define NEWS_MAX   16

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int set = -1; /* of epoll(7); the thread runs while it is there */

static uint64_t key_of(const struct rs_object *object)
{
    return object->serial << 32 | (uint32_t)object->fd;
}

/* With one more reference; NULL: it is closed, or its descriptor is another's. */
static struct rsocket *find(uint64_t key)
{
    struct rsocket *rs = rs_get((int)(uint32_t)key);

    if (!rs || key_of(&rs->object) == key)
        return rs;
    rs_put(rs);
    return NULL;
}

static bool step(uint64_t key)
{
    struct rsocket *rs = find(key);
    bool more;

    if (!rs)
        return false;
    pthread_mutex_lock(&rs->lock);
    more = rs->ops->serve(rs);
    pthread_mutex_unlock(&rs->lock);
    rs_put(rs);
    return more;
}

static void *serve_all(void *arg)
{
    int fd = (int)(intptr_t)arg, n;
    struct epoll_event news[NEWS_MAX];

    while ((n = epoll_wait(fd, news, NEWS_MAX, -1)) >= 0 || errno == EINTR)
        for (int i = 0; i < n; i++)
            while (step(news[i].data.u64))
                ;
    return NULL;
}

/* The program's signals are for its own threads. */
static int start_thread(int fd)
{
    size_t size = STACK_SIZE + PTHREAD_STACK_MIN;
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, size);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&thread, &attr, serve_all, (void *)(intptr_t)fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -err;
}

/* A child has no such thread, and the set is its parent's. */
static void after_fork_in_child(void)
{
    start_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (set >= 0)
        close(set);
    set = -1;
}

static void register_fork_handlers(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int fd;

    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&start_lock);
    if (set < 0) {
        fd = epoll_create1(EPOLL_CLOEXEC);
        if (fd >= 0 && start_thread(fd))
            close(fd);
        else
            set = fd;
    }
    pthread_mutex_unlock(&start_lock);
}

void rs_service_watch(struct rsocket *rs)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.u64 = key_of(&rs->object)};

    start();
    epoll_ctl(set, EPOLL_CTL_ADD, rs->object.fd, &e);
}

void rs_service_unwatch(struct rsocket *rs)
{
    epoll_ctl(set, EPOLL_CTL_DEL, rs->object.fd, NULL);
}
