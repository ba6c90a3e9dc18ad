#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A manual page of a page of doc/, by lowdown.

usage: man_page.py LOWDOWN NAME SECTION WHAT VERSION PAGE OUTPUT

WHAT is what `whatis` prints. Links to other pages lose their targets: the text stays, and SEE ALSO names the folder."""
import re
import subprocess
import sys

DOCUMENTS = "/usr/share/doc/uroce"


def plain_links(text):
    """[text](target) is text; a link to the Internet keeps its address."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


def page(lowdown, name, section, what, version, text):
    title, body = text.split("\n", 1)
    if not title.startswith("# "):
        raise SystemExit("the page has no title")
    made = subprocess.run([lowdown, "-s", "-Tman", "--parse-no-metadata"], input=plain_links(body), capture_output=True, text=True,
                          check=True).stdout
    # Its headings become sections (SH) and subsections; before the first of them is the description.
    made = "\n".join(line for line in made.splitlines() if not line.startswith(".TH")).replace("\\fC", "\\fB")
    return (f'.TH {name} {section} "" "uroce {version}" "uroce"\n'
            f".SH NAME\n{name} \\- {what}\n.SH DESCRIPTION\n{made}\n"
            f".SH SEE ALSO\nuroce(1), uroce\\-perf(1), uroced(8), and the pages in {DOCUMENTS}\n")


def main():
    lowdown, name, section, what, version, source, output = sys.argv[1:]
    with open(source) as file:
        text = file.read()
    with open(output, "w") as file:
        file.write(page(lowdown, name, section, what, version, text))


if __name__ == "__main__":
    main()
