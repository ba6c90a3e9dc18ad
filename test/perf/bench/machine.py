# SPDX-License-Identifier: BSD-3-Clause
"""The machine and the date of the figures."""
import os
import subprocess
import time

BUSY = 0.1  # share of the processors; if other programs use more, the figures are unreliable


def cpu_model():
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return os.uname().machine


def dpdk_version():
    out = subprocess.run(["pkg-config", "--modversion", "libdpdk"], capture_output=True, text=True)
    return out.stdout.strip() if out.returncode == 0 else "unknown"


def busy_share(seconds):
    """The share of all processors, 0 to 1, that other programs use during the next seconds."""
    before = _times()
    time.sleep(seconds)
    after = _times()
    total = sum(after) - sum(before)
    idle = after[3] + after[4] - before[3] - before[4]
    return 1 - idle / total if total else 0.0


def _times():
    with open("/proc/stat") as lines:
        return [int(word) for word in lines.readline().split()[1:9]]


def lines(busy, rounds, seconds):
    hugepages = _sysctl("/proc/sys/vm/nr_hugepages")
    return [f"{cpu_model()}, {os.cpu_count()} processors, Linux {os.uname().release.split('-')[0]}, DPDK {dpdk_version()}, "
            f"{hugepages} huge pages; {time.strftime('%Y-%m-%d')}.",
            f"Rounds: {rounds}, in {seconds / 60:.1f} minutes. Before the first round, other programs used "
            f"{busy * 100:.0f} % of the processors"
            + ("; **figures of a busy machine are not worth keeping**." if busy > BUSY else ".")]


def _sysctl(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return "no"
