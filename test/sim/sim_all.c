/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Randomized runs of everything the transport does: per seed, two to six engines behind one switch,
 * with faulty links, and actors of all kinds (sim_all.h) between them. With every third seed each
 * node has several engines, between which queue pairs migrate while they work.
 *
 *     sim_all                      1000 seeds
 *     sim_all --seed 42            one; KIT_TRACE=1 prints its frames
 *     sim_all --seed 42 --fates 0:17d,1:3c
 *                                  with just these frames lost, corrupted, ... (link:frame, and
 *                                  d c u r for drop, corrupt, duplicate, reorder)
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim_all.h"
#include "sim_driver.h"

/* Virtual time in which some progress is required. */
#define PROGRESS_BOUND (2 * NS_PER_SEC)
#define MAX_SPELLS     3

static struct sim *running;

_Noreturn void sim_fail(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "seed %llu, at %.3f us: ", (unsigned long long)running->seed,
            (double)running->kit->now / 1000);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

_Noreturn void flow_failed(const struct flow *f, const char *what, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    sim_fail("flow %u of queue pair %u at node %u: %s (%s)", f->id, f->qp->qpn, f->qp->node->index,
             text, what);
}

void sim_counted(struct sim *s, const struct flow *f, uint64_t value)
{
    sim_fail("a shared counter, which no plan has");
}

/* ---- setting up ---- */

static uint32_t engines_below(struct sim *s, uint32_t n)
{
    return random_below(&s->engines_random, n);
}

unsigned sim_pick_engine(struct sim *s)
{
    return s->several ? engines_below(s, s->kit->config.engines) : 0;
}

void sim_pick_nodes(struct sim *s, struct kit_node *n[2])
{
    unsigned a = sim_below(s, s->kit->nodes), b = sim_below(s, s->kit->nodes - 1);

    n[0] = &s->kit->node[a];
    n[1] = &s->kit->node[b + (b >= a)];
    if (s->kit->config.local && !engines_below(s, 3))
        n[1] = n[0];
}

static uint32_t pick_psn(struct sim *s)
{
    return sim_below(s, 3) ? sim_below(s, PSN_MASK + 1) : PSN_MASK - sim_below(s, 100);
}

struct kit_rc sim_pick_attributes(struct sim *s)
{
    return (struct kit_rc){
        .path_mtu = 1 + sim_below(s, 5),
        .psn = {pick_psn(s), pick_psn(s)},
        .access = MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC | MEM_FLUSH_GLOBAL,
        .timeout = (uint8_t)(6 + sim_below(s, 4)), /* 0.26 to 2.1 ms */
        .min_rnr_timer = (uint8_t)(1 + sim_below(s, 10)),
        .max_rd_atomic = (uint8_t)(1u << sim_below(s, 5)),
        .gid_index = (uint8_t)sim_below(s, KIT_GIDS),
        .agreed = s->seed / 3 % 3 != 0,
    };
}

static struct kit_spell pick_spell(struct sim *s, unsigned nodes)
{
    static const ns_t lengths[] = {50 * NS_PER_US, NS_PER_MS, 30 * NS_PER_MS};
    struct kit_spell spell = {.start = sim_below(s, NS_PER_MS)};

    spell.end = spell.start + 1 + sim_below(s, (uint32_t)lengths[sim_below(s, 3)]);
    spell.from = (uint8_t)(sim_below(s, 3) ? sim_below(s, nodes) : KIT_ANY);
    spell.to = (uint8_t)(sim_below(s, 3) ? sim_below(s, nodes) : KIT_ANY);
    spell.both_ways = sim_below(s, 2);
    spell.longer_than = sim_below(s, 3) ? 0 : 100 + sim_below(s, 1500);
    return spell;
}

static struct kit_link_config pick_link(struct sim *s)
{
    struct kit_link_config link = {
        .delay = (1 + sim_below(s, 10)) * NS_PER_US,
        .jitter = 1 + sim_below(s, 50 * NS_PER_US),
        .losses_per_psn = 2,
        .mark = 50, /* of the seeds whose packets may be marked */
    };

    if (sim_below(s, 4)) {
        link.drop = sim_below(s, 50);
        link.corrupt = sim_below(s, 30);
    }
    if (s->repeats) {
        link.duplicate = sim_below(s, 50);
        link.reorder = sim_below(s, 50);
    }
    if (s->rough && sim_below(s, 2)) {
        link.burst_start = 1 + sim_below(s, 10);
        link.burst_end = 20 + sim_below(s, 300);
    }
    return link;
}

static void pick_engines(struct sim *s, struct kit_config *config)
{
    s->several = s->seed % 3 == 1;
    if (!s->several)
        return;
    config->engines = 2 + engines_below(s, KIT_ENGINES - 1);
    config->arrival = (enum kit_arrival)engines_below(s, 3);
    config->forward = (struct kit_forward_config){
        .delay = 1 + engines_below(s, 3 * NS_PER_US),
        /* A whole window, or else always the same packet, which asks for an ACK, is lost.
         */
        .room = 128u << engines_below(s, 4),
        .refuse = engines_below(s, 2) ? engines_below(s, 20) : 0,
        .adopt = engines_below(s, 2) ? 1 + engines_below(s, 5 * NS_PER_US) : 0,
    };
    config->local = engines_below(s, 2);
    s->moves = engines_below(s, 3) ? 1 + engines_below(s, 200) : 0;
    s->follows = engines_below(s, 2);
    s->overtake = s->moves || s->follows || config->arrival == KIT_AT_RANDOM ||
                  (config->arrival == KIT_AT_HASH && config->entropy.rule == ENTROPY_SPRAY);
}

static void make_kit(struct sim *s, struct kit_spell *spell, const struct sim_orders *orders)
{
    struct kit_config config = {
        .seed = random_next(&s->random),
        .nodes = 2 + sim_below(s, 5),
        .shared_qp_table = sim_below(s, 2),
        .late = s->seed % 4 ? 0 : 1 + (unsigned)(s->seed / 4 % 50),
        .max_inflight = sim_below(s, 2) ? 0 : 2u << sim_below(s, 7),
        .entropy = {(enum entropy_rule)(s->seed % (ENTROPY_SPRAY + 1)), 0xC0DE},
        .repath = (uint32_t)(s->seed / 4 % 4),
        .reorder = (uint32_t)(s->seed / 2 % 4 * 3), /* none to more than there are */
        .congestion = kit_congestion(s->seed),
        .trim = s->seed % 9 / 2 == 1 ? 50 : 0,
        .record = orders->record,
        .replay = orders->replay,
        .spell = spell,
    };

    s->rough = !sim_below(s, 3);
    s->repeats = sim_below(s, 2);
    if (s->rough)
        config.spells = sim_below(s, MAX_SPELLS + 1);
    for (unsigned i = 0; i < config.spells; i++)
        spell[i] = pick_spell(s, config.nodes);
    for (unsigned i = 0; i < config.nodes; i++)
        config.link[i] = pick_link(s);
    if (!orders->bug) /* a loss between engines would raise it too, and is no fate of a link */
        pick_engines(s, &config);
    s->kit = kit_create(&config);
    if (orders->bug)
        for (unsigned i = 0; i < config.nodes; i++)
            s->kit->link[i].hook = orders->bug;
}

static void make_actors(struct sim *s)
{
    static struct actor *(*const create[])(struct sim *) = {pair_create, pair_create, stream_create,
                                                            owner_create};
    unsigned n = 1 + sim_below(s, MAX_ACTORS / 2);

    while (n--)
        s->actor[s->actors++] = create[sim_below(s, ARRAY_SIZE(create))](s);
}

/* ---- running ---- */

static void dispatch(struct sim *s, const struct kit_node *n, const struct cqe *e)
{
    for (unsigned i = 0; i < s->actors; i++)
        if (s->actor[i]->completed(s->actor[i], n, e))
            return;
    sim_fail("a completion of an unknown queue pair %u at node %u: opcode %u, status %u", e->qpn,
             n->index, e->opcode, e->status);
}

static unsigned poll_all(struct sim *s)
{
    struct cqe e[16];
    unsigned sum = 0;

    for (unsigned i = 0; i < s->kit->nodes; i++)
        for (struct kit_cq *cq = s->kit->node[i].cq; cq; cq = cq->next) {
            unsigned n = kit_poll(cq, e, 1 + sim_below(s, ARRAY_SIZE(e)));

            for (unsigned j = 0; j < n; j++)
                dispatch(s, &s->kit->node[i], &e[j]);
            sum += n;
        }
    return sum;
}

/* ---- moving queue pairs ---- */

static void move(struct sim *s, struct kit_qp *qp, unsigned to)
{
    if (to != kit_engine_of(qp)->index && kit_move(qp, to))
        s->moved++;
}

static void move_any(struct sim *s, struct kit_node *n)
{
    unsigned count = 0;
    struct kit_qp *qp;

    for (qp = n->qp; qp; qp = qp->next)
        count++;
    if (!count)
        return;
    count = engines_below(s, count);
    for (qp = n->qp; count; count--)
        qp = qp->next;
    move(s, qp, sim_pick_engine(s));
}

static void follow(struct sim *s, struct kit_node *n)
{
    for (struct kit_qp *qp = n->qp; qp; qp = qp->next)
        if (qp->misplaced) {
            move(s, qp, qp->misplaced_at);
            qp->misplaced = 0;
        }
}

static void move_some(struct sim *s)
{
    struct kit *k = s->kit;

    for (unsigned i = 0; i < k->nodes && s->follows; i++)
        follow(s, &k->node[i]);
    if (!s->moves)
        return;
    if (s->move_at <= k->now) {
        for (unsigned n = 1 + engines_below(s, 4); n && s->moves; n--, s->moves--)
            move_any(s, &k->node[engines_below(s, k->nodes)]);
        s->move_at = k->now + 1 + engines_below(s, 30 * NS_PER_US);
    }
    kit_wake_at(k, s->move_at);
}

static bool applications(void *arg)
{
    struct sim *s = arg;
    bool done = true;

    if (poll_all(s)) /* there may be more */
        kit_wake_at(s->kit, s->kit->now);
    for (unsigned i = 0; i < s->actors; i++)
        done &= s->actor[i]->turn(s->actor[i]);
    if (s->several)
        move_some(s);
    return done;
}

static uint64_t progress(const struct sim *s)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < s->actors; i++)
        sum += s->actor[i]->progress;
    return sum;
}

static void run(struct sim *s)
{
    static const char *const name[] = {"done", "idle", "slow", "in a livelock"};
    enum kit_end end;

    do {
        uint64_t before = progress(s);

        end = kit_run(s->kit, applications, s, PROGRESS_BOUND);
        if (end != KIT_DONE && (end != KIT_BUDGET || progress(s) == before)) {
            for (unsigned i = 0; i < s->actors; i++)
                s->actor[i]->tell(s->actor[i], stderr);
            sim_fail("no progress: %s", name[end]);
        }
    } while (end != KIT_DONE);
    end = kit_run(s->kit, NULL, NULL, 10 * NS_PER_SEC);
    if (end != KIT_IDLE)
        sim_fail("not idle after all work is done: %s", name[end]);
    if (poll_all(s))
        sim_fail("completions after the last");
}

static void check_node(const struct kit_node *n)
{
    unsigned long long tx = 0, handed = 0;

    for (unsigned i = 0; i < n->engines; i++) {
        const struct engine_counters *c = engine_counters(n->part[i].engine);

        tx += counter_sum(c->tx_packets, QOS_PRIORITIES);
        handed += counter_get(&c->rx_forwarded_in);
    }
    if (tx != n->kit->link[n->index].frames + n->kept)
        sim_fail("node %u counts %llu packets out of %u and %u", n->index, tx,
                 n->kit->link[n->index].frames, n->kept);
    if (!kit_counts_add_up(n))
        sim_fail("the counters of node %u do not add up", n->index);
    sim_total_forwarded(handed);
    if (!kit_canaries_intact(n))
        sim_fail("node %u: bytes outside a region were written", n->index);
}

static void run_seed(uint64_t seed, const struct sim_orders *orders)
{
    struct sim *s = kit_alloc(sizeof(*s));
    struct kit_spell spell[MAX_SPELLS];

    running = s;
    s->seed = seed;
    s->random.state = seed * UINT64_C(0x2545f4914f6cdd1d);
    s->engines_random.state = ~s->random.state;
    make_kit(s, spell, orders);
    make_actors(s);
    run(s);
    for (unsigned i = 0; i < s->actors; i++)
        s->actor[i]->check(s->actor[i]);
    for (unsigned i = 0; i < s->kit->nodes; i++) {
        check_node(&s->kit->node[i]);
        sim_total(&s->kit->link[i]);
    }
    sim_total_moved(s->moved);
    for (unsigned i = 0; i < s->actors; i++)
        s->actor[i]->fini(s->actor[i]);
    kit_destroy(s->kit);
    free(s);
}

int main(int argc, char **argv)
{
    return sim_main("sim_all", argc, argv, run_seed);
}
