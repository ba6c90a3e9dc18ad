/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens a port with several queues and checks, packet by packet, whether RoCEv2 packets arrive on
 * the queue that the port's hash, key and table predict. Ends after PACKETS packets or SECONDS
 * seconds.
 *
 * usage: rss_probe DEVICE QUEUES PACKETS SECONDS [EAL option...] Prints the port's properties
 * ("queues 2 ipv4 told ipv6 told"), "ready", and in the end one line: "ipv4 N right N wrong ipv6 N
 * right N wrong untold N queues N N".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "env.h"
#include "ethdev.h"
#include "rss_frame.h"

#define QUEUES_MAX 16

struct probe {
    struct pktio *io;
    unsigned queues;
    struct rss rss[2];
    bool told[2];
    unsigned long right[2], wrong[2], untold;
    unsigned long share[QUEUES_MAX];
};

static bool look_at(struct probe *p, const struct frame *f, unsigned queue)
{
    struct rss_frame r;
    bool v6;

    if (!rss_frame_read(&r, f->data, f->len))
        return false;
    v6 = !rss_is_ipv4(&r.tuple);
    p->share[queue]++;
    if (!p->told[v6])
        p->untold++;
    else if (rss_queue(&p->rss[v6], &r.tuple) == queue)
        p->right[v6]++;
    else
        p->wrong[v6]++;
    return true;
}

static unsigned long poll_queue(struct probe *p, unsigned queue)
{
    struct frame f[FRAME_BURST];
    unsigned n = p->io->ops->rx_burst(p->io, queue, f, FRAME_BURST);
    unsigned long seen = 0;

    for (unsigned i = 0; i < n; i++)
        seen += look_at(p, &f[i], queue);
    p->io->ops->rx_release(p->io, queue, f, n);
    return seen;
}

static void begin(struct probe *p)
{
    struct pktio_info info;

    p->io->ops->info(p->io, &info);
    p->queues = info.queues;
    for (unsigned v6 = 0; v6 < 2; v6++)
        p->told[v6] = !p->io->ops->rss(p->io, v6, &p->rss[v6]);
    printf("queues %u ipv4 %s ipv6 %s\nready\n", p->queues, p->told[0] ? "told" : "untold",
           p->told[1] ? "told" : "untold");
    fflush(stdout);
}

static void watch(struct probe *p, unsigned long packets, time_t seconds)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    time_t end = time(NULL) + seconds;
    unsigned long seen = 0;

    while (seen < packets && time(NULL) < end) {
        unsigned long more = 0;

        for (unsigned q = 0; q < p->queues; q++)
            more += poll_queue(p, q);
        seen += more;
        /* Such a port has no wake-up. */
        if (!more)
            nanosleep(&pause, NULL);
    }
}

static void report(const struct probe *p)
{
    printf("ipv4 %lu right %lu wrong ipv6 %lu right %lu wrong untold %lu queues", p->right[0],
           p->wrong[0], p->right[1], p->wrong[1], p->untold);
    for (unsigned q = 0; q < p->queues; q++)
        printf(" %lu", p->share[q]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static struct probe p;
    struct pktio_ethdev_config config = {.device = argc > 1 ? argv[1] : ""};
    struct env_config env = {.argc = argc - 5, .argv = argv + 5};
    char error[256];

    if (argc < 6) {
        fprintf(stderr, "usage: rss_probe DEVICE QUEUES PACKETS SECONDS EAL-OPTION...\n");
        return 2;
    }
    config.queues = (unsigned)strtoul(argv[2], NULL, 0);
    if (!config.queues || config.queues > QUEUES_MAX || env_dpdk.init(&env))
        return 2;
    p.io = pktio_ethdev_open(&config, error, sizeof(error));
    if (!p.io) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    begin(&p);
    watch(&p, strtoul(argv[3], NULL, 0), (time_t)strtoul(argv[4], NULL, 0));
    report(&p);
    p.io->ops->close(p.io);
    env_dpdk.fini();
    return 0;
}
