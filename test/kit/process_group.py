# SPDX-License-Identifier: BSD-3-Clause
"""Processes that a test has started in a session of their own, with all that they start: their ids, their sockets, their end."""
import os
import signal
import subprocess

TCP = (("tcp", "0A"), ("tcp6", "0A"))  # tables of /proc/PID/net, and the state of a socket that listens
UDP = (("udp", "07"), ("udp6", "07"))  # one that is bound


def family(pid):
    """The process, and all below it."""
    found = [pid]
    for process in found:
        try:
            with open(f"/proc/{process}/task/{process}/children") as children:
                found += map(int, children.read().split())
        except OSError:
            pass
    return found


def sockets(pid):
    """The inodes of a process's sockets."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return set()
    return {link[8:-1] for link in links if link.startswith("socket:[")}


def listens(pids, tables=TCP):
    """Whether one of the processes has a socket of the tables that listens, in whichever network namespace it is."""
    inodes = set().union(*map(sockets, pids))
    for pid in pids:
        for table, state in tables:
            try:
                with open(f"/proc/{pid}/net/{table}") as lines:
                    if any(fields[3] == state and fields[9] in inodes for fields in map(str.split, lines)):
                        return True
            except OSError:
                pass
    return False


def end(process):
    """Ends the process and all of its group, first by request. The exit status."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(5)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    return process.wait()
