/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port over UDP sockets: datagrams of any length and content, cut in any way, and frames that a
 * program with a raw queue pair makes up.
 *
 * Input: steps, each an opcode byte and its operands. DATAGRAM: length, segment's length (0: not
 * cut), both of two bytes, and as many bytes as there are. FRAME: a byte (whether it has an ICRC),
 * a length byte, and the bytes. RECEIVE: how many. All traffic stays on the loopback interface.
 */
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bytes.h"
#include "encap_layout.h"
#include "fuzz.h"
#include "socket.h"

#define MAX_STEPS 64

enum step { STEP_DATAGRAM, STEP_FRAME, STEP_RECEIVE, STEP_COUNT };

struct fuzz {
    const uint8_t *p;
    size_t left;
};

static struct pktio *port;
static int stranger;

static uint8_t u8(struct fuzz *f)
{
    if (!f->left)
        return 0;
    f->left--;
    return *f->p++;
}

static uint16_t u16(struct fuzz *f)
{
    uint8_t high = u8(f);

    return (uint16_t)(high << 8 | u8(f));
}

static size_t take(struct fuzz *f, uint8_t *to, size_t n)
{
    size_t have = min_of(n, f->left);

    memset(to, 0x5A, n);
    memcpy(to, f->p, have);
    f->p += have;
    f->left -= have;
    return have;
}

static void open_all(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4791)};
    struct pktio_socket_config c = {.addresses = 1};
    char error[256];

    /* Fuzzers that run at a time have an address each. */
    for (unsigned i = 1; i < 255 && !port; i++) {
        char text[32];

        snprintf(text, sizeof(text), "127.1.3.%u", i);
        REQUIRE(!gid_parse(&c.address[0], text));
        port = pktio_socket_open(&c, error, sizeof(error));
        inet_pton(AF_INET, text, &to.sin_addr);
    }
    REQUIRE(port);
    stranger = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    REQUIRE(!connect(stranger, (struct sockaddr *)&to, sizeof(to)));
}

static void datagram(struct fuzz *f)
{
    static uint8_t bytes[65536];
    uint16_t len = u16(f), segment = u16(f);
    uint8_t control[CMSG_SPACE(sizeof(segment))] __attribute__((aligned(8))) = {0};
    struct iovec part = {bytes, len};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    struct cmsghdr *c = (struct cmsghdr *)control;

    take(f, bytes, len);
    if (segment) {
        m.msg_control = control;
        m.msg_controllen = sizeof(control);
        *c = (struct cmsghdr){.cmsg_level = IPPROTO_UDP,
                              .cmsg_type = UDP_SEGMENT,
                              .cmsg_len = CMSG_LEN(sizeof(segment))};
        memcpy(CMSG_DATA(c), &segment, sizeof(segment));
    }
    (void)!sendmsg(stranger, &m, 0);
}

/* Whatever the destination was: this host. */
static void keep_at_home(uint8_t *frame, uint32_t len)
{
    static const uint8_t ipv4[4] = {127, 1, 2, 250}, ipv6[16] = {[15] = 1};

    if (len >= ETH_LEN + IPV6_LEN && get_be16(frame + 12) != ETHERTYPE_IPV4)
        memcpy(frame + ETH_LEN + 24, ipv6, sizeof(ipv6));
    else if (len >= ETH_LEN + IPV4_LEN)
        memcpy(frame + ETH_LEN + 16, ipv4, sizeof(ipv4));
}

static void send_frames(struct fuzz *f)
{
    uint8_t how = u8(f), len = u8(f);
    unsigned copies = 1 + how / 2 % 8;
    struct frame frame[FRAME_BURST];
    unsigned n = port->ops->tx_lend(port, 0, frame, copies);
    uint8_t bytes[256];

    take(f, bytes, len);
    for (unsigned i = 0; i < n; i++) {
        frame[i].len = max_of(len, 60);
        memset(frame[i].data, 0, 64);
        memcpy(frame[i].data, bytes, len);
        keep_at_home(frame[i].data, frame[i].len);
        frame[i].icrc_omitted = how & 1;
    }
    port->ops->tx_burst(port, 0, frame, n, n);
}

static unsigned receive(unsigned n)
{
    struct frame frame[FRAME_BURST];
    unsigned count = port->ops->rx_burst(port, 0, frame, min_of(n, FRAME_BURST));
    volatile uint8_t sum = 0;

    REQUIRE(count <= n);
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(frame[i].len >= ETH_LEN && frame[i].len <= 4352);
        for (uint32_t k = 0; k < frame[i].len; k++)
            sum = (uint8_t)(sum + frame[i].data[k]);
    }
    port->ops->rx_release(port, 0, frame, count);
    return count;
}

/* All slots are free again, as what is lent shows: half of them may be lent. */
static void all_returned(void)
{
    static struct frame frame[FRAME_BURST];
    unsigned total = 0, n;

    while (receive(FRAME_BURST))
        ;
    do {
        n = port->ops->tx_lend(port, 0, frame, FRAME_BURST);
        total += n;
        port->ops->tx_burst(port, 0, frame, n, 0);
    } while (n && total < FRAME_BURST);
    REQUIRE(total >= FRAME_BURST);
    REQUIRE(port->ops->wake_arm(port, 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {data, size};

    if (!port)
        open_all();
    for (unsigned i = 0; i < MAX_STEPS && f.left; i++) {
        switch (u8(&f) % STEP_COUNT) {
        case STEP_DATAGRAM:
            datagram(&f);
            break;
        case STEP_FRAME:
            send_frames(&f);
            break;
        case STEP_RECEIVE:
            receive(u8(&f) % (FRAME_BURST + 1));
            break;
        }
    }
    all_returned();
    return 0;
}
