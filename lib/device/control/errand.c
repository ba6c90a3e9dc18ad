/* SPDX-License-Identifier: BSD-3-Clause */
/* See errand.h. */
#include "control/errand.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "control/account.h"
#include "control/errand_line.h"
#include "control/errand_running.h"
#include "event_loop.h"
#include "worker.h"

#define IDLE_THREADS 2 /* that wait for errands; others end */
#define STACK_BYTES  (256u << 10)
#define END_SECONDS  1
#define TICK_NS      (20 * NS_PER_MS)
#define INTERRUPT    SIGURG /* a close; nothing else uses it */

struct errands {
    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t posted, ended;
    struct errand_lines lines;
    struct errand_queue done;
    struct errand_running_list running;
    unsigned threads, idle;
    bool stopping;
    struct event_loop *loop;
    struct event_source results; /* an eventfd */
    struct event_source timer;   /* a timerfd; while is_armed: */
    /* A thread closes, or an errand is ready and no thread could be started for it. */
    bool is_armed;
    struct event_source late_timer; /* a timerfd; while late_armed */
    bool late_armed;
    void (*on_late)(void *ctx, const struct late_errand *late);
    void *late_ctx;
};

/* ---- threads ---- */

static void *run_errands(void *arg);

/* 0 or a negative errno. */
static int start_thread(struct errands *es)
{
    pthread_attr_t attr;
    pthread_t thread;
    int err = -pthread_attr_init(&attr);

    if (err)
        return err;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    err = -pthread_create(&thread, &attr, run_errands, es);
    if (!err)
        es->threads++;
    pthread_attr_destroy(&attr);
    return err;
}

/* Once, after `wait`. */
static void arm(const struct event_source *timer, bool *is_armed, ns_t wait)
{
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(wait / NS_PER_SEC), .tv_nsec = (long)(wait % NS_PER_SEC)}};

    if (!*is_armed && !timerfd_settime(timer->fd, 0, &when, NULL))
        *is_armed = true;
}

static void arm_timer(struct errands *es)
{
    arm(&es->timer, &es->is_armed, TICK_NS);
}

/* Without a new thread the errand waits for one that ends its own, or for the next tick: all others
 * may wait for applications. */
static void call_thread(struct errands *es)
{
    if (es->idle)
        pthread_cond_signal(&es->posted);
    else if (es->threads < ERRAND_THREADS && start_thread(es))
        arm_timer(es);
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
    while (TAILQ_EMPTY(&es->lines.ready) && !es->stopping && es->idle < IDLE_THREADS) {
        es->idle++;
        pthread_cond_wait(&es->posted, &es->mutex);
        es->idle--;
    }
    return !TAILQ_EMPTY(&es->lines.ready);
}

/* Without the mutex, but with it before and after. */
static void run_errand(struct errands *es, struct errand *e)
{
    struct ucred peer = errand_client_peer(e->client);
    struct errand_running self = {
        .thread = pthread_self(),
        .what = {
            .pid = peer.pid, .uid = peer.uid, .is_close = e->is_close, .since = worker_time()}};

    LIST_INSERT_HEAD(&es->running, &self, link);
    if (e->is_close)
        arm_timer(es);
    arm(&es->late_timer, &es->late_armed, ERRAND_LATE);
    pthread_mutex_unlock(&es->mutex);
    e->run(e);
    pthread_mutex_lock(&es->mutex);
    LIST_REMOVE(&self, link);
}

static void accept_interrupts(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, INTERRUPT);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void *run_errands(void *arg)
{
    struct errands *es = arg;

    accept_interrupts();
    pthread_mutex_lock(&es->mutex);
    while (wait_for_errand(es)) {
        struct errand *e = errand_lines_take(&es->lines);
        struct errand_client *c = e->client;
        bool has_result = e->done;

        /* This one may wait; the next errand must not wait for it. */
        if (!TAILQ_EMPTY(&es->lines.ready))
            call_thread(es);
        run_errand(es, e);
        errand_lines_end(&es->lines, c);
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

static void on_tick(struct event_source *s, uint32_t events)
{
    struct errands *es = container_of(s, struct errands, timer);
    uint64_t count;

    if (read(s->fd, &count, sizeof(count)) < 0)
        return;
    pthread_mutex_lock(&es->mutex);
    es->is_armed = false;
    if (!TAILQ_EMPTY(&es->lines.ready))
        call_thread(es);
    if (errand_running_interrupt(&es->running, INTERRUPT))
        arm_timer(es);
    pthread_mutex_unlock(&es->mutex);
}

/* False: no errand is to be named. */
static bool name_late(struct errands *es, ns_t now)
{
    struct late_errand late;
    bool found;

    pthread_mutex_lock(&es->mutex);
    found = errand_running_name(&es->running, now, &late);
    pthread_mutex_unlock(&es->mutex);
    if (found && es->on_late)
        es->on_late(es->late_ctx, &late);
    return found;
}

static void on_late_tick(struct event_source *s, uint32_t events)
{
    struct errands *es = container_of(s, struct errands, late_timer);
    ns_t now = worker_time(), next;
    uint64_t count;

    if (read(s->fd, &count, sizeof(count)) < 0)
        return;
    while (name_late(es, now)) {
    }
    pthread_mutex_lock(&es->mutex);
    es->late_armed = false;
    next = errand_running_next(&es->running);
    if (next != NS_NEVER)
        arm(s, &es->late_armed, max_of(next, now + 1) - now);
    pthread_mutex_unlock(&es->mutex);
}

static void on_interrupt(int number)
{
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
    errand_lines_init(&es->lines);
    STAILQ_INIT(&es->done);
    LIST_INIT(&es->running);
}

static void close_source(struct errands *es, struct event_source *s)
{
    event_loop_remove(es->loop, s);
    if (s->fd >= 0)
        close(s->fd);
}

static void free_pool(struct errands *es)
{
    close_source(es, &es->results);
    close_source(es, &es->timer);
    close_source(es, &es->late_timer);
    pthread_mutex_destroy(&es->mutex);
    pthread_cond_destroy(&es->posted);
    pthread_cond_destroy(&es->ended);
    free(es);
}

static int open_sources(struct errands *es)
{
    int err;

    es->results =
        (struct event_source){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = on_results};
    es->timer = (struct event_source){
        .fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), .ready = on_tick};
    es->late_timer = (struct event_source){
        .fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), .ready = on_late_tick};
    if (es->results.fd < 0 || es->timer.fd < 0 || es->late_timer.fd < 0)
        return -errno;
    err = event_loop_add(es->loop, &es->results, EPOLLIN);
    if (!err)
        err = event_loop_add(es->loop, &es->timer, EPOLLIN);
    return err ? err : event_loop_add(es->loop, &es->late_timer, EPOLLIN);
}

/* Now, when there is room for them: an errand needs no new thread unless others run. */
static int start_threads(struct errands *es)
{
    int err = 0;

    pthread_mutex_lock(&es->mutex);
    while (!err && es->threads < IDLE_THREADS)
        err = start_thread(es);
    pthread_mutex_unlock(&es->mutex);
    return err;
}

struct errands *errands_create(struct event_loop *loop, int *err)
{
    struct errands *es = calloc(1, sizeof(*es));

    if (!es) {
        *err = -ENOMEM;
        return NULL;
    }
    init_pool(es);
    sigaction(INTERRUPT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    es->loop = loop;
    *err = open_sources(es);
    if (!*err)
        *err = start_threads(es);
    if (!*err)
        return es;
    errands_destroy(es);
    return NULL;
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
    bool added;

    pthread_mutex_lock(&es->mutex);
    added = errand_lines_add(&es->lines, peer, e);
    if (added && !TAILQ_EMPTY(&es->lines.ready))
        call_thread(es);
    pthread_mutex_unlock(&es->mutex);
    return added;
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
    unsigned n;

    if (!es)
        return 0;
    pthread_mutex_lock(&locked->mutex);
    n = errand_lines_pending(&es->lines, uid);
    pthread_mutex_unlock(&locked->mutex);
    return n;
}

/* ---- late ones ---- */

void errands_on_late(struct errands *es, void (*fn)(void *ctx, const struct late_errand *late),
                     void *ctx)
{
    es->on_late = fn;
    es->late_ctx = ctx;
}

unsigned errands_late(const struct errands *es, struct late_errand *out, unsigned room)
{
    struct errands *locked = (struct errands *)es;
    const struct errand_running *r;
    ns_t now = worker_time();
    unsigned n = 0;

    if (!es)
        return 0;
    pthread_mutex_lock(&locked->mutex);
    LIST_FOREACH(r, &es->running, link)
    if (n < room && now >= r->what.since + ERRAND_LATE)
        out[n++] = r->what;
    pthread_mutex_unlock(&locked->mutex);
    return n;
}

/* ---- closing ---- */

struct close_errand {
    struct errand e;
    int fd;
    struct quota_account account;
};

static void run_close(struct errand *e)
{
    close(container_of(e, struct close_errand, e)->fd);
}

static void close_done(struct errand *e)
{
    struct close_errand *c = container_of(e, struct close_errand, e);

    quota_account_close(&c->account);
    free(c);
}

static void close_charged(struct errands *es, const struct ucred *peer, int fd,
                          struct quota_account *account)
{
    struct close_errand *c = es ? malloc(sizeof(*c)) : NULL;

    if (!c) {
        close(fd);
        if (account)
            quota_account_close(account);
        return;
    }
    *c = (struct close_errand){.e = {.run = run_close, .done = close_done, .is_close = true},
                               .fd = fd};
    if (account)
        c->account = *account;
    errands_post(es, peer, &c->e);
}

void errands_close(struct errands *es, const struct ucred *peer, int fd)
{
    close_charged(es, peer, fd, NULL);
}

void errands_close_own(struct errands *es, int fd, struct quota_account *account)
{
    static const struct ucred own = {.pid = -1, .uid = (uid_t)-1};

    close_charged(es, &own, fd, account);
}
