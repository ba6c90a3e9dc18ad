# SPDX-License-Identifier: BSD-3-Clause
"""A simulation in which packets are altered as a faulty engine would send them must fail, say with
which few lost frames it still does, and fail again when just these are lost. usage: minimise.py SIM_ALL"""

import shlex
import subprocess
import sys

BUGS = ["nak-is-ack", "retry-is-new"]
MOST = 2  # fates that are left


def run(*args):
    return subprocess.run([sys.argv[1], *args], capture_output=True, text=True, timeout=200)


def judge(bug):
    """None, or what is wrong."""
    found = run("--seeds", "200", "--bug", bug)
    if found.returncode == 0:
        return "200 seeds pass"
    lines = [line for line in found.stderr.splitlines() if line.startswith("repeat: ")]
    if not lines:
        return "no way to repeat it is told: " + found.stderr
    args = shlex.split(lines[0].split(" sim_all ", 1)[1])
    fates = [fate for fate in args[args.index("--fates") + 1].split(",") if fate]
    if not 1 <= len(fates) <= MOST:
        return f"{len(fates)} fates are left: {fates}"
    if run(*args).returncode == 0:
        return "what is told does not repeat it: " + lines[0]
    at = args.index("--bug")
    if run(*args[:at], *args[at + 2:]).returncode != 0:
        return "it fails without the bug too"
    return None


print(f"1..{len(BUGS)}")
failed = False
for number, bug in enumerate(BUGS, 1):
    wrong = judge(bug)
    failed |= wrong is not None
    print(f"{'not ok' if wrong else 'ok'} {number} - {bug}{': ' + wrong if wrong else ''}")
sys.exit(failed)
