/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a device context, and questions about devices. */
#include "client.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int map_context(struct client *c, const int fds[3])
{
    c->shared_bytes = ctx_segment_bytes(c->workers);
    c->wake_bytes = c->workers * sizeof(c->wake->worker[0]);
    c->shared = client_map(fds[0], c->shared_bytes);
    c->wake = client_map(fds[1], c->wake_bytes);
    c->async_fd = fds[2];
    return c->shared && c->wake ? 0 : -EIO;
}

static void unmap_context(struct client *c)
{
    if (c->shared)
        munmap(c->shared, c->shared_bytes);
    if (c->wake)
        munmap(c->wake, c->wake_bytes);
    if (c->async_fd >= 0)
        close(c->async_fd);
}

int client_open(struct client *c, uint32_t index)
{
    struct ctl_msg m = {.open = {.device = index}};
    int fds[3], err;

    memset(c, 0, sizeof(*c));
    c->async_fd = -1;
    err = mr_policy_read();
    if (!err)
        err = client_cpu_policy_read();
    if (err)
        return err;
    err = conn_open(&c->conn);
    if (err)
        return err;
    err = conn_call(&c->conn, CTL_OPEN, &m, NULL, 0, fds, ARRAY_SIZE(fds));
    if (!err) {
        c->workers = min_of(max_of(m.open.workers, 1u), (uint32_t)CTX_WORKERS_MAX);
        c->daemon = (pid_t)m.open.pid;
        err = map_context(c, fds);
    }
    if (err) {
        unmap_context(c);
        conn_close(&c->conn);
        return err;
    }
    slot_table_init(&c->qps);
    slot_table_init(&c->cqs);
    slot_table_init(&c->srqs);
    slot_table_init(&c->mrs);
    mr_client_opened(c);
    return 0;
}

void client_close(struct client *c)
{
    mr_hot_end(c);
    mr_client_closes(c);
    unmap_context(c);
    client_slabs_fini(&c->slabs);
    slot_table_destroy(&c->qps);
    slot_table_destroy(&c->cqs);
    slot_table_destroy(&c->srqs);
    slot_table_destroy(&c->mrs);
}
