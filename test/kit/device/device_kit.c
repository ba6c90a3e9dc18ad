/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_kit.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop.h"

uint8_t kit_memory[KIT_BYTES];
const uint64_t *kit_secret = (const uint64_t[2]){0, 0};
int kit_status;

static uint8_t *at(uint64_t addr, uint32_t len)
{
    if (addr < KIT_BASE || addr - KIT_BASE > KIT_BYTES || len > KIT_BYTES - (addr - KIT_BASE))
        return NULL;
    return kit_memory + (addr - KIT_BASE);
}

/* An application's own state, beside the memory that all share. */
struct kit_space {
    struct mem_heat heat;
};

static struct mem_heat *heat(void *space)
{
    return &((struct kit_space *)space)->heat;
}

static void note(void *space, const struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < KIT_HEAT; i++)
        mem_heat_note(heat(space), io, n);
}

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    note(space, io, n);
    for (unsigned i = 0; i < n; i++) {
        const uint8_t *p = at(io[i].addr, io[i].len);

        io[i].status = kit_status ? kit_status : p ? 0 : -EFAULT;
        if (!io[i].status)
            memcpy(io[i].local, p, io[i].len);
    }
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    note(space, io, n);
    for (unsigned i = 0; i < n; i++) {
        uint8_t *p = at(io[i].addr, io[i].len);

        io[i].status = kit_status ? kit_status : p ? 0 : -EFAULT;
        if (!io[i].status)
            memcpy(p, io[i].local, io[i].len);
    }
}

static int atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                  uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    uint8_t *p = at(addr, 8);
    uint64_t value;

    if (!p)
        return -EFAULT;
    memcpy(old, p, 8);
    value = op == MEM_FETCH_ADD ? *old + swap_add : *old == compare ? swap_add : *old;
    memcpy(p, &value, 8);
    return 0;
}

static const struct mem_backend backend = {
    .name = "kit", .copy_in = copy_in, .copy_out = copy_out, .atomic = atomic};

static void *space_open(const struct ucred *peer, const struct mem_backend **copy, int *err)
{
    struct kit_space *s = calloc(1, sizeof(*s));

    *copy = &backend;
    *err = s ? 0 : -ENOMEM;
    return s;
}

static int space_reach(void *space)
{
    return kit_status == -EPERM ? kit_status : 0;
}

static void space_nothing(void *space)
{
}

/* Maps every region that is long enough. */
static void *map(struct mem_region *mr, int fd, const struct mem_piece *piece, unsigned n, int *err)
{
    uint64_t offset = piece->offset;
    off_t size = lseek(fd, 0, SEEK_END);
    void *base;

    *err = -EINVAL;
    if (n != 1 || piece->len != mr->len || size < 0 || offset % 4096 || mr->len > 1 << 20 ||
        offset + mr->len > (uint64_t)size)
        return NULL;
    base = mmap(NULL, mr->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (base == MAP_FAILED)
        return NULL;
    mr->direct = base;
    return base;
}

static void unmap(void *mapping, struct mem_region *mr)
{
    munmap(mapping, mr->len);
}

static void kit_freeze(void *space, uint64_t ns)
{
}

static uint64_t kit_thaw(void *space)
{
    return 0;
}

const struct mem_provider kit_provider = {.space_open = space_open,
                                          .space_reach = space_reach,
                                          .space_gone = space_nothing,
                                          .space_close = free,
                                          .map = map,
                                          .unmap = unmap,
                                          .freeze = kit_freeze,
                                          .thaw = kit_thaw,
                                          .heat = heat};

struct rnic *kit_rnic_with(struct event_loop *loop, ns_t (*clock)(void), struct port_config pc)
{
    struct rnic_config rc = {.workers = 1,
                             .mem = &kit_provider,
                             .loop = loop,
                             .version = "kit",
                             .clock = clock,
                             .secret = kit_secret};
    struct pktio_loop_config lc = {.name = "kit", .mac = {2, 0, 0, 0, 0, 1}, .queues = 1};
    struct rnic *r;
    int err;

    r = rnic_create(&rc, &err);
    if (!r)
        abort();
    if (!pc.io)
        pc.io = pktio_loop_create(&lc);
    if (!pc.io || rnic_add_port(r, &pc))
        abort();
    return r;
}

struct rnic *kit_rnic(struct event_loop *loop, ns_t (*clock)(void))
{
    struct port_address address[2] = {{.prefix = 8, .vlan = VLAN_NONE},
                                      {.prefix = 128, .vlan = VLAN_NONE}};
    struct port_neighbour neighbour = {.mac = {2, 0, 0, 0, 0, 2}};
    struct port_config pc = {
        .address = address, .addresses = 2, .neighbour = &neighbour, .neighbours = 1};

    gid_parse(&address[0].gid, "127.0.0.1");
    gid_parse(&address[1].gid, "::1");
    gid_parse(&neighbour.addr, "10.0.0.2");
    return kit_rnic_with(loop, clock, pc);
}

int kit_call(struct session *c, enum ctl_type type, struct ctl_msg *m, struct ctl_call *call,
             bool keep)
{
    m->magic = CTL_MAGIC;
    m->version = CTL_VERSION;
    m->type = (uint16_t)type;
    m->seq = 1;
    call->request = m;
    session_dispatch(c, call);
    while (!keep && call->out_fds)
        close(call->out_fd[--call->out_fds]);
    return call->reply.status;
}

int kit_call_handle(struct session *c, enum ctl_type type, uint32_t handle)
{
    struct ctl_msg m = {.handle = handle};
    struct ctl_call call = {0};

    return kit_call(c, type, &m, &call, false);
}

int kit_destroy_handle(struct session *c, enum ctl_type type, uint32_t handle)
{
    int err;

    while ((err = kit_call_handle(c, type, handle)) == -EAGAIN)
        sched_yield();
    return err;
}
