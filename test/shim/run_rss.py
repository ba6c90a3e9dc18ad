#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The example rss_server: each packet comes to the queue that a Toeplitz hash, computed here, says, and what the flow rule
does not name comes to none; of frames from another program's raw packets on a loopback device, and of frames that the
kernel puts on a veth pair. TAP.

usage: run_rss.py --build DIR RAW_SEND"""
import argparse
import collections
import os
import random
import re
import socket
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

PORT, QUEUES, PACKETS, OTHERS = 4000, 4, 400, 100
BURST = 32  # a queue has more buffers than that
# Of Microsoft's RSS specification, and its first example of IPv4 with ports.
KEY = int("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa", 16)
EXAMPLE = ("66.9.149.187", 2794, "161.142.100.80", 1766), 0x51CCC178


def toeplitz(flow):
    source, sport, destination, dport = flow
    data = socket.inet_aton(source) + socket.inet_aton(destination) + struct.pack(">HH", sport, dport)
    bits = 8 * len(data)
    value, result = int.from_bytes(data, "big"), 0
    for bit in range(bits):
        if value >> (bits - 1 - bit) & 1:
            result ^= KEY >> (320 - 32 - bit) & 0xFFFFFFFF
    return result


def ones(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def frame(flow, destination_mac, payload=b"spread me", protocol=17):
    source, sport, destination, dport = flow
    datagram = struct.pack(">4H", sport, dport, 8 + len(payload), 0) + payload
    header = struct.pack(">2B3H2BH4s4s", 0x45, 0, 20 + len(datagram), 0, 0, 64, protocol, 0,
                         socket.inet_aton(source), socket.inet_aton(destination))
    header = header[:10] + struct.pack(">H", ones(header)) + header[12:]
    ethernet = bytes.fromhex(destination_mac.replace(":", "")) + bytes.fromhex("020000007799") + b"\x08\0"
    return (ethernet + header + datagram).ljust(60, b"\0")


def flows(chance, destination):
    """A few addresses and any ports."""
    return [(f"192.0.2.{chance.randrange(1, 9)}", chance.randrange(1024, 65536), destination, PORT)
            for _ in range(PACKETS)]


def tagged(data):
    """In VLAN 5, with a priority."""
    return data[:12] + b"\x81\0\x60\x05" + data[12:]


def traffic(chance, destination, mac):
    """The flows that are for the server, and all frames: among them some that are not. Every third has a tag."""
    wanted = flows(chance, destination)
    frames = [frame(flow, mac) for flow in wanted]
    frames[::3] = map(tagged, frames[::3])
    for i in range(OTHERS):
        flow = (f"192.0.2.{i}", 5000 + i, destination, PORT + 1 + i)
        other = frame(flow, mac) if i % 2 else frame((*flow[:3], PORT), mac, protocol=6)
        frames.insert(chance.randrange(len(frames)), other)
    return wanted, frames


def is_wanted(data):
    if data[12:14] == b"\x81\0":
        data = data[:12] + data[16:]
    return data[23] == 17 and data[36:38] == struct.pack(">H", PORT)


def packets_of(text):
    """Queue and flow of each line that tells of a packet."""
    line = re.compile(r"queue (\d): (\S+):(\d+) > (\S+):(\d+), (\d+) bytes")
    return [(int(m[1]), (m[2], int(m[3]), m[4], int(m[5]))) for m in map(line.fullmatch, text.splitlines()) if m]


def check(text, wanted):
    got = packets_of(text)
    if collections.Counter(flow for _, flow in got) != collections.Counter(wanted):
        raise kit.Failure(f"{len(got)} packets, and not those {len(wanted)} that were sent:\n{text}")
    for queue, flow in got:
        if queue != toeplitz(flow) % QUEUES:
            raise kit.Failure(f"{flow} came to queue {queue}, not {toeplitz(flow) % QUEUES}")
    counts = collections.Counter(toeplitz(flow) % QUEUES for flow in wanted)
    told = dict(map(int, m) for m in re.findall(r"^queue (\d): (\d+) packets$", text, re.M))
    if told != counts or len(told) != QUEUES:
        raise kit.Failure(f"counts {told}, not {dict(counts)}")


def send(server, sender, wanted, frames):
    """In bursts, each when the one before has come: there is no other flow control."""
    due = 0
    for i in range(0, len(frames), BURST):
        burst = frames[i:i + BURST]
        try:
            sender.stdin.write("".join(frame.hex() + "\n" for frame in burst))
            sender.stdin.flush()
        except BrokenPipeError:
            raise kit.Failure(f"the sender: {sender.stderr.read()}")
        due += sum(is_wanted(frame) for frame in burst)
        kit.wait_until(lambda: len(packets_of(server.text())) >= due or sender.poll() is not None, 20,
                       f"packet {due} of {len(wanted)}")
    sender.stdin.close()
    if sender.wait(20):
        raise kit.Failure(f"the sender: {sender.stderr.read()}")


def serve(build, daemon, command, environment, wanted, frames):
    """Runs the server while the command sends; checks what it says."""
    program = [os.path.join(build.folder, "examples/rss_server"), "-p", str(PORT), "-n", str(len(wanted))]
    server = kit.Program(daemon, program)
    sender = None
    try:
        kit.wait_until(lambda: "waiting for packets" in server.text() or server.process.poll() is not None, 20,
                       "rss_server waits")
        if server.process.poll() is not None:
            raise kit.Failure(server.text())
        sender = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        send(server, sender, wanted, frames)
        check(server.finish(30), wanted)
    finally:
        server.kill()
        if sender is not None:
            sender.kill()
            sender.wait()


def example():
    if toeplitz(EXAMPLE[0]) != EXAMPLE[1]:
        raise kit.Failure(f"{toeplitz(EXAMPLE[0]):#x}")


def on_loopback(build, daemon, raw_send, seed):
    mac = daemon.show("ports")[0]["mac"]
    wanted, frames = traffic(random.Random(seed), "198.51.100.1", mac)
    serve(build, daemon, [raw_send], daemon.environment(), wanted, frames)


def loopback(build, raw_send, workers):
    folder = kit.scratch_folder()
    configuration = os.path.join(folder, "loopback.ini")
    with open(configuration, "w") as file:
        print(f"[uroced]\nworkers = {workers}\n[port.0]\ndevice = loopback", file=file)
    daemon = kit.Daemon(build, folder, arguments=("-c", configuration))
    try:
        on_loopback(build, daemon, raw_send, workers)
    finally:
        daemon.stop()


SEND = """import socket, sys
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((sys.argv[1], 0))
for line in sys.stdin:
    wire.send(bytes.fromhex(line))
"""


def veth(build, workers):
    """The kernel sends at one end; the other end is the daemon's port."""
    folder = kit.scratch_folder()
    with net.Wire(1500) as wire:
        one, two = wire.ends
        configuration = os.path.join(folder, "veth.ini")
        text = net.configuration(one, two, 1500)
        with open(configuration, "w") as file:
            file.write(f"[uroced]\nworkers = {workers}\n" + text)
        daemon = kit.Daemon(build, folder, arguments=("-c", configuration), namespace=one.namespace)
        try:
            wanted, frames = traffic(random.Random(workers), one.ipv4, one.mac)
            command = ["ip", "netns", "exec", two.namespace, sys.executable, "-c", SEND, two.interface]
            serve(build, daemon, command, None, wanted, frames)
        finally:
            daemon.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("raw_send")
    arguments = parser.parse_args()
    build = kit.Build(arguments.build)
    raw_send = os.path.abspath(arguments.raw_send)
    kit.die_on_signals()
    if os.geteuid():
        print("1..0 # SKIP raw packets take CAP_NET_RAW")
        return 0
    tap = kit.Tap(5)
    tap.point("the hash of Microsoft's example", example)
    for workers in (1, 3):
        tap.point(f"loopback, workers: {workers}", lambda: loopback(build, raw_send, workers))
    for workers in (1, 2):
        tap.point(f"veth, workers: {workers}", lambda: veth(build, workers))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
