#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The devices' files that programs under `uroce run` find: formats, values that move, and what remains of them. TAP.

usage: run_sys.py --build DIR"""
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

USER = 65532
ROOT, ORDINARY = "root", "an ordinary user"
DEVICE = "/sys/class/infiniband/uroce0"
PORT = DEVICE + "/ports/1"
build = None
daemon = None  # root's, which all users may use

# Each file of a port or device, and what it reads.
FORMATS = {
    f"{DEVICE}/node_type": r"1: CA\n",
    f"{DEVICE}/node_guid": r"([0-9a-f]{4}:){3}[0-9a-f]{4}\n",
    f"{DEVICE}/sys_image_guid": r"([0-9a-f]{4}:){3}[0-9a-f]{4}\n",
    f"{DEVICE}/fw_ver": r"\d+\.\d+\.\d+\n",
    f"{DEVICE}/hca_type": r"uroce\n",
    f"{DEVICE}/board_id": r"uroce\n",
    f"{DEVICE}/hw_rev": r"\d+\n",
    f"{DEVICE}/node_desc": r".* uroce0\n",
    f"{DEVICE}/device/vendor": r"0x[0-9a-f]{4}\n",
    f"{DEVICE}/device/device": r"0x[0-9a-f]{4}\n",
    f"{DEVICE}/device/class": r"0x020000\n",
    f"{DEVICE}/device/numa_node": r"(-1|0)\n",
    f"{DEVICE}/device/local_cpulist": r"\d+([-,]\d+)*\n",
    f"{DEVICE}/device/local_cpus": r"[0-9a-f]{8}(,[0-9a-f]{8})*\n",
    f"{DEVICE}/device/current_link_speed": r"[\d.]+ GT/s PCIe\n",
    f"{DEVICE}/device/max_link_speed": r"[\d.]+ GT/s PCIe\n",
    f"{DEVICE}/device/current_link_width": r"\d+\n",
    f"{DEVICE}/device/max_link_width": r"\d+\n",
    f"{DEVICE}/device/net/lo/address": r"00(:00){5}\n",
    f"{DEVICE}/device/infiniband/uroce0/node_type": r"1: CA\n",
    f"{PORT}/state": r"4: ACTIVE\n",
    f"{PORT}/phys_state": r"5: LinkUp\n",
    f"{PORT}/rate": r"100 Gb/sec \(4X EDR\)\n",
    f"{PORT}/link_layer": r"Ethernet\n",
    f"{PORT}/lid": r"0x0\n",
    f"{PORT}/lid_mask_count": r"0\n",
    f"{PORT}/sm_lid": r"0x0\n",
    f"{PORT}/sm_sl": r"0\n",
    f"{PORT}/cap_mask": r"0x[0-9a-f]{8}\n",
    f"{PORT}/pkeys/0": r"0xffff\n",
    f"{PORT}/net/lo/address": r"00(:00){5}\n",
    f"{PORT}/gids/0": r"0000:0000:0000:0000:0000:ffff:7f00:0001\n",
    f"{PORT}/gids/63": r"(0000:){7}0000\n",
    f"{PORT}/gid_attrs/types/0": r"RoCE v2\n",
    f"{PORT}/gid_attrs/types/2": r"IB/RoCE v1\n",
    f"{PORT}/gid_attrs/ndevs/0": r"lo\n",
    f"{PORT}/hw_counters/lifespan": r"\d+\n",
    "/sys/class/infiniband_verbs/abi_version": r"6\n",
    "/sys/class/infiniband_verbs/uverbs0/abi_version": r"1\n",
    "/sys/class/infiniband_verbs/uverbs0/ibdev": r"uroce0\n",
    "/sys/class/infiniband_verbs/uverbs0/dev": r"\d+:\d+\n",
}
COUNTERS = ["port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "port_rcv_errors",
            "port_xmit_discards", "port_rcv_constraint_errors", "symbol_error", "VL15_dropped"]
HW_COUNTERS = ["out_of_buffer", "out_of_sequence", "duplicate_request", "rnr_nak_retry_err", "packet_seq_err",
               "implied_nak_seq_err", "local_ack_timeout_err", "np_cnp_sent", "np_ecn_marked_roce_packets",
               "rp_cnp_handled", "rx_icrc_encapsulated", "resp_remote_access_errors"]


@contextlib.contextmanager
def place(who):
    """A prefix for a command of the user, and its environment, with a folder of its own and no daemon yet."""
    folder = kit.scratch_folder()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "UROCE_", "SYSFS_"))}
    environment.update(XDG_RUNTIME_DIR=folder, HOME=folder, UROCE_SOCKET=os.path.join(folder, "uroce.sock"))
    prefix = []
    if who == ORDINARY:
        os.chown(folder, USER, USER)
        prefix = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    yield prefix, environment


def can_mount(who):
    """Whether the kernel, or the container, lets the user make the namespaces, without uroce."""
    with place(who) as (prefix, environment):
        command = ["unshare", "--mount"] + (["--user", "--map-root-user"] if who == ORDINARY else [])
        return subprocess.run([*prefix, *command, "mount", "-t", "tmpfs", "none", "/sys/class"], env=environment,
                              capture_output=True).returncode == 0


def run(who, *command, options=("--sys=yes",), socket=None, prefix=(), **more):
    """The command's result under `uroce run`, over root's daemon at `socket` or else a private one."""
    with place(who) as (user, environment):
        if socket:
            environment["UROCE_SOCKET"] = socket
        return subprocess.run([*user, *prefix, build.uroce, "run", *options, "--", *command], env=environment,
                              capture_output=True, text=True, timeout=60, cwd="/", **more)


def output(who, *command, **more):
    result = run(who, *command, **more)
    if result.returncode != 0:
        raise kit.Failure(f"{command}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def script(who, text, **more):
    return output(who, "/usr/bin/python3", "-c", "import os, subprocess, sys, time\n" + text, **more)


def expect(text, wanted):
    if text != wanted:
        raise kit.Failure(f"{text!r} instead of {wanted!r}")


def expect_match(text, pattern, what):
    if not re.fullmatch(pattern, text):
        raise kit.Failure(f"{what}: {text!r}")


# ---- what there is ----

def formats(who):
    names = list(FORMATS)
    names += [f"{PORT}/counters/{name}" for name in COUNTERS] + [f"{PORT}/hw_counters/{name}" for name in HW_COUNTERS]
    text = script(who, f"for name in {names!r}: print(name, open(name).read(), sep='\\0', end='\\1')")
    for name, value in (entry.split("\0") for entry in text.split("\1")[:-1]):
        expect_match(value, FORMATS.get(name, r"\d+\n"), name)


def paths(who):
    """The device is a PCI device, whose last characters programs replace by others."""
    text = script(who, f"""
print(os.path.realpath('{DEVICE}/device'), os.path.realpath('/sys/class/infiniband_verbs/uverbs0/device'))
bus = os.path.realpath('{DEVICE}/device').split('/')[-1][:7]
print(os.path.realpath(f'/sys/class/pci_bus/{{bus}}/../../{{bus}}:00.0'))
print(os.listdir('/sys/class/infiniband'), sorted(os.listdir('/dev/infiniband')))""")
    first, second, listed = text.splitlines()
    device, verbs = first.split()
    expect_match(device, r"/sys/devices/pci[0-9a-f]{4}:[0-9a-f]{2}/[0-9a-f]{4}:[0-9a-f]{2}:00\.0", "the device")
    expect(verbs, device)
    expect(second, device)
    expect(listed, "['uroce0'] ['rdma_cm', 'uverbs0']")


def unused_gids(who):
    """They can be opened, and give EINVAL, as those of the kernel."""
    expect(script(who, f"""
for name in ("types", "ndevs"):
    fd = os.open(f"{PORT}/gid_attrs/{{name}}/63", os.O_RDONLY)
    try:
        print(os.read(fd, 10))
    except OSError as error:
        print(error.strerror)"""), "Invalid argument\n" * 2)


def others_work(who):
    """The rest of the host is as before."""
    before = {name: sorted(os.listdir(name)) for name in ("/sys/class/net", "/sys/devices", "/dev")}
    seen = script(who, """
import pty
for name in ("/sys/class/net", "/sys/devices", "/dev"):
    print(" ".join(sorted(n for n in os.listdir(name) if n[0] != "." and n[:5] not in ("infin", "pci00"))))
open("/dev/null", "w").write("x")
open("/dev/zero", "rb").read(10)
for name in os.listdir("/sys/class/net"):
    if os.path.isdir("/sys/class/net/" + name):
        open(f"/sys/class/net/{name}/ifindex").read()
with open("/dev/shm/uroce-test-sys", "w") as file:
    file.write("x")
os.unlink("/dev/shm/uroce-test-sys")
leader, follower = pty.openpty()
os.write(leader, b"x\\n")
os.read(follower, 2)
os.stat(os.ttyname(follower))
print(os.getcwd())""").splitlines()
    for line, names in zip(seen, before.values()):
        names = [n for n in names if n[0] != "." and n[:5] not in ("infin", "pci00")]
        expect(line, " ".join(names))
    expect(seen[-1], "/")


def identity(who):
    """The program has its user, and no capabilities more."""
    plain = script(who, "print(os.getresuid(), os.getresgid())\nprint(open('/proc/self/status').read())",
                   options=("--sys=no",))
    text = script(who, "print(os.getresuid(), os.getresgid())\nprint(open('/proc/self/status').read())")
    for field in (r"^\(.*", r"^CapEff:.*", r"^CapPrm:.*", r"^Uid:.*"):
        expect(re.search(field, text, re.M)[0], re.search(field, plain, re.M)[0])


def turned_off():
    result = run(ROOT, "ls", "/sys/class/infiniband", "/dev/infiniband", options=("--sys=no",))
    kept = [name for name in ("/sys/class/infiniband", "/dev/infiniband") if os.path.exists(name)]
    expect(result.stdout if not kept else "", "")
    expect(script(ROOT, "print(os.readlink('/proc/self/ns/mnt'))", options=("--sys=no",)).strip(),
           os.readlink("/proc/self/ns/mnt"))


def no_namespace():
    """Without the right to mount: a folder that SYSFS_PATH names, which is removed in the end."""
    weak = ("setpriv", "--bounding-set=-sys_admin")
    program = ("sh", "-c", "echo $SYSFS_PATH; cat $SYSFS_PATH/class/infiniband/uroce0/ports/1/state; "
               "cat $SYSFS_PATH/class/net/lo/ifindex")
    folder, state, lo = output(ROOT, *program, options=(), prefix=weak).split("\n")[:3]
    expect(state + lo, "4: ACTIVE1")
    kit.wait_until(lambda: not os.path.exists(folder), 10, f"{folder} is removed")
    result = run(ROOT, "true", prefix=weak)
    expect(str(result.returncode), "1")
    expect_match(result.stderr, r"uroce: no device files of its own for the program: a mount namespace: .*\n", "the reason")
    expect(run(ROOT, "true", options=(), prefix=weak).stderr, "")


# A /dev with a folder that cannot be there twice.
ODD_DEV = '''mount -t tmpfs none /mnt && mknod -m 666 /mnt/null c 1 3 && mknod -m 666 /mnt/full c 1 7 && mkdir /mnt/.uroce &&
mount --move /mnt /dev && exec "$0" "$@"'''


def half_a_folder():
    """Where a folder's entries cannot all be had, the program has the folder as it was."""
    if not can_mount(ROOT):
        skip(ROOT)
    expect(output(ROOT, "ls", "-A", "/dev", options=(), prefix=("unshare", "--mount", "sh", "-c", ODD_DEV)), ".uroce\nfull\nnull\n")


def chosen_names():
    options = ("--sys=yes", "--device-name", "mlx5_0,mlx5_1")
    expect(script(ROOT, "print(os.listdir('/sys/class/infiniband'))", options=options), "['mlx5_0']\n")
    if "mlx5_0" not in output(ROOT, "ibv_devices", options=options):
        raise kit.Failure("ibv_devices has no mlx5_0")
    for bad in ("a/b", "", ".", "a,,b", "x" * 64, "a,a", "uroce1", "uroce3,uroce0"):
        expect(str(run(ROOT, "true", options=("--device-name", bad)).returncode), "2")
    expect(str(run(ROOT, "true", options=("--sys=maybe",)).returncode), "2")
    names = ("env", "UROCE_DEVICE_NAMES=a_0")
    expect(script(ROOT, "print(os.listdir('/sys/class/infiniband'))", prefix=names), "['a_0']\n")
    if "a_0" not in output(ROOT, "ibv_devices", prefix=names):
        raise kit.Failure("ibv_devices has no a_0")
    expect(script(ROOT, "print(os.listdir('/sys/class/infiniband'))", options=options, prefix=names), "['mlx5_0']\n")
    expect(str(run(ROOT, "true", prefix=("env", "UROCE_DEVICE_NAMES=a/b")).returncode), "2")


# ---- values ----

PAIRS = """
import socket
def pair(*command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command += ("-p", str(port))
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not [line for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}") if f":{port:04X} " in line
               and " 0A " in line]:
        if server.poll() is not None:
            sys.exit("the server has ended")
        time.sleep(0.01)
    client = subprocess.run([*command, "127.0.0.1"], stdout=subprocess.PIPE, text=True)
    if client.returncode != 0 or server.wait() != 0:
        sys.exit(f"client {client.returncode}, server {server.wait()}: {client.stdout}")
    return client.stdout
def read(name):
    return int(open(f"/sys/class/infiniband/uroce0/ports/1/{name}").read())
"""
MESSAGES_WORDS = 2 * 500 * 4096 // 4


def counters_move(who, **more):
    """A file that is opened after a transfer has counted it; one that was open before follows."""
    text = script(who, PAIRS + """
kept = open("/sys/class/infiniband/uroce0/ports/1/counters/port_xmit_packets")
before = [read("counters/port_xmit_data"), read("counters/port_rcv_packets"), int(kept.read())]
pair("ibv_rc_pingpong", "-g", "0", "-n", "500")
after = [read("counters/port_xmit_data"), read("counters/port_rcv_packets")]
deadline = time.monotonic() + 10
last = before[2]
while last == before[2] and time.monotonic() < deadline:
    last = int(os.pread(kept.fileno(), 100, 0))
print(after[0] - before[0], after[1] - before[1], last - before[2])""", **more)
    words, packets, kept = (int(word) for word in text.split())
    if words < MESSAGES_WORDS or packets < 1000 or kept < 1:
        raise kit.Failure(f"{words} words sent, {packets} packets received, {kept} counted by the open file")


def hardware_counters():
    """Sums over queue pairs, also those that are gone: a peer that does not answer."""
    text = script(ROOT, PAIRS + """
import pyverbs.device as device, pyverbs.enums as e
from pyverbs.pd import PD
from pyverbs.cq import CQ
from pyverbs.qp import QP, QPInitAttr, QPCap, QPAttr
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.wr import SendWR, SGE
from pyverbs.mr import MR
def silent():
    context = device.Context(name="uroce0")
    pd, cq = PD(context), CQ(context, 8)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4)))
    gid = context.query_gid(1, 0)
    attr = QPAttr(port_num=1, cur_qp_state=e.IBV_QPS_RESET)
    attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=0))
    attr.dest_qp_num, attr.timeout, attr.retry_cnt, attr.rnr_retry = 0x3FFFFF, 4, 2, 0
    qp.to_rts(attr)
    mr = MR(pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
    qp.post_send(SendWR(num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)], opcode=e.IBV_WR_SEND))
    while cq.poll()[0] == 0:
        pass
    qp.close()
silent()
print(read("hw_counters/local_ack_timeout_err"), read("hw_counters/req_transport_retries_exceeded"))
time.sleep(2 * read("hw_counters/lifespan") / 1000)  # for which values may be old
silent()
print(read("hw_counters/local_ack_timeout_err"), read("hw_counters/req_transport_retries_exceeded"))""")
    first, second = (tuple(int(word) for word in line.split()) for line in text.splitlines())
    if first[0] < 2 or first[1] != 1 or second[0] < first[0] + 2 or second[1] != 2:
        raise kit.Failure(f"timeouts and connections that gave up: {first}, then {second}")


def perftest(who, **more):
    text = script(who, PAIRS + """
print(pair("ib_write_bw", "-d", "uroce0", "-x", "0", "-n", "1000", "-W", "counters/port_xmit_data"))""", **more)
    found = re.search(r"counters/port_xmit_data=(\d+)", text)
    if not found or int(found[1]) < 1000 * 65536 // 4:
        raise kit.Failure(text)


def adopted():
    """A program in a namespace is mapped or copied as it would be outside."""
    text = [script(ROOT, f"""
import json, pyverbs.device as device, pyverbs.enums as e
from pyverbs.pd import PD
from pyverbs.mr import MR
pd = PD(device.Context(name="uroce0"))
mr = MR(pd, 8 << 20, e.IBV_ACCESS_LOCAL_WRITE)
mr.write("x" * (8 << 20), 8 << 20)
small = MR(pd, 8 << 20, e.IBV_ACCESS_LOCAL_WRITE)
rows = json.loads(subprocess.run(["{build.uroce}", "show", "mr", "--json"], capture_output=True).stdout)
print([sorted((k, v) for k, v in row.items() if k in ("how", "why", "mapped", "length")) for row in rows])""",
                   options=(option,)) for option in ("--sys=no", "--sys=yes")]
    if "8388608" not in text[0]:
        raise kit.Failure(text[0])
    expect(text[1], text[0])


# ---- programs ----

def ibstat():
    for command in (["ibstat"], ["ibstatus"]):
        try:
            text = output(ROOT, *command)
        except FileNotFoundError:
            raise kit.Skipped("infiniband-diags is not installed")
        if "127: not found" in text or "uroce0" not in text or not re.search("[Aa]ctive|ACTIVE", text):
            raise kit.Failure(f"{command}: {text}")


def ucx(who):
    result = run(who, "ucx_info", "-d")
    if result.returncode == 127:
        raise kit.Skipped("ucx-utils is not installed")
    found = re.findall(r"Transport: (rc_verbs|ud_verbs)\n#\s*Device: (uroce0:1)", result.stdout)
    expect(sorted(found), [("rc_verbs", "uroce0:1"), ("ud_verbs", "uroce0:1")])


def two_runs():
    """Two programs of a user read each other's memory, as MPI libraries do, though each has an `uroce run` of its own."""
    with place(ORDINARY) as (prefix, environment):
        command = [*prefix, build.uroce, "run", "--sys=yes", "--", "/usr/bin/python3", "-c"]
        first = subprocess.Popen([*command, """
import ctypes, os, sys
ctypes.CDLL(None).prctl(0x59616d61, -1, 0, 0, 0)
text = ctypes.create_string_buffer(b"from the first one")
print(os.getpid(), ctypes.addressof(text), flush=True)
sys.stdin.read()"""], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            pid, address = first.stdout.readline().split()
            second = subprocess.run([*command, f"""
import ctypes
class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
text = ctypes.create_string_buffer(18)
n = ctypes.CDLL(None).process_vm_readv({pid}, ctypes.byref(iovec(ctypes.addressof(text), 18)), ctypes.c_ulong(1),
                                       ctypes.byref(iovec({address}, 18)), ctypes.c_ulong(1), ctypes.c_ulong(0))
print(n, text.raw.decode())"""], env=environment, capture_output=True, text=True, timeout=30)
            expect(second.stdout, "18 from the first one\n")
        finally:
            first.communicate("")


def full_watcher():
    """Runs share a namespace until the process that serves it has no descriptor left: it goes on, and so do the others."""
    room = 4
    with place(ORDINARY) as (prefix, environment), contextlib.ExitStack() as runs:
        def start(limit, text):
            command = [*prefix, "sh", "-c", f"ulimit -n {limit}; exec {build.uroce} run --sys=yes -- sh -c '{text}'"]
            program = runs.enter_context(subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            program.stdout.readline()
            return program

        def end(program):
            return program.communicate("\n", timeout=20)[0]

        running, counting = watchers(), start(1024, "echo; read line")
        taken = max(len(os.listdir(f"/proc/{pid}/fd")) for pid in watchers() - running)
        end(counting)
        kit.wait_until(lambda: not watchers() - running, 10, "the watching process has ended")
        for count in (room, 2 * room):
            first = start(taken + room, f"echo; read line; cat {PORT}/counters/port_xmit_data {PORT}/state")
            others = [start(1024, "echo; read line") for _ in range(count)]
            try:
                expect_match(end(first), r"\d+\n4: ACTIVE\n", "a counter, and the state")
            finally:
                first.kill()
                for program in others:
                    end(program)
            kit.wait_until(lambda: not watchers() - running, 10, "the watching processes have ended")


def takes(listener, address):
    with contextlib.suppress(OSError):
        listener.bind(address)
        return True
    return False


def address_of_another():
    """Another user has the address at which an ordinary user's runs meet, and lets no process connect: it gets a namespace of its own."""
    address, backlog = b"\0uroce-sys-%d" % USER, []
    with socket.socket(socket.AF_UNIX) as listener:
        kit.wait_until(lambda: takes(listener, address), 20, "the user's earlier runs have ended")
        listener.listen(0)
        try:
            while True:
                backlog.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
                backlog[-1].connect(address)
        except BlockingIOError:
            expect(output(ORDINARY, "ls", "/sys/class/infiniband"), "uroce0\n")
        finally:
            for connection in backlog:
                connection.close()


# ---- what remains ----

def watchers():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/stat") as stat:
                name, state = re.search(r"\((.*)\) (.)", stat.read()).groups()
            if name == "uroce-sys" and state != "Z":
                found.append(pid)
    return set(found)


def nothing_remains(who):
    def mounts():
        with open("/proc/self/mountinfo") as info:
            return info.read()
    before, running = mounts(), watchers()
    with place(who) as (prefix, environment):
        for number in (None, signal.SIGKILL):
            program = subprocess.Popen([*prefix, build.uroce, "run", "--sys=yes", "--", "sh", "-c",
                                        "echo; read line; cat " + PORT + "/state"],
                                       env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            program.stdout.readline()
            if not watchers() - running:
                raise kit.Failure("no process keeps the files up to date")
            expect(mounts(), before)
            if number:
                program.send_signal(number)
            program.communicate(b"\n")
            kit.wait_until(lambda: not watchers() - running, 10, "the watching process has ended")
    expect(mounts(), before)


def watcher_killed():
    """What is to be opened does not wait for a process that has ended."""
    running = watchers()
    with place(ROOT) as (prefix, environment):
        program = subprocess.Popen([build.uroce, "run", "--sys=yes", "--", "sh", "-c",
                                    f"echo; read line; cat {PORT}/counters/port_xmit_data"],
                                   env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        program.stdout.readline()
        for pid in watchers() - running:
            os.kill(int(pid), signal.SIGKILL)
        kit.wait_until(lambda: not watchers() - running, 10, "the watching process has ended")
        out, _ = program.communicate(b"\n", timeout=10)
        expect(out, b"0\n")


def few_descriptors():
    """What cannot be made without descriptors is removed: the folder, which has most of them open, and that in the namespace."""
    look = ["ls", "-A", "/sys/class", "/sys/devices", "/dev"]
    with place(ROOT) as (_, environment), tempfile.TemporaryDirectory() as folder:
        environment |= {"XDG_RUNTIME_DIR": folder, "UROCE_SOCKET": daemon.socket}
        for number in (16, 20):
            seen = subprocess.run(["sh", "-c", f"ulimit -n {number}; exec {build.uroce} run -- {' '.join(look)}"], env=environment,
                                  timeout=60, check=True, capture_output=True)
            expect(os.listdir(folder), [])
            expect(seen.stdout, subprocess.run(look, check=True, capture_output=True).stdout)


def no_file_size():
    """Files that may have no content are not made, the message says so, and no folder remains."""
    with place(ROOT) as (_, environment), tempfile.TemporaryDirectory() as folder:
        environment |= {"XDG_RUNTIME_DIR": folder, "UROCE_SOCKET": daemon.socket}
        for mode, status, sentence in (("yes", 1, "the files: File too large"), ("auto", 0, "")):
            done = subprocess.run(["sh", "-c", f"ulimit -f 0; exec {build.uroce} run --sys={mode} -- true"], env=environment, timeout=60,
                                  capture_output=True, text=True)
            expect((done.returncode, sentence in done.stderr, os.listdir(folder)), (status, True, []))


def nested(who):
    expect(output(who, build.uroce, "run", "--sys=yes", "--device-name", "other0", "ls", "/sys/class/infiniband",
                  "/dev/infiniband"), "/dev/infiniband:\nrdma_cm\nuverbs0\n\n/sys/class/infiniband:\nother0\n")


def daemon_gone():
    """The port is down without its daemon."""
    own = kit.Daemon(build, kit.scratch_folder())
    try:
        expect(script(ROOT, f"""
os.kill({own.process.pid}, 15)
deadline = time.monotonic() + 20
while open("{PORT}/state").read() != "1: DOWN\\n" and time.monotonic() < deadline:
    time.sleep(0.05)
print(open("{PORT}/state").read(), open("{PORT}/phys_state").read(), sep="", end="")""", socket=own.socket),
               "1: DOWN\n3: Disabled\n")
    finally:
        own.stop()


TWO_DEVICES = "".join(f"[port.{i}]\ndevice = loopback\naddress.0 = 127.0.0.{i + 1}\n" for i in range(2))


def two_devices():
    """Each device of a daemon has all files, with its own values."""
    own = kit.Daemon(build, kit.scratch_folder(), configuration=TWO_DEVICES)
    try:
        names = [name.replace("uroce0", "uroce1") for name in FORMATS if "/net/" not in name]
        names += [f"{PORT.replace('uroce0', 'uroce1')}/hw_counters/{name}" for name in HW_COUNTERS]
        expect(script(ROOT, f"""
print(sorted(os.listdir("/sys/class/infiniband")), sorted(os.listdir("/dev/infiniband")))
print([name for name in {names!r} if not os.path.exists(name)])
for device in ("uroce0", "uroce1"):
    print(open("/sys/class/infiniband/" + device + "/ports/1/gids/0").read()[-5:], end="")
""", socket=own.socket), "['uroce0', 'uroce1'] ['rdma_cm', 'uverbs0', 'uverbs1']\n[]\n0001\n0002\n")
    finally:
        own.stop()


def points_of(who):
    yield "each file in the kernel's format", formats
    yield "paths as of a PCI device", paths
    yield "unused GIDs have no type", unused_gids
    yield "other devices, terminals and shared memory", others_work
    yield "identity and capabilities", identity
    yield "counters move", counters_move
    yield "ib_write_bw -W", perftest
    yield "ucx_info", ucx
    yield "nothing remains", nothing_remains
    yield "uroce run under uroce run", nested
    if who == ORDINARY:
        yield "root's daemon: counters move", lambda who: counters_move(who, socket=daemon.socket)
        yield "root's daemon: ib_write_bw -W", lambda who: perftest(who, socket=daemon.socket)
        yield "two programs see each other's memory", lambda who: two_runs()
        yield "a namespace that is full", lambda who: full_watcher()
        yield "another user has the address", lambda who: address_of_another()
    else:
        yield "memory is mapped as without namespace", lambda who: adopted()
        yield "counters of connections that are gone", lambda who: hardware_counters()
        yield "--device-name", lambda who: chosen_names()
        yield "two devices", lambda who: two_devices()
        yield "ibstat and ibstatus", lambda who: ibstat()
        yield "the watching process is killed", lambda who: watcher_killed()
        yield "the daemon ends", lambda who: daemon_gone()


def skip(who):
    raise kit.Skipped(f"{who} cannot mount in a namespace here")


def points():
    for who in (ROOT, ORDINARY):
        able = can_mount(who)
        for name, function in points_of(who):
            yield f"{who}: {name}", (lambda who=who, function=function: function(who)) if able else lambda who=who: skip(who)
    yield "--sys=no", turned_off
    yield "no right to mount", no_namespace
    yield "a folder that cannot be copied as a whole", half_a_folder
    yield "few descriptors", few_descriptors
    yield "no size of files", no_file_size


def main():
    global build, daemon
    arguments = kit.point_arguments()
    build = kit.Build(arguments.build)
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root, to be two users")
        return 0
    folder = kit.scratch_folder()
    daemon = kit.Daemon(build, folder)
    os.chmod(folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    try:
        return kit.run_points(points(), arguments.match)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
