# SPDX-License-Identifier: BSD-3-Clause
"""Programs that connect by rdma_cm: how each side is started, when a server is ready, and what both print in the end."""
import hashlib
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

READY_SECONDS = 30
LAST_SECONDS = 30  # the server ends when the client has
GROUP = "239.1.2.3"
COPY_BYTES = 3000001
GUEST_FOLDER = "/run"
QPERF_PORT = 19765  # of its server, which listens by TCP
QPERF_TESTS = ("rc_bw", "rc_lat", "rc_rdma_read_bw", "rc_rdma_write_lat", "rc_fetch_add_mr")

# Of each program what the two sides are told besides: {own} is a side's own address, {peer} the other's. rdma_server and
# rdma_client are two programs.
SIDES = {
    "rping": ("-s -a {own}", "-c -a {peer}"),
    "ucmatose": ("-b {own}", "-s {peer} -b {own}"),
    "udaddy": ("-b {own}", "-s {peer} -b {own}"),
    "cmtime": ("-b {own}", "-s {peer} -b {own}"),
    "rdma_server": ("-s {own}", "-s {peer}"),
    "rstream": ("-b {own}", "-s {peer}"),
    "riostream": ("-b {own}", "-s {peer}"),
    "rdma_xserver": ("", "-s {peer}"),
    "rcopy": ("", "{source} {peer}:{target}"),
    "mckey": (f"-m {GROUP} -b {{own}}", f"-m {GROUP} -b {{own}} -s"),
    "qperf": ("", f"-cm1 -t 1 {{peer}} {' '.join(QPERF_TESTS)}"),
}
PERFTEST = ("", "{peer}")
SOCKETS = ("rstream", "riostream")


def never_ends(command):
    """A server for one client after the other."""
    return command.startswith(("cmtime ", "rcopy", "qperf ")) or " -P " in command


def commands(command, server_address, client_address, **files):
    """The server's command and the client's. files: those of rcopy, whose client names both."""
    program, rest = (command + " ").split(" ", 1)
    sides = SIDES.get(program, PERFTEST)
    server = f"{program} {rest}{sides[0]}".format(own=server_address)
    client = f"{program.replace('server', 'client')} {rest}{sides[1]}".format(own=client_address, peer=server_address, **files)
    return server, client


def check(text, command, client):
    """The output of one side that has ended well."""
    program = command.split()[0]
    if program == "rping":
        due = int(re.search(r"-C (\d+)", command).group(1))
        # Standard error has no buffer: it comes in the middle of a line.
        found = re.findall(r"ping data: rdma-ping-(\d+): ", text.replace("client DISCONNECT EVENT...\n", ""))
        good = found == [str(n) for n in range(due)]
    elif program == "cmtime":
        times = re.findall(r"^(?:connect|disconnect|resolve addr)\s*:?\s+([\d.]+)", text, re.M)
        good = len(times) == 3 and all(float(time) > 0 for time in times)
    elif program in ("rdma_server", "rdma_xserver"):
        good = re.search(r"^rdma_x?(server|client): end 0$", text, re.M)
    elif program == "qperf":
        values = re.findall(r"^    (?:bw|latency|msg_rate) +=  *([\d.]+) ", text, re.M)
        good = not client or (re.findall(r"^(\w+):$", text, re.M) == list(QPERF_TESTS) and
                              len(values) >= len(QPERF_TESTS) and all(map(float, values)))
    elif program == "rcopy":
        good = not client or re.search(rf"^{COPY_BYTES} bytes in ", text, re.M)
    elif program in SOCKETS:
        good = not client or re.search(r"^custom .* (?!0\.00s)[\d.]+s ", text, re.M)
    elif program in SIDES:
        good = re.search(r"^data transfers complete$", text, re.M) and re.search(r"^return status 0$", text, re.M)
    else:
        good = not client or len(kit.perftest_rows(text)) == 1
    if not good:
        raise kit.Failure(f"{command}: the {'client' if client else 'server'} has other results:\n{text}")


def await_ours(daemon, program):
    """Until the server listens, or is in the group. uroced knows."""
    if program.command[0] == "mckey":
        return kit.wait_until(lambda: any(GROUP in str(row) for row in daemon.show("groups")), READY_SECONDS,
                              "mckey is in the group")
    if program.command[0] == "qperf":
        return kit.await_listening(program, QPERF_PORT, READY_SECONDS)
    return kit.await_cm_listening(daemon, program, READY_SECONDS)


def await_theirs(guest, command):
    """Until the server in the guest listens, or is in the group, which its sender leaves it 3 s for."""
    program = command.split()[0]
    if program == "mckey":
        look, wanted = "ip maddress show dev eth0", f"inet  {GROUP}"
    elif program == "qperf":
        look, wanted = "cat /proc/net/tcp /proc/net/tcp6", rf":{QPERF_PORT:04X} 0+:0000 0A "
    else:
        look, wanted = "rdma resource show cm_id", rf"state LISTEN .*comm {program} "
    kit.wait_until(lambda: re.search(wanted, guest.control(look)[1]), READY_SECONDS, f"{command} is ready")


def ended(job, seconds):
    """The output of a program in the guest that has ended well. rping's main thread destroys the event channel while its other
    one may be about to ask for an event: with the guest's library that thread then ends the program, by this error."""
    status, text = job.finish(seconds)
    if status and not (job.command.split()[0] == "rping" and text.endswith("rdma_get_cm_event: Bad file descriptor\n")):
        raise kit.Failure(f"guest: {job.command}: exit status {status}:\n{text}")
    return text


def _said(job):
    job.kill()
    return job.result[1]


def ours_client(link, server, client, seconds):
    """uroce's program connects to rxe's. Both outputs: uroce's, rxe's."""
    there = link.guest.start(server)
    here = None
    try:
        await_theirs(link.guest, server)
        here = kit.Program(link.daemon, client.split())
        ours = here.finish(seconds)
        return ours, None if never_ends(server) else ended(there, LAST_SECONDS)
    except kit.Failure as failure:
        raise kit.Failure(f"{failure}\nuroce's side:\n{here.text() if here else ''}\nrxe's side:\n{_said(there)}")
    finally:
        there.kill()
        if here:
            here.kill()


def ours_server(link, server, client, seconds):
    here = kit.Program(link.daemon, server.split())
    there = None
    try:
        await_ours(link.daemon, here)
        there = link.guest.start(client)
        theirs = ended(there, seconds)
        return None if never_ends(server) else here.finish(LAST_SECONDS), theirs
    except kit.Failure as failure:
        raise kit.Failure(f"{failure}\nuroce's side:\n{here.text()}\nrxe's side:\n{_said(there) if there else ''}")
    finally:
        here.kill()
        if there:
            there.kill()


def _with_patience(function, command):
    """perftest connects twice, and does not wait until the server listens again; a slow guest may not do so in time."""
    for _ in range(3 if " -R " in command else 1):
        try:
            return function()
        except kit.Failure as failure:
            last = failure
            if "RDMA_CM_EVENT_REJECTED; error: 8" not in str(failure):
                break
    raise last


class Copy:
    """The two files of rcopy: what the client reads, and what its server writes."""

    def __init__(self, link, ours):
        self.guest, self.folder = link.guest, kit.scratch_folder()
        folders = (self.folder, GUEST_FOLDER) if ours == "client" else (GUEST_FOLDER, self.folder)
        self.paths = {"source": os.path.join(folders[0], "rcopy.source"), "target": os.path.join(folders[1], "rcopy.target")}
        if ours == "client":
            with open(self.paths["source"], "wb") as file:
                file.write(os.urandom(COPY_BYTES))
        else:
            self.guest.run(f"head -c {COPY_BYTES} /dev/urandom > {self.paths['source']}")

    def _sum(self, path):
        if path.startswith(GUEST_FOLDER + "/"):
            return self.guest.run(f"md5sum {path}").split()[0]
        with open(path, "rb") as file:
            return hashlib.md5(file.read()).hexdigest()

    def check(self):
        sums = [self._sum(path) for path in self.paths.values()]
        if sums[0] != sums[1]:
            raise kit.Failure("rcopy: the copy has other bytes")


def pair(link, command, ours, addresses, seconds):
    """Runs a pair and looks at what both print. addresses: uroce's, rxe's."""
    copy = Copy(link, ours) if command.startswith("rcopy") else None
    _pair(link, command, ours, addresses, seconds, copy.paths if copy else {})
    if copy:
        copy.check()


def _pair(link, command, ours, addresses, seconds, files):
    if ours == "client":
        server, client = commands(command, addresses[1], addresses[0], **files)
        outputs = _with_patience(lambda: ours_client(link, server, client, seconds)[::-1], command)
    else:
        server, client = commands(command, *addresses, **files)
        outputs = ours_server(link, server, client, seconds)
    for text, is_client in zip(outputs, (False, True)):
        if text is not None:
            check(text, command, is_client)


# ---- what goes wrong ----

REJECTED_SECONDS = 10  # not the minute that a request without an answer takes
UNUSED_PORT = 7999


def rejections(link, addresses):
    """A request for a port number without a listener is answered: each side gives the other the reason (8)."""
    ours, theirs = addresses
    for program, what in (("ucmatose", "REJECTED, error: 8"), ("udaddy", "UNREACHABLE, error: 1")):
        rest = f"-p {UNUSED_PORT}" if program == "ucmatose" else ""
        here = kit.Program(link.daemon, f"{program} -s {theirs} -c 1 {rest}".split())
        try:
            here.process.wait(REJECTED_SECONDS)
        except subprocess.TimeoutExpired:
            raise kit.Failure(f"{program}: not rejected by rxe:\n{here.text()}")
        finally:
            here.kill()
        there = link.guest.start(f"{program} -s {ours} -c 1 {rest}")
        try:
            text = there.finish(REJECTED_SECONDS)[1]
        finally:
            there.kill()
        for side, said in (("rxe", here.text()), ("uroce", text)):
            if what not in said:
                raise kit.Failure(f"{program}, no \"{what}\" from {side}:\n{said}")


def killed(link, addresses):
    """The connection of a program that is killed ends at once at the other end; either end, on either side."""
    for ours in ("client", "server"):
        for victim in ("ours", "theirs"):
            _kill_one(link, ours, victim, addresses)


def _kill_one(link, ours, victim, addresses):
    address = addresses[1] if ours == "client" else addresses[0]
    server, client = f"rping -s -a {address} -p {UNUSED_PORT}", f"rping -c -a {address} -p {UNUSED_PORT}"
    here = there = None
    try:
        if ours == "client":
            there = link.guest.start(server)
            await_theirs(link.guest, server)
            here = kit.Program(link.daemon, client.split())
        else:
            here = kit.Program(link.daemon, server.split())
            await_ours(link.daemon, here)
            there = link.guest.start(client)
        kit.wait_until(lambda: _established(link.daemon, here), READY_SECONDS, "the programs are connected")
        if victim == "ours":
            here.kill()
            said = lambda: link.guest.control(f"cat /run/{there.channel.number}.out")[1]
        else:
            there.kill()
            said = here.text
        # Or it is told by the READ or WRITE that it was at.
        kit.wait_until(lambda: re.search("DISCONNECT EVENT|cq completion failed", said()), REJECTED_SECONDS,
                       f"uroce is {ours}, {victim} was killed: the other is disconnected")
    finally:
        if here:
            here.kill()
        if there:
            there.kill()


def _established(daemon, program):
    return any(row["pid"] == program.process.pid and row["state"] == "ESTABLISHED" for row in daemon.show("cm_ids"))
