/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "loop.h"

static struct pktio *io;

static int setup(void **state)
{
    struct pktio_loop_config config = {
        .name = "loop", .mac = {2, 0, 0, 0, 0, 9}, .queues = 2, .netdev = "lo", .ifindex = 1};

    io = pktio_loop_create(&config);
    return !io;
}

static int teardown(void **state)
{
    io->ops->close(io);
    return 0;
}

static void send_bytes(unsigned queue, const char *text)
{
    struct frame f;

    assert_int_equal(io->ops->tx_lend(io, queue, &f, 1), 1);
    strcpy((char *)f.data, text);
    f.len = (uint32_t)strlen(text) + 1;
    io->ops->tx_burst(io, queue, &f, 1, 1);
}

static void test_info(void **state)
{
    struct pktio_info info;

    io->ops->info(io, &info);
    assert_int_equal(info.mac[5], 9);
    assert_true(info.link_up);
    assert_true(info.mtu >= 4096 + 95);
    assert_string_equal(info.netdev, "lo");
    assert_int_equal(io->ops->wake_fd(io, 0), PKTIO_WAKE_NEVER);
}

static void test_frames_come_back_in_order(void **state)
{
    struct frame f[FRAME_BURST];

    assert_true(io->ops->wake_arm(io, 0));
    send_bytes(0, "one");
    send_bytes(0, "two");
    send_bytes(1, "other queue");
    assert_false(io->ops->wake_arm(io, 0));
    assert_int_equal(io->ops->rx_burst(io, 0, f, FRAME_BURST), 2);
    assert_string_equal((char *)f[0].data, "one");
    assert_string_equal((char *)f[1].data, "two");
    assert_int_equal(f[1].len, 4);
    io->ops->rx_release(io, 0, f, 2);
    assert_int_equal(io->ops->rx_burst(io, 1, f, FRAME_BURST), 1);
    assert_string_equal((char *)f[0].data, "other queue");
    io->ops->rx_release(io, 1, f, 1);
    assert_true(io->ops->wake_arm(io, 0));
    assert_int_equal(counter_get(&io->ops->counters(io, 0)->local), 2);
}

/* Every slot can be lent, and no more; unused ones return; none is lost over many rounds. */
static void test_slots(void **state)
{
    struct frame f[LOOP_SLOTS + 1];

    for (unsigned round = 0; round < 5; round++) {
        unsigned received = 0;

        assert_int_equal(io->ops->tx_lend(io, 0, f, LOOP_SLOTS + 1), LOOP_SLOTS);
        for (unsigned i = 0; i < LOOP_SLOTS; i++) {
            assert_int_equal(f[i].room, LOOP_ROOM);
            memset(f[i].data, (int)i, f[i].room);
            f[i].len = i;
        }
        assert_int_equal(io->ops->tx_lend(io, 0, f + LOOP_SLOTS, 1), 0);
        io->ops->tx_burst(io, 0, f, LOOP_SLOTS, LOOP_SLOTS - 10 * round);
        while (received < LOOP_SLOTS - 10 * round) {
            unsigned n = io->ops->rx_burst(io, 0, f, 7);

            for (unsigned i = 0; i < n; i++) {
                assert_int_equal(f[i].len, received++);
                assert_int_equal(f[i].data[LOOP_ROOM - 1], (uint8_t)f[i].len);
            }
            io->ops->rx_release(io, 0, f, n);
        }
        assert_int_equal(io->ops->rx_burst(io, 0, f, 7), 0);
    }
}

/* The flags of a lent frame reach its receiver, unless the sender changes them. */
static void test_inside(void **state)
{
    struct pktio_loop_config config = {.name = "inside", .queues = 1, .omit_icrc = true};
    struct pktio *inside = pktio_loop_create(&config);
    struct pktio_info info;
    struct frame f[2];

    assert_non_null(inside);
    inside->ops->info(inside, &info);
    assert_true(info.no_icrc);
    assert_int_equal(inside->ops->tx_lend(inside, 0, f, 2), 2);
    assert_true(f[0].icrc_omitted && f[1].icrc_omitted);
    f[0].icrc_omitted = false;
    f[0].len = f[1].len = 60;
    inside->ops->tx_burst(inside, 0, f, 2, 2);
    assert_int_equal(inside->ops->rx_burst(inside, 0, f, 2), 2);
    assert_true(!f[0].icrc_omitted && f[1].icrc_omitted);
    inside->ops->rx_release(inside, 0, f, 2);
    inside->ops->close(inside);

    io->ops->info(io, &info);
    assert_false(info.no_icrc);
    assert_int_equal(io->ops->tx_lend(io, 0, f, 1), 1);
    assert_false(f[0].icrc_omitted);
    io->ops->tx_burst(io, 0, f, 1, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_info), T(test_frames_come_back_in_order),
                                       T(test_slots), T(test_inside)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
