/* SPDX-License-Identifier: BSD-3-Clause */
/* A port that captures the frames of another one: see capture.h. */
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SNAPLEN   65535
#define FILE_MODE 0600
/* Of a frame in the file: seconds, nanoseconds, two lengths, 32 bits each. */
#define FRAME_HEADER 16
/* Frames of a worker that never sleeps are in the file after this time, once it receives none. */
#define FLUSH_AFTER (100 * NS_PER_MS)
/* The latest frames, which a full disk may have no room for: more than stdio's buffer holds. */
#define ENDS 256

struct capture {
    struct pktio io;
    struct pktio_ops ops; /* only those that `inner` has */
    struct pktio *inner;
    uint8_t mac[6];
    void (*ended)(void *arg, int err, uint64_t frames);
    void *arg;
    pthread_mutex_t lock; /* workers of several queues share the file */
    pcap_t *pcap;
    pcap_dumper_t *dumper; /* NULL: ended */
    int owned;             /* a descriptor that keeps the file's lock, also when it has ended */
    uint64_t left;
    uint64_t size, end[ENDS]; /* of the file, with what stdio still has; behind the last frames */
    uint64_t ends;
    _Atomic ns_t written_at; /* the first frame that is not flushed; 0: all are */
};

static struct capture *capture_of(struct pktio *io)
{
    return container_of(io, struct capture, io);
}

static struct timespec time_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now;
}

static ns_t in_ns(const struct timespec *t)
{
    return (ns_t)t->tv_sec * NS_PER_SEC + (ns_t)t->tv_nsec;
}

/* Any thread reads it; the lock is held to set it. */
static ns_t written_at(const struct capture *c)
{
    return atomic_load_explicit(&c->written_at, memory_order_relaxed);
}

static void set_written_at(struct capture *c, ns_t at)
{
    atomic_store_explicit(&c->written_at, at, memory_order_relaxed);
}

/* The disk is full: readers would fail at a frame that is only partly in the file. Returns how many
 * frames are. The first end is the file header's. */
static uint64_t cut_partial_frame(struct capture *c)
{
    FILE *f = pcap_dump_file(c->dumper);
    struct stat st;

    __fpurge(f);
    if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode))
        return c->ends - 1;
    for (uint64_t i = 1; i <= ENDS && i <= c->ends; i++) {
        off_t end = (off_t)c->end[(c->ends - i) % ENDS];

        if (end <= st.st_size) {
            (void)!ftruncate(fileno(f), end);
            return c->ends - i;
        }
    }
    return 0;
}

/* err: of a write that has failed, or 0. What stdio still has may fail, too. */
static void end_capture(struct capture *c, int err)
{
    if (!c->dumper)
        return;
    if (fflush(pcap_dump_file(c->dumper)) && !err)
        err = errno;
    if (err) {
        uint64_t frames = cut_partial_frame(c);

        if (c->ended)
            c->ended(c->arg, err, frames);
    }
    pcap_dump_close(c->dumper);
    c->dumper = NULL;
}

/* tv_usec holds nanoseconds, because the file was opened with that precision. */
static void write_frame(struct capture *c, const struct frame *f)
{
    struct pcap_pkthdr header = {.caplen = min_of(f->len, SNAPLEN), .len = f->len};
    struct timespec now = time_now();

    header.ts.tv_sec = now.tv_sec;
    header.ts.tv_usec = now.tv_nsec;
    pcap_dump((u_char *)c->dumper, &header, f->data);
    c->size += FRAME_HEADER + header.caplen;
    c->end[c->ends++ % ENDS] = c->size;
    if (!written_at(c))
        set_written_at(c, in_ns(&now));
    if (ferror(pcap_dump_file(c->dumper)))
        end_capture(c, errno);
    else if (!--c->left)
        end_capture(c, 0);
}

static void write_frames(struct capture *c, const struct frame *f, unsigned n, bool received)
{
    if (!n)
        return;
    pthread_mutex_lock(&c->lock);
    for (unsigned i = 0; i < n && c->dumper; i++) {
        if (!received || f[i].len < 12 || memcmp(f[i].data + 6, c->mac, sizeof(c->mac)))
            write_frame(c, &f[i]);
    }
    pthread_mutex_unlock(&c->lock);
}

static void flush_file(struct capture *c)
{
    pthread_mutex_lock(&c->lock);
    if (c->dumper && written_at(c) && pcap_dump_flush(c->dumper))
        end_capture(c, errno);
    set_written_at(c, 0);
    pthread_mutex_unlock(&c->lock);
}

static void flush_old(struct capture *c)
{
    ns_t at = written_at(c);
    struct timespec now;

    if (!at)
        return;
    now = time_now();
    if (in_ns(&now) - at >= FLUSH_AFTER) /* also when the clock was set back */
        flush_file(c);
}

static void capture_info(struct pktio *io, struct pktio_info *info)
{
    struct pktio *inner = capture_of(io)->inner;

    inner->ops->info(inner, info);
}

static unsigned capture_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct capture *c = capture_of(io);
    unsigned count = c->inner->ops->rx_burst(c->inner, queue, f, n);

    write_frames(c, f, count, true);
    if (!count)
        flush_old(c);
    return count;
}

static void capture_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct pktio *inner = capture_of(io)->inner;

    inner->ops->rx_release(inner, queue, f, n);
}

static unsigned capture_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct pktio *inner = capture_of(io)->inner;

    return inner->ops->tx_lend(inner, queue, f, n);
}

static void capture_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n,
                             unsigned used)
{
    struct capture *c = capture_of(io);

    write_frames(c, f, used, false);
    c->inner->ops->tx_burst(c->inner, queue, f, n, used);
}

static void capture_tx_flush(struct pktio *io, unsigned queue, bool more)
{
    struct pktio *inner = capture_of(io)->inner;

    inner->ops->tx_flush(inner, queue, more);
}

static int capture_wake_fd(struct pktio *io, unsigned queue)
{
    struct pktio *inner = capture_of(io)->inner;

    return inner->ops->wake_fd(inner, queue);
}

static bool capture_wake_arm(struct pktio *io, unsigned queue)
{
    struct capture *c = capture_of(io);

    flush_file(c);
    return c->inner->ops->wake_arm(c->inner, queue);
}

static int capture_rss(struct pktio *io, bool ipv6, struct rss *rss)
{
    struct pktio *inner = capture_of(io)->inner;

    return inner->ops->rss(inner, ipv6, rss);
}

static int capture_flow_add(struct pktio *io, const struct pktio_flow *flow, unsigned queue,
                            void **rule)
{
    struct pktio *inner = capture_of(io)->inner;

    return inner->ops->flow_add(inner, flow, queue, rule);
}

static void capture_flow_remove(struct pktio *io, void *rule)
{
    struct pktio *inner = capture_of(io)->inner;

    inner->ops->flow_remove(inner, rule);
}

static bool capture_must_poll(struct pktio *io, unsigned queue)
{
    struct pktio *inner = capture_of(io)->inner;

    return inner->ops->must_poll(inner, queue);
}

static int capture_link_fd(struct pktio *io)
{
    struct pktio *inner = capture_of(io)->inner;

    return inner->ops->link_fd(inner);
}

static void capture_link_ack(struct pktio *io)
{
    struct pktio *inner = capture_of(io)->inner;

    inner->ops->link_ack(inner);
}

static const struct pktio_counters *capture_counters(struct pktio *io, unsigned queue)
{
    struct pktio *inner = capture_of(io)->inner;

    return inner->ops->counters(inner, queue);
}

static void free_capture(struct capture *c)
{
    end_capture(c, 0);
    if (c->pcap)
        pcap_close(c->pcap);
    if (c->owned >= 0)
        close(c->owned);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void capture_close(struct pktio *io)
{
    struct capture *c = capture_of(io);

    c->inner->ops->close(c->inner);
    free_capture(c);
}

/* The outer port has the optional functions that the inner port has. */
static void set_ops(struct capture *c)
{
    const struct pktio_ops *inner = c->inner->ops;

    c->ops = (struct pktio_ops){
        .driver = inner->driver,
        .info = capture_info,
        .rx_burst = capture_rx_burst,
        .rx_release = capture_rx_release,
        .tx_lend = capture_tx_lend,
        .tx_burst = capture_tx_burst,
        .tx_flush = inner->tx_flush ? capture_tx_flush : NULL,
        .wake_fd = capture_wake_fd,
        .wake_arm = capture_wake_arm,
        .must_poll = inner->must_poll ? capture_must_poll : NULL,
        .rss = inner->rss ? capture_rss : NULL,
        .flow_add = inner->flow_add ? capture_flow_add : NULL,
        .flow_remove = inner->flow_remove ? capture_flow_remove : NULL,
        .link_fd = inner->link_fd ? capture_link_fd : NULL,
        .link_ack = inner->link_ack ? capture_link_ack : NULL,
        .counters = inner->counters ? capture_counters : NULL,
        .close = capture_close,
    };
    c->io.ops = &c->ops;
}

/* Empties the file, unless it is another port's: of this daemon, or of one that runs. A device or a
 * pipe may take its place. 0 or an errno. */
static int take_file(int fd)
{
    struct stat st;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return 0;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return EBUSY;
    fchmod(fd, FILE_MODE);
    return ftruncate(fd, 0) ? errno : 0;
}

/* The frames are those of all users: the file is for the daemon's user alone. NULL: see errno. */
static pcap_dumper_t *open_file(struct capture *c, const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, FILE_MODE), err;
    FILE *file = NULL;

    if (fd < 0)
        return NULL;
    err = take_file(fd);
    if (!err) {
        /* The reader of a pipe may stop: the workers do not wait for it, and the capture ends. */
        fcntl(fd, F_SETFL, O_NONBLOCK);
        c->owned = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        file = fdopen(fd, "w");
        err = errno;
    }
    if (!file)
        close(fd);
    errno = err;
    return file ? pcap_dump_fopen(c->pcap, file) : NULL;
}

struct pktio *pktio_capture_open(struct pktio *io, const struct pktio_capture_config *config,
                                 char *error, size_t size)
{
    struct capture *c = calloc(1, sizeof(*c));
    struct pktio_info info;

    if (!c) {
        snprintf(error, size, "out of memory");
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    c->inner = io;
    c->owned = -1;
    c->left = config->frames ? config->frames : UINT64_MAX;
    c->ended = config->ended;
    c->arg = config->arg;
    io->ops->info(io, &info);
    memcpy(c->mac, info.mac, sizeof(c->mac));
    set_ops(c);
    c->pcap = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, SNAPLEN, PCAP_TSTAMP_PRECISION_NANO);
    c->dumper = c->pcap ? open_file(c, config->file) : NULL;
    if (!c->dumper) {
        if (c->pcap)
            snprintf(error, size, "capture: %s: %s", config->file,
                     errno == EBUSY ? "another port's capture, which goes on" : strerror(errno));
        else
            snprintf(error, size, "capture: out of memory");
        free_capture(c);
        return NULL;
    }
    c->size = sizeof(struct pcap_file_header);
    c->end[c->ends++] = c->size;
    /* Writes the file header now, so that a reader always finds a valid pcap file. */
    if (pcap_dump_flush(c->dumper))
        end_capture(c, errno);
    return &c->io;
}
