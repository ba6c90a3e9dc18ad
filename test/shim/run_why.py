#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that fail, each for one reason (why_cases.c), and whether `uroce why` names it when the program has ended. TAP.

usage: run_why.py --build DIR [--match TEXT] WHY_CASES"""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit
from why_texts import BY_RULE, MORE

WR_ID = 4711
USER = "65534"
WORKERS = (1, 2)
COPY = {"UROCE_MR": "copy"}
# The case; the cause that vendor_err names, and the cause that is behind it (the same, if it is not the peer's); a rule of
# `uroce fault` or an environment that it needs.
CASES = [
    ("wrong_rkey", "refused_access", "remote_key_unknown"),
    ("read_wrong_rkey", "refused_access", "remote_key_unknown"),
    ("long_wrong_rkey", "refused_access", "remote_key_unknown"),
    ("rkey_swapped", "refused_access", "remote_key_unknown"),
    ("rkey_of_nothing", "refused_access", "remote_key_unknown"),
    ("rkey_deregistered", "refused_access", "remote_key_removed"),
    ("rkey_other_domain", "refused_access", "remote_key_other_domain"),
    ("write_without_right", "refused_access", "remote_key_no_right"),
    ("read_without_right", "refused_access", "remote_key_no_right"),
    ("atomic_without_right", "refused_access", "remote_key_no_right"),
    ("write_out_of_range", "refused_access", "remote_key_range"),
    ("read_out_of_range", "refused_access", "remote_key_range"),
    ("wrong_lkey", "local_key_unknown", "local_key_unknown"),
    ("long_wrong_lkey", "local_key_unknown", "local_key_unknown"),
    ("lkey_deregistered", "local_key_removed", "local_key_removed"),
    ("lkey_other_domain", "local_key_other_domain", "local_key_other_domain"),
    ("lkey_out_of_range", "local_key_range", "local_key_range"),
    ("read_into_read_only", "local_key_no_right", "local_key_no_right"),
    ("receive_queue_empty", "receiver_not_ready", "receive_queue_empty"),
    ("imm_without_receive", "receiver_not_ready", "receive_queue_empty"),
    ("receive_too_small", None, "receive_too_small"),
    ("long_receive_too_small", None, "receive_too_small"),
    ("receive_wrong_lkey", None, "local_key_unknown"),
    ("receive_read_only", None, "local_key_no_right"),
    ("peer_destroyed", "peer_qp_gone", "peer_qp_gone"),
    ("wrong_dest_qpn", "peer_qp_unknown", "peer_qp_unknown"),
    ("peer_connected_elsewhere", "peer_qp_elsewhere", "peer_qp_elsewhere"),
    ("peer_of_other_type", "peer_qp_type", "peer_qp_type"),
    ("peer_of_other_address", "packets_from_elsewhere", "packets_from_elsewhere"),
    ("peer_in_init", "peer_qp_state", "peer_qp_state"),
    ("peer_in_error", "peer_qp_state", "peer_qp_state"),
    ("peer_killed", "peer_qp_gone", "peer_qp_gone"),
    ("no_neighbour", None, "no_neighbour"),
    ("one_write", "packets_dropped_on_purpose", "packets_dropped_on_purpose", "drop rx opcode RC_WRITE_ONLY"),
    ("one_write", "packets_dropped_on_purpose", "packets_dropped_on_purpose", "drop rx opcode RC_ACK"),
    ("one_write", "packets_dropped_on_purpose", "packets_dropped_on_purpose", "drop tx opcode RC_WRITE_ONLY"),
    ("two_writes", "packets_dropped_on_purpose", "packets_dropped_on_purpose", "drop tx opcode RC_WRITE_ONLY psn 1-8388607"),
    ("two_writes", "packets_dropped_on_purpose", "packets_dropped_on_purpose", "drop tx opcode RC_ACK psn 1-8388607"),
    ("one_write", "packets_lost_here", "packets_lost_here", "delay 9s tx opcode RC_WRITE_ONLY"),
    ("no_retries", "no_retries", "no_retries", "delay 9s tx opcode RC_WRITE_ONLY psn 1-8388607"),
    ("one_write", "packets_damaged", "packets_damaged", "corrupt rx opcode RC_WRITE_ONLY"),
    ("path_mtu_larger", "refused_request", "packet_length"),
    ("path_mtu_smaller", "refused_request", "packet_length"),
    ("qp_without_write", "refused_request", "qp_no_right"),
    ("qp_without_atomics", "refused_request", "qp_no_right"),
    ("reads_not_allowed", "request_reads_not_allowed", "request_reads_not_allowed"),
    ("reads_too_many", "refused_request", "reads_too_many"),
    ("atomic_misaligned", "refused_request", "atomic_misaligned"),
    ("read_on_uc", "request_of_other_service", "request_of_other_service"),
    ("message_too_long", "request_too_long", "request_too_long"),
    ("message_far_too_long", "request_too_long", "request_too_long"),
    ("atomic_of_16_bytes", "atomic_length", "atomic_length"),
    ("invalidate_region", None, "invalidate_refused"),
    ("local_invalidate_region", "local_invalidate", "local_invalidate"),
    ("bind_without_right", "window_bind", "window_bind"),
    ("cq_overrun", None, "cq_overrun"),
    ("modify_reset_to_rts", None, "modify_transition"),
    ("modify_without_psn", None, "modify_missing"),
    ("modify_with_timeout", None, "modify_unexpected"),
    ("modify_reads", None, "modify_value"),
    ("modify_gid_index", None, "modify_source_gid"),
    ("modify_without_grh", None, "modify_address"),
    ("ud_wrong_qkey", None, "qkey_mismatch"),
    ("ud_no_receive", None, "receive_queue_empty"),
    ("ud_receive_without_grh", None, "receive_too_small"),
    ("ud_too_long", "datagram_too_long", "datagram_too_long"),
    ("peer_memory_gone", None, "local_memory_gone", COPY),
    ("own_memory_gone", "local_memory_gone", "local_memory_gone", COPY),
    ("receive_memory_gone", None, "local_memory_gone", COPY),
    ("flushed", "refused_access", "remote_key_unknown"),
]
# Those that print the completion themselves, and those without a completion with an error.
PRINTS = ("peer_killed",)
LEAVE = ("no_neighbour", "cq_overrun", "ud_no_receive", "ud_wrong_qkey", "ud_receive_without_grh", "modify_reset_to_rts", "modify_without_psn",
         "modify_with_timeout", "modify_reads", "modify_gid_index", "modify_without_grh")


def why(daemon, *arguments, status=0):
    run = subprocess.run([daemon.build.uroce, "why", *arguments, "--socket", daemon.socket], capture_output=True, text=True,
                         timeout=20)
    if run.returncode != status:
        raise kit.Failure(f"uroce why {arguments}: exit status {run.returncode}: {run.stdout}{run.stderr}")
    return run.stdout


def incidents(daemon, *arguments):
    return json.loads(why(daemon, *arguments, "--json"))


def expect(got, wanted, context=""):
    if got != wanted:
        raise kit.Failure(f"{got}, not {wanted}\n{context}")


def add_rule(daemon, rule):
    subprocess.run([daemon.build.uroce, "fault", "add", *rule.split(), "--socket", daemon.socket], check=True,
                   stdout=subprocess.DEVNULL, timeout=20)


def remove_rules(daemon):
    subprocess.run([daemon.build.uroce, "fault", "remove", "all", "--socket", daemon.socket], check=True, timeout=20)


def run_case(daemon, program, name, more):
    """Runs the program. Returns its process number and what it has printed."""
    rule = more if isinstance(more, str) else None
    if rule:
        add_rule(daemon, rule)
    try:
        process = kit.Program(daemon, [program, name, "leave" if name in LEAVE + PRINTS else "wait"],
                              more if isinstance(more, dict) else None)
        return process.process.pid, process.finish(40)
    finally:
        if rule:
            remove_rules(daemon)


def check_row(name, row, rows, more):
    for wanted in (*MORE.get(name, ()), *BY_RULE.get(str(more), ())):
        if not any(re.search(wanted, text) for text in (row.get("more", ""), row["advice"])):
            raise kit.Failure(f"{row.get('more')} | {row['advice']}: {wanted} is missing\n{json.dumps(rows, indent=1)}")
    for key in ("sentence", "advice", "comm", "time_ns"):
        if not row[key]:
            raise kit.Failure(f"no {key}: {json.dumps(rows, indent=1)}")
    expect(row["comm"], "why_cases")
    if name == "rkey_deregistered" and not 0 <= row["root"]["details"]["ago_us"] < 5e6:
        raise kit.Failure(f"deregistered at another time: {row}")


def disaster(daemon, program, name, vendor, behind, more=None):
    pid, text = run_case(daemon, program, name, more)
    rows = incidents(daemon, f"pid={pid}")
    context = text + json.dumps(rows, indent=1)
    if not rows:
        raise kit.Failure(f"nothing is known of process {pid}: {text}{json.dumps(incidents(daemon), indent=1)}")
    if behind not in [row["root_cause"] for row in rows[:2]]:
        expect([row["root_cause"] for row in rows], behind, context)
    row = next(row for row in rows if row["root_cause"] == behind)
    check_row(name, row, rows, more)
    if name not in LEAVE:
        wr_id, status, error = map(int, text.split())
        if vendor:
            explained = json.loads(why(daemon, f"code={error}", "--json"))
            expect(explained["cause"], vendor, context)
            expect(wr_id, WR_ID, context)
        elif not error:
            raise kit.Failure(f"status {status} without a vendor_err\n{context}")
    first = next((row for row in rows if row["kind"] != "dropped"), rows[0])
    if not why(daemon, f"pid={pid}").startswith(first["sentence"]):
        raise kit.Failure("the text does not begin with the sentence")


def questions(daemon, program):
    """The forms of the question name the same incident."""
    pid, text = run_case(daemon, program, "wrong_rkey", None)
    newest = only(daemon, pid, text)
    for question in (f"wr_id={WR_ID}", str(newest["qpn"]), hex(newest["qpn"]), "pid=why_cases"):
        rows = incidents(daemon, question)
        if newest not in rows:
            raise kit.Failure(f"{question} does not find it: {rows}")
    expect(incidents(daemon, "wr_id=99999"), [])
    expect(incidents(daemon, "pid=none_of_ours"), [])
    if why(daemon, "wr_id=99999") != "Nothing of this is known to have failed.\n":
        raise kit.Failure("no text for nothing")
    if why(daemon, "--all").count("(cause ") < 2:
        raise kit.Failure("--all does not show all")


def failures_first(daemon, program):
    """A message that was dropped, or had to wait, is no failure while there is another one."""
    run_case(daemon, program, "wrong_lkey", None)
    run_case(daemon, program, "ud_no_receive", None)
    expect(incidents(daemon)[0]["cause"], "receive_queue_empty")
    if not why(daemon).startswith("The L_Key of a work request is the key of no memory region."):
        raise kit.Failure(why(daemon))


def rules_that_are_over(daemon, program):
    """A rule whose time is over may explain what failed before: it is named, and not as one that still acts."""
    rule = "drop rx opcode CNP for 1ns"
    add_rule(daemon, rule)
    try:
        pid, _ = run_case(daemon, program, "wrong_lkey", None)
        lines = [line for line in why(daemon, f"pid={pid}").splitlines() if rule in line]
    finally:
        remove_rules(daemon)
    expect(lines, [f"  there is a rule of `uroce fault`: {rule} (it has acted 0 times)"])


def other_users(daemon, program):
    """A user sees what failed in programs of this user, and nothing of others."""
    if os.geteuid() or not shutil.which("setpriv"):
        raise kit.Skipped("needs root and setpriv")
    os.chmod(os.path.dirname(daemon.socket), 0o755)
    os.chmod(daemon.socket, 0o666)
    other = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]
    mine, _ = run_case(daemon, program, "wrong_rkey", None)
    run = subprocess.run([*other, program, "wrong_lkey", "wait"], env=daemon.environment(), capture_output=True, text=True,
                         timeout=20)
    expect((run.returncode, run.stdout.split()[1:]), (0, ["4", "1"]), run.stderr)
    run = subprocess.run([*other, daemon.build.uroce, "why", "--json", "--all", "--socket", daemon.socket], capture_output=True,
                         text=True, timeout=20)
    seen = json.loads(run.stdout)
    expect({row["uid"] for row in seen}, {int(USER)}, run.stdout)
    expect(seen[0]["cause"], "local_key_unknown")
    everything = incidents(daemon)
    expect({row["uid"] for row in everything}, {0, int(USER)})
    if mine not in [row["pid"] for row in everything]:
        raise kit.Failure("root does not see everything")


def bad_questions(daemon, program):
    for question in (["x"], ["-1"], ["16777216"], ["wr_id="], ["wr_id=x"], ["wr_id=99999999999999999999"], ["pid="],
                     ["code="], ["code=x"], [""], ["1", "2"], ["--no-such-option"]):
        why(daemon, *question, status=2)
    for code in ("0", "29", "255", "256", "4294967295"):
        why(daemon, f"code={code}", status=1)


def without_daemon(daemon, program):
    run = subprocess.run([daemon.build.uroce, "why", "code=60", "--socket", "/nowhere"], capture_output=True, text=True)
    if run.returncode or "R_Key" not in run.stdout:
        raise kit.Failure(f"exit status {run.returncode}: {run.stdout}{run.stderr}")


def connections(daemon, program):
    """By rdma_cm: to a port without a listener, and to an address without a host."""
    for address, cause in (("127.0.0.1", "connect_no_listener"), ("203.0.113.9", ("no_route", "no_neighbour"))):
        client = kit.Program(daemon, ["rping", "-c", "-a", address, "-p", "7174", "-C", "1"])
        try:
            client.process.wait(20)
        finally:
            client.kill()
        rows = incidents(daemon, f"pid={client.process.pid}")
        if not rows or rows[0]["cause"] not in cause:
            raise kit.Failure(f"{address}: {rows}\n{client.text()}")
        expect((rows[0]["comm"], rows[0]["kind"]), ("rping", "call"))


def only(daemon, pid, text):
    """The one incident of a program's sends."""
    rows = [row for row in incidents(daemon, f"pid={pid}") if row["kind"] == "send"]
    if len(rows) != 1:
        raise kit.Failure(f"{json.dumps(incidents(daemon), indent=1)}\n{len(rows)} of process {pid}: {text}{why(daemon)}")
    return rows[0]


class Hosts:
    """Two daemons over UDP sockets, as on two hosts: neither knows the other's queue pairs."""

    def __init__(self, build):
        folder = kit.scratch_folder()
        self.daemon = [kit.Daemon(build, folder, f"host{n}", (f"--udp=127.0.0.{n}/8",)) for n in (2, 3)]

    def run(self, program, name, argument):
        here, there = self.daemon
        process = kit.Program(here, [program, name, argument],
                              {"PEER_SOCKET": there.socket, "DAEMON": str(there.process.pid)})
        return process.process.pid, process.finish(40)

    def stop(self):
        for daemon in self.daemon:
            daemon.stop()


def two_hosts(build, program):
    """Each daemon says what it knows; a peer that is gone is silent."""
    hosts = Hosts(build)
    here, there = hosts.daemon
    try:
        pid, text = hosts.run(program, "process_wrong_rkey", "leave")
        row = only(here, pid, text)
        expect((row["cause"], row["root"], int(text.split()[2])), ("refused_access", None, row["code"]))
        found = [(row["cause"], row["dest_qpn"]) for row in incidents(there)]
        expect(found, [("remote_key_unknown", row["qpn"])])
        for name in ("peer_killed", "peer_daemon_killed"):
            pid, text = hosts.run(program, name, "leave")
            row = only(here, pid, text)
            expect((row["cause"], int(text.split()[2])), ("answers_stopped", row["code"]), json.dumps(row, indent=1))
            if not row["silent_us"] or not row["details"]["received"]:
                raise kit.Failure(f"no silence: {row}")
    finally:
        hosts.stop()


def killed_daemon(build, program):
    """The completions that the library makes say that the daemon has ended."""
    daemon = kit.Daemon(build, kit.scratch_folder(), "dies", (kit.FIXED_LOOPBACK,))
    try:
        process = kit.Program(daemon, [program, "daemon_killed", "wait"], {"DAEMON": str(daemon.process.pid)})
        _, status, code = process.finish(40).split()
        expect((status, json.loads(why(daemon, f"code={code}", "--json"))["cause"]), ("5", "daemon_ended"))
        why(daemon, status=1)
    finally:
        daemon.stop()


def ended_daemon(build, program):
    """What a daemon knew that ends with its programs is there afterwards, for its user."""
    folder = kit.scratch_folder()
    daemon = kit.Daemon(build, folder, "ends", (kit.FIXED_LOOPBACK, "--idle-exit", "100"))
    kept = daemon.socket + ".why"
    try:
        expect(incidents(daemon), [])
        expect(os.path.exists(kept), False)
        pid, text = run_case(daemon, program, "wrong_rkey", None)
    finally:
        daemon.stop()
    row = only(daemon, pid, text)
    expect((row["cause"], row["root_cause"]), ("refused_access", "remote_key_unknown"))
    expect(os.stat(kept).st_mode & 0o777, 0o600)
    age, unit = why(daemon).split(" ago:")[0].split()[-2:]
    if not 0 < float(age) < 1000 or unit not in ("ms", "s"):
        raise kit.Failure(f"{age} {unit} ago")
    # The next one has nothing of its own to tell.
    daemon = kit.Daemon(build, folder, "ends", (kit.FIXED_LOOPBACK, "--idle-exit", "100"))
    try:
        expect([row["root_cause"] for row in incidents(daemon, "wr_id=4711")], ["remote_key_unknown"])
    finally:
        daemon.stop()
    if not os.geteuid():
        os.chown(kept, int(USER), -1)
        why(daemon)  # of a daemon that went on as this user: no other one could put it into the folder
        for mode, owner in ((0o777, 0), (0o1777, 0), (0o770, 0), (0o700, int(USER))):
            os.chmod(folder, mode)
            os.chown(folder, owner, -1)
            why(daemon, status=1)
        os.chmod(folder, 0o700)
        os.chown(folder, 0, -1)
        os.chown(kept, 0, -1)
        why(daemon)
    os.rename(kept, kept + ".old")
    os.symlink(kept + ".old", kept)
    why(daemon, status=1)
    os.unlink(kept)
    for text in ("", "{", "[]", "7", '{"incidents": 1}', '{"incidents": [1, {}, [], {"details": 1, "counters": []}]}'):
        with open(kept, "w") as file:
            file.write(text)
        run = subprocess.run([build.uroce, "why", "--all", "--socket", daemon.socket], capture_output=True, text=True)
        if run.returncode not in (0, 1):
            raise kit.Failure(f"{text}: exit status {run.returncode}")


def ended_daemon_of_a_user(build, program):
    """Root started it, and it went on as another user: root knows what it has left."""
    if os.geteuid():
        return
    folder = kit.scratch_folder()
    daemon = kit.Daemon(build, folder, "user", (kit.FIXED_LOOPBACK, "--idle-exit", "100", "--user", "nobody"))
    try:
        pid, text = run_case(daemon, program, "wrong_rkey", None)
    finally:
        daemon.stop()
    expect(only(daemon, pid, text)["root_cause"], "remote_key_unknown")


def name_of(case):
    rule = case[3] if len(case) > 3 and isinstance(case[3], str) else ""
    return f"{case[0]}{', ' + rule if rule else ''}: {case[2]}"


def main():
    arguments = kit.point_arguments("program")
    daemons, points = [], []
    folder = kit.scratch_folder()
    for workers in WORKERS:
        daemon = kit.Daemon(kit.Build(arguments.build), folder, f"uroced{workers}",
                            (kit.FIXED_LOOPBACK, "--workers", str(workers)))
        daemons.append(daemon)
        points += [(f"{name_of(case)}, workers: {workers}",
                    lambda daemon=daemon, case=case: disaster(daemon, arguments.program, *case)) for case in CASES]
        points += [(f"{point.__name__}, workers: {workers}", lambda daemon=daemon, point=point: point(daemon, arguments.program))
                   for point in (questions, connections, failures_first, rules_that_are_over, other_users, bad_questions,
                                 without_daemon)]
    points += [(point.__name__, lambda point=point: point(kit.Build(arguments.build), arguments.program))
               for point in (two_hosts, killed_daemon, ended_daemon, ended_daemon_of_a_user)]
    try:
        return kit.run_points(points, arguments.match)
    finally:
        for daemon in daemons:
            daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
