#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_ctl's corpus: make_ctl_corpus.py VECTORS FOLDER. (The captures are of no use for it.)"""
import ipaddress
import struct

import corpus_folder

MESSAGE, WRITE, POLL, CLOSE, POST, CONTROL, MAD, FRAME, ADD_PORT = range(9)
(QUERY_DEVICE, QUERY_PORT, QUERY_GID, OPEN, ALLOC_PD, DEALLOC_PD, REG_MR, DEREG_MR, CREATE_CHANNEL, DESTROY_CHANNEL,
 CREATE_CQ, DESTROY_CQ, CREATE_QP, MODIFY_QP, QUERY_QP, DESTROY_QP, CREATE_AH, DESTROY_AH, CREATE_SRQ, MODIFY_SRQ,
 QUERY_SRQ, DESTROY_SRQ, OPEN_XRCD, CLOSE_XRCD, ALLOC_MW, DEALLOC_MW, ATTACH_MCAST, DETACH_MCAST, CREATE_WQ,
 MODIFY_WQ, DESTROY_WQ, CREATE_RWQ_IND, MODIFY_RWQ_IND, DESTROY_RWQ_IND, CREATE_FLOW, DESTROY_FLOW, SET_ENTROPY,
 SHOW, FREEZE_MRS, THAW_MRS, REMAP_MR, GET_UFFD, HOT_MRS, CM_CREATE_CHANNEL, CM_DESTROY_CHANNEL, CM_CREATE_ID,
 CM_DESTROY_ID, CM_BIND, CM_RESOLVE_ADDR, CM_RESOLVE_ROUTE, CM_QUERY, CM_LISTEN, CM_CONNECT, CM_ACCEPT, CM_REJECT,
 CM_ESTABLISH, CM_DISCONNECT, CM_NOTIFY, CM_QP_ATTR, CM_SET_OPTION, CM_MIGRATE, CM_JOIN, CM_LEAVE,
 RAISE_CQ, RESIZE_CQ, RESIZE_CQ_DONE, ALLOC_DM, FREE_DM, QUERY_FLOW, MODIFY_CQ,
 JOIN, IMPORT, UNIMPORT, CM_WITH_QP, CREATE_QP_IN, INHERIT, FAULT, OPEN_QP,
 CREATE_COUNTER, DESTROY_COUNTER, ATTACH_COUNTER) = range(1, 82)
TCP, UDP = 0x0106, 0x0111  # port spaces
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(11)
CM_PORT = 7471
AF_INET, AF_INET6 = 2, 10
RC, UC, UD, RAW, XRC_SEND, XRC_RECV = 2, 3, 4, 8, 9, 10
WQ_RESET, WQ_RDY, WQ_ERR = range(3)
GROUP = bytes(10) + b"\xff\xff\xe0\0\0\7"
LOOPBACK = bytes(10) + b"\xff\xff\x7f\0\0\1"
INIT, RTR, RTS, ERR = 1, 2, 3, 6
KIT_BASE = 0x10000


def message(kind, body=b"", client=0, fd=0):
    return bytes([MESSAGE, kind, client, fd, len(body)]) + body


def handle(kind, number, client=0):
    return message(kind, struct.pack("<I", number), client)


def ah_attr(dgid=LOOPBACK):
    return dgid + struct.pack("<I8B", 0, 0, 64, 0, 0, 1, 1, 0, 0)


def modify(qpn, mask, state, dest=0):
    attr = struct.pack("<7I", state, 0, 5, 0, 0, 0, dest) + struct.pack("<I", 15) + ah_attr()
    attr += struct.pack("<H10B", 0, 0, 0, 4, 4, 1, 1, 8, 7, 7, 0)
    return message(MODIFY_QP, struct.pack("<II", qpn, mask) + attr)


# What each service must be given on its way from RESET to RTS: bits of the attribute mask.
STATE, ACCESS, PKEY, PORT, QKEY, AV, MTU = (1 << n for n in (0, 3, 4, 5, 6, 7, 8))
TIMEOUT, RETRY, RNR, RQ_PSN = (1 << n for n in (9, 10, 11, 12))
RD, MIN_RNR, SQ_PSN, DEST_RD, DEST = (1 << n for n in (13, 15, 16, 17, 20))
PATH, RESPONDS, REQUESTS = AV | MTU | DEST | RQ_PSN, DEST_RD | MIN_RNR, SQ_PSN | TIMEOUT | RETRY | RNR | RD
STEPS = {RC: (ACCESS, PATH | RESPONDS, REQUESTS), UC: (ACCESS, PATH, SQ_PSN), UD: (QKEY, 0, SQ_PSN),
         XRC_SEND: (ACCESS, PATH, REQUESTS), XRC_RECV: (ACCESS, PATH | RESPONDS, SQ_PSN | TIMEOUT)}


def connect(qpn, dest, service=RC):
    init, rtr, rts = STEPS[service]
    return (modify(qpn, STATE | PKEY | PORT | init, INIT) + modify(qpn, STATE | rtr, RTR, dest) +
            modify(qpn, STATE | rts, RTS))


def create_qp(service, first=1, srq=0, xrcd=0, client=0, entropy=(0, 0)):
    parts = (0, 0, 0) if service == XRC_RECV else (first, first, 0 if service == XRC_SEND else first)
    body = struct.pack("<8I56x2H5I", *parts, service, 0, 9, srq, xrcd, *entropy, 16, 16, 2, 2, 64)
    return message(CREATE_QP, body, client)


def set_entropy(qpn, rule, port=0):
    return message(SET_ENTROPY, struct.pack("<I2H", qpn, rule, port))


def create_srq(kind=0, xrcd=0, cq=0, client=0, first=1):
    return message(CREATE_SRQ, struct.pack("<8I", first, kind, xrcd, cq, 16, 1, 0, 9), client)


def objects(client=0, first=1):
    """Context, PD, channel, CQ, MR, two queue pairs."""
    made = message(OPEN, struct.pack("<I", 0), client) + message(ALLOC_PD, b"", client)
    made += message(CREATE_CHANNEL, b"", client)
    made += message(CREATE_CQ, struct.pack("<6IQ", 16, first, 0, 0, 0, 0, 5), client)
    made += message(REG_MR, struct.pack("<IIQQQ", first, 15, KIT_BASE, 65536, 0), client)
    made += message(REG_MR, struct.pack("<IIQQQIIQ", first, 15, KIT_BASE, 65536, 0, 1, 0, 0), client, fd=1)
    made += message(FREEZE_MRS, struct.pack("<I", 1), client)
    made += message(REMAP_MR, struct.pack("<IIIIQQ", 2, 2, 1, 0, 0, 65536), client, fd=1)
    made += message(THAW_MRS, b"", client) + message(GET_UFFD, b"", client)
    return made + create_qp(RC, first, client=client) * 2


def services():
    """One application with a pair of queue pairs of each service."""
    base = objects()
    receive = post(2, 128) * 2
    uc = base + create_qp(UC) * 2 + connect(18, 19, UC) + connect(19, 18, UC)
    yield uc + post(3, 128) * 2 + post(2, 2) * 2 + post(2, 0) + poll()
    ud = base + create_qp(UD) * 2 + connect(18, 0, UD) + connect(19, 0, UD)
    ud += message(CREATE_AH, struct.pack("<I", 1) + ah_attr())
    ud += message(CREATE_AH, struct.pack("<I", 1) + ah_attr(GROUP))
    yield ud + receive + post(2, 2) + poll()
    member = ud + receive + message(ATTACH_MCAST, struct.pack("<I", 18) + GROUP) * 2
    yield (member + post(3, 2, which=129) + poll() + message(DETACH_MCAST, struct.pack("<I", 18) + GROUP) +
           handle(DESTROY_QP, 18))
    srq = base + create_srq() + create_qp(RC, srq=1) + create_qp(UD, srq=1) + connect(18, 18) + connect(19, 0, UD)
    srq += message(CREATE_AH, struct.pack("<I", 1) + ah_attr())
    srq += message(MODIFY_SRQ, struct.pack("<4I", 1, 2, 0, 2)) + receive
    yield (srq + post(2, 2) + post(3, 2) + poll() + message(MODIFY_SRQ, struct.pack("<4I", 1, 3, 32, 8)) + receive +
           post(2, 2) + poll())
    yield (srq + handle(QUERY_SRQ, 1) + handle(DESTROY_SRQ, 1) + handle(DESTROY_QP, 18) + handle(DESTROY_QP, 19) +
           handle(DESTROY_SRQ, 1))
    xrc = base + message(OPEN_XRCD, struct.pack("<I", 64), fd=1) + create_srq(1, 1, 1) + create_qp(XRC_SEND)
    xrc += create_qp(XRC_RECV, xrcd=1) + connect(18, 19, XRC_SEND) + connect(19, 18, XRC_RECV) + post(0, 255) * 2
    for op in range(10):
        yield xrc + post(2, op) + poll() + handle(DESTROY_SRQ, 1) + post(2, op) + poll()
    yield (xrc + post(2, 2, length=255) * 4 + poll(0, 0) + handle(RAISE_CQ, 1) +
           handle(DESTROY_SRQ, 1) + handle(DESTROY_CQ, 1) + poll(7, 255))
    yield (xrc + message(OPEN, bytes(4), 1) + message(OPEN_XRCD, bytes(4), 1, fd=1) +
           create_qp(XRC_RECV, xrcd=2, client=1) + bytes([CLOSE, 0]) + poll())
    shared = xrc + message(OPEN, bytes(4), 1) + message(OPEN_XRCD, bytes(4), 1, fd=1)
    shared += message(OPEN_QP, struct.pack("<III", 2, 19, 7), 1) + message(OPEN_QP, struct.pack("<III", 1, 19, 7))
    opened = 1 << 31
    yield shared + post(2, 2) + bytes([CLOSE, 0]) + poll() + handle(QUERY_QP, opened | 1, 1) + modify(19, 1, ERR)
    yield shared + handle(DESTROY_QP, 19) + post(2, 2) + poll() + handle(DESTROY_QP, opened | 2) + poll()
    yield shared + handle(DESTROY_QP, opened | 1, 1) + handle(DESTROY_QP, opened | 2) + handle(DESTROY_QP, 19) + poll()
    windows = base + connect(16, 17) + connect(17, 16)
    windows += message(ALLOC_MW, struct.pack("<II", 1, 1)) + message(ALLOC_MW, struct.pack("<II", 1, 2))
    for which in (0, 1):
        bound = windows + post(1, 8, which=which | 2, length=100) + poll()
        yield (bound + post(0, 0, which=which | 64, length=1) + poll() + handle(DEREG_MR, 1) +
               handle(DEALLOC_MW, which + 1) + poll())
        yield bound + post(1, 7, which=which) + post(0, 0, which=which | 64, length=1) + poll() + bytes([CLOSE, 0])
        yield bound + post(1, 128) + post(0, 9, which=which, length=1) + poll() + post(0, 15, which=which | 64) + poll()


def attach(qpn, counter, what):
    return message(ATTACH_COUNTER, struct.pack("<3I", qpn, counter, what))


def counters(base):
    """Counters of work requests and of bytes, of two queue pairs that do all kinds of work, and fail in the end."""
    made = base + message(CREATE_COUNTER, struct.pack("<I", 0)) + message(CREATE_COUNTER, struct.pack("<I", 1))
    made += attach(16, 1, 0x15) + attach(16, 2, 0x2a) + attach(17, 1, 0x3f) + attach(17, 2, 1)
    made += connect(16, 17) + connect(17, 16) + attach(16, 1, 1)
    used = made + post(1, 128) * 3 + b"".join(post(0, op) + poll() for op in (0, 1, 2, 3, 4, 6))
    yield used + handle(DESTROY_COUNTER, 1) + modify(17, STATE, ERR) + post(0, 0) * 2 + poll() + handle(DESTROY_QP, 16)
    yield used + post(0, 0, which=64, length=1) + poll() + handle(DESTROY_QP, 17) + handle(DESTROY_COUNTER, 2) + poll()
    yield used + bytes([CLOSE, 0]) + poll()


def create_wq(srq=0, client=0, first=1):
    return message(CREATE_WQ, struct.pack("<7I", first, first, bool(srq), srq, 16, 1, 9), client)


def modify_wq(number, state):
    return message(MODIFY_WQ, struct.pack("<2I", number, state))


def table(kind, number, *wqs):
    return message(kind, struct.pack(f"<2I{len(wqs)}H", number, len(wqs), *wqs))


def create_rss_qp(number, function=1, fields=0xc3, client=0):
    body = struct.pack("<8I4I40s2H5I", 1, 0, 0, RAW, 0, 9, 0, 0, function, fields, number, 40, bytes(range(40)), 0, 0,
                       0, 0, 0, 0, 0)
    return message(CREATE_QP, body, client)


def create_flow(qpn, kind=0, headers=0, dport=0, drop=0, tag=0, priority=0, client=0):
    def fields(port):
        return struct.pack("<12x2H32xI4B2H", 0, 0, 0, 0, 0, 0, 0, 0, port)
    body = struct.pack("<8I", qpn, kind, priority, 1, drop, tag != 0, tag, headers) + fields(dport)
    return message(CREATE_FLOW, body + fields(0xffff if dport else 0), client)


def raw_ready(qpn):
    return modify(qpn, STATE | PORT, INIT) + modify(qpn, STATE, RTR) + modify(qpn, STATE, RTS)


def raw_packets():
    """Two raw queue pairs, 18 and 19, work queues 1 to 4, 3 with a shared receive queue, a table of them, and the
    queue pair 20 that spreads over it."""
    frame = dict(op=2, length=60)
    pair = objects() + create_qp(RAW) * 2 + raw_ready(18) + raw_ready(19)
    sent = post(2, **frame) + poll() + post(2, length=255) + poll() + post(2, length=13) + poll()
    yield pair + create_flow(19, headers=16) + post(3, 128) * 2 + sent + handle(QUERY_FLOW, 1) + handle(DESTROY_FLOW, 1) + sent
    for kind in range(5):
        yield pair + create_flow(19, kind) * 2 + post(3, 128) * 2 + sent + modify(19, STATE, ERR) + sent
    yield (pair + create_flow(19, headers=16, dport=5, tag=7, priority=2) + create_flow(18, headers=16, drop=1) +
           post(3, 128) + sent + handle(DESTROY_FLOW, 2) + sent + handle(DESTROY_QP, 19) + message(SHOW, bytes(8)))
    wqs = pair + create_srq() + create_wq() * 2 + create_wq(srq=1) + create_wq()
    ready = b"".join(modify_wq(n, WQ_RDY) for n in range(1, 5)) + b"".join(post(0, 254, which=n) for n in range(4)) * 2
    for function, fields in ((1, 0xc3), (2, 3), (1, 0x0c), (1, 0)):
        spread = wqs + table(CREATE_RWQ_IND, 0, 1, 2, 3, 4) + create_rss_qp(1, function, fields) + ready
        spread += create_flow(20, headers=16)
        yield spread + post(4, **frame) * 40 + post(4, 128) * 40 + sent  # to the one without queues
        yield spread + sent + table(MODIFY_RWQ_IND, 1, 3) + sent + table(MODIFY_RWQ_IND, 1, 4, 4, 1, 1, 2, 2, 3, 3) + sent
        yield spread + sent + modify_wq(1, WQ_ERR) + modify_wq(3, WQ_ERR) + sent + modify_wq(1, WQ_RESET) + sent
        yield (spread + sent + handle(DESTROY_WQ, 1) + handle(DESTROY_RWQ_IND, 1) + handle(DESTROY_QP, 20) +
               handle(DESTROY_FLOW, 1) + handle(DESTROY_QP, 20) + handle(DESTROY_RWQ_IND, 1) + handle(DESTROY_WQ, 1) +
               handle(DESTROY_SRQ, 1) + handle(DESTROY_WQ, 3) + handle(DESTROY_SRQ, 1) + sent)
        yield spread + bytes([WRITE, 0, 7, 0, 0, 64]) + b"\xff" * 64 + sent + post(2, **frame) + bytes([CLOSE, 0]) + poll()
        yield spread + handle(DEREG_MR, 1) + sent + message(SHOW, bytes(8)) + message(MODIFY_QP, struct.pack("<2I", 20, 1))
    yield wqs + table(CREATE_RWQ_IND, 0, *[1] * 64) + table(CREATE_RWQ_IND, 0, 1, 2, 9) + table(CREATE_RWQ_IND, 0)
    yield (objects() + objects(1, 2) + create_qp(RAW) + create_qp(RAW, 2, client=1) + create_flow(20) +
           create_flow(21, client=1) + bytes([CLOSE, 0]) + poll() + message(SHOW, bytes(8)))


def poll(looks=7, time=1):
    return bytes([POLL, time, time, looks])


def post(qp=0, op=2, flags=2, region=0, length=20, offset=0, client=0, which=0):
    return bytes([POST, client, qp, op, flags, region, length, offset, which])


def hot_regions(pair):
    """Regions that become hot, are asked for or not, and are mapped, told of, frozen or gone then."""
    def cold(uidx, why=5):
        return message(REG_MR, struct.pack("<IIQQQII8x4III", 1, 15, KIT_BASE, 65536, 0, 0, why, 0, 0, 0, 0, 0, uidx))
    used = pair + cold(70) + cold(71) + cold(72, 12)
    used += b"".join(post(op=0, region=region) + poll() for region in (2, 3, 4)) * 3
    ask, other = message(HOT_MRS), message(HOT_MRS, b"", 1)
    copied = message(REMAP_MR, struct.pack("<4I", 3, 15, 0, 0))
    mapped = message(REMAP_MR, struct.pack("<4I2Q", 3, 2, 1, 0, 0, 65536), fd=1)
    again = post(op=0, region=2) + poll()
    yield used + ask + ask + other
    yield used + handle(DEREG_MR, 3) + ask + handle(DEREG_MR, 4) + again
    yield used + ask + copied + again * 4 + ask + handle(DEREG_MR, 3)
    yield used + copied + again * 4 + mapped + ask + message(FREEZE_MRS, struct.pack("<I", 1)) + again * 4 + ask
    yield used + mapped + again + bytes([CLOSE, 0]) + poll() + other


def address(ip, port=CM_PORT):
    if ip is None:
        return bytes(24)
    packed = ipaddress.ip_address(ip).packed
    v4 = len(packed) == 4
    return (bytes(10) + b"\xff\xff" + packed if v4 else packed) + struct.pack("<I2H", 0, port, AF_INET if v4 else AF_INET6)


def cm_id(kind, number, channel=0, space=0, backlog=0, event=0, qp_type=0, client=0):
    return message(kind, struct.pack("<4IQ3I", number, channel, space, backlog, 7, 0, event, qp_type), client)


def cm_call(kind, number, client=0, private=b"hello", qpn=0x11):
    conn = struct.pack("<4I8BH", qpn, 0, 0, 0, 2, 1, 1, 0, 7, 7, 0, 0, len(private)) + private
    return message(kind, struct.pack("<2I", number, 0) + conn, client)


def cm_resolve(kind, number, src=None, dst=None, client=0):
    return message(kind, struct.pack("<2I", number, 2000) + address(src, 0 if dst else CM_PORT) + address(dst), client)


def control(what=7, exponent=0):
    return bytes([CONTROL, exponent, what])


def mad(kind, which=0, source=0, device=0, damages=()):
    return bytes([MAD, device, source, kind, which, len(damages)]) + b"".join(bytes(damage) for damage in damages)


def network():
    return poll() + control() + poll() + control()


def qp_attr(number, client=0):
    return b"".join(message(CM_QP_ATTR, struct.pack("<3I", number, 0, state), client) for state in (INIT, RTR, RTS))


def listener(space=TCP, ip="0.0.0.0"):
    """Client 1's id 1 of channel 1."""
    return (message(CM_CREATE_CHANNEL, b"", 1) + cm_id(CM_CREATE_ID, 0, 1, space, client=1) +
            cm_resolve(CM_BIND, 1, ip, client=1) + cm_id(CM_LISTEN, 1, backlog=4, client=1))


def resolved(number=2, channel=2, space=TCP, ip="127.0.0.1", create=True):
    """Client 0's id."""
    made = message(CM_CREATE_CHANNEL) if create else b""
    return (made + cm_id(CM_CREATE_ID, 0, channel, space) + cm_resolve(CM_RESOLVE_ADDR, number, None, ip) + control() + cm_resolve(CM_RESOLVE_ROUTE, number))


def option(number, name, value, client=0):
    return message(CM_SET_OPTION, struct.pack("<4I", number, 0, name, len(value)) + value, client)


def join(number, group, kind=CM_JOIN, joined=0):
    return message(kind, struct.pack("<2IQ", number, 0, 5) + address(group) + struct.pack("<2I", joined, 0))


def connections():
    """Programs' connections, over the loopback port and with hosts that the input plays. Ids: 1 listens, 2 connects, 3
    is the request's."""
    show, end = message(SHOW, bytes(8)), bytes([CLOSE, 1]) + network()
    for space, ip in ((TCP, "127.0.0.1"), (TCP, "::1"), (UDP, "127.0.0.1")):
        asked = listener(space, "::" if ":" in ip else "0.0.0.0") + resolved(space=space, ip=ip) + cm_call(CM_CONNECT, 2)
        asked += network()
        heard = asked
        accepted = heard + qp_attr(3, 1) + cm_call(CM_ACCEPT, 3, 1) + network() + qp_attr(2)
        joined = accepted + cm_call(CM_ESTABLISH, 2) + network()
        for start in (asked, heard, accepted, joined):
            yield start + show + end + show
            yield start + cm_id(CM_DESTROY_ID, 1, client=1) + network() + show + control(7, 13) * 4
            yield start + cm_id(CM_DESTROY_ID, 3, client=1) + network() + end
            yield start + cm_id(CM_DESTROY_ID, 2) + network() + control(7, 17)
            yield (start + message(CM_CREATE_CHANNEL, b"", 1) + cm_id(CM_MIGRATE, 1, 3, client=1) +
                   cm_id(CM_MIGRATE, 3, 3, client=1) + handle(CM_DESTROY_CHANNEL, 1, 1) + end)
            yield start + cm_call(CM_REJECT, 3, 1) + network() + cm_call(CM_REJECT, 2) + network() + show
            yield (start + cm_call(CM_DISCONNECT, 2) + network() + cm_call(CM_DISCONNECT, 3, 1) + network() + control(7, 14) * 3)
            yield start + cm_id(CM_NOTIFY, 3, event=4, client=1) + control(7, 13) * 8
            for kind in range(11) if ip == "127.0.0.1" else ():
                yield start + b"".join(mad(kind, which) for which in range(3)) + network() + show
    yield (listener() + resolved() + cm_call(CM_CONNECT, 2) +
           b"".join(resolved(n, create=False) + cm_call(CM_CONNECT, n) for n in range(3, 9)) + network() +
           cm_id(CM_DESTROY_ID, 3) + network() + cm_id(CM_DESTROY_ID, 9, client=1) + show + end)
    for source in (0, 1, 2, 5, 6, 7, 17, 20):
        asked = b"".join(mad(kind, which, source) for kind in (REQ, SIDR_REQ) for which in range(4))
        yield listener() + asked + control() + cm_call(CM_ACCEPT, 2, 1) + network() + asked + end
        yield listener(UDP) + asked + control() + cm_call(CM_ACCEPT, 2, 1) + network() + asked + end
        yield asked + control() + bytes([ADD_PORT]) + b"".join(mad(REQ, 0, source, 1) for _ in range(4)) + control() * 3
    withdrawn = b"".join(mad(REQ, n, 1) + control() + mad(REJ, 1) + control() for n in range(8))
    yield listener() + withdrawn + show + withdrawn + end
    multicast = resolved(1, 1, UDP) + join(1, "239.1.1.1") + join(1, "ff0e::5")
    yield multicast + join(1, "239.1.1.1", CM_LEAVE, 1) + join(1, "239.1.1.1", CM_LEAVE, 2) + show + join(1, "10.0.0.1")
    yield multicast + message(CM_CREATE_CHANNEL) + cm_id(CM_MIGRATE, 1, 2) + cm_id(CM_DESTROY_ID, 1)
    for ip in ("10.0.1.2", "fd00::2", "10.9.9.9", "10.0.1.1", "0.0.0.0", "239.1.1.1"):
        away = bytes([ADD_PORT]) + resolved(1, 1, ip=ip) + control(7, 10) * 4
        yield away + cm_call(CM_CONNECT, 1) + show + control(7, 13) * 3
        yield away + resolved(2, 1, ip=ip, create=False) + cm_id(CM_DESTROY_ID, 1) + control() + end
        arp = bytes.fromhex("020000000003020000000009080600010800060400020200000000090a000102020000000003") + bytes([10, 0, 1, 1])
        yield away + bytes([FRAME, 1, len(arp)]) + arp + control() + cm_call(CM_CONNECT, 1) + show
    for name, value in ((0, b"\x68"), (1, bytes([1, 0, 0, 0])), (2, bytes(4)), (3, b"\x11"), (9, b"")):
        yield message(CM_CREATE_CHANNEL) + cm_id(CM_CREATE_ID, 0, 1, TCP) + option(1, name, value) + cm_id(CM_QUERY, 1)
    for ps in (0x0002, 0x0106, 0x0111, 0x013F, 7):
        yield (message(CM_CREATE_CHANNEL) + cm_id(CM_CREATE_ID, 0, 1, ps) + cm_id(CM_LISTEN, 1) + cm_id(CM_QUERY, 1) +
               cm_resolve(CM_BIND, 1, "127.0.0.1") + qp_attr(1) + handle(CM_DESTROY_CHANNEL, 1) + show)


def corpus():
    pair = objects() + connect(16, 17) + connect(17, 16)
    receive = post(1, 128) * 2
    yield from services()
    yield from counters(objects())
    yield from raw_packets()
    yield from hot_regions(pair)
    yield from connections()
    for kind in range(ATTACH_COUNTER + 1):
        yield message(OPEN, b"\0\0\0\0") + message(kind, b"\1\0\0\0" * 8)
        yield objects() + message(kind, b"\1\0\0\0" * 8) + message(kind, b"\x10\0\0\0")
    for cqe in (1, 3, 64, 1 << 22, 0, 1 << 23):
        resized = pair + receive + post() + poll(0, 0) + message(RESIZE_CQ, struct.pack("<4I", cqe, 0, 0, 1)) + poll()
        yield resized + post() + poll() + handle(RESIZE_CQ_DONE, 1) * 2 + post() + poll() + handle(DESTROY_CQ, 1)
        yield resized * 2 + bytes([CLOSE, 0]) + poll()
    def other_region(flags, access, offset, length, number=1):
        return message(REG_MR, struct.pack("<IIQQQII8xI", 1, access, offset, length, 0, flags, 0, number))
    for length, align in ((64, 0), (4096, 12), (1 << 20, 6), (0, 0), (1 << 40, 0), (64, 13)):
        device = pair + message(ALLOC_DM, struct.pack("<QI", length, align)) + other_region(4, 47, 0, length)
        yield device + post(op=0, region=2) + post(op=4, region=2) + poll() + handle(FREE_DM, 1) + handle(DEREG_MR, 3)
        yield device + handle(FREE_DM, 1) + handle(DEREG_MR, 3) + handle(FREE_DM, 1) + other_region(4, 47, 0, 8)
        yield device + other_region(4, 33, 60, 8) + other_region(4, 1, 0, 4) + other_region(12, 33, 0, 4) + bytes([CLOSE, 0])
    null = pair + other_region(8, 1, 0, (1 << 64) - 1)
    yield null + post(op=0, region=2) + post(op=4, region=2) + post(1, 128, region=2) + post() + poll() + handle(DEREG_MR, 3)
    yield null + other_region(8, 3, 0, (1 << 64) - 1) + other_region(8, 1, 1, 9) + other_region(10, 1, 0, (1 << 64) - 1)
    for rule in (b"drop rx nth 2", b"duplicate", b"corrupt header sealed", b"delay 1ms tx", b"reorder 2", b"mark chance 0.5", b"oops"):
        faults = pair + message(FAULT, bytes(8) + rule) + receive + post() + post(2, 2) + poll() + poll(7, 255)
        yield faults + message(SHOW, bytes(8)) + message(FAULT, struct.pack("<II", 1, 1)) + post() + poll()
        yield faults + bytes([CLOSE, 0]) + poll()
    for rule, port in ((1, 0), (2, 0), (3, 0xC123), (4, 0), (0, 0)):
        yield (pair + create_qp(UD, entropy=(rule, port)) + connect(18, 0, UD) + post() + set_entropy(16, rule, port) +
               set_entropy(18, rule, port) + receive + post() + post(2, 2) + poll())
    for op in range(16):
        yield pair + post(op=op, length=8) + poll() + post(op=op, region=1, length=8) + poll()
        yield pair + receive + post(op=op) + poll() + post(op=op, region=1, flags=6) + poll()
        yield pair + post(op=op) + poll() + poll(7, 255) * 8 + receive + poll()
    yield objects() + objects(1, 2) + handle(DESTROY_QP, 16, 1) + bytes([CLOSE, 0]) + poll() + handle(DESTROY_QP, 16, 1)
    yield pair + receive + post() + bytes([CLOSE, 0]) + poll()
    yield pair + post() + modify(16, 1, ERR) + poll() + handle(QUERY_QP, 16) + handle(DESTROY_QP, 16) + poll()
    yield pair + receive + post() + handle(DEREG_MR, 1) + poll() + message(SHOW, bytes(8))
    yield pair + bytes([WRITE, 0, 0, 16, 0, 8]) + b"\xff" * 8 + bytes([WRITE, 0, 1, 0, 0, 4]) + b"\xff" * 4 + poll()
    yield objects() + message(CREATE_AH, struct.pack("<I", 1) + ah_attr()) + handle(DESTROY_AH, 1) + handle(DEALLOC_PD, 1)
    teardown = [(DESTROY_QP, 16), (DESTROY_QP, 17), (DESTROY_CQ, 1), (DESTROY_CHANNEL, 1), (DEREG_MR, 1), (DEREG_MR, 2),
                (DEALLOC_PD, 1)]
    yield pair + b"".join(handle(*step) for step in teardown)
    yield pair + b"".join(handle(*step) for step in reversed(teardown))


if __name__ == "__main__":
    corpus_folder.write(corpus())
