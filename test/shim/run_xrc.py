#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""XRC target queue pairs that several processes have open: which ends when, while messages go on to a shared receive queue. TAP.

usage: run_xrc.py --build DIR [--match PART] TEST_XRC"""
import errno
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

RESET, RTS, ERR = 0, 3, 6
ACCESS_ERR, COMM_EST = 3, 4
REM_ACCESS_ERR = 10


class Process:
    """A test_xrc: it does one thing after the other."""

    def __init__(self, scene, name):
        self.name = name
        self.process = subprocess.Popen([scene.program, scene.file], env=scene.daemon.environment(), text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        scene.processes.append(self)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise kit.Failure(f"{self.name} has ended: {self.process.wait(10)}")
        return line.strip()

    def begin(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")

    def do(self, *words):
        self.begin(*words)
        return int(self.answer())

    def expect(self, status, *words):
        found = self.do(*words)
        if found != status:
            raise kit.Failure(f"{self.name}: {words} is {found}, not {status}")

    def keep_on(self, *words):
        """Begins what lasts until finish()."""
        self.begin(*words)
        if self.answer() != "begun":
            raise kit.Failure(f"{self.name}: {words} did not begin")

    def finish(self):
        """How many messages there were. The line that ends them is answered, too."""
        self.begin("stop")
        count = int(self.answer())
        if int(self.answer()) != -errno.ENOSYS or count <= 0:
            raise kit.Failure(f"{self.name}: {count}")
        return count

    def end(self, number=signal.SIGTERM):
        if number == signal.SIGTERM:
            self.process.stdin.close()
        else:
            self.process.send_signal(number)
        self.process.wait(20)


class Scene:
    """A maker with a target, an opener, a receiver with a shared receive queue, and a sender that is connected to the target."""

    def __init__(self, daemon, program):
        self.daemon, self.program, self.processes = daemon, program, []
        self.file = os.path.join(kit.scratch_folder(), "domain")
        with open(self.file, "w"):
            pass

    def __enter__(self):
        self.maker, self.opener, self.receiver, self.sender = (
            Process(self, name) for name in ("maker", "opener", "receiver", "sender"))
        self.target = self.maker.do("target")
        self.srq = self.receiver.do("srq")
        source = self.sender.do("sender")
        self.maker.expect(0, "connect", source)
        self.sender.expect(0, "connect", self.target)
        self.source = source
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.process.kill()
            process.process.wait()
        kit.wait_until(lambda: not self.daemon.show("qps"), 10, "the end of all queue pairs")

    def exists(self):
        return any(qp["qpn"] == self.target for qp in self.daemon.show("qps"))

    def gone(self):
        """The number of the target is unknown."""
        kit.wait_until(lambda: not self.exists(), 10, "the target's end")
        self.receiver.expect(-errno.EINVAL, "open", self.target)


daemon = program = None


def refused():
    with Scene(daemon, program) as scene:
        scene.opener.expect(0, "refused", scene.target)
        scene.opener.expect(-errno.EINVAL, "open", scene.source)
        scene.file += "-other"
        with open(scene.file, "w"):
            pass
        Process(scene, "of another domain").expect(-errno.EINVAL, "open", scene.target)


def all_handles_modify_and_query():
    with Scene(daemon, program) as scene:
        scene.opener.expect(0, "open", scene.target)
        scene.opener.expect(RTS, "state")
        scene.opener.expect(0, "to", ERR)
        scene.maker.expect(ERR, "state")
        scene.maker.expect(0, "to", RESET)
        scene.opener.expect(RESET, "state")
        scene.opener.expect(0, "connect", scene.source)
        scene.maker.expect(RTS, "state")
        scene.sender.expect(0, "send", scene.srq)


def last_handle():
    with Scene(daemon, program) as scene:
        scene.opener.expect(0, "open", scene.target)
        scene.maker.expect(0, "destroy")
        scene.sender.expect(0, "send", scene.srq)
        scene.receiver.expect(0, "open", scene.target)
        scene.opener.expect(0, "destroy")
        scene.sender.expect(0, "send", scene.srq)
        scene.receiver.expect(0, "destroy")
        scene.gone()


def ends_in_traffic(how, who):
    """Some of those that have the target end, one after the other, while messages are sent."""
    with Scene(daemon, program) as scene:
        scene.opener.expect(0, "open", scene.target)
        last = Process(scene, "last")
        last.expect(0, "open", scene.target)
        scene.receiver.keep_on("serve")
        scene.sender.keep_on("flood", scene.srq)
        for name in who:
            getattr(scene, name).end(how)
        late = Process(scene, "late")
        late.expect(0, "open", scene.target)
        late.expect(RTS, "state")
        sent, got = scene.sender.finish(), scene.receiver.finish()
        if sent != got:
            raise kit.Failure(f"{sent} messages were sent, {got} arrived")
        late.end(how)
        last.expect(RTS, "state")
        last.end(how)
        for name in ("maker", "opener"):
            if name not in who:
                getattr(scene, name).expect(RTS, "state")
                getattr(scene, name).end(how)
        scene.gone()


def all_are_killed():
    """Everything that has the target ends at once, with the sender."""
    with Scene(daemon, program) as scene:
        scene.opener.expect(0, "open", scene.target)
        third = Process(scene, "third")
        third.expect(0, "open", scene.target)
        scene.receiver.keep_on("serve")
        scene.sender.keep_on("flood", scene.srq)
        for process in (scene.maker, third, scene.sender, scene.opener):
            process.process.kill()
        scene.receiver.begin("stop")
        scene.receiver.answer()
        scene.receiver.answer()
        scene.gone()


def events():
    with Scene(daemon, program) as scene:
        scene.opener.expect(0, "open", scene.target)
        scene.sender.expect(REM_ACCESS_ERR, "write", scene.srq)
        for process in (scene.maker, scene.opener):
            process.expect(ACCESS_ERR, "event")
        scene.maker.expect(0, "destroy")
        scene.opener.expect(0, "to", RESET)
        scene.opener.expect(0, "connect", scene.source)
        scene.sender.expect(0, "to", RESET)
        scene.sender.expect(0, "connect", scene.target)
        scene.sender.expect(REM_ACCESS_ERR, "write", scene.srq)
        scene.opener.expect(ACCESS_ERR, "event")
        scene.maker.expect(-errno.ETIME, "no-event")


def nothing_left():
    """What is charged is what `uroce show` takes itself."""
    if not daemon.alive():
        raise kit.Failure(daemon.log())
    used = {row["kind"] for row in daemon.show("quotas") if row["used"]}
    if used != {"connections", "descriptors"}:
        raise kit.Failure(f"left: {used}")


def main():
    global daemon, program
    arguments = kit.point_arguments("program")
    program = arguments.program
    points = [("what is refused", refused), ("each handle modifies and queries", all_handles_modify_and_query),
              ("the last handle ends it", last_handle), ("events reach each handle", events)]
    for what, how in (("ends", signal.SIGTERM), ("is killed", signal.SIGKILL)):
        for who in (("maker",), ("opener",), ("maker", "opener")):
            points.append((f"{' and '.join(who)} {what} in traffic", lambda how=how, who=who: ends_in_traffic(how, who)))
    points += [("all are killed", all_are_killed), ("the daemon is unharmed, and has nothing left", nothing_left)]
    daemon = kit.Daemon(kit.Build(arguments.build), kit.scratch_folder(), arguments=("--loopback", "--workers", "2"))
    try:
        return kit.run_points(points, arguments.match)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
