/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes frames between two interfaces, loses or marks some of those for the RoCE port, and holds
 * all of them back for a time:
 *
 *     lossy INTERFACE INTERFACE LOSS DELAY SEED [MARK]
 *
 * LOSS is the chance of a frame in 1/100000, DELAY is in microseconds. MARK is the chance that a
 * frame whose sender allows it is marked "congestion experienced"; SIGUSR1 begins and ends that.
 * Which frames are lost follows from the seed and their number in each direction. Says "ready" on
 * standard output, and when SIGTERM ends it, for each direction how many frames it passed, lost and
 * marked.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define FRAME_MAX 9216
#define HELD_MAX  4096 /* a power of two; more are lost by the queue, as on a switch */
#define BUFFER    (1 << 25)
#define ROCE_PORT 4791
#define NS_PER_S  1000000000ull

struct frame {
    uint64_t due; /* ns */
    uint32_t len;
    uint8_t bytes[FRAME_MAX];
};

struct way {
    int from, to;
    uint64_t random;
    uint64_t passed, lost, overrun, marked;
    uint32_t head, tail; /* counts of frames */
    struct frame *held;
};

static volatile sig_atomic_t ended, marking;

static void on_signal(int number)
{
    if (number == SIGTERM)
        ended = 1;
    else
        marking = !marking;
}

static void fail(const char *what)
{
    fprintf(stderr, "lossy: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static int open_end(const char *name)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_ALL),
                             .sll_ifindex = (int)if_nametoindex(name)};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0), one = 1, size = BUFFER;

    if (fd < 0 || !at.sll_ifindex ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)))
        fail(name);
    return fd;
}

/* xorshift64*: any generator does, as long as it is the same everywhere. */
static uint32_t roll(uint64_t *state, uint32_t sides)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)(((*state * 0x2545f4914f6cdd1dull) >> 32) * sides >> 32);
}

static bool is_roce(const uint8_t *frame, uint32_t len)
{
    uint32_t udp = ETH_HLEN + (frame[12] == 0x08 ? 20 : 40);

    if (len < udp + 8 || (frame[12] == 0x08 ? frame[13] != 0 || frame[ETH_HLEN + 9] != IPPROTO_UDP
                                            : frame[12] != 0x86 || frame[13] != 0xdd ||
                                                  frame[ETH_HLEN + 6] != IPPROTO_UDP))
        return false;
    return (frame[udp + 2] << 8 | frame[udp + 3]) == ROCE_PORT;
}

/* Sets the ECN field to CE, if it is ECT(0) or ECT(1). */
static bool mark(uint8_t *frame)
{
    uint8_t *ip = frame + ETH_HLEN, *field = ip + 1;
    unsigned shift = frame[12] == 0x08 ? 0 : 4; /* IPv6: the traffic class's low half is above */
    uint8_t ecn = *field >> shift & 3;
    uint32_t sum;

    if (ecn != 1 && ecn != 2)
        return false;
    *field |= (uint8_t)(3 << shift);
    if (frame[12] != 0x08)
        return true;
    ip[10] = ip[11] = sum = 0;
    for (unsigned i = 0; i < 20; i += 2)
        sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = ~(sum + (sum >> 16)) & 0xFFFF;
    ip[10] = (uint8_t)(sum >> 8);
    ip[11] = (uint8_t)sum;
    return true;
}

/* False: nothing has come. */
static bool take(struct way *w, uint32_t loss, uint64_t delay, uint32_t marks)
{
    struct frame *f = &w->held[w->head % HELD_MAX];
    ssize_t len = recv(w->from, f->bytes, FRAME_MAX, 0);

    if (len < 0)
        return false;
    if (is_roce(f->bytes, (uint32_t)len) && roll(&w->random, 100000) < loss) {
        w->lost++;
        return true;
    }
    if (marking && is_roce(f->bytes, (uint32_t)len) && roll(&w->random, 100000) < marks)
        w->marked += mark(f->bytes);
    if (w->head - w->tail == HELD_MAX - 1) {
        w->overrun++;
        return true;
    }
    f->len = (uint32_t)len;
    f->due = now_ns() + delay;
    w->head++;
    return true;
}

/* False: nothing is due. */
static bool give(struct way *w, uint64_t now)
{
    struct frame *f = &w->held[w->tail % HELD_MAX];

    if (w->tail == w->head || f->due > now)
        return false;
    if (send(w->to, f->bytes, f->len, 0) < 0) {
        if (errno == EAGAIN || errno == ENOBUFS)
            return false; /* when there is room */
        if (errno != ENETDOWN && errno != ENXIO)
            fail("send");
        w->overrun++;
    } else {
        w->passed++;
    }
    w->tail++;
    return true;
}

static struct timespec until_due(const struct way *way)
{
    uint64_t now = now_ns(), due = now + NS_PER_S;

    for (unsigned i = 0; i < 2; i++) {
        const struct way *w = &way[i];

        if (w->tail != w->head && w->held[w->tail % HELD_MAX].due < due)
            due = w->held[w->tail % HELD_MAX].due;
    }
    due = due > now ? due - now : 0;
    return (struct timespec){.tv_sec = (time_t)(due / NS_PER_S), .tv_nsec = (long)(due % NS_PER_S)};
}

static void run(struct way *way, uint32_t loss, uint64_t delay, uint32_t marks,
                const sigset_t *while_waiting)
{
    struct pollfd p[2] = {{.fd = way[0].from, .events = POLLIN},
                          {.fd = way[1].from, .events = POLLIN}};

    while (!ended) {
        struct timespec wait = until_due(way);

        if (ppoll(p, 2, &wait, while_waiting) < 0 && errno != EINTR)
            fail("poll");
        for (unsigned i = 0; i < 2; i++) {
            uint64_t now;

            for (unsigned n = 0; n < 64 && take(&way[i], loss, delay, marks); n++)
                ;
            now = now_ns();
            while (give(&way[i], now))
                ;
        }
    }
}

int main(int argc, char **argv)
{
    struct way way[2] = {{0}};
    sigset_t set, none;

    if (argc != 6 && argc != 7) {
        fputs("usage: lossy INTERFACE INTERFACE LOSS DELAY SEED [MARK]\n", stderr);
        return 2;
    }
    signal(SIGTERM, on_signal);
    signal(SIGUSR1, on_signal);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &none);
    for (unsigned i = 0; i < 2; i++) {
        way[i].from = way[!i].to = open_end(argv[1 + i]);
        way[i].random = strtoull(argv[5], NULL, 10) * 2 + i + 1;
        way[i].held = calloc(HELD_MAX, sizeof(*way[i].held));
        if (!way[i].held)
            fail("memory");
        for (unsigned n = 0; n < 64; n++) /* small seeds begin alike */
            roll(&way[i].random, 2);
    }
    puts("ready");
    fflush(stdout);
    run(way, (uint32_t)strtoul(argv[3], NULL, 10), strtoull(argv[4], NULL, 10) * 1000,
        argc == 7 ? (uint32_t)strtoul(argv[6], NULL, 10) : 0, &none);
    for (unsigned i = 0; i < 2; i++)
        printf("passed %llu lost %llu overrun %llu marked %llu\n",
               (unsigned long long)way[i].passed, (unsigned long long)way[i].lost,
               (unsigned long long)way[i].overrun, (unsigned long long)way[i].marked);
    return 0;
}
