#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""doc/statuses.md has a section for each status of ibv_wc, with the text of ibv_wc_status_str, a row for each asynchronous
event, and each cause of lib/base/cause.def by number and name. TAP.

usage: statuses_page.py SOURCE HEADER
       HEADER: infiniband/verbs.h, preprocessed or not"""
import os
import re
import sys

# Of InfiniBand's tag matching and reliable datagrams, and of RoCE's absent pieces: without a section of their own.
TAG_MATCHING = {"IBV_WC_TM_ERR", "IBV_WC_TM_RNDV_INCOMPLETE"}
DATAGRAMS = {"IBV_WC_LOC_EEC_OP_ERR": 3, "IBV_WC_LOC_RDD_VIOL_ERR": 14, "IBV_WC_REM_INV_RD_REQ_ERR": 15, "IBV_WC_INV_EECN_ERR": 17,
             "IBV_WC_INV_EEC_STATE_ERR": 18}


def enum(text, name):
    """{constant: value} of an enum whose values count up."""
    body = re.search(rf"enum {name} \{{(.*?)\}}", text, re.S)[1]
    found, value = {}, 0
    for item in re.findall(r"(\w+)\s*(?:=\s*(\d+))?\s*,", re.sub(r"/\*.*?\*/", "", body, flags=re.S) + ","):
        value = int(item[1]) if item[1] else value
        found[item[0]] = value
        value += 1
    return found


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def main():
    source, header = sys.argv[1], read(sys.argv[2])
    page = read(source, "doc", "statuses.md")
    headings = "\n".join(line for line in page.splitlines() if line.startswith("### "))
    strings = dict(re.findall(r'\[(IBV_WC_\w+)\] = "([^"]+)"', read(source, "lib", "verbs", "strings.c")))
    statuses = {name: value for name, value in enum(header, "ibv_wc_status").items()
                if name not in TAG_MATCHING and name not in DATAGRAMS}
    events = enum(header, "ibv_event_type")
    causes = re.findall(r"^CAUSE\((\d+), (\w+),", read(source, "lib", "base", "cause.def"), re.M)
    lacking = {
        "each status has a section with its number": [n for n, v in statuses.items() if f"{n} ({v})" not in headings],
        "each section has the text of ibv_wc_status_str":
            [n for n in statuses if f'"{strings[n]}"' not in page and n != "IBV_WC_REM_ABORT_ERR"],
        "each event has a row": [n for n in events if not re.search(rf"^\| [^|]*\b{n}\b", page, re.M)],
        "each cause is there": [f"{number} `{name}`" for number, name in causes if f"{number} `{name}`" not in page],
        "no cause is there that does not exist":
            [f"{number} `{name}`" for number, name in re.findall(r"(\d+) `(\w+)`", page) if (number, name) not in causes],
    }
    print(f"1..{len(lacking)}")
    for number, (name, missing) in enumerate(lacking.items(), 1):
        print(f"{'not ok' if missing else 'ok'} {number} - {name}")
        for what in missing:
            print(f"# {what}")
    return any(lacking.values())


if __name__ == "__main__":
    sys.exit(main())
