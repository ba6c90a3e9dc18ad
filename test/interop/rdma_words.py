# SPDX-License-Identifier: BSD-3-Clause
"""`uroce rdma` beside iproute2's rdma in the guest, with the same programs on both sides: the same words in the same order, and the
same names and types of values in JSON. The values themselves are each side's own."""
import json
import os
import re
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

# Programs that wait, and hold a queue pair of each type, a shared receive queue, domains, queues and regions.
WAITING = ("ibv_rc_pingpong -g {gid} -p 19101", "ibv_ud_pingpong -g {gid} -p 19102", "ibv_srq_pingpong -q 3 -g {gid} -p 19103")
LISTENING = "rping -s -a {address} -p 7174"
OBJECTS = ("qp", "cq", "mr", "pd", "cm_id", "ctx", "srq")


class Sides:
    """Runs rdma here and in the guest."""

    def __init__(self, link):
        self.link = link

    def texts(self, words):
        """uroce's output and rdma's."""
        ours = subprocess.run([self.link.build.uroce, "rdma", "--socket", self.link.daemon.socket, *words.split()], capture_output=True,
                              text=True, timeout=20, check=True).stdout
        return ours, self.link.guest.run(f"rdma {words}")

    def rows(self, words):
        return [json.loads(text) for text in self.texts(words + " -j")]


def shape_of_text(line):
    """A line with its words, and a mark for each value that is the side's own."""
    line = re.sub(r"\b(rxe|uroce)0\b", "DEVICE", line)
    line = re.sub(r"comm \S+ ", "comm N ", line)  # rdma 6.1 prints another text for it of a shared receive queue
    return re.sub(r"(?<= )(0x[0-9a-f]+|[\d.:,-]*\d[\d.:,-]*)(?= )", "N", line)


def shape_of_row(row):
    """Names and types in their order."""
    return tuple((name, type(value).__name__) for name, value in row.items())


def differ(words, ours, theirs):
    if ours != theirs:
        raise kit.Failure(f"rdma {words}:\nuroce's: {sorted(ours - theirs)}\nrdma's: {sorted(theirs - ours)}")


def objects(sides):
    """Those of our programs: the kernel's own have no counterpart."""
    for kind in OBJECTS:
        words = f"res show {kind}"
        ours, theirs = [{shape_of_row(row) for row in rows if "pid" in row} for rows in sides.rows(words)]
        if not theirs:
            raise kit.Failure(f"rdma {words}: nothing")
        differ(words + " -j", ours, theirs)
        differ(words, *[{shape_of_text(line) for line in text.splitlines() if re.search(r" pid \d+ ", line)} for text in sides.texts(words)])


def devices(sides):
    """rxe has no version of a firmware, uroce's port no interface of the kernel; rdma before 6.15 prints no protocol."""
    ours, theirs = sides.rows("dev -d")
    allowed = {"fw"} | ({"protocol"} - set(theirs[0]))
    if [name for name in ours[0] if name not in allowed] != list(theirs[0]):
        raise kit.Failure(f"rdma dev: {ours} and {theirs}")
    ours, theirs = sides.rows("link")
    if list(ours[0]) != [name for name in theirs[0] if not name.startswith("netdev")]:
        raise kit.Failure(f"rdma link: {ours} and {theirs}")
    ours, theirs = sides.rows("res")
    differ("res -j", {shape_of_row(ours[0])}, {shape_of_row(theirs[0])})
    differ("res", *[{shape_of_text(text)} for text in sides.texts("res")])


def statistics(sides):
    """Counters have each device's own names; before 6.15 they followed each other in a line."""
    ours, theirs = sides.rows("statistic")
    if list(ours[0])[:2] != list(theirs[0])[:2]:
        raise kit.Failure(f"rdma statistic: {ours} and {theirs}")
    ours, theirs = sides.texts("statistic")
    if theirs.count("\n") > 1:
        form = r"link \w+/1 \n(    \w+ \d+ \n)+"
        if not re.fullmatch(form, ours) or not re.fullmatch(form, theirs):
            raise kit.Failure(f"rdma statistic:\n{ours}\n{theirs}")


def compare(link, ours, theirs):
    """ours, theirs: the addresses of uroced and of the guest."""
    gid = {"here": link.gid[4, False], "there": link.guest_gid[4, False]}
    here, there = [], []
    try:
        here = [kit.Program(link.daemon, command.format(gid=gid["here"]).split()) for command in WAITING]
        there = [link.guest.start(command.format(gid=gid["there"])) for command in WAITING]
        for number, (program, job) in enumerate(zip(here, there)):
            kit.await_listening(program, 19101 + number, 30)
            job.await_listening(19101 + number, 60)
        here.append(kit.Program(link.daemon, LISTENING.format(address=ours).split()))
        there.append(link.guest.start(LISTENING.format(address=theirs)))
        kit.await_cm_listening(link.daemon, here[-1], 30)
        there.append(link.guest.start(f"rping -c -a {ours} -p 7174 -C 1000000000"))
        kit.wait_until(lambda: any(row["state"] == "ESTABLISHED" for row in link.daemon.show("cm_ids")), 60, "the guest connects")
        os.kill(here[-1].process.pid, signal.SIGSTOP)  # and both sides stand still
        sides = Sides(link)
        devices(sides)
        objects(sides)
        statistics(sides)
    finally:
        for program in here:
            program.kill()
        for job in there:
            job.kill()
