# SPDX-License-Identifier: BSD-3-Clause
"""What is run between uroce and rxe. Few iterations: the guest's CPU is emulated."""
import dataclasses

BOTH = ("client", "server")
PINGPONG = None  # in place of the number of perftest's result rows


@dataclasses.dataclass
class Row:
    command: str  # {gid}: each side's index of the address
    results: object = 1  # rows of perftest's table, or PINGPONG
    versions: tuple = (4, 6)
    ours: tuple = BOTH  # what uroce's program is
    loss: tuple = ()  # (direction as the guest sees it, percent)
    expect: tuple = ()  # rxe's counters that must move when rxe is (client, server)
    seconds: int = 60

    def name(self):
        name = self.command.replace("-F ", "").replace("-x {gid} ", "").replace("-g {gid} ", "")
        if self.loss:
            name += f", {self.loss[1]} % lost {'to' if self.loss[0] == 'out' else 'from'} uroce"
        return name


def pingpongs():
    yield Row("ibv_rc_pingpong -g {gid} -e -c -n 100", PINGPONG)
    yield Row("ibv_uc_pingpong -g {gid} -e -c -n 100", PINGPONG)
    yield Row("ibv_ud_pingpong -g {gid} -e -c -s 1024 -n 100", PINGPONG)
    yield Row("ibv_srq_pingpong -g {gid} -e -c -q 4 -n 100", PINGPONG)


def operations():
    """Each program of perftest once, of the reliable service and the others."""
    # Programs that wait for bytes in memory have no events to sleep on.
    for verb, events in (("send", " -e"), ("write", ""), ("read", " -e"), ("atomic", " -e")):
        yield Row(f"ib_{verb}_bw -F -x {{gid}} -n 50" + events)
        yield Row(f"ib_{verb}_lat -F -x {{gid}} -n 50" + events)
    for service in ("UC", "UD"):
        yield Row(f"ib_send_bw -F -x {{gid}} -n 50 -c {service} -e -s 1024")
        yield Row(f"ib_send_lat -F -x {{gid}} -n 50 -c {service} -e -s 1024")
    yield Row("ib_write_bw -F -x {gid} -n 50 -c UC -s 8191")
    yield Row("ib_write_lat -F -x {gid} -n 50 -c UC")


def mtus():
    for mtu in (256, 512, 1024, 2048, 4096):
        yield Row(f"ibv_rc_pingpong -g {{gid}} -e -c -n 10 -m {mtu} -s 65537", PINGPONG)
        yield Row(f"ib_read_bw -F -x {{gid}} -e -n 10 -m {mtu} -s 65537")
        yield Row(f"ib_write_bw -F -x {{gid}} -n 10 -m {mtu} -s 65537")
        yield Row(f"ibv_uc_pingpong -g {{gid}} -e -c -n 10 -m {mtu} -s 8191", PINGPONG)


def sizes():
    for size in (1, 2, 3, 4, 4095, 4097, 65536, 1048576):
        for verb, events in (("send", " -e"), ("write", ""), ("read", " -e")):
            yield Row(f"ib_{verb}_bw -F -x {{gid}} -n 8 -s {size}" + events)
    yield Row("ib_write_bw -F -x {gid} -a -n 5", 23, versions=(4,))
    yield Row("ib_atomic_bw -F -x {gid} -n 50 -A CMP_AND_SWAP -e")
    yield Row("ib_atomic_bw -F -x {gid} -n 50 -A FETCH_AND_ADD -e")


def shapes():
    """Several at once, both ways, few receive requests, one queue for all."""
    yield Row("ib_send_bw -F -x {gid} -n 50 -b")
    yield Row("ib_write_bw -F -x {gid} -n 50 -b")
    yield Row("ib_read_bw -F -x {gid} -n 50 -b")
    yield Row("ib_send_bw -F -x {gid} -n 50 -q 8 -e")
    yield Row("ib_write_bw -F -x {gid} -n 50 -q 8")
    yield Row("ib_read_bw -F -x {gid} -n 50 -q 8 -e")
    yield Row("ib_atomic_bw -F -x {gid} -n 50 -q 8 -e")
    yield Row("ib_send_bw -F -x {gid} -n 50 -q 4 --use-srq -e")
    yield Row("ib_send_bw -F -x {gid} -n 50 -r 1 -t 32 -e -s 64")


def losses():
    for loss in (("out", 3), ("in", 3)):
        yield Row("ibv_rc_pingpong -g {gid} -e -c -n 30 -m 1024 -s 16384", PINGPONG, loss=loss)
        yield Row("ib_send_bw -F -x {gid} -n 50 -m 1024 -s 16384 -e", loss=loss)
        yield Row("ib_write_bw -F -x {gid} -n 50 -m 1024 -s 16384", loss=loss)
        yield Row("ib_read_bw -F -x {gid} -n 50 -m 1024 -s 16384 -e", loss=loss)
        yield Row("ib_atomic_bw -F -x {gid} -n 100 -e", loss=loss)


def everything():
    for group in (pingpongs, operations, mtus, sizes, shapes, losses):
        yield from group()
