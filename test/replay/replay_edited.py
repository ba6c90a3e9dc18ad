#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Replays edited captures: replay_edited.py UROCE FOLDER. TAP.

What a capture may look like without the traffic being another (a VLAN, other queue pair numbers, a
late beginning, another file format) must not make a difference; what the peer cannot have sent that
way must make one, at the edited frame; and files that are no captures must be refused.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

ETH, IPV4, IPV6, UDP = 14, 20, 40, 8
BTH_SE_PAD, BTH_PKEY, BTH_QPN, BTH_ACK, BTH_PSN = 1, 2, 5, 8, 9
AETH = 12


# ---- frames ----

def is_v6(frame):
    return frame[12:14] == b"\x86\xdd"


def bth(frame):
    return ETH + (IPV6 if is_v6(frame) else IPV4) + UDP


def seal(frame):
    """The frame with lengths, IPv4 checksum and ICRC made right again."""
    frame = bytearray(frame)
    at = bth(frame)
    struct.pack_into(">H", frame, at - 4, len(frame) - at + UDP)
    if is_v6(frame):
        struct.pack_into(">H", frame, ETH + 4, len(frame) - ETH - IPV6)
    else:
        struct.pack_into(">HH", frame, ETH + 2, len(frame) - ETH, struct.unpack_from(">H", frame, ETH + 4)[0])
        struct.pack_into(">H", frame, ETH + 10, 0)
        total = sum(struct.unpack_from(">10H", frame, ETH))
        total = (total & 0xFFFF) + (total >> 16)
        struct.pack_into(">H", frame, ETH + 10, 0xFFFF - ((total & 0xFFFF) + (total >> 16)))
    masked = bytearray(frame[ETH:-4])
    if is_v6(frame):
        masked[0] |= 0x0F
        masked[1:4] = b"\xff" * 3
        masked[7] = 0xFF
    else:
        masked[1] = masked[8] = 0xFF
        masked[10:12] = b"\xff\xff"
    masked[at - ETH - 2:at - ETH] = b"\xff\xff"
    masked[at - ETH + 4] = 0xFF
    struct.pack_into("<I", frame, len(frame) - 4, zlib.crc32(b"\xff" * 8 + bytes(masked)))
    return bytes(frame)


def edit(offset, value, from_bth=True):
    """A frame's edit: these bytes in place of those at the offset."""
    def change(frame):
        at = offset + (bth(frame) if from_bth else 0)
        return seal(frame[:at] + value + frame[at + len(value):])
    return change


def flip(offset, mask, from_bth=True):
    def change(frame):
        at = offset + (bth(frame) if from_bth else 0)
        return seal(frame[:at] + bytes([frame[at] ^ mask]) + frame[at + 1:])
    return change


def shorten(frame):
    """Four bytes of payload less."""
    return seal(frame[:-8] + frame[-4:])


def with_vlan(frame):
    return frame[:12] + b"\x81\x00\x60\x64" + frame[12:]


def as_rocev1(frame):
    """An IPv6 frame as RoCEv1: the IPv6 header becomes a GRH, and UDP goes."""
    packet = frame[bth(frame):-4]
    grh = bytearray(frame[ETH:ETH + IPV6])
    struct.pack_into(">HB", grh, 4, len(packet) + 4, 0x1B)
    masked = bytearray(grh + packet)
    masked[0] |= 0x0F
    masked[1:4] = b"\xff" * 3
    masked[7] = masked[IPV6 + 4] = 0xFF
    icrc = struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))
    return frame[:12] + b"\x89\x15" + bytes(grh) + packet + icrc


def with_ethernet_padding(frame):
    return frame + bytes(max(0, 60 - len(frame)))


def with_bad_icrc(frame):
    return frame[:-1] + bytes([frame[-1] ^ 0x5A])


def with_qpn(qpn):
    return edit(BTH_QPN, struct.pack(">I", qpn)[1:])


def psn(frame):
    return int.from_bytes(frame[bth(frame) + BTH_PSN:][:3], "big")


# ---- captures: lists of (nanoseconds, frame) ----

def read(path):
    data = path.read_bytes()
    unit = 1 if data[:4] == b"\x4d\x3c\xb2\xa1" else 1000
    at, records = 24, []
    while at < len(data):
        seconds, parts, caplen = struct.unpack_from("<III", data, at)
        records.append((seconds * 10**9 + parts * unit, data[at + 16:at + 16 + caplen]))
        at += 16 + caplen
    return records


def pcap(records, link=1, snap=None):
    out = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, link)
    for at, frame in records:
        kept = frame[:snap]
        out += struct.pack("<IIII", at // 10**9, at % 10**9, len(kept), len(frame)) + kept
    return out


def pcapng(records):
    def block(kind, body):
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    out = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(1, struct.pack("<HHI", 1, 0, 65535))
    for at, frame in records:
        out += block(6, struct.pack("<IIIII", 0, at // 1000 >> 32, at // 1000 & 0xFFFFFFFF,
                                    len(frame), len(frame)) + frame)
    return out


def change_all(change):
    return lambda records: [(at, change(frame)) for at, frame in records]


def change_frame(number, change):
    return lambda records: [(at, change(f) if n == number else f)
                            for n, (at, f) in enumerate(records, 1)]


def change_side(side, change):
    """The frames that one side sent."""
    def apply(records):
        source = records[0][1][6:12]
        return [(at, change(f) if (f[6:12] == source) == (side == "A") else f) for at, f in records]
    return apply


def only_side(side):
    def apply(records):
        source = records[0][1][6:12]
        return [(at, f) for at, f in records if (f[6:12] == source) == (side == "A")]
    return apply


def without_first(n):
    return lambda records: records[n:]


def without(number):
    return lambda records: records[:number - 1] + records[number:]


def with_frame(after, number, change):
    """A changed copy of a frame behind another."""
    def apply(records):
        at = records[after - 1][0]
        return records[:after] + [(at, change(records[number - 1][1]))] + records[after:]
    return apply


def unchanged(frame):
    return frame


def chain(*edits):
    """Edits one after the other: a later one counts frames as the earlier ones left them."""
    def apply(records):
        for change in edits:
            records = change(records)
        return records
    return apply


def same(records):
    return records


# ---- cases ----

AGREE = [
    # what, capture, edit, frames compared at least
    ("another file format", "rc-pipelined-v4", same, 54, pcapng),
    ("a VLAN", "rc-mtu512-v4", change_all(with_vlan), 14, pcap),
    ("a VLAN and IPv6", "rc-read-v6", change_all(with_vlan), 19, pcap),
    ("Ethernet padding", "rc-send-only-v4", change_all(with_ethernet_padding), 14, pcap),
    ("a large queue pair number", "rc-pipelined-v4", change_side("A", with_qpn(0xABCDEF)), 54, pcap),
    ("large numbers of datagram queue pairs", "ud-send-v4", change_all(with_qpn(0x345678)), 8, pcap),
    ("a beginning in the middle of a connection", "rc-pipelined-v4", without_first(14), 20, pcap),
    ("a beginning in the middle of a message", "rc-psn-wrap-v4", without_first(1), 8, pcap),
    ("a beginning before a NAK", "rc-nak-oob-read-v6", without_first(1), 0, pcap),
    ("a beginning before one of several RNR NAKs", "rc-rnr-writeimm-v6", without_first(1), 16, pcap),
    ("a beginning before a request that gets a NAK", "rc-nak-mw-invalidated-v4", without_first(2), 2, pcap),
    ("a beginning before an ACK that no request asks for", "rc-netem-dup-v6", without_first(2), 70, pcap),
    ("a beginning in the middle of a response", "rc-read-v4", without_first(15), 0, pcap),
    ("requests alone", "rc-pipelined-v4", only_side("A"), 23, pcap),
    ("responses alone", "rc-pipelined-v4", only_side("B"), 0, pcap),
    ("a frame with a wrong ICRC besides", "rc-write-only-v4",
     with_frame(1, 3, with_bad_icrc), 12, pcap),
    ("MigReq set", "rc-write-multi-v4", change_all(flip(BTH_SE_PAD, 0x40)), 9, pcap),
    ("FECN set", "rc-write-multi-v4", change_all(flip(4, 0x80)), 9, pcap),
    ("AckReq in a first packet", "rc-write-multi-v4", change_frame(1, flip(BTH_ACK, 0x80)), 9, pcap),
    ("another source port", "rc-write-only-v4", change_all(
        lambda f: seal(f[:ETH + IPV4] + b"\xd1\x23" + f[ETH + IPV4 + 2:])), 12, pcap),
    ("a UDP checksum", "rc-write-only-v4", change_all(edit(-2, b"\x12\x34")), 12, pcap),
    ("RoCEv1", "rc-pipelined-v6", change_all(as_rocev1), 54, pcap),
    ("a VLAN and RoCEv1", "rc-mtu2048-v6",
     change_all(lambda frame: with_vlan(as_rocev1(frame))), 14, pcap),
    ("an acknowledge that the capture misses", "rc-write-only-v4", without(4), 11, pcap),
    ("an acknowledged request that the capture misses", "rc-write-only-v4", without(3), 6, pcap),
    ("a lost packet of an unreliable SEND", "uc-send-v4", without(4), 9, pcap),
    ("a lost packet of an unreliable WRITE", "uc-write-v4", without(8), 9, pcap),
    ("a lost datagram", "ud-send-v4", without(3), 7, pcap),
    ("a READ response that the capture misses", "rc-read-v4", without(16), 17, pcap),
    # The responder may say so, or be silent; and the MSN in the answer to a duplicate atomic may be any.
    ("a sequence error NAK behind an RNR NAK", "rc-rnr-v4", with_frame(16, 16, edit(AETH, b"\x60")), 20, pcap),
    ("the MSN of a duplicate atomic, that of the first answer", "rc-atomic-v4",
     chain(with_frame(4, 1, unchanged), with_frame(5, 2, unchanged)), 8, pcap),
    ("the MSN of a duplicate atomic, that of the last answer", "rc-atomic-v4",
     chain(with_frame(4, 1, unchanged), with_frame(5, 2, edit(AETH + 1, b"\x00\x00\x02"))), 8, pcap),
    # The second message is refused once; its packet behind the first refusal of all was no attempt.
    ("a dropped packet of a message that is refused later", "rc-rnr-v4",
     chain(with_frame(21, 16, edit(BTH_PSN, b"\x12\x34\x57\x30\x00\x00\x01")), with_frame(22, 21, unchanged),
           with_frame(2, 21, unchanged)), 20, pcap),
]

# Captures in which much goes wrong. Where one ends is no fault of those in it.
ENDS = [f"rc-{name}-v{version}" for version in (4, 6)
        for name in ("netem-dup", "netem-loss", "netem-reorder", "netem-rloss", "rnr", "rnr-exceeded", "rnr-writeimm")]

NOTHING = [
    # what has no frame that can be replayed, capture, edit, what the message says besides
    ("no frames", "rc-write-only-v4", lambda records: [], "0 frames", pcap),
    ("frames cut short", "rc-send-multi-v4", same, "snap length", lambda records: pcap(records, snap=200)),
    ("another partition", "rc-write-only-v4", change_all(edit(BTH_PKEY, b"\x80\x01")), "12 frames", pcap),
]

DIFFER = [
    # what, capture, edit, side that notices, kind, fields, frame
    ("MSN", "rc-write-only-v4", change_frame(4, flip(AETH + 3, 0x01)), "B", "field", "msn", 4),
    ("reserved bits", "rc-write-only-v4", change_frame(3, flip(BTH_ACK, 0x01)), "A", "field",
     "other_bytes", 3),
    ("hop limit of one frame", "rc-write-only-v4", change_frame(3, edit(ETH + 8, b"\x07", False)),
     "A", "field", "hop_limit", 3),
    ("traffic class of one frame", "rc-write-only-v4",
     change_frame(4, edit(ETH + 1, b"\x20", False)), "B", "field", "dscp", 4),
    ("solicited in a first packet", "rc-write-multi-v4", change_frame(1, flip(BTH_SE_PAD, 0x80)),
     "A", "field", "solicited", 1),
    ("key in the second of two equal requests", "rc-rnr-v4",
     change_frame(3, flip(AETH, 0x01)), "A", "field", "payload", 3),
    ("READ response of another opcode", "rc-read-v4", change_frame(16, edit(0, b"\x0d")), "B",
     "field", "length", None),
    ("READ response that is too short", "rc-read-v4", change_frame(10, shorten), "A", "completion",
     None, None),
    ("WRITE that is shorter than it says", "rc-write-multi-v4", change_frame(8, shorten), "B",
     None, None, None),
    ("a NAK that nothing was lost for", "rc-write-multi-v4",
     with_frame(6, 3, edit(AETH, b"\x60")), "B", "missing_answer", None, None),
    ("an RNR NAK, and yet an ACK", "rc-send-only-v4", with_frame(13, 14, edit(AETH, b"\x30")), "B",
     "missing_answer", None, 15),
    ("an invalid request that was a good one", "rc-send-only-v4",
     with_frame(1, 2, edit(AETH, b"\x64")), "B", "missing_answer", None, 2),
]

REFUSED = [
    ("an empty file", lambda good: b""),
    ("rubbish", lambda good: bytes(range(256)) * 4),
    ("a file cut off", lambda good: good[:-5]),
    ("another link type", lambda good: good[:20] + struct.pack("<I", 101) + good[24:]),
]


class Runner:
    def __init__(self, uroce, folder):
        self.uroce, self.folder = uroce, folder
        self.count = self.failed = 0
        self.temporary = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.temporary.name) / "edited.pcap"

    def point(self, what, wrong):
        self.count += 1
        self.failed += bool(wrong)
        for line in wrong:
            print(f"# {line}")
        print(f"{'not ' if wrong else ''}ok {self.count} - {what}", flush=True)

    def replay(self, data, *options):
        self.file.write_bytes(data)
        done = subprocess.run([self.uroce, "replay", *options, self.file], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def records(self, name):
        return read(self.folder / f"{name}.pcap")

    def agree(self, what, capture, change, least, form):
        status, out, err = self.replay(form(change(self.records(capture))), "--json")
        wrong = []
        if status != 0:
            wrong.append(f"exit status {status}: {err}")
        if out:
            result = json.loads(out)
            for run in result["runs"]:
                wrong += [f"side {run['side']}: {d['kind']} {d.get('fields')} {d.get('text')} frame {d['frame']}"
                          for d in run["differences"]]
            compared = sum(run["compared"] for run in result["runs"])
            if compared < least:
                wrong.append(f"only {compared} frames were compared, not {least}")
        self.point(f"{what} makes no difference", wrong)

    def differ(self, what, capture, change, side, kind, fields, frame):
        status, out, err = self.replay(pcap(change(self.records(capture))), "--json")
        wrong = [] if status == 1 else [f"exit status {status}: {err}"]
        found = [d for run in json.loads(out or '{"runs": []}')["runs"] if run["side"] == side
                 for d in run["differences"]]
        if not [d for d in found if kind in (None, d["kind"]) and frame in (None, d["frame"]) and
                (fields is None or fields in d.get("fields", "").split())]:
            wrong.append(f"not found among {[(d['kind'], d.get('fields'), d['frame']) for d in found]}")
        self.point(f"noticed: {what}", wrong)

    def ends(self, name):
        records = self.records(name)
        wrong = []
        for end in sorted({1, *range(2, len(records), max(1, len(records) // 5))}):
            status, out, err = self.replay(pcap(records[:end]), "--json")
            wrong += [f"exit status {status}: {err}"] * (status not in (0, 1))
            wrong += [f"{end} frames, side {run['side']}: {d['kind']} {d.get('fields')} {d.get('text')} frame {d['frame']}"
                      for run in (json.loads(out)["runs"] if out else []) for d in run["differences"]]
        self.point(f"the end of {name} makes no difference", wrong)

    def nothing(self, what, capture, change, message, form):
        status, out, err = self.replay(form(change(self.records(capture))), "--json")
        json.loads(out)
        self.point(f"{what}: nothing is replayed", [] if status == 2 and message in err else [f"{status}: {err}"])

    def refused(self, what, spoil):
        status, out, err = self.replay(spoil(pcap(self.records("rc-write-only-v4"))))
        self.point(f"refused: {what}", [] if status == 2 and err else [f"exit status {status}: {out}{err}"])

    def merged(self):
        """Captures of many connections at once, mixed by time."""
        names = sorted(p.stem for p in self.folder.glob("*.pcap") if "rloss" not in p.stem)
        records = []
        for name in names:
            one = self.records(name)
            records += [(at - one[0][0], frame) for at, frame in one]
        records.sort(key=lambda record: record[0])
        status, out, err = self.replay(pcap(records), "--json")
        compared = sum(run["compared"] for run in json.loads(out)["runs"]) if out else 0
        self.point(f"all captures at once are replayed ({compared} of {len(records)} frames compared)",
                   [] if status in (0, 1) and compared > len(records) // 4 else [f"exit status {status}: {err}"])

    def text(self):
        status, out, _ = self.replay(pcap(change_frame(4, flip(AETH + 3, 0x01))(self.records("rc-write-only-v4"))))
        wanted = ("frame 4", "msn", "recorded:", "ours:", "RC_ACK", "0000  ")
        self.point("differences are printed with both frames in text and hex",
                   [f"missing: {w}" for w in wanted if w not in out] + ([] if status == 1 else [f"{status}"]))

    def usage(self):
        for arguments in ([], ["--side", "C", "x"], ["--nonsense"], ["a", "b"], ["/nonexistent"]):
            done = subprocess.run([self.uroce, "replay", *arguments], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
            self.point(f"wrong usage: {' '.join(arguments) or '(nothing)'}",
                       [] if done.returncode == 2 and done.stderr else [f"{done.returncode}: {done.stderr}"])


def main():
    runner = Runner(sys.argv[1], pathlib.Path(sys.argv[2]))
    print(f"1..{len(AGREE) + len(ENDS) + len(NOTHING) + len(DIFFER) + len(REFUSED) + 7}")
    for case in AGREE:
        runner.agree(*case)
    for name in ENDS:
        runner.ends(name)
    for case in NOTHING:
        runner.nothing(*case)
    for case in DIFFER:
        runner.differ(*case)
    for case in REFUSED:
        runner.refused(*case)
    runner.merged()
    runner.text()
    runner.usage()
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
