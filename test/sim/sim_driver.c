/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seeds run in a child process, which leaves its seed and the fates in memory that both share; so
 * that the parent can report the failure even after a crash, and run the seed again with fewer
 * fates.
 */
#include "sim_driver.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bytes.h"

#define MAX_FATES  100000
#define MAX_TRIALS 3000
#define TIME_LIMIT 60  /* seconds of real time that one run may take */
#define MINIMISING 180 /* and all trials together */

static const char letters[] = {[KIT_PASS] = '-',
                               [KIT_DROP] = 'd',
                               [KIT_DUPLICATE] = 'u',
                               [KIT_CORRUPT] = 'c',
                               [KIT_REORDER] = 'r'};

struct shared {
    uint64_t seed;
    unsigned long long frames, disturbed, handed, moved, seeds;
    struct kit_fates fates;
    struct kit_fate fate[MAX_FATES];
};

static struct {
    const char *program;
    sim_run run;
    uint64_t first, seeds;
    const char *bug_name;
    kit_hook bug;
    struct kit_fates *given; /* on the command line */
    struct shared *shared;
} driver;

void sim_total(const struct kit_link *l)
{
    driver.shared->frames += l->frames;
    driver.shared->disturbed += l->dropped + l->trimmed + l->corrupted + l->duplicated + l->reordered;
}

void sim_total_forwarded(unsigned long long frames)
{
    driver.shared->handed += frames;
}

void sim_total_moved(unsigned long long queue_pairs)
{
    driver.shared->moved += queue_pairs;
}

/* ---- bugs, to prove that they are found ---- */

/* The NAK for a lost request becomes an ACK of it. */
static enum kit_verdict nak_is_ack(void *ctx, unsigned index, uint8_t *data, uint32_t *len,
                                   const struct kit_seen *seen)
{
    /* The syndrome is the first byte behind the BTH; AETH, no pad and ICRC are all that follows. */
    uint8_t *syndrome = data + *len - ICRC_LEN - 4;

    if (seen->pkt.opcode == OPCODE(PKT_RC, OP_ACK) &&
        seen->pkt.aeth.syndrome == (AETH_NAK | NAK_PSN_SEQUENCE)) {
        *syndrome = AETH_ACK | AETH_CREDIT_NONE;
        kit_frame_reseal(data, *len);
    }
    return KIT_PASS;
}

/* A repeated SEND gets an unused PSN, as if the sender had counted it twice. */
static enum kit_verdict retry_is_new(void *ctx, unsigned index, uint8_t *data, uint32_t *len,
                                     const struct kit_seen *seen)
{
    static uint32_t qpn, psn_done;
    uint8_t *bth = data + *len - pkt_len(seen->pkt.opcode, seen->pkt.payload_len);

    if (seen->pkt.opcode != OPCODE(PKT_RC, OP_SEND_ONLY))
        return KIT_PASS;
    if (qpn == seen->pkt.dest_qpn && psn_done == seen->pkt.psn.v) {
        put_be24(bth + 9, (psn_done + 1) & PSN_MASK);
        kit_frame_reseal(data, *len);
    }
    qpn = seen->pkt.dest_qpn;
    psn_done = seen->pkt.psn.v;
    return KIT_PASS;
}

static const struct {
    const char *name;
    kit_hook hook;
} bugs[] = {{"nak-is-ack", nak_is_ack}, {"retry-is-new", retry_is_new}};

/* ---- fates as text ---- */

static void print_fates(FILE *out, const struct kit_fates *f)
{
    for (unsigned i = 0; i < f->n; i++)
        fprintf(out, "%s%u:%u%c", i ? "," : "", f->fate[i].link, f->fate[i].index,
                letters[f->fate[i].verdict]);
}

static _Noreturn void usage(int status)
{
    fprintf(status ? stderr : stdout,
            "usage: %s [--seeds N] [--first SEED] [--seed SEED] [--fates LIST] [--bug NAME]\n",
            driver.program);
    exit(status);
}

static struct kit_fates *parse_fates(const char *text)
{
    struct kit_fates *f = kit_alloc(sizeof(*f));
    unsigned link, index;
    const char *letter;
    int used;
    char c;

    f->fate = kit_alloc((strlen(text) / 4 + 1) * sizeof(*f->fate));
    while (*text) {
        if (sscanf(text, "%u:%u%c%n", &link, &index, &c, &used) != 3 || link >= KIT_NODES ||
            !(letter = memchr(letters, c, sizeof(letters))))
            usage(2);
        f->fate[f->n++] = (struct kit_fate){index, (uint8_t)link, (uint8_t)(letter - letters)};
        text += used;
        text += *text == ',';
    }
    return f;
}

/* ---- one trial ---- */

static void quiet(void)
{
    int null = open("/dev/null", O_WRONLY);

    if (null < 0 || dup2(null, STDERR_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
        _exit(99);
}

/* Whether the seed fails with these fates. */
static bool fails(uint64_t seed, const struct kit_fates *fates)
{
    struct sim_orders orders = {.replay = fates, .bug = driver.bug};
    int status;
    pid_t pid = fork();

    if (pid < 0)
        kit_fail("fork");
    if (!pid) {
        quiet();
        alarm(TIME_LIMIT);
        driver.run(seed, &orders);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid)
        kit_fail("waitpid");
    return status != 0;
}

/* ---- delta debugging ---- */

/* f without [from, to). */
static struct kit_fates without(const struct kit_fates *f, unsigned from, unsigned to,
                                struct kit_fate *room)
{
    memcpy(room, f->fate, from * sizeof(*room));
    memcpy(room + from, f->fate + to, (f->n - to) * sizeof(*room));
    return (struct kit_fates){.fate = room, .n = f->n - (to - from)};
}

/* Leaves out one part after the other, of more and more parts, until all are needed. */
static unsigned minimise(uint64_t seed, struct kit_fates *f)
{
    struct kit_fate *room = kit_alloc((f->n + 1) * sizeof(*room));
    unsigned part = max_of(f->n / 2, 1u), trials = 0;
    time_t end = time(NULL) + MINIMISING;

    while (f->n && trials < MAX_TRIALS && time(NULL) < end) {
        bool smaller = false;

        for (unsigned at = 0; at < f->n && trials < MAX_TRIALS && time(NULL) < end;) {
            struct kit_fates less = without(f, at, min_of(at + part, f->n), room);

            trials++;
            if (fails(seed, &less)) {
                memcpy(f->fate, room, less.n * sizeof(*room));
                f->n = less.n;
                smaller = true;
            } else {
                at += part;
            }
        }
        if (part == 1 && !smaller)
            break;
        part = max_of(min_of(part, f->n) / 2, 1u);
    }
    free(room);
    return trials;
}

static int explain(void)
{
    struct shared *s = driver.shared;
    uint64_t seed = s->seed;
    struct kit_fates fates = {.fate = kit_alloc((s->fates.n + 1) * sizeof(struct kit_fate))};
    unsigned before = driver.given ? driver.given->n : s->fates.n, trials;

    if (driver.given)
        return 1;
    fates.n = before;
    memcpy(fates.fate, s->fate, before * sizeof(*fates.fate));
    if (!fails(seed, &fates)) {
        fprintf(
            stderr,
            "seed %llu fails, but not when its %u fates are repeated\nrepeat: %s --seed %llu%s%s\n",
            (unsigned long long)seed, before, driver.program, (unsigned long long)seed,
            driver.bug ? " --bug " : "", driver.bug ? driver.bug_name : "");
        free(fates.fate);
        return 1;
    }
    trials = minimise(seed, &fates);
    fprintf(stderr,
            "%u of its %u lost, corrupted, repeated or delayed frames are enough (%u trials)\n",
            fates.n, before, trials);
    fprintf(stderr, "repeat: KIT_TRACE=1 %s --seed %llu%s%s --fates ", driver.program,
            (unsigned long long)seed, driver.bug ? " --bug " : "",
            driver.bug ? driver.bug_name : "");
    if (fates.n)
        print_fates(stderr, &fates);
    else
        fputs("''", stderr);
    fputc('\n', stderr);
    free(fates.fate);
    return 1;
}

/* ---- the seeds ---- */

static void run_seeds(void)
{
    struct shared *s = driver.shared;

    for (uint64_t i = 0; i < driver.seeds; i++) {
        struct sim_orders orders = {.replay = driver.given, .bug = driver.bug};

        s->seed = driver.first + i;
        s->fates = (struct kit_fates){.fate = s->fate, .room = MAX_FATES};
        if (!driver.given)
            orders.record = &s->fates;
        alarm(TIME_LIMIT);
        driver.run(s->seed, &orders);
        s->seeds++;
    }
}

static void parse(int argc, char **argv)
{
    static const struct option known[] = {{"seeds", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"first", required_argument, NULL, 'f'},
                                          {"fates", required_argument, NULL, 'l'},
                                          {"bug", required_argument, NULL, 'b'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int opt;

    driver.first = 1;
    driver.seeds = 1000;
    while ((opt = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        switch (opt) {
        case 's':
            driver.seeds = 1;
            driver.first = strtoull(optarg, NULL, 0);
            break;
        case 'n':
            driver.seeds = strtoull(optarg, NULL, 0);
            break;
        case 'f':
            driver.first = strtoull(optarg, NULL, 0);
            break;
        case 'l':
            driver.given = parse_fates(optarg);
            break;
        case 'b':
            for (unsigned i = 0; i < ARRAY_SIZE(bugs); i++)
                if (!strcmp(bugs[i].name, optarg))
                    driver.bug = bugs[i].hook;
            driver.bug_name = optarg;
            if (!driver.bug)
                usage(2);
            break;
        default:
            usage(opt != 'h');
        }
    }
    if (optind != argc)
        usage(2);
}

int sim_main(const char *program, int argc, char **argv, sim_run run)
{
    struct shared *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    pid_t pid;

    if (s == MAP_FAILED)
        kit_fail("out of memory");
    driver.program = program;
    driver.run = run;
    driver.shared = s;
    parse(argc, argv);
    fflush(stdout);
    pid = fork();
    if (pid < 0)
        kit_fail("fork");
    if (!pid) {
        run_seeds();
        exit(0);
    }
    if (waitpid(pid, &status, 0) != pid)
        kit_fail("waitpid");
    if (status) {
        fprintf(stderr, "seed %llu failed\n", (unsigned long long)s->seed);
        return explain();
    }
    printf("%llu seeds passed: %llu frames, %llu of them lost, corrupted, repeated or delayed, "
           "%llu forwarded; %llu migrations of queue pairs\n",
           s->seeds, s->frames, s->disturbed, s->handed, s->moved);
    return 0;
}
