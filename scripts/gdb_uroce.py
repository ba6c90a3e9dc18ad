# SPDX-License-Identifier: BSD-3-Clause
"""gdb's printers for uroce: `source scripts/gdb_uroce.py`, or start gdb in the source folder with `gdb -x .gdbinit`.

    union gid       10.0.0.1, or fe80::1
    psn_t           psn 16777215
    struct frame    lengths, and the headers from Ethernet to BTH
    struct pkt      the packet in one line, as pkt_format writes it
    struct qp       number, type, state, peer, and where its requester and responder are

`p/r VALUE` prints the plain structure. The program, or the core's, must have debug information: config/debug.ini. Nothing is called in
the program, so all of this works with a core file.
"""
import ipaddress

import gdb
import gdb.printing

ETH_LEN, UDP_LEN, GRH_LEN, BTH_LEN = 14, 8, 40, 12
ETHERTYPES = {0x0800: "IPv4", 0x86DD: "IPv6", 0x8915: "RoCEv1", 0x0806: "ARP"}
ROCE_PORT, UDP = 4791, 17


def number(value):
    """Of an integer, an enumerator or a psn_t."""
    kind = value.type.strip_typedefs()
    return int(value["v"]) if kind.code == gdb.TYPE_CODE_STRUCT else int(value)


def field(value, path):
    """The field at a path like req.next_psn, or None where this version has no such field."""
    try:
        for name in path.split("."):
            value = value[name]
        return value
    except gdb.error:
        return None


def enumerator(value, enum, prefix):
    """The name of an integer that is one of an enum, without the prefix."""
    for member in gdb.lookup_type("enum " + enum).fields():
        if member.enumval == int(value) and member.name.startswith(prefix):
            return member.name[len(prefix):]
    return str(int(value))


def opcode_name(opcode):
    try:
        name = gdb.parse_and_eval(f"((const struct opcode_info *)&opcode_table)[{opcode}].name")
        return name.string() if int(name) else f"opcode 0x{opcode:02x}"
    except gdb.error:
        return f"opcode 0x{opcode:02x}"


def mac(data):
    return ":".join(f"{byte:02x}" for byte in data)


def address(data):
    """4 or 16 bytes; an IPv4-mapped one as IPv4."""
    found = ipaddress.ip_address(bytes(data))
    return str(getattr(found, "ipv4_mapped", None) or found)


def be(data, offset, length):
    return int.from_bytes(data[offset:offset + length], "big")


class GidPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return address([int(self.value["raw"][i]) for i in range(16)])


class PsnPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"psn {int(self.value['v'])}"


class PktPrinter:
    """Extension headers by the opcode's name: a core may lack the table of opcodes."""

    def __init__(self, value):
        self.value = value

    def parts(self):
        v = self.value
        name = opcode_name(int(v["opcode"]))
        yield f"{name} qp 0x{int(v['dest_qpn']):06x} psn {number(v['psn'])}"
        yield from (word for flag, word in (("solicited", "solicited"), ("ack_req", "ack")) if v[flag])
        if int(v["pkey"]) != 0xFFFF:
            yield f"pkey 0x{int(v['pkey']):04x}"
        if "WRITE" in name or "READ_REQUEST" in name:
            reth = v["reth"]
            if int(reth["rkey"]) or int(reth["len"]):
                yield f"va 0x{int(reth['va']):x} rkey 0x{int(reth['rkey']):x} dma {int(reth['len'])}"
        if "CMP_SWP" in name or "FETCH_ADD" in name:
            yield f"va 0x{int(v['atomic']['va']):x} rkey 0x{int(v['atomic']['rkey']):x}"
        if "ACK" in name or "READ_RESP" in name:
            yield f"syndrome 0x{int(v['aeth']['syndrome']):02x} msn {int(v['aeth']['msn'])}"
        if name.startswith("UD_"):
            yield f"qkey 0x{int(v['deth']['qkey']):x} from qp 0x{int(v['deth']['src_qpn']):06x}"
        if "IMM" in name:
            yield f"imm 0x{int(v['imm']):08x}"
        yield f"len {int(v['payload_len'])}"

    def to_string(self):
        return " ".join(self.parts())


class FramePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        v = self.value
        length, data = int(v["len"]), int(v["data"])
        text = f"frame of {length} bytes"
        if int(v["room"]):
            text += f", room for {int(v['room'])}"
        if v["icrc_omitted"]:
            text += ", without ICRC"
        try:
            head = bytes(gdb.selected_inferior().read_memory(data, min(length, 128))) if data else b""
        except gdb.MemoryError:
            return text + f", unreadable at 0x{data:x}"
        return text + "".join(", " + part for part in headers(head))


def headers(head):
    """The headers of a frame, outermost first."""
    if len(head) < ETH_LEN:
        return
    yield f"{mac(head[6:12])} to {mac(head[:6])}"
    offset, kind = ETH_LEN, be(head, 12, 2)
    if kind == 0x8100 and len(head) >= 18:
        yield f"VLAN {be(head, 14, 2) & 0xfff} priority {head[14] >> 5}"
        offset, kind = 18, be(head, 16, 2)
    name, ip = ETHERTYPES.get(kind, f"ethertype 0x{kind:04x}"), head[offset:]
    if name == "IPv4" and len(ip) >= 20:
        yield f"IPv4 {address(ip[12:16])} to {address(ip[16:20])}"
        yield from udp(ip[(ip[0] & 15) * 4:], ip[9])
    elif name in ("IPv6", "RoCEv1") and len(ip) >= GRH_LEN:
        yield f"{name} {address(ip[8:24])} to {address(ip[24:40])}"
        yield from udp(ip[GRH_LEN:], ip[6]) if name == "IPv6" else bth(ip[GRH_LEN:])
    else:
        yield name


def udp(data, protocol):
    if protocol != UDP or len(data) < UDP_LEN:
        yield f"IP protocol {protocol}"
        return
    yield f"UDP {be(data, 0, 2)} to {be(data, 2, 2)}"
    if be(data, 2, 2) == ROCE_PORT:
        yield from bth(data[UDP_LEN:])


def bth(data):
    if len(data) >= BTH_LEN:
        yield (f"{opcode_name(data[0])} qp 0x{be(data, 5, 3):06x} psn {be(data, 9, 3)}"
               + (" ack" if data[8] & 0x80 else ""))


class QpPrinter:
    # Name in the text, and where the number is.
    SIDES = (("requester", (("next", "req.next_psn"), ("una", "req.una"), ("max", "req.max_psn"))),
             ("responder", (("expects", "resp.epsn"), ("msn", "resp.msn"))))

    def __init__(self, value):
        self.value = value

    def to_string(self):
        v = self.value
        text = (f"qp 0x{int(v['qpn']):06x} {enumerator(v['type'], 'qp_type', 'QPT_')}"
                f" {enumerator(v['state'], 'qp_state', 'QPS_')}")
        if field(v, "dest_qpn") is not None and int(v["dest_qpn"]):
            text += f" to 0x{int(v['dest_qpn']):06x}"
        for side, numbers in self.SIDES:
            found = [(name, field(v, path)) for name, path in numbers]
            text += f", {side}" + "".join(f" {name} {number(n)}" for name, n in found if n is not None)
        return text


def printers():
    made = gdb.printing.RegexpCollectionPrettyPrinter("uroce")
    for name, printer in (("gid", GidPrinter), ("psn_t", PsnPrinter), ("pkt", PktPrinter), ("frame", FramePrinter),
                          ("qp", QpPrinter)):
        made.add_printer(name, f"^{name}$", printer)
    return made



gdb.printing.register_pretty_printer(None, printers(), replace=True)
