/* SPDX-License-Identifier: BSD-3-Clause */
/* Output for the prompt: settings, queue pairs, counters. See result.h. */
#include "result.h"

#include <inttypes.h>
#include <stdio.h>

#define QPS_SHOWN 64

void show_config(const struct perf_options *o)
{
    char value[64];
    const char *name;

    for (unsigned i = 0; (name = options_get(o, i, value, sizeof(value))); i++)
        printf("%-14s %s\n", name, value);
}

void show_qps(const struct perf *p)
{
    uint32_t shown = min_of(p->ends, 2u * QPS_SHOWN);

    if (!p->end) {
        puts("no queue pairs");
        return;
    }
    printf("%-10s %-10s %-6s %-6s %12s\n", "QP", "peer", "worker", "state", "messages");
    for (uint32_t i = 0; i < shown; i++) {
        const struct perf_end *e = &p->end[i];

        printf("0x%08x 0x%08x %-6u %-6s %12" PRIu64 "\n", e->qpn, e->peer->qpn, e->worker,
               qp_state_name(session_qp_state(p->session[e->side], e->qpn)), e->messages);
    }
    if (shown < p->ends)
        printf("and %u more\n", p->ends - shown);
}

static void print_counter(const char *group, const char *name, uint64_t value)
{
    printf("%s_%s: %" PRIu64 "\n", group, name, value);
}

static void show_engine(const struct engine *e, const char *group)
{
    const struct engine_counters *c = engine_counters(e);

    print_counter(group, "rx_packets", counter_sum(c->rx_packets, QOS_PRIORITIES));
    print_counter(group, "rx_bytes", counter_sum(c->rx_bytes, QOS_PRIORITIES));
    print_counter(group, "tx_packets", counter_sum(c->tx_packets, QOS_PRIORITIES));
    print_counter(group, "tx_bytes", counter_sum(c->tx_bytes, QOS_PRIORITIES));
    print_counter(group, "rx_delivered", counter_get(&c->rx_delivered));
    print_counter(group, "rx_punted", counter_get(&c->rx_punted));
    print_counter(group, "rx_forwarded_in", counter_get(&c->rx_forwarded_in));
    print_counter(group, "rx_forwarded_out", counter_get(&c->rx_forwarded_out));
    for (unsigned i = 0; i < DROP_COUNT; i++) {
        if (counter_get(&c->drop[i]))
            printf("%s_drop_%s: %" PRIu64 "\n", group, drop_name((enum drop)i),
                   counter_get(&c->drop[i]));
    }
}

static void show_port(struct pktio *io, unsigned queue, const char *group)
{
    const struct pktio_counters *c = io->ops->counters ? io->ops->counters(io, queue) : NULL;

    if (!c)
        return;
    print_counter(group, "tx_refused", counter_get(&c->tx_refused));
    print_counter(group, "rx_unusable", counter_get(&c->rx_unusable));
    print_counter(group, "rx_bad_checksum", counter_get(&c->rx_bad_checksum));
    print_counter(group, "rx_overflow", counter_get(&c->rx_overflow));
    print_counter(group, "local", counter_get(&c->local));
}

static void show_worker(const struct worker *w)
{
    const struct worker_stats *s = worker_stats(w);
    char group[32];

    snprintf(group, sizeof(group), "worker%u", worker_index(w));
    print_counter(group, "loops", counter_get(&s->loops));
    print_counter(group, "busy", counter_get(&s->busy));
    print_counter(group, "doorbells_forwarded", counter_get(&s->doorbells_forwarded));
    print_counter(group, "forwarded_out", counter_get(&s->forwarded_out));
    print_counter(group, "forwarded_in", counter_get(&s->forwarded_in));
}

/* Prints the counters of devices and workers, from when the ports were opened. */
void show_xstats(const struct perf *p)
{
    struct rnic *r = p->ports ? p->ports->rnic : NULL;
    char group[32];

    if (!r) {
        puts("no device");
        return;
    }
    for (unsigned i = 0; i < rnic_devices(r); i++) {
        for (unsigned k = 0; k < rnic_device_queues(r, i); k++) {
            snprintf(group, sizeof(group), "port%u_q%u", i, k);
            show_engine(rnic_device_engine(r, i, k), group);
            show_port(rnic_device_io(r, i), k, group);
        }
    }
    for (unsigned i = 0; i < rnic_workers(r); i++)
        show_worker(rnic_worker(r, i));
}
