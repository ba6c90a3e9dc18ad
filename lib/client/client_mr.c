/* SPDX-License-Identifier: BSD-3-Clause */
/* Registering and deregistering memory: what the application offers the daemon for a region. */
#include "client_mr.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "adopt_raw.h"
#include "adopt_vma.h"
#include "mr.h"

/* Regions of a program's own memfd up to this size are populated when they are registered. */
#define POPULATE_MAX   (UINT64_C(1) << 30)
#define POPULATE_READ  22 /* MADV_, 5.14 */
#define POPULATE_WRITE 23

pthread_mutex_t mr_mutex = PTHREAD_MUTEX_INITIALIZER;
struct mr_list mr_all = LIST_HEAD_INITIALIZER(mr_all);
struct client_list mr_clients = LIST_HEAD_INITIALIZER(mr_clients);

/* Without cancellation: registration opens descriptors and reads files. Returns the old state. */
static int lock_regions(void)
{
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&mr_mutex);
    return cancel;
}

static void unlock_regions(int cancel)
{
    pthread_mutex_unlock(&mr_mutex);
    pthread_setcancelstate(cancel, NULL);
}

void mr_client_opened(struct client *c)
{
    int cancel = lock_regions();

    mr_register_fork_handlers();
    LIST_INSERT_HEAD(&mr_clients, c, link);
    unlock_regions(cancel);
}

/* Closes the connection first: the daemon then stops using the memory. */
void mr_client_closes(struct client *c)
{
    struct client_mr *mr, *next;
    int cancel = lock_regions();

    LIST_REMOVE(c, link);
    mr_check_lost();
    conn_close(&c->conn);
    for (mr = LIST_FIRST(&mr_all); mr; mr = next) {
        next = LIST_NEXT(mr, link);
        if (mr->client != c)
            continue;
        adopt_release(&mr->lease);
        LIST_REMOVE(mr, link);
        mr->client = NULL;
    }
    unlock_regions(cancel);
}

/* Where Yama restricts ptrace, the daemon's process_vm_readv needs this process's consent. Not all
 * kernels have Yama, so a failure is ignored; without the right, the registration fails. */
void mr_allow_daemon(struct client *c)
{
    if (!atomic_exchange_explicit(&c->tracer_set, true, memory_order_relaxed))
        prctl(PR_SET_PTRACER, (unsigned long)c->daemon, 0, 0, 0);
}

unsigned mr_pieces(const struct client_mr *mr, const struct adopt_lease *l,
                   struct ctl_mr_piece piece[CTL_MR_PIECES])
{
    uint64_t at = mr->addr, end = mr->addr + mr->length;

    for (unsigned i = 0; i < l->pieces; i++) {
        const struct adopt_piece *p = &l->piece[i];
        uint64_t stop = min_of(p->addr + p->length, end);

        piece[i] = (struct ctl_mr_piece){p->offset + (at - p->addr), stop - at};
        at = stop;
    }
    return l->pieces;
}

/* Whether this process is root's, or of the user who runs the daemon, which then maps its memory
 * with fewer conditions. */
static bool is_trusted(const struct client *c)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    uid_t uid = geteuid();

    return !uid ||
           (!getsockopt(c->conn.sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) && uid == peer.uid);
}

/* The program's own file in memory, or -1. The region is populated, so that no page is allocated
 * when the daemon touches it; the daemon refuses to map a region with holes. */
static int offer_shared(const struct client *c, struct ctl_reg_mr *r)
{
    int fd = mr_backing_find(r->addr, r->length, !is_trusted(c), &r->fd_offset);

    if (fd < 0)
        return -1;
    r->flags |= CTL_MR_FD;
    r->why = CTL_MR_SHARED;
    if (r->length <= POPULATE_MAX) {
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = r->addr / page * page;

        madvise((void *)(uintptr_t)start, r->addr + r->length - start, POPULATE_READ);
    }
    return fd;
}

/* The policy never adopts such a region, even when it is hot. */
static bool is_never_adopted(enum ctl_mr_why why)
{
    return why == CTL_MR_SMALL || why == CTL_MR_ON_DEMAND;
}

static int offer_adopted(struct client_mr *mr, struct ctl_reg_mr *r, unsigned flags,
                         enum ctl_mr_why otherwise)
{
    int64_t began = raw_now();

    r->why = adopt_acquire(&mr->lease, r->addr, r->length, flags);
    if (r->why == CTL_MR_ADOPTED)
        mr_policy_adopted(mr->lease.moved, raw_now() - began);
    if (r->why == CTL_MR_OVERLAPS && mr_joins_mapped(mr)) {
        adopt_release(&mr->lease);
        r->why = adopt_acquire(&mr->lease, r->addr, r->length, flags | ADOPT_MOVE | ADOPT_AGAIN);
    }
    if (r->why == CTL_MR_SMALL || (r->why == CTL_MR_OVERLAPS && is_never_adopted(otherwise)))
        r->why = otherwise;
    if (r->why != CTL_MR_ADOPTED)
        return -1;
    r->flags |= CTL_MR_FD;
    r->pieces = mr_pieces(mr, &mr->lease, r->piece);
    return fcntl(adopt_memfd(), F_DUPFD_CLOEXEC, 0);
}

/* Fills in how the daemon reaches the region. Returns the descriptor to send, or -1. */
static int offer_memory(const struct client *c, struct client_mr *mr, struct ctl_reg_mr *r)
{
    enum ctl_mr_why otherwise = CTL_MR_UNKNOWN;
    unsigned flags = 0;
    bool adoptable = r->length && r->addr + r->length > r->addr && mr_policy(r, &flags, &otherwise);
    int fd = -1;

    r->why = otherwise;
    if (r->access & ACCESS_ON_DEMAND) /* what the addresses mean at the time of each access */
        return -1;
    if (adoptable)
        adopt_init(&mr_adopt_config);
    if (!adoptable || adopt_is_shared(r->addr))
        fd = offer_shared(c, r);
    if (fd < 0 && adoptable)
        fd = offer_adopted(mr, r, flags, otherwise);
    return fd;
}

/* For a process without /proc. Whether an address has no mapping: mincore() answers ENOMEM there,
 * and what it says of pages does not matter. (Of the calls that tell, valgrind takes msync() for a
 * read of the whole pages, which reach beyond the program's memory.) */
static bool has_hole(uint64_t addr, uint64_t length)
{
    unsigned char in_memory[4096];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), most = sizeof(in_memory) * page;
    uint64_t end = addr + length;

    for (uint64_t at = addr / page * page; at < end; at += most)
        if (mincore((void *)(uintptr_t)at, min_of(end - at, most), in_memory) && errno == ENOMEM)
            return true;
    return false;
}

/* Whether the program may access all of the region as its rights say, as far as can be known. */
static bool has_rights(const struct ctl_reg_mr *r)
{
    int err = vma_check(r->addr, r->length, mr_writes(r->access));

    return !err || (err != -EFAULT && !has_hole(r->addr, r->length));
}

/*
 * Whether the program may access all of the region as its rights say, and its first and last byte
 * can be read, asked without a signal: as when a driver pins it. The daemon does not touch memory
 * that it copies before a work request does: memory may belong to a file system that does not
 * answer.
 */
static int check_memory(const struct ctl_reg_mr *r)
{
    uint8_t byte[2];
    struct iovec local = {byte, sizeof(byte)};
    struct iovec ends[2] = {{(void *)(uintptr_t)r->addr, 1},
                            {(void *)(uintptr_t)(r->addr + r->length - 1), 1}};
    ssize_t n;

    if (!r->length || r->addr + r->length < r->addr || (r->access & ACCESS_ON_DEMAND))
        return 0; /* which the daemon judges */
    if (!has_rights(r))
        return -EFAULT;
    n = process_vm_readv(getpid(), &local, 1, ends, 2, 0);
    return n == sizeof(byte) || (n < 0 && errno != EFAULT) ? 0 : -EFAULT;
}

static int reg_mr(struct client *c, struct client_mr *mr, struct ctl_reg_mr *r)
{
    struct ctl_msg m = {.reg_mr = *r};
    uint32_t why;
    int fd, err;

    *mr = (struct client_mr){
        .pd = r->pd, .access = r->access, .addr = r->addr, .length = r->length, .iova = r->iova};
    err = slot_table_reserve(&c->mrs, &mr->uidx);
    if (err)
        return err == -ENOSPC ? -ENOMEM : err;
    m.reg_mr.uidx = mr->uidx;
    mr_check_lost();
    fd = offer_memory(c, mr, &m.reg_mr);
    why = m.reg_mr.why;
    if (why == CTL_MR_ADOPTED)
        err = fd < 0 ? -EMFILE : 0;
    else
        err = check_memory(&m.reg_mr);
    if (!err)
        err = conn_call(&c->conn, CTL_REG_MR, &m, &fd, fd >= 0, NULL, 0);
    if (fd >= 0)
        close(fd);
    if (err) {
        adopt_release(&mr->lease);
        slot_table_remove(&c->mrs, mr->uidx);
        return err;
    }
    if (!m.reg_mr.mapped)
        adopt_refused(&mr->lease);
    mr->client = c;
    mr->handle = m.reg_mr.handle;
    mr->lkey = m.reg_mr.lkey;
    mr->registered = raw_now();
    LIST_INSERT_HEAD(&mr_all, mr, link);
    slot_table_publish(&c->mrs, mr->uidx, mr);
    if (ctl_mr_may_change(why))
        mr_hot_watch(c);
    *r = m.reg_mr;
    return 0;
}

int client_reg_mr(struct client *c, struct client_mr *mr, struct ctl_reg_mr *r)
{
    int cancel, err;

    mr_allow_daemon(c);
    cancel = lock_regions();
    err = reg_mr(c, mr, r);
    unlock_regions(cancel);
    return err;
}

/* In no list: nothing of it has to be done when the program forks or its memory becomes hot. */
int client_reg_other(struct client *c, struct client_mr *mr, struct ctl_reg_mr *r)
{
    struct ctl_msg m = {.reg_mr = *r};
    int err = conn_call(&c->conn, CTL_REG_MR, &m, NULL, 0, NULL, 0);

    *mr =
        (struct client_mr){.pd = r->pd, .access = r->access, .addr = r->addr, .length = r->length};
    if (err)
        return err;
    mr->handle = m.reg_mr.handle;
    mr->lkey = m.reg_mr.lkey;
    *r = m.reg_mr;
    return 0;
}

/* end: when the program asked for it. */
static int dereg_mr(struct client *c, struct client_mr *mr, int64_t end)
{
    int err = conn_try_handle(&c->conn, CTL_DEREG_MR, mr->handle);

    if ((!err || err == -EIO) && mr->client) {
        mr_check_lost(); /* before adoption opens another file */
        if (mr->lease.kind != LEASE_NONE)
            mr_policy_ended(mr->length, end - mr->registered);
        adopt_release(&mr->lease);
        LIST_REMOVE(mr, link);
        slot_table_remove(&c->mrs, mr->uidx);
        mr->client = NULL;
    }
    return err;
}

/* The daemon may wait for memory of this program: other regions, and fork(), do not wait for it. */
int client_dereg_mr(struct client *c, struct client_mr *mr)
{
    struct conn_retry retry = {0};
    int64_t end = raw_now();
    int err;

    do {
        int cancel = lock_regions();

        err = dereg_mr(c, mr, end);
        unlock_regions(cancel);
    } while (err == -EAGAIN && conn_wait(&retry));
    return err;
}

/* ---- prefetching ---- */

static struct client_mr *find_region(const struct client *c, uint32_t lkey)
{
    struct client_mr *mr;

    LIST_FOREACH(mr, &mr_all, link)
    if (mr->client == c && mr->lkey == lkey)
        return mr;
    return NULL;
}

/* Turns addr into the program's. */
static int find_range(const struct client *c, uint32_t pd, uint32_t lkey, uint64_t *addr,
                      uint32_t length, bool write)
{
    const struct client_mr *mr = find_region(c, lkey);

    if (!mr)
        return -ENOENT;
    if (mr->pd != pd)
        return -EPERM;
    if (!(mr->access & ACCESS_ON_DEMAND))
        return -EINVAL;
    if (*addr < mr->iova || *addr - mr->iova > mr->length ||
        length > mr->length - (*addr - mr->iova))
        return -EFAULT;
    if (write && !(mr->access & ACCESS_LOCAL_WRITE))
        return -EPERM;
    *addr = *addr - mr->iova + mr->addr;
    return 0;
}

int client_prefetch(struct client *c, uint32_t pd, uint32_t lkey, uint64_t addr, uint32_t length,
                    enum client_prefetch how)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start;
    int cancel = lock_regions();
    int err = find_range(c, pd, lkey, &addr, length, how == PREFETCH_WRITE);

    unlock_regions(cancel); /* the memory may belong to a file system that does not answer */
    if (err || how == PREFETCH_NOTHING)
        return err;
    start = addr / page * page;
    if (!madvise((void *)(uintptr_t)start, addr + length - start,
                 how == PREFETCH_WRITE ? POPULATE_WRITE : POPULATE_READ))
        return 0;
    return errno == ENOMEM || errno == EFAULT ? -EFAULT : 0; /* else it is no more than advice */
}
