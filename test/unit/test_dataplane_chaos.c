/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything at once, on a port with several workers: applications send all kinds of messages and
 * check every byte, while the control thread moves their queue pairs from worker to worker, serves
 * what they ask for, ends some of them amid their traffic, changes the port's addresses and group
 * memberships, and looks at it all. What is not taken away must arrive, once, in order.
 *
 * usage: test_dataplane_chaos [SECONDS [SEED]]
 */
#include "chaos.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"

#define ADDRESSES    4
#define BYSTANDERS   6
#define ROUNDS       40 /* of disturbances, until they must all get on without */
#define DISTURBANCES 12 /* between two looks at what is asked for */

static unsigned seconds = 2;
static uint64_t seed;

/* ---- what applications ask for ---- */

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

static void write_event(int fd)
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
        struct wish *next = w->next; /* gone with its caller's stack when it is done */

        pthread_mutex_unlock(&control.lock);
        w->fn(w->arg);
        pthread_mutex_lock(&control.lock);
        w->done = true;
        pthread_cond_broadcast(&control.served);
        w = next;
    }
    pthread_mutex_unlock(&control.lock);
}

/* ---- the world ---- */

static struct world {
    struct dataplane dp;
    struct random random;
    struct app app[APPS];
    struct program bystander; /* the control thread's own: queue pairs nobody sends with */
    uint32_t qp[BYSTANDERS];  /* numbers, or 0 */
    bool member[BYSTANDERS];
    bool address[ADDRESSES];
    uint64_t moves, refused, kills, shows, changes;
} world;

static struct device *device(void)
{
    return world.dp.rnic->device[0];
}

static unsigned below(unsigned n)
{
    return random_below(&world.random, n);
}

/* ---- what the control thread does to them ---- */

/* Any queue pair of any application, or NULL. */
static struct qp_object *any_qp(void)
{
    struct qp_object *found = NULL;
    struct client *c;
    struct object *o;
    unsigned n = 0;

    TAILQ_FOREACH (c, &world.dp.rnic->clients, link) {
        TAILQ_FOREACH (o, &c->objects[OBJ_QP], link) {
            if (!below(++n))
                found = container_of(o, struct qp_object, o);
        }
    }
    return found;
}

/* Nothing in the daemon moves those: a datagram that is on its way to their group would miss them,
 * or come twice. */
static bool is_member(const struct qp_object *q)
{
    return q->group_count;
}

static void move_one(void)
{
    struct qp_object *q = any_qp();
    struct worker_port *to = device()->port[below(WORKERS)], *from;

    if (!q || is_member(q))
        return;
    from = q->dp.port;
    if (!worker_move_qp(&q->dp, to)) {
        world.refused++;
        return;
    }
    device()->placed[from->queue]--;
    device()->placed[to->queue]++;
    world.moves += from != to;
}

static void report_stray(void)
{
    struct qp_object *q = any_qp();

    if (q && !is_member(q))
        steer_stray(q->o.client, q->o.handle, below(WORKERS));
}

static void look(void)
{
    struct qp_object *q = any_qp();
    char *text = rnic_show(world.dp.rnic);

    require(text);
    free(text);
    if (q)
        require(!kit_call_handle(q->o.client, CTL_QUERY_QP, q->o.handle));
    world.shows++;
}

static void change_address(void)
{
    unsigned i = below(ADDRESSES);
    struct port_address a = {.prefix = 24, .vlan = i % 2 ? (uint16_t)(i + 1) : VLAN_NONE};
    char text[46];

    snprintf(text, sizeof(text), "10.1.%u.1", i);
    require(!gid_parse(&a.gid, text));
    if (world.address[i])
        require(!rnic_remove_address(world.dp.rnic, 0, &a.gid, a.vlan));
    else
        require(!rnic_add_address(world.dp.rnic, 0, &a));
    world.address[i] = !world.address[i];
    world.changes++;
}

static void call_group(unsigned i)
{
    struct ctl_msg m = {.mcast = {.qpn = world.qp[i]}};
    union gid gid;

    require(!gid_parse(&gid, i % 2 ? "239.1.0.7" : "ff05::9"));
    memcpy(m.mcast.gid, gid.raw, sizeof(m.mcast.gid));
    program_call(&world.bystander, world.member[i] ? CTL_DETACH_MCAST : CTL_ATTACH_MCAST, m);
    world.member[i] = !world.member[i];
}

/* A queue pair comes, joins a group, leaves it, goes: one step of that. */
static void change_bystander(void)
{
    struct program *p = &world.bystander;
    unsigned i = below(BYSTANDERS);
    struct ctl_msg m = {.create_qp = {.pd = p->pd,
                                      .send_cq = p->cq.handle,
                                      .recv_cq = p->cq.handle,
                                      .type = QPT_UD,
                                      .caps = {1, 1, 1, 1, 0}}};

    if (!world.qp[i]) {
        world.qp[i] = program_call(p, CTL_CREATE_QP, m).create_qp.qpn;
    } else if (below(2) && !world.member[i]) {
        require(!kit_call_handle(p->client, CTL_DESTROY_QP, world.qp[i]));
        world.qp[i] = 0;
    } else {
        call_group(i);
    }
}

/* ---- applications begin and end ---- */

static void start_app(struct app *a)
{
    int wake = a->wake;

    *a = (struct app){.dp = &world.dp, .wake = wake, .random = {random_next(&world.random)}};
    for (unsigned i = 0; i < PROGRAMS; i++)
        a->program[i].app = a;
    require(!pthread_create(&a->thread, NULL, app_run, a));
}

/* Its thread stops where it is; the contexts close while its requests are on their way. */
static void kill_app(struct app *a)
{
    if (atomic_exchange(&a->killed, true))
        return;
    write_event(a->wake);
    world.kills++;
}

static void bury_app(struct app *a)
{
    uint64_t count;

    pthread_join(a->thread, NULL);
    if (atomic_load(&a->killed))
        require(read(a->wake, &count, sizeof(count)) == sizeof(count));
    for (unsigned i = 0; i < PROGRAMS; i++)
        program_close(&a->program[i]);
}

static void disturb(void)
{
    unsigned n = below(500);

    if (n < 300)
        move_one();
    else if (n < 400)
        report_stray();
    else if (n < 460)
        change_bystander();
    else if (n < 480)
        change_address();
    else if (n < 498)
        look();
    else
        kill_app(&world.app[below(APPS)]);
}

/* However slow the machine is: everything has happened. */
static bool enough(ns_t end)
{
    for (unsigned i = 0; i < FLOW_KINDS; i++)
        if (!tally.finished[i] || !tally.cut[i])
            return false;
    return worker_time() >= end && world.moves > 20 && world.kills && world.shows && world.changes;
}

/* Serves applications, and starts them anew. */
static void attend_to_apps(void)
{
    event_loop_step(world.dp.loop, 1);
    dataplane_control(&world.dp);
    for (unsigned i = 0; i < APPS; i++) {
        if (atomic_load(&world.app[i].ended)) {
            bury_app(&world.app[i]);
            start_app(&world.app[i]);
        }
    }
}

/* A queue pair that somebody forgot gets on when it is moved once more. So nothing is done to them
 * until every flow has come to its end. */
static void leave_in_peace(ns_t deadline)
{
    for (unsigned i = 0; i < APPS; i++) {
        struct app *a = &world.app[i];

        for (unsigned k = 0; k < FLOWS; k++) {
            unsigned before = atomic_load(&a->begun[k]);

            while (atomic_load(&a->begun[k]) == before) {
                require(worker_time() < deadline);
                attend_to_apps();
            }
        }
    }
}

static void run(ns_t end)
{
    ns_t deadline = end + PATIENCE;

    while (!enough(end)) {
        for (unsigned n = 0; n < ROUNDS; n++) {
            for (unsigned i = 0; i < DISTURBANCES; i++)
                disturb();
            attend_to_apps();
        }
        leave_in_peace(deadline);
    }
    atomic_store(&closing_time, true);
    for (unsigned i = 0; i < APPS; i++) {
        while (!atomic_load(&world.app[i].ended)) {
            require(worker_time() < deadline);
            event_loop_step(world.dp.loop, 1);
        }
        bury_app(&world.app[i]);
    }
}

/* ---- the test ---- */

static void open_control(void)
{
    control.source = (struct event_source){.fd = eventfd(0, EFD_CLOEXEC), .ready = serve};
    require(control.source.fd >= 0);
    require(!event_loop_add(world.dp.loop, &control.source, EPOLLIN));
}

static void close_control(void)
{
    event_loop_remove(world.dp.loop, &control.source);
    close(control.source.fd);
}

static uint64_t dropped(enum drop reason)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < device()->parts; i++)
        n += counter_get(&engine_counters(device()->port[i]->engine)->drop[reason]);
    return n;
}

/* Frames are lost for want of room alone, or on the way to what was taken away. */
static void check_drops(void)
{
#define DROP(name, help)                                                        \
    if (DROP_##name != DROP_handover_full && DROP_##name != DROP_unknown_qpn && \
        DROP_##name != DROP_qp_state)                                           \
        assert_int_equal(dropped(DROP_##name), 0);
#include "drop.def"
#undef DROP
}

static uint64_t handed_over(void)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < WORKERS; i++)
        n += counter_get(&worker_stats(rnic_worker(world.dp.rnic, i))->handed_out);
    return n;
}

static void report(void)
{
    static const char *const name[FLOW_KINDS] = {"RC", "RC with SRQ", "UC", "UD", "multicast"};

    print_message(
        "# %lu moves, %lu refused, %lu after strays, %lu kills, %lu messages, %lu windows, "
        "%lu flows between programs, %lu frames handed over, %lu not\n",
        world.moves, world.refused, device()->strays, world.kills, tally.messages, tally.windows,
        tally.crossed, handed_over(), dropped(DROP_handover_full));
    for (unsigned i = 0; i < FLOW_KINDS; i++)
        print_message("# %s: %lu flows, %lu cut, %lu messages overtaken, %lu lost\n", name[i],
                      tally.finished[i], tally.cut[i], tally.overtaken[i], tally.lost[i]);
}

/* Only who was moved may have missed something, and of that RC has got it again. */
static void check_lost(void)
{
    uint64_t moves = world.moves + device()->strays;

    assert_true(tally.lost[FLOW_UC] <= WINDOW * moves);
    assert_int_equal(tally.lost[FLOW_UD], 0);
    assert_int_equal(tally.lost[FLOW_GROUP], 0);
}

static void test_everything_at_once(void **state)
{
    world.random.state = seed;
    dataplane_start_loop(&world.dp, WORKERS, &chaos_memory);
    open_control();
    world.bystander.app = &world.app[0];
    world.app[0].dp = &world.dp;
    program_open(&world.bystander);
    for (unsigned i = 0; i < APPS; i++) {
        world.app[i].wake = eventfd(0, EFD_CLOEXEC);
        require(world.app[i].wake >= 0);
        start_app(&world.app[i]);
    }
    run(worker_time() + seconds * NS_PER_SEC);
    program_close(&world.bystander);
    report();
    check_lost();
    check_drops();
    for (unsigned i = 0; i < APPS; i++)
        close(world.app[i].wake);
    close_control();
    dataplane_stop(&world.dp);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_everything_at_once)};

    seed = (uint64_t)time(NULL);
    if (argc > 1)
        seconds = (unsigned)atoi(argv[1]);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 0);
    printf("# seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
