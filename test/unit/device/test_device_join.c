/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions that join another one and import its objects: who may, and how long what is imported
 * lasts. And those that inherit one. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/errand.h"
#include "control/inherit.h"
#include "device_kit.h"
#include "device_private.h"
#include "mem_window.h"
#include "objects/pd_mr.h"
#include "unit.h"

#define READ_WRITE 3u /* enum ibv_access_flags */

static struct event_loop *loop;
static struct rnic *rnic;
static struct session *owner, *guest;
static uint32_t pd, mr, dm;

static int call(struct session *sn, enum ctl_type type, struct ctl_msg *m)
{
    struct ctl_call k = {0};
    int status = kit_call(sn, type, m, &k, false);

    *m = k.reply;
    return status;
}

static struct session *connect_session(void)
{
    struct session *sn = session_create(rnic, &(struct ucred){.pid = getpid()});

    assert_non_null(sn);
    return sn;
}

static const uint64_t *key_of(const struct session *sn)
{
    return ((const struct ctx_shared *)sn->segment.base)->join_key;
}

static int join(struct session *sn, const uint64_t key[2])
{
    struct ctl_msg m = {.open = {.join_key = {key[0], key[1]}}};
    int status = call(sn, CTL_JOIN, &m);

    if (!status) { /* the key goes no further */
        assert_true(!m.open.join_key[0] && !m.open.join_key[1]);
        assert_int_equal(m.open.device, 0);
    }
    return status;
}

static int import(struct session *sn, uint32_t kind, uint32_t handle, uint32_t in,
                  struct ctl_import *reply)
{
    struct ctl_msg m = {.import = {.kind = kind, .handle = handle, .pd = in}};
    int status = call(sn, CTL_IMPORT, &m);

    *reply = m.import;
    return status;
}

static int unimport(struct session *sn, uint32_t kind, uint32_t handle)
{
    struct ctl_msg m = {.import = {.kind = kind, .handle = handle}};

    return call(sn, CTL_UNIMPORT, &m);
}

static uint32_t alloc_pd(struct session *sn)
{
    struct ctl_msg m = {0};

    assert_int_equal(call(sn, CTL_ALLOC_PD, &m), 0);
    return m.handle;
}

static struct ctl_reg_mr register_in(struct session *sn, uint32_t in)
{
    struct ctl_msg m = {.reg_mr = {.pd = in, .access = READ_WRITE, .addr = KIT_BASE, .length = 64}};

    assert_int_equal(call(sn, CTL_REG_MR, &m), 0);
    return m.reg_mr;
}

static uint32_t domain_of(uint32_t key)
{
    struct mem_region *r = mr_lookup(&rnic->device[0]->mrs, key);

    assert_non_null(r);
    return r->pd;
}

static int setup(void **state)
{
    struct ctl_msg m = {.open = {0}};
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    owner = connect_session();
    guest = connect_session();
    assert_int_equal(call(owner, CTL_OPEN, &m), 0);
    pd = alloc_pd(owner);
    mr = register_in(owner, pd).handle;
    m = (struct ctl_msg){.alloc_dm = {.length = 4096}};
    assert_int_equal(call(owner, CTL_ALLOC_DM, &m), 0);
    dm = m.alloc_dm.handle;
    return 0;
}

static int teardown(void **state)
{
    if (guest)
        session_close(guest);
    if (owner)
        session_close(owner);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

static void only_with_the_key(void **state)
{
    struct ctl_msg m = {0};
    struct ctl_import i;
    uint64_t key[2] = {0};

    assert_true(key_of(owner)[0] && key_of(owner)[1]);
    assert_int_equal(join(guest, key), -EACCES);
    key[0] = key_of(owner)[0];
    assert_int_equal(join(guest, key), -EACCES);
    key[0] = 0;
    key[1] = key_of(owner)[1];
    assert_int_equal(join(guest, key), -EACCES);
    assert_int_equal(import(guest, CTL_IMPORT_PD, pd, 0, &i), -ENOTCONN);
    assert_int_equal(call(guest, CTL_OPEN, &m), 0);
    assert_int_equal(import(guest, CTL_IMPORT_PD, pd, 0, &i), -EINVAL);
    assert_int_equal(join(guest, key_of(owner)), -EBUSY);
}

/* What an application writes into its segment is not its key. */
static void segment_does_not_decide(void **state)
{
    struct ctx_shared *shared = owner->segment.base;
    const uint64_t chosen[2] = {1, 2};

    memcpy(shared->join_key, chosen, sizeof(chosen));
    assert_int_equal(join(guest, chosen), -EACCES);
}

static void only_of_the_joined_session(void **state)
{
    struct session *third = connect_session();
    struct ctl_msg m = {0};
    struct ctl_import i;

    assert_int_equal(call(third, CTL_OPEN, &m), 0);
    assert_int_equal(join(guest, key_of(owner)), 0);
    assert_int_equal(import(guest, CTL_IMPORT_PD, alloc_pd(third), 0, &i), -ENOENT);
    assert_int_equal(import(guest, CTL_IMPORT_PD, 12345, 0, &i), -ENOENT);
    assert_int_equal(import(guest, 3, pd, 0, &i), -EINVAL);
    assert_int_equal(import(guest, UINT32_MAX, pd, 0, &i), -EINVAL);
    assert_int_equal(import(owner, CTL_IMPORT_PD, pd, 0, &i), -EINVAL);
    session_close(third);
}

static void domain_is_the_same(void **state)
{
    struct ctl_import i;
    uint32_t own;

    assert_int_equal(join(guest, key_of(owner)), 0);
    own = alloc_pd(guest);
    assert_int_equal(import(guest, CTL_IMPORT_PD, pd, 0, &i), 0);
    assert_int_not_equal(i.handle, pd);
    assert_int_equal(domain_of(register_in(guest, i.handle).lkey), pd);
    assert_int_equal(domain_of(register_in(guest, own).lkey), own);
    assert_int_equal(import(guest, CTL_IMPORT_MR, mr, own, &i), -EINVAL);
}

static void region_has_its_keys(void **state)
{
    struct ctl_import i, r;
    struct ctl_reg_mr first = register_in(owner, pd);

    assert_int_equal(join(guest, key_of(owner)), 0);
    assert_int_equal(import(guest, CTL_IMPORT_PD, pd, 0, &i), 0);
    assert_int_equal(import(guest, CTL_IMPORT_MR, first.handle, i.handle, &r), 0);
    assert_int_equal(r.lkey, first.lkey);
    assert_int_equal(r.rkey, first.rkey);
    assert_int_equal(r.length, 64);
    assert_int_equal(kit_call_handle(guest, CTL_DEREG_MR, first.handle), -ENOENT);
    assert_int_equal(kit_call_handle(owner, CTL_DEREG_MR, first.handle), 0);
    assert_int_equal(import(guest, CTL_IMPORT_MR, first.handle, i.handle, &r), -ENOENT);
}

static void domain_stays_while_it_is_imported(void **state)
{
    uint32_t free_pd = alloc_pd(owner), region;
    struct ctl_import i;

    assert_int_equal(join(guest, key_of(owner)), 0);
    assert_int_equal(import(guest, CTL_IMPORT_PD, free_pd, 0, &i), 0);
    assert_int_equal(kit_call_handle(owner, CTL_DEALLOC_PD, free_pd), -EBUSY);
    region = register_in(guest, i.handle).handle;
    assert_int_equal(unimport(guest, CTL_IMPORT_PD, i.handle), 0);
    assert_int_equal(kit_call_handle(owner, CTL_DEALLOC_PD, free_pd), -EBUSY);
    assert_int_equal(kit_call_handle(guest, CTL_DEREG_MR, region), 0);
    assert_int_equal(kit_call_handle(owner, CTL_DEALLOC_PD, free_pd), 0);
    assert_int_equal(unimport(guest, CTL_IMPORT_PD, i.handle), -ENOENT);
    assert_int_equal(unimport(guest, CTL_IMPORT_PD, alloc_pd(guest)), -ENOENT);
    assert_int_equal(unimport(guest, CTL_IMPORT_MR, mr), -EINVAL);
}

static void device_memory_is_the_same(void **state)
{
    struct ctl_msg m = {.import = {.kind = CTL_IMPORT_DM, .handle = dm}};
    struct ctl_call k = {0};
    struct stat st;

    assert_int_equal(join(guest, key_of(owner)), 0);
    assert_int_equal(kit_call(guest, CTL_IMPORT, &m, &k, true), 0);
    assert_int_equal(k.out_fds, 1);
    assert_int_equal(fstat(k.out_fd[0], &st), 0);
    assert_int_equal(k.reply.import.length, 4096);
    assert_true(k.reply.import.offset + 4096 <= (uint64_t)st.st_size);
    close(k.out_fd[0]);
    assert_int_equal(kit_call_handle(owner, CTL_FREE_DM, dm), -EBUSY);
    assert_int_equal(unimport(guest, CTL_IMPORT_DM, k.reply.import.handle), 0);
    assert_int_equal(kit_call_handle(owner, CTL_FREE_DM, dm), 0);
}

/* The guest ends with all that it has imported, in use. */
static double seconds_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Many of them: the end of the guest looks once at each of the owner's windows, and not once for
 * each region. */
static void guest_leaves_many_windows_unbound(void **state)
{
    enum { WINDOWS = 16384 };
    struct mr_table *mrs = &owner->device->mrs;
    struct mem_region **window = calloc(WINDOWS, sizeof(*window));
    struct ctl_import got;
    double start;

    assert_int_equal(join(guest, key_of(owner)), 0);
    assert_int_equal(import(guest, CTL_IMPORT_PD, pd, 0, &got), 0);
    for (unsigned i = 0; i < WINDOWS; i++) {
        struct ctl_msg m = {.alloc_mw = {.pd = pd, .type = 1}};
        struct window_bind b = {
            .pd = pd, .va = KIT_BASE, .len = 64, .access = MEM_REMOTE_WRITE, .qpn = 5};

        assert_int_equal(call(owner, CTL_ALLOC_MW, &m), 0);
        b.window_key = m.alloc_mw.rkey;
        b.new_key = b.window_key + 1;
        m = (struct ctl_msg){.reg_mr = {.pd = got.handle,
                                        .access = MEM_LOCAL_WRITE | MEM_MW_BIND,
                                        .addr = KIT_BASE,
                                        .iova = KIT_BASE,
                                        .length = 64}};
        assert_int_equal(call(guest, CTL_REG_MR, &m), 0);
        b.region_key = m.reg_mr.rkey;
        assert_int_equal(window_bind(mrs, &b), MR_OK);
        window[i] = mr_lookup(mrs, b.new_key);
        assert_true(window[i]->bound);
    }
    start = seconds_now();
    session_close(guest);
    guest = NULL;
    assert_true(seconds_now() - start < 1);
    for (unsigned i = 0; i < WINDOWS; i++)
        assert_false(window[i]->bound);
    free(window);
}

/* A window of the owner, bound to a region of a guest in the same domain: it ends up bound to
 * nothing when the guest leaves with its region. */
static void guest_leaves_windows_unbound(void **state)
{
    const struct mr_table *mrs = &rnic->device[0]->mrs;
    struct ctl_msg m = {0};
    struct ctl_import i;
    struct window_bind b = {.va = KIT_BASE, .len = 64, .access = MEM_REMOTE_WRITE, .qpn = 5};
    struct mem_region *window;

    assert_int_equal(join(guest, key_of(owner)), 0);
    assert_int_equal(import(guest, CTL_IMPORT_PD, pd, 0, &i), 0);
    m.reg_mr = (struct ctl_reg_mr){.pd = i.handle,
                                   .access = MEM_LOCAL_WRITE | MEM_MW_BIND,
                                   .addr = KIT_BASE,
                                   .iova = KIT_BASE,
                                   .length = 64};
    assert_int_equal(call(guest, CTL_REG_MR, &m), 0);
    b.region_key = m.reg_mr.lkey;
    m = (struct ctl_msg){.alloc_mw = {.pd = pd, .type = 2}};
    assert_int_equal(call(owner, CTL_ALLOC_MW, &m), 0);
    b.window_key = m.alloc_mw.rkey;
    b.new_key = b.window_key + 1;
    b.pd = domain_of(b.region_key);
    assert_int_equal(window_bind(mrs, &b), MR_OK);
    window = mr_lookup(mrs, b.new_key);
    assert_true(window->bound);
    session_close(guest);
    guest = NULL;
    assert_false(window->bound);
    assert_null(window->parent);
}

/* Windows of other programs are left alone, also by the end of a session to whose regions windows
 * are bound: a worker may be changing one of them, and the control thread would wait. */
static void guest_leaves_windows_of_others(void **state)
{
    struct session *stranger = connect_session();
    struct ctl_msg m = {0};
    struct mem_region *window;

    assert_int_equal(call(stranger, CTL_OPEN, &m), 0);
    m = (struct ctl_msg){.alloc_mw = {.pd = alloc_pd(stranger), .type = 1}};
    assert_int_equal(call(stranger, CTL_ALLOC_MW, &m), 0);
    window = mr_lookup(&rnic->device[0]->mrs, m.alloc_mw.rkey);
    atomic_fetch_or(&window->gate, UINT32_C(1) << 31); /* as while it is being bound */
    alarm(20);
    guest_leaves_windows_unbound(state);
    alarm(0);
    atomic_fetch_and(&window->gate, ~(UINT32_C(1) << 31));
    session_close(stranger);
}

static void guest_leaves_nothing(void **state)
{
    struct ctl_import i;

    assert_int_equal(join(guest, key_of(owner)), 0);
    assert_true(session_is_joined(owner));
    assert_int_equal(import(guest, CTL_IMPORT_PD, pd, 0, &i), 0);
    register_in(guest, i.handle);
    assert_int_equal(import(guest, CTL_IMPORT_DM, dm, 0, &i), 0);
    session_close(guest);
    guest = NULL;
    assert_false(session_is_joined(owner));
    assert_int_equal(kit_call_handle(owner, CTL_DEREG_MR, mr), 0);
    assert_int_equal(kit_call_handle(owner, CTL_DEALLOC_PD, pd), 0);
    assert_int_equal(kit_call_handle(owner, CTL_FREE_DM, dm), 0);
}

/* By way of a guest a third one joins the owner. */
static void guests_of_guests(void **state)
{
    struct session *third = connect_session();
    struct ctl_import i;

    assert_int_equal(join(guest, key_of(owner)), 0);
    assert_int_equal(join(third, key_of(guest)), 0);
    assert_false(session_is_joined(guest));
    assert_int_equal(import(third, CTL_IMPORT_PD, pd, 0, &i), 0);
    session_close(guest);
    guest = NULL;
    assert_true(session_is_joined(owner));
    session_close(third);
    assert_false(session_is_joined(owner));
}

static int inherit(struct session *sn, const uint64_t key[2])
{
    struct ctl_msg m = {.open = {.join_key = {key[0], key[1]}}};

    return call(sn, CTL_INHERIT, &m);
}

static void set_forked(struct session *sn)
{
    atomic_store(&((struct ctx_shared *)sn->segment.base)->forked, 1);
}

/* Only a context that its process has left, and only one that may have a child. */
static void only_what_was_left(void **state)
{
    const uint64_t none[2] = {1, 2};

    assert_int_equal(inherit(guest, none), -EACCES);
    assert_int_equal(inherit(guest, key_of(owner)), -EAGAIN);
    assert_true(session_leave(owner) < 0);
    assert_int_equal(inherit(guest, key_of(owner)), -EAGAIN);
    set_forked(owner);
    assert_true(session_leave(owner) >= 0);
    assert_true(session_leave(guest) < 0);
    assert_int_equal(inherit(guest, key_of(owner)), 0);
    assert_ptr_equal(guest->inherits, owner);
}

static void only_of_the_same_user(void **state)
{
    struct session *other = session_create(rnic, &(struct ucred){.pid = getpid(), .uid = 12345});
    struct session *group = session_create(rnic, &(struct ucred){.pid = getpid(), .gid = 12345});
    struct ctl_msg m = {0};

    set_forked(owner);
    assert_true(session_leave(owner) >= 0);
    assert_int_equal(inherit(other, key_of(owner)), -EACCES);
    assert_int_equal(inherit(group, key_of(owner)), -EACCES);
    assert_int_equal(call(guest, CTL_OPEN, &m), 0);
    assert_int_equal(inherit(guest, key_of(owner)), -EBUSY);
    session_close(other);
    session_close(group);
}

/* Regions keep their keys, and are reached in the heir's memory. */
static void heir_has_the_regions(void **state)
{
    struct ctl_reg_mr reg = register_in(owner, pd);
    void *space;

    set_forked(owner);
    assert_true(session_leave(owner) >= 0);
    assert_true(owner->process_ended);
    assert_int_equal(inherit(guest, key_of(owner)), 0);
    space = guest->space;
    assert_ptr_not_equal(space, owner->space);
    session_inherit(owner, guest);
    assert_ptr_equal(owner->space, space);
    assert_ptr_equal(mr_lookup(&rnic->device[0]->mrs, reg.lkey)->space, space);
    assert_false(owner->process_ended);
    session_close(guest);
    guest = NULL;
    assert_int_equal(kit_call_handle(owner, CTL_DEREG_MR, reg.handle), 0);
}

static void use(struct session *sn, uint32_t key, unsigned times)
{
    struct mem_io io = {.mr = mr_lookup(&rnic->device[0]->mrs, key)};

    for (unsigned i = 0; i < times; i++)
        mem_heat_note(kit_provider.heat(sn->space), &io, 1);
}

/* A region became hot, and the parent ended before it asked: the child is told. */
static void heir_has_the_hot_regions(void **state)
{
    struct ctl_msg m = {.reg_mr = {.pd = pd,
                                   .access = READ_WRITE,
                                   .addr = KIT_BASE,
                                   .length = 64,
                                   .why = CTL_MR_COLD,
                                   .uidx = 77}};

    assert_int_equal(call(owner, CTL_REG_MR, &m), 0);
    use(owner, m.reg_mr.lkey, 1000);
    set_forked(owner);
    assert_true(session_leave(owner) >= 0);
    assert_int_equal(inherit(guest, key_of(owner)), 0);
    session_inherit(owner, guest);
    use(owner, m.reg_mr.lkey, 1000);
    assert_int_equal(call(owner, CTL_HOT_MRS, &m), 0);
    assert_int_equal(m.hot.count, 1);
    assert_int_equal(m.hot.uidx[0], 77);
}

/* Registers a page of the file, or more of it than there is; where it is mapped, an errand does it,
 * and the answer is -EINPROGRESS. */
static int register_file(struct session *sn, struct ctl_msg *m, int fd, bool again)
{
    struct ctl_call k = {.in_fd = &fd, .in_fds = 1, .again = again};
    int status = kit_call(sn, CTL_REG_MR, m, &k, false);

    if (!status)
        *m = k.reply;
    return status;
}

static int register_file_to_end(struct session *sn, struct ctl_msg *m, int fd, bool again)
{
    int status;

    while ((status = register_file(sn, m, fd, again)) == -EINPROGRESS) {
        again = true;
        event_loop_step(loop, 100);
    }
    return status;
}

/* The imported domain of a region ends while the region is being mapped: the guest does not want it
 * any more, and the owner deallocates its own. The mapping is not the next region's, which is
 * longer. */
static void domain_ends_while_memory_is_mapped(void **state)
{
    struct ctl_msg one = {.reg_mr = {.access = READ_WRITE, .addr = KIT_BASE, .length = 4096}}, more;
    int fd = memfd_create("kit", MFD_CLOEXEC), err;
    struct ctl_import i;

    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(join(guest, key_of(owner)), 0);
    more = one;
    more.reg_mr.pd = alloc_pd(guest);
    more.reg_mr.flags = CTL_MR_FD;
    more.reg_mr.length = 64 << 20;
    assert_int_equal(import(guest, CTL_IMPORT_PD, pd, 0, &i), 0);
    one.reg_mr.pd = i.handle;
    mr = register_in(guest, i.handle).handle;
    assert_int_equal(unimport(guest, CTL_IMPORT_PD, i.handle), 0);
    assert_int_equal(kit_destroy_handle(guest, CTL_DEREG_MR, mr), 0);
    rnic->errands = errands_create(loop, &err);
    one.reg_mr.flags = CTL_MR_FD;
    assert_int_equal(register_file(guest, &one, fd, false), -EINPROGRESS);
    assert_int_equal(kit_call_handle(owner, CTL_DEALLOC_PD, pd), -EBUSY); /* its own region */
    while (session_busy(guest))
        event_loop_step(loop, 100);
    assert_int_equal(register_file(guest, &one, fd, true), -EINVAL);
    assert_int_equal(guest->account.used[QUOTA_MAPPED], 0);
    assert_int_equal(register_file_to_end(guest, &more, fd, false), 0);
    assert_int_equal(more.reg_mr.mapped, 0);
    assert_int_equal(guest->account.used[QUOTA_MAPPED], 0);
    close(fd);
}

static unsigned unmapped;

static void forget_mapping(void *mapping, struct mem_region *r)
{
    r->direct = NULL;
}

static void unmap_file(void *mapping)
{
    munmap(mapping, 4096);
    unmapped++;
}

/* Where an errand unmaps a region, its end is answered after that; and a session that ends before
 * the answer unmaps nothing twice. */
static void region_is_unmapped_once(void **state)
{
    static struct mem_provider mem;
    int fd = memfd_create("kit", MFD_CLOEXEC), err;

    mem = kit_provider;
    mem.unmap = forget_mapping;
    mem.dispose = unmap_file;
    rnic->config.mem = &mem;
    rnic->errands = errands_create(loop, &err);
    assert_int_equal(ftruncate(fd, 4096), 0);
    unmapped = 0;
    for (unsigned round = 1; round <= 2; round++) {
        struct ctl_msg m = {.reg_mr = {.access = READ_WRITE,
                                       .addr = KIT_BASE,
                                       .length = 4096,
                                       .pd = pd,
                                       .flags = CTL_MR_FD}};

        assert_int_equal(register_file_to_end(owner, &m, fd, false), 0);
        assert_int_equal(m.reg_mr.mapped, 1);
        assert_int_equal(kit_call_handle(owner, CTL_DEREG_MR, m.reg_mr.handle), -EINPROGRESS);
        assert_int_equal(owner->account.used[QUOTA_MAPPED], 4096);
        while (session_busy(owner))
            event_loop_step(loop, 100);
        assert_int_equal(unmapped, round);
        if (round == 2)
            break;
        assert_int_equal(kit_call_handle(owner, CTL_DEREG_MR, m.reg_mr.handle), 0);
        assert_int_equal(owner->account.used[QUOTA_MAPPED], 0);
        assert_int_equal(kit_call_handle(owner, CTL_DEREG_MR, m.reg_mr.handle), -ENOENT);
    }
    session_close(owner);
    owner = NULL;
    assert_int_equal(unmapped, 2);
    close(fd);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(only_with_the_key),
        T(segment_does_not_decide),
        T(only_of_the_joined_session),
        T(domain_is_the_same),
        T(region_has_its_keys),
        T(domain_stays_while_it_is_imported),
        T(device_memory_is_the_same),
        T(domain_ends_while_memory_is_mapped),
        T(region_is_unmapped_once),
        T(guest_leaves_nothing),
        T(guest_leaves_windows_unbound),
        T(guest_leaves_windows_of_others),
        T(guest_leaves_many_windows_unbound),
        T(guests_of_guests),
        T(only_what_was_left),
        T(only_of_the_same_user),
        T(heir_has_the_regions),
        T(heir_has_the_hot_regions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
