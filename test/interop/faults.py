# SPDX-License-Identifier: BSD-3-Clause
"""What comes of faults, as verify prints it, between uroce and rxe and between two rxe. Standard library only."""
import re
import sys


def statuses(text):
    """(fault, who is the requester) -> (what the requester saw, what the responder saw)."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"fault=(\S+) requester=(\S+) client=(\S+) server=(\S+) client_qp=(\S+) server_qp=(\S+)", line)
        if not match:
            continue
        fault, requester, *fields = match.groups()
        client, server, client_qp, server_qp = (field.replace("IBV_WC_", "") for field in fields)
        sides = [f"{client} {client_qp}", f"{server} {server_qp}"]
        found[fault, requester] = tuple(sides if requester == "client" else sides[::-1])
    return found


class Explanations:
    """kernel: that of the guest. The first field of a line is the fault, or a kernel that alone has it and the fault."""

    def __init__(self, path, kernel):
        self.lines = {}
        with open(path) as file:
            for line in file:
                if line.startswith("#") or not line.strip():
                    continue
                fields = [field.strip() for field in line.split(" | ")]
                if len(fields) != 6:
                    sys.exit(f"{path}: not six fields: {line}")
                only, _, fault = fields[0].rpartition(" ")
                if only in ("", kernel):
                    self.lines[(fault, *fields[1:4])] = fields[4:]
        self.occurred = set()

    def judge(self, fault, role, rxe, mixed):
        """None, or what is different and not explained."""
        if mixed == rxe:
            return None
        key = (fault, role, "; ".join(rxe), "; ".join(mixed))
        self.occurred.add(key)
        return None if key in self.lines else " | ".join(key)

    def stale(self):
        return [" | ".join(key) for key in self.lines if key not in self.occurred]


def compare(rxe_text, mixed, explanations):
    """mixed: uroce's role in the TCP connection -> verify's output. Lines of what is wrong, and how much was compared."""
    rxe, wrong, compared = statuses(rxe_text), [], 0
    for ours, text in mixed.items():
        for (fault, requester), sides in statuses(text).items():
            # rxe's own side may not be able to provoke it; then both must agree that it was not done.
            base = rxe.get((fault, requester)) or rxe.get((fault, "client")) or rxe.get((fault, "server"))
            if base is None:
                continue
            compared += 1
            difference = explanations.judge(fault, "requester" if requester == ours else "responder", base, sides)
            if difference and difference not in wrong:
                wrong.append(difference)
    return wrong, compared
