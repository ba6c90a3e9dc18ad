#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes a fuzz target's corpus from the captures: make_corpus.py KIND VECTORS FOLDER

KIND packet: every frame of every capture, one file each, and of each capture's first frame also
what the captures lack: a tagged one, a RoCEv1 one, and one of every other opcode.
KIND queue: shared memory as fuzz_queue takes it: well-formed rings of every kind of entry.
KIND engine: programs for fuzz_engine: every operation with and without losses, and the captures'
transport packets, given to the queue pair of the node that they were sent to.
KIND replay: captures, each whole and its beginnings.
KIND config: configuration files: the samples, and every key with good and bad values.
KIND raw: frames for flow rules: every header in every place, and each cut short.
KIND lab: laboratories of `uroce sim`.
KIND flows: what `uroce entropy` is told: files of flows, ranges, policies, a daemon's answer.
KIND inject: rules of `uroce fault`, and behind a zero byte a frame.
KIND rsockets: what an rsocket's peer sends: hellos, headers of datagrams, messages.
KIND perf_options: arguments of uroce-perf, one a line.
"""
import base64
import hashlib
import pathlib
import struct
import sys


RC_ACK = 0x11


def frames(path):
    """The frames of a little-endian pcap file."""
    data = path.read_bytes()
    if data[:4] not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        sys.exit(f"{path}: not a pcap file")
    at = 24
    while at < len(data):
        caplen = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16:at + 16 + caplen]
        at += 16 + caplen


def bth_offset(frame):
    return 14 + (40 if frame[12:14] == b"\x86\xdd" else 20) + 8


def tagged(frame):
    return frame[:12] + bytes([0x81, 0x00, 0x60, 0x64]) + frame[12:]


def roce_v1(frame):
    packet = frame[bth_offset(frame):]
    grh = b"\x60\0\0\0" + struct.pack(">HBB", len(packet), 0x1B, 64) + bytes(15) + b"\1"
    return frame[:12] + b"\x89\x15" + grh + bytes(15) + b"\2" + packet


def with_map(frame, words):
    """An ACK over IPv4 with a map of kept packets."""
    at = bth_offset(frame)
    kept = b"\3" + frame[at + 9:at + 12] + bytes([0xA5, 0, 0xFF, 1, 0, 0, 0, 0x80]) * words
    more = len(kept)
    ip = bytearray(frame[14:at - 8])
    ip[2:4] = struct.pack(">H", struct.unpack_from(">H", ip, 2)[0] + more)
    ip[10:12] = b"\0\0"
    total = sum(struct.unpack(">10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip[10:12] = struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF)
    length = struct.unpack_from(">H", frame, at - 4)[0] + more
    return frame[:14] + bytes(ip) + frame[at - 8:at - 4] + struct.pack(">HH", length, 0) + frame[at:-4] + kept + frame[-4:]


def with_opcode(frame, opcode):
    at = bth_offset(frame)
    return frame[:at] + bytes([opcode]) + frame[at + 1:]


def packet_corpus(vectors):
    for path in sorted(vectors.glob("**/*.pcap")):
        first = None
        for frame in frames(path):
            first = first or frame
            yield frame
        yield tagged(first)
        yield roce_v1(first)
        ack = next((frame for frame in frames(path)
                    if frame[12:14] == b"\x08\x00" and frame[bth_offset(frame)] == RC_ACK), None)
        for words in (1, 2, 8, 9) if ack else ():
            yield with_map(ack, words)
    for opcode in range(256):
        yield with_opcode(first, opcode)
    for cut in range(34, 80, 4):  # with the lengths of the whole frame
        yield first[:cut]
    for quanta in (b"\0\0", b"\xff\xff"):
        yield bytes.fromhex("0180c2000001") + first[6:12] + b"\x88\x08\0\1" + quanta
        yield bytes.fromhex("0180c2000001") + first[6:12] + b"\x88\x08\1\1\0\x88" + quanta * 8


def send_entry(opcode, flags, sges, inline=b""):
    header = struct.pack("<QBBBBIQIIQQ16x", 7, opcode, flags, len(sges), 0, 1, 0x1000, 9,
                         len(inline), 5, 6)
    body = inline or b"".join(struct.pack("<QII", *sge) for sge in sges)
    return (header + body).ljust(128, b"\0")


def ring(kind, entries):
    """Four SGEs, 64 bytes inline, four entries, the index two before its wrap."""
    return bytes([kind, 4, 32, 2]) + struct.pack("<Ib", 0xFFFFFFFE, len(entries)) + b"".join(entries)


# Parts of fuzz_queue; steps of the queue that moves, and two of them with the flag 0x80.
SEND_RING, RECV_RING, _, DOORBELLS, SEND_PEEKS, RECV_PEEKS, MOVING = range(7)
BATCH, READ_SOME, ARM, MOVE, SPOIL = range(5)
SOLICITED_BATCH, DISARM = 130, 132


def queue_corpus(_):
    two = [(0x1000, 64, 1), (0x2000, 4096, 2)]
    for opcode in range(17):
        for kind in (SEND_RING, SEND_PEEKS):
            yield ring(kind, [send_entry(opcode, 2, two)] * 4)
            yield ring(kind, [send_entry(opcode, 2, two[:1])] * 4)
            yield ring(kind, [send_entry(opcode, 8, [], b"inline bytes")] * 3)
    yield ring(SEND_RING, [send_entry(2, 0, [(0, 0xFFFFFFFF, 0)] * 2)])
    for sges in (two, two[:1], [(0x1000, 0xFFFFFFFF, 1)]):
        recv = struct.pack("<QII", 3, len(sges), 0) + b"".join(struct.pack("<QII", *sge) for sge in sges)
        for kind in (RECV_RING, RECV_PEEKS):
            yield ring(kind, [recv.ljust(96, b"\0")] * 4)
    yield bytes([2, 2, 0]) + bytes([0, 0x0C, 0x10, 0x84, 0x24, 1, 0, 0, 0]) * 8
    yield bytes([2, 1, 2]) + bytes([0, 1, 2, 0xC0, 0xFF, 0xFF, 0xFF, 0xFF]) * 4
    words = [(0, 1, 1), (8, 1 << 63, 3), (9, 7, 0), (16, 0xFF, 1), (80, 1 << 63, 2)]
    yield bytes([3, 3]) + b"".join(struct.pack("<IQ", at, bits << by) if bits << by < 1 << 64 else b""
                                   for at, bits, by in words)
    # Doorbells beyond what a call takes: the next calls go on behind them, and round.
    full = b"".join(struct.pack("<IQ", at, (1 << 64) - 1) for at in (1, 2, 3, 4, 8, 9, 10, 72, 73, 80, 140))
    for most in (0, 1, 40, 200):
        yield bytes([DOORBELLS, most]) + full * 3
    # Batches, reading, arming, moves to larger and smaller segments, with and without what an application spoils.
    for lanes in range(3):
        for size in range(5):
            turn = bytes([BATCH, 5, BATCH, 4, BATCH, 6, ARM, 1, SOLICITED_BATCH, 9, READ_SOME, 2, ARM, 2, BATCH, 30, MOVE, size + 1])
            turn += bytes([READ_SOME, 255, ARM, 3, BATCH, 255, MOVE, 0, READ_SOME, 40, MOVE, size, DISARM, 0])
            yield bytes([MOVING, size, lanes]) + turn * 3
            for at in range(0, 0x180, 0x40):
                yield bytes([MOVING, size, lanes]) + turn + bytes([SPOIL, 0]) + struct.pack("<IB", at, 4) + b"\xff" * 4 + turn * 2


# Steps of fuzz_engine's programs.
POST, RECV, RUBBISH, TRANSMIT, DELIVER, CHANGE, PACKET, BYTES, TIME, STATE, INDEX, DEREG, POLL, BIND, THROUGH, JOIN = range(16)
# Its queue pairs.
RC, UC, UD, RC_SRQ, XRC_SEND, XRC_RECV, UD_SRQ = range(7)
SEND, WRITE_IMM, READ, FETCH_ADD = 2, 1, 4, 6
KEEP, LOSE, BURST, TRIM = 1, 2, 4, 8


def step(what, node=0, body=b"", qp=RC):
    return bytes([what | qp << 4 | node << 7]) + bytes(body)


def post(op, *sizes, region=0, flags=2, node=0, qp=RC, more=b""):
    sges = b"".join(struct.pack("<BHH", region, 64 * i, size) for i, size in enumerate(sizes))
    return step(POST, node, struct.pack("<BBBBH", op, flags, len(sizes), region, 128) + sges + more, qp)


def recv(region=0, size=4096, node=1, qp=RC):
    return step(RECV, node, struct.pack("<BBHH", 1, region, 0, size), qp)


def turn(node=0, how=BURST):
    return step(TRANSMIT, node, [31]) + step(DELIVER, 0, [how])


def exchange(*posts):
    return recv() * 3 + b"".join(posts) + (turn(0) + turn(1)) * 3 + step(POLL, 0) + step(POLL, 1)


def capture_program(path):
    program, first = recv() * 4, None
    for frame in frames(path):
        source = frame[6:12]
        first = first or source
        packet = frame[bth_offset(frame):-4]
        program += step(BYTES, source == first, struct.pack("<BbH", 3, 0, len(packet)) + packet)
        program += turn(0) + turn(1)
    return program[:4096]


def engine_corpus(vectors):
    rounds = turn(0) + turn(1)
    for region in range(5):
        for op in range(8):
            yield exchange(post(op, 8, region=region))
            yield exchange(post(op, 1000, 1024, 3000, region=region), post(op, 5))
            yield recv() + post(op, 4000) + turn(0, BURST | LOSE) + step(TIME, 0, [0xAF]) + rounds * 2
            yield recv() + post(op, 4000) + turn(0) + turn(1, BURST | LOSE) + step(TIME, 0, [0xAF]) + rounds * 3
            yield recv() + post(op, 4000) + turn(0, KEEP | BURST) * 2 + rounds * 3
    yield post(SEND, 100) + rounds + recv() + step(TIME, 0, [0x5F]) + rounds
    yield exchange(post(READ, 3000), post(FETCH_ADD, 8, flags=3), post(WRITE_IMM, 20))
    yield post(READ, 3000) + step(DEREG, 1, [0]) + rounds + step(STATE, 0, [0] * 9) + exchange(post(SEND, 9))
    yield post(SEND, 9) + step(STATE, 0, [1]) + post(SEND, 9) + recv(node=0) + rounds
    yield step(INDEX, 0, [1, 255, 255, 0, 0]) + rounds
    yield step(RUBBISH, 0, bytes([80]) + send_entry(2, 2, [(1 << 32, 8, 9)])[:80]) + rounds
    for opcode in range(0x20):
        packet = bytes([opcode, 1, 0, 0, 4, 0, 0, 64, 0, 8, 0, 0x1F, 0])
        yield recv() * 2 + step(PACKET, 1, packet) + rounds
        yield post(READ, 1024) + turn(0) + step(PACKET, 0, packet) + rounds
    for qp in (UC, UD, RC_SRQ, XRC_SEND, UD_SRQ):
        target = {XRC_SEND: XRC_RECV}.get(qp, qp)
        more = bytes([qp == UD_SRQ, 0]) if qp in (UD, UD_SRQ) else b""
        for op in range(16):
            for size in (8, 1000, 3000):
                program = recv(qp=target) * 3 + post(op, size, qp=qp, more=more) * 2
                yield program + rounds * 2 + step(POLL, 0) + step(POLL, 1)
                yield program + turn(0, KEEP) + turn(0, LOSE) + step(STATE, 1, [1], target) + rounds * 2
        yield post(SEND, 100, qp=qp, more=more) + step(STATE, 0, [0] * 9, qp) + recv(qp=target) + rounds
    for window in range(3):
        bind = step(BIND, 1, struct.pack("<BHHBBB", window, 256, 4096, 2, 7, 0xF))
        for op in range(8):
            through = step(THROUGH, 0, struct.pack("<BBBH", window, op, 0, 3000))
            invalidate = post(9, 64, more=bytes([window]))
            yield recv() * 2 + bind + rounds + through + rounds + invalidate + rounds + through + rounds
            yield bind + rounds + through + turn(0, 0) + post(7, node=1, more=bytes([window])) + rounds * 2
    yield step(JOIN, 1, [1], UD) + step(JOIN, 1, [0x44], UD) + recv(qp=UD) + step(JOIN, 1, [0x81], UD)
    # Two ends that have agreed on maps of kept packets.
    agreed = step(JOIN, 0, [0x3D]) + step(JOIN, 1, [0x3D])
    wait = step(TIME, 0, [0xA8]) + rounds * 2
    for op in range(8):
        for lost in (turn(0, LOSE), turn(0, BURST | LOSE), turn(0) + turn(1, LOSE), turn(0, KEEP | BURST) * 2, turn(0, TRIM),
                     turn(0) + turn(1, TRIM), turn(0, KEEP | BURST | TRIM) * 2):
            yield recv() * 4 + post(op, 3000) + lost + post(op, 8) * 3 + rounds * 2 + wait * 3
            yield agreed + recv() * 4 + post(op, 3000) + lost + post(op, 8) * 3 + rounds * 2 + wait * 3 + step(JOIN, 0, [0x3C]) + wait
    for syndrome in (0x1F, 0x60, 0x2C, 0x7E):
        for kept in (b"\0\0\0\x40" + bytes(8), b"\1\0\0\x40" + b"\x0e" + bytes(7), b"\2\0\0\x41" + b"\xff" * 64):
            packet = bytes([RC_ACK, 0x40, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0x40, syndrome, 0, 0, 0]) + kept
            yield agreed + post(WRITE_IMM, 3000) * 2 + turn(0, LOSE) + step(BYTES, 0, struct.pack("<BbH", 3, 0, len(packet)) + packet) + wait * 2
    # READs of nothing, at address 0, by a key of nothing.
    yield base64.b64decode("gQEAAAAAEIEBAAAAABCNAgABABACBw8DHwQEg0YEBA4CAwC4CwMfBASDHwQEAAkCAQCAAAAAAEAAAgMfBASDHwQEDoEBAAAAABAA"
                           "gAAEAQIAAAAAoA8D/wAAAB8EBgivAAAAoA/g+/sAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIDALgLAx8AAAQEAAAAAAAAAAAA"
                           "AAAAAAAAAAAA/OD7+yMfBMEEAx8EBIMfgwQEHwQE")
    for path in sorted(vectors.glob("**/rc-*.pcap")):
        yield capture_program(path)


def replay_corpus(vectors):
    for path in sorted(vectors.glob("**/*.pcap")):
        data, at, count = path.read_bytes(), 24, 0
        while at < len(data):
            at += 16 + struct.unpack_from("<I", data, at + 8)[0]
            count += 1
            if count in (2, 6) or at >= len(data):
                yield data[:at]


def config_corpus(vectors):
    samples = [path.read_text() for path in sorted((vectors.parent.parent / "config").glob("*.ini"))]
    port = "[port.0]\ndevice = 0000:03:00.0\naddress.0 = 10.0.0.1/24\n"
    values = {
        "device": ("loopback", "net_af_packet0,iface=eth1"),
        "mtu": ("1500", "575"),
        "address.1": ("fd00::1/64 vlan 5", "link-local", "10.0.0.2/33", "fe80::/10 vlan 4095"),
        "addresses": ("kernel", "host", "none"),
        "route.0": ("default via 10.0.0.2", "192.0.2.0/24 via 10.0.0.2 vlan 5", "fd00::/8 via fe80::1"),
        "neighbour.0": ("10.0.0.2 02:00:00:00:00:02", "10.0.0.2 1"),
        "roce": ("v1 v2", "v2", ""),
        "exception": ("tap uroce0", "tap", "none"),
        "dad": ("yes", "no"),
        "sl_to_pcp": ("7 6 5 4 3 2 1 0", "0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7", "8"),
        "priority_to_sl": ("0 1 2 3 4 5 6 15",),
        "dscp.0": ("46 26", "64 0"),
        "ets": ("0:strict 3:60 5:40", "7:strict 0,1,2:30 3:70", "0:50 1:51"),
        "flow_control": ("rx", "both", "on"),
        "entropy": ("kernel", "rfc", "spray", "fixed:0xc000", "fixed:49151"),
        "repath": ("3", "8"),
        "trim_dscp": ("50", "64", "no"),
        "queues": ("2", "0"),
        "spread": ("software", "hardware"),
    }
    yield from (sample.encode() for sample in samples)
    for key, texts in values.items():
        for text in texts:
            yield f"[uroced]\nworkers = 1\nmode = 0600\n{port}{key} = {text}\n".encode()
    for quota in ("user.qps = 100", "total.memory = 64M\nuser.memory = 2G", "client.mapped_memory = 512K",
                  "client.cqs = 6\nuser.cqs = 5", "total.qp = 1"):
        yield f"[quota]\n{quota}\n{port}".encode()
    yield b"[uroced]\nsocket = /run/x\nidle_exit = 9\ncpus = 1,3-4\npoll = always\nuserfaultfd = pass\n[port.7]\ndevice = loopback\n[port.3]\ndevice=loopback\n"


def flows_corpus(_):
    files = ("# two\n17 0x11\n0x12 0x34\n", "1 2 10.0.0.1 10.0.0.2\r\n5 6 2001:db8::1 fe80::2", "1\n", "1 2 3\n",
             "1 0x1000000\n", "5" * 300, "1 2\0\n")
    ranges = ("0x10-0x4f:16-79", "1-9/2:0x100-0x104", "7:8", "7:1-5", "5-4:1", "1-3:1-4", "0-0xffffff/65536:1")
    policies = ("kernel", "rfc", "spray", "fixed:49152", "fixed:0xFFFF", "fixed:80")
    answers = ('[{"qpn": 16, "dest_qpn": 17, "sgid": "10.0.0.1", "dgid": "10.0.0.2"}, {"qpn": 18}]',
               '[{"qpn": 16777216, "dest_qpn": -1, "sgid": 1, "dgid": "fe80::1"}]', "{}")
    for kind, texts in enumerate((files, ranges, answers, policies)):
        yield from (bytes([kind]) + text.encode() for text in texts)


def lab_corpus(_):
    shapes = ("star hosts=4", "dumbbell left=2 right=2 neck=10g", "clos leaves=2 spines=2 hosts=2 up=25g", "fattree k=2",
              "host h1 h2 h3\nswitch s1\nlink h1 s1 rate=1g delay=2us\nlink s1 h2 loss=0.1\nlink h3 s1")
    traffic = ("flow h1 h2 size=40K message=8K depth=2 verb=send dscp=8 entropy=spray name=a\n",
               "incast h[1-3],h4 to=h2 size=endless flows=2 stagger=1us verb=read\n", "permutation shift=1 start=0.5us\n",
               "alltoall * size=1\npermutation\n", "poisson load=0.5 sizes=1K:3,20K:1 stop=15us\n", "flow l1 r2\n")
    more = ("", "seed 4\nuntil 10us\nsample 1us\nconverge 0\n", "hosts control=dcqcn ecn=no cnp=no mtu=256 timeout=4 retry=1\n",
            "switches buffer=64K alpha=0.5 mark=red:4K:20K:0.5 pfc=0,3 xoff=8K xon=2K headroom=9K ecmp=adaptive seed=3\n",
            "switches mark=step:4K ecmp=spray\nlinks rate=400g delay=0.1us\nhosts h1 entropy=fixed:50000 repath=1 window=8\n",
            "switches buffer=20K trim=yes\nhosts trim=no\n", "switches buffer=9K alpha=all trim=26\nhosts trim=26\n")
    faults = ("", "fail h1 s1 at=2us until=9us\n", "fail leaf1 spine1 silent=yes\nmark leaf1 h1 frames=2\n", "lose h1 s1 at=1us\n")
    for number, shape in enumerate(shapes):
        for other, lines in enumerate(traffic):
            before, after = more[(number + other) % len(more)], faults[(number * 2 + other) % len(faults)]
            yield f"{before}{shape} # nodes\n{lines}{after}".encode()
    rules = ("drop rx nth 3\nfault h1 corrupt tx chance 0.2 seed 7\nfault delay 2us opcode RC_ACK device h2",
             "h[1-2] reorder 2\nfault duplicate nth 2\nfault link_down after 5us for 2us device h1\nfault corrupt sealed header",
             "nak remote_access count 2\nfault mark qp 0x11 psn 4-9 sport 0xC000", "fail reg_mr ENOMEM", "h1 qp_error qp 1", "h9 drop", "h1")
    for number, text in enumerate(rules):
        yield f"{shapes[0]}\n{traffic[number % 4]}fault {text}\n".encode()


def inject_corpus(vectors):
    rules = ("drop rx opcode RC_ACK,RC_READ_* chance 0.01 seed 7", "duplicate tx qp 0x11 psn 16777214-1 nth 3 count 4",
             "corrupt header sealed", "corrupt payload", "corrupt", "mark device uroce0 after 20us for 3s", "delay 5ms", "reorder 3",
             "nak remote_access rx opcode RC_ACK", "nak rnr sport 0xC000", "fail reg_mr ENOMEM program ib_write_bw nth 3",
             "fail connect ECONNREFUSED after 1s", "qp_error qp 0x12 device uroce1", "event port_err", "fail poll_cq EIO", "link_down after 1s for 3s",
             "drop chance 1.5", "delay 5", "drop opcode RC_NACK")
    some = [frame for path in sorted(vectors.glob("**/*.pcap"))[:3] for frame in list(frames(path))[:4]]
    for number, rule in enumerate(rules):
        yield rule.encode()
        if some:
            yield rule.encode() + b"\0" + some[number % len(some)][:512]


def rsockets_corpus(_):
    buffers = struct.pack(">QIIQII", 0x7F0000001000, 0x1234, 2, 0x7F0000002000, 0x5678, 65536)
    for flags, scale in ((2, 16), (3, 128), (2, 0x83), (0, 200)):
        yield b"\0" + struct.pack(">BBH3xB", 1, flags, 384, scale) + buffers
    for op in (0, 7, 3):
        yield b"\1" + struct.pack(">IBBBxI4s", 0x55555555, 4, op, 16, 17, bytes([10, 0, 0, 1])) + b"data"
        yield b"\1" + struct.pack(">IBBBxI16s", 0x55555555, 6, op, 28, 17, bytes(15) + b"\1")
    yield b"\2\4\x08\x12\x34" + bytes([10, 0, 0, 1]) + b"data"
    yield b"\2\6\x18\x12\x34" + bytes(4) + bytes(15) + b"\1data"
    data, credits, iomap, turn = ((kind << 29) for kind in (0, 4, 6, 7))
    for values in ((data | 30, turn | 20, turn | 10, data | 32, turn | 64, credits | 9, data | 40), (iomap, data | 64, data | 1),
                   (data | 0x1FFFFFFF,), (turn | 5, credits | 0x1FFFF, turn, turn, turn)):
        yield b"\3\x3f\x07" + b"".join(struct.pack("<I", value) for value in values)


def perf_options_corpus(_):
    lines = ("--mode\nsend\n--size\n64K\n--depth=8", "--mode=ud\n--verify\n--bidirectional", "--cpus\n0,2-3,1\n--workers\n4",
             "--duration\n0.25\n--stats-period=1e-1\n--format\ncsv", "--signal\n16\n--inline\n512\n--mtu\n256\n--floor\noff",
             "--messages\n0x10\n--seed\n18446744073709551615\n--batch", "--help", "--mode=io\n--size\n60\n--interactive",
             "--rate\n500000\n--arrivals=even", "--loads\n5,50,100\n--arrivals\npoisson", "--loads=20,101", "--server\n--port\n7000", "--client\n10.0.0.1\n--qps\n5",
             "--buffer\n1M\n--idle\n5\n--qps\n7", "--size")
    yield from (text.encode() for text in lines)


def raw_frames():
    ethernet = bytes.fromhex("020000000001bb0102030405")
    l4 = {17: struct.pack(">HHHH", 1000, 53, 12, 0) + b"body", 6: struct.pack(">HH", 443, 50000) + bytes(16) + b"body",
          1: b"\x08\0\0\0body"}
    tags = (b"", b"\x81\0\xa1\x23", b"\x88\xa8\0\x64\x81\0\x2f\xff")
    bodies = []
    for proto, body in l4.items():
        for options, fragment in ((0, 0x4000), (3, 0), (0, 0x2000), (0, 0x2010)):
            bodies.append(struct.pack(">HBBHHHBBH4s4s", 0x0800, 0x45 + options, 0xB8, 20 + 4 * options + len(body), 1,
                                      fragment, 64, proto, 0, b"\xc0\0\2\1", b"\xc0\0\2\2") + b"\1" * 4 * options + body)
        for chain in ((), (0,), (0, 60, 43), (44,), (51,), (135, 139, 140)):
            rest, first = b"", (chain + (proto,))[0]
            for kind, after in zip(chain, chain[1:] + (proto,)):
                rest += bytes([after, 0, 0, 1]) + bytes(4) if kind == 44 else bytes([after, 2 if kind == 51 else 1]) + bytes(14)
            bodies.append(struct.pack(">HIHBB", 0x86DD, 0x60012345, len(rest + body), first, 64) +
                          bytes(15) + b"\1" + bytes(15) + b"\2" + rest + body)
    bodies.append(b"\x08\x06" + bytes(28))
    for body in bodies:
        for tag in tags:
            yield ethernet + tag + body


def tunnel_frames():
    """A frame in each tunnel, and in IP headers of both versions."""
    ethernet = bytes.fromhex("020000000001bb0102030405")
    body = struct.pack(">HHHH", 1000, 53, 12, 0) + b"body"
    v4 = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 1, 0x4000, 64, 17, 0, b"\xc0\0\2\1", b"\xc0\0\2\2") + body
    v6 = struct.pack(">IHBB", 0x60000000, len(body), 17, 64) + bytes(15) + b"\1" + bytes(15) + b"\2" + body
    label, bottom = struct.pack(">I", 0x12345040), struct.pack(">I", 0x12345140)
    for kind, inner in ((0x0800, v4), (0x86DD, v6)):
        frame = ethernet + struct.pack(">H", kind) + inner
        udp = [(4789, struct.pack(">II", 0x08000000, 0xABCDEF00) + frame), (6635, label + bottom + inner)]
        inside = [(17, struct.pack(">HHHH", 999, port, 8 + len(rest), 0) + rest) for port, rest in udp]
        inside += [(47, struct.pack(">HH", flags, protocol) + bytes(4 * bin(flags).count("1")) + rest)
                   for flags in (0, 0x2000, 0xB000) for protocol, rest in ((kind, inner), (0x6558, frame), (0x8847, bottom + inner))]
        inside += [(50, bytes(range(40))), (137, bottom + inner)]
        for proto, rest in inside:
            yield ethernet + struct.pack(">HBBHHHBBH4s4s", 0x0800, 0x45, 0, 20 + len(rest), 1, 0, 64, proto, 0, b"\x0a\0\0\1",
                                         b"\x0a\0\0\2") + rest
            yield ethernet + struct.pack(">HIHBB", 0x86DD, 0x60000000, len(rest), proto, 64) + bytes(32) + rest
        for labels in (bottom, label + bottom, label * 7 + bottom, label * 8 + bottom):
            yield ethernet + b"\x88\x47" + labels + inner


def raw_corpus(_):
    for number, frame in enumerate((*raw_frames(), *tunnel_frames())):
        head = bytes([number % 60, 1 << number % 8, number % 4, (0x33, 0x3C, 0xC3, 0xCC)[number % 4]])
        yield head + frame
        yield head + frame[:-9]


KINDS = {"packet": packet_corpus, "queue": queue_corpus, "engine": engine_corpus,
         "replay": replay_corpus, "config": config_corpus, "flows": flows_corpus, "inject": inject_corpus, "lab": lab_corpus,
         "perf_options": perf_options_corpus, "rsockets": rsockets_corpus, "raw": raw_corpus}


def main():
    kind, vectors, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for data in KINDS[kind](vectors):
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


main()
