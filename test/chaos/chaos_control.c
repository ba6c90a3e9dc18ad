/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of applications to the control thread. */
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "chaos.h"

struct wish {
    void (*fn)(void *arg);
    void *arg;
    bool done;
    struct wish *next;
};

static struct control {
    pthread_mutex_t lock;
    pthread_cond_t served;
    struct wish *wishes;
    struct event_source source;
} control = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, {.fd = -1}};

void write_event(int fd)
{
    require(write(fd, &(uint64_t){1}, sizeof(uint64_t)) == sizeof(uint64_t));
}

void control_ask(void (*fn)(void *arg), void *arg)
{
    struct wish w = {.fn = fn, .arg = arg};

    pthread_mutex_lock(&control.lock);
    w.next = control.wishes;
    control.wishes = &w;
    write_event(control.source.fd);
    while (!w.done)
        pthread_cond_wait(&control.served, &control.lock);
    pthread_mutex_unlock(&control.lock);
}

static void serve(struct event_source *s, uint32_t events)
{
    struct wish *w;
    uint64_t count;

    require(read(s->fd, &count, sizeof(count)) == sizeof(count));
    pthread_mutex_lock(&control.lock);
    w = control.wishes;
    control.wishes = NULL;
    while (w) {
        struct wish *next = w->next; /* on its caller's stack: invalid when it is done */

        pthread_mutex_unlock(&control.lock);
        w->fn(w->arg);
        pthread_mutex_lock(&control.lock);
        w->done = true;
        pthread_cond_broadcast(&control.served);
        w = next;
    }
    pthread_mutex_unlock(&control.lock);
}

void control_open(struct event_loop *loop)
{
    control.source = (struct event_source){.fd = eventfd(0, EFD_CLOEXEC), .ready = serve};
    require(control.source.fd >= 0);
    require(!event_loop_add(loop, &control.source, EPOLLIN));
}

void control_close(struct event_loop *loop)
{
    event_loop_remove(loop, &control.source);
    close(control.source.fd);
}
