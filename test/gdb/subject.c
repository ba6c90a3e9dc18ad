/* SPDX-License-Identifier: BSD-3-Clause */
/* What run_gdb.py prints: one value of each type that scripts/gdb_uroce.py knows. */
#include <stdio.h>

#include "frame.h"
#include "gid.h"
#include "pkt.h"
#include "qp.h"

int stop(int n);

static struct qp qp;
static union gid mapped, global;
static uint8_t bytes[128] = {
    2,    0,    0,    0,    0,    2,    2,    0,    0,    0,  0, 1,
    0x81, 0,    0x60, 5,    0x08, 0x00,                             /* VLAN 5, IPv4 */
    0x45, 0,    0,    60,   0,    0,    0x40, 0,    64,   17, 0, 0, /* to the checksum */
    10,   0,    0,    1,    10,   0,    0,    2,                    /* addresses */
    0xC0, 0,    0x12, 0xB7, 0,    40,   0,    0,                    /* UDP 49152 to 4791 */
    0x0A, 0x40, 0xFF, 0xFF, 0,    0,    0,    0x11, 0x80, 0,  0, 7, /* BTH */
};
static struct frame frame = {.data = bytes, .len = 78, .room = 2048};
static struct pkt pkt = {.opcode = OPCODE(PKT_RC, OP_WRITE_ONLY),
                         .ack_req = true,
                         .pkey = PKEY_DEFAULT,
                         .dest_qpn = 0x11,
                         .psn = {7},
                         .reth = {.va = 0x7f00, .rkey = 0x3ab9, .len = 64},
                         .payload_len = 64};

/* clang describes a type to gdb only if a variable of this file has it. */
static const struct opcode_info *const opcodes __attribute__((used)) = opcode_table;

int stop(int n)
{
    static char line[160];

    pkt_format(line, sizeof(line), &pkt);
    puts(line);
    fflush(stdout);
    return opcode_is_defined(pkt.opcode) ? n : 0;
}

int main(void)
{
    static const uint8_t address[4] = {10, 0, 0, 1};

    qp.qpn = 0x12;
    qp.dest_qpn = 0x11;
    qp.type = QPT_RC;
    qp.state = QPS_RTS;
    qp.req.next_psn = psn(9);
    qp.req.una = psn(0xFFFFFF);
    qp.req.max_psn = psn(11);
    qp.resp.epsn = psn(5);
    qp.resp.msn = 3;
    mapped = gid_from_ipv4(address);
    gid_parse(&global, "2001:db8::1");
    return stop((int)frame.len + global.raw[0] + mapped.raw[0]) < 0;
}
