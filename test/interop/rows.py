# SPDX-License-Identifier: BSD-3-Clause
"""What is run between uroce and rxe. Few iterations: the guest's CPU is emulated."""
import dataclasses

BOTH = ("client", "server")
TCLASS = 0x6A  # DSCP 26 and, in the bits of ECN, what uroce keeps to itself
SL = 3  # the service level of what goes through the VLAN
# In place of the number of perftest's result rows:
PINGPONG = None
VERIFY = "verify"
CONNECT = "connect"  # the programs find each other by rdma_cm


@dataclasses.dataclass
class Row:
    command: str  # {gid}: each side's index of the address
    results: object = 1  # rows of perftest's table, PINGPONG, VERIFY or CONNECT
    versions: tuple = (4, 6)
    ours: tuple = BOTH  # what uroce's program is
    loss: tuple = ()  # (direction as the guest sees it, percent)
    vlan: bool = False  # between the addresses in the VLAN
    rnr: bool = False  # the receiver is not always ready
    seconds: int = 120
    kernel: str = ""  # with this guest alone

    def name(self):
        name = self.command.replace("-F ", "").replace("-x {gid} ", "").replace("-g {gid} ", "")
        if self.vlan:
            name += ", in a VLAN"
        if self.loss:
            name += f", {self.loss[1]} % lost {'to' if self.loss[0] == 'out' else 'from'} uroce"
        return name


# perftest gives up after 0.5 s without an answer; a guest that emulates its CPU may take longer over a full queue.
PATIENT = "-u 18"
# Where losses are to be recovered by timeouts, they should not take long.
LOSSY = "-u 15"


def perftest(verb, program, rest, timeout=PATIENT):
    """A command of perftest. Programs that wait for bytes in memory have no events to sleep on."""
    parts = [f"ib_{verb}_{program} -F -x {{gid}}", timeout]
    parts += ["-e"] if verb != "write" and "-b" not in rest.split() else []
    return " ".join(parts + [rest])


def pingpongs():
    yield Row("ibv_rc_pingpong -g {gid} -e -c -n 100", PINGPONG)
    yield Row("ibv_uc_pingpong -g {gid} -e -c -n 100", PINGPONG)
    yield Row("ibv_ud_pingpong -g {gid} -e -c -s 1024 -n 100", PINGPONG)
    yield Row("ibv_srq_pingpong -g {gid} -e -c -q 4 -n 100", PINGPONG)


def operations():
    """Each program of perftest, of the reliable service and the others."""
    for verb in ("send", "write", "read", "atomic"):
        yield Row(perftest(verb, "bw", "-n 50"))
        yield Row(perftest(verb, "lat", "-n 50"))
    for service in ("UC", "UD"):
        yield Row(perftest("send", "bw", f"-c {service} -n 50 -s 1024"))
        yield Row(perftest("send", "lat", f"-c {service} -n 50 -s 1024"))
    yield Row(perftest("write", "bw", "-c UC -n 50 -s 8191"))
    yield Row(perftest("write", "lat", "-c UC -n 50"))


def mtus():
    for mtu in (256, 512, 1024, 2048, 4096):
        yield Row(f"ibv_rc_pingpong -g {{gid}} -e -c -n 10 -m {mtu} -s 65537", PINGPONG)
        yield Row(f"ibv_uc_pingpong -g {{gid}} -e -c -n 10 -m {mtu} -s 8191", PINGPONG)
        yield Row(perftest("read", "bw", f"-n 10 -m {mtu} -s 65537"))
        yield Row(perftest("write", "bw", f"-n 10 -m {mtu} -s 65537"))


def sizes():
    for size in (1, 2, 3, 4, 4095, 4097, 65536, 1048576):
        for verb in ("send", "write", "read"):
            yield Row(perftest(verb, "bw", f"-n 8 -s {size}"))
    yield Row(perftest("write", "bw", "-a -n 5"), 23, versions=(4,))
    for operation in ("CMP_AND_SWAP", "FETCH_AND_ADD"):
        yield Row(perftest("atomic", "bw", f"-n 50 -A {operation}"))


def shapes():
    """Several at once, both ways, few receive requests, one queue for all."""
    for verb in ("send", "write", "read"):
        yield Row(perftest(verb, "bw", "-n 50 -b"))
        yield Row(perftest(verb, "bw", "-n 50 -q 8"))
    yield Row(perftest("atomic", "bw", "-n 50 -q 8"))
    yield Row(perftest("send", "bw", "-n 50 -q 4 --use-srq"))
    yield Row(perftest("send", "bw", "-n 50 -r 1 -t 32 -s 64"), rnr=True)


def losses():
    """Not the pingpongs: each side leaves when it is done, and does not wait for the other to hear of it."""
    for loss in (("out", 3), ("in", 3)):
        for verb in ("send", "write", "read"):
            yield Row(perftest(verb, "bw", "-n 50 -m 1024 -s 16384", LOSSY), loss=loss)
        yield Row(perftest("atomic", "bw", "-n 200", LOSSY), loss=loss)


def captured():
    """What is looked at on the wire: little of everything."""
    yield from connections()
    yield Row("ibv_rc_pingpong -g {gid} -e -c -n 20", PINGPONG)
    yield Row("ibv_uc_pingpong -g {gid} -e -c -n 20 -s 8191", PINGPONG)
    yield Row("ibv_ud_pingpong -g {gid} -e -c -n 20 -s 7", PINGPONG)
    for verb in ("send", "write", "read"):
        yield Row(perftest(verb, "bw", "-n 8 -s 8191"))
    yield Row(perftest("atomic", "bw", "-n 8"))
    yield Row(perftest("write", "bw", "-c UC -n 8 -s 8191"))
    yield Row(perftest("send", "bw", f"-n 8 -s 100 --tclass={TCLASS}"))
    yield Row(f"ibv_rc_pingpong -g {{gid}} -e -c -n 20 -l {SL}", PINGPONG, vlan=True)
    yield Row(f"ibv_ud_pingpong -g {{gid}} -e -c -n 20 -s 7 -l {SL}", PINGPONG, vlan=True)
    for verb in ("write", "read"):
        yield Row(perftest(verb, "bw", f"-n 8 -s 8191 -m 4096 -S {SL}"), vlan=True)


def core():
    """What a change should not go without, besides that."""
    captured_programs = {row.command.split()[0] for row in captured()}
    for row in [*pingpongs(), *operations()]:
        if "-c U" in row.command or row.command.split()[0] not in captured_programs:
            row.versions = (4,)
            yield row
    yield Row("ibv_rc_pingpong -g {gid} -e -c -n 10 -m 256 -s 65537", PINGPONG, versions=(6,))
    yield Row("verify -g {gid} -s 1,4097", VERIFY, versions=(4,), ours=("client",))
    yield Row("verify -g {gid} -s 1,4097", VERIFY, versions=(6,), ours=("server",))
    for row in losses():
        if "ib_send" in row.command:
            row.versions = (4,)
            yield row


def untagged(everything):
    """What a port can do that has no VLANs: a little of each kind, or all operations and what is lost."""
    rows = [*captured(), *beside_tcp(), *pingpongs(), *operations(), *losses(), *verification()] if everything else small()
    return [row for row in rows if not row.vlan]


def small():
    """A little of each kind, for one more kernel."""
    yield Row("rping -C 20 -v", CONNECT, versions=(4,))
    yield Row("udaddy -c 5", CONNECT, versions=(6,))
    yield Row("rstream -T v -S 65537 -C 10 -I 5", CONNECT, versions=(4,))
    yield Row("ibv_rc_pingpong -g {gid} -e -c -n 20", PINGPONG, versions=(6,))
    yield Row("ibv_ud_pingpong -g {gid} -e -c -n 20 -s 7", PINGPONG, versions=(4,))
    yield Row(perftest("read", "bw", "-n 8 -s 8191"), versions=(4,))
    yield Row("verify -g {gid} -s 1,4097", VERIFY, versions=(6,), ours=("client",))


def verification():
    """Two programs that check each other's data, as requester and as responder in each test."""
    yield Row("verify -g {gid}", VERIFY)
    for mtu in (256, 1024):
        yield Row(f"verify -g {{gid}} -m {mtu}", VERIFY)
    lossy = "verify -g {gid} --types rc --only rc_* -s"
    for direction in ("out", "in"):
        yield Row(f"{lossy} 1,4097,65536", VERIFY, loss=(direction, 3))
        # Later ones refuse a READ that is repeated after an empty one.
        yield Row(f"{lossy} 0,1,4097,65536", VERIFY, loss=(direction, 3), kernel="6.1")


def connections():
    """Programs that connect by rdma_cm. With -R perftest takes names and IPv4 addresses."""
    yield Row("rping -C 20 -v", CONNECT)
    yield Row("ucmatose -c 5", CONNECT)
    yield Row("udaddy -c 5", CONNECT)
    yield Row("ucmatose -c 5", CONNECT, vlan=True)
    yield Row(f"ib_write_bw -R -F {PATIENT} -n 20", CONNECT, versions=(4,))
    yield from connect_twice("send", "lat", "-n 20")


def connect_twice(verb, program, rest):
    """Of perftest, whose clients connect twice. All but those of ib_write_bw connect again at once, when a server in the
    slow guest does not listen yet."""
    yield Row(f"ib_{verb}_{program} -R -F {PATIENT} {rest}", CONNECT, versions=(4,), ours=("server",))


def more_connections():
    yield Row("rping -C 20 -v -S 60000", CONNECT)
    yield Row("rping -C 1000 -v", CONNECT)
    yield Row("rping -P -C 20 -v", CONNECT)
    yield Row("cmtime -c 50", CONNECT, kernel="6.1")  # later ones make other series, which must be the same at both sides
    yield Row("ucmatose -c 100", CONNECT)
    yield Row(f"ucmatose -c 5 -t {TCLASS & ~3}", CONNECT)
    yield Row("udaddy -c 50", CONNECT)
    yield Row("udaddy -c 5", CONNECT, vlan=True)
    yield Row("rdma_server", CONNECT)
    yield Row("rdma_xserver", CONNECT, versions=(4,))  # it listens at IPv4's wildcard; rxe has no XRC
    yield from streams()
    yield Row("rcopy", CONNECT, versions=(4,))  # of an address of IPv6 it takes the digits before the first colon for the host
    yield Row("mckey", CONNECT, versions=(4,))  # rxe joins no groups of IPv6
    yield Row(f"ib_write_bw -R -F {PATIENT} -n 20 -q 4", CONNECT, versions=(4,))
    yield from connect_twice("read", "bw", "-n 20")
    yield from connect_twice("send", "bw", "-n 20 -c UD -s 1024")
    for direction in ("out", "in"):
        yield Row("ucmatose -c 5", CONNECT, loss=(direction, 10))


def beside_tcp():
    """Programs that ask the address to which they connect by TCP as well: on links that the kernel has, too."""
    # Its -cm1 takes names and IPv4 addresses. A server tells the number of its port before it listens there: one in the slow
    # guest is often too late.
    yield Row("qperf", CONNECT, versions=(4,), ours=("server",))


def streams():
    """rsockets: every way of waiting, small buffers and none inline, with each byte compared."""
    for program, options in (("rstream", ("", "-T a ", "-T b ", "-T n ", "-T r ", "-k 1 ", "-B 4096 -i 0 ")),
                             ("riostream", ("", "-T a ", "-T b ", "-T n ", "-B 4096 -i 0 "))):
        for option in options:
            # To a client of rstream that polls, the end of the stream is an error even before it has read everything. The one
            # in the slow guest has not when the server closes.
            ours = ("client",) if program == "rstream" and option == "-T a " else BOTH
            yield Row(f"{program} -T v {option}-S 65537 -C 10 -I 5", CONNECT, ours=ours)


def everything():
    for group in (more_connections, pingpongs, operations, verification, mtus, sizes, shapes, losses):
        yield from group()
