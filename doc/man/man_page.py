#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A manual page of a page of doc/, by lowdown.

usage: man_page.py LOWDOWN NAME SECTION WHAT VERSION PAGE OUTPUT

WHAT is what `whatis` prints. Links to other pages lose their targets: the text stays, and SEE ALSO names the folder. Tables become
tagged paragraphs: a terminal is too narrow for their columns."""
import re
import subprocess
import sys

DOCUMENTS = "/usr/share/doc/uroce"


def plain_links(text):
    """[text](target) is text; a link to the Internet keeps its address."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


def cells(row):
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]


def tagged(rows):
    """The rows of a table as definitions: the first cell that is not empty, and of the others each with its column's title."""
    titles, lines = cells(rows[0]), []
    for row in rows[2:]:
        filled = [(title, cell) for title, cell in zip(titles, cells(row), strict=True) if cell]
        lines += [filled[0][1], ": " + "; ".join(f"{title}: {cell}" if title else cell for title, cell in filled[1:]), ""]
    return lines


def plain_tables(text):
    lines, table = [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            table.append(line)
            continue
        lines += [*(tagged(table) if table else []), line]
        table = []
    return "\n".join(lines)


def page(lowdown, name, section, what, version, text):
    title, body = text.split("\n", 1)
    if not title.startswith("# "):
        raise SystemExit("the page has no title")
    command = [lowdown, "-s", "-Tman", "--parse-no-metadata", "--parse-no-intraemph"]  # no emphasis within CAP_SYS_ADMIN
    made = subprocess.run(command, input=plain_tables(plain_links(body)), capture_output=True, text=True, check=True).stdout
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
