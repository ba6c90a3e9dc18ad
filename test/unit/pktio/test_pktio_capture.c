/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "loop.h"
#include "sim.h"

static char file[] = "/tmp/uroce-capture.XXXXXX";

static unsigned ends;
static int end_error;
static uint64_t end_frames;

static void note_end(void *arg, int err, uint64_t frames)
{
    assert_ptr_equal(arg, file);
    ends++;
    end_error = err;
    end_frames = frames;
}

static struct pktio *wrap(struct pktio *io, uint64_t frames)
{
    struct pktio_capture_config config = {
        .file = file, .frames = frames, .ended = note_end, .arg = file};
    char error[256];
    struct pktio *outer = pktio_capture_open(io, &config, error, sizeof(error));

    assert_non_null(outer);
    return outer;
}

static void send_bytes(struct pktio *io, const uint8_t to[6], const uint8_t from[6], uint32_t len)
{
    struct frame f;

    assert_int_equal(io->ops->tx_lend(io, 0, &f, 1), 1);
    memset(f.data, (int)len, len);
    memcpy(f.data, to, 6);
    memcpy(f.data + 6, from, 6);
    f.len = len;
    io->ops->tx_burst(io, 0, &f, 1, 1);
}

static unsigned receive_all(struct pktio *io)
{
    struct frame f[FRAME_BURST];
    unsigned n = io->ops->rx_burst(io, 0, f, FRAME_BURST);

    io->ops->rx_release(io, 0, f, n);
    return n;
}

static bool whole; /* the file ends with a frame */

/* The lengths of the frames in the readable part of the file. */
static unsigned read_file(uint32_t *len, unsigned room)
{
    char error[PCAP_ERRBUF_SIZE];
    pcap_t *p = pcap_open_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, error);
    struct pcap_pkthdr *header;
    struct timespec now;
    const u_char *data;
    unsigned n = 0;
    int got;

    assert_non_null(p);
    clock_gettime(CLOCK_REALTIME, &now);
    while ((got = pcap_next_ex(p, &header, &data)) == 1) {
        assert_true(n < room);
        assert_int_equal(header->caplen, header->len);
        assert_int_equal(data[header->len - 1], (uint8_t)header->len);
        assert_true(header->ts.tv_usec < 1000000000);
        assert_true(header->ts.tv_sec <= now.tv_sec && header->ts.tv_sec > now.tv_sec - 60);
        len[n++] = header->len;
    }
    whole = got == PCAP_ERROR_BREAK;
    pcap_close(p);
    return n;
}

static const uint8_t mac[2][6] = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}};

static void test_both_directions(void **state)
{
    struct pktio_sim_config config = {0};
    struct pktio *end[2], *io;
    uint32_t len[8];

    memcpy(config.mac, mac, sizeof(mac));
    assert_int_equal(pktio_sim_pair(end, &config), 0);
    io = wrap(end[0], 0);
    send_bytes(io, mac[1], mac[0], 60);
    send_bytes(end[1], mac[0], mac[1], 1000);
    send_bytes(end[1], mac[0], mac[1], 4200);
    assert_int_equal(receive_all(io), 2);
    assert_int_equal(receive_all(end[1]), 1);
    /* An idle port leaves a complete file. */
    assert_true(io->ops->wake_arm(io, 0));
    assert_int_equal(read_file(len, 8), 3);
    assert_int_equal(len[0], 60);
    assert_int_equal(len[1], 1000);
    assert_int_equal(len[2], 4200);
    send_bytes(io, mac[1], mac[0], 61);
    io->ops->close(io);
    end[1]->ops->close(end[1]);
    assert_int_equal(read_file(len, 8), 4);
    assert_int_equal(len[3], 61);
}

static struct pktio *open_loop(void)
{
    struct pktio_loop_config config = {.name = "loop", .mac = {2, 0, 0, 0, 0, 1}, .queues = 1};

    return pktio_loop_create(&config);
}

static off_t file_bytes(void)
{
    struct stat st;

    assert_int_equal(stat(file, &st), 0);
    return st.st_size;
}

/* A worker that polls and never sleeps leaves a complete file after some time. */
static void test_without_sleep(void **state)
{
    struct pktio *io = wrap(open_loop(), 0);
    off_t header = file_bytes();
    uint32_t len[8];

    send_bytes(io, mac[0], mac[0], 100);
    assert_int_equal(receive_all(io), 1);
    for (time_t end = time(NULL) + 60; file_bytes() == header && time(NULL) < end;)
        assert_int_equal(receive_all(io), 0);
    assert_int_equal(read_file(len, 8), 1);
    io->ops->close(io);
}

static void test_own_frames_are_written_once(void **state)
{
    struct pktio *io = wrap(open_loop(), 0);
    uint32_t len[8];

    send_bytes(io, mac[0], mac[0], 100);
    assert_int_equal(receive_all(io), 1);
    io->ops->close(io);
    assert_int_equal(read_file(len, 8), 1);
}

static void check_mode(void)
{
    struct pktio *io = wrap(open_loop(), 0);
    struct stat st;

    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    io->ops->close(io);
}

/* A new file, and one of an earlier capture that others could read. */
static void test_no_other_user_reads(void **state)
{
    mode_t mask = umask(0);

    assert_int_equal(unlink(file), 0);
    check_mode();
    assert_int_equal(chmod(file, 0644), 0);
    check_mode();
    umask(mask);
}

static void test_limit(void **state)
{
    struct pktio *io = wrap(open_loop(), 5);
    uint32_t len[8];

    for (uint32_t i = 0; i < 20; i++)
        send_bytes(io, mac[0], mac[0], 100 + i);
    /* The file is full, as it was to be; the port continues. */
    assert_int_equal(read_file(len, 8), 5);
    assert_int_equal(len[4], 104);
    assert_int_equal(receive_all(io), 20);
    io->ops->close(io);
    assert_int_equal(read_file(len, 8), 5);
    assert_int_equal(ends, 0);
}

/* What stdio still has finds no room when the port closes. */
static void test_no_room_at_the_end(void **state)
{
    struct rlimit before, limit;
    struct pktio *io;
    uint32_t len[8];

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    io = wrap(open_loop(), 0);
    ends = 0;
    send_bytes(io, mac[0], mac[0], 100);
    send_bytes(io, mac[0], mac[0], 101);
    assert_int_equal(receive_all(io), 2);
    limit = (struct rlimit){.rlim_cur = 200, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    io->ops->close(io);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(read_file(len, 8), 1);
    assert_true(whole);
    assert_int_equal(ends, 1);
    assert_int_equal(end_frames, 1);
}

static void test_it_is_the_port_below(void **state)
{
    struct pktio *inner = open_loop(), *io = wrap(inner, 0);
    struct pktio_info info;

    io->ops->info(io, &info);
    assert_string_equal(info.name, "loop");
    assert_string_equal(io->ops->driver, "loop");
    assert_int_equal(io->ops->wake_fd(io, 0), PKTIO_WAKE_NEVER);
    assert_ptr_equal(io->ops->counters(io, 0), inner->ops->counters(inner, 0));
    assert_null(io->ops->link_fd);
    send_bytes(io, mac[0], mac[0], 100);
    assert_false(io->ops->wake_arm(io, 0));
    assert_int_equal(receive_all(io), 1);
    io->ops->close(io);
}

static void test_no_place_for_the_file(void **state)
{
    struct pktio_capture_config config = {.file = "/nosuch/dir/x.pcap"};
    struct pktio *io = open_loop();
    char error[256];

    assert_null(pktio_capture_open(io, &config, error, sizeof(error)));
    assert_non_null(strstr(error, "/nosuch/dir/x.pcap: No such file"));
    io->ops->close(io);
}

/* A second daemon with the same configuration, or a second port, leaves the capture as it is, also
 * when that has all of its frames. */
static void test_file_of_another_port(void **state)
{
    struct pktio_capture_config config = {.file = file};
    struct pktio *io = open_loop(), *outer = wrap(open_loop(), 2);
    char error[256];
    uint32_t len[8];

    for (unsigned i = 0; i < 2; i++) {
        send_bytes(outer, mac[0], mac[0], 100);
        assert_null(pktio_capture_open(io, &config, error, sizeof(error)));
        assert_non_null(strstr(error, "another port's capture"));
    }
    assert_int_equal(read_file(len, ARRAY_SIZE(len)), 2);
    assert_true(whole);
    outer->ops->close(outer);
    outer = wrap(io, 0);
    outer->ops->close(outer);
    assert_int_equal(read_file(len, ARRAY_SIZE(len)), 0);
}

/* The capture ends; the port continues. */
static void test_full_disk(void **state)
{
    struct pktio_capture_config config = {.file = "/dev/full", .ended = note_end, .arg = file};
    struct pktio *io = open_loop(), *outer;
    char error[256];

    ends = 0;
    outer = pktio_capture_open(io, &config, error, sizeof(error));
    assert_non_null(outer);
    assert_int_equal(ends, 1);
    assert_int_equal(end_error, ENOSPC);
    assert_int_equal(end_frames, 0);
    for (unsigned i = 0; i < 100; i++) {
        send_bytes(outer, mac[0], mac[0], 1000);
        assert_int_equal(receive_all(outer), 1);
        assert_true(outer->ops->wake_arm(outer, 0));
    }
    outer->ops->close(outer);
    assert_int_equal(ends, 1);
}

/* There is no room for all of a frame: the file ends with the one before. */
static void test_no_room_for_a_frame(void **state)
{
    struct rlimit before, limit;
    uint32_t len[100];

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (unsigned bytes = 3000; bytes < 30000; bytes += 1777) {
        struct pktio *io = open_loop(), *outer = wrap(io, 0);
        unsigned n;

        ends = 0;
        limit = (struct rlimit){.rlim_cur = bytes, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        for (unsigned i = 0; i < 60; i++) {
            send_bytes(outer, mac[0], mac[0], i % 3 ? 1000 : 60);
            assert_int_equal(receive_all(outer), 1);
            if (i % 5 == 0)
                assert_true(outer->ops->wake_arm(outer, 0));
        }
        outer->ops->close(outer);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        n = read_file(len, ARRAY_SIZE(len));
        assert_true(whole);
        assert_in_range(n, 1, 59);
        assert_int_equal(ends, 1);
        assert_int_equal(end_error, EFBIG);
        assert_int_equal(end_frames, n);
        assert_true(file_bytes() > bytes - 1100);
    }
}

/* The reader of a pipe stops: the port continues. */
static void test_reader_that_stops(void **state)
{
    struct pktio *io = open_loop(), *outer;
    int reader;

    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0600), 0);
    reader = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    ends = 0;
    alarm(20); /* a write that blocks would do so for ever */
    outer = wrap(io, 0);
    for (unsigned i = 0; i < 2000; i++) {
        send_bytes(outer, mac[0], mac[0], 1000);
        assert_int_equal(receive_all(outer), 1);
    }
    alarm(0);
    assert_int_equal(ends, 1);
    assert_int_equal(end_error, EAGAIN);
    outer->ops->close(outer);
    close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_directions),
        cmocka_unit_test(test_without_sleep),
        cmocka_unit_test(test_own_frames_are_written_once),
        cmocka_unit_test(test_no_other_user_reads),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_it_is_the_port_below),
        cmocka_unit_test(test_no_place_for_the_file),
        cmocka_unit_test(test_file_of_another_port),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_no_room_for_a_frame),
        cmocka_unit_test(test_no_room_at_the_end),
        cmocka_unit_test(test_reader_that_stops),
    };
    int fd = mkstemp(file), failed;

    if (fd < 0)
        return EXIT_FAILURE;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(file);
    return failed;
}
