#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the programs say of wrong command lines, and their versions. TAP.

usage: commands.py UROCE UROCED UROCE_PERF HELLO_RC"""
import errno
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading

uroce, uroced, perf, hello = sys.argv[1:]
COMMANDS = ("run", "show", "top", "rdma", "metrics", "trace", "why", "fault", "dissect", "replay", "entropy", "sim")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def versions():
    found = {run(*command)[1].split()[-1] for command in
             ((uroce, "--version"), (uroced, "--version"), (uroced, "-V"), (perf, "--version"), *((uroce, name, "--version") for name in COMMANDS))}
    return len(found) == 1 and re.fullmatch(r"\d+\.\d+\.\d+", found.pop())


def unknown_options():
    return all(says(2, f"uroce: {name}: unrecognized option '--nothing'", uroce, name, "--nothing") for name in COMMANDS)


def all_commands_are_here():
    listed = re.findall(r"^  (\w+) .*\n        ", run(uroce, "--help")[1], re.M)
    return sorted(listed) == sorted(COMMANDS)


def says(status, sentence, *command):
    done = run(*command)
    return done[0] == status and sentence in done[2]


def name_that_is_no_utf8():
    with tempfile.TemporaryDirectory() as folder:
        path = os.fsencode(folder) + b"/\xff.pcap"
        with open(path, "wb") as file:  # one frame of zeros
            file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1) + struct.pack("<IIII", 0, 0, 60, 60) + bytes(60))
        answer = run(uroce, "replay", "--json", path)[1]
        return answer and json.loads(answer)["file"] == folder + "/\\xff.pcap"


def pipe_without_a_capture():
    """It is read once: no other program may come that writes to it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pipe")
        os.mkfifo(path)
        writer = threading.Thread(target=lambda: open(path, "wb").write(bytes(64)))
        writer.start()
        try:
            return says(2, f"uroce dissect: {path}: ", uroce, "dissect", path)
        except subprocess.TimeoutExpired:
            return False
        finally:
            writer.join()


def times_far_apart():
    """A pcapng file whose clock counts seconds: the frames are almost 2^64 of them apart."""
    def block(kind, body):
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    with tempfile.NamedTemporaryFile() as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
                   + block(1, struct.pack("<HHIHHIHH", 1, 0, 0, 9, 1, 0, 0, 0)))  # option 9: the resolution, 10^0
        for high, low in ((1 << 31, 5), ((1 << 31) - 1, (1 << 32) - 5)):
            file.write(block(6, struct.pack("<IIIII", 0, high, low, 60, 60) + bytes(60)))
        file.flush()
        status, out, _ = run(uroce, "dissect", file.name)
        return status == 0 and float(out.splitlines()[1].split()[1]) == 2.0**64


def no_room():
    """What cannot be printed is a failure, and said."""
    for command in ((uroce, "--help"), (uroce, "--version"), (uroce, "show", "--help"), (uroce, "show", "--version"), (uroce, "metrics", "--help"),
                    (uroce, "why", "code=60"), (uroce, "entropy", "--random", "9"), (uroced, "--help"), (uroced, "--version"), (perf, "--help"),
                    (perf, "--version"), (perf, "--", "--messages", "10")):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, stdin=subprocess.DEVNULL)
        if done.returncode != 1 or not re.search(r": standard output: (No space left on device|a write has failed)\n", done.stderr):
            return False
    return True


def unknown_user():
    """It is found to be wrong before a port or the socket is open."""
    with tempfile.TemporaryDirectory() as folder:
        config, place = os.path.join(folder, "c"), os.path.join(folder, "none", "s")
        with open(config, "w", encoding="utf-8") as file:
            file.write("[uroced]\nuser = no-such-user\n[port.0]\ndevice = loopback\n")
        return all(says(2, "uroced: there is no user no-such-user", uroced, *words, "--socket", place)
                   for words in (("--user", "no-such-user"), ("--config", config)))


def closed_output():
    done = subprocess.run(("sh", "-c", f"exec {uroce} why code=60 >&-"), stderr=subprocess.PIPE, text=True, timeout=20)
    return done.returncode == 1 and "standard output: Bad file descriptor" in done.stderr


def addresses_of_two_kinds():
    """No packet has both, so no path is that of such a flow. The file begins with a byte order mark."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write("\ufeff1 2 ::1 ::2\n1 2 192.0.2.1 ::2\n")
        file.flush()
        return (says(1, f"uroce entropy: {file.name}: line 2: one address is IPv4, the other IPv6", uroce, "entropy", "--file", file.name)
                and all(says(2, "uroce entropy: of --src and --dst one is an IPv4 address", uroce, "entropy", "--qps", "1:2", *options)
                        for options in (("--src", "::1"), ("--dst", "::1"), ("--src", "::1", "--dst", "192.0.2.1")))
                and run(uroce, "entropy", "--qps", "1:2", "--src", "::1", "--dst", "::2")[0] == 0)


def completed(*words):
    """What bash would offer for the last word."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "config", "uroce.bash")
    text = f"""
        . {script}
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        function=$(complete -p "$1") && function=${{function#* -F }} && ${{function%% *}} && echo "${{COMPREPLY[*]}}"
    """
    path = os.pathsep.join([os.path.dirname(os.path.abspath(program)) for program in (uroce, uroced, perf)] + [os.environ["PATH"]])
    done = subprocess.run(("bash", "-c", text, "bash", *words), capture_output=True, text=True, timeout=20, env=dict(os.environ, PATH=path))
    return done.stdout.rstrip("\n")


def completion():
    return (completed("uroce", "fault", "now", "q") == "qp_error" and completed("uroce", "sh") == "show"
            and completed("uroced", "--metr") == "--metrics" and completed("uroce-perf", "--", "--bidi") == "--bidirectional")


def zeros_in_front():
    """A number is decimal also then."""
    return (run(uroce, "why", "code=010") == run(uroce, "why", "code=10") and run(uroce, "why", "code=0x0a") == run(uroce, "why", "code=10")
            and says(1, "no cause has the number 8", uroce, "why", "code=08")
            and run(perf, "--", "--messages", "08", "--size", "010")[1].startswith("write, 10 bytes\n")
            and all(says(1, "no uroced serves", uroce, *words, "--socket", "/nonexistent") for words in
                    (("show", "steering", "--qp", "09"), ("show", "qos", "--sl", "09"), ("trace", "--qpn", "09"))))


def nothing_is_left():
    """The EAL makes a folder, and does not start: it knows no such device."""
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen((perf, "-a", "none", "--", "--messages", "1"), stderr=subprocess.PIPE, text=True,
                                                                   env=dict(os.environ, XDG_RUNTIME_DIR=folder)) as program:
        text = program.communicate(timeout=20)[1]
        left = [path for path in (folder, "/var/run", "/tmp") if os.path.exists(f"{path}/dpdk/uroce-perf-{program.pid}")]
    return program.returncode == 1 and "DPDK's environment does not start: No such device" in text and not left


def eal_refuses(name, command):
    """From DPDK 25.11 on the EAL ends the program itself, with the status -EINVAL."""
    status, _, error = run(*command)
    return (status == 2 and f"{name}: DPDK's environment does not start: Invalid argument" in error
            or status == 256 - errno.EINVAL and "unknown argument" in error)


def wrong_options_of_the_eal():
    """The EAL finds them, later than those of the programs."""
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "null.ini")
        with open(config, "w", encoding="utf-8") as file:
            file.write("[port.0]\ndevice = net_null0\naddress.0 = 192.0.2.1/24\n")
        return all(eal_refuses(name, command)
                   for name, command in (("uroce-perf", (perf, "--bogus", "--", "--messages", "1")),
                                         ("uroced", (uroced, "-c", config, "--socket", folder + "/s", "--", "--bogus"))))


POINTS = (
    ("versions", versions),
    ("every command is looked at", all_commands_are_here),
    ("unknown options", unknown_options),
    ("a topic that there is not", lambda: says(2, 'uroce: show: there is no topic "bogus"', uroce, "show", "bogus")),
    ("a command that there is not", lambda: says(2, "uroce: 'shwo' is not a command", uroce, "shwo")),
    ("a capture whose name is not UTF-8", name_that_is_no_utf8),
    ("a forgotten --", lambda: says(2, "uroce-perf: --size is not for the EAL: write it behind --", perf, "--size", "8")),
    ("the same with a value", lambda: says(2, "uroce-perf: --mode=send is not for the EAL", perf, "--mode=send")),
    ("a kernel's interface", lambda: says(1, "lo is an interface of the kernel: say net_af_packet0,iface=lo", perf, "--vdev", "lo", "--",
                                          "--duration", "0.05")),
    ("a command without a name", lambda: says(2, "uroce: '' is not a command", uroce, "")),
    ("what follows the options", lambda: says(2, 'uroce: show: unexpected argument "more"', uroce, "show", "qps", "more")
     and all(says(2, f'uroce: {name}: unexpected argument "more"', uroce, name, *first, "more")
             for name, first in (("metrics", ()), ("trace", ()), ("top", ()), ("why", ("1",))))),
    ("options of another topic", lambda: says(2, "uroce: show: --sl, --tos and --tclass go with qos", uroce, "show", "qps", "--sl", "1")),
    ("a format that there is not", lambda: says(2, 'uroce: metrics: --format is openmetrics or prometheus, not "xml"', uroce, "metrics", "--format",
                                                "xml")),
    ("words of fault", lambda: says(2, 'uroce: fault: "ad" is not add, now, list or remove', uroce, "fault", "ad")
     and says(2, 'uroce: fault: too few words after "add"', uroce, "fault", "add")
     and says(2, 'uroce: fault: too many words after "list"', uroce, "fault", "list", "all")),
    ("a side that there is not", lambda: says(2, 'uroce replay: --side is A, B or both, not "C"', uroce, "replay", "--side", "C", "x")),
    ("what none but DPDK would heed", lambda: says(2, 'uroced: "-m" is for DPDK\'s EAL, and no port is DPDK\'s', uroced, "--loopback", "--", "-m", "64")
     and says(2, "uroced: telemetry is DPDK's, and no port is", uroced, "--loopback", "--telemetry")),
    ("no capture", lambda: all(says(2, f"uroce {name}: one FILE is wanted", uroce, name) for name in ("dissect", "replay"))),
    ("a capture that is missing", lambda: says(2, "uroce dissect: /nonexistent: No such file", uroce, "dissect", "/nonexistent")),
    ("a pipe without a capture", pipe_without_a_capture),
    ("times that are far apart", times_far_apart),
    ("a word before the EAL's options", lambda: says(2, 'uroce-perf: unexpected argument "write"', perf, "write", "--", "--messages", "1")),
    ("completion", completion),
    ("numbers with zeros in front", zeros_in_front),
    ("an empty path", lambda: all(says(1, "uroce: --socket has an empty path\n", uroce, *command, "--socket", "", *more)
                                  for command, more in ((("show",), ()), (("why",), ()), (("top",), ()), (("rdma",), ("dev",)), (("metrics",), ()),
                                                        (("fault",), ("list",)), (("entropy", "--running"), ()), (("run",), ("true",))))),
    ("an empty value", lambda: all(says(2, f"uroce-perf: {name}: the value is empty", perf, "--", *words, "--messages", "1")
                                   for name, words in (("client", ("--client", "")), ("client", ("--client=",)), ("loads", ("--loads", "")),
                                                       ("cpus", ("--cpus", ""))))),
    ("a place for metrics", lambda: all(says(2, f'uroced: --metrics must be ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH, not "{place}" (an address is a '
                                             "number, a path begins with /)", uroced, "--metrics", place)
                                        for place in ("localhost:9440", "127.0.0.1", "unix:here"))),
    ("addresses of two kinds", addresses_of_two_kinds),
    ("a user that there is not", unknown_user),
    ("two devices of one name", lambda: all(says(2, f'uroce: run: --device-name: "{names}": two devices have one name', uroce, "run", "--device-name", names, "true")
                                            for names in ("a,a", "a,b,a", "ab,a,b,a"))),
    ("a program without a name", lambda: says(2, "uroce: run: the program's name is empty", uroce, "run", "--", "")
     and says(2, "uroce: run: no program given", uroce, "run")),
    ("a CPU that is there twice", lambda: all(says(2, f"uroce-perf: cpus: CPU {cpu} is there twice", perf, "--", "--cpus", cpus, "--workers", "2")
                                              for cpu, cpus in ((0, "0,0"), (1, "0-1,1"), (3, "2-3,5,3")))),
    ("an EAL that does not start", nothing_is_left),
    ("wrong options of the EAL", wrong_options_of_the_eal),
    ("a full disk", no_room),
    ("a closed output", closed_output),
    ("an example's device", lambda: says(1, "hello_rc: there is no RDMA device none\n", hello, "-d", "none")),
    ("an example's options", lambda: says(2, "usage: hello_rc ", hello, "--help")),
)

print(f"1..{len(POINTS)}")
failed = 0
for number, (name, function) in enumerate(POINTS, 1):
    good = function()
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {name}")
sys.exit(bool(failed))
