/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Randomized runs of the RC transport: per seed, two engines with several queue pairs between
 * them, all operations in both directions at once over a link that drops, duplicates, reorders and
 * corrupts, checked byte for byte and completion for completion against a model (sim_plan.h).
 *
 *     sim_rc                       1000 seeds
 *     sim_rc --seed 42             one; KIT_TRACE=1 prints its frames
 *     sim_rc --first 5000 --seeds 200 --loss 10 --duplicate 0 --reorder 20 --corrupt 1
 */
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_flow.h"

#define MAX_PAIRS 3
#define MAX_FLOWS (2 * MAX_PAIRS)
/* Virtual time in which at least one request must complete. */
#define PROGRESS_BOUND (2 * NS_PER_SEC)
#define COUNTER_BYTES  8

struct options {
    uint64_t first, seeds;
    int loss, duplicate, reorder, corrupt; /* percent, or -1: from the seed */
};

struct sim {
    const struct options *options;
    uint64_t seed;
    struct random random;
    struct kit *kit;
    bool lossless, limited, agreed;
    unsigned gbps; /* rate of both links; 0: any */
    unsigned flows;
    struct flow flow[MAX_FLOWS];
    struct kit_mr *counter[2]; /* [i] is at node i */
    uint8_t *counted[2];       /* per value: whether a FETCH_ADD returned it */
    unsigned counter_adds[2];
};

static struct {
    unsigned long long messages, frames, drops, marked, bytes;
} total;

/* ---- failing ---- */

static char repeat[160];

static void set_repeat(const struct options *o, uint64_t seed)
{
    snprintf(repeat, sizeof(repeat),
             "repeat: KIT_TRACE=1 sim_rc --seed %llu --loss %d --duplicate %d --reorder %d "
             "--corrupt %d\n",
             (unsigned long long)seed, o->loss, o->duplicate, o->reorder, o->corrupt);
}

static void print_repeat(void)
{
    if (write(STDERR_FILENO, repeat, strlen(repeat)) < 0)
        _exit(1);
}

static void on_crash(int sig)
{
    print_repeat();
    signal(sig, SIG_DFL);
    raise(sig);
}

_Noreturn void flow_failed(const struct flow *f, const char *what, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "seed %llu, flow %u, at %.3f us: ", (unsigned long long)f->sim->seed, f->id,
            (double)f->sim->kit->now / 1000);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (%s)\n", what);
    print_repeat();
    exit(1);
}

_Noreturn void sim_fail(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    print_repeat();
    exit(1);
}

/* ---- setting up a seed ---- */

static uint32_t below(struct sim *s, uint32_t n)
{
    return random_below(&s->random, n);
}

static unsigned per_mille(const struct sim *s, int percent)
{
    return percent >= 0 ? 10 * (unsigned)percent : s->lossless ? 0 : 50;
}

/* The most losses of one packet that do not use up a retry counter of 7. */
static unsigned losses_per_psn(const struct sim *s)
{
    return per_mille(s, s->options->loss) + per_mille(s, s->options->corrupt) > 100 ? 1 : 2;
}

/*
 * The engine gives no credits, so the network writes some into its ACKs: any number, also none.
 * What is true does not matter to a requester, which is never to stop.
 */
static enum kit_verdict give_credit(void *ctx, unsigned index, uint8_t *data, uint32_t *len,
                                    const struct kit_seen *seen)
{
    static const uint8_t codes[] = {0, 0, 1, 2, 3, 5, 11, 30, AETH_CREDIT_NONE};
    /* The syndrome is the first byte behind the BTH; AETH, no pad and ICRC are all that follows. */
    uint8_t *syndrome = data + *len - ICRC_LEN - 4;

    if (pkt_info(&seen->pkt)->kind != KIND_ACK ||
        (seen->pkt.aeth.syndrome & AETH_CLASS_MASK) != AETH_ACK)
        return KIT_PASS;
    *syndrome = AETH_ACK | codes[(index + seen->pkt.psn.v) % ARRAY_SIZE(codes)];
    kit_frame_reseal(data, *len);
    return KIT_PASS;
}

static void make_kit(struct sim *s)
{
    static const uint32_t windows[] = {0, 0, 2, 8, 32, 256};
    struct kit_config config = {
        .seed = random_next(&s->random),
        .shared_qp_table = below(s, 2),
        .late = s->seed % 3 ? 0 : 1 + (unsigned)(s->seed / 3 % 10),
        .max_inflight = windows[below(s, ARRAY_SIZE(windows))],
        .entropy = {(enum entropy_rule)(s->seed % (ENTROPY_SPRAY + 1)), 0xC0DE},
        .repath = (uint32_t)(s->seed / 4 % 4),
        .reorder = (uint32_t)(s->seed / 2 % 4 * 3), /* none to more than there are */
        .congestion = kit_congestion(s->seed),
        .trim = s->seed % 9 / 2 == 1 ? 50 : 0,
    };

    s->gbps = below(s, 2) ? 0 : 1 + below(s, 100);
    for (unsigned i = 0; i < 2; i++)
        config.link[i] = (struct kit_link_config){
            .delay = (1 + below(s, 10)) * NS_PER_US,
            .jitter = 1 + below(s, 50 * NS_PER_US),
            .bps = s->gbps * UINT64_C(1000000000),
            .drop = per_mille(s, s->options->loss),
            .duplicate = per_mille(s, s->options->duplicate),
            .reorder = per_mille(s, s->options->reorder),
            .corrupt = per_mille(s, s->options->corrupt),
            .losses_per_psn = losses_per_psn(s),
            .mark = 50, /* of the seeds whose packets may be marked */
        };
    s->kit = kit_create(&config);
    for (unsigned i = 0; i < 2 && s->seed % 4 == 1; i++)
        s->kit->link[i].hook = give_credit;
}

static struct kit_qp *make_qp(struct sim *s, struct kit_node *n, struct kit_cq *shared_cq)
{
    struct kit_qp_config config = {
        .sq_size = 2u << below(s, 5),
        .rq_size = 1u << below(s, 5),
        .max_sge = PLAN_MAX_SGE,
        .max_inline = PLAN_INLINE,
        .sq_sig_all = below(s, 2),
        .send_cq = shared_cq,
        .recv_cq = shared_cq,
    };

    if (!shared_cq) {
        config.send_cq = kit_cq_create(n, config.sq_size);
        config.recv_cq = kit_cq_create(n, config.rq_size);
    }
    return kit_qp_create(n, &config);
}

static uint32_t pick_psn(struct sim *s)
{
    return below(s, 3) ? below(s, PSN_MASK + 1) : PSN_MASK - below(s, 100);
}

static struct kit_rc pick_attributes(struct sim *s)
{
    /* 0.26 to 2.1 ms; longer where the other queue pairs' packets take that long. */
    unsigned timeout = s->gbps && s->gbps < 40 ? 11 : s->kit->config.late ? 9 : 6;

    return (struct kit_rc){
        .path_mtu = 1 + below(s, 5),
        .psn = {pick_psn(s), pick_psn(s)},
        .timeout = (uint8_t)(timeout + below(s, 4)),
        .min_rnr_timer = (uint8_t)(1 + below(s, 10)),
        .max_rd_atomic = (uint8_t)(1u << below(s, 5)),
        .gid_index = (uint8_t)below(s, KIT_GIDS),
        .traffic_class = (uint8_t)below(s, 256),
        .flow_label = below(s, 2) ? 0 : below(s, 1 << 20),
    };
}

static void make_flow(struct sim *s, struct kit_qp *qp, struct kit_qp *peer, uint32_t mtu,
                      bool sig_all)
{
    struct flow *f = &s->flow[s->flows];
    struct plan_params params = {
        .ops = 8 + below(s, 30),
        .mtu = mtu,
        .max_unsignaled = 1 + below(s, qp->sq_size),
    };

    f->sim = s;
    f->id = s->flows++;
    f->qp = qp;
    f->peer = peer;
    f->sig_all = sig_all;
    f->extra_recvs = below(s, 4);
    plan_make(&f->plan, &params, &s->random);
    f->counter = s->counter[peer->node->index];
    s->counter_adds[peer->node->index] += f->plan.counter_adds;
    flow_register(f);
}

/* Requests, and responses to READs, of one seed in seven: 1 to 10 Gb/s. No chance is used, so other
 * seeds are what they were. */
static void limit_rate(struct sim *s, struct kit_qp *qp)
{
    struct qp_attr attr = {.rate_limit = 1000000 * (1 + (uint32_t)(s->seed / 7 % 10))};

    s->limited = s->seed % 7 == 3;
    if (s->limited &&
        engine_qp_modify(qp->node->engine, qp->qp, &attr, QPA_RATE_LIMIT, NULL, 5, s->kit->now))
        sim_fail("the rate is not limited");
}

/* Who has agreed on maps of kept packets: neither end of a pair, one, or both, from the beginning
 * or from the first completions on. No chance is used. */
static void agree(struct sim *s, uint64_t completed)
{
    enum { NEITHER, LATER, ONE, OTHER, BOTH } who = (unsigned)(s->seed / 5 % 7);

    if (s->agreed || who == NEITHER || (who == LATER && completed < 1 + s->seed % 13))
        return;
    s->agreed = true;
    for (unsigned i = 0; i < s->flows; i++)
        if ((who != ONE || i % 2) && (who != OTHER || !(i % 2)))
            engine_qp_agree(s->flow[i].qp->node->engine, s->flow[i].qp->qp, true);
}

static void make_pair(struct sim *s, struct kit_cq *const *cq)
{
    struct kit_rc rc = pick_attributes(s);
    struct kit_qp *qp[2];

    for (unsigned i = 0; i < 2; i++)
        qp[i] = make_qp(s, &s->kit->node[i], cq[i]);
    kit_connect(qp[0], qp[1], &rc);
    for (unsigned i = 0; i < 2; i++) {
        limit_rate(s, qp[i]);
        make_flow(s, qp[i], qp[!i], 128u << rc.path_mtu, qp[i]->sig_all);
    }
}

static void setup(struct sim *s)
{
    struct kit_cq *cq[2] = {0};
    unsigned pairs = 1 + below(s, MAX_PAIRS);
    bool shared_cq = below(s, 2);

    make_kit(s);
    for (unsigned i = 0; i < 2; i++) {
        if (shared_cq)
            cq[i] = kit_cq_create(&s->kit->node[i], 256);
        s->counter[i] =
            kit_mr_create(&s->kit->node[i], COUNTER_BYTES, MEM_LOCAL_WRITE | MEM_REMOTE_ATOMIC,
                          below(s, 2) ? KIT_MR_COPY : KIT_MR_DIRECT);
    }
    while (pairs--)
        make_pair(s, cq);
    agree(s, 0);
    for (unsigned i = 0; i < 2; i++)
        s->counted[i] = kit_alloc(s->counter_adds[i]);
}

/* ---- running ---- */

void sim_counted(struct sim *s, const struct flow *f, uint64_t value)
{
    unsigned node = f->peer->node->index;

    expect(f, value < s->counter_adds[node], "the shared counter was %llu before one of %u adds",
           (unsigned long long)value, s->counter_adds[node]);
    expect(f, !s->counted[node][value], "the shared counter gave %llu twice",
           (unsigned long long)value);
    s->counted[node][value] = 1;
}

static void dispatch(struct sim *s, const struct kit_node *n, const struct cqe *e)
{
    for (unsigned i = 0; i < s->flows; i++) {
        struct flow *f = &s->flow[i];

        if (e->opcode & WC_RECV) {
            if (f->peer->node == n && f->peer->qpn == e->qpn)
                return flow_received(f, e);
        } else if (f->qp->node == n && f->qp->qpn == e->qpn) {
            return flow_sent(f, e);
        }
    }
    expect(&s->flow[0], false, "a completion of an unknown queue pair %u", e->qpn);
}

static unsigned poll_all(struct sim *s)
{
    struct cqe e[16];
    unsigned n, sum = 0;

    for (unsigned i = 0; i < 2; i++)
        for (struct kit_cq *cq = s->kit->node[i].cq; cq; cq = cq->next) {
            n = kit_poll(cq, e, 1 + below(s, ARRAY_SIZE(e)));
            for (unsigned j = 0; j < n; j++)
                dispatch(s, &s->kit->node[i], &e[j]);
            sum += n;
        }
    return sum;
}

static uint64_t work_done(const struct sim *s)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < s->flows; i++)
        sum += s->flow[i].completed + s->flow[i].recvs_done;
    return sum;
}

static bool application(void *arg)
{
    struct sim *s = arg;
    bool done = true;

    if (poll_all(s)) /* there may be more */
        kit_wake_at(s->kit, s->kit->now);
    for (unsigned i = 0; i < s->flows; i++) {
        flow_post(&s->flow[i], &s->random);
        done &= flow_done(&s->flow[i]);
    }
    agree(s, work_done(s));
    return done;
}

static const struct flow *stuck_flow(const struct sim *s)
{
    for (unsigned i = 0; i < s->flows; i++)
        if (!flow_done(&s->flow[i]))
            return &s->flow[i];
    return &s->flow[0];
}

static void run(struct sim *s)
{
    static const char *const name[] = {"done", "idle", "slow", "in a livelock"};
    enum kit_end end;

    do {
        uint64_t before = work_done(s);
        const struct flow *f;

        end = kit_run(s->kit, application, s, PROGRESS_BOUND);
        f = stuck_flow(s);
        expect(f, end == KIT_DONE || (end == KIT_BUDGET && work_done(s) != before),
               "no progress: %s; %u of %u requests completed, %u posted, %u of %u receives",
               name[end], f->completed, f->plan.ops, f->posted, f->recvs_done, f->plan.recvs);
    } while (end != KIT_DONE);
    /* Late duplicates and delayed packets arrive; they must have no effect, and timers must end. */
    end = kit_run(s->kit, NULL, NULL, 10 * NS_PER_SEC);
    expect(&s->flow[0], end == KIT_IDLE, "not idle after all work is done: %s", name[end]);
    expect(&s->flow[0], !poll_all(s), "completions after the last");
}

/* ---- the end ---- */

static void check_node(struct sim *s, struct kit_node *n)
{
    const struct flow *f = &s->flow[n->index];
    const struct engine_counters *c = engine_counters(n->engine);
    const struct kit_link *in = &s->kit->link[!n->index], *out = &s->kit->link[n->index];
    uint64_t count;

    expect(f, counter_sum(c->rx_packets, QOS_PRIORITIES) == in->delivered, "rx_packets %llu of %u",
           (unsigned long long)counter_sum(c->rx_packets, QOS_PRIORITIES), in->delivered);
    expect(f, counter_sum(c->tx_packets, QOS_PRIORITIES) == out->frames, "tx_packets %llu of %u",
           (unsigned long long)counter_sum(c->tx_packets, QOS_PRIORITIES), out->frames);
    expect(f,
           counter_get(&c->rx_delivered) + kit_drops(n) ==
               counter_sum(c->rx_packets, QOS_PRIORITIES),
           "%llu delivered and %llu dropped of %llu",
           (unsigned long long)counter_get(&c->rx_delivered), (unsigned long long)kit_drops(n),
           (unsigned long long)counter_sum(c->rx_packets, QOS_PRIORITIES));
    memcpy(&count, s->counter[n->index]->bytes, sizeof(count));
    expect(f, count == s->counter_adds[n->index], "the shared counter is %llu after %u adds",
           (unsigned long long)count, s->counter_adds[n->index]);
    expect(f, kit_canaries_intact(n), "bytes outside a region were written");
    expect(f, !n->events, "asynchronous event %u", n->event[0].event);
}

/* Without losses no packet is sent twice, except after an RNR NAK. On a slow link an answer may
 * take longer than the timeout. */
static void check_quiet(struct sim *s, const struct flow *f)
{
    const struct qp_counters *c = qp_counters(f->qp->qp);

    /* What a suspended queue pair receives is lost; a limit may be slower than the timeout. */
    if (s->kit->config.late || s->limited)
        return;
    for (unsigned i = 0; i < 2; i++) {
        const struct kit_link_config *l = &s->kit->link[i].config;

        if (l->bps || l->drop || l->duplicate || l->reorder || l->corrupt)
            return;
    }
    expect(f, !counter_get(&c->timeouts), "timeouts on a perfect link");
    if (!counter_get(&c->rnr_nak_rcvd))
        expect(f, !counter_get(&c->retransmits) && !counter_get(&c->seq_nak_rcvd),
               "retransmissions on a perfect link");
}

static void flush(struct sim *s)
{
    for (unsigned i = 0; i < s->flows; i++) {
        struct flow *f = &s->flow[i];

        f->flushing = true;
        expect(f, !kit_modify(f->peer, QPS_ERR), "to the error state");
    }
    while (poll_all(s))
        ;
    for (unsigned i = 0; i < s->flows; i++)
        expect(&s->flow[i], s->flow[i].recvs_done == s->flow[i].recvs_posted,
               "%u of %u receives flushed", s->flow[i].recvs_done, s->flow[i].recvs_posted);
}

static void run_seed(const struct options *o, uint64_t seed)
{
    struct sim *s = kit_alloc(sizeof(*s));

    set_repeat(o, seed);
    s->options = o;
    s->seed = seed;
    s->random.state = seed * UINT64_C(0x2545f4914f6cdd1d);
    s->lossless = !below(s, 8);
    setup(s);
    run(s);
    for (unsigned i = 0; i < s->flows; i++) {
        flow_verify(&s->flow[i]);
        check_quiet(s, &s->flow[i]);
        total.messages += s->flow[i].plan.ops;
    }
    for (unsigned i = 0; i < 2; i++) {
        check_node(s, &s->kit->node[i]);
        total.frames += s->kit->link[i].frames;
        total.marked += s->kit->link[i].marked;
        total.drops +=
            s->kit->link[i].dropped + s->kit->link[i].corrupted + s->kit->link[i].trimmed;
        total.bytes +=
            counter_sum(engine_counters(s->kit->node[i].engine)->tx_bytes, QOS_PRIORITIES);
    }
    flush(s);
    kit_destroy(s->kit);
    for (unsigned i = 0; i < s->flows; i++)
        plan_free(&s->flow[i].plan);
    for (unsigned i = 0; i < 2; i++)
        free(s->counted[i]);
    free(s);
}

static _Noreturn void usage(int status)
{
    fputs("usage: sim_rc [--seeds N] [--first SEED] [--seed SEED]\n"
          "              [--loss PCT] [--duplicate PCT] [--reorder PCT] [--corrupt PCT]\n",
          status ? stderr : stdout);
    exit(status);
}

static struct options parse(int argc, char **argv)
{
    static const struct option known[] = {{"seeds", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"first", required_argument, NULL, 'f'},
                                          {"loss", required_argument, NULL, 'l'},
                                          {"duplicate", required_argument, NULL, 'd'},
                                          {"reorder", required_argument, NULL, 'r'},
                                          {"corrupt", required_argument, NULL, 'c'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    struct options o = {
        .first = 1, .seeds = 1000, .loss = -1, .duplicate = -1, .reorder = -1, .corrupt = -1};
    int opt;

    while ((opt = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (opt) {
        case 'n':
            o.seeds = strtoull(optarg, NULL, 0);
            break;
        case 's':
            o.first = strtoull(optarg, NULL, 0);
            o.seeds = 1;
            break;
        case 'f':
            o.first = strtoull(optarg, NULL, 0);
            break;
        case 'l':
            o.loss = atoi(optarg);
            break;
        case 'd':
            o.duplicate = atoi(optarg);
            break;
        case 'r':
            o.reorder = atoi(optarg);
            break;
        case 'c':
            o.corrupt = atoi(optarg);
            break;
        default:
            usage(opt != 'h');
        }
    }
    if (optind != argc)
        usage(2);
    return o;
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);

    signal(SIGABRT, on_crash);
    signal(SIGSEGV, on_crash);
    for (uint64_t i = 0; i < o.seeds; i++)
        run_seed(&o, o.first + i);
    printf("%llu seeds passed: %llu requests in %llu frames (%llu lost, %llu marked), %llu MiB\n",
           (unsigned long long)o.seeds, total.messages, total.frames, total.drops, total.marked,
           total.bytes >> 20);
    return 0;
}
