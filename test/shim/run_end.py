#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The end of the daemon: programs notice it and end, or go on with the next daemon. TAP.

test_end is a program for the cases that need one; the others are unmodified programs, which must end by themselves.

usage: run_end.py --build DIR TEST_END"""
import os
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

NOTICED_SECONDS = 0.5  # 0.2 are promised; the machine may be busy
ENDED_SECONDS = 3  # a second and a half by itself: perftest waits for its peer
build = None
program = None


def kill(daemon):
    daemon.process.kill()
    daemon.process.wait()


class Dialogue:
    """A case of test_end, which says words and hears lines."""

    def __init__(self, daemon, case):
        self.case = case
        self.said = b""
        self.process = subprocess.Popen([program, case], env=daemon.environment({"CMOCKA_MESSAGE_OUTPUT": "TAP"}),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def hear(self, word, seconds=20):
        """Waits for the word; returns how long."""
        begin = time.monotonic()
        while word.encode() + b"\n" not in self.said:
            left = begin + seconds - time.monotonic()
            readable, _, _ = select.select([self.process.stdout], [], [], max(left, 0))
            got = os.read(self.process.stdout.fileno(), 4096) if readable else b""
            if not got:
                raise kit.Failure(f"{self.case} has not said {word}: {self.said.decode(errors='replace')}")
            self.said += got
        return time.monotonic() - begin

    def say(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def finish(self):
        self.said += self.process.communicate(timeout=30)[0]
        if self.process.returncode:
            raise kit.Failure(f"{self.case}: {self.process.returncode}: {self.said.decode(errors='replace')}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def killed(case, end=kill):
    """The daemon is killed; its successor serves the same program."""
    folder = kit.scratch_folder()
    daemon = kit.Daemon(build, folder)
    dialogue = Dialogue(daemon, case)
    try:
        dialogue.hear("ready")
        time.sleep(0.3)  # the program polls
        end(daemon)
        seconds = dialogue.hear("flushed")
        if seconds > NOTICED_SECONDS:
            raise kit.Failure(f"noticed after {seconds:.3f} s")
        print(f"# {case}: noticed after {1000 * seconds:.0f} ms")
        dialogue.hear("closed")
        daemon = kit.Daemon(build, folder)
        dialogue.say()
        dialogue.finish()
    finally:
        dialogue.kill()
        daemon.stop()


def stopped():
    """A daemon that does not run for a second is not dead."""
    daemon = kit.Daemon(build, kit.scratch_folder())
    dialogue = Dialogue(daemon, "stopped")
    try:
        dialogue.hear("ready")
        daemon.process.send_signal(signal.SIGSTOP)
        dialogue.say()
        dialogue.hear("still")
        daemon.process.send_signal(signal.SIGCONT)
        dialogue.finish()
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        dialogue.kill()
        daemon.stop()


def pair_ends(command):
    """An unmodified program and its peer are in the middle of their traffic."""
    daemon = kit.Daemon(build, kit.scratch_folder())
    port = kit.free_port()
    command = command.split() + ["-p", str(port)]
    programs = [kit.Program(daemon, command)]
    try:
        kit.await_listening(programs[0], port, 20)
        programs.append(kit.Program(daemon, command + ["127.0.0.1"]))
        kit.wait_until(lambda: any(qp["state"] == "RTS" for qp in daemon.show("qps")), 20, "a queue pair in RTS")
        time.sleep(0.5)
        if any(one.process.poll() is not None for one in programs):
            raise kit.Failure("ended too soon:\n" + programs[-1].text())
        kill(daemon)
        begin = time.monotonic()
        for one in programs:
            try:
                one.process.wait(max(0, begin + ENDED_SECONDS - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise kit.Failure(f"{' '.join(one.command)} goes on after {ENDED_SECONDS} s:\n{one.text()}")
            if one.process.returncode < 0:
                raise kit.Failure(f"{' '.join(one.command)}: signal {-one.process.returncode}:\n{one.text()}")
        print(f"# {command[0]}: ended after {time.monotonic() - begin:.2f} s")
    finally:
        for one in programs:
            one.kill()
        daemon.stop()


def points():
    yield "a program that polls", lambda: killed("polls")
    yield "a program that sleeps between its polls", lambda: killed("slow_polls")
    yield "a program that waits for the event", lambda: killed("event_first")
    yield "the extended calls, and a small completion queue", lambda: killed("extended_calls")
    yield "threads that poll and post", lambda: killed("threads")
    yield "a program with a child", lambda: killed("children")
    yield "a program with two contexts", lambda: killed("contexts")
    yield "a daemon that ends in order", lambda: killed("polls", lambda daemon: daemon.stop())
    yield "a daemon that is stopped and goes on", stopped
    for command in ("ibv_rc_pingpong -g 0 -n 1000000000", "ibv_rc_pingpong -g 0 -n 1000000000 -e",
                    "ibv_srq_pingpong -g 0 -n 1000000000 -q 1", "ib_write_bw -F -x 0 -D 60",
                    "ib_read_bw -F -x 0 -D 60", "ib_send_bw -F -x 0 -D 60 --use-srq",
                    "ib_send_lat -F -x 0 -n 100000000", "ib_send_lat -F -x 0 -n 100000000 -e"):
        yield "kill -9 under " + command, lambda command=command: pair_ends(command)


def main():
    global build, program
    arguments = kit.point_arguments("program")
    build, program = kit.Build(arguments.build), arguments.program
    return kit.run_points(points(), arguments.match)


if __name__ == "__main__":
    sys.exit(main())
