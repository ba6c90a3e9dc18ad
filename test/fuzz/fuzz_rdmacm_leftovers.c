/* SPDX-License-Identifier: BSD-3-Clause */
/* See fuzz_rdmacm.h. */
#include "fuzz_rdmacm.h"

#include "cma.h"
#include "fuzz.h"
#include "fuzz_daemon.h"

#define OBJECTS 256
#define LINKS   128

/* In the order in which they can be destroyed. */
enum kind { KIND_QP, KIND_SRQ, KIND_CQ, KIND_CHANNEL, KINDS };

static void *left[KINDS][OBJECTS];
static struct cma_link *links[LINKS];

/* ---- what the library calls of libibverbs ---- */

/* The linker puts these, __wrap, in the place of those, __real. */
#define WRAPPED(result, name, ...)         \
    result __real_ibv_##name(__VA_ARGS__); \
    result __wrap_ibv_##name(__VA_ARGS__)

WRAPPED(int, destroy_qp, struct ibv_qp *qp);
WRAPPED(int, destroy_srq, struct ibv_srq *srq);
WRAPPED(int, destroy_cq, struct ibv_cq *cq);
WRAPPED(int, destroy_comp_channel, struct ibv_comp_channel *channel);
WRAPPED(struct ibv_comp_channel *, create_comp_channel, struct ibv_context *context);

static void forget(enum kind kind, const void *object)
{
    for (unsigned i = 0; i < OBJECTS; i++)
        if (left[kind][i] == object)
            left[kind][i] = NULL;
}

static void remember(enum kind kind, void *object)
{
    unsigned i = 0;

    forget(kind, object);
    while (i < OBJECTS && left[kind][i])
        i++;
    REQUIRE(i < OBJECTS);
    left[kind][i] = object;
}

static int note(enum kind kind, void *object, int err)
{
    if (is_gone(err))
        forget(kind, object);
    else
        remember(kind, object);
    return err;
}

int __wrap_ibv_destroy_qp(struct ibv_qp *qp)
{
    return note(KIND_QP, qp, __real_ibv_destroy_qp(qp));
}

int __wrap_ibv_destroy_srq(struct ibv_srq *srq)
{
    return note(KIND_SRQ, srq, __real_ibv_destroy_srq(srq));
}

int __wrap_ibv_destroy_cq(struct ibv_cq *cq)
{
    return note(KIND_CQ, cq, __real_ibv_destroy_cq(cq));
}

int __wrap_ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    return note(KIND_CHANNEL, channel, __real_ibv_destroy_comp_channel(channel));
}

/* The library does not destroy one whose queue is still there. */
struct ibv_comp_channel *__wrap_ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = __real_ibv_create_comp_channel(context);

    if (channel)
        remember(KIND_CHANNEL, channel);
    return channel;
}

/* ---- giving back ---- */

static int destroy(enum kind kind, void *object)
{
    switch (kind) {
    case KIND_QP:
        return __real_ibv_destroy_qp(object);
    case KIND_SRQ:
        return __real_ibv_destroy_srq(object);
    case KIND_CQ:
        return __real_ibv_destroy_cq(object);
    default:
        return __real_ibv_destroy_comp_channel(object);
    }
}

static void drop_objects(void)
{
    for (enum kind kind = 0; kind < KINDS; kind++) {
        for (unsigned i = 0; i < OBJECTS; i++) {
            if (left[kind][i])
                REQUIRE(is_gone(destroy(kind, left[kind][i])));
            left[kind][i] = NULL;
        }
    }
}

/* Of a request that the library has refused, while the daemon kept it. */
static void find_id(void *arg, struct cma_entry *e)
{
    *(struct cma_id **)arg = (struct cma_id *)((char *)e - offsetof(struct cma_id, entry));
}

static void drop_ids(struct cma_link *link)
{
    struct cma_id *id;

    for (;;) {
        id = NULL;
        cma_table_each(&link->ids, find_id, &id);
        if (!id)
            return;
        REQUIRE(!rdma_destroy_id(&id->base));
    }
}

static void close_devices(struct cma_link *link)
{
    struct cma_device *d;

    while ((d = SLIST_FIRST(&link->devices))) {
        SLIST_REMOVE_HEAD(&link->devices, next);
        if (d->xrcd)
            ibv_close_xrcd(d->xrcd);
        if (d->pd)
            ibv_dealloc_pd(d->pd);
        REQUIRE(!ibv_close_device(d->verbs));
        free(d);
    }
}

void leftovers_note_link(void)
{
    struct cma_link *link;
    unsigned i = 0;
    int err;

    link = link_get(&err);
    if (!link)
        return;
    while (i < LINKS && links[i] && links[i] != link)
        i++;
    REQUIRE(i < LINKS);
    if (links[i])
        link_put(link);
    links[i] = link;
}

void leftovers_drop(void)
{
    int err;

    for (unsigned i = 0; i < LINKS && links[i]; i++)
        drop_ids(links[i]);
    drop_objects();
    for (unsigned i = 0; i < LINKS && links[i]; i++) {
        close_devices(links[i]);
        link_put(links[i]);
        links[i] = NULL;
    }
    REQUIRE(!link_get(&err)); /* the library forgets the link, too */
}
