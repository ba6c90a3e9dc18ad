/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a device context, and questions about devices. */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client_inherit.h"
#include "client_qp.h"
#include "mr.h"

int client_query_device(struct conn *c, uint32_t index, struct ctl_device *d)
{
    struct ctl_msg m = {.device = {.index = index}};
    int err = conn_call(c, CTL_QUERY_DEVICE, &m, NULL, 0, NULL, 0);

    if (err)
        return err;
    *d = m.device;
    d->name[sizeof(d->name) - 1] = '\0';
    d->fw_version[sizeof(d->fw_version) - 1] = '\0';
    return 0;
}

/* A segment shorter than its mapping would raise SIGBUS in the application. */
void *client_map(int fd, size_t bytes)
{
    struct stat st;
    void *p = MAP_FAILED;

    if (!fstat(fd, &st)) {
        if ((uint64_t)st.st_size < bytes)
            errno = EPROTO;
        else
            p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

struct opening {
    struct client *client;
    const struct ctl_open *reply;
};

/* The reply's descriptors: context segment, async events socket, and an eventfd for each of the
 * device's workers. They are taken all or none. */
static int take_context(void *arg, const int *fd, unsigned fds)
{
    const struct opening *o = arg;
    struct client *c = o->client;
    uint32_t wakes = o->reply->wakes;

    if (wakes >> CTX_WORKERS_MAX || fds != 2 + (unsigned)__builtin_popcount(wakes))
        return -EPROTO;
    c->workers = min_of(max_of(o->reply->workers, 1u), (uint32_t)CTX_WORKERS_MAX);
    c->daemon = (pid_t)o->reply->pid;
    c->shared_bytes = ctx_segment_bytes(c->workers);
    c->shared_fd = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    c->shared = client_map(*fd++, c->shared_bytes);
    c->async_fd = *fd++;
    for (unsigned i = 0; i < CTX_WORKERS_MAX; i++)
        if (wakes >> i & 1)
            c->wake_fd[i] = *fd++;
    return 0;
}

static void leave_context(struct client *c)
{
    if (c->shared)
        munmap(c->shared, c->shared_bytes);
    if (c->shared_fd >= 0)
        close(c->shared_fd);
    if (c->async_fd >= 0)
        close(c->async_fd);
    for (unsigned i = 0; i < CTX_WORKERS_MAX; i++)
        if (c->wake_fd[i] >= 0)
            close(c->wake_fd[i]);
}

static int open_by(struct client *c, enum ctl_type type, struct ctl_msg *m)
{
    struct opening opening = {c, &m->open};
    int err;

    memset(c, 0, sizeof(*c));
    c->async_fd = c->shared_fd = -1;
    memset(c->wake_fd, -1, sizeof(c->wake_fd));
    err = mr_policy_read();
    if (!err)
        err = client_cpu_policy_read();
    if (err)
        return err;
    err = conn_open(&c->conn);
    if (err)
        return err;
    err = conn_call_then(&c->conn, type, m, take_context, &opening);
    if (!err && c->shared_fd < 0)
        err = -EMFILE;
    if (!err && !c->shared)
        err = -EIO;
    if (err) {
        leave_context(c);
        conn_close(&c->conn);
        return err;
    }
    slot_table_init(&c->qps);
    slot_table_init(&c->cqs);
    slot_table_init(&c->srqs);
    slot_table_init(&c->mrs);
    client_may_be_inherited(c);
    mr_client_opened(c);
    return 0;
}

int client_open(struct client *c, uint32_t index)
{
    struct ctl_msg m = {.open = {.device = index}};

    return open_by(c, CTL_OPEN, &m);
}

int client_join(struct client *c, int fd, uint32_t *index)
{
    struct ctl_msg m = {0};
    const size_t bytes = sizeof(m.open.join_key);
    int err;

    if (pread(fd, m.open.join_key, bytes, offsetof(struct ctx_shared, join_key)) != (ssize_t)bytes)
        return -EINVAL;
    err = open_by(c, CTL_JOIN, &m);
    *index = m.open.device;
    return err;
}

/*
 * Those that the program has not destroyed. The daemon notices later that the connection is closed,
 * and until then would let peers write to memory that the program may have freed. No other thread
 * uses the context.
 */
static void end_queues(struct client *c)
{
    int err = 0;

    for (uint32_t i = 0; conn_is_ours(&c->conn) && i < c->qps.used && err != -EIO; i++) {
        const struct client_qp *qp = atomic_load(&slot_at(&c->qps, i)->object);

        if (qp)
            err = conn_call_handle(&c->conn, qp->is_wq ? CTL_DESTROY_WQ : CTL_DESTROY_QP, qp->qpn);
    }
}

void client_close(struct client *c)
{
    end_queues(c);
    mr_hot_end(c);
    mr_client_closes(c);
    leave_context(c);
    client_slabs_fini(&c->slabs);
    slot_table_destroy(&c->qps);
    slot_table_destroy(&c->cqs);
    slot_table_destroy(&c->srqs);
    slot_table_destroy(&c->mrs);
}
