#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The causes: doc/why.md's table is what lib/base/cause.def says, and `uroce why code=N` says the same. TAP.

usage: why_page.py SOURCE UROCE
       why_page.py SOURCE --write"""
import json
import os
import re
import subprocess
import sys

CAUSES, PAGE = "lib/base/cause.def", "doc/why.md"
HEAD = "| number | name | what it says | what to do | details |\n|---:|---|---|---|---|\n"
MARK = "## Causes\n"
TEXT = r'((?:"[^"]*"\s*)+)'
CAUSE = re.compile(rf"^CAUSE\((\d+), (\w+),\s*{TEXT},\s*{TEXT},\s*{TEXT}\)", re.M)


def joined(text):
    return "".join(re.findall(r'"([^"]*)"', text))


def causes(source):
    """[(number, name, details, sentence, advice)], in their order in the file."""
    with open(os.path.join(source, CAUSES)) as file:
        text = file.read()
    found = [(int(m[1]), m[2], joined(m[3]), joined(m[4]), joined(m[5])) for m in CAUSE.finditer(text)]
    if len(found) != text.count("\nCAUSE("):
        raise SystemExit(f"{CAUSES}: a cause has another form")
    return found


def table(found):
    return HEAD + "".join(f"| {number} | `{name}` | {sentence} | {advice} | {', '.join(details.replace('?', '').split())} |\n"
                          for number, name, details, sentence, advice in found)


def page(text, found):
    """The page with the table behind the paragraph that follows the mark, to its end."""
    before, behind = text.split(MARK)
    return before + MARK + "\n" + behind.strip().split("\n\n")[0] + "\n\n" + table(found)


def order(found):
    numbers = [cause[0] for cause in found]
    return [] if numbers == sorted(set(numbers)) and 0 < numbers[0] and numbers[-1] < 256 else [str(numbers)]


def explained(found, uroce):
    wrong = []
    known = {cause[0]: cause for cause in found}
    for number in range(257):
        run = subprocess.run([uroce, "why", f"code={number}", "--json"], capture_output=True, text=True)
        if number not in known:
            wrong += [f"{number}: exit status {run.returncode}"] * (run.returncode != 1)
            continue
        said = json.loads(run.stdout)
        _, name, _, sentence, advice = known[number]
        if said != {"code": number, "cause": name, "sentence": sentence, "advice": advice}:
            wrong.append(f"{number}: {said}")
    return wrong


def main():
    source, second = sys.argv[1:]
    found = causes(source)
    name = os.path.join(source, PAGE)
    with open(name) as file:
        text = file.read()
    if second == "--write":
        with open(name, "w") as file:
            file.write(page(text, found))
        return 0
    points = [("numbers rise, from 1 to 255", order(found)),
              (f"{PAGE} is what {CAUSES} says", [] if text == page(text, found) else ["run why_page.py SOURCE --write"]),
              ("uroce why code=N says the same", explained(found, second))]
    print(f"1..{len(points)}")
    for number, (point, wrong) in enumerate(points, 1):
        print(f"{'not ' if wrong else ''}ok {number} - {point}")
        for line in wrong[:20]:
            print("# " + line)
    return 1 if any(wrong for _, wrong in points) else 0


if __name__ == "__main__":
    sys.exit(main())
