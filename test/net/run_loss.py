#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two uroced whose middle loses frames (lossy.c), with selective repeat at both ends, at one and at none: programs that
compare every byte, and how many frames a message takes. TAP; needs root and is skipped without.

usage: run_loss.py --build DIR [--match TEXT] [--table]

--table measures goodput, and prints a table instead. Programs exchange their addresses over TCP on the loopback interface
of the namespace this runs in; only RoCE takes the lossy path."""
import contextlib
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net
from run_net import both_alive

MTU = 4500  # of the interfaces; the path's is 4096
LOCAL = "127.0.0.1"
SEED = 1
# Of the two ends, which have selective_repeat = yes.
MODES = {"both": (True, True), "the requester": (False, True), "the responder": (True, False), "none": (False, False)}
# Ten milliseconds each way: a window in flight is then less than two programs and two daemons carry on a busy machine.
FAR = 10000
LOSSES = (1000, 5000)  # in 1/100000
# The local ACK timeout is 67 ms in all of them.
VERIFY = ["rc_send", "rc_send_imm", "rc_write", "rc_write_imm", "rc_read", "rc_fetch_add", "rc_chain", "rc_mixed", "rc_srq_mixed",
          "xrc_send", "xrc_write", "xrc_read", "xrc_mixed"]
SIZES = "1,4097,65537,1048576"
VERBS = ("write", "send", "read")
MESSAGES, MESSAGE = 400, 65536
PACKETS = MESSAGES * MESSAGE // 4096
# What else an end sends: the first packets of both connections, acknowledgements.
SPARE = 40
TRIES = 3


class Lossy:
    """Two namespaces, each joined to a third one by a veth pair, where the program passes frames on; a context manager."""

    def __init__(self, program):
        self.program = program
        tag = str(os.getpid())
        self.ends = net.End(1, tag), net.End(2, tag)
        self.namespace = f"uroce-{tag}-lossy"
        self.mtu = MTU
        self.process = None

    def __enter__(self):
        try:
            for name in (self.namespace, *(end.namespace for end in self.ends)):
                net.ip("netns", "add", name)
            for end in self.ends:
                net.ip("link", "add", end.interface, "netns", end.namespace, "address", end.mac, "type", "veth",
                       "peer", "name", end.interface, "netns", self.namespace)
                net.ip("-n", self.namespace, "link", "set", end.interface, "addrgenmode", "none", "mtu", str(MTU),
                       "up")
                net.ip("-n", end.namespace, "link", "set", end.interface, "addrgenmode", "none", "mtu", str(MTU), "up")
                net.cut_packets(end.namespace, end.interface)  # lossy takes one packet at a time
            kit.wait_until(lambda: all(end.is_up() for end in self.ends), 10, "veth is up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process:
            self.stop()
        for name in (self.namespace, *(end.namespace for end in self.ends)):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def start(self, loss, delay, marks=0):
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, self.program, *(end.interface for end in self.ends), str(loss), str(delay),
             str(SEED), str(marks)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise kit.Failure("the lossy middle does not start")

    def stop(self):
        """Of each end's frames: (passed, lost by chance, lost because there were too many, marked)."""
        kit.end(self.process)
        lines = self.process.stdout.read().splitlines()
        self.process = None
        return [tuple(map(int, line.split()[1::2])) for line in lines]

    @contextlib.contextmanager
    def losing(self, loss, delay, counts=None):
        self.start(loss, delay)
        try:
            yield
        finally:
            found = self.stop()
            if counts is not None:
                counts += found


def repeating(selective):
    return [f"selective_repeat = {'yes' if yes else 'no'}" for yes in selective]


@contextlib.contextmanager
def daemons(build, wire, settings):
    """A uroced on each end, each with further settings of its port. Programs stay where the loopback interface is."""
    folder = kit.scratch_folder()
    started = []
    try:
        for end, peer, more in zip(wire.ends, wire.ends[::-1], settings):
            started.append(kit.Daemon(build, folder, name=f"uroced{end.number}", namespace=end.namespace,
                                      configuration=f"{net.configuration(end, peer, MTU)}{more}\ndad = no\n"))
            started[-1].prefix = []
        yield started
    finally:
        for daemon in started:
            daemon.stop()


def verified(build, ends, wire, loss):
    """Every byte of every operation, in both directions."""
    command = [os.path.join(build.folder, "examples/verify")]
    counts = []
    with wire.losing(loss, 100, counts):
        kit.run_pair(ends[0], command, client_daemon=ends[1], address=LOCAL,
                     client_arguments=["--only", ",".join(VERIFY), "-s", SIZES], seconds=120)
    both_alive(ends)
    for passed, lost, *_ in counts:
        if lost < passed * loss / 100000 / 2:
            raise kit.Failure(f"{lost} frames lost of {passed}")


def is_shown(ends, wire, mode):
    """What `uroce show qps` says at both ends of a connection that lasts: nothing where the port does not ask."""
    wanted = [[all(MODES[mode]) if asks else None] for asks in MODES[mode]]

    def found():
        return [[qp.get("selective_repeat") for qp in daemon.show("qps") if qp["state"] in ("RTR", "RTS")] for daemon in ends]

    with wire.losing(0, 0), running(ends, "ib_write_bw -F -x 0 -D 30"):
        kit.wait_until(lambda: found() == wanted, 20, f"selective_repeat {wanted}")


@contextlib.contextmanager
def running(ends, command):
    """A pair of perftest, until the end of the block."""
    port = kit.free_port()
    words = command.split() + ["-p", str(port)]
    programs = [kit.Program(ends[0], words)]
    try:
        kit.await_listening(programs[0], port, 30)
        programs.append(kit.Program(ends[1], words + [LOCAL]))
        yield
    finally:
        for program in programs:
            program.kill()


def transfer(ends, wire, verb, loss):
    """Megabytes per second; frames that the sender of the data sent for each packet of data; how many of all were lost."""
    command = f"ib_{verb}_bw -F -x 0 -m 4096 -s {MESSAGE} -n {MESSAGES} -u 18" + ("" if verb == "write" else " -e")
    counts = []
    with wire.losing(loss, FAR, counts):
        _, text = kit.run_pair(ends[0], command.split(), client_daemon=ends[1], address=LOCAL, seconds=120)
    both_alive(ends)
    if any(overrun for _, _, overrun, _ in counts):
        raise kit.Skipped("the machine is too slow: the middle had too many frames to hold")
    sent = sum((counts[0] if verb == "read" else counts[1])[:3])
    return kit.check_perftest(text)[0][3], sent / PACKETS, sum(lost for _, lost, *_ in counts)


def little_comes_again(ends, wire, verb, loss):
    """What was lost is sent again, and little else: without loss nothing. Where the machine takes the processor from one side, its
    peer takes that for losses, too: the best of the tries counts."""
    limit, tries = 1 + 2 * loss / 100000 + SPARE / PACKETS, []
    while len(tries) < TRIES and (not tries or tries[-1] > limit):
        _, frames, lost = transfer(ends, wire, verb, loss)
        tries.append(frames)
        if bool(lost) != bool(loss):
            raise kit.Failure(f"{lost} frames were lost")
    if tries[-1] > limit:
        raise kit.Failure(f"{', '.join(f'{frames:.3f}' for frames in tries)} frames a packet, at most {limit:.3f} are due")


def strangers_get_no_map(ends, mode):
    """Who has not agreed drops nothing that it cannot read."""
    for end in ends:
        dropped = {row["reason"]: row["value"] for row in end.show("drops")}
        if dropped.get("pad_length"):
            raise kit.Failure(f"{dropped}")


def rows(build, wire):
    """(name, mode, function of the daemons)."""
    for mode in MODES:
        yield f"{mode}: verify, 5 % lost", mode, lambda ends: verified(build, ends, wire, 5000)
        if mode == "both":
            for verb in VERBS:
                for loss in (0, 5000):
                    yield f"both: {verb}, {loss // 1000} % lost, little comes again", mode, \
                        lambda ends, v=verb, l=loss: little_comes_again(ends, wire, v, l)
        yield f"{mode}: show qps says who has agreed", mode, lambda ends, m=mode: is_shown(ends, wire, m)
        if mode == "both":
            continue  # one end may agree before the other: then it sends maps in vain, and a NAK without one
        yield f"{mode}: strangers get no map", mode, lambda ends, m=mode: strangers_get_no_map(ends, m)


def print_table(build, wire):
    print("| selective repeat | operation | 0 % lost | 1 % | 5 % | frames a packet, 1 % | 5 % |\n|---|---|---:|---:|---:|---:|---:|")
    for mode in ("both", "the requester", "none"):
        with wire.losing(0, 0):
            stack = contextlib.ExitStack()
            ends = stack.enter_context(daemons(build, wire, repeating(MODES[mode])))
        with stack:
            for verb in VERBS:
                found = [transfer(ends, wire, verb, loss) for loss in (0, *LOSSES)]
                print(f"| {mode} | {verb.upper()} |", " | ".join(f"{row[0]:.1f}" for row in found), "|",
                      " | ".join(f"{row[1]:.2f}" for row in found[1:]), "|", flush=True)


def main():
    arguments = net.start("ip", match="only the points whose name contains this", more=[("--table", {"action": "store_true"})])
    build = kit.Build(arguments.build)
    with Lossy(os.path.join(build.folder, "test/net/lossy")) as wire:
        if arguments.table:
            print_table(build, wire)
            return 0
        chosen = [row for row in rows(build, wire) if arguments.match in row[0]]
        tap = kit.Tap(len(chosen))
        for mode, selective in MODES.items():
            points = [row for row in chosen if row[1] == mode]
            if not points:
                continue
            with daemons(build, wire, repeating(selective)) as ends:
                for name, _, function in points:
                    tap.point(name, lambda f=function: f(ends))
        return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
