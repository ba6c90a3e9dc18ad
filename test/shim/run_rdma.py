#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce rdma`: its numbers are those of `uroce show`, its words and names those of iproute2's rdma. TAP.

usage: run_rdma.py --build DIR"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

# The members of iproute2 6.15's JSON over rdma_rxe with -d, for programs of these kinds, recorded in a guest with Linux 6.12
# (test/interop has the guest, and compares again). rxe has no "fw", which mlx5 has.
RECORDED = {
    "dev": "ifindex ifname node_type protocol node_guid sys_image_guid adaptive-moderation caps",
    "link": "ifindex ifname port state physical_state netdev netdev_index",
    "res": "ifindex ifname pd cq qp cm_id mr ctx srq",
    "res show qp": "ifindex ifname port lqpn rqpn type state rq-psn sq-psn path-mig-state pdn pid comm",
    "res show cq": "ifindex ifname cqn cqe users adaptive-moderation ctxn pid comm",
    "res show mr": "ifindex ifname mrn rkey lkey mrlen pdn pid comm",
    "res show pd": "ifindex ifname pdn local_dma_lkey users ctxn pid comm",
    "res show cm_id": "ifindex ifname port cm-idn lqpn qp-type state ps pid comm src-addr dst-addr",
    "res show ctx": "ifindex ifname ctxn pid comm",
    "res show srq": "ifindex ifname srqn type lqpn pdn pid comm",
}
KINDS = {"qp": "qps", "cq": "cqs", "mr": "mr", "pd": "pds", "cm_id": "cm_ids", "ctx": "clients", "srq": "srqs"}
SECRETS = {"rq-psn", "sq-psn", "rkey", "lkey", "local_dma_lkey"}
USER = 65532

daemon = None
held = {}  # program -> pid


def expect(condition, what):
    if not condition:
        raise kit.Failure(str(what))


def equal(found, wanted):
    expect(found == wanted, f"{found}\ninstead of\n{wanted}")


def run(words, prefix=()):
    return subprocess.run([*prefix, daemon.build.uroce, "rdma", "--socket", daemon.socket, *words.split()], capture_output=True,
                          text=True, timeout=20)


def text(words, prefix=()):
    done = run(words, prefix)
    expect(done.returncode == 0 and not done.stderr, f"{words}: {done}")
    return done.stdout


def rows(words, prefix=()):
    return json.loads(text(words + " -j", prefix))


@contextlib.contextmanager
def programs():
    """Programs that hold objects of every kind: servers that wait, and a connection of rdma_cm that stands still."""
    started = []

    def start(name, *command):
        started.append(kit.Program(daemon, list(command)))
        held[name] = started[-1].process.pid
        return started[-1]

    ports = [str(kit.free_port()) for _ in range(6)]
    try:
        for name, port, more in (("rc", ports[0], ()), ("ud", ports[1], ()), ("srq", ports[2], ("-q", "3"))):
            kit.await_listening(start(name, f"ibv_{name}_pingpong", "-g", "0", "-p", port, *more), int(port), 20)
        kit.await_cm_listening(daemon, start("any", "rping", "-s", "-p", ports[3]), 20)
        kit.await_cm_listening(daemon, start("server", "rping", "-s", "-a", "127.0.0.1", "-p", ports[4]), 20)
        kit.await_cm_listening(daemon, start("six", "rping", "-s", "-a", "::1", "-p", ports[5]), 20)
        start("client", "rping", "-c", "-a", "127.0.0.1", "-p", ports[4], "-C", "1000000000")
        pair = {held["server"], held["client"]}
        kit.wait_until(lambda: {row["pid"] for row in daemon.show("cm_ids") if row["state"] == "ESTABLISHED"} == pair, 20, "connected")
        for pid in pair:
            os.kill(pid, signal.SIGSTOP)
        kit.wait_until(is_quiet, 20, "the connection stands still")
        yield
    finally:
        for program in started:
            program.kill()


def is_quiet():
    return daemon.show("qps") == daemon.show("qps")


# ---- text and JSON ----

def as_text(value, name):
    if isinstance(value, bool):
        return f"{name} {'on' if value else 'off'} "
    if isinstance(value, list):
        return f"{name} {','.join(value)} "
    return f"{name} {'0x' if name in ('rkey', 'lkey', 'local_dma_lkey') else ''}{value} "


def line_of(row, head):
    """A row of JSON as the text of rdma."""
    skipped = {"ifindex", "ifname", "port", "netdev_index", "caps"}
    return head + "".join(as_text(value, name) for name, value in row.items() if name not in skipped)


def head_of(row, kind):
    if kind in ("qp", "cm_id", "link"):
        return f"link {row['ifname']}/{row.get('port', '-')} "
    if kind in KINDS:
        return f"dev {row['ifname']} "
    return f"{row['ifindex']}: {row['ifname']}: "


def text_is_json():
    for words in ("dev", "link", "res", *(f"res show {kind}" for kind in KINDS)):
        kind = words.split()[-1]
        found = rows(words)
        expect(found, f"{words}: nothing")
        equal(text(words), "".join(line_of(row, head_of(row, kind)) + "\n" for row in found))
        equal(json.loads(text(words + " -jp")), found)
        expect(text(words + " -jp").count("\n") > len(found[0]) and text(words + " -j").count("\n") == 1, words)


def details():
    dev, = rows("dev -d")
    expect(dev["adaptive-moderation"] is False and "XRC" in dev["caps"], dev)
    equal(text("dev -d").splitlines()[1], f"    caps: <{', '.join(dev['caps'])}>")
    expect("adaptive-moderation off \\    caps: <" in text("dev -do"), text("dev -do"))
    expect(text("link -d").endswith(f"netdev_index {rows('link')[0]['netdev_index']} \n"), text("link -d"))


def names():
    for words, recorded in RECORDED.items():
        found = rows(words + " -d")
        widest = max(found, key=len)
        equal([name for name in widest if name != "fw"], recorded.split())
        for row in found:
            expect([name for name in recorded.split() if name in row] == [name for name in row if name != "fw"], f"{words}: {row}")


# ---- numbers ----

def devices_and_links():
    port, = daemon.show("ports")
    dev, = rows("dev")
    link, = rows("link show uroce0/1")
    equal((dev["ifindex"], dev["ifname"], dev["fw"]), (0, "uroce0", daemon.show()["version"]))
    equal(dev["node_guid"].replace(":", ""), guid_of(port["mac"]))
    equal((link["state"], link["physical_state"], link["netdev"]), ("ACTIVE", "LINK_UP", port["netdev"]))
    equal(text("link show uroce0"), text("link"))


def guid_of(mac):
    """EUI-64 of a MAC."""
    b = bytes.fromhex(mac.replace(":", ""))
    return bytes([b[0] ^ 2, *b[1:3], 0xFF, 0xFE, *b[3:]]).hex()


def shown(kind):
    """What `uroce rdma res show KIND` says, from `uroce show`, as sets of (name, value)."""
    comm = {row["pid"]: row["comm"] for row in daemon.show("clients")}
    makers = {
        "qp": lambda r: {"lqpn": r["qpn"], "state": r["state"], "type": r["type"], "pdn": r["pd"], "sq-psn": r.get("sq_psn", 0),
                         **({"rqpn": r.get("dest_qpn", 0), "rq-psn": r.get("rq_psn", 0)} if r["type"] == "RC" else {})},
        "cq": lambda r: {"cqn": r["cq"], "cqe": r["cqe"], "users": r["users"], "ctxn": r["context"]},
        "mr": lambda r: {"mrn": r["handle"], "mrlen": r["length"], "pdn": r["pd"], "rkey": f"{r['key']:x}", "lkey": f"{r['key']:x}"},
        "pd": lambda r: {"pdn": r["pd"], "users": r["users"], "ctxn": r["context"]},
        "cm_id": lambda r: {"cm-idn": r["id"], "src-addr": plain(r["src"]), "dst-addr": plain(r.get("dst", any_address(r["src"]))),
                            "ps": r["port_space"].upper(), "state": {"ESTABLISHED": "CONNECT"}.get(r["state"], r["state"])},
        "ctx": lambda r: {"ctxn": r["context"]},
        "srq": lambda r: {"srqn": r["srq"], "type": r["type"], "pdn": r["pd"]},
    }
    return [{**makers[kind](row), "pid": row["pid"], "comm": comm[row["pid"]]}
            for row in daemon.show(KINDS[kind]) if kind != "ctx" or "context" in row]


def plain(address):
    """rdma prints addresses of IPv6 without brackets."""
    return address.replace("[", "").replace("]", "")


def any_address(like):
    """What rdma prints as the peer of a listener."""
    return "[::]:0" if "[" in like else "0.0.0.0:0"


def by_number(found, kind):
    return sorted(found, key=lambda row: row[RECORDED[f"res show {kind}"].replace("port ", "").split()[2]])


def numbers(kind):
    wanted = by_number(shown(kind), kind)
    found = by_number(rows(f"res show {kind}"), kind)
    expect(wanted, "nothing is shown")
    equal(len(found), len(wanted))
    for have, want in zip(found, wanted):
        equal({name: have.get(name) for name in want}, want)


def shared_queue():
    srq, = rows("res show srq")
    mine = sorted(row["qpn"] for row in daemon.show("qps") if row["pid"] == held["srq"])
    equal([row for row in daemon.show("qps") if row.get("srq") == srq["srqn"]],
          [row for row in daemon.show("qps") if row["pid"] == held["srq"]])
    equal(numbers_of(srq["lqpn"]), mine)
    equal(numbers_of(rows(f"res show srq lqpn {mine[1]}")[0]["lqpn"]), mine[1:2])
    equal(rows("res show srq lqpn 1"), [])


def numbers_of(ranges):
    found = []
    for item in ranges:
        first, _, last = item.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def summary():
    found, = rows("res")
    for kind in KINDS:
        equal(found[kind], len(shown(kind)))
    equal(rows("res show uroce0"), [found])


def statistics():
    """The counters of sysfs, after a connection that has lost packets."""
    fault = [daemon.build.uroce, "fault", "--socket", daemon.socket]
    subprocess.run([*fault, "add", "drop", "rx", "opcode", "RC_ACK", "nth", "10", "count", "30"], check=True, stdout=subprocess.DEVNULL)
    try:
        kit.run_pair(daemon, "ibv_rc_pingpong -g 0 -n 2000".split())
    finally:
        subprocess.run([*fault, "remove", "all"], check=True)
    row, = rows("statistic")
    equal(list(row)[:2], ["ifname", "port"])
    expect(row["duplicate_request"] + row["local_ack_timeout_err"] > 0, row)
    page = subprocess.run([daemon.build.uroce, "metrics", "--socket", daemon.socket], capture_output=True, text=True, check=True).stdout
    compared = 0
    for name, value in list(row.items())[2:]:
        metric = re.search(rf"^uroce_qp_{name}_total{{.*}} (\d+)$", page, re.M)
        compared += metric is not None
        expect(metric is None or int(metric[1]) == value, f"{name}: {value} and {metric and metric[0]}")
    expect(compared >= 8, f"{compared} counters were compared")
    lines = text("stat show link uroce0/1").splitlines()
    equal(lines, ["link uroce0/1 ", *(f"    {name} {value} " for name, value in list(row.items())[2:])])


# ---- choosing ----

def places():
    everything = rows("res show qp")
    expect({row["port"] for row in everything} == {1}, everything)
    for words in ("link uroce0", "link uroce0/", "link uroce0/1"):
        equal(rows("res show qp " + words), everything)
    equal(rows("res show qp link uroce0/-"), [])
    listener, = rows("res show cm_id link uroce0/-")
    expect(listener["pid"] == held["any"] and "port" not in listener, listener)
    equal(rows("res show cm_id")[0], listener)
    equal(rows("res show cq dev uroce0"), rows("res show cq"))


def filters():
    everything = rows("res show qp")
    numbers = sorted(row["lqpn"] for row in everything)
    checks = {
        f"lqpn {numbers[0]}": lambda row: row["lqpn"] == numbers[0],
        f"lqpn {numbers[0]},{numbers[2]}": lambda row: row["lqpn"] in (numbers[0], numbers[2]),
        f"lqpn {numbers[1]}-99999999999999999999": lambda row: row["lqpn"] >= numbers[1],
        f"lqpn {numbers[1]}-{numbers[3]}": lambda row: numbers[1] <= row["lqpn"] <= numbers[3],
        f"pid {held['ud']}": lambda row: row["pid"] == held["ud"],
        "type ud": lambda row: row["type"] == "UD",
        "type UD,RC state init": lambda row: row["state"] == "INIT",
        f"rqpn 1-{1 << 24}": lambda row: row.get("rqpn"),
        f"link uroce0/1 pid {held['server']},{held['client']}": lambda row: row["pid"] in (held["server"], held["client"]),
        "path-mig-state migrated": lambda row: row["type"] == "RC",
        f"pd {everything[0]['pdn']}": lambda row: row["pdn"] == everything[0]["pdn"],
    }
    for words, wanted in checks.items():
        chosen = [row for row in everything if wanted(row)]
        expect(chosen and len(chosen) < len(everything), f"{words}: {chosen}")
        equal(rows("res show qp " + words), chosen)
    ids = rows("res show cm_id")
    port = int(next(row for row in ids if row["pid"] == held["client"])["dst-addr"].split(":")[1])
    equal({row["pid"] for row in rows(f"res show cm_id dst-port {port}")}, {held["client"]})
    equal({row["state"] for row in rows(f"res show cm_id src-port {port} state listen src-addr 127.0.0.1")}, {"LISTEN"})
    equal([row["pid"] for row in rows("res show cm_id src-addr ::1")], [held["six"]])
    equal(rows("res show cq users 6"), [row for row in rows("res show cq") if row["users"] == 6])
    mr = rows("res show mr")[0]
    equal(rows(f"res show mr rkey {int(mr['rkey'], 16)}"), [mr])


def abbreviations():
    for short, full in (("d", "dev show"), ("l", "link list"), ("r", "resource show"), ("r s q", "resource show qp"), ("res sh c", "res show cm_id"),
                        ("st", "statistic show"), ("stat s l uroce0/1", "statistic show link uroce0/1"),
                        ("res sh pd d uroce0 u 0", "resource show pd dev uroce0 users 0")):
        equal(text(short), text(full))


def refusals():
    for words, status, sentence in (
            ("nothing", 2, 'there is no object "nothing"'), ("dev bogus", 2, 'dev has no command "bogus"'),
            ("dev show bogus", 1, 'there is no device "bogus"'), ("dev show uroce0 more", 2, '"more" is too much'),
            ("link show uroce0/2", 1, 'uroce0 has no port "2"'), ("link show uroce0/1x", 1, "no port"), ("link show uroce1/1", 1, "no device"),
            ("dev set uroce0 name x", 1, "dev set is not supported"), ("link add x type rxe netdev lo", 1, "link add is not supported"),
            ("link delete uroce0", 1, "link delete is not supported"), ("monitor", 1, "monitor is not supported"),
            ("system show", 1, "system is not supported"), ("stat qp set link uroce0/1 auto type on", 1, "statistic qp is not supported"),
            ("stat show mr", 1, "statistic show mr is not supported"), ("stat show link", 2, "needs a port"),
            ("res show bogus", 2, '"bogus" is no device'), ("res show qp bogus 1", 2, 'there is no filter "bogus"'),
            ("res show qp lqpn", 2, '"lqpn" needs a value'), ("res show qp lqpn x", 2, "no number"),
            *((f"res show qp lqpn {value}", 2, "no number") for value in ("5-", "5,", ",5", "5--7", "1-2-3", "5x")),
            ("res show cq link uroce0", 2, "no filter"),
            ("res show qp link bogus/1", 1, "no device"), ("res show cq dev bogus", 1, "no device")):
        done = run(words)
        expect(done.returncode == status and sentence in done.stderr and not done.stdout, f"{words}: {done}")
    done = run("dev --nothing")
    expect(done.returncode == 2 and "usage: uroce rdma" in done.stderr, done)
    done = subprocess.run([daemon.build.uroce, "rdma", "--socket", "/nonexistent", "dev"], capture_output=True, text=True, timeout=20)
    expect(done.returncode == 1 and "/nonexistent" in done.stderr, done)


def another_user():
    """Objects of that user's programs, without PSNs and keys; of others nothing."""
    if os.geteuid() or not shutil.which("setpriv"):
        raise kit.Skipped("needs root and setpriv")
    prefix = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    equal([row[kind] for row in rows("res", prefix) for kind in KINDS], [0] * len(KINDS))
    port = str(kit.free_port())
    program = kit.Program(daemon, [*prefix, "ibv_rc_pingpong", "-g", "0", "-p", port])
    try:
        kit.await_listening(program, int(port), 20)
        for kind in ("qp", "cq", "mr", "pd", "ctx"):
            found = rows(f"res show {kind}", prefix)
            expect(found and {row["pid"] for row in found} == {program.process.pid}, found)
            expect(not SECRETS & set(found[0]), found)
            expect(len(rows(f"res show {kind}")) > len(found), kind)
    finally:
        program.kill()


def under_run(options, *command):
    """What a program under `uroce run` prints."""
    done = subprocess.run([daemon.build.uroce, "run", "--socket", daemon.socket, *options, "--", *command], capture_output=True,
                          text=True, timeout=20)
    expect(done.returncode == 0 and not done.stderr, f"{options} {command}: {done}")
    return done.stdout


def by_name():
    """Programs under `uroce run` find it as rdma, with the names that the devices have for them."""
    equal(under_run((), "rdma", "link"), text("link"))
    equal(under_run((), "sh", "-c", "exec rdma res show qp type rc"), text("res show qp type rc"))
    named = ("--device-name", "mlx5_7")
    for words in ("dev", "link", "statistic", "res", *(f"res show {kind}" for kind in KINDS)):
        wanted = [row | {"ifname": "mlx5_7"} for row in rows(words)]
        equal(json.loads(under_run(named, "rdma", *words.split(), "-j")), wanted)
    equal(under_run(named, "rdma", "link", "show", "mlx5_7/1"), text("link").replace("uroce0", "mlx5_7"))
    done = subprocess.run([daemon.build.uroce, "run", "--socket", daemon.socket, *named, "rdma", "link", "show", "uroce0/1"],
                          capture_output=True, text=True, timeout=20)
    equal((done.returncode, done.stderr), (1, 'uroce: rdma: there is no device "uroce0"\n'))
    equal(under_run(("--sys=no",), "sh", "-c", "echo $PATH"), os.environ["PATH"] + "\n")


def main():
    global daemon
    options = kit.point_arguments()
    folder = kit.scratch_folder()
    os.chmod(folder, 0o711)
    configuration = "[uroced]\nmode = 0666\n[port.0]\ndevice = loopback\naddress.0 = 127.0.0.1/8\naddress.1 = ::1/128\n"
    daemon = kit.Daemon(kit.Build(options.build), folder, configuration=configuration)
    points = [("text is JSON", text_is_json), ("details", details), ("names", names), ("devices and links", devices_and_links),
              *((f"numbers of {kind}", lambda kind=kind: numbers(kind)) for kind in KINDS), ("a shared receive queue", shared_queue),
              ("the summary", summary), ("places", places), ("filters", filters), ("abbreviations", abbreviations),
              ("refusals", refusals), ("another user", another_user), ("statistics", statistics), ("by name", by_name)]
    try:
        with programs():
            return kit.run_points(points, options.match)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
