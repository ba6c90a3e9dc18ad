/* SPDX-License-Identifier: BSD-3-Clause */
#include "rs_wire.h"

#include <errno.h>
#include <string.h>

#include "bytes.h"

#define HELLO_VERSION    1
#define HELLO_BIG_ENDIAN 0x01
#define HELLO_IOMAP      0x02
#define HELLO_BUFFERS    2 /* entries of the table: one is filled while the other one is read */

#define UDP_TAG           0x55555555
#define UDP_V4_SIZE       16
#define UDP_V6_SIZE       28
#define UD_V4_SIZE        8
#define UD_V6_SIZE        24
#define QPN_MASK          0xffffff
#define SCALE_BIT         0x80 /* of the hello's number of iomap entries: the other bits count 256 each */
#define SCALE_SHIFT       8
#define SCALE_ENTRIES_MAX (0x7fu << SCALE_SHIFT)

bool rs_host_big_endian(void)
{
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
}

void rs_buffer_to_peer(struct rs_buffer *b, bool big_endian)
{
    if (big_endian == rs_host_big_endian())
        return;
    b->addr = __builtin_bswap64(b->addr);
    b->key = __builtin_bswap32(b->key);
    b->length = __builtin_bswap32(b->length);
}

void rs_iomap_to_peer(struct rs_iomap *m, bool big_endian)
{
    if (big_endian != rs_host_big_endian())
        m->offset = __builtin_bswap64(m->offset);
    rs_buffer_to_peer(&m->buffer, big_endian);
}

/* ---- the hello ---- */

static uint8_t entries_to_scale(uint32_t n)
{
    return (uint8_t)(n <= SCALE_BIT ? n : SCALE_BIT | n >> SCALE_SHIFT);
}

static uint32_t entries_of_scale(uint8_t scale)
{
    return scale <= SCALE_BIT ? scale : (uint32_t)(scale & ~SCALE_BIT) << SCALE_SHIFT;
}

uint32_t rs_iomap_entries_round(uint32_t n)
{
    if (n > SCALE_BIT && n < 1u << SCALE_SHIFT)
        return SCALE_BIT;
    return entries_of_scale(entries_to_scale(n < SCALE_ENTRIES_MAX ? n : SCALE_ENTRIES_MAX));
}

static void put_buffer(uint8_t *to, const struct rs_buffer *b)
{
    put_be64(to, b->addr);
    put_be32(to + 8, b->key);
    put_be32(to + 12, b->length);
}

static struct rs_buffer get_buffer(const uint8_t *from)
{
    return (struct rs_buffer){get_be64(from), get_be32(from + 8), get_be32(from + 12)};
}

void rs_hello_write(uint8_t *to, const struct rs_hello *h)
{
    memset(to, 0, RS_HELLO_SIZE);
    to[0] = HELLO_VERSION;
    to[1] = (uint8_t)(HELLO_IOMAP | (h->big_endian ? HELLO_BIG_ENDIAN : 0));
    put_be16(to + 2, h->credits);
    to[7] = entries_to_scale(h->iomap_entries);
    put_buffer(to + 8, &h->table);
    put_buffer(to + 24, &h->buffer);
}

int rs_hello_read(struct rs_hello *h, const void *from, size_t length)
{
    const uint8_t *p = from;

    if (!p || length < RS_HELLO_SIZE || p[0] != HELLO_VERSION)
        return -EPROTO;
    h->big_endian = p[1] & HELLO_BIG_ENDIAN;
    h->credits = get_be16(p + 2);
    h->iomap_entries = p[1] & HELLO_IOMAP ? entries_of_scale(p[7]) : 0;
    h->table = get_buffer(p + 8);
    h->buffer = get_buffer(p + 24);
    return h->table.length < HELLO_BUFFERS ? -EPROTO : 0;
}

/* ---- datagrams ---- */

static void put_address(uint8_t *to, const struct sockaddr_storage *addr)
{
    if (addr->ss_family == AF_INET)
        memcpy(to, &((const struct sockaddr_in *)addr)->sin_addr, 4);
    else
        memcpy(to, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
}

static void get_address(struct sockaddr_storage *addr, int family, const uint8_t *from)
{
    memset(addr, 0, sizeof(*addr));
    addr->ss_family = (sa_family_t)family;
    if (family == AF_INET)
        memcpy(&((struct sockaddr_in *)addr)->sin_addr, from, 4);
    else
        memcpy(&((struct sockaddr_in6 *)addr)->sin6_addr, from, 16);
}

size_t rs_udp_header_write(uint8_t *to, const struct rs_udp_header *h)
{
    bool v4 = h->addr.ss_family == AF_INET;
    size_t size = v4 ? UDP_V4_SIZE : UDP_V6_SIZE;

    put_be32(to, UDP_TAG);
    to[4] = v4 ? 4 : 6;
    to[5] = (uint8_t)h->op;
    to[6] = (uint8_t)size;
    to[7] = 0;
    put_be32(to + 8, h->qpn & QPN_MASK);
    put_address(to + 12, &h->addr);
    return size;
}

int rs_udp_header_read(struct rs_udp_header *h, const uint8_t *from, size_t length)
{
    size_t size;

    if (length < UDP_V4_SIZE || get_be32(from) != UDP_TAG || (from[4] != 4 && from[4] != 6))
        return -EPROTO;
    size = from[4] == 4 ? UDP_V4_SIZE : UDP_V6_SIZE;
    if (from[6] != size || length < size ||
        (from[5] != RS_DGRAM_DATA && from[5] != RS_DGRAM_CONTROL))
        return -EPROTO;
    h->op = from[5];
    h->qpn = get_be32(from + 8) & QPN_MASK;
    get_address(&h->addr, from[4] == 4 ? AF_INET : AF_INET6, from + 12);
    return (int)size;
}

size_t rs_ud_header_size(int family)
{
    return family == AF_INET ? UD_V4_SIZE : UD_V6_SIZE;
}

/* sin_port and sin6_port are at the same offset. */
size_t rs_ud_header_write(uint8_t *to, const struct sockaddr_storage *source)
{
    size_t size = rs_ud_header_size(source->ss_family);

    to[0] = source->ss_family == AF_INET ? 4 : 6;
    to[1] = (uint8_t)size;
    memcpy(to + 2, &((const struct sockaddr_in *)source)->sin_port, 2);
    if (source->ss_family == AF_INET6)
        memcpy(to + 4, &((const struct sockaddr_in6 *)source)->sin6_flowinfo, 4);
    put_address(to + size - (source->ss_family == AF_INET ? 4 : 16), source);
    return size;
}

static void set_scope(struct sockaddr_in6 *source, uint32_t scope)
{
    if (IN6_IS_ADDR_LINKLOCAL(&source->sin6_addr))
        source->sin6_scope_id = scope;
}

int rs_ud_header_read(struct sockaddr_storage *source, uint32_t scope, const uint8_t *from,
                      size_t length)
{
    int family = length >= UD_V4_SIZE && from[0] == 4 ? AF_INET : AF_INET6;
    size_t size = rs_ud_header_size(family);

    if (length < size || from[0] != (family == AF_INET ? 4 : 6) || from[1] != size)
        return -EPROTO;
    get_address(source, family, from + size - (family == AF_INET ? 4 : 16));
    memcpy(&((struct sockaddr_in *)source)->sin_port, from + 2, 2);
    if (family == AF_INET6) {
        memcpy(&((struct sockaddr_in6 *)source)->sin6_flowinfo, from + 4, 4);
        set_scope((struct sockaddr_in6 *)source, scope);
    }
    return (int)size;
}
