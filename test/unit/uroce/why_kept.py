#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce why` reads what a daemon has left, also when it is damaged: no crash, and no error of a sanitizer. TAP.

usage: why_kept.py UROCE"""
import json
import os
import random
import subprocess
import sys
import tempfile

ROUNDS = 100
WRONG = (None, True, -1, 2**63 - 1, -2**63, 1e300, "", "x" * 5000, [], {}, "{key}", [1], {"a": []})
SEND = {"time_ns": 5, "device": "d", "kind": "send", "code": 51, "cause": "refused_access", "details": {"opcode": "RDMA WRITE"},
        "pid": 1, "uid": 0, "comm": "c", "qpn": 16, "dest_qpn": 17, "operation": "RDMA WRITE", "status": "s", "status_code": 10,
        "wr_id": "7", "counters": {"tx_packets": 1}, "silent_us": 1, "drops": 1, "drop_reason": "bad_icrc"}
REQUEST = {"time_ns": 4, "device": "d", "kind": "request", "code": 61, "cause": "remote_key_removed", "details": {"ago_us": 3},
           "pid": 1, "uid": 0, "comm": "c", "qpn": 17, "dest_qpn": 16, "counters": {}}
KEPT = {"now_ns": 10**9, "time_s": 1, "incidents": [SEND, REQUEST], "faults": [{}],
        "trace": [{"time_ns": 1, "qpn": 16, "device": "d", "event": "state", "what": "w"}] * 20}


def damaged(value, chance):
    if chance.random() < 0.08:
        return chance.choice(WRONG)
    if isinstance(value, dict):
        return {key: damaged(member, chance) for key, member in value.items() if chance.random() > 0.05}
    return [damaged(item, chance) for item in value] if isinstance(value, list) else value


def why(uroce, socket, text, *arguments):
    with open(socket + ".why", "w") as file:
        file.write(text)
    return subprocess.run([uroce, "why", *arguments, "--socket", socket], capture_output=True, text=True, errors="replace")


def waited_before(uroce, socket):
    """The peer had to wait for a receive once; that it is destroyed later is another matter."""
    gone = {**SEND, "time_ns": 9, "code": 33, "cause": "peer_qp_gone", "details": {"dest_qpn": 17}}
    waited = {**REQUEST, "kind": "dropped", "code": 74, "cause": "receive_queue_empty", "details": {}}
    out = why(uroce, socket, json.dumps({**KEPT, "incidents": [gone, waited]}))
    start = "The queue pair of the peer, which is on this device, was destroyed."
    return [] if out.returncode == 0 and start in out.stdout else [out.stdout + out.stderr]


def waits_since(uroce, socket):
    """What came after the failure that is shown is not said to be earlier."""
    waits = {**REQUEST, "time_ns": 9, "qpn": 18, "dest_qpn": 19, "kind": "dropped", "code": 74, "cause": "receive_queue_empty", "details": {}}
    before = {**SEND, "time_ns": 2, "qpn": 20, "dest_qpn": 21, "code": 1, "cause": "local_key_unknown", "details": {}}
    out = why(uroce, socket, json.dumps({**KEPT, "incidents": [waits, SEND, REQUEST, before]}))
    lines = ("Since then, with --all: receive_queue_empty.", "Earlier, with --all: local_key_unknown.")
    return [] if out.returncode == 0 and all(line in out.stdout.splitlines() for line in lines) else [out.stdout + out.stderr]


def path_mtu(uroce, socket):
    """The bound of a path MTU may be the path's, below the port's active_mtu."""
    value = {**REQUEST, "kind": "call", "code": 95, "cause": "modify_value",
             "details": {"attribute": "IBV_QP_PATH_MTU", "value": 5, "least": 1, "most": 3}}
    out = why(uroce, socket, json.dumps({**KEPT, "incidents": [value]}))
    return [] if out.returncode == 0 and "`uroce show path_mtus`" in out.stdout else [out.stdout + out.stderr]


def long_name(uroce, socket):
    """The kernel keeps 15 bytes of a program's name; a user knows the whole."""
    of_long = json.dumps({**KEPT, "incidents": [{**SEND, "comm": "ibv_srq_pingpon"}, {**REQUEST, "comm": "ibv_srq"}]})
    wrong = []
    for name, count in (("ibv_srq_pingpong", 1), ("ibv_srq_pingpon", 1), ("ibv_srq_pingpo", 0), ("ibv_srq", 1), ("ibv_srq_pingplng", 0)):
        out = why(uroce, socket, of_long, "pid=" + name, "--json")
        if out.returncode or len(json.loads(out.stdout)) != count:
            wrong.append(f"{name}: {out.stdout}{out.stderr}")
    return wrong


def intact(uroce, socket):
    out = why(uroce, socket, json.dumps(KEPT))
    start = "The R_Key of the peer's request belongs to a memory region that was deregistered before. The responder is QP 17 of c"
    return [] if out.returncode == 0 and out.stdout.startswith(start) else [out.stdout, out.stderr]


def damage(uroce, socket):
    wrong = []
    for seed in range(ROUNDS):
        text = json.dumps(damaged(KEPT, random.Random(seed)))
        if seed % 10 == 9:
            text = text[:random.Random(seed).randrange(len(text))]
        for arguments in (("--all",), ("--json",), ("16",)):
            out = why(uroce, socket, text, *arguments)
            if out.returncode not in (0, 1) or "Sanitizer" in out.stderr or "runtime error" in out.stderr:
                wrong.append(f"seed {seed}, {arguments}: {out.returncode} {out.stderr}")
    return wrong


def main():
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "s")
        points = [("what is left is explained", intact(sys.argv[1], socket)),
                  ("what the peer got over is no cause", waited_before(sys.argv[1], socket)),
                  ("what is later than the answer is named so", waits_since(sys.argv[1], socket)),
                  ("a path MTU may be bounded by its path", path_mtu(sys.argv[1], socket)),
                  ("a program's name may be longer than the kernel's", long_name(sys.argv[1], socket)),
                  ("damage does no harm", damage(sys.argv[1], socket))]
    print(f"1..{len(points)}")
    for number, (point, wrong) in enumerate(points, 1):
        print(f"{'not ' if wrong else ''}ok {number} - {point}")
        for line in "\n".join(wrong).splitlines()[:30]:
            print("# " + line)
    return 1 if any(wrong for _, wrong in points) else 0


if __name__ == "__main__":
    sys.exit(main())
