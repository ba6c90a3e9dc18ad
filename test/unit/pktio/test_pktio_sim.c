/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "frame_layout.h"
#include "sim.h"

static struct pktio *end[2];

static void open_pair(struct pktio_sim_config config)
{
    for (unsigned i = 0; i < 2; i++)
        memcpy(config.mac[i], (uint8_t[6]){2, 0, 0, 0, 0, (uint8_t)(1 + i)}, 6);
    assert_int_equal(pktio_sim_pair(end, &config), 0);
}

static void close_pair(void)
{
    end[0]->ops->close(end[0]);
    end[1]->ops->close(end[1]);
}

/* A frame of 64 bytes to the other end (or to itself) that carries a number. */
static bool send_number(struct pktio *io, uint32_t number, uint8_t to)
{
    struct frame f;

    if (!io->ops->tx_lend(io, 0, &f, 1))
        return false;
    memset(f.data, 0, 64);
    f.data[0] = 2;
    f.data[5] = to;
    memcpy(f.data + ETH_LEN, &number, sizeof(number));
    f.len = 64;
    io->ops->tx_burst(io, 0, &f, 1, 1);
    return true;
}

/* Receives all waiting frames; returns their count, their numbers in out. */
static unsigned receive_all(struct pktio *io, uint32_t *out)
{
    struct frame f[FRAME_BURST];
    unsigned n, total = 0;

    while ((n = io->ops->rx_burst(io, 0, f, FRAME_BURST))) {
        for (unsigned i = 0; i < n; i++, total++) {
            if (f[i].len == 64)
                memcpy(&out[total], f[i].data + ETH_LEN, sizeof(*out));
        }
        io->ops->rx_release(io, 0, f, n);
    }
    return total;
}

static void test_lossless(void **state)
{
    static uint32_t got[1000];
    struct pktio_info info;

    open_pair((struct pktio_sim_config){.slots = 7});
    end[1]->ops->info(end[1], &info);
    assert_int_equal(info.mac[5], 2);
    assert_true(info.link_up);
    assert_true(info.mtu >= 4096 + 95);
    for (uint32_t i = 0, taken = 0; i < 1000; i++) {
        assert_true(send_number(end[0], i, 2));
        if (i % 7 < 6)
            continue;
        /* Full: one direction, not the other. */
        assert_false(send_number(end[0], 0, 2));
        assert_true(send_number(end[1], 5, 1));
        assert_int_equal(receive_all(end[0], got), 1);
        assert_int_equal(receive_all(end[1], got), 7);
        for (unsigned k = 0; k < 7; k++)
            assert_int_equal(got[k], taken++);
    }
    assert_int_equal(counter_get(&pktio_sim_stats(end[0])->sent), 1000);
    assert_int_equal(counter_get(&pktio_sim_stats(end[0])->full), 142);
    close_pair();
}

static void test_own_mac(void **state)
{
    uint32_t got[2];

    open_pair((struct pktio_sim_config){.drop = 1000, .slots = 2});
    for (unsigned i = 0; i < 10; i++) {
        assert_true(send_number(end[0], i, 1));
        assert_true(send_number(end[0], 99, 2));
        assert_false(end[0]->ops->wake_arm(end[0], 0));
        assert_int_equal(receive_all(end[0], got), 1);
        assert_int_equal(got[0], i);
        assert_int_equal(receive_all(end[1], got), 0);
    }
    assert_int_equal(counter_get(&end[0]->ops->counters(end[0], 0)->local), 10);
    assert_int_equal(counter_get(&pktio_sim_stats(end[0])->dropped), 10);
    close_pair();
}

struct outcome {
    uint32_t got[4096];
    unsigned count, out_of_order, twice;
};

static void run_lossy(uint64_t seed, struct outcome *o)
{
    unsigned seen[1000] = {0};

    *o = (struct outcome){0};
    open_pair((struct pktio_sim_config){
        .seed = seed, .drop = 100, .duplicate = 100, .reorder = 100, .slots = 32});
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(send_number(end[0], i, 2));
        o->count += receive_all(end[1], o->got + o->count);
    }
    end[0]->ops->wake_arm(end[0], 0);
    o->count += receive_all(end[1], o->got + o->count);
    for (unsigned i = 0; i < o->count; i++) {
        assert_in_range(o->got[i], 0, 999);
        o->twice += seen[o->got[i]]++;
        o->out_of_order += i && o->got[i] < o->got[i - 1];
    }
}

/* Every frame sent is accounted for, no slot is lost, and the seed decides the outcome. */
static void test_chances(void **state)
{
    static struct outcome a, b, c;
    const struct pktio_sim_stats *s;
    struct frame f[33];

    run_lossy(1, &a);
    s = pktio_sim_stats(end[0]);
    assert_int_equal(a.count, 1000 - counter_get(&s->dropped) + counter_get(&s->duplicated));
    assert_int_equal(a.twice, counter_get(&s->duplicated));
    assert_in_range(counter_get(&s->dropped), 60, 140);
    assert_in_range(counter_get(&s->duplicated), 60, 140);
    assert_in_range(counter_get(&s->reordered), 60, 140);
    assert_in_range(a.out_of_order, 60, 140);
    assert_int_equal(end[0]->ops->tx_lend(end[0], 0, f, 33), 32);
    end[0]->ops->tx_burst(end[0], 0, f, 32, 0);
    close_pair();
    run_lossy(1, &b);
    close_pair();
    assert_memory_equal(&a, &b, sizeof(a));
    run_lossy(2, &c);
    close_pair();
    assert_memory_not_equal(&a, &c, sizeof(a));
}

/* Delayed frames do not block a full port. */
static void test_all_held(void **state)
{
    uint32_t got[4];

    open_pair((struct pktio_sim_config){.reorder = 1000, .slots = 4});
    for (unsigned i = 0; i < 4; i++)
        assert_true(send_number(end[0], i, 2));
    assert_int_equal(receive_all(end[1], got), 0);
    assert_false(send_number(end[0], 4, 2));
    assert_int_equal(receive_all(end[1], got), 4);
    assert_true(send_number(end[0], 4, 2));
    close_pair();
}

static void test_corruption(void **state)
{
    static const uint8_t good[64] = {2, 0, 0, 0, 0, 2};
    struct frame f;
    unsigned cut = 0;

    open_pair((struct pktio_sim_config){.corrupt = 1000});
    for (unsigned i = 0; i < 500; i++) {
        assert_true(send_number(end[0], 0, 2));
        assert_int_equal(end[1]->ops->rx_burst(end[1], 0, &f, 1), 1);
        assert_true(f.len < 64 || memcmp(f.data, good, 64));
        cut += f.len < 64;
        end[1]->ops->rx_release(end[1], 0, &f, 1);
    }
    assert_in_range(cut, 50, 250);
    assert_int_equal(counter_get(&pktio_sim_stats(end[0])->corrupted), 500);
    close_pair();
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void test_waking(void **state)
{
    int fd;
    uint32_t got[4];

    open_pair((struct pktio_sim_config){0});
    fd = end[1]->ops->wake_fd(end[1], 0);
    assert_true(send_number(end[0], 0, 2));
    assert_false(readable(fd));
    assert_false(end[1]->ops->wake_arm(end[1], 0));
    receive_all(end[1], got);
    assert_true(end[1]->ops->wake_arm(end[1], 0));
    assert_false(readable(fd));
    assert_true(send_number(end[0], 0, 2));
    assert_true(readable(fd));
    receive_all(end[1], got);
    assert_true(end[1]->ops->wake_arm(end[1], 0));
    assert_false(readable(fd));
    close_pair();
}

static void test_bad_configurations(void **state)
{
    static const struct pktio_sim_config bad[] = {
        {.drop = 1001},
        {.drop = 500, .corrupt = 501},
        {.duplicate = UINT32_MAX, .reorder = 2},
        {.slots = SIM_SLOTS_MAX + 1},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(pktio_sim_pair(end, &bad[i]), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lossless),
        cmocka_unit_test(test_own_mac),
        cmocka_unit_test(test_chances),
        cmocka_unit_test(test_all_held),
        cmocka_unit_test(test_corruption),
        cmocka_unit_test(test_waking),
        cmocka_unit_test(test_bad_configurations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
