#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce fault`: calls of verbs that fail, ACKs that become NAKs, queue pairs and events that fail at a word. Unmodified programs say
what they make of it. TAP.

usage: run_fault_calls.py --build DIR"""
import contextlib
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

SECONDS = 60
PINGPONG = "ibv_rc_pingpong -g 0 -n 500".split()
BANDWIDTH = "ib_write_bw -F -x 0 -n 1000".split()

daemon = None


def fault(*words):
    run = subprocess.run([daemon.build.uroce, "fault", *words, "--socket", daemon.socket], capture_output=True, text=True,
                         timeout=20)
    return run.returncode, run.stdout + run.stderr


def must(*words):
    status, text = fault(*words)
    if status:
        raise kit.Failure(f"uroce fault {' '.join(words)}: {text}")
    return text


@contextlib.contextmanager
def rule(text):
    """Its row is the last thing that is asked for."""
    must("add", *text.split())
    row = {}
    try:
        yield row
        row.update(json.loads(must("list", "--json"))[0])
    finally:
        must("remove", "all")


def expect(condition, what):
    if not condition:
        raise kit.Failure(str(what))


def why(pid):
    """The sentences of `uroce why` about a process's latest failure."""
    run = subprocess.run([daemon.build.uroce, "why", f"pid={pid}", "--json", "--socket", daemon.socket], capture_output=True,
                         text=True, timeout=20)
    newest = json.loads(run.stdout)[0] if run.returncode == 0 else {"cause": run.stderr, "more": ""}
    return f"{newest['cause']}: {newest['more']}"


def fails(text, command, sentence):
    """The first call fails, the program says so, and `uroce why` knows the rule; what comes after the last hit succeeds."""
    verb, error = text.split()[1:3]
    with rule(text + " count 1") as row:
        program = kit.Program(daemon, command)
        try:
            status = program.process.wait(SECONDS)
        finally:
            program.kill()
        expect(status and re.search(sentence, program.text()), f"{text}: status {status}: {program.text()}")
        told = why(program.process.pid)
        expect(re.fullmatch(f"call_on_purpose: It was (ibv|rdma)_{verb}, and failed with {error}\\.", told), told)
        kit.run_pair(daemon, PINGPONG)
    expect(row["acted"] == 1, row)


CALLS = (
    ("fail alloc_pd ENOMEM", PINGPONG, "Couldn't allocate PD"),
    ("fail reg_mr ENOMEM", PINGPONG, "Couldn't register MR"),
    ("fail create_cq ENOMEM", PINGPONG, "Couldn't create CQ"),
    ("fail create_qp ENOMEM", PINGPONG, "Couldn't create QP"),
    ("fail query_port EIO", PINGPONG, "Couldn't query port|Couldn't get port info"),
    ("fail modify_qp EINVAL", PINGPONG, "Failed to modify QP to INIT"),
    ("fail create_comp_channel EMFILE", [*PINGPONG, "-e"], "Couldn't create completion channel"),
    ("fail open_device EPERM", PINGPONG, "Couldn't get context"),
    ("fail post_recv ENOMEM", PINGPONG, "Couldn't post receive"),
    ("fail post_srq_recv ENOMEM", "ibv_srq_pingpong -g 0 -n 500".split(), "Couldn't post receive"),
    ("fail req_notify_cq EINVAL", [*PINGPONG, "-e"], "Couldn't request CQ notification"),
    ("fail create_id ENOMEM", "rping -s -a 127.0.0.1".split(), "rdma_create_id: Cannot allocate memory"),
    ("fail bind_addr EADDRINUSE", "rping -s -a 127.0.0.1".split(), "rdma_bind_addr: Address already in use"),
    ("fail listen EADDRINUSE", "rping -s -a 127.0.0.1".split(), "rdma_listen: Address already in use"),
    ("fail resolve_addr ENODEV", "rping -c -a 127.0.0.1".split(), "rdma_resolve_addr: No such device"),
)


def only_of_a_program():
    with rule("fail reg_mr ENOMEM program ibv_uc_pingpong") as row:
        kit.run_pair(daemon, PINGPONG)
        program = kit.Program(daemon, "ibv_uc_pingpong -g 0".split())
        try:
            expect(program.process.wait(SECONDS) and "register MR" in program.text(), program.text())
        finally:
            program.kill()
    expect(row["matched"] == row["acted"] >= 1, row)


def fails_in_a_pair(text, command, sentence):
    """A call that comes after the two programs have met."""
    with rule(text + " count 1") as row:
        try:
            kit.run_pair(daemon, command)
        except kit.Failure as failure:
            expect(re.search(sentence, str(failure)), failure)
        else:
            expect(False, "the programs succeed")
    expect(row["acted"] == 1, row)


def work_queue_fails(build):
    """ibv_post_wq_recv is post_recv, as to tracers."""
    fails("fail post_recv ENOMEM", [os.path.join(build, "test/shim/test_raw"), "receive"], "ibv_post_wq_recv: 12, errno 12")


def fails_while_running():
    """A rule for a call of the library's own reaches a program that runs, and no other one."""
    server, client = running_transfer()
    try:
        must("add", *"fail post_send ENOMEM program another".split())
        sent = counters()["tx_packets"]
        kit.wait_until(lambda: counters()["tx_packets"] > sent + 10000, 20, "the transfer goes on")
        row, = json.loads(must("list", "--json"))
        expect(not row["matched"], row)
        must("add", *"fail post_send ENOMEM program ib_write_bw nth 50".split())
        status = client.process.wait(SECONDS)
        expect(status and re.search("[Cc]ouldn't post send|Failed to post", client.text()), client.text())
        row = json.loads(must("list", "--json"))[1]
        expect(row["acted"] >= 1 and row["matched"] >= 50, row)
    finally:
        server.kill()
        client.kill()
        must("remove", "all")


def connect_fails():
    """The error of a posted request is an event."""
    with rule("fail connect ECONNREFUSED") as row:
        server = kit.Program(daemon, "rping -s -a 127.0.0.1 -p 7174".split())
        try:
            kit.await_cm_listening(daemon, server, 20)
            client = kit.Program(daemon, "rping -c -a 127.0.0.1 -p 7174 -C 1".split())
            try:
                status = client.process.wait(SECONDS)
            finally:
                client.kill()
            expect(status and "connect" in client.text().lower(), client.text())
        finally:
            server.kill()
    expect(row["acted"] == 1, row)


def nak(name, sentence):
    with rule(f"nak {name} rx opcode RC_ACK count 1") as row:
        try:
            kit.run_pair(daemon, BANDWIDTH)
        except kit.Failure as failure:
            expect(sentence and re.search(sentence, str(failure)), failure)
        else:
            expect(not sentence, "the transfer succeeds")
    expect(row["acted"] == 1, row)


def completes(status, number, command, operation):
    """A work request of one program fails; the others' do not. Nothing else is wrong: the answer to why."""
    program = command[0]
    with rule(f"complete {status} program {program} operation {operation} nth 3 count 1") as row:
        other = "ibv_srq_pingpong" if program != "ibv_srq_pingpong" else "ibv_xsrq_pingpong"
        kit.run_pair(daemon, [other, "-g", "0", "-n", "100"])
        try:
            kit.run_pair(daemon, command)
        except kit.Failure as failure:
            expect(re.search(rf"status {number}\b|\({number}\)", str(failure)), failure)
        else:
            expect(False, "the transfer succeeds")
        text = subprocess.run([daemon.build.uroce, "why", "--json", "--socket", daemon.socket, "code=98"],
                              capture_output=True, text=True, timeout=20).stdout
        expect("status_on_purpose" in text, text)
        newest = json.loads(subprocess.run([daemon.build.uroce, "why", "--json", "--socket", daemon.socket, f"pid={program}"],
                                           capture_output=True, text=True, timeout=20, check=True).stdout)
        found = [i for i in newest if i["cause"] == "status_on_purpose"]
        expect(found and found[0]["status_code"] == number, newest[:2])
    expect(row["acted"] == 1 and row["matched"] >= 3, row)
    kit.run_pair(daemon, command)


def of_one_program():
    """Packets for one program's queue pairs are dropped, another one's are not."""
    with rule("drop rx program ibv_uc_pingpong") as row:
        kit.run_pair(daemon, PINGPONG)
        expect(not json.loads(must("list", "--json"))[0]["matched"], "packets of another program match")
        port = str(kit.free_port())
        command = ["ibv_uc_pingpong", "-g", "0", "-p", port]
        server = kit.Program(daemon, command)
        client = None
        try:
            kit.await_listening(server, int(port), 20)
            client = kit.Program(daemon, [*command, "127.0.0.1"])
            kit.wait_until(lambda: json.loads(must("list", "--json"))[0]["acted"], 20, "packets are dropped")
            time.sleep(0.2)
            expect(server.process.poll() is None, "it got its message all the same")
        finally:
            server.kill()
            if client:
                client.kill()
    expect(row["acted"] == row["matched"], row)


def of_one_peer():
    with rule("drop tx peer 127.0.0.2") as row:
        kit.run_pair(daemon, PINGPONG)
    expect(not row["matched"], row)
    with rule("mark peer 127.0.0.1") as row:
        kit.run_pair(daemon, PINGPONG)
    expect(row["matched"], row)


def other_source_port():
    """A path that is dead: only what has its source port."""
    with rule("drop tx sport 1") as row:
        kit.run_pair(daemon, PINGPONG)
    expect(not row["matched"], row)
    server, client = running_transfer()
    try:
        ports = {qp["udp_sport"] for qp in daemon.show("qps") if qp["udp_sport"]}
        expect(ports, daemon.show("qps"))
        for number in ports:
            must("add", "drop", "tx", "sport", str(number))
        expect(client.process.wait(SECONDS), client.text())
        expect(re.search("status 12|transport retry counter exceeded", client.text()), client.text())
    finally:
        server.kill()
        client.kill()
        must("remove", "all")


def running_transfer():
    port = str(kit.free_port())
    command = BANDWIDTH[:-2] + ["-D", "50", "-p", port]
    server = kit.Program(daemon, command)
    kit.await_listening(server, int(port), 20)
    sent = counters()["tx_packets"] + 1000
    client = kit.Program(daemon, command + ["127.0.0.1"])
    kit.wait_until(lambda: counters()["tx_packets"] > sent, 20, "the transfer runs")
    return server, client


def queue_pair_fails():
    server, client = running_transfer()
    try:
        qpn, = [qp["qpn"] for qp in daemon.show("qps") if qp["pid"] == client.process.pid]
        must("now", "qp_error", "qp", str(qpn))
        state, = [qp["state"] for qp in daemon.show("qps") if qp["qpn"] == qpn] or ["ERR"]
        status = client.process.wait(SECONDS)
        expect(status and state == "ERR" and re.search("status 5|Work Request Flushed", client.text()), f"{state} {client.text()}")
        newest = subprocess.run([daemon.build.uroce, "why", str(qpn), "--json", "--socket", daemon.socket],
                                capture_output=True, text=True, timeout=20, check=True).stdout
        expect([i["code"] for i in json.loads(newest)] == [103], newest)
    finally:
        server.kill()
        client.kill()
    status, text = fault("now", "qp_error", "qp", "1048575")
    expect(status == 1 and "there is no such queue pair" in text, text)


def events():
    watcher = kit.Program(daemon, ["stdbuf", "-oL", "ibv_asyncwatch"])
    try:
        kit.wait_until(lambda: "async event FD" in watcher.text(), 20, "it watches")
        for name, value in (("port_err", 10), ("port_active", 9), ("sm_change", 13), ("client_reregister", 17),
                            ("device_fatal", 8)):
            must("now", "event", name)
            kit.wait_until(lambda: re.search(rf"event_type .*\({value}\)", watcher.text()), 20, f"{name}: {watcher.text()}")
    finally:
        watcher.kill()


def daemon_dies():
    """At once, and without an answer; a program that waits for it gets its event."""
    other = kit.Daemon(daemon.build, kit.scratch_folder(), arguments=(kit.FIXED_LOOPBACK,))
    watcher = kit.Program(other, ["stdbuf", "-oL", "ibv_asyncwatch"])
    try:
        kit.wait_until(lambda: "async event FD" in watcher.text(), 20, "it watches")
        run = subprocess.run([daemon.build.uroce, "fault", "now", "daemon_death", "--socket", other.socket], capture_output=True,
                             text=True, timeout=20)
        expect(run.returncode == 0 and not run.stderr, run)
        kit.wait_until(lambda: not other.alive(), 20, "the daemon ends")
        kit.wait_until(lambda: re.search(r"event_type .*\(8\)", watcher.text()), 20, watcher.text())
    finally:
        watcher.kill()
        other.stop()


def port_state():
    return daemon.show("ports")[0]["state"]


def link_flaps():
    """Down, with the port's state and an event, and up again by itself; a transfer lives through it."""
    watcher = kit.Program(daemon, ["stdbuf", "-oL", "ibv_asyncwatch"])
    server, client = running_transfer()
    try:
        kit.wait_until(lambda: "async event FD" in watcher.text(), 20, "it watches")
        # Less than the retries of the transfer take.
        number = must("add", "link_down", "after", "100ms", "for", "200ms").split()[1]
        kit.wait_until(lambda: len(re.findall(r"event_type .*\((?:9|10)\)", watcher.text())) == 2, 20, "two events")
        expect(re.findall(r"event_type .*\((9|10)\)", watcher.text()) == ["10", "9"], watcher.text())
        expect(port_state() == "active", "it is not up when its time is over")
        row, = json.loads(must("list", "--json"))
        expect(row["acted"] == row["matched"] > 0, row)
        # What was lost is sent again, after its timeout.
        sent = counters()["tx_packets"]
        kit.wait_until(lambda: counters()["tx_packets"] > sent + 1000, 20, "the transfer goes on")
        must("remove", number)
        must("add", "link_down")
        expect(port_state() == "down", "it is not down at once")
        text = subprocess.run(["ibv_devinfo"], capture_output=True, text=True, env=daemon.environment(), timeout=20).stdout
        expect("PORT_DOWN" in text, text)
        must("remove", "all")
        expect(port_state() == "active", "it is not up without the rule")
    finally:
        for program in (watcher, server, client):
            program.kill()
        must("remove", "all")


def counters():
    return {row["counter"]: row["value"] for row in daemon.show("counters")}


def refuses():
    for words, sentence in ((["add", "event", "port_err"], "this is no rule: say uroce fault now"),
                            (["now", "drop"], "this is a rule: say uroce fault add"),
                            (["add", "explode"], '"explode" is no action: say drop,'),
                            (["now", "explode"], '"explode" is not what can happen now: say qp_error, event or daemon_death'),
                            (["add", "fail", "destroy_qp", "EIO"], '"destroy_qp" is no verb that can fail'),
                            (["now", "event", "port_err", "device", "none"], '"none" is no device')):
        status, text = fault(*words)
        expect(status == 1 and sentence in text, f"{words}: {status} {text}")
    expect(fault("now")[0] == 2, "now without words")


def main():
    global daemon
    options = kit.point_arguments()
    daemon = kit.Daemon(kit.Build(options.build), kit.scratch_folder(), arguments=(kit.FIXED_LOOPBACK,))
    points = [(text, lambda row=(text, *rest): fails(*row)) for text, *rest in CALLS]
    points += [("only of a program", only_of_a_program), ("connect fails", connect_fails),
               ("post_send fails", lambda: fails_in_a_pair("fail post_send ENOMEM", PINGPONG, "Couldn't post send")),
               ("poll_cq fails", lambda: fails_in_a_pair("fail poll_cq EIO", PINGPONG, "poll CQ failed -5")),
               ("ibv_wr_start fails", lambda: fails_in_a_pair("fail post_send EINVAL", [*PINGPONG, "-N"], "Couldn't post send")),
               ("ibv_start_poll fails", lambda: fails_in_a_pair("fail poll_cq EIO nth 3", [*PINGPONG, "-t"], "poll CQ failed")),
               ("ibv_post_wq_recv fails", lambda: work_queue_fails(options.build)),
               ("a call fails while it runs", fails_while_running)]
    points += [(f"nak {name}", lambda row=(name, sentence): nak(*row)) for name, sentence in (
        ("rnr", ""), ("sequence", ""), ("invalid_request", "status 9|remote invalid request"),
        ("remote_access", "status 10|remote access error"), ("remote_operational", "status 11|remote operation error"))]
    points += [(f"complete {row[0]}", lambda row=row: completes(*row)) for row in (
        ("retry_exc_err", 12, BANDWIDTH, "write"), ("rem_access_err", 10, "ib_read_bw -F -x 0 -n 1000".split(), "read"),
        ("loc_prot_err", 4, "ib_atomic_bw -F -x 0 -n 1000".split(), "fetch_add"), ("fatal_err", 19, PINGPONG, "send"),
        ("general_err", 21, "ibv_ud_pingpong -g 0 -n 500".split(), "send"))]
    points += [("packets of a program", of_one_program), ("packets of a peer", of_one_peer)]
    points += [("a source port is dead", other_source_port), ("a queue pair fails", queue_pair_fails), ("events", events), ("the daemon dies", daemon_dies), ("a link flaps", link_flaps),
               ("what is refused", refuses)]
    try:
        return kit.run_points(points, options.match)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
