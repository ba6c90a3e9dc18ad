#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of doc/metrics.md are those of app/metrics/metrics.def.

    metrics_page.py SOURCE_FOLDER            writes the tables into the page
    metrics_page.py --check SOURCE_FOLDER    TAP: are they up to date?
"""
import os
import re
import sys

TABLE = "app/metrics/metrics.def"
LABELS = "app/metrics/metrics_select.c"
PAGE = "doc/metrics.md"
BEGIN, END = "<!-- test/unit/uroce/metrics_page.py writes this -->\n", "<!-- up to here -->\n"
# A title for topics, and where `uroce show` has their fields.
TOPICS = (("The daemon", ("DAEMON", "BUILD"), "the daemon"),
          ("Ports", ("PORT_INFO", "PORT", "DROPS"), "`counters`, `drops`, `ports`"),
          ("Priorities", ("QOS",), "`qos`"),
          ("Queue pairs of a device, also those that are gone", ("TOTALS",), "`qps`"),
          ("The IP host of a port", ("NETWORK",), "`network`"),
          ("Queues of a port", ("QUEUE",), "`steering`"),
          ("Workers", ("WORKER",), "`workers`"),
          ("Memory regions", ("DEVICE", "MRS"), "`devices`, `mr_reasons`"),
          ("Users", ("USER", "USER_MEMORY", "ALL", "ALL_MEMORY"), "`quotas`"),
          ("Waits", ("LATE",), "`late`"), ("Latency of work requests", ("LATENCY",), "`latency`"),
          ("The connection manager", ("CM_MESSAGE", "CM", "GSI"), "`cm`"))


def read_metrics(text):
    """(topic, type, name, unit, scale, field, help) of each."""
    return re.findall(r'^METRIC\((\w+), (\w+), (\w+), (\w+), (\w+), (\w+),\s+"([^"]*)"\)$', text, re.M)


def read_labels(text):
    return {topic: re.findall(r'"(\w+)"', labels)
            for topic, labels in re.findall(r"\[METRIC_(\w+)\] = \{\{([^}]*)\}", text)}


def sample(kind, name):
    return f"uroce_{name}" + {"COUNTER": "_total", "HISTOGRAM": "_bucket"}.get(kind, "")


def tables(metrics, labels):
    lines = []
    for title, topics, source in TOPICS:
        lines += [f"### {title}", "", f"Of {source}.", "",
                  "| metric | type | labels | field | |", "|---|---|---|---|---|"]
        for topic, kind, name, _, _, field, about in metrics:
            if topic in topics:
                words = ", ".join(f"`{label}`" for label in labels[topic])
                shown = "" if field == "one" else f"`{field}`"
                lines.append(f"| `{sample(kind, name)}` | {kind.lower()} | {words} | {shown} | {about} |")
        lines.append("")
    return "\n".join(lines) + "\n"


def main():
    root = sys.argv[-1]
    with open(os.path.join(root, TABLE)) as file:
        text = file.read()
    with open(os.path.join(root, LABELS)) as file:
        labels = read_labels(file.read())
    with open(os.path.join(root, PAGE)) as file:
        page = file.read()
    metrics = read_metrics(text)
    head, rest = page.split(BEGIN)
    old, tail = rest.split(END)
    new = "\n" + tables(metrics, labels)
    if "--check" not in sys.argv:
        with open(os.path.join(root, PAGE), "w") as file:
            file.write(head + BEGIN + new + END + tail)
        return 0
    points = ((len(metrics) == len(re.findall(r"^METRIC\(", text, re.M)) > 100, "each line of the table is understood"),
              ({metric[0] for metric in metrics} == {topic for _, topics, _ in TOPICS for topic in topics} == set(labels),
               "the page has all topics"),
              (old == new, "the tables of doc/metrics.md are up to date"))
    print(f"1..{len(points)}")
    for number, (good, name) in enumerate(points, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
    return 0 if all(good for good, _ in points) else 1


if __name__ == "__main__":
    sys.exit(main())
