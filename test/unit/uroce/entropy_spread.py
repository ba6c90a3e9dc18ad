#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce entropy` against the same computed here from the published definitions: entropy_spread.py UROCE

No code is shared with it: CRCs are the standard library's, Toeplitz is a product with the key as a number, and
expectations for random choice are computed exactly."""
import binascii
import collections
import functools
import ipaddress
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "kit"))
from uroce_kit import Failure, Tap

UROCE = sys.argv[1]
SRC, DST = "192.0.2.1", "192.0.2.2"
MICROSOFT = ("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b4"
             "77cb2da38030f20c6a42b73bbeac01fa")
SYMMETRIC = "6d5a" * 20
MASK64 = (1 << 64) - 1


def require(condition, what):
    if not condition:
        raise Failure(what)


def uroce(*arguments, stdin=""):
    return subprocess.run([UROCE, "entropy", *arguments], input=stdin, capture_output=True, text=True, timeout=60)


def answer(*arguments, stdin=""):
    done = uroce(*arguments, "--json", stdin=stdin)
    require(done.returncode == 0 and not done.stderr, f"{arguments}: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


# ---- source ports ----

def split_mix(state):
    while True:
        state = state + 0x9E3779B97F4A7C15 & MASK64
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
        yield z ^ z >> 31


def kernel_port(s, d, _):
    v = s * d
    v ^= v >> 20
    v ^= v >> 40
    label = v & 0xFFFFF
    return (label & 0x3FFF) ^ ((label & 0xFC000) >> 14) | 0xC000


def rfc_port(s, d, _):
    def folded(qpn):
        low, middle, high = qpn.to_bytes(3, "little")
        return low ^ high | middle << 8
    return (folded(s) if s == d or d == 0xFFFFFF else folded(s) ^ folded(d)) | 0xC000


def spray_port(s, d, message):
    r = next(split_mix(min(s, d) << 32 | max(s, d)))
    return 0xC000 + ((r & 0xFFFFFFFF) + (r >> 32 | 1) * message) % 0x4000


def port_function(policy):
    if policy.startswith("fixed:"):
        return lambda s, d, message: int(policy[6:])
    return {"kernel": kernel_port, "rfc": rfc_port, "spray": spray_port}[policy]


# ---- hashes ----

def words(data):
    return [int.from_bytes(data[i:i + 2], "big") for i in range(0, len(data), 2)]


def xor_hash(data, seed):
    total = seed & 0xFFFF
    for word in words(data):
        total ^= word
    return total


@functools.lru_cache
def windows(key):
    number = int(key, 16)
    return [number >> (4 * len(key) - 32 - i) & 0xFFFFFFFF for i in range(4 * len(key) - 31)]


def toeplitz(data, key):
    total = 0
    for window, bit in zip(windows(key), f"{int.from_bytes(data, 'big'):0{8 * len(data)}b}"):
        if bit == "1":
            total ^= window
    return total


def hash_of(name, seed, key, src, dst, port):
    data = (ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed + port.to_bytes(2, "big")
            + (4791).to_bytes(2, "big"))
    if name == "toeplitz":
        return toeplitz(data, key)
    data += (17).to_bytes(2, "big")
    if name == "crc16":
        return binascii.crc_hqx(data, seed & 0xFFFF)
    return zlib.crc32(data, seed) if name == "crc32" else xor_hash(data, seed)


# ---- spreads ----

def spread(flows, policy, name, paths, seed=0, key=MICROSOFT, high=False, messages=64):
    port, load, first, tuples = port_function(policy), [0] * paths, collections.Counter(), collections.Counter()
    width = 16 if name in ("crc16", "xor") else 32
    count = messages if policy == "spray" else 1
    for s, d, src, dst in flows:
        for message in range(count):
            value = hash_of(name, seed, key, src, dst, port(s, d, message))
            path = value * paths >> width if high else value % paths
            load[path] += 1
            if message == 0:
                first[path] += 1
                tuples[src, dst, port(s, d, 0)] += 1
    load = [x / count for x in load]
    mean = len(flows) / paths
    return {"policy": policy, "hash": name, "paths": paths, "load": load, "idle": load.count(0),
            "shared": sum(n for n in first.values() if n > 1), "ports": len(tuples),
            "same_port": sum(n for n in tuples.values() if n > 1), "imbalance": max(load) / mean,
            "cv": math.sqrt(sum((x - mean) ** 2 for x in load) / paths) / mean}


def same(found, expected):
    require(found.keys() == expected.keys(), f"{sorted(found)} is not {sorted(expected)}")
    for name, value in expected.items():
        if isinstance(value, float) or name == "load":
            pairs = zip(found[name], value) if name == "load" else [(found[name], value)]
            require(all(abs(a - b) < 1e-9 for a, b in pairs), f"{name}: {found[name]}, not {value}, of {expected}")
        else:
            require(found[name] == value, f"{name}: {found[name]!r}, not {value!r}, of {expected}")


POLICIES, HASHES = ("kernel", "rfc", "fixed:49152", "spray"), ("toeplitz", "crc16", "crc32", "xor")


def check(flows, *arguments, policies=POLICIES, hashes=HASHES, paths=(8,), stdin="", **options):
    found = answer(*arguments, stdin=stdin)
    require(found["flows"] == len(flows), f"{found['flows']} flows, not {len(flows)}")
    require([b["paths"] for b in found["baselines"]] == list(paths), f"baselines: {found['baselines']}")
    expected = [(n, p, h) for n in paths for p in policies for h in hashes]
    require(len(found["spreads"]) == len(expected), f"{len(found['spreads'])} spreads")
    for one, (n, p, h) in zip(found["spreads"], expected):
        same(one, spread(flows, p, h, n, **options))
    return found


def pairs(sources, destinations, src=SRC, dst=DST):
    return [(s, d, src, dst) for s, d in zip(sources, destinations)]


def test_ranges():
    check(pairs(range(0x10, 0x50), range(0x10, 0x50)), "--qps", "0x10-0x4f:16-79")
    check(pairs(range(0x100, 0x140, 2), range(0x101, 0x141, 2)), "-q", "0x100-0x13f/2:0x101-0x140/2")
    check(pairs([7] * 20, range(40, 60)), "--qps", "7:40-59")
    check(pairs(range(40, 60), [0xFFFFFF] * 20), "--qps", "40-59:0xffffff")
    check(pairs([0], [0]), "--qps", "0:0")
    check(pairs([1, 2, 3, 9], [4, 5, 6, 9]), "--qps", "1-3:4-6", "--qps", "9:9")


def test_options():
    flows = pairs(range(0x800, 0x880), range(0x1000, 0x1080))
    base = ["--qps", "0x800-0x87f:0x1000-0x107f"]
    check(flows, *base, "--paths", "1,2,3,7,64", paths=(1, 2, 3, 7, 64))
    check(flows, *base, "--select", "high", "--paths", "3,16", paths=(3, 16), high=True)
    check(flows, *base, "--seed", "0xdeadbeef", seed=0xDEADBEEF)
    check(flows, *base, "--key", "symmetric", "--hash", "toeplitz,xor", hashes=("toeplitz", "xor"), key=SYMMETRIC)
    other = "".join(f"{(7 * i + 3) % 256:02x}" for i in range(52))
    check(flows, *base, "--key", ":".join(re.findall("..", other)), "-H", "toeplitz", hashes=("toeplitz",), key=other)
    check(flows, *base, "--messages", "5", "-p", "spray", "-n", "4,16", policies=("spray",), messages=5, paths=(4, 16))
    check(flows, *base, "--policy", "fixed:65535,rfc", "--hash", "xor", policies=("fixed:65535", "rfc"),
          hashes=("xor",))
    check([(s, d, "10.1.2.3", "10.3.2.1") for s, d, _, _ in flows], *base, "--src", "10.1.2.3", "--dst", "10.3.2.1")
    check([(s, d, "2001:db8::1", "fe80::2") for s, d, _, _ in flows], *base, "--src", "2001:db8::1", "--dst", "fe80::2")


def random_pairs(seed, count):
    generator = split_mix(seed)
    below = lambda: 0x10 + ((next(generator) >> 32) * (0xFFFFFE - 0x10 + 1) >> 32)
    return [(below(), below(), SRC, DST) for _ in range(count)]


def test_random():
    check(random_pairs(0, 100), "--random", "100")
    check(random_pairs(77, 100), "--random", "100", "--random-seed", "77", "--paths", "16", paths=(16,))


def test_files():
    text = ("# two hosts\n 17 0x11\n0x12\t0x34 # known\n\n   \n#\n291 0xABCDEF 10.0.0.1 10.0.0.2\n"
            "5 6 2001:db8::1 2001:db8::2\r\n5 6 2001:db8::1 2001:db8::3")
    flows = [(0x11, 0x11, SRC, DST), (0x12, 0x34, SRC, DST), (291, 0xABCDEF, "10.0.0.1", "10.0.0.2"),
             (5, 6, "2001:db8::1", "2001:db8::2"), (5, 6, "2001:db8::1", "2001:db8::3")]
    check(flows, "--file", "-", stdin=text)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        check(flows + pairs([1], [2]), "--file", file.name, "-q", "1:2")


# ---- what to compare with ----

def expected_maximum(flows, paths):
    """Exactly, of the fullest of paths that flows choose at random: the sum of P(max > m)."""
    total = 0.0
    for m in range(flows):
        ways = [1.0] + [0.0] * flows  # P(flows placed so far), each path at most m
        for path in range(paths):
            chance, after = 1 / (paths - path), [0.0] * (flows + 1)
            for placed, weight in enumerate(ways):
                left = flows - placed
                for here in range(min(m, left) + 1) if weight else ():
                    after[placed + here] += (weight * math.comb(left, here) * chance ** here
                                             * (1 - chance) ** (left - here))
            ways = after
        total += 1 - ways[flows]
    return total


def test_baselines():
    for flows, paths in ((16, 2), (20, 8), (64, 8), (30, 7), (5, 16)):
        found = answer("--random", str(flows), "--paths", str(paths), "-p", "rfc", "-H", "xor")["baselines"][0]
        mean, most = flows / paths, -(-flows // paths)
        loads = [flows // paths + (p < flows % paths) for p in range(paths)]
        ideal = {"imbalance": most / mean, "cv": math.sqrt(sum((x - mean) ** 2 for x in loads) / paths) / mean}
        for name, value in ideal.items():
            require(abs(found["ideal"][name] - value) < 1e-9, f"ideal {name} {found['ideal'][name]}, not {value}")
        chance = {"cv": math.sqrt((paths - 1) / flows), "idle": paths * (1 - 1 / paths) ** flows,
                  "shared": flows * (1 - (1 - 1 / paths) ** (flows - 1))}
        for name, value in chance.items():
            require(abs(found["random"][name] - value) < 1e-9, f"random {name} {found['random'][name]}, not {value}")
        exact = expected_maximum(flows, paths) / mean
        require(abs(found["random"]["imbalance"] - exact) < 0.03 * exact,
                f"{flows} flows over {paths} paths: {found['random']['imbalance']}, exactly {exact}")


def test_seed_permutes():
    """The claim of the report: with linear hashes and 2^n paths a seed moves loads and changes none."""
    for name in ("crc16", "crc32", "xor"):
        base = ["--qps", "0x10-0x10f:0x10-0x10f", "--hash", name, "--paths", "16", "-p", "kernel"]
        plain, seeded = (answer(*base, *more)["spreads"][0]["load"] for more in ((), ("--seed", "0x5a5a1234")))
        require(plain != seeded and sorted(plain) == sorted(seeded), f"{name}: {plain} and {seeded}")


# ---- other output ----

def test_table():
    arguments = ["--qps", "0x10-0x4f:0x10-0x4f", "--paths", "4,8"]
    done = uroce(*arguments)
    require(done.returncode == 0 and not done.stderr, done.stderr)
    head, empty, titles, *rows = done.stdout.splitlines()
    require(head.startswith("64 flows") and empty == "", done.stdout)
    spreads = answer(*arguments)["spreads"]
    require(len(rows) == len(spreads) == 32, f"{len(rows)} rows")
    for row, one in zip(rows, spreads):
        cells = dict(zip(titles.split(), row.split()))
        for title, name in (("paths", "paths"), ("policy", "policy"), ("hash", "hash"), ("idle", "idle"),
                            ("shared", "shared"), ("ports", "ports"), ("same_port", "same_port")):
            require(cells[title] == str(one[name]), f"{title}: {row}")
        require(cells["max/mean"] == f"{one['imbalance']:.2f}" and cells["cv"] == f"{one['cv']:.2f}", row)


def test_svg():
    namespace = "{http://www.w3.org/2000/svg}"
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "plot.svg")
        found = answer("--qps", "0x10-0x4f:0x10-0x4f", "--paths", "8,200", "-p", "kernel,fixed:50000", "--svg", file)
        root = xml.parse(file).getroot()
    plots = [e for e in root.iter(namespace + "rect") if e.get("class") == "plot"]
    shapes = [e for e in root.iter(namespace + "path") if e.get("class") in ("bar", "over")]
    require(len(plots) == len(found["spreads"]) == 16 and len(shapes) == 32, f"{len(plots)} plots")
    for one, plot, bar, over in zip(found["spreads"], plots, shapes[::2], shapes[1::2]):
        columns = re.findall(r"M([\d.]+) [\d.]+v-([\d.]+)h([\d.]+)", bar.get("d") + over.get("d"))
        require(len(columns) == sum(load > 0 for load in one["load"]), f"{len(columns)} bars of {one}")
        full = float(plot.get("height"))
        top, heights = {}, {}
        for x, height, width in columns:
            path = int((float(x) + float(width) / 2 - float(plot.get("x"))) / float(plot.get("width")) * one["paths"])
            heights[path] = float(height)
        for path, height in heights.items():
            require(0 < height <= full + 0.01, f"a bar of {height}")
            if height < full:
                top[path] = one["load"][path] / height
        scales = list(top.values())
        require(not scales or max(scales) - min(scales) < 0.01 * max(scales), f"no one scale: {scales}")
        cut = {path for path, height in heights.items() if height >= full}
        require(all(one["load"][path] >= 3 * 64 / one["paths"] for path in cut), f"{cut} are cut")
    width, height = float(root.get("width")), float(root.get("height"))
    for e in root.iter(namespace + "rect"):
        require(float(e.get("x", 0)) + float(e.get("width")) <= width
                and float(e.get("y", 0)) + float(e.get("height")) <= height, "beyond the edge")


# ---- what is refused ----

WRONG = (
    ([], "no flows"),
    (["-q", "1:2", "more"], "more"),
    (["-q", ""], "QPNs"), (["-q", "1"], "QPNs"), (["-q", "1:"], "QPNs"), (["-q", "1:2:3"], "QPNs"),
    (["-q", "0x1000000:1"], "QPNs"), (["-q", "5-4:1-2"], "QPNs"), (["-q", "1-9/0:1-9"], "QPNs"),
    (["-q", "-1:2"], "QPNs"), (["-q", "x:2"], "QPNs"), (["-q", "1-3:1-4"], "3 source QPNs and 4"),
    (["-q", "0-0xffffff:0-0xffffff"], "more than 1048576"),
    (["-r", "0"], "1 to 1048576"), (["-r", "1048577"], "1 to 1048576"), (["-r", "-5"], "1 to"), (["-r", "9x"], "1 to"),
    (["-r", "9", "--random-seed", "x"], "random-seed"),
    (["-r", "1048576", "--messages", "65"], "messages"), (["-r", "9", "--messages", "0"], "messages"),
    (["-r", "9", "--policy", "kernel,"], "policy"), (["-r", "9", "--policy", "fixed:80"], "fixed:80"),
    (["-r", "9", "--policy", "k" * 100], "policy"), (["-r", "9", "--policy", "rfc" + ",rfc" * 16], "at once"),
    (["-r", "9", "--hash", "md5"], "md5"), (["-r", "9", "--hash", "xor" + ",xor" * 4], "at once"),
    (["-r", "9", "--paths", "0"], "1 to 4096"), (["-r", "9", "--paths", "4097"], "1 to 4096"),
    (["-r", "9", "--paths", "8,,9"], "1 to 4096"), (["-r", "9", "--paths", ",".join("1" * 17)], "at once"),
    (["-r", "9", "--select", "low"], "modulo or high"), (["-r", "9", "--seed", "4294967296"], "32 bits"),
    (["-r", "9", "--key", "abcd"], "40 bytes"), (["-r", "9", "--key", "6d5a" * 20 + "6"], "40 bytes"),
    (["-r", "9", "--key", ":" + "6d5a" * 20], "40 bytes"), (["-r", "9", "--key", "6:d5a" + "6d5a" * 20], "40 bytes"),
    (["-r", "9", "--paths", "0" * 62 + "88"], "1 to 4096"), (["-r", "9", "--src", "10.0.0"], "address"),
    (["-r", "9", "--dst", "host"], "address"), (["-r", "9", "--nonsense"], "nonsense"),
)

BAD_LINES = (
    ("1\n", "line 1: not SRC"), ("1 2\n1 2 3\n", "line 2: not SRC"), ("1 2 10.0.0.1 10.0.0.2 5\n", "line 1: not SRC"),
    ("# fine\n\n1 0x1000000\n", "line 3: a QPN"), ("1 -2\n", "line 1: a QPN"), ("1 2x\n", "line 1: a QPN"),
    ("1 2 10.0.0.1 unknown\n", "line 1: not an IPv4"), ("1 2\n" + "1" * 300, "line 2: longer"),
    ("1 2\0\n", "line 1: a zero byte"), ("", "no flows"), ("# nothing\n", "no flows"),
)


def test_wrong_usage():
    for arguments, why in WRONG:
        done = uroce(*arguments)
        require(done.returncode == 2 and why in done.stderr and not done.stdout,
                f"{arguments}: status {done.returncode}, {done.stderr!r}")


def test_bad_files():
    for text, why in BAD_LINES:
        done = uroce("--file", "-", stdin=text)
        require(done.returncode == 1 and why in done.stderr and not done.stdout,
                f"{text!r}: status {done.returncode}, {done.stderr!r}")
    for name, why in (("/nonexistent/flows", "No such file"), ("/", "directory"), ("/dev/zero", "zero byte")):
        done = uroce("--file", name)
        require(done.returncode == 1 and why in done.stderr, f"{name}: status {done.returncode}, {done.stderr!r}")
    for name, why in (("/nonexistent/plot.svg", "No such file"), ("/dev/full", "No space")):
        done = uroce("-r", "9", "--svg", name)
        require(done.returncode == 1 and why in done.stderr, f"{name}: status {done.returncode}, {done.stderr!r}")
    done = uroce("--running", "--socket", "/nonexistent/uroce.sock")
    require(done.returncode == 1 and "/nonexistent/uroce.sock" in done.stderr, f"{done.returncode} {done.stderr!r}")


def test_help():
    done = uroce("--help")
    require(done.returncode == 0 and not done.stderr, done.stderr)
    for option in ("--qps", "--file", "--random", "--running", "--policy", "--hash", "--paths", "--json", "--svg"):
        require(option in done.stdout, f"nothing about {option}")


TESTS = (
    ("pairs from ranges", test_ranges),
    ("every option changes what it says, and nothing else", test_options),
    ("random pairs", test_random),
    ("pairs from files", test_files),
    ("ideal and random baselines", test_baselines),
    ("a seed only permutes the paths", test_seed_permutes),
    ("the table says what the JSON says", test_table),
    ("bars are as high as loads", test_svg),
    ("wrong usage", test_wrong_usage),
    ("files that cannot be read or written", test_bad_files),
    ("help", test_help),
)


def main():
    tap = Tap(len(TESTS))
    for name, function in TESTS:
        tap.point(name, function)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
