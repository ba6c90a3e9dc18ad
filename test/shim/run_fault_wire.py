#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce fault` over a loopback device: unmodified programs live through lost, doubled, damaged and late packets, or fail as
they would on a network; rules count what they do, are removed without a trace, and are refused to other users. TAP.

usage: run_fault_wire.py --build DIR"""
import argparse
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

CONFIGURATION = """[port.0]
device = loopback
address = 127.0.0.1
fault = drop rx opcode RC_ACK nth 10 count 20
fault.1 = duplicate tx opcode RC_SEND_* nth 10
"""
PINGPONG = "ibv_rc_pingpong -g 0 -n 500".split()
BANDWIDTH = "ib_write_bw -F -x 0 -n 1000".split()
USER = "65534"


def fault(daemon, *arguments, prefix=()):
    """Exit status, output and errors of `uroce fault`."""
    run = subprocess.run([*prefix, daemon.build.uroce, "fault", *arguments, "--socket", daemon.socket], capture_output=True,
                         text=True, timeout=20)
    return run.returncode, run.stdout, run.stderr


def add(daemon, rule):
    status, text, errors = fault(daemon, "add", *rule.split())
    if status or not text.startswith("rule "):
        raise kit.Failure(f"{rule}: status {status}: {text}{errors}")
    return int(text.split()[1])


def rules(daemon):
    status, text, errors = fault(daemon, "list", "--json")
    if status:
        raise kit.Failure(f"fault list: {errors}")
    return json.loads(text)


def remove_all(daemon):
    expect(fault(daemon, "remove", "all"), (0, "", ""))
    expect(rules(daemon), [])


def expect(got, wanted):
    if got != wanted:
        raise kit.Failure(f"{got}, not {wanted}")


def counts(daemon, topic="counters", key="counter"):
    return {row[key]: row["value"] for row in daemon.show(topic)}


def drops(daemon):
    return counts(daemon, "drops", "reason")


def check_sums(daemon):
    """Every received frame was delivered, or dropped for a reason, by the worker that received it or by another."""
    now = counts(daemon)
    expect(now["rx_packets"], now["rx_delivered"] + now["rx_punted"] + sum(drops(daemon).values()))


def survives(daemon, rule, command, reason=None, client_daemon=None):
    """The programs succeed; the rule acted, and its drops are counted. Returns the rule's row."""
    before = drops(daemon).get(reason, 0)
    add(daemon, rule)
    try:
        kit.run_pair(daemon, command, client_daemon)
        row, = rules(daemon)
        expect(row["rule"], rule)
        if not row["acted"] or row["acted"] > row["matched"]:
            raise kit.Failure(f"{row}")
        if reason:
            expect(drops(daemon).get(reason, 0) - before, row["acted"])
        check_sums(daemon)
    finally:
        remove_all(daemon)
    return row


def every_tenth(daemon):
    row = survives(daemon, "drop rx opcode RC_ACK nth 10 count 20", PINGPONG, "fault_rule")
    expect(row["acted"], min(row["matched"] // 10, 20))


def falls_silent(daemon):
    """No packet of a connection arrives: the retries end, as on a dead network."""
    add(daemon, "drop tx opcode RC_*")
    try:
        kit.run_pair(daemon, PINGPONG)
    except kit.Failure as failure:
        if "transport retry counter exceeded" not in str(failure):
            raise
    else:
        raise kit.Failure("the programs succeed")
    finally:
        remove_all(daemon)


def one_queue_pair(daemon):
    """A transfer fails from the moment on when the packets to its queue pair are dropped; others do not."""
    port = str(kit.free_port())
    command = BANDWIDTH[:-2] + ["-D", "50", "-p", port]
    server = kit.Program(daemon, command)
    try:
        kit.await_listening(server, int(port), 20)
        sent = counts(daemon)["tx_packets"] + 1000
        client = kit.Program(daemon, command + ["127.0.0.1"])
        try:
            kit.wait_until(lambda: counts(daemon)["tx_packets"] > sent, 20, "the transfer runs")
            qpn, = [qp["qpn"] for qp in daemon.show("qps") if qp["pid"] == server.process.pid]
            add(daemon, f"drop tx qp {qpn}")
            kit.run_pair(daemon, PINGPONG)
            status = client.process.wait(40)
            row, = rules(daemon)
        finally:
            client.kill()
        text = client.text()
    finally:
        server.kill()
        remove_all(daemon)
    if not status or "status 12" not in text and "transport retry counter exceeded" not in text:
        raise kit.Failure(f"status {status}: {text}")
    expect(row["acted"], row["matched"])


def same_seed(daemon):
    """Two runs with as many packets have as many hits."""
    def run(rule):
        row = survives(daemon, rule, "ibv_ud_pingpong -g 0 -n 200".split())
        return row["matched"], row["acted"]

    first = run("mark tx opcode UD_* chance 0.25 seed 7")
    expect(run("mark tx opcode UD_* chance 0.25 seed 7"), first)
    others = [run(f"mark tx opcode UD_* chance 0.25 seed {seed}")[1] for seed in (8, 9, 10)]
    if all(acted == first[1] for acted in others):
        raise kit.Failure(f"{others} are the same as {first}")


def refuses(daemon):
    for rule, word in (("explode", '"explode" is no action'), ("drop opcode RC_NACK", '"RC_NACK" is no opcode'),
                       ("drop rx nth 0", '"0" is no number'), ("drop device uroce7", '"uroce7" is no device'),
                       ("drop chance 2", '"2" is no probability'), ("drop rx rx", '"rx" is there twice')):
        status, text, errors = fault(daemon, "add", *rule.split())
        if (status, text) != (1, "") or word not in errors:
            raise kit.Failure(f"{rule}: {status} {text}{errors}")
    expect(fault(daemon, "remove", "99")[::2], (1, "uroce: fault: there is no rule 99\n"))
    for arguments in ((), ("add",), ("remove",), ("remove", "x"), ("list", "all"), ("drop", "rx")):
        expect((arguments, fault(daemon, *arguments)[0]), (arguments, 2))
    expect(rules(daemon), [])


def lists_long_rules(daemon):
    """The table has the whole of a rule."""
    rule = "drop rx opcode " + ",".join(["RC_SEND_ONLY"] * 17)
    add(daemon, rule)
    status, text, _ = fault(daemon, "list")
    if status or not text.endswith(f" {rule}\n"):
        raise kit.Failure(f"not the rule:\n{text}")
    remove_all(daemon)


def refuses_others(daemon):
    if os.geteuid() or not shutil.which("setpriv"):
        raise kit.Skipped("needs root and setpriv")
    os.chmod(os.path.dirname(daemon.socket), 0o755)
    os.chmod(daemon.socket, 0o666)
    other = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]
    number = add(daemon, "mark qp 5")
    try:
        for arguments in (("add", "drop"), ("remove", "all"), ("remove", str(number))):
            status, text, errors = fault(daemon, *arguments, prefix=other)
            if status != 1 or text or "only root" not in errors:
                raise kit.Failure(f"{arguments}: {status} {text}{errors}")
        status, text, errors = fault(daemon, "list", "--json", prefix=other)
        expect((status, [row["number"] for row in json.loads(text or "[]")]), (0, [number]))
    finally:
        remove_all(daemon)


def is_restored(daemon):
    """After all of this nothing is dropped any more."""
    before = drops(daemon)
    kit.run_pair(daemon, PINGPONG)
    now = drops(daemon)
    expect((now.get("fault_rule", 0), now.get("bad_icrc", 0)), (before.get("fault_rule", 0), before.get("bad_icrc", 0)))
    check_sums(daemon)


def configured(daemon):
    kit.run_pair(daemon, PINGPONG)
    found = rules(daemon)
    expect([(row["device"], row["rule"]) for row in found],
           [("uroce0", "drop rx opcode RC_ACK nth 10 count 20"), ("uroce0", "duplicate tx opcode RC_SEND_* nth 10")])
    if not all(row["acted"] for row in found):
        raise kit.Failure(f"{found}")
    check_sums(daemon)
    remove_all(daemon)
    is_restored(daemon)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    arguments = options.parse_args()
    kit.die_on_signals()
    build = kit.Build(arguments.build)
    folder = kit.scratch_folder()
    faults = [("duplicate rx opcode RC_SEND_* nth 7", PINGPONG, None), ("duplicate tx nth 9", BANDWIDTH, None),
              ("corrupt rx opcode RC_SEND_* nth 20 count 20", PINGPONG, "bad_icrc"),
              ("corrupt header tx opcode RC_WRITE_* chance 0.001 seed 3", BANDWIDTH, None),
              ("corrupt tx opcode RC_WRITE_* chance 0.001 seed 3", BANDWIDTH, "bad_icrc"),
              ("drop tx opcode RC_WRITE_* chance 0.001 seed 3", BANDWIDTH, None),
              ("drop rx psn 0-0xffffff opcode RC_WRITE_* chance 0.001", BANDWIDTH, "fault_rule"),
              ("delay 2ms rx opcode RC_ACK nth 50", PINGPONG, None), ("delay 1ms tx opcode RC_SEND_* nth 50", PINGPONG, None),
              ("reorder 3 rx opcode RC_WRITE_* chance 0.001", BANDWIDTH, None),
              ("mark rx opcode RC_WRITE_*", BANDWIDTH, None)]
    tap = kit.Tap(10 + 2 * len(faults))
    for workers in (1, 2):
        daemon = kit.Daemon(build, folder, name=f"uroced{workers}",
                            arguments=("--workers", "2", kit.FIXED_LOOPBACK),
                            configuration=CONFIGURATION if workers == 1 else None)
        try:
            if workers == 1:
                tap.point("rules of the configuration", lambda: configured(daemon))
                tap.point("wrong rules", lambda: refuses(daemon))
                tap.point("a long rule in the table", lambda: lists_long_rules(daemon))
                tap.point("another user", lambda: refuses_others(daemon))
                tap.point("every tenth ACK", lambda: every_tenth(daemon))
                tap.point("the same seed", lambda: same_seed(daemon))
                tap.point("all is silent", lambda: falls_silent(daemon))
                tap.point("one queue pair is silent", lambda: one_queue_pair(daemon))
                tap.point("nothing is left", lambda: is_restored(daemon))
            for rule, command, reason in faults:
                tap.point(f"{command[0]}, {rule}, {workers} workers", lambda: survives(daemon, rule, command, reason))
        finally:
            status = daemon.stop()
    tap.point("uroced ends with status 0 when told to", lambda: expect(status, 0))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
