/* SPDX-License-Identifier: BSD-3-Clause */
/* See errand.h. */
#include "control/errand.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "event_loop.h"

#define IDLE_THREADS 2 /* that wait for errands; others end */
#define STACK_BYTES  (256u << 10)
#define END_SECONDS  1

STAILQ_HEAD(errand_queue, errand);

struct errand_user {
    LIST_ENTRY(errand_user) link;
    uid_t uid;
    unsigned pending, running, clients;
};

/* A process with errands that have not ended. */
struct errand_client {
    LIST_ENTRY(errand_client) link;
    TAILQ_ENTRY(errand_client) turn; /* while is_ready */
    pid_t pid;
    struct errand_user *user;
    struct errand_queue waiting;
    unsigned pending, running;
    bool is_ready; /* has an errand in line, and a thread for it */
};

struct errands {
    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t posted, ended;
    LIST_HEAD(, errand_user) users;
    LIST_HEAD(, errand_client) clients;
    TAILQ_HEAD(, errand_client) ready; /* take turns */
    struct errand_queue done;
    unsigned threads, idle;
    bool stopping;
    struct event_loop *loop;
    struct event_source results; /* an eventfd */
};

/* ---- users and their processes; under the mutex ---- */

static struct errand_user *find_user(const struct errands *es, uid_t uid)
{
    struct errand_user *u;

    LIST_FOREACH(u, &es->users, link)
    if (u->uid == uid)
        return u;
    return NULL;
}

static struct errand_user *add_user(struct errands *es, uid_t uid)
{
    struct errand_user *u = calloc(1, sizeof(*u));

    if (!u)
        return NULL;
    u->uid = uid;
    LIST_INSERT_HEAD(&es->users, u, link);
    return u;
}

static void drop_user(struct errand_user *u)
{
    if (u->clients)
        return;
    LIST_REMOVE(u, link);
    free(u);
}

static struct errand_client *find_client(struct errands *es, const struct ucred *peer)
{
    struct errand_client *c;
    struct errand_user *u;

    LIST_FOREACH(c, &es->clients, link)
    if (c->pid == peer->pid && c->user->uid == peer->uid)
        return c;
    u = find_user(es, peer->uid);
    if (!u)
        u = add_user(es, peer->uid);
    c = u ? calloc(1, sizeof(*c)) : NULL;
    if (!c) {
        if (u)
            drop_user(u);
        return NULL;
    }
    c->pid = peer->pid;
    c->user = u;
    u->clients++;
    STAILQ_INIT(&c->waiting);
    LIST_INSERT_HEAD(&es->clients, c, link);
    return c;
}

static void update_ready(struct errands *es, struct errand_client *c)
{
    bool ready = !STAILQ_EMPTY(&c->waiting) && c->running < ERRAND_CLIENT_THREADS &&
                 c->user->running < ERRAND_USER_THREADS;

    if (ready == c->is_ready)
        return;
    c->is_ready = ready;
    if (ready)
        TAILQ_INSERT_TAIL(&es->ready, c, turn);
    else
        TAILQ_REMOVE(&es->ready, c, turn);
}

/* The user's number of threads has reached its limit, or falls below it. */
static void update_user(struct errands *es, const struct errand_user *u)
{
    struct errand_client *c;

    LIST_FOREACH(c, &es->clients, link)
    if (c->user == u)
        update_ready(es, c);
}

static struct errand *take_errand(struct errands *es)
{
    struct errand_client *c = TAILQ_FIRST(&es->ready);
    struct errand *e = STAILQ_FIRST(&c->waiting);

    STAILQ_REMOVE_HEAD(&c->waiting, link);
    TAILQ_REMOVE(&es->ready, c, turn); /* to the end of the line */
    c->is_ready = false;
    c->running++;
    if (++c->user->running == ERRAND_USER_THREADS)
        update_user(es, c->user);
    update_ready(es, c);
    return e;
}

static void end_errand(struct errands *es, struct errand_client *c)
{
    struct errand_user *u = c->user;

    c->running--;
    u->pending--;
    if (!--c->pending) {
        LIST_REMOVE(c, link);
        free(c);
        u->clients--;
    } else {
        update_ready(es, c);
    }
    if (u->running-- == ERRAND_USER_THREADS)
        update_user(es, u);
    drop_user(u);
}

/* ---- threads ---- */

static void *run_errands(void *arg);

/* When no thread is idle. Without a new thread the errand waits for one that ends its own. */
static void start_thread(struct errands *es)
{
    pthread_attr_t attr;
    pthread_t thread;

    if (es->threads == ERRAND_THREADS || pthread_attr_init(&attr))
        return;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (!pthread_create(&thread, &attr, run_errands, es))
        es->threads++;
    pthread_attr_destroy(&attr);
}

static void call_thread(struct errands *es)
{
    if (es->idle)
        pthread_cond_signal(&es->posted);
    else
        start_thread(es);
}

static void report_done(struct errands *es, struct errand *e)
{
    uint64_t one = 1;

    STAILQ_INSERT_TAIL(&es->done, e, link);
    /* A full eventfd is readable, too. */
    while (write(es->results.fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* False: the thread should end. */
static bool wait_for_errand(struct errands *es)
{
    while (TAILQ_EMPTY(&es->ready) && !es->stopping && es->idle < IDLE_THREADS) {
        es->idle++;
        pthread_cond_wait(&es->posted, &es->mutex);
        es->idle--;
    }
    return !TAILQ_EMPTY(&es->ready);
}

static void *run_errands(void *arg)
{
    struct errands *es = arg;

    pthread_mutex_lock(&es->mutex);
    while (wait_for_errand(es)) {
        struct errand *e = take_errand(es);
        struct errand_client *c = e->client;
        bool has_result = e->done;

        /* This one may wait; the next errand must not wait for it. */
        if (!TAILQ_EMPTY(&es->ready))
            call_thread(es);
        pthread_mutex_unlock(&es->mutex);
        e->run(e);
        pthread_mutex_lock(&es->mutex);
        end_errand(es, c);
        if (has_result)
            report_done(es, e);
    }
    es->threads--;
    pthread_cond_signal(&es->ended);
    pthread_mutex_unlock(&es->mutex);
    return NULL;
}

/* ---- the control thread ---- */

static void on_results(struct event_source *s, uint32_t events)
{
    struct errands *es = container_of(s, struct errands, results);
    struct errand_queue done = STAILQ_HEAD_INITIALIZER(done);
    struct errand *e;
    uint64_t count;

    if (read(s->fd, &count, sizeof(count)) < 0)
        return;
    pthread_mutex_lock(&es->mutex);
    STAILQ_CONCAT(&done, &es->done);
    pthread_mutex_unlock(&es->mutex);
    while ((e = STAILQ_FIRST(&done))) {
        STAILQ_REMOVE_HEAD(&done, link);
        e->done(e);
    }
}

static void init_pool(struct errands *es)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&es->mutex, NULL);
    pthread_cond_init(&es->posted, &attr);
    pthread_cond_init(&es->ended, &attr);
    pthread_condattr_destroy(&attr);
    LIST_INIT(&es->users);
    LIST_INIT(&es->clients);
    TAILQ_INIT(&es->ready);
    STAILQ_INIT(&es->done);
}

static void free_pool(struct errands *es)
{
    event_loop_remove(es->loop, &es->results);
    if (es->results.fd >= 0)
        close(es->results.fd);
    pthread_mutex_destroy(&es->mutex);
    pthread_cond_destroy(&es->posted);
    pthread_cond_destroy(&es->ended);
    free(es);
}

struct errands *errands_create(struct event_loop *loop, int *err)
{
    struct errands *es = calloc(1, sizeof(*es));

    if (!es) {
        *err = -ENOMEM;
        return NULL;
    }
    init_pool(es);
    es->loop = loop;
    es->results = (struct event_source){.ready = on_results};
    es->results.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *err = es->results.fd < 0 ? -errno : event_loop_add(loop, &es->results, EPOLLIN);
    if (*err) {
        free_pool(es);
        return NULL;
    }
    return es;
}

void errands_destroy(struct errands *es)
{
    struct timespec until;
    bool ended;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += END_SECONDS;
    pthread_mutex_lock(&es->mutex);
    es->stopping = true;
    pthread_cond_broadcast(&es->posted);
    while (es->threads && !pthread_cond_timedwait(&es->ended, &es->mutex, &until))
        ;
    ended = !es->threads;
    pthread_mutex_unlock(&es->mutex);
    if (!ended)
        return;
    on_results(&es->results, 0);
    free_pool(es);
}

/* False: out of memory. */
static bool put_in_line(struct errands *es, const struct ucred *peer, struct errand *e)
{
    struct errand_client *c;

    pthread_mutex_lock(&es->mutex);
    c = find_client(es, peer);
    if (c) {
        e->client = c;
        STAILQ_INSERT_TAIL(&c->waiting, e, link);
        c->pending++;
        c->user->pending++;
        update_ready(es, c);
        if (c->is_ready)
            call_thread(es);
    }
    pthread_mutex_unlock(&es->mutex);
    return c;
}

void errands_post(struct errands *es, const struct ucred *peer, struct errand *e)
{
    void (*done)(struct errand * e) = e->done;

    if (es && put_in_line(es, peer, e))
        return;
    e->run(e);
    if (done)
        done(e);
}

unsigned errands_pending(const struct errands *es, uid_t uid)
{
    struct errands *locked = (struct errands *)es;
    const struct errand_user *u;
    unsigned n;

    if (!es)
        return 0;
    pthread_mutex_lock(&locked->mutex);
    u = find_user(es, uid);
    n = u ? u->pending : 0;
    pthread_mutex_unlock(&locked->mutex);
    return n;
}

/* ---- closing ---- */

struct close_errand {
    struct errand e;
    int fd;
};

static void run_close(struct errand *e)
{
    struct close_errand *c = container_of(e, struct close_errand, e);

    close(c->fd);
    free(c);
}

void errands_close(struct errands *es, const struct ucred *peer, int fd)
{
    struct close_errand *c = es ? malloc(sizeof(*c)) : NULL;

    if (!c) {
        close(fd);
        return;
    }
    *c = (struct close_errand){.e.run = run_close, .fd = fd};
    errands_post(es, peer, &c->e);
}
