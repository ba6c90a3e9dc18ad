/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue of the port over packet sockets: frames of any content, with anything that a peer or the
 * kernel may say of them, and frames of engines and of programs with raw queue pairs.
 *
 * Input: steps, each an opcode byte and its operands. FRAME: the kind of segmentation, flags, and
 * with two bytes each the segment's length, the checksum's start and place, and the frame's length;
 * then its bytes. SEND: a byte (how many copies, and whether each counts its identification on), a
 * length byte, and the bytes. RECEIVE: how many. A pair of unix sockets stands for the kernel.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bytes.h"
#include "fuzz.h"
#include "fuzz_input.h"
#include "packet_internal.h"

#define MAX_STEPS 64
#define ROOM      1536

enum step { STEP_FRAME, STEP_SEND, STEP_RECEIVE, STEP_COUNT };

static struct packet_queue queue;
static int wire;

static void open_all(void)
{
    int fd[2], bytes = 1 << 20;

    REQUIRE(!socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fd));
    for (unsigned i = 0; i < 2; i++)
        setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    queue.fd = fd[0];
    wire = fd[1];
    queue.mtu = ROOM;
    REQUIRE(!frame_slots_init(&queue.slots, ROOM));
    REQUIRE(!packet_rx_init(&queue));
}

static uint16_t take16(struct input *in)
{
    uint8_t high = take(in);

    return (uint16_t)(high << 8 | take(in));
}

static void arrive(struct input *in)
{
    static uint8_t bytes[sizeof(struct virtio_net_hdr) + 65536];
    struct virtio_net_hdr head = {.gso_type = take(in), .flags = take(in)};
    uint16_t len;

    head.gso_size = take16(in);
    head.csum_start = take16(in);
    head.csum_offset = take16(in);
    len = take16(in);
    memcpy(bytes, &head, sizeof(head));
    memset(bytes + sizeof(head), 0x5A, len);
    take_bytes(in, bytes + sizeof(head), len);
    (void)!send(wire, bytes, sizeof(head) + len, MSG_DONTWAIT);
}

static void drain(void)
{
    static uint8_t bytes[sizeof(struct virtio_net_hdr) + 65536];

    while (recv(wire, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

/* The packets that a program makes, one after the other. */
static void leave(struct input *in)
{
    uint8_t how = take(in), len = take(in), bytes[256] = {0};
    struct frame f[FRAME_BURST];
    unsigned n;

    queue.more = false;
    packet_tx_flush(&queue);
    if (queue.groups)
        drain();
    packet_tx_flush(&queue);
    REQUIRE(!queue.groups);
    take_bytes(in, bytes, len);
    n = frame_slots_lend(&queue.slots, f, 1 + how / 2 % FRAME_BURST, false);
    for (unsigned i = 0; i < n; i++) {
        f[i].len = max_of(len, 60);
        memcpy(f[i].data, bytes, f[i].len);
        if (how & 1)
            put_be16(f[i].data + 18, (uint16_t)(get_be16(bytes + 18) + i));
        packet_tx_add(&queue, frame_slots_note(&queue.slots, &f[i]));
    }
    queue.more = how >> 7;
    packet_tx_flush(&queue);
    drain();
}

static unsigned receive(unsigned n)
{
    struct frame f[FRAME_BURST];
    unsigned count = packet_rx_take(&queue, f, min_of(n, FRAME_BURST));
    volatile uint8_t sum = 0;

    REQUIRE(count <= n);
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(f[i].len >= ETH_LEN && f[i].len <= ROOM);
        for (uint32_t k = 0; k < f[i].len; k++)
            sum = (uint8_t)(sum + f[i].data[k]);
    }
    frame_slots_release(&queue.slots, f, count);
    return count;
}

/* All slots are free again, but those that wait for the next frames. */
static void all_returned(void)
{
    do {
        receive(FRAME_BURST);
    } while (queue.rx.count);
    queue.more = false;
    packet_tx_flush(&queue);
    REQUIRE(!queue.groups);
    REQUIRE(queue.slots.free_count + queue.rx.armed == FRAME_SLOTS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    if (!queue.slots.memory)
        open_all();
    for (unsigned i = 0; i < MAX_STEPS && in.left; i++) {
        switch (take(&in) % STEP_COUNT) {
        case STEP_FRAME:
            arrive(&in);
            break;
        case STEP_SEND:
            leave(&in);
            break;
        case STEP_RECEIVE:
            receive(take(&in));
            break;
        }
    }
    all_returned();
    return 0;
}
