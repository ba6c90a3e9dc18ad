/* SPDX-License-Identifier: BSD-3-Clause */
#include "rs_device.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file_limit.h"
#include "rs_socket.h"

static struct rs_device *devices;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Another thread of the parent may hold it, while the daemon makes a protection domain. */
static void after_fork_in_child(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void register_fork_handlers(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

static struct rs_device *find(struct ibv_context *verbs)
{
    struct rs_device *d = devices;

    while (d && d->verbs != verbs)
        d = d->next;
    return d;
}

static struct rs_device *create(struct ibv_context *verbs)
{
    struct rs_device *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->verbs = verbs;
    d->pd = ibv_alloc_pd(verbs);
    if (!d->pd) {
        free(d);
        return NULL;
    }
    d->next = devices;
    devices = d;
    return d;
}

struct rs_device *rs_device_get(struct ibv_context *verbs)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct rs_device *d;

    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&lock);
    d = find(verbs);
    if (!d)
        d = create(verbs);
    if (d)
        d->refs++;
    pthread_mutex_unlock(&lock);
    return d;
}

void rs_device_put(struct rs_device *device)
{
    struct rs_device **p = &devices;

    pthread_mutex_lock(&lock);
    if (!--device->refs) {
        while (*p != device)
            p = &(*p)->next;
        *p = device->next;
        ibv_dealloc_pd(device->pd);
        free(device);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- memory ---- */

/* Or a negative errno. */
static int sealed_file(size_t size)
{
    int fd, err;

    if (!file_limit_allows(size))
        return -EFBIG;
    fd = memfd_create("rsocket", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (!ftruncate(fd, (off_t)size) && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) >= 0)
        return fd;
    err = -errno;
    close(fd);
    return err;
}

int rs_memory_create(struct rs_memory *m, size_t size)
{
    int fd = sealed_file(size);
    void *bytes;

    if (fd == -EMFILE || fd == -ENFILE) /* without a file it would be slow for ever */
        return fd;
    bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                 fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd < 0 ? -1 : fd, 0);
    if (bytes == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return -ENOMEM;
    }
    *m = (struct rs_memory){bytes, size, fd};
    return 0;
}

void rs_memory_destroy(struct rs_memory *m)
{
    if (!m->bytes)
        return;
    munmap(m->bytes, m->size);
    if (m->fd >= 0)
        close(m->fd);
    m->bytes = NULL;
}

/* ---- completion queues ---- */

int rs_cq_create(struct ibv_context *verbs, int entries, struct ibv_comp_channel **comp,
                 struct ibv_cq **cq)
{
    int err;

    *comp = ibv_create_comp_channel(verbs);
    if (!*comp)
        return -errno;
    *cq = ibv_create_cq(verbs, entries, NULL, *comp, 0);
    err = *cq ? rs_set_nonblocking((*comp)->fd) : -errno;
    if (err) {
        rs_cq_destroy(*comp, *cq);
        *comp = NULL;
        *cq = NULL;
    }
    return err;
}

void rs_cq_destroy(struct ibv_comp_channel *comp, struct ibv_cq *cq)
{
    if (cq)
        ibv_destroy_cq(cq);
    if (comp)
        ibv_destroy_comp_channel(comp);
}

int rs_cq_events(struct ibv_comp_channel *comp, struct ibv_cq *cq)
{
    struct ibv_cq *from;
    unsigned n = 0;
    void *context;

    while (!ibv_get_cq_event(comp, &from, &context))
        n++;
    if (n)
        ibv_ack_cq_events(cq, n);
    if (errno != EAGAIN && errno != EINTR)
        return -errno;
    return n > 0;
}
