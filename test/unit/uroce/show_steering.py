#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce show steering` for states that this machine does not have: this program plays a daemon that serves them, and
computes from the definitions where flows arrive. TAP.

usage: show_steering.py UROCE"""
import array
import ipaddress
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading

UROCE = sys.argv[1]
KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
FIELDS = ["source address", "destination address", "source port", "destination port"]
random.seed(4)


def toeplitz(data):
    key, result = int.from_bytes(KEY, "big"), 0
    for bit in range(8 * len(data)):
        if data[bit // 8] >> (7 - bit % 8) & 1:
            result ^= key >> (8 * len(KEY) - 32 - bit) & 0xFFFFFFFF
    return result


def hash_input(src, dst, sport, fields):
    parts = [ipaddress.ip_address(src).packed, ipaddress.ip_address(dst).packed, struct.pack(">H", sport),
             struct.pack(">H", 4791)]
    return b"".join(part for part, name in zip(parts, FIELDS) if name in fields)


def xor(data):
    result = 0
    for i in range(0, len(data), 2):
        result ^= int.from_bytes(data[i:i + 2], "big")
    return result


def part(queue, worker):
    return {"queue": queue, "worker": worker, "qps": 2, "rx_packets": 5 + queue, "tx_packets": 6, "rx_delivered": 7,
            "rx_forwarded_in": 8, "rx_forwarded_out": 9, "rx_copies": 0}


def rss(fields, table, function="toeplitz"):
    return {"hash": function, "key": KEY.hex(), "fields": fields, "table": table}


def queue_pair(qpn, **more):
    return dict({"device": "uroce0", "qpn": qpn, "pid": 1, "type": "RC", "worker": 2, "queue": 0, "steering": "share",
                 "state": "RTS", "dest_qpn": 9, "sgid": "10.0.0.1", "dgid": "10.0.0.2"}, **more)


TABLE4 = [random.randrange(4) for _ in range(128)]
TABLE6 = [random.randrange(4) for _ in range(64)]
WORKER = [2, 0, 3, 1]  # of each queue


def port(steering, *addresses):
    return {"port": 1, "gids": [{"index": i, "address": a, "type": "RoCE v2"} for i, a in enumerate(addresses)],
            "steering": dict({"moved_after_misplaced": 3}, **steering)}


STATE = {
    "devices": [
        {"name": "uroce0", "ports": [port({"workers": [part(q, w) for q, w in enumerate(WORKER)],
                                           "rss_ipv4": rss(FIELDS, TABLE4), "rss_ipv6": rss(FIELDS[:3], TABLE6)},
                                          "10.0.0.1", "fd00::1")]},
        {"name": "uroce1", "ports": [port({"workers": [part(0, 1)]}, "10.1.0.1")]},
        {"name": "uroce2", "ports": [port({"workers": [part(0, 0), part(1, 1)], "rss_ipv4": rss(FIELDS, [0, 1], "xor")},
                                          "10.2.0.1", "fd02::1")]},
        {"name": "broken", "ports": [port({"workers": [part(0, 0), part(1, 1)],
                                           "rss_ipv4": dict(rss(FIELDS, [0, 1, 2]), key="6d5a")}, "10.3.0.1")]},
    ],
    "qps": [queue_pair(16, peer_sport=50000, steering="predicted"),
            queue_pair(17, peer_sport=50001, flow_rule="ports", flow_rule_sport=50001, queue=3, worker=1,
                       steering="flow rule"),
            queue_pair(18, peer_sport=50002, flow_rule="number", queue=1, worker=0, steering="flow rule"),
            queue_pair(19, type="UD"), queue_pair(20, dgid="10.0.0.1"), queue_pair(21, dgid="10.0.0.9"),
            {"device": "uroce0", "qpn": 22, "pid": 1, "type": "RC", "worker": 2, "queue": 0, "steering": "share",
             "state": "INIT"},
            queue_pair(16, device="uroce1", worker=1)],
}


class Failure(Exception):
    pass


def claim(condition, words):
    if not condition:
        raise Failure(words)


QUERY_DEVICE = 1  # which only checks for a daemon


def serve(connection):
    """For every other request, the reply has the state in a descriptor."""
    while request := connection.recv(4096):
        if struct.unpack_from("<H", request, 6)[0] == QUERY_DEVICE:
            connection.send(request)
            continue
        text = json.dumps(STATE).encode()
        memory = os.memfd_create("state")
        os.write(memory, text)
        reply = request[:12] + struct.pack("<iIIQ", 0, 0, 0, len(text))
        connection.sendmsg([reply.ljust(len(request), b"\0")],
                           [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))])
        os.close(memory)


def listen(listener):
    while True:
        connection, _ = listener.accept()
        with connection:
            serve(connection)


def show(*words):
    return subprocess.run([UROCE, "show", *words, "--socket", SOCKET], capture_output=True, text=True, timeout=20)


def answers(*words):
    """By device."""
    result = show("steering", "--json", *words)
    claim(result.returncode == 0, f"{words}: status {result.returncode}, {result.stderr}")
    return {(row["device"]): row["answers"] for row in json.loads(result.stdout)}


def check_place(found, data, value, table, words):
    claim(found["input"] == data.hex(), f"{words}: {found}, hashed is {data.hex()}")
    claim(found["hash"] == f"0x{value:08x}" and found["index"] == value % len(table),
          f"{words}: {found}, not {value:#x}")
    queue = table[value % len(table)]
    claim(found["queue"] == queue and found["worker"] == (WORKER[queue] if len(table) > 2 else queue),
          f"{words}: {found}")


def flows_arrive_where_the_hash_says():
    for i in range(60):
        src, dst, fields, table = f"10.0.{i}.7", "10.0.0.1", FIELDS, TABLE4
        if i % 2:
            src, dst, fields, table = f"fd00::{i}:7", "fd00::1", FIELDS[:3], TABLE6
        sport = random.randrange(65536)
        found = answers("--flow", f"{src},{dst},{sport}")
        claim([len(found[name]) for name in ("uroce0", "uroce1", "uroce2")] == [1, 0, 0], f"{found}")
        data = hash_input(src, dst, sport, fields)
        check_place(found["uroce0"][0], data, toeplitz(data), table, f"{src},{dst},{sport}")
        claim("rule_of_qp" not in found["uroce0"][0], f"{found}")


def microsofts_vectors():
    """Its own ports, so its own numbers: the IPv4 vector without ports."""
    STATE["devices"][0]["ports"][0]["steering"]["rss_ipv4"] = rss(FIELDS[:2], TABLE4)
    try:
        found = answers("--flow", "66.9.149.187,161.142.100.80,2794", "uroce0")["uroce0"][0]
        claim(found["hash"] == "0x323e8fc2", f"{found}")
    finally:
        STATE["devices"][0]["ports"][0]["steering"]["rss_ipv4"] = rss(FIELDS, TABLE4)


def other_hashes():
    found = answers("--flow", "10.2.0.9,10.2.0.1,49153")["uroce2"][0]
    data = hash_input("10.2.0.9", "10.2.0.1", 49153, FIELDS)
    check_place(found, data, xor(data), [0, 1], "xor")
    found = answers("--flow", "10.1.0.9,10.1.0.1,49153")["uroce1"][0]
    claim((found["queue"], found["worker"]) == (0, 1) and "hash" not in found, f"one queue: {found}")
    for flow in ("fd02::9,fd02::1,1", "10.3.0.9,10.3.0.1,1"):
        found = [a for rows in answers("--flow", flow).values() for a in rows]
        claim(len(found) == 1 and "queue" not in found[0], f"an unknown queue: {found}")
        claim("on an unknown queue" in show("steering", "--flow", flow).stdout, flow)


def rules_go_before_the_hash():
    found = answers("--flow", "10.0.0.2,10.0.0.1,50001")["uroce0"][0]
    claim(found["rule_of_qp"] == 17 and (found["queue"], found["worker"]) == (3, 1), f"{found}")
    claim(found["rules_by_number"] == [18], f"{found}")
    text = show("steering", "--flow", "10.0.0.2,10.0.0.1,50001").stdout
    claim("that of queue pair 17 has precedence over the hash" in text and "on queue 3, worker 1" in text, text)


def queue_pairs():
    found = answers("--qp", "16", "uroce0")["uroce0"]
    data = hash_input("10.0.0.2", "10.0.0.1", 50000, FIELDS)
    claim(len(found) == 1 and found[0]["src"] == "10.0.0.2" and found[0]["sport"] == 50000, f"{found}")
    check_place(found[0], data, toeplitz(data), TABLE4, "queue pair 16")
    claim(found[0]["lives_there"] == (found[0]["queue"] == 0) and found[0]["lives_on_worker"] == 2, f"{found}")
    claim(len(answers("--qp", "0x10")["uroce1"]) == 1, "the other device's queue pair 16")
    for qpn, queue in ((17, 3), (18, 1)):
        found = answers("--qp", str(qpn))["uroce0"][0]
        claim(found["rule_of_qp"] == qpn and found["queue"] == queue and found["lives_there"], f"{found}")
    for qpn, why in ((19, "no peer"), (20, "same port"), (21, "not RoCEv2"), (22, "not connected")):
        found = answers("--qp", str(qpn))["uroce0"][0]
        claim(why in found["without_flow"] and "queue" not in found, f"{found}")
        claim(why in show("steering", "--qp", str(qpn)).stdout, f"queue pair {qpn}")


def tables():
    text = show("steering").stdout
    for words in ("workers", "unknown", "none: one queue", "128 entries: " + " ".join(
            str(TABLE4.count(q)) for q in range(4)), "source address, destination address, source port", KEY.hex()):
        claim(words in text, f"no {words!r} in:\n{text}")
    claim("queue pairs\n" not in text, text)
    text = show("steering", "--qps").stdout
    claim("flow rule" in text and "uroce1" in text and text.count("\n") > show("steering").stdout.count("\n"), text)
    text = show("steering", "--qps", "uroce1").stdout
    claim("uroce0" not in text and "uroce1" in text, text)


def what_makes_no_sense():
    for words, status, reason in (
            (("--flow", "10.0.0.2,10.0.0.1"), 2, "is no flow"), (("--flow", "a,b,c,d"), 2, "is no flow"),
            (("--flow", "9" * 200), 2, "is no flow"), (("--flow", ""), 2, "is no flow"),
            (("--flow", "10.0.0.2,10.0.0,1"), 2, '"10.0.0" is no IP address'),
            (("--flow", ",10.0.0.1,1"), 2, '"" is no IP address'),
            (("--flow", "10.0.0.2,fd00::1,1"), 2, "two IP versions"),
            (("--flow", "10.0.0.2,10.0.0.1,65536"), 2, "is no UDP source port"),
            (("--flow", "10.0.0.2,10.0.0.1,-1"), 2, "is no UDP source port"),
            (("--flow", "10.0.0.2,10.0.0.1,"), 2, "is no UDP source port"),
            (("--qp", "0x1000000"), 2, "is no queue pair number"), (("--qp", "x"), 2, "is no queue pair number"),
            (("--qp", "1", "--flow", "10.0.0.2,10.0.0.1,1"), 2, "second question"),
            (("uroce0", "uroce1"), 2, "usage"), (("--qp", "23"), 1, "no queue pair 23"),
            (("--qp", "19", "uroce1"), 1, "no queue pair 19 on uroce1"),
            (("--flow", "10.0.0.2,fd00::1"), 2, "is no flow"), (("nothing",), 1, 'no device "nothing"'), (("--flow", "10.0.0.2,10.9.0.1,1"), 1, "no port has")):
        result = show("steering", *words)
        claim(result.returncode == status and reason in result.stderr,
              f"{words}: {result.returncode} {result.stderr}")
    claim(show("qps", "--qp", "16").returncode == 2, "--qp of another topic")
    claim(show("qps", "uroce0").returncode == 2, "a device of another topic")


folder = tempfile.TemporaryDirectory(prefix="uroce-test.", dir="/tmp")
SOCKET = os.path.join(folder.name, "sock")
listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listening.bind(SOCKET)
listening.listen(4)
threading.Thread(target=listen, args=(listening,), daemon=True).start()

points = (flows_arrive_where_the_hash_says, microsofts_vectors, other_hashes, rules_go_before_the_hash, queue_pairs,
          tables, what_makes_no_sense)
print(f"1..{len(points)}")
failed = 0
for number, point in enumerate(points, 1):
    try:
        point()
        print(f"ok {number} - {point.__name__.replace('_', ' ')}")
    except Failure as failure:
        failed += 1
        print(f"not ok {number} - {point.__name__.replace('_', ' ')}")
        print("\n".join("# " + line for line in str(failure).splitlines()))
sys.exit(1 if failed else 0)
